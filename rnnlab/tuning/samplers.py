"""Samplers by name: each suggests points to try next, in batches."""

import importlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from rnnlab.errors import TuningError
from rnnlab.hints import hint
from rnnlab.integers import as_integer
from rnnlab.tuning.observations import Observation
from rnnlab.tuning.space import Point, SearchSpace


class AbstractSampler(ABC):
    """Suggests points, given the results of earlier ones.

    `learns` says whether suggestions depend on those results: if so, workers let many of an arm's trials end before
    they take more.
    """

    learns: ClassVar[bool] = True

    @abstractmethod
    def suggest(
        self, space: SearchSpace, observations: Sequence[Observation], count: int, *, generator: np.random.Generator
    ) -> tuple[Point, ...]:
        """`count` points that differ from each other, and from those observed while the space has others.

        If a space has fewer points than `count`, all of them are suggested, so a batch can be smaller. If every point
        has been observed, points are suggested again; only a grid, which is gone through once, raises an error.

        Args:
            space: where to look.
            observations: all that is known of points of this space.
            count: how many points.
            generator: of random numbers. The same generator and observations give the same points, whatever the
                sampler was asked before: a study that is resumed goes on as if it had never stopped.

        Raises:
            TuningError: `count` is no integer above 0, an observation is of another space, or all points of a grid
                have been tried.
        """


# the class, or where it is: `import rnnlab` and the command line load no sampler
SAMPLERS: dict[str, str | type[AbstractSampler]] = {
    "gp": "rnnlab.tuning.gp_sampler:GaussianProcessSampler",
    "random": "rnnlab.tuning.plain_samplers:RandomSampler",
    "grid": "rnnlab.tuning.plain_samplers:GridSampler",
    "tpe": "rnnlab.tuning.tpe:TpeSampler",
}


def sampler(name: str, **options: Any) -> AbstractSampler:
    """A sampler by name: `gp`, `random`, `grid`, `tpe`, or one that was added to `SAMPLERS`.

    Args:
        name: of the sampler.
        options: its own, by name.

    Raises:
        TuningError: there is no such sampler or option.

    >>> sampler("grid", num_per_dimension=4)
    GridSampler(num_per_dimension=4)
    >>> sampler("radnom")
    Traceback (most recent call last):
    rnnlab.errors.TuningError: no sampler is named 'radnom'; did you mean 'random'?
    """
    if name not in SAMPLERS:
        raise TuningError(f"no sampler is named {name!r}; {hint(name, SAMPLERS)}")
    kind = _loaded(SAMPLERS[name])
    known = list(inspect.signature(kind).parameters)
    for option in options:
        if option not in known:
            raise TuningError(f"sampler {name} has no option {option!r}; {hint(option, known)}")
    return kind(**options)


def check_request(space: SearchSpace, observations: Sequence[Observation], count: Any) -> None:
    """Refuse a batch size that is not an integer above 0, and observations of another space."""
    as_integer(count, "the number of points to suggest", TuningError, 1)
    for number, observation in enumerate(observations):
        try:
            space.check(observation.point)
        except TuningError as error:
            raise TuningError(f"observation {number} is not of this space: {error}") from error


def _loaded(place: str | type[AbstractSampler]) -> type[AbstractSampler]:
    if not isinstance(place, str):
        return place
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
