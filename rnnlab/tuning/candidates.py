"""Where a batch is looked for: points spread over the whole space, points near the best, and all of a small space."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.stats import qmc

from rnnlab.tuning.distinct import key, listed, random_points
from rnnlab.tuning.encoding import Encoding
from rnnlab.tuning.space import Point, SearchSpace

_NUM_BEST = 10
_WIDTHS = (-3.0, -0.5)  # powers of ten: how far numbers near the best are moved


def first_points(
    space: SearchSpace, count: int, seen: Iterable[Point], generator: np.random.Generator
) -> list[dict[str, Any]]:
    """Distinct points spread evenly; the middle of the space is the very first."""
    seen = list(seen)
    taken = {key(point) for point in seen}
    rows = spread(len(space), count + len(seen), generator)
    if not seen:
        rows[0] = 0.5
    found = {key(point): point for point in map(space.point_at, rows) if key(point) not in taken}
    if len(found) < count:
        missing = random_points(space, count, [*seen, *found.values()], generator)
        found |= {key(point): point for point in missing}
    return list(found.values())[:count]


def spread(num_dimensions: int, count: int, generator: np.random.Generator) -> np.ndarray:
    """Positions [count, D] from a scrambled Sobol sequence."""
    # scipy 1.13 and 1.14 know the generator by this name only
    sobol = qmc.Sobol(num_dimensions, seed=generator)  # pyright: ignore[reportCallIssue]
    return sobol.random_base2(max(count - 1, 1).bit_length())[:count]


def everywhere(encoding: Encoding, best: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Positions [count, D], half of them spread evenly and half near the best; all points where there are few."""
    if (points := listed(encoding.space)) is not None:
        return encoding.positions(points)
    num_dimensions, half = len(encoding.space), count // 2
    base = best[:_NUM_BEST][generator.integers(len(best[:_NUM_BEST]), size=count - half)]
    width = 10.0 ** generator.uniform(*_WIDTHS, size=(len(base), 1))
    moved = base + width * generator.standard_normal(base.shape)
    moved = np.where(encoding.numeric, moved, generator.random(base.shape))
    near = np.where(_some(base.shape, generator), moved, base)
    return encoding.snapped(np.concatenate([spread(num_dimensions, half, generator), _reflected(near)]))


def in_box(
    encoding: Encoding,
    centre: np.ndarray,
    box: tuple[np.ndarray, np.ndarray],
    count: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Positions [count, D] that differ from the centre in some dimensions, by what fits into a box."""
    low, high = box
    rows = low + (high - low) * generator.random((count, len(centre)))
    return encoding.snapped(np.where(_some(rows.shape, generator), rows, centre))


def _reflected(positions: np.ndarray) -> np.ndarray:
    """What went past 0 or 1 comes back by as much, so that the bounds do not gather it."""
    return 1.0 - np.abs(1.0 - np.abs(positions))


def _some(shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """Which dimensions are changed: in each row one, a few or all."""
    count, num_dimensions = shape
    wanted = generator.choice(np.array([1, 2, 4, 8, num_dimensions]), size=(count, 1))
    is_changed = generator.random(shape) < wanted / num_dimensions
    is_changed[np.arange(count), generator.integers(num_dimensions, size=count)] = True
    return is_changed
