"""The curves an edge may take, each with its price: straight if nothing is in the way, then ever wider bends."""

from typing import NamedTuple

import numpy as np

from rnnlab.graph.geometry import FloatArray, Point

_HEIGHTS = np.array(
    [0.0, 10, -10, 14, -14, 20, -20, 27, -27, 34, -34, 42, -42, 52, -52, 64, -64, 78, -78, 96, -96, 118, -118]
)
_S_SHIFTS = np.array([0.0, 10, -10, 20, -20])
_LOOP_ANGLES = np.deg2rad([0.0, 180, 35, 145, -35, -145, 90, -90])  # right and left first
_LOOP_PRICES = np.array([0.0, 1.0, 21.0, 22.0, 21.5, 22.5, 30.0, 30.5])
# a loop's price, how far beyond its node's border it goes, and the angle between its axis and its handles, in degrees;
# loops on one side nest without touching
_LOOP_SIZES = ((0.0, 26.0, 43.0), (17.0, 29.0, 29.0), (9.0, 44.0, 50.0), (16.0, 60.0, 55.0))
_BENDING = 10.0  # the price of not being straight
_BENDING_ALONG_AXIS = 45.0  # and between neighbours in a row or column, where it would look like a mistake
_TWIN_HEIGHT = 17.0  # two edges between the same nodes bow out by this much, so that they look like a lens


class Bends(NamedTuple):
    """Candidate curves from centre to centre, and what each costs before it is seen what it would touch."""

    curves: FloatArray  # [C, 4, 2]
    costs: FloatArray  # [C]


def loops(centre: Point, radius: float) -> Bends:
    """Loops at a node, on all sides and in a few sizes."""
    curves: list[FloatArray] = []
    costs: list[float] = []
    for size_price, reach, degrees in _LOOP_SIZES:
        opening = np.deg2rad(degrees)
        handle = (radius + reach) / 0.75 / np.cos(opening)  # a cubic reaches three quarters of the way to its handles
        for angle, price in zip(_LOOP_ANGLES.tolist(), _LOOP_PRICES.tolist(), strict=True):
            ways = np.array([angle + opening, angle - opening])
            handles = np.array(centre) + handle * np.stack([np.cos(ways), -np.sin(ways)], axis=-1)
            curves.append(np.stack([np.array(centre), handles[0], handles[1], np.array(centre)]))
            costs.append(price + size_price)
    return Bends(np.array(curves), np.array(costs))


def open_bends(start: Point, end: Point, radius: float, num_passed: int, *, has_twin: bool) -> Bends:
    """Curves between two different nodes: bows to both sides, and S-shapes between rows or columns."""
    prices = _bow_prices(start, end, radius, num_passed, has_twin=has_twin)
    chord = float(np.hypot(end[0] - start[0], end[1] - start[1]))
    parts = [Bends(_bows(start, end, 0.3 * chord), prices)]
    if chord > 130.0:
        parts.append(Bends(_bows(start, end, 40.0), prices))
    if abs(start[0] - end[0]) > radius and abs(start[1] - end[1]) > radius:
        parts += [_s_shapes(start, end, axis) for axis in (0, 1)]
    return Bends(np.concatenate([part.curves for part in parts]), np.concatenate([part.costs for part in parts]))


def uneven_bends(start: Point, end: Point) -> Bends:
    """Many more curves, for an edge that cannot avoid a node otherwise: bows whose two halves differ."""
    a, b = np.array(start), np.array(end)
    chord = float(np.hypot(*(b - a)))
    heights = np.sort(_HEIGHTS) * max(1.0, chord / 450.0)
    firsts, seconds = (grid.ravel() for grid in np.meshgrid(heights, heights))
    aside = np.array([b[1] - a[1], a[0] - b[0]]) / chord
    ends = np.zeros((firsts.size, 2))
    lifts = [height[:, None] * aside / 0.75 for height in (firsts, seconds)]
    curves = [
        np.stack([a + ends, a + part * (b - a) + lifts[0], b - part * (b - a) + lifts[1], b + ends], axis=1)
        for part in (0.3, 0.1)
    ]
    prices = _BENDING + 0.4 * (np.abs(firsts) + np.abs(seconds))
    return Bends(np.concatenate(curves), np.concatenate([prices, prices + 1.0]))


def _bow_prices(start: Point, end: Point, radius: float, num_passed: int, *, has_twin: bool) -> FloatArray:
    """The price of each height; along a row over other nodes the longer edge wants to be the higher."""
    heights = np.abs(_HEIGHTS)
    if has_twin:
        return 0.8 * np.abs(heights - _TWIN_HEIGHT)
    if num_passed:
        return 0.5 * np.abs(heights - (radius + 10.0 + 5.0 * min(num_passed, 7)))
    is_along_axis = start[0] == end[0] or start[1] == end[1]
    return 0.5 * heights + (_BENDING_ALONG_AXIS if is_along_axis else _BENDING) * (heights > 0)


def _bows(start: Point, end: Point, handle: float) -> FloatArray:
    """Bows whose handles lie `handle` along the chord; their height is what is aside of it."""
    a, b = np.array(start), np.array(end)
    along = (b - a) / np.hypot(*(b - a))
    aside = np.array([along[1], -along[0]])  # to the left of travel
    lift = _HEIGHTS[:, None] * aside / 0.75  # a cubic reaches three quarters of the way to its handles
    ends = np.zeros_like(lift)
    return np.stack([a + ends, a + handle * along + lift, b - handle * along + lift, b + ends], axis=1)


def _s_shapes(start: Point, end: Point, axis: int) -> Bends:
    """Curves that cross half way, first along one axis and then along the other."""
    a, b = np.array(start), np.array(end)
    curves = np.empty((_S_SHIFTS.size, 4, 2))
    curves[:, 0], curves[:, 3] = a, b
    across = 1 - axis
    curves[:, 1:3, axis] = ((a + b) / 2)[axis] + _S_SHIFTS[:, None]
    curves[:, 1, across] = a[across] + 0.2 * (b - a)[across]
    curves[:, 2, across] = b[across] - 0.2 * (b - a)[across]
    return Bends(curves, 6.0 + _BENDING + 0.5 * np.abs(_S_SHIFTS))
