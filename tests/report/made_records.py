"""Records of studies that were never run: real specifications, with results drawn from a generator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rnnlab.studies.expansion import expand
from rnnlab.studies.records import ArmRecord, Finalist, StudyRecord
from rnnlab.studies.repeats import repeated
from rnnlab.studies.specification import StudySpec
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.binding import bind
from rnnlab.tuning.space import Point
from rnnlab.tuning.trials import Trial
from rnnlab.tuning.tune import best_trials

STEPS = tuple(range(100, 2001, 100))
RUN = {"path": "cpu", "device": "cpu", "precision": "float32", "seed": 0, "rnnlab": "0.1.0", "torch": "2.11"}

Outcome = Callable[[str, int, np.random.Generator], float | None]


def spec(**changes: Any) -> StudySpec:
    values: dict[str, Any] = {
        "name": "demo",
        "task": {"name": "adding", "length": 20, "num_evaluation": 100},
        "architectures": ["sh", "st", "td", "lstm"],
        "parameters": 1000,
        "trials": 30,
        "seeds": 10,
        "hyperparameters": {"num_steps": 2000, "evaluate_every": 100, "batch_size": 20},
    }
    return StudySpec.from_json({key: value for key, value in (values | changes).items() if value is not None})


def trial(arm: Arm, number: int, point: Point, value: float | None, score: float | None = None) -> Trial:
    """A trial with a score on validation, another one on test, and a curve that falls to it; None: it diverged."""
    setting = bind(point, arm.hyperparameters, arm.architecture, arm.task)
    name, on_test = arm.score.name, value if score is None else score
    scores = {"train": {name: value}, "validation": {name: value}, "test": {name: on_test}} if value is not None else {}
    curve = {"steps": list(STEPS), "scores": {name: _falling(value)}, "losses": _falling(value)} if scores else {}
    return Trial(
        arm=arm.name,
        number=number,
        state="complete" if scores else "infeasible",
        point=point,
        hyperparameters=setting.hyperparameters,
        arguments=setting.arguments,
        seed=setting.hyperparameters.seed,
        num_parameters=arm.architecture.num_parameters(),
        value=value,
        scores=scores,
        outcome="finished" if scores else "infeasible",
        reason=None if scores else "the loss exploded",
        num_steps=STEPS[-1],
        best_step=STEPS[-1] if scores else None,
        wall_seconds=12.0,
        population=4,
        run=RUN,
        curve=curve,
    )


def _falling(value: float | None) -> list[float | None]:
    return [] if value is None else [value + (0.17 - value) * 0.8**place for place in range(len(STEPS))]


def record(made: StudySpec, tuned: Outcome, rerun: Outcome, seed: int = 0) -> StudyRecord:
    """A record whose values on validation and scores on test come from functions of arm and number."""
    generator = np.random.default_rng(seed)
    found: list[ArmRecord] = []
    for row in expand(made):
        arm = row.arm
        trials = tuple(
            trial(arm, number, arm.space.sample(generator), tuned(arm.name, number, generator))
            for number in range(arm.num_trials)
        )
        best = best_trials(trials, made.finalists if made.seeds else 0, is_maximised=arm.is_maximised)
        again = [repeated(arm, each, made.seeds, place) for place, each in enumerate(best, start=1)]
        finalists = tuple(Finalist(arm=each, trials=_reruns(each, rerun, generator)) for each in again)
        found.append(ArmRecord(arm=arm, labels=row.labels, trials=trials, finalists=finalists))
    return StudyRecord(name=made.study, store="rnnlab.db", spec=made, arms=tuple(found))


def _reruns(arm: Arm, rerun: Outcome, generator: np.random.Generator) -> tuple[Trial, ...]:
    """Runs over seeds; on validation data they do a little better than on test data."""
    values = [rerun(arm.name, number, generator) for number in range(arm.num_trials)]
    (dimension,) = arm.space.names
    return tuple(
        trial(arm, number, {dimension: number + 1}, None if value is None else 0.9 * value, value)
        for number, value in enumerate(values)
    )


LEVELS = {"sh": 0.12, "st": 0.03, "td": 0.004, "lstm": 0.005}


def tuned_like_the_levels(name: str, number: int, generator: np.random.Generator) -> float | None:
    if generator.random() < 0.15:
        return None
    return float(min(0.4, LEVELS.get(name, 0.05) * np.exp(abs(generator.normal(0, 1.6)))))


def near_the_levels(name: str, number: int, generator: np.random.Generator) -> float | None:
    if name == "sh" and number == 3:
        return None
    return float(LEVELS.get(name, 0.05) * np.exp(generator.normal(0, 0.25)))


def demo_record(**changes: Any) -> StudyRecord:
    """Four architectures: td and lstm about equal, st worse, sh worst."""
    return record(spec(**changes), tuned_like_the_levels, near_the_levels)


def with_scores(scores: Mapping[str, Sequence[float | None]], **changes: Any) -> StudyRecord:
    """A record whose architectures have these scores on test."""
    count = max(map(len, scores.values()))
    made = spec(architectures=list(scores), seeds=count, trials=2, **changes)
    return record(made, lambda *_: 0.1, lambda name, number, _: scores[name][number])


def unfinished(found: StudyRecord) -> StudyRecord:
    """The same with nothing trained over seeds yet, and one trial that is still running."""
    first = found.arms[0]
    running = replace(first.trials[-1], state="running", value=None, scores={}, outcome=None, run={}, curve={})
    arms = (replace(first, trials=(*first.trials[:-1], running)), *found.arms[1:])
    return replace(found, arms=tuple(replace(each, finalists=()) for each in arms))
