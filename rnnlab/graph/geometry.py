"""Curves and outlines in the plane, in the coordinates of SVG: x to the right, y down."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rnnlab.graph.elements import Kind

Point = tuple[float, float]
FloatArray = NDArray[np.float64]

_NUM_SAMPLES = 65


class Bezier(NamedTuple):
    """A cubic Bézier curve."""

    start: Point
    first: Point
    second: Point
    end: Point

    def points(self, times: FloatArray) -> FloatArray:
        """The curve's points at `times` from 0 to 1: [T, 2]."""
        return bernstein(times) @ np.array(self)

    def part(self, begin: float, end: float) -> "Bezier":
        """The piece between two times, as a curve of its own."""
        times = np.array([begin, end])
        return _through(self.points(times), self._velocities(times) * (end - begin))

    def moved(self, dx: float, dy: float) -> "Bezier":
        """The same curve elsewhere."""
        return Bezier(*((x + dx, y + dy) for x, y in self))

    def beside(self, offset: float, num_pieces: int = 4) -> tuple["Bezier", ...]:
        """The parallel curve at that distance to the left of travel, in pieces that meet smoothly.

        With unit normal n, curvature k and velocity v, the parallel curve is p + offset * n with velocity
        v * (1 - offset * k); both are matched exactly where pieces meet.
        """
        times = np.linspace(0.0, 1.0, num_pieces + 1)
        velocities = self._velocities(times)
        speeds = np.maximum(np.hypot(*velocities.T), 1e-9)
        normals = velocities[:, ::-1] * [1.0, -1.0] / speeds[:, None]
        accelerations = self._accelerations(times)
        turns = velocities[:, 1] * accelerations[:, 0] - velocities[:, 0] * accelerations[:, 1]
        points = self.points(times) + offset * normals
        slopes = velocities * (1.0 - offset * turns / speeds**3)[:, None] / num_pieces
        return tuple(_through(points[i : i + 2], slopes[i : i + 2]) for i in range(num_pieces))

    def time_at(self, distance: float, *, backward: bool = False) -> float:
        """The time after that length of the curve, measured from its end where `backward`."""
        times = np.linspace(0.0, 1.0, _NUM_SAMPLES)
        steps = np.hypot(*np.diff(self.points(times), axis=0).T)
        lengths = np.concatenate([[0.0], np.cumsum(steps)])
        wanted = lengths[-1] - distance if backward else distance
        return float(np.interp(wanted, lengths, times))

    def length(self) -> float:
        """The length of the curve, to a hundredth of a pixel for the sizes drawn here."""
        points = self.points(np.linspace(0.0, 1.0, _NUM_SAMPLES))
        return float(np.hypot(*np.diff(points, axis=0).T).sum())

    def _velocities(self, times: FloatArray) -> FloatArray:
        t = times[:, None]
        steps = 3.0 * np.diff(np.array(self), axis=0)
        return (1 - t) ** 2 * steps[0] + 2 * (1 - t) * t * steps[1] + t**2 * steps[2]

    def _accelerations(self, times: FloatArray) -> FloatArray:
        t = times[:, None]
        bends = 6.0 * np.diff(np.array(self), n=2, axis=0)
        return (1 - t) * bends[0] + t * bends[1]


class Box(NamedTuple):
    """A rectangle with sides along the axes."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "Box") -> bool:
        """Whether the two share more than a border."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def grown(self, margin: float) -> "Box":
        """The box with that margin on every side."""
        return Box(self.left - margin, self.top - margin, self.right + margin, self.bottom + margin)


class Outline(NamedTuple):
    """A node's shape: a square for an input, a circle for a hidden node, a diamond for an output."""

    kind: Kind
    centre: Point
    radius: float  # half the side of the square, radius of the circle, half the diagonal of the diamond

    @property
    def box(self) -> Box:
        """The box round the shape."""
        (x, y), r = self.centre, self.radius
        return Box(x - r, y - r, x + r, y + r)

    def gaps(self, points: FloatArray) -> FloatArray:
        """How far each of `points` [..., 2] lies outside the shape; negative inside."""
        across, down = np.abs(points[..., 0] - self.centre[0]), np.abs(points[..., 1] - self.centre[1])
        return self.gap_of_steps(across, down)

    def gap_of_steps(self, across: FloatArray, down: FloatArray) -> FloatArray:
        """The same for points given by their absolute distances from the centre along x and y."""
        if self.kind == "hidden":
            return np.hypot(across, down) - self.radius
        if self.kind == "input":
            return np.maximum(across, down) - self.radius
        return (across + down - self.radius) / np.sqrt(2.0)


def bernstein(times: FloatArray) -> FloatArray:
    """The weights of the four control points at each of `times`: [T, 4]."""
    t = times
    return np.stack([(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3], axis=-1)


def between_outlines(curve: Bezier, source: Outline, target: Outline, margin: float) -> Bezier:
    """The part of a curve from centre to centre that lies outside both shapes, each grown by `margin`."""
    times = np.linspace(0.0, 1.0, _NUM_SAMPLES)
    points = curve.points(times)
    outside_source = np.flatnonzero(source.gaps(points) > margin)
    outside_target = np.flatnonzero(target.gaps(points) > margin)
    if not outside_source.size or not outside_target.size:
        return curve
    first, last = int(outside_source[0]), int(outside_target[-1])
    leaving = _crossing(curve, source, margin, inside=float(times[first - 1]), outside=float(times[first]))
    arriving = _crossing(curve, target, margin, inside=float(times[last + 1]), outside=float(times[last]))
    return curve.part(leaving, arriving)


def bounding_box(curves: Sequence[Bezier], boxes: Sequence[Box]) -> Box:
    """The smallest box that holds every curve and every box."""
    times = np.linspace(0.0, 1.0, _NUM_SAMPLES)
    corners = [np.array([box[:2], box[2:]]) for box in boxes]
    points = np.concatenate([*corners, *(curve.points(times) for curve in curves)])
    (left, top), (right, bottom) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
    return Box(left, top, right, bottom)


def _crossing(curve: Bezier, outline: Outline, margin: float, *, inside: float, outside: float) -> float:
    """The time at which the curve passes the outline, by ever finer steps from the inside to the outside."""
    for _ in range(4):
        times = np.linspace(inside, outside, 33)
        first = max(1, int(np.argmax(outline.gaps(curve.points(times)) > margin)))
        inside, outside = float(times[first - 1]), float(times[first])
    return outside


def _through(points: FloatArray, velocities: FloatArray) -> Bezier:
    """The cubic with these two end points and velocities (Hermite's form)."""
    (x0, y0), (x3, y3) = points.tolist()
    (u0, v0), (u3, v3) = (velocities / 3.0).tolist()
    return Bezier((x0, y0), (x0 + u0, y0 + v0), (x3 - u3, y3 - v3), (x3, y3))
