"""Where the nodes of a picture stand: one row a layer, bottom to top; one column a phase or time step, left to right.

A name has one place in all phases and at all times, so that its copies line up. Layers follow the edges of delay 0,
inputs at the bottom and outputs on top. Where several hidden names share a layer, as the two halves of a bidirectional
network do, each gets a row of its own, set off sideways: edges of delay 1 then run level, and edges from below fan
out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import NamedTuple

from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.elements import Kind, natural_key
from rnnlab.graph.geometry import Outline, Point

_LANE = 22.0  # sideways step between names of one layer, in pixels: enough for an edge to pass the node below
_SIDE_BY_SIDE = 2.2  # the same step between neighbours in a row, in lanes
_LOOSE = 3.2  # and in large graphs, where many edges must pass between, or where neighbours are joined
_MOST_ROWS = 14  # where staggering would give more rows than this, every layer is one row
_CLOSE = 18.0  # gap between the inputs of neighbouring columns, in pixels

# the three shapes look equally large in these proportions
_RADII: Mapping[Kind, float] = {"input": 0.9, "hidden": 1.0, "output": 1.25}


class Place(NamedTuple):
    """The place of a name in its column."""

    row: int  # from 0 at the bottom
    lane: float  # how far right of the column's middle, in lanes


@dataclass(frozen=True)
class Layout:
    """Maps a name and a column to a point of the plane."""

    places: Mapping[str, Place]
    row_gap: float
    column_gap: float
    radius: float

    def centre(self, name: str, column: int) -> Point:
        """The middle of a node, of whatever kind."""
        place = self.places[name]
        return (column * self.column_gap + place.lane * _LANE, -place.row * self.row_gap)

    def outline(self, name: str, column: int, kind: Kind) -> Outline:
        """The shape of a node of that kind."""
        return Outline(kind, self.centre(name, column), self.radius * _RADII[kind])


def lay_out(graph: CyclicGraph, *, row_gap: float, column_gap: float, radius: float) -> Layout:
    """A layout with the given gaps between the borders of neighbours.

    Inputs and outputs are closer than that to those of the next column, because hardly any edge passes between them.
    """
    places = name_places(graph)
    kinds = _name_kinds(graph)
    gaps: Mapping[Kind, float] = {"input": _CLOSE, "hidden": column_gap, "output": _CLOSE + 10.0}
    widths = [column_gap]
    for kind, gap in gaps.items():
        lanes = [place.lane for name, place in places.items() if kinds[name] == kind]
        widths.append(gap + (max(lanes) - min(lanes)) * _LANE if lanes else 0.0)
    return Layout(places, row_gap + 2 * radius, max(widths) + 2 * radius, radius)


def name_places(graph: CyclicGraph) -> dict[str, Place]:
    """Row and lane of every name.

    >>> from rnnlab.graph.catalogue import named_graph
    >>> {name: place.row for name, place in name_places(named_graph("td")).items()}
    {'x': 0, 'h1': 1, 'h2': 2, 'y': 3}
    """
    kinds = _name_kinds(graph)
    layers = _layers(graph, kinds)
    joined = {(edge.source[0], edge.target[0]) for edge in graph.edges}
    is_compact = sum(map(len, layers)) > _MOST_ROWS
    places: dict[str, Place] = {}
    row = 0
    for lanes in layers:
        names = {name for lane in lanes for name in lane}
        is_one_row = is_compact or all(kinds[name] != "hidden" for name in names)
        is_loose = is_compact or any(one != other and {one, other} <= names for one, other in joined)
        step = 1.0 if not is_one_row else _LOOSE if is_loose else _SIDE_BY_SIDE
        for number, lane in enumerate(lanes):
            shift = (number - (len(lanes) - 1) / 2) * step
            places.update((name, Place(row if is_one_row else row + number, shift)) for name in lane)
        row += 1 if is_one_row else len(lanes)
    return places


def _layers(graph: CyclicGraph, kinds: Mapping[str, Kind]) -> list[list[list[str]]]:
    """The layers from bottom to top, each as lanes of names."""
    phases: dict[str, set[int]] = {}
    for node in graph.nodes:
        phases.setdefault(node.name, set()).add(node.phase)
    levels = _levels(graph, kinds)
    by_level = ([name for name in levels if levels[name] == level] for level in sorted(set(levels.values())))
    return [_lanes(sorted(names, key=natural_key), phases) for names in by_level]


def _lanes(names: Iterable[str], phases: Mapping[str, set[int]]) -> list[list[str]]:
    """Names that share no phase share a lane."""
    lanes: list[list[str]] = []
    for name in names:
        free = (lane for lane in lanes if all(phases[name].isdisjoint(phases[other]) for other in lane))
        lane = next(free, None)
        if lane is None:
            lanes.append([name])
        else:
            lane.append(name)
    return lanes


def _name_kinds(graph: CyclicGraph) -> dict[str, Kind]:
    """Each name's kind; one of different kinds in different phases is drawn among the hidden."""
    kinds: dict[str, Kind] = {}
    for node in graph.nodes:
        kinds[node.name] = node.kind if kinds.get(node.name, node.kind) == node.kind else "hidden"
    return kinds


def _levels(graph: CyclicGraph, kinds: Mapping[str, Kind]) -> dict[str, int]:
    """Each name's layer: inputs 0, hidden names above all that lead up to them, outputs above every hidden name."""
    below = _names_below(graph, kinds)
    levels = dict.fromkeys(below, 0)
    for name in TopologicalSorter(below).static_order():
        if kinds[name] == "hidden":
            levels[name] = 1 + max((levels[lower] for lower in below[name]), default=0)
    top = 1 + max(levels.values())
    return {name: top if kinds[name] == "output" else level for name, level in levels.items()}


def _names_below(graph: CyclicGraph, kinds: Mapping[str, Kind]) -> dict[str, list[str]]:
    """For each name those drawn below it, without cycles.

    Delayed edges lift a name only where no edge of delay 0 does: they may lead down as well as up. Of edges that
    contradict each other, as delays of 0 in different phases can, the first one counts.
    """
    below: dict[str, list[str]] = {name: [] for name in graph.names}
    lifted = {edge.target[0] for edge in graph.edges if edge.delay == 0}
    for edge in sorted(graph.edges, key=lambda edge: abs(edge.delay)):
        lower, upper = edge.source[0], edge.target[0]
        counts = edge.delay == 0 or upper not in lifted
        leads_up = kinds[lower] != "output" and kinds[upper] != "input"
        if counts and leads_up and not _lies_below(upper, lower, below):
            below[upper].append(lower)
    return below


def _lies_below(lower: str, upper: str, below: Mapping[str, list[str]]) -> bool:
    """Whether `lower` is `upper` itself or below it, through any number of names."""
    seen, waiting = {upper}, [upper]
    while waiting:
        fresh = set(below[waiting.pop()]) - seen
        seen |= fresh
        waiting += fresh
    return lower in seen
