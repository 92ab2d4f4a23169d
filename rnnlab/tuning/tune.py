"""Tune the hyperparameters of one architecture on one task: the simplest study, with one arm."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rnnlab.architecture.architecture import Architecture, checked_architecture
from rnnlab.errors import TuningError
from rnnlab.tasks.registry import task as named_task
from rnnlab.tasks.task import AbstractTask
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.tuning.arms import Arm, require_data
from rnnlab.tuning.binding import given_arguments, written_arguments
from rnnlab.tuning.distinct import key as point_key
from rnnlab.tuning.events import TuningEvent
from rnnlab.tuning.lots import GRACE
from rnnlab.tuning.plain_samplers import GridSampler
from rnnlab.tuning.samplers import sampler as make_sampler
from rnnlab.tuning.space import SearchSpace
from rnnlab.tuning.spaces import NamedSpace, cells_of, check_given, named_space, without_given
from rnnlab.tuning.store import DEFAULT, Store
from rnnlab.tuning.trials import Trial, Trials
from rnnlab.tuning.work import Work
from rnnlab.tuning.worker import work

USUAL_TRIALS = 100


@dataclass(frozen=True, kw_only=True, repr=False)
class Tuning:
    """The result of tuning.

    Args:
        name: the name of the study.
        store: where it is.
        arm: what was tuned.
        trials: all trials so far, by number.
        is_complete: whether all have ended; if not, calling `tune` again continues.
    """

    name: str
    store: str
    arm: Arm
    trials: Sequence[Trial]
    is_complete: bool

    @property
    def best(self) -> Trial | None:
        """The trial with the best value; None if no trial is complete."""
        return best_trial(self.trials, is_maximised=self.arm.is_maximised)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The trials as rows of a table."""
        return [trial.row() for trial in self.trials]

    def __repr__(self) -> str:
        ended = sum(trial.has_ended for trial in self.trials)
        best = "" if self.best is None else f", best {self.arm.score.name} {_shown(self.best.value)}"
        return f"<Tuning: {self.name}, {ended} of {self.arm.num_trials} trials{best}>"

    def __str__(self) -> str:
        states = [trial.state for trial in self.trials]
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states)) or "no trials"
        lines = [f"study {self.name} in {self.store}: {counts} of {self.arm.num_trials}"]
        if (best := self.best) is not None:
            score = self.arm.score.name
            test = _shown(best.scores["test"].get(score))
            lines.append(f"best: trial {best.number}, {score} {_shown(best.value)} on validation, {test} on test")
            lines += [f"  {name}={_shown(value)}" for name, value in best.point.items()]
        return "\n".join(lines)


def tune(
    architecture: Architecture,
    task: AbstractTask | Mapping[str, Any],
    space: SearchSpace | NamedSpace | str | None = None,
    *,
    trials: int | None = None,
    sampler: str = "gp",
    sampler_options: Mapping[str, Any] | None = None,
    hyperparameters: Hyperparameters | Mapping[str, Any] | None = None,
    store: str | Path = DEFAULT,
    name: str | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    path: str = "auto",
    precision: str = "float32",
    population: int | None = None,
    checkpoints: str | Path | None = None,
    save_every: int | None = None,
    report: Callable[[TuningEvent], None] | None = None,
    report_every: int = 100,
    stop: Callable[[], bool] | None = None,
    grace: float = GRACE,
) -> Tuning:
    """Find good hyperparameters of an architecture for a task.

    Called again with the same arguments, it continues where it stopped, or returns the result that is already there;
    with more trials it adds some. Several processes that call it with the same store share the work.

    Args:
        architecture: what to tune.
        task: what to train it on, or a table with its name and arguments. Tuning improves the task's watched score on
            validation.
        space: what to tune: a space, the space of a paper together with the values it fixes (`named_space`), or only
            the name of such a space; by default that of Collins et al.
        trials: how many points to try; by default 100, or all of a grid that has fewer.
        sampler, sampler_options: the sampler, `gp`, `random`, `grid` or `tpe`, and its own options.
        hyperparameters: those that are not tuned, all of them or some by name. What is given here, by name or as a
            value other than the default, is taken out of a paper's space, and so are arguments given to the task.
        store: a SQLite file, or the URL of a PostgreSQL database.
        name: the name of the study; by default derived from everything that decides its result.
        seed: the seed of everything random.
        device, population, checkpoints, save_every, report, report_every, stop, grace: as in `Work`.
        path, precision: as in `train`.

    Raises:
        TuningError: the arguments do not fit together, or the store cannot be used.

    >>> from rnnlab import architecture, task
    >>> from rnnlab.tuning.dimensions import Float
    >>> adding = task("adding", length=5, num_evaluation=50)
    >>> network = architecture("tanh", input_size=2, output_size=1, units=4)
    >>> space = SearchSpace([Float("learning_rate", 1e-3, 1e-1, "log")])
    >>> short = Hyperparameters(num_steps=10, evaluate_every=5, batch_size=4)
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tuning = tune(network, adding, space, trials=4, sampler="random", hyperparameters=short,
    ...                   store=f"{folder}/rnnlab.db", name="first")
    >>> [trial.state for trial in tuning.trials], tuning.best.value < 1.2
    (['complete', 'complete', 'complete', 'complete'], True)
    """
    _check_objects(architecture, task, space, hyperparameters)
    chosen = task if isinstance(task, AbstractTask) else named_task(**task)
    written = given_arguments(written_arguments(task) if isinstance(task, AbstractTask) else _arguments(task))
    tuned, base = _tuned_and_fixed(space, architecture, chosen, _given(hyperparameters), written)
    arm = Arm(
        name="+".join(cells_of(architecture)),
        architecture=architecture,
        task=chosen,
        space=tuned,
        num_trials=_num_trials(tuned, sampler, sampler_options or {}) if trials is None else trials,
        hyperparameters=base,
        sampler=sampler,
        sampler_options=sampler_options or {},
        seed=seed,
        path=path,
        precision=precision,
    )
    how = Work(
        device=device,
        population=population,
        checkpoints=checkpoints,
        save_every=save_every,
        report=report,
        report_every=report_every,
        stop=stop,
        grace=grace,
    )
    require_data([arm])
    place, study = Store(store), name or _name(arm)
    try:
        place.add_study(study, [arm])
        work(place, study, [arm], how)
        return _tuning(place, study, arm)
    finally:
        place.close()


