"""The main job: a fair comparison of architectures, from their names to a report.

sizes          every architecture as wide as the same number of parameters allows
tuning         the same number of trials, or the same time, for each
seeds          the best setting of each, trained again from other initial weights
tests          Welch's t-test of all pairs, corrected; intervals
report         the verdict, figures, tables and the command that repeats it
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Unpack

import torch

from rnnlab.architecture.architecture import Architecture
from rnnlab.errors import TuningError
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.elements import as_plain
from rnnlab.integers import as_integer
from rnnlab.report.report import Report, make_report, report_path
from rnnlab.studies.budget import FIRST_ROUND, run_within, seconds_from_words
from rnnlab.studies.expansion import expand
from rnnlab.studies.run import WorkOptions, run_study
from rnnlab.studies.specification import StudySpec
from rnnlab.tasks.registry import digest_json
from rnnlab.tasks.registry import task as named_task
from rnnlab.tasks.task import AbstractTask
from rnnlab.training.writable import check_writable
from rnnlab.tuning.arms import Arm, require_data, task_json
from rnnlab.tuning.binding import written_arguments
from rnnlab.tuning.populations import population_size
from rnnlab.tuning.space import SearchSpace
from rnnlab.tuning.spaces import SPACES
from rnnlab.tuning.store import DEFAULT

SEEDS = 10
TRIALS = 32
EVALUATIONS = 20  # of a training run, evenly
ROUNDS = 4  # of suggestions at least, each of which knows how those before it fared
FEWEST_AT_ONCE = 4  # networks, where there are so many trials: alone they take much longer

STEPS = {
    "adding": 2000,
    "copying": 3000,
    "recall": 2000,
    "memory": 5000,
    "capacity": 5000,
    "rcf": 5000,
    "parentheses": 3000,
    "arithmetic": 10_000,
    "sst": 2000,
    "jsb-chorales": 2000,
}
"""The default number of training steps of a comparison: enough for a difference to show on a laptop."""

OTHER_STEPS = 5000


def compare(
    architectures: Sequence[str],
    task: str | Mapping[str, Any] | AbstractTask,
    *,
    parameters: int,
    trials: int | None = None,
    budget: str | float | None = None,
    seeds: int = SEEDS,
    steps: int | None = None,
    space: str | Mapping[str, Any] | SearchSpace | None = None,
    sampler: str = "gp",
    hyperparameters: Mapping[str, Any] | None = None,
    seed: int = 0,
    precision: str = "float32",
    store: str | Path = DEFAULT,
    name: str | None = None,
    workers: int = 1,
    output: str | Path | None = None,
    **options: Unpack[WorkOptions],
) -> Report:
    """Compare architectures fairly: equal parameters, equal tuning, several seeds, a statistical test.

    Called again with the same arguments, it continues where it stopped.

    Args:
        architectures: names of the catalogue, such as `td` or `td:lstm`, and JSON files of your own.
        task: a name, a table with a name and arguments, or a task.
        parameters: the largest number of parameters a network may have; all are made as wide as that allows.
        trials: how many hyperparameter settings are tried for each; 32 if neither this nor a budget is given.
        budget: instead of `trials`, the time for everything, as text such as "10m" or in seconds; each architecture has
            the same share of it.
        seeds: how often the best setting of each is trained again.
        steps: the number of steps of each training run; by default what suits the task (STEPS).
        space: what to tune: the name of a paper's space, a `SearchSpace`, or a table as in a specification; by default
            the space of Collins et al. for each architecture's cells.
        sampler: the sampler that suggests settings.
        hyperparameters: the values of those that are not tuned, by name; they leave the space.
        seed: the seed of everything random.
        precision: as in `train`.
        store: a SQLite file, or the URL of a PostgreSQL database.
        name: the name of the study; by default derived from everything that decides its result.
        workers: how many processes share the work.
        output: where to write the report: a .html, .md or .json file, or a folder, in which an HTML file is named after
            the study.
        options: device, report, stop and the rest, as in `Work`. Without a `population`, trials come in at least four
            rounds of suggestions (ROUNDS).

    Raises:
        RnnlabError: before any work starts, if something cannot be done as asked.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = compare(["sh", "td"], {"name": "adding", "length": 5, "num_evaluation": 50}, parameters=60,
    ...                      trials=2, seeds=2, steps=4, store=f"{folder}/rnnlab.db", output=f"{folder}/report.html")
    ...     Path(f"{folder}/report.html").read_text()[:15]
    '<!doctype html>'
    >>> [each.num_parameters for each in report.comparison.contenders]
    [51, 58]
    """
    if trials is not None and budget is not None:
        raise TuningError("give trials, or a budget of time; got both")
    seconds = _seconds(budget)
    parameters = as_integer(parameters, "parameters", TuningError, 1)
    trials = None if trials is None else as_integer(trials, "trials", TuningError, 1)
    seeds = as_integer(seeds, "seeds, since one run tells nothing,", TuningError, 2)
    steps = None if steps is None else as_integer(steps, "steps", TuningError, 1)
    seed = as_integer(seed, "seed", TuningError, 0)
    contest = _contest(architectures, task, parameters, steps, _given(hyperparameters))
    contest |= {"sampler": sampler, "seed": seed, "precision": precision}
    if space is not None:
        contest["space"] = space.to_json() if isinstance(space, SearchSpace) else space
    contest = _without_given(contest)
    limit = {"trials": TRIALS if trials is None else trials} if seconds is None else {"seconds": seconds}
    chosen = name or _name(contest | limit)
    path = None if output is None else report_path(output, chosen)
    if seconds is None:
        spec = StudySpec.from_json({"name": chosen, **contest, **limit, "seeds": seeds})
        arms = _check_before_work(spec, path)
        if options.get("population") is None:
            options["population"] = _population(arms, options.get("device", "cpu"))
        record = run_study(spec, store=store, workers=workers, **options)
    else:
        first = _timed(chosen, contest, dict.fromkeys(architectures, FIRST_ROUND), seeds)
        names = [arm.name for arm in _check_before_work(first, path)]

        def make(counts: Mapping[str, int], num_seeds: int) -> StudySpec:
            return _timed(chosen, contest, dict(zip(architectures, counts.values(), strict=True)), num_seeds)

        record = run_within(make, names, seconds=seconds, num_seeds=seeds, store=store, workers=workers, **options)
    report = make_report(record)
    if path is None or not record.is_complete:
        return report
    return report.save(path)


def _seconds(budget: str | float | None) -> float | None:
    if budget is None:
        return None
    if isinstance(budget, str):
        return seconds_from_words(budget)
    if isinstance(budget, bool) or not budget > 0:
        raise TuningError(f"a budget is a time such as '10m', or seconds above 0, got {budget!r}")
    return float(budget)


def _contest(
    architectures: Sequence[str],
    task: str | Mapping[str, Any] | AbstractTask,
    parameters: int,
    steps: int | None,
    hyperparameters: dict[str, Any],
) -> dict[str, Any]:
    """What is compared, as keys of a specification."""
    names = _different(architectures)
    table = _table(task)
    if not isinstance(table.get("name"), str):
        raise TuningError(f"a task is a name, or a table with a name and arguments, got {task!r}"[:300])
    named_task(**table)  # reports a wrong task before an architecture is blamed for it
    if steps is not None and "num_steps" in hyperparameters:
        raise TuningError("steps and num_steps are the same: give one of them")
    given = {} if steps is None else {"num_steps": steps}
    num_steps = (given | hyperparameters).get("num_steps", STEPS.get(table["name"], OTHER_STEPS))
    every = max(1, num_steps // EVALUATIONS) if isinstance(num_steps, int) else 1
    shared = {"num_steps": num_steps, "evaluate_every": every} | hyperparameters
    return {"task": table, "architectures": names, "parameters": parameters, "hyperparameters": shared}


def _table(task: str | Mapping[str, Any] | AbstractTask) -> dict[str, Any]:
    """Name and arguments of a task; of an object, only the arguments that differ from their defaults."""
    if isinstance(task, AbstractTask):
        written = {"name", *written_arguments(task)}
        return {key: value for key, value in task_json(task).items() if key in written}
    return {"name": task} if isinstance(task, str) else dict(task)


def _given(hyperparameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """The hyperparameters that are not tuned, by name: a `Hyperparameters` would not say which ones are meant."""
    if hyperparameters is not None and not isinstance(hyperparameters, Mapping):
        raise TuningError(
            "hyperparameters are a table of those that are not tuned, such as {'learning_rate': 0.01}, "
            f"got {hyperparameters!r}"[:300]
        )
    return {name: as_plain(value) for name, value in (hyperparameters or {}).items()}


_SAVED_BY = {CyclicGraph: "save_graph(graph, 'mine.json')", Architecture: "save_architecture(network, 'mine.json')"}


def _different(architectures: Sequence[str]) -> list[str]:
    """The names, checked to be two or more and all different."""
    names = [architectures] if isinstance(architectures, str | CyclicGraph | Architecture) else list(architectures)
    for each in names:
        if not isinstance(each, str):  # a study is a specification, which names what it compares
            hint = f": {_SAVED_BY[type(each)]} and give 'mine.json'" if type(each) in _SAVED_BY else ""
            raise TuningError(f"an architecture is a name or a JSON file, got {each!r}"[:300] + hint)
    if len(names) < 2:
        alone = f": {names[0]} alone has nothing to be compared with" if names else ""
        raise TuningError(f"a comparison needs two architectures or more{alone}; `rnnlab list` shows them")
    if twice := next((each for each in names if names.count(each) > 1), None):
        raise TuningError(f"{twice} is named twice: a comparison needs different architectures")
    return names


def _without_given(contest: dict[str, Any]) -> dict[str, Any]:
    """Take hyperparameters that are given out of the search space."""
    bare = {key: value for key, value in contest.items() if key != "hyperparameters"}
    spaces = [row.arm.space for row in expand(StudySpec.from_json({"name": "spaces", **bare, "trials": 1}))]
    given = [name for name in contest["hyperparameters"] if any(name in space.names for space in spaces)]
    if not given:
        return contest
    base = contest.get("space", "collins")
    if not isinstance(base, str) or base not in SPACES:
        raise TuningError(f"hyperparameter {given[0]} is both given and tuned: take it out of the space")
    return contest | {"space": {"base": base, "without": given}}


def _timed(name: str, contest: Mapping[str, Any], trials: Mapping[str, int], num_seeds: int) -> StudySpec:
    """The specification of a comparison in which each architecture has its own number of trials."""
    shared = {key: value for key, value in contest.items() if key != "architectures"}
    arms = [{"architectures": each, "trials": count} for each, count in trials.items()]
    return StudySpec.from_json({"name": name, **shared, "arms": arms, "seeds": num_seeds})


def _population(arms: Sequence[Arm], device: torch.device | str) -> int:
    """How many networks to train at once: what suits the device, but few enough for the tuner to learn on the way."""
    liked = min(population_size(arm, device) for arm in arms)
    return min(liked, max(FEWEST_AT_ONCE, math.ceil(arms[0].num_trials / ROUNDS)))


def _check_before_work(spec: StudySpec, path: Path | None) -> list[Arm]:
    """Refuse, before hours of training, what would fail during or after them; returns the arms."""
    arms = [row.arm for row in expand(spec)]
    for one, other in combinations(arms, 2):
        if one.architecture == other.architecture:
            raise TuningError(f"{one.name} and {other.name} are the same network: a comparison needs different ones")
    require_data(arms)
    if path is not None:
        check_writable(path, TuningError)
    return arms


def _name(values: Mapping[str, Any]) -> str:
    """A name that changes with everything that decides the result."""
    known = {**values, **digest_json(named_task(**values["task"]))}
    digest = hashlib.blake2b(json.dumps(known, sort_keys=True).encode(), digest_size=4).hexdigest()
    return f"compare-{Path(values['task']['name']).stem}-{digest}"
