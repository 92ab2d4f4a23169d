"""Puts a picture together: where the nodes stand, how the edges run between them, and which of them are highlighted."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.drawing import BORDER, DelayMark, Drawing, EdgeMark, NodeMark
from rnnlab.graph.elements import Edge, Kind
from rnnlab.graph.frame import Scene, folded_words, framed, legend, unfolded_words
from rnnlab.graph.geometry import Bezier, Outline, between_outlines
from rnnlab.graph.highlights import ROLES, Role, folded_highlights, unfolded_highlights
from rnnlab.graph.layout import Layout, lay_out
from rnnlab.graph.lettering import Text, fitted_name, text_width
from rnnlab.graph.measures import Measures
from rnnlab.graph.routing import Route, Wire, route
from rnnlab.graph.unfolding import UnfoldedEdge, unfold

_NAME_SIZE = 12.0
_DELAY_SIZE = 11.0
_STUB = 25.0  # length of what is seen of an edge that leaves the window
_ARC_GAP = 9.0  # what another arc over the same row adds to the gap between rows
_SMALLEST_RADIUS, _LARGEST_RADIUS = 16.0, 26.0


def compose_folded(graph: CyclicGraph, measures: Measures | None, title: str | None) -> Drawing:
    """The cyclic graph: one column a phase, its delay on every edge."""
    layout = lay_out(graph, row_gap=46.0, column_gap=64.0, radius=_radius(graph))
    outlines = _outlines(graph, layout)
    routes = route(_folded_wires(graph, layout), outlines, circumference=None)
    highlights = {} if measures is None else folded_highlights(measures.witnesses)
    scene = Scene(
        nodes=tuple(_node_mark(node.name, node.phase, node.kind, layout) for node in graph.nodes),
        edges=tuple(_folded_edges(graph, routes, outlines, highlights)),
        delays=tuple(_delay_marks(graph, routes)),
        columns=_columns(layout, graph.period, "phase {}") if graph.period > 1 else (),
    )
    return framed(scene, legend(measures, highlights), title, folded_words(graph, measures))


def compose_unfolded(graph: CyclicGraph, measures: Measures | None, title: str | None, *, num_steps: int) -> Drawing:
    """The unfolded graph at times 0 to num_steps - 1: one column a time step."""
    row_gap = 42.0 + _ARC_GAP * max(0, _most_arcs(graph) - 1)
    layout = lay_out(graph, row_gap=row_gap, column_gap=50.0, radius=_radius(graph))
    highlights = {} if measures is None else unfolded_highlights(measures, num_steps)
    moments = unfold(graph, 0, num_steps).nodes
    scene = Scene(
        nodes=tuple(_node_mark(name, time, kind, layout) for (name, time), kind in moments.items()),
        edges=tuple(_unfolded_edges(graph, layout, num_steps, highlights)),
        delays=(),
        columns=_columns(layout, num_steps, "t = {}"),
    )
    return framed(scene, legend(measures, highlights), title, unfolded_words(graph, highlights, num_steps))


def _radius(graph: CyclicGraph) -> float:
    """Nodes grow with the longest name, within bounds."""
    longest = max(text_width(name, _NAME_SIZE) for name in graph.names)
    return min(_LARGEST_RADIUS, max(_SMALLEST_RADIUS, longest / 2 + 4.0))


def _outlines(graph: CyclicGraph, layout: Layout) -> list[Outline]:
    """The shapes of all nodes, in the graph's order, at the columns of their phases."""
    return [layout.outline(node.name, node.phase, node.kind) for node in graph.nodes]


def _node_mark(name: str, column: int, kind: Kind, layout: Layout) -> NodeMark:
    outline = layout.outline(name, column, kind)
    return NodeMark(name, column, outline, fitted_name(name, outline, _NAME_SIZE))


def _columns(layout: Layout, num_columns: int, pattern: str) -> tuple[tuple[float, str], ...]:
    return tuple((column * layout.column_gap, pattern.format(column)) for column in range(num_columns))


def _roles(edge: Edge | UnfoldedEdge, highlights: Mapping[Role, Sequence[object]]) -> tuple[Role, ...]:
    return tuple(role for role in ROLES if edge in highlights.get(role, ()))


def _folded_wires(graph: CyclicGraph, layout: Layout) -> list[Wire]:
    pairs = Counter(frozenset((edge.source, edge.target)) for edge in graph.edges)
    return [
        Wire(
            source=graph.index[edge.source],
            target=graph.index[edge.target],
            turns=0,
            num_passed=_num_passed(graph, layout, edge, edge.target[1]),
            has_twin=pairs[frozenset((edge.source, edge.target))] > 1,
            label_size=(text_width(_delay_text(edge), _DELAY_SIZE), _DELAY_SIZE * 0.8),
        )
        for edge in graph.edges
    ]


