"""Points as rows of numbers that a kernel can compare."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rnnlab.tuning.dimensions import AbstractDimension, Category, Integer, Value
from rnnlab.tuning.space import Point, SearchSpace

_MIDDLE = 0.5  # where the number of an inactive dimension stands


@dataclass(frozen=True)
class Encoding:
    """How the points of a space become features. A point is first its positions [D], one from 0 to 1 per dimension.

    Features: a number is its position. A category is one column per choice, so that the squared distance of two choices
    is 1 (Hamming). An inactive number stands in the middle, an inactive category has no choice, and one more column for
    each condition tells active from inactive. `groups` says which columns share a length scale.

    >>> from rnnlab.tuning.space import Category, Float
    >>> encoding = Encoding(SearchSpace((Float("l2", 0, 1), Category("bias", ("constant", "normal")))))
    >>> encoding.features(encoding.positions([{"l2": 0.25, "bias": "normal"}])).round(2)
    array([[0.25, 0.  , 0.71]])
    """

    space: SearchSpace

    @cached_property
    def _conditions(self) -> list[Any]:
        """The different conditions, each once; all dimensions of an optimiser, say, share one."""
        found: list[Any] = []
        for dimension in self.space:
            if dimension.when and dimension.when not in found:
                found.append(dimension.when)
        return found

    @cached_property
    def groups(self) -> np.ndarray:
        """For each column its group: the dimensions in their order, then the conditions."""
        widths = [len(each.choices) if isinstance(each, Category) else 1 for each in self.space]
        return np.repeat(np.arange(len(widths) + len(self._conditions)), widths + [1] * len(self._conditions))

    @cached_property
    def numeric(self) -> np.ndarray:
        """Which dimensions are numbers, [D]."""
        return np.array([not isinstance(each, Category) for each in self.space])

    @cached_property
    def numeric_columns(self) -> np.ndarray:
        """The columns of the numbers, in the order of their dimensions."""
        return np.flatnonzero(np.isin(self.groups, np.flatnonzero(self.numeric)))

    def positions(self, points: Sequence[Point]) -> np.ndarray:
        """Where points lie, [n, D]; inactive dimensions are in the middle."""
        rows = np.full((len(points), len(self.space)), _MIDDLE)
        for row, point in zip(rows, points, strict=True):
            for index, dimension in enumerate(self.space):
                if dimension.name in point:
                    row[index] = dimension.position(point[dimension.name])
        return rows

    def point(self, positions: np.ndarray) -> dict[str, Value]:
        """The point at positions [D]."""
        return self.space.point_at(positions)

    def snapped(self, positions: np.ndarray) -> np.ndarray:
        """Positions [n, D] at which a value lies exactly: numbers rounded, inactive dimensions in the middle."""
        rows = np.clip(positions, 0.0, 1.0)
        for index, dimension in enumerate(self.space):
            rows[:, index] = _snapped(dimension, rows[:, index])
        return np.where(self.active(rows), rows, _MIDDLE)

    def active(self, positions: np.ndarray) -> np.ndarray:
        """Which dimensions are active at snapped positions, [n, D]."""
        is_active = np.ones(positions.shape, dtype=bool)
        index_of = {name: index for index, name in enumerate(self.space.names)}
        for index, dimension in enumerate(self.space):
            for name, values in dimension.when.items():
                parent = index_of[name]
                allowed = [self.space.dimensions[parent].position(value) for value in values]
                is_here = np.isclose(positions[:, parent, None], allowed, rtol=0, atol=1e-12).any(axis=1)
                is_active[:, index] &= is_here & is_active[:, parent]
        return is_active

    def features(self, positions: np.ndarray) -> np.ndarray:
        """The features of snapped positions [n, D], as [n, columns]."""
        is_active = self.active(positions)
        columns = [
            _choices(dimension, positions[:, index], is_active[:, index])
            if isinstance(dimension, Category)
            else positions[:, index, None]
            for index, dimension in enumerate(self.space)
        ]
        first = [next(i for i, each in enumerate(self.space) if each.when == when) for when in self._conditions]
        return np.concatenate([*columns, is_active[:, first].astype(float)], axis=1)


def _snapped(dimension: AbstractDimension, column: np.ndarray) -> np.ndarray:
    if isinstance(dimension, Integer):
        return _snapped_integer(dimension, column)
    if isinstance(dimension, Category):
        count = len(dimension.choices)
        return (np.minimum(np.floor(column * count), count - 1) + 0.5) / count
    return column


def _snapped_integer(dimension: Integer, column: np.ndarray) -> np.ndarray:
    """The same as `position(at(...))`, for a whole column."""
    forward, inverse = (np.log, np.exp) if dimension.scale == "log" else (np.asarray, np.asarray)
    first, last = (float(forward(end)) for end in (dimension.low - 0.5, dimension.high + 0.5))
    values = np.floor(inverse(first + column * (last - first)) + 0.5).clip(dimension.low, dimension.high)
    return (forward(values) - first) / (last - first)


def _choices(dimension: Category, column: np.ndarray, is_active: np.ndarray) -> np.ndarray:
    count = len(dimension.choices)
    chosen = np.floor(column * count).astype(int)
    return (np.arange(count) == chosen[:, None]) * is_active[:, None] * np.sqrt(0.5)
