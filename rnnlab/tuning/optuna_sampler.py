"""The Gaussian process as an Optuna sampler, for anybody's study: `optuna.create_study(sampler=OptunaSampler())`."""

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.search_space import IntersectionSearchSpace
from optuna.trial import FrozenTrial, TrialState

from rnnlab.errors import TuningError
from rnnlab.integers import as_integer
from rnnlab.tuning.dimensions import AbstractDimension, Category, Float, Integer
from rnnlab.tuning.distinct import key
from rnnlab.tuning.gp_sampler import GaussianProcessSampler
from rnnlab.tuning.observations import Observation
from rnnlab.tuning.space import Point, SearchSpace

_STATES = (TrialState.COMPLETE, TrialState.FAIL, TrialState.RUNNING)


class OptunaSampler(optuna.samplers.BaseSampler):
    """Suggests points by `GaussianProcessSampler` in an Optuna study.

    A trial that failed, or that broke a constraint, counts as infeasible; a pruned one is not learned from. Parameters
    that not every trial has are drawn at random, unless `space` says when they are active.

    Args:
        batch_size: how many trials one fit of the process serves; ask for that many before reporting results of any.
        seed: the seed of the random numbers.
        space: the search space, with conditions and logit scales, which Optuna does not know. By default it is what all
            trials so far have in common.
        options: those of `GaussianProcessSampler`.

    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=OptunaSampler(batch_size=5, seed=0))
    >>> study.optimize(lambda trial: (trial.suggest_float("x", -10, 10) - 2) ** 2, n_trials=30)
    >>> study.best_value < 1e-3
    True
    """

    def __init__(
        self, *, batch_size: int = 1, seed: int | None = None, space: SearchSpace | None = None, **options: Any
    ) -> None:
        self._batch_size = as_integer(batch_size, "batch_size", TuningError, 1)
        self._space = space
        self._sampler = GaussianProcessSampler(**options)
        self._generator = np.random.default_rng(seed)
        self._independent = optuna.samplers.RandomSampler(seed=seed)
        self._common = IntersectionSearchSpace()
        self._waiting: list[Point] = []
        self._last: list[Point] = []
        self._waiting_for: SearchSpace | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def reseed_rng(self) -> None:
        """New random numbers, for a process that was forked."""
        self._generator = np.random.default_rng()
        self._independent.reseed_rng()
        self._waiting = []

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that the process suggests."""
        if self._space is not None:
            return self._space.distributions()
        common = self._common.calculate(study)
        return {name: each for name, each in common.items() if not each.single()}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The next point of the batch, or the first one of a new batch when it is used up."""
        if len(study.directions) != 1:
            raise TuningError("OptunaSampler minimises or maximises one value; this study has several")
        if not search_space:
            return {}
        translated = {} if self._space else {name: each for name, each in search_space.items() if _is_foreign(each)}
        space = self._space or SearchSpace([_dimension(name, each) for name, each in search_space.items()])
        with self._lock:
            if not self._waiting or self._waiting_for != space:
                self._waiting = self._batch(study, trial, space, translated)
                self._waiting_for, self._last = space, list(self._waiting)
            point = self._waiting.pop(0)
        return {name: _outward(translated.get(name), value) for name, value in point.items()}

    def _batch(
        self, study: optuna.Study, trial: FrozenTrial, space: SearchSpace, translated: Mapping[str, BaseDistribution]
    ) -> list[Point]:
        others = [each for each in study.get_trials(deepcopy=False, states=_STATES) if each.number != trial.number]
        sign = 1.0 if study.direction == optuna.study.StudyDirection.MINIMIZE else -1.0
        observations = [
            _observation(each, point, sign) for each in others if (point := _point(each, space, translated)) is not None
        ]
        if space == self._waiting_for:
            # a trial of another thread may not have written its parameters yet
            known = {key(each.point) for each in observations}
            observations += [Observation(point, None, "pending") for point in self._last if key(point) not in known]
        return list(self._sampler.suggest(space, observations, self._batch_size, generator=self._generator))

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A random value for a parameter that is new, or that not all trials have."""
        return self._independent.sample_independent(study, trial, param_name, param_distribution)


def _observation(trial: FrozenTrial, point: Point, sign: float) -> Observation:
    if trial.state == TrialState.RUNNING:
        return Observation(point, None, "pending")
    is_broken = any(value > 0 for value in trial.constraints.values())
    if is_broken or trial.value is None or not np.isfinite(trial.value):  # a trial that failed has no value
        return Observation(point, None, "infeasible")
    return Observation(point, sign * trial.value)


def _point(trial: FrozenTrial, space: SearchSpace, translated: Mapping[str, BaseDistribution]) -> Point | None:
    """The point of a trial; None if it is not of the space: anybody may have added it, with other ranges."""
    given = {name: trial.params[name] for name in space.names if name in trial.params}
    try:
        point = {name: _inward(translated.get(name), value) for name, value in given.items()}
        space.check(point)
    except ValueError:
        return None
    return point


def _is_foreign(distribution: BaseDistribution) -> bool:
    """Whether values are handed to the process by their number: steps and choices of any kind are not in our spaces."""
    match distribution:
        case FloatDistribution(step=None) | IntDistribution(step=1):
            return False
        case _:
            return True


def _dimension(name: str, distribution: BaseDistribution) -> AbstractDimension:
    match distribution:
        case FloatDistribution(step=None):
            return Float(name, distribution.low, distribution.high, "log" if distribution.log else "linear")
        case IntDistribution(step=1):
            return Integer(name, distribution.low, distribution.high, "log" if distribution.log else "linear")
        case FloatDistribution() | IntDistribution():
            return Integer(name, 0, round((distribution.high - distribution.low) / (distribution.step or 1)))
        case CategoricalDistribution():
            return Category(name, range(len(distribution.choices)))
        case _:
            raise TuningError(f"{name} has a distribution that OptunaSampler does not know: {distribution}")


def _inward(distribution: BaseDistribution | None, value: Any) -> Any:
    match distribution:
        case CategoricalDistribution():
            return int(distribution.to_internal_repr(value))
        case FloatDistribution() | IntDistribution():
            return round((value - distribution.low) / (distribution.step or 1))
        case _:
            return value


def _outward(distribution: BaseDistribution | None, value: Any) -> Any:
    match distribution:
        case CategoricalDistribution():
            return distribution.choices[value]
        case FloatDistribution() | IntDistribution():
            return distribution.low + value * (distribution.step or 1)
        case _:
            return value
