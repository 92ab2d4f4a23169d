"""Which way each edge of a picture runs: the cheapest of a few dozen curves, judged by what it would touch.

The plane is a cylinder. An unfolded graph repeats along x, so one period of it is enough: a curve that leaves on the
right comes back on the left, where it meets the copies of the others, and every copy of an edge gets the same shape. A
folded graph does not repeat; its cylinder is so wide that nothing meets round the back.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rnnlab.graph.bends import Bends, loops, open_bends, uneven_bends
from rnnlab.graph.geometry import Bezier, Box, FloatArray, Outline, Point, bernstein

Cells = NDArray[np.intp]

_TIMES = np.linspace(0.0, 1.0, 49)
_BASIS = bernstein(_TIMES)  # [S, 4]
_FINE_BASIS = bernstein(np.linspace(0.0, 1.0, 257))
_LABEL_TIMES = np.array([0.5, 0.46, 0.54, 0.42, 0.58, 0.38, 0.62, 0.34, 0.66, 0.3, 0.7, 0.26, 0.74])

_CELL = 4.0  # side of a raster cell, in pixels
_STAMP_WEIGHTS = (2, 1)  # what an edge adds to the cells within one and within two cells of it
_AROUND = 240.0  # how far outside the nodes a curve may run
_MOST_ROUNDS = 4

# Penalties, in the pixels of detour that are worth the same.
_THROUGH_NODE = 2000.0
_NEAR_NODE = 5.0  # a pixel less than comfortable
_TOO_NEAR_NODE = 60.0  # a pixel less than clear
_CROWDED = 0.6  # a pixel along another edge, near it; on it three times as much. A crossing is about 25
_THROUGH_LABEL = 60.0
_SHARED_PORT = 11.0
_LONGER = 0.45  # a pixel of length beyond the chord
_LABEL_OFF_MIDDLE = 30.0  # the whole curve

_NODE_TOUCH = 2.5
_NODE_CLEARANCE = 6.0
_NODE_COMFORT = 13.0
_END_ZONE = 14.0  # within this distance of its own nodes an edge may come close to other edges, which meet there
_LABEL_CLEARANCE = 3.0
_PORT_WIDTH = np.deg2rad(24.0)


class Wire(NamedTuple):
    """An edge to be routed, from the first copy of its source to a copy of its target."""

    source: int  # index among the nodes
    target: int
    turns: int  # how many times round the cylinder the target's copy lies to the right of the first
    num_passed: int  # how many nodes of its own row the edge runs over
    has_twin: bool  # another edge joins the same two nodes
    label_size: Point | None  # width and height of the text on the edge


class Route(NamedTuple):
    """The curve of a wire, from centre to centre, and the middle of its label."""

    curve: Bezier
    label: Point | None


def route(wires: Sequence[Wire], nodes: Sequence[Outline], circumference: float | None) -> list[Route]:
    """A curve for every wire; shorter wires choose first, then all choose again, knowing the others."""
    board = _Board(nodes, circumference)
    chords = [_chord(wire, nodes, board.circumference) for wire in wires]
    order = sorted(range(len(wires)), key=lambda number: (_rank(chords[number]), number))
    routes: dict[int, Route] = {}
    for _ in range(_MOST_ROUNDS):
        before = dict(routes)
        for number in order:
            board.remove(number)
            routes[number] = board.best_route(wires[number], *chords[number])
            board.add(number, wires[number], routes[number])
        if routes == before:
            break
    return [routes[number] for number in range(len(wires))]


def label_box(middle: Point, size: Point) -> Box:
    """The box of a label of that width and height."""
    (x, y), (width, height) = middle, size
    return Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)


def _chord(wire: Wire, nodes: Sequence[Outline], circumference: float) -> tuple[Point, Point]:
    x, y = nodes[wire.target].centre
    return nodes[wire.source].centre, (x + wire.turns * circumference, y)


def _rank(chord: tuple[Point, Point]) -> float:
    (x0, y0), (x1, y1) = chord
    return round(abs(x1 - x0) + abs(y1 - y0), 3) or 100.0  # a loop chooses after the edges to its node's neighbours


class _Board:
    """What is drawn so far: nodes, a raster that counts the edges near each cell, and labels."""

    def __init__(self, nodes: Sequence[Outline], circumference: float | None) -> None:
        xs, ys = zip(*(node.centre for node in nodes), strict=True)
        width = max(xs) - min(xs) + 2 * _AROUND
        self.circumference = width if circumference is None else circumference
        self.origin = (min(xs) - _AROUND, min(ys) - _AROUND)
        self.nodes = list(nodes)
        height = max(ys) - min(ys) + 2 * _AROUND
        self.shape = (int(np.ceil(height / _CELL)) + 1, int(np.ceil(self.circumference / _CELL)) + 1)
        self.raster = np.zeros(self.shape[0] * self.shape[1], dtype=np.int32)
        self.stamps: dict[int, tuple[Cells, Cells]] = {}
        self.labels: dict[int, Box] = {}
        self.ports: dict[int, list[tuple[int, float]]] = {}  # node and angle of both ends of every wire

    def add(self, number: int, wire: Wire, chosen: Route) -> None:
        """Put a wire on the board."""
        leaving, arriving = self._port_angles(wire, (_BASIS @ np.array(chosen.curve))[None])
        self.ports[number] = [(wire.source, float(leaving[0])), (wire.target, float(arriving[0]))]
        self.stamps[number] = (self._stamp(chosen.curve, 1), self._stamp(chosen.curve, 2))
        for cells, weight in zip(self.stamps[number], _STAMP_WEIGHTS, strict=True):
            self.raster[cells] += weight
        if chosen.label is not None and wire.label_size is not None:
            self.labels[number] = label_box(chosen.label, wire.label_size)

    def remove(self, number: int) -> None:
        """Take a wire off the board, if it is there."""
        self.labels.pop(number, None)
        self.ports.pop(number, None)
        if number in self.stamps:
            for cells, weight in zip(self.stamps.pop(number), _STAMP_WEIGHTS, strict=True):
                self.raster[cells] -= weight

    def best_route(self, wire: Wire, start: Point, end: Point) -> Route:
        """The cheapest curve for a wire, and the best place on it for the label."""
        cost, curve = self._cheapest(wire, start, end, self._bends(wire, start, end))
        if cost > _THROUGH_NODE and start != end:
            cost, curve = min((cost, curve), self._cheapest(wire, start, end, uneven_bends(start, end)))
        label = None if wire.label_size is None else self._best_label(curve, wire.label_size)
        return Route(curve, label)

    def _cheapest(self, wire: Wire, start: Point, end: Point, bends: Bends) -> tuple[float, Bezier]:
        points = np.einsum("sk,ckd->csd", _BASIS, bends.curves)  # [C, S, 2]
        lengths = np.hypot(*np.moveaxis(np.diff(points, axis=1), -1, 0)).sum(axis=1)
        chord = np.hypot(end[0] - start[0], end[1] - start[1])
        costs = bends.costs + (_LONGER * (lengths - chord) if chord else 0.0)
        costs += self._node_costs(wire, points)
        costs += self._crowd_costs(wire, points, start, end) * lengths / _TIMES.size
        costs += self._port_costs(wire, points)
        costs += self._label_costs(points)
        costs = np.round(costs, 6)  # so that ties fall the same way on every machine
        best = int(np.argmin(costs))
        return float(costs[best]), Bezier(*(tuple(point) for point in bends.curves[best].tolist()))

    def _bends(self, wire: Wire, start: Point, end: Point) -> Bends:
        if start == end:
            return loops(start, self.nodes[wire.source].radius)
        return open_bends(start, end, self.nodes[wire.source].radius, wire.num_passed, has_twin=wire.has_twin)

    def _node_costs(self, wire: Wire, points: FloatArray) -> FloatArray:
        """For coming too near to nodes other than the wire's own ends."""
        costs = np.zeros(points.shape[0])
        for number, node in enumerate(self.nodes):
            across = points[..., 0] - node.centre[0]
            turns = np.round(across / self.circumference)
            gaps = node.gap_of_steps(
                np.abs(across - turns * self.circumference), np.abs(points[..., 1] - node.centre[1])
            )
            if number == wire.source:
                gaps[turns == 0] = np.inf
            if number == wire.target:
                gaps[turns == wire.turns] = np.inf
            nearest = gaps.min(axis=1)
            costs += _NEAR_NODE * np.maximum(0.0, _NODE_COMFORT - np.maximum(nearest, 0.0))
            costs += _TOO_NEAR_NODE * np.maximum(0.0, _NODE_CLEARANCE - np.maximum(nearest, 0.0))
            costs[nearest < _NODE_TOUCH] += _THROUGH_NODE
        return costs

    def _crowd_costs(self, wire: Wire, points: FloatArray, start: Point, end: Point) -> FloatArray:
        """For running along or across other edges, a sample of the curve."""
        counts = self.raster[self._cells(points)].astype(np.float64)
        for centre, node in ((start, wire.source), (end, wire.target)):
            distance = np.hypot(points[..., 0] - centre[0], points[..., 1] - centre[1])
            counts[distance < self.nodes[node].radius + _END_ZONE] = 0.0
        return _CROWDED * counts.sum(axis=1)

    def _port_costs(self, wire: Wire, points: FloatArray) -> FloatArray:
        """For leaving or entering a node where another edge does."""
        costs = np.zeros(points.shape[0])
        ports = [port for pair in self.ports.values() for port in pair]
        for node, angles in zip((wire.source, wire.target), self._port_angles(wire, points), strict=True):
            for other, taken in ports:
                if other == node:
                    apart = np.abs(np.mod(angles - taken + np.pi, 2 * np.pi) - np.pi)
                    costs += _SHARED_PORT * np.maximum(0.0, 1.0 - apart / _PORT_WIDTH)
        return costs

    def _port_angles(self, wire: Wire, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The directions in which curves [C, S, 2] lie as seen from their source and from their target."""
        angles: list[FloatArray] = []
        for node, inward in ((wire.source, points), (wire.target, points[:, ::-1])):
            steps = inward - inward[:, :1]
            outside = np.hypot(steps[..., 0], steps[..., 1]) > self.nodes[node].radius + 4.0
            first = np.argmax(outside, axis=1)
            step = steps[np.arange(len(steps)), first]
            angles.append(np.arctan2(step[:, 1], step[:, 0]))
        return angles[0], angles[1]

    def _label_costs(self, points: FloatArray) -> FloatArray:
        """For running through the labels of others."""
        costs = np.zeros(points.shape[0])
        for box in self.labels.values():
            costs += _THROUGH_LABEL * _within(points, box.grown(_LABEL_CLEARANCE)).any(axis=1)
        return costs

    def _best_label(self, curve: Bezier, size: Point) -> Point:
        """The place on the curve, near its middle, where a label is freest."""
        places = curve.points(_LABEL_TIMES)  # [L, 2]
        inside = places[:, None] + _filled(label_box((0.0, 0.0), size).grown(_LABEL_CLEARANCE))  # [L, K, 2]
        costs = _LABEL_OFF_MIDDLE * np.abs(_LABEL_TIMES - 0.5)
        costs += self.raster[self._cells(inside)].sum(axis=1)
        for node in self.nodes:
            costs += _THROUGH_NODE * (node.gaps(inside).min(axis=1) < _LABEL_CLEARANCE)
        for other in self.labels.values():
            costs += _THROUGH_NODE * _within(inside, other.grown(_LABEL_CLEARANCE)).any(axis=1)
        x, y = places[int(np.argmin(np.round(costs, 6)))].tolist()
        return (x, y)

    def _stamp(self, curve: Bezier, reach: int) -> Cells:
        """The cells within `reach` cells of the curve, each once."""
        num_rows, num_columns = self.shape
        rows, columns = np.divmod(np.unique(self._cells(_FINE_BASIS @ np.array(curve))), num_columns)
        steps = np.arange(-reach, reach + 1)
        near_rows = np.clip(rows[:, None, None] + steps[:, None], 0, num_rows - 1)
        near_columns = np.mod(columns[:, None, None] + steps, num_columns)
        return np.unique(near_rows * num_columns + near_columns)

    def _cells(self, points: FloatArray) -> Cells:
        """The raster cell of every point; points beyond the top and bottom count as on the border."""
        columns = np.mod(points[..., 0] - self.origin[0], self.circumference) // _CELL
        rows = np.clip((points[..., 1] - self.origin[1]) // _CELL, 0, self.shape[0] - 1)
        return (rows * self.shape[1] + columns).astype(np.intp)


def _filled(box: Box) -> FloatArray:
    """Points all over a box, its corners included, at most a cell apart."""
    num_columns, num_rows = (2 + int(side / _CELL) for side in (box.right - box.left, box.bottom - box.top))
    xs, ys = np.meshgrid(np.linspace(box.left, box.right, num_columns), np.linspace(box.top, box.bottom, num_rows))
    return np.stack([xs, ys], axis=-1).reshape(-1, 2)


def _within(points: FloatArray, box: Box) -> NDArray[np.bool_]:
    """Which of `points` [..., 2] lie in a box."""
    x, y = points[..., 0], points[..., 1]
    return (box.left < x) & (x < box.right) & (box.top < y) & (y < box.bottom)
