"""An arm of a study: one architecture on one task, with its search space and its budget of trials."""

import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rnnlab.architecture.architecture import Architecture
from rnnlab.engine.model import PATHS, PRECISIONS
from rnnlab.errors import RnnlabError, TuningError
from rnnlab.integers import keep_integers
from rnnlab.tasks.data_tasks import AbstractDataTask
from rnnlab.tasks.registry import DIGEST, digest_json, task_file
from rnnlab.tasks.registry import task as named_task
from rnnlab.tasks.task import SPLITS, AbstractTask, Score
from rnnlab.training.fitting import check_fit
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.tuning.binding import bind, check_space, task_of
from rnnlab.tuning.plain_samplers import GridSampler
from rnnlab.tuning.samplers import AbstractSampler, sampler
from rnnlab.tuning.space import SearchSpace


@dataclass(frozen=True, kw_only=True)
class Arm:
    """What is tuned, and how; checked when it is made.

    Args:
        name: its name in the study.
        architecture: what is trained.
        task: what it is trained on.
        space: the hyperparameters and task arguments that are tuned.
        num_trials: how many points are tried.
        hyperparameters: those that are not tuned. Their seed is replaced by the arm's, so that all trials start from
            the same random numbers (C10), unless `seed` is a dimension of the space.
        sampler: the name of what suggests the points.
        sampler_options: its options, by name.
        seed: the seed of suggestions, networks and batches.
        path, precision: as in `train`.
        population: how many networks are trained at once, and therefore how many points are suggested at a time; by
            default as many as suit the device. With small populations, a sampler learns from results more often.
        known_score: the score to tune for, if it is known from a record. By default the task is asked, and some tasks
            can answer only with their data files.
    """

    name: str
    architecture: Architecture
    task: AbstractTask
    space: SearchSpace
    num_trials: int
    hyperparameters: Hyperparameters = field(default_factory=Hyperparameters)
    sampler: str = "gp"
    sampler_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seed: int = 0
    path: str = "auto"
    precision: str = "float32"
    population: int | None = None
    known_score: Score | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_name("an arm", self.name)
        _check_can_be_read(self.task)
        keep_integers(self, TuningError, num_trials=1, seed=0)
        if self.population is not None:
            keep_integers(self, TuningError, population=1)
        for field_name, known in (("path", PATHS), ("precision", PRECISIONS)):
            if getattr(self, field_name) not in known:
                raise TuningError(f"{field_name} is one of {', '.join(known)}, got {getattr(self, field_name)!r}")
        base = self.hyperparameters.changed(seed=self.seed)
        object.__setattr__(self, "hyperparameters", base)
        self._check_grid(self.new_sampler())
        check_space(self.space, base, self.architecture, self.task)
        setting = bind(self.space.sample(np.random.default_rng(0)), base, self.architecture, self.task)
        try:
            check_fit(self.architecture, task_of([setting], self.task), [setting.hyperparameters])
        except RnnlabError as error:
            raise TuningError(f"arm {self.name} cannot be trained: {error}") from error

    def _check_grid(self, chosen: AbstractSampler) -> None:
        """Refuse more trials than a grid has points."""
        if isinstance(chosen, GridSampler):
            num_points = chosen.num_points(self.space, self.num_trials)
            if num_points < self.num_trials:
                raise TuningError(
                    f"arm {self.name}: the grid has {num_points} points, not {self.num_trials}: try no more"
                )

    @property
    def score(self) -> Score:
        """The score that is tuned for: the task's watched score, on validation."""
        return self.known_score or self.task.scores[0]

    @property
    def is_maximised(self) -> bool:
        """Whether higher values are better."""
        return self.score.better == "higher"

    @property
    def content(self) -> str:
        """What makes two arms the same, whatever they are called and however many trials they have."""
        return json.dumps(self.to_json() | {"name": "", "num_trials": 0}, sort_keys=True)

    def new_sampler(self) -> AbstractSampler:
        """The sampler that suggests points."""
        return sampler(self.sampler, **self.sampler_options)

    def generator(self, first: int) -> np.random.Generator:
        """The random numbers for suggestions from trial number `first` on, which depend on it and the seed only."""
        return np.random.default_rng([self.seed, first])

    def to_json(self) -> dict[str, Any]:
        """All values; `from_json` reads them back."""
        values = {
            "name": self.name,
            "architecture": self.architecture.to_json(),
            "task": task_json(self.task),
            "space": self.space.to_json(),
            "num_trials": self.num_trials,
            "hyperparameters": self.hyperparameters.to_json(),
            "sampler": self.sampler,
            "sampler_options": dict(self.sampler_options),
            "seed": self.seed,
            "path": self.path,
            "precision": self.precision,
            "population": self.population,
        }
        # as it comes back from a store: lists for tuples, plain integers for numpy's
        return json.loads(json.dumps(values, default=operator.index))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Arm":
        """The inverse of `to_json`."""
        made: dict[str, Any] = {
            "task": task_from_json(values["task"]),  # before the architecture, whose cells its file may register
            "architecture": Architecture.from_json(values["architecture"]),
            "space": SearchSpace.from_json(values["space"]),
            "hyperparameters": Hyperparameters.from_json(values["hyperparameters"]),
        }
        return cls(**(dict(values) | made))