def _tuned_and_fixed(
    space: SearchSpace | NamedSpace | str | None,
    architecture: Architecture,
    task: AbstractTask,
    given: Mapping[str, Any],
    written: Mapping[str, Any],
) -> tuple[SearchSpace, Hyperparameters]:
    """What is tuned, and the values of all else: what a user gives leaves a paper's space and overrides its values.

    Args:
        space, architecture, task: as for `tune`.
        given: hyperparameters that are given, by name.
        written: arguments of the task that are given, by the names of their dimensions.
    """
    base = Hyperparameters().changed(**given)
    everything_given = {**given, **written}
    if isinstance(space, SearchSpace):
        tuned = space
    else:
        found = space if isinstance(space, NamedSpace) else named_space(space, architecture, task)
        tuned, base = without_given(found.space, everything_given), base.changed(**{**found.fixed, **given})
    check_given(tuned, everything_given, "take it out of the space, or do not give it")
    return tuned, base


def _arguments(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != "name"}


def _given(hyperparameters: Hyperparameters | Mapping[str, Any] | None) -> dict[str, Any]:
    """The hyperparameters given by name or, of a whole `Hyperparameters`, those that differ from their defaults."""
    if not isinstance(hyperparameters, Hyperparameters):
        return dict(hyperparameters or {})
    ours, defaults = hyperparameters.by_name(), Hyperparameters().by_name()
    return {name: value for name, value in ours.items() if value != defaults[name]}


def _tuning(store: Store, name: str, arm: Arm) -> Tuning:
    trials = Trials(store, name, arm).all()
    is_complete = sum(trial.has_ended for trial in trials) >= arm.num_trials
    return Tuning(name=name, store=store.place, arm=arm, trials=trials, is_complete=is_complete)


def _check_objects(architecture: Any, task: Any, space: Any, hyperparameters: Any) -> None:
    """Refuse names and tables in place of what they stand for, with the way to it."""
    checked_architecture(architecture, "tune", TuningError)
    if isinstance(task, str):
        raise TuningError(f"tune takes an object for its task: task({task!r}, ...) makes one")
    if not isinstance(task, AbstractTask | Mapping):
        raise TuningError(f"tune takes a task, or a table of its name and arguments, got {task!r}"[:300])
    if not isinstance(space, SearchSpace | NamedSpace | str | None):
        hint = ": SearchSpace.from_json(table) makes one" if isinstance(space, Mapping) else ""
        raise TuningError(f"tune takes a SearchSpace or the name of one, got {space!r}"[:300] + hint)
    if not isinstance(hyperparameters, Hyperparameters | Mapping | None):
        raise TuningError(f"tune takes Hyperparameters, or some of them by name, got {hyperparameters!r}"[:300])


def _num_trials(space: SearchSpace, sampler: str, options: Mapping[str, Any]) -> int:
    chosen = make_sampler(sampler, **options)
    if isinstance(chosen, GridSampler):
        return chosen.num_points(space, USUAL_TRIALS)
    return USUAL_TRIALS


def best_trial(trials: Sequence[Trial], *, is_maximised: bool) -> Trial | None:
    """The complete trial with the best value, the first of equals; None if there is none."""
    return next(iter(best_trials(trials, 1, is_maximised=is_maximised)), None)


def best_trials(trials: Sequence[Trial], count: int, *, is_maximised: bool) -> tuple[Trial, ...]:
    """The complete trials with the best values at `count` different points; fewer if there are no more.

    The best comes first; equal ones keep their order.
    """
    sign = -1 if is_maximised else 1
    complete = [trial for trial in trials if trial.value is not None]
    found: dict[Any, Trial] = {}
    for trial in sorted(complete, key=lambda trial: sign * (trial.value or 0.0)):
        found.setdefault(point_key(trial.point), trial)
    return tuple(found.values())[:count]


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _name(arm: Arm) -> str:
    """A name that changes with everything but the number of trials."""
    values = {key: value for key, value in arm.to_json().items() if key != "num_trials"}
    digest = hashlib.blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=4).hexdigest()
    return f"{arm.task.name}-{digest}"
