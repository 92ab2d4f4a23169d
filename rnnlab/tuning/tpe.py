"""Optuna's tree-structured Parzen estimator as one of our samplers."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rnnlab.errors import TuningError
from rnnlab.integers import keep_integers
from rnnlab.tuning.announcements import no_announcements
from rnnlab.tuning.dimensions import AbstractDimension, Category, Integer, Value
from rnnlab.tuning.distinct import key, random_points
from rnnlab.tuning.observations import Observation
from rnnlab.tuning.optuna_positions import distribution, parameter
from rnnlab.tuning.samplers import AbstractSampler, check_request
from rnnlab.tuning.space import Point, SearchSpace

if TYPE_CHECKING:
    import optuna

_TRIES = 10


@dataclass(frozen=True)
class TpeSampler(AbstractSampler):
    """Optuna's TPE on our spaces: quick, and less exact than the Gaussian process.

    It learns ranks only, so an infeasible point counts as worse than all others.

    Args:
        num_startup: so many points are random.
    """

    num_startup: int = 10

    def __post_init__(self) -> None:
        keep_integers(self, TuningError, num_startup=1)

    def suggest(
        self, space: SearchSpace, observations: Sequence[Observation], count: int, *, generator: np.random.Generator
    ) -> tuple[Point, ...]:
        """See `AbstractSampler.suggest`."""
        check_request(space, observations, count)
        study = self._study(space, observations, int(generator.integers(2**31)))
        taken = {key(each.point) for each in observations}
        found: list[Point] = []
        for _ in range(_TRIES * count):
            point = _asked(study, space)
            if key(point) not in taken:
                taken.add(key(point))
                found.append(point)
            if len(found) == count:
                return tuple(found)
        seen = [each.point for each in observations] + found
        rest = [point for point in random_points(space, len(seen) + count, seen, generator) if point not in found]
        return (*found, *rest[: count - len(found)])

    def _study(self, space: SearchSpace, observations: Sequence[Observation], seed: int) -> "optuna.Study":
        import optuna

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            tpe = optuna.samplers.TPESampler(seed=seed, n_startup_trials=self.num_startup, constant_liar=True)
        with no_announcements():
            study = optuna.create_study(storage=optuna.storages.InMemoryStorage(), sampler=tpe, study_name="tpe")
        study.add_trials(_trials(space, observations))
        return study


def _trials(space: SearchSpace, observations: Sequence[Observation]) -> "list[optuna.trial.FrozenTrial]":
    from optuna.trial import TrialState, create_trial

    worst = max((each.value for each in observations if each.value is not None), default=0.0) + 1.0
    values = {"infeasible": worst, "pending": None}
    states = {"pending": TrialState.RUNNING}
    dimensions = {each.name: each for each in space}
    return [
        create_trial(
            state=states.get(each.state, TrialState.COMPLETE),
            value=values.get(each.state, each.value),
            params={name: parameter(dimensions[name], value) for name, value in each.point.items()},
            distributions={name: distribution(dimensions[name]) for name in each.point},
        )
        for each in observations
    ]


def _asked(study: "optuna.Study", space: SearchSpace) -> dict[str, Value]:
    trial = study.ask()
    point: dict[str, Value] = {}
    for dimension in space:
        if space.is_active(dimension, point):
            point[dimension.name] = _suggested(trial, dimension)
    return point


def _suggested(trial: "optuna.Trial", dimension: AbstractDimension) -> Value:
    match dimension:
        case Integer():
            return trial.suggest_int(dimension.name, dimension.low, dimension.high, log=dimension.scale == "log")
        case Category():
            chosen: Any = trial.suggest_categorical(dimension.name, dimension.choices)
            return chosen
        case _:
            return dimension.at(trial.suggest_float(dimension.name, 0.0, 1.0))
