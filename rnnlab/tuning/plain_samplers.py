"""Samplers that do not learn: random search (C71) and grids (Z49, Z51)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import numpy as np

from rnnlab.errors import TuningError
from rnnlab.tuning.distinct import key, random_points
from rnnlab.tuning.observations import Observation
from rnnlab.tuning.samplers import AbstractSampler, check_request
from rnnlab.tuning.space import Point, SearchSpace


@dataclass(frozen=True)
class RandomSampler(AbstractSampler):
    """Points drawn evenly over the space, each number on its own scale."""

    learns: ClassVar[bool] = False

    def suggest(
        self, space: SearchSpace, observations: Sequence[Observation], count: int, *, generator: np.random.Generator
    ) -> tuple[Point, ...]:
        """See `AbstractSampler.suggest`; observations only say what not to draw again."""
        check_request(space, observations, count)
        return tuple(random_points(space, count, [each.point for each in observations], generator))


@dataclass(frozen=True)
class GridSampler(AbstractSampler):
    """The points of `SearchSpace.grid`, in its order, each once.

    Args:
        num_per_dimension: how many values numbers have at most, for all or by name.
    """

    learns: ClassVar[bool] = False
    num_per_dimension: int | Mapping[str, int] = 3

    def num_points(self, space: SearchSpace, most: int | None = None) -> int:
        """How many points the grid has; counted no further than `most`, for it may have millions."""
        return sum(1 for _ in islice(space.grid(self.num_per_dimension), most))

    def suggest(
        self, space: SearchSpace, observations: Sequence[Observation], count: int, *, generator: np.random.Generator
    ) -> tuple[Point, ...]:
        """The next points of the grid; the last batch may be smaller.

        Raises:
            TuningError: every point of the grid has been tried.
        """
        check_request(space, observations, count)
        seen = {key(each.point) for each in observations}
        untried = (point for point in space.grid(self.num_per_dimension) if key(point) not in seen)
        if found := tuple(islice(untried, count)):
            return found
        raise TuningError(
            f"all {self.num_points(space)} points of the grid have been tried; "
            "a finer one has a larger num_per_dimension"
        )