def _folded_edges(
    graph: CyclicGraph, routes: Sequence[Route], outlines: Sequence[Outline], highlights: Mapping[Role, Sequence[Edge]]
) -> Iterator[EdgeMark]:
    for edge, way in zip(graph.edges, routes, strict=True):
        source, target = outlines[graph.index[edge.source]], outlines[graph.index[edge.target]]
        curve = between_outlines(way.curve, source, target, BORDER / 2)
        yield EdgeMark(edge, edge.source[1], curve, _roles(edge, highlights), "whole")


def _delay_marks(graph: CyclicGraph, routes: Sequence[Route]) -> Iterator[DelayMark]:
    for edge, way in zip(graph.edges, routes, strict=True):
        if way.label is not None:
            yield DelayMark(edge, Text(_delay_text(edge), way.label, _DELAY_SIZE))


def _delay_text(edge: Edge) -> str:
    return str(edge.delay).replace("-", "\N{MINUS SIGN}")


def _unfolded_edges(
    graph: CyclicGraph, layout: Layout, num_steps: int, highlights: Mapping[Role, Sequence[UnfoldedEdge]]
) -> Iterator[EdgeMark]:
    """Every edge at all times of the window."""
    outlines = _outlines(graph, layout)
    window = _Window(num_steps, graph.period, layout.column_gap)
    delays = [_shown_delay(edge.delay, graph.period, num_steps) for edge in graph.edges]
    wires = [_unfolded_wire(graph, layout, edge, delay) for edge, delay in zip(graph.edges, delays, strict=True)]
    routes = route(wires, outlines, circumference=graph.period * layout.column_gap)
    for edge, delay, way in zip(graph.edges, delays, routes, strict=True):
        source = outlines[graph.index[edge.source]]
        target = layout.outline(edge.target[0], edge.source[1] + delay, outlines[graph.index[edge.target]].kind)
        curve = between_outlines(way.curve, source, target, BORDER / 2)
        for mark in _copies(edge, curve, delay, window):
            is_whole = mark.part == "whole"
            yield mark._replace(roles=_roles(_unfolded(edge, mark.column), highlights)) if is_whole else mark


class _Window(NamedTuple):
    """The times 0 to num_steps - 1, and how they lie in the plane."""

    num_steps: int
    period: int
    column_gap: float

    def times(self, phase: int) -> range:
        return range(phase, self.num_steps, self.period)

    def holds(self, time: int) -> bool:
        return 0 <= time < self.num_steps


def _copies(edge: Edge, curve: Bezier, shown_delay: int, window: _Window) -> Iterator[EdgeMark]:
    """An edge at all its times, whole where both ends are inside the window, else the end that is.

    `curve` leaves at the source's phase and arrives `shown_delay` later.
    """
    (_, first), (_, target_phase), delay = edge
    stub = min(_STUB, 0.45 * curve.length())
    for time in window.times(first):
        here = curve.moved((time - first) * window.column_gap, 0.0)
        if window.holds(time + delay):
            yield EdgeMark(edge, time, here, (), "whole")
        else:
            yield EdgeMark(edge, time, here.part(0.0, here.time_at(stub)), (), "leaving")
    for time in window.times(target_phase):
        if not window.holds(time - delay):
            here = curve.moved((time - first - shown_delay) * window.column_gap, 0.0)
            end = here.part(here.time_at(stub, backward=True), 1.0)
            yield EdgeMark(edge, time - delay, end, (), "arriving")


def _unfolded(edge: Edge, time: int) -> UnfoldedEdge:
    return UnfoldedEdge((edge.source[0], time), (edge.target[0], time + edge.delay))


def _unfolded_wire(graph: CyclicGraph, layout: Layout, edge: Edge, shown_delay: int) -> Wire:
    last = edge.source[1] + shown_delay
    return Wire(
        source=graph.index[edge.source],
        target=graph.index[edge.target],
        turns=(last - edge.target[1]) // graph.period,
        num_passed=_num_passed(graph, layout, edge, last),
        has_twin=False,
        label_size=None,
    )


def _shown_delay(delay: int, period: int, num_steps: int) -> int:
    """A delay longer than the window, of which only the ends are seen, shortened by periods to about its length."""
    excess = max(0, abs(delay) - num_steps)
    shortened = abs(delay) - excess // period * period
    return shortened if delay >= 0 else -shortened


def _num_passed(graph: CyclicGraph, layout: Layout, edge: Edge, target_column: int) -> int:
    """How many nodes stand between the edge's ends, where these are in one row."""
    row = layout.places[edge.source[0]].row
    if layout.places[edge.target[0]].row != row:
        return 0
    taken = {node.phase for node in graph.nodes if layout.places[node.name].row == row}
    low, high = sorted((edge.source[1], target_column))
    return sum(column % graph.period in taken for column in range(low + 1, high))


def _most_arcs(graph: CyclicGraph) -> int:
    """The largest number of edges of different lengths that skip along one row."""
    arcs = {(edge.source[0], abs(edge.delay)) for edge in graph.edges if edge.source[0] == edge.target[0]}
    return max(Counter(name for name, delay in arcs if delay > graph.period).values(), default=0)