def require_data(arms: Sequence[Arm]) -> None:
    """Refuse arms whose task lacks its files, before anything is written down.

    Raises:
        TaskError: saying which files, and where they are published.
    """
    for task in dict.fromkeys(arm.task for arm in arms if isinstance(arm.task, AbstractDataTask)):
        for split in SPLITS:
            next(task.batches(split, 1))


def task_json(task: AbstractTask) -> dict[str, Any]:
    """A task by name and arguments; one that was read from a file by the file's name, with a digest of its content."""
    found = task_file(task)
    name = {} if found is None else {"name": str(found.path)}
    return task.to_json() | name | digest_json(task)


def task_from_json(values: Mapping[str, Any]) -> AbstractTask:
    """The inverse of `task_json`; a file that has moved is also looked for in the current folder.

    A file that was edited since is accepted: results that exist can still be read.
    """
    arguments = {name: value for name, value in values.items() if name != DIGEST}
    path = Path(arguments["name"])
    if path.suffix == ".py" and not path.exists():
        if not Path(path.name).exists():
            raise TuningError(
                f"cannot read {path}, the file of its task: put a copy into this folder or beside the record"
            )
        arguments["name"] = path.name
    return named_task(**arguments)


def _check_can_be_read(task: AbstractTask) -> None:
    """Refuse a task that nobody could build again from what is written down, however well it was trained."""
    if task_file(task) is not None:
        return
    kind = type(task)
    try:
        is_same = task_from_json(json.loads(json.dumps(task_json(task)))) == task
    except (RnnlabError, TypeError):
        is_same = False
    if not is_same:
        raise TuningError(
            f"task {task.name} is of class {kind.__name__}, which a store cannot hold: "
            "put the class into a .py file and use task('FILE.py')"
        )


def check_name(kind: str, name: Any) -> None:
    """Refuse a name that a store, or a folder, could not have.

    >>> check_name("a study", "a/b")
    Traceback (most recent call last):
    rnnlab.errors.TuningError: the name of a study is a text without slashes, of 1 to 200 characters, got 'a/b'
    """
    is_text = isinstance(name, str) and 0 < len(name) <= 200 and name == name.strip()
    if not is_text or set(name) & set("/\\\0") or name in (".", ".."):
        raise TuningError(f"the name of {kind} is a text without slashes, of 1 to 200 characters, got {name!r}")
    if kind == "a study" and (name.startswith("-") or name.endswith((".json", ".json.gz", ".toml"))):
        raise TuningError(
            f"the name of a study may not begin with - or end like a file, or commands misread it: {name!r}"
        )
