"""Suggestions in batches from a Gaussian process: expected improvement, with values believed inside a batch (C1)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rnnlab.errors import TuningError
from rnnlab.integers import keep_integers
from rnnlab.tuning.acquisition import Acquisition
from rnnlab.tuning.candidates import everywhere, first_points, in_box
from rnnlab.tuning.distinct import key, random_points
from rnnlab.tuning.encoding import Encoding
from rnnlab.tuning.fitting import Data, fit
from rnnlab.tuning.gaussian_process import GaussianProcess
from rnnlab.tuning.observations import Observation
from rnnlab.tuning.outputs import standardised
from rnnlab.tuning.polishing import polished
from rnnlab.tuning.samplers import AbstractSampler, check_request
from rnnlab.tuning.space import Point, SearchSpace
from rnnlab.tuning.threads import single_thread

# half the sides of the boxes around the best point that the points of a batch come from in turn: in many dimensions
# expected improvement alone would send most of them into corners
_BOXES = (1.0, 1.0, 0.2, 0.4)
_STEPS = 10


@dataclass(frozen=True)
class GaussianProcessSampler(AbstractSampler):
    """Batches from a Gaussian process that is fitted once for each of them.

    The points of a batch are picked one after another by the logarithm of expected improvement. Points already picked,
    and those still being tried elsewhere, are assumed to have the process's mean. A second process learns what is
    infeasible. Nothing is remembered from batch to batch.

    Args:
        num_startup: until this many points are observed, points are spread evenly, the middle of the space first.
        num_candidates: how many candidates the best points are chosen from.
        num_polished: how many of them are improved by gradient for each point of a batch.

    >>> from rnnlab.tuning.space import Float
    >>> space = SearchSpace([Float("learning_rate", 1e-4, 1e-1, "log")])
    >>> gp = GaussianProcessSampler()
    >>> gp.suggest(space, [], 1, generator=np.random.default_rng(0))
    ({'learning_rate': 0.00316...},)
    """

    num_startup: int = 10
    num_candidates: int = 2000
    num_polished: int = 8

    def __post_init__(self) -> None:
        keep_integers(self, TuningError, num_startup=2, num_candidates=10, num_polished=1)

    def suggest(
        self, space: SearchSpace, observations: Sequence[Observation], count: int, *, generator: np.random.Generator
    ) -> tuple[Point, ...]:
        """See `AbstractSampler.suggest`."""
        check_request(space, observations, count)
        seen = [each.point for each in observations]
        if sum(each.state != "pending" for each in observations) < self.num_startup:
            return tuple(first_points(space, count, seen, generator))
        with single_thread():
            search = _Search(self, Encoding(space), observations, generator)
            return tuple(search.batch(count, seen))


class _Search:
    """The picking of one batch."""

    def __init__(
        self,
        options: GaussianProcessSampler,
        encoding: Encoding,
        observations: Sequence[Observation],
        generator: np.random.Generator,
    ) -> None:
        self._options, self._encoding, self._generator = options, encoding, generator
        positions = encoding.positions([each.point for each in observations])
        self._acquisition = _acquisition(encoding, observations, positions)
        best = positions[_best_first(observations)]
        regions = {width: self._region(best, width) for width in dict.fromkeys(_BOXES)}
        self._turns = [regions[width] for width in _BOXES]
        self._regions = list(regions.values())

    def _region(self, best: np.ndarray, width: float) -> "_Region":
        widths = np.where(self._encoding.numeric, width, 1.0)
        box = ((best[0] - widths).clip(0.0, 1.0), (best[0] + widths).clip(0.0, 1.0))
        count = self._options.num_candidates
        if width < 1.0:
            positions = in_box(self._encoding, best[0], box, count // 2, self._generator)
        else:
            positions = everywhere(self._encoding, best, count, self._generator)
        return _Region(self._acquisition, self._encoding, positions, box)

    def batch(self, count: int, seen: Sequence[Point]) -> list[Point]:
        """Up to `count` points, fewer if the space has no more."""
        found: list[Point] = []
        taken = {key(point) for point in seen}
        while len(found) < count:
            region = self._turns[len(found) % len(self._turns)]
            new = next((point for point in region.ranked(self._options.num_polished) if key(point) not in taken), None)
            point = new or self._leftover(seen, found)
            if point is None:
                break
            found.append(point)
            taken.add(key(point))
            self._believe(point)
        return found

    def _leftover(self, seen: Sequence[Point], found: Sequence[Point]) -> Point | None:
        """Any point not seen; else any that is not in the batch; else none."""
        space, keys = self._encoding.space, {key(point) for point in found}
        for avoided in ([*seen, *found], found):
            (point,) = random_points(space, 1, avoided, self._generator)
            if key(point) not in keys:
                return point
        return None

    def _believe(self, point: Point) -> None:
        features = torch.from_numpy(self._encoding.features(self._encoding.positions([point])))[0]
        rows = self._acquisition.believe(features)
        for region in self._regions:
            region.watched.believe(features, rows)


class _Region:
    """A box with candidates."""

    def __init__(
        self,
        acquisition: Acquisition,
        encoding: Encoding,
        positions: np.ndarray,
        box: tuple[np.ndarray, np.ndarray],
    ) -> None:
        self._acquisition, self._encoding, self._positions, self._box = acquisition, encoding, positions, box
        self.watched = acquisition.watch(torch.from_numpy(encoding.features(positions)))

    def ranked(self, num_polished: int) -> Iterator[Point]:
        """Points, the best first: those polished and what they came from, then all candidates."""
        values = self.watched.values()
        order = torch.argsort(values, descending=True, stable=True).numpy()
        top = self._positions[order[:num_polished]]
        moved = polished(self._acquisition, self._encoding, top, self._box, _STEPS)
        both = np.concatenate([moved, top])
        found = self._acquisition.values(torch.from_numpy(self._encoding.features(both)))
        for index in torch.argsort(found, descending=True, stable=True).numpy():
            yield self._encoding.point(both[index])
        for index in order:
            yield self._encoding.point(self._positions[index])


def _best_first(observations: Sequence[Observation]) -> list[int]:
    """Indices of what is complete, the best first; where nothing is, of all."""
    complete = [(each.value, index) for index, each in enumerate(observations) if each.value is not None]
    return [index for _, index in sorted(complete)] or list(range(len(observations)))


def _acquisition(encoding: Encoding, observations: Sequence[Observation], positions: np.ndarray) -> Acquisition:
    features = torch.from_numpy(encoding.features(positions))
    complete, infeasible, pending = (
        np.flatnonzero([each.state == state for each in observations])
        for state in ("complete", "infeasible", "pending")
    )
    values = np.array([each.value for each in observations if each.state == "complete"], dtype=float)
    objective = _process(encoding, features[complete], torch.from_numpy(standardised(values)))
    feasibility = None
    if len(infeasible):
        labels = torch.ones(len(complete) + len(infeasible), dtype=torch.float64)
        labels[len(complete) :] = -1.0
        feasibility = _process(encoding, features[np.concatenate([complete, infeasible])], labels)
    best = float(objective.mean(features[complete]).min()) if len(complete) else 0.0
    acquisition = Acquisition(objective, feasibility, best)
    for index in pending:
        acquisition.believe(features[index])
    return acquisition


def _process(encoding: Encoding, features: Tensor, values: Tensor) -> GaussianProcess:
    kernel = fit(Data(features, values, encoding.groups, encoding.numeric_columns))
    return GaussianProcess(kernel, features, values)
