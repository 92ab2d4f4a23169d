"""What every sampler must do. Checkers raise."""

from collections.abc import Sequence

import numpy as np
import pytest

from rnnlab import TuningError
from rnnlab.tuning.distinct import key
from rnnlab.tuning.observations import Observation
from rnnlab.tuning.samplers import AbstractSampler
from rnnlab.tuning.space import Category, Float, Integer, Point, SearchSpace

MIXED = SearchSpace(
    [
        Category("optimiser", ("sgd", "momentum", "adam")),
        Float("learning_rate", 1e-4, 1e-1, "log"),
        Float("momentum", 0.731, 0.9991, "logit", when={"optimiser": ("momentum", "adam")}),
        Integer("depth", 1, 8, "log"),
        Category("input_once", (False, True)),
        Float("gate_bias", 0, 6),
    ]
)
SMALL = SearchSpace([Category("cell", ("gru", "lstm")), Integer("depth", 1, 3), Category("bias", (0.5, 1.5))])


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def loss(point: Point) -> float:
    """Best at a learning rate of 0.01 with adam."""
    return (np.log10(float(point["learning_rate"])) + 2) ** 2 + (point["optimiser"] != "adam")


def observe(points: Sequence[Point]) -> list[Observation]:
    """Complete, infeasible and pending ones."""
    return [
        Observation(point, None, "pending")
        if number % 7 == 6
        else Observation(point, None, "infeasible")
        if float(point["gate_bias"]) > 5
        else Observation(point, loss(point))
        for number, point in enumerate(points)
    ]


def keys(points: Sequence[Point]) -> set:
    return {key(point) for point in points}


def check_batches(sampler: AbstractSampler) -> None:
    """Points of the space, as many as asked for, all different from each other and from those observed."""
    found: list[Observation] = []
    random = generator()
    for count in (1, 12, 20):
        points = sampler.suggest(MIXED, found, count, generator=random)
        assert len(keys(points)) == len(points) == count
        assert not keys(points) & keys([each.point for each in found])
        for point in points:
            MIXED.check(point)
            assert [name for name in MIXED.names if name in point] == list(point)  # in the order of the space
        found += observe(points)


def check_nothing_is_remembered(sampler: AbstractSampler) -> None:
    """A study that was resumed gets the same points as one that never stopped, and hands in what it likes."""
    found = observe([MIXED.sample(random) for random in [generator(1)] for _ in range(30)])
    before = list(found)
    first = sampler.suggest(MIXED, found, 5, generator=generator(3))
    sampler.suggest(SMALL, [], 2, generator=generator(4))
    sampler.suggest(MIXED, found[:20], 5, generator=generator(5))
    assert sampler.suggest(MIXED, found, 5, generator=generator(3)) == first
    assert found == before


def check_small_space(sampler: AbstractSampler, is_endless: bool) -> None:
    """Twelve points: each comes once before any comes again, and never twice in a batch."""
    found: list[Observation] = []
    for number in range(6):
        points = sampler.suggest(SMALL, found, 2, generator=generator(number))
        assert len(keys(points)) == 2
        found += [Observation(point, float(len(found))) for point in points]
    assert len(keys([each.point for each in found])) == 12
    if is_endless:
        again = sampler.suggest(SMALL, found, 20, generator=generator())
        assert len(keys(again)) == len(again) == 12
    else:
        with pytest.raises(TuningError, match="all 12 points of the grid have been tried"):
            sampler.suggest(SMALL, found, 1, generator=generator())


def check_last_points(sampler: AbstractSampler) -> None:
    """Eleven of twelve are known: the one that is left comes first."""
    points = list(SMALL.grid(9))
    found = [Observation(point, 1.0) for point in points[:4] + points[5:]]
    assert sampler.suggest(SMALL, found, 1, generator=generator()) == (points[4],)
    # the same where all speaks for trying the best one again
    noisy = generator().standard_normal(12)
    found = [Observation(point, 10.0 * int(point["depth"]) + noise) for point, noise in zip(points, noisy, strict=True)]
    assert sampler.suggest(SMALL, found[:-1], 1, generator=generator()) == (points[-1],)


def check_nothing_feasible(sampler: AbstractSampler) -> None:
    """All that was tried diverged; there is still something to try."""
    points = [MIXED.sample(random) for random in [generator(1)] for _ in range(15)]
    found = [Observation(point, None, "infeasible") for point in points]
    assert len(keys(sampler.suggest(MIXED, found, 6, generator=generator()))) == 6


def check_bad_input(sampler: AbstractSampler) -> None:
    for count in (0, -1, 2.5, True):
        with pytest.raises(TuningError, match="number of points to suggest must be an integer"):
            sampler.suggest(MIXED, [], count, generator=generator())  # pyright: ignore[reportArgumentType]
    stray = Observation({**MIXED.sample(generator()), "learning_rate": 7.0}, 1.0)
    with pytest.raises(TuningError, match=r"observation 0 is not of this space: learning_rate must be in 0\.0001"):
        sampler.suggest(MIXED, [stray], 1, generator=generator())
