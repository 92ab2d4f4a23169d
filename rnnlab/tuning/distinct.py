"""Points that differ: what has been seen, and what a finite space still has."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from rnnlab.tuning.space import Point, SearchSpace

# up to so many points a space is written down rather than searched by chance
MOST_LISTED = 5000
_TRIES = 50


def key(point: Point) -> tuple[tuple[str, Any], ...]:
    """A key that is equal for equal points only; 1 and True differ.

    >>> key({"l2": 1.0}) == key({"l2": 1})
    True
    """
    return tuple(sorted((name, str(value) if isinstance(value, bool) else value) for name, value in point.items()))


def num_combinations(space: SearchSpace) -> float:
    """How many points the space would have if all its dimensions were active; infinite if one is continuous."""
    return math.prod(math.inf if each.num_values is None else each.num_values for each in space)


def listed(space: SearchSpace) -> list[dict[str, Any]] | None:
    """All points of a small space; None if there are too many, or infinitely many."""
    if num_combinations(space) > MOST_LISTED:
        return None
    return list(every_point(space))


def every_point(space: SearchSpace) -> Iterable[dict[str, Any]]:
    """All points of a space without continuous dimensions, one after another."""
    return space.grid({each.name: each.num_values or 1 for each in space})


def random_points(
    space: SearchSpace, count: int, seen: Iterable[Point], generator: np.random.Generator
) -> list[dict[str, Any]]:
    """Distinct random points that were not seen; seen ones only where a small space has no others."""
    taken = {key(point) for point in seen}
    found: dict[Any, dict[str, Any]] = {}
    num_new = min(count, num_combinations(space) - len(taken))  # conditions may leave fewer
    tries = 0
    # drawn rather than shuffled, so that numbers follow their scales and conditions leave categories as likely
    while len(found) < num_new and tries < _TRIES * count:
        point = space.sample(generator)
        tries += 1
        if key(point) not in taken:
            found.setdefault(key(point), point)
    if len(found) < count:  # few points, most of them seen
        points = list(every_point(space))
        order = [points[index] for index in generator.permutation(len(points))]
        for point in sorted(order, key=lambda point: key(point) in taken):
            found.setdefault(key(point), point)
    return list(found.values())[:count]
