"""Unfolding a cyclic graph over time (definition 2.2, Z7-Z8) and folding it back, with the smallest period (Z9-Z10)."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from rnnlab.errors import GraphError
from rnnlab.graph.cyclic import CyclicGraph, checked_graph
from rnnlab.graph.elements import Edge, Kind, Node

Moment = tuple[str, int]
"""A node of the unfolded graph: its name and its time."""


class UnfoldedEdge(NamedTuple):
    """An edge of the unfolded graph."""

    source: Moment
    target: Moment

    @property
    def delay(self) -> int:
        """How many time steps the edge crosses."""
        return self.target[1] - self.source[1]


@dataclass(frozen=True, repr=False)
class UnfoldedGraph:
    """The unfolded graph in the window of times start <= t < stop: an acyclic graph (lemma 2.1)."""

    start: int
    stop: int
    nodes: dict[Moment, Kind]
    edges: frozenset[UnfoldedEdge]

    def __repr__(self) -> str:
        times = f"times {self.start} to {self.stop - 1}"
        return f"<UnfoldedGraph: {times}, {len(self.nodes)} nodes, {len(self.edges)} edges>"


def unfold(graph: CyclicGraph, start: int, stop: int) -> UnfoldedGraph:
    """The part of the infinite unfolded graph whose times t satisfy start <= t < stop.

    >>> graph = CyclicGraph([("h",)], [("h", "h", 2)])
    >>> sorted(unfold(graph, 0, 4).edges)
    [UnfoldedEdge(source=('h', 0), target=('h', 2)), UnfoldedEdge(source=('h', 1), target=('h', 3))]
    """
    checked_graph(graph, "unfold")
    if stop <= start:
        raise GraphError(f"an unfolding needs start < stop, got {start} and {stop}")

    def times(phase: int) -> range:
        return range(start + (phase - start) % graph.period, stop, graph.period)

    return UnfoldedGraph(
        start,
        stop,
        {(node.name, time): node.kind for node in graph.nodes for time in times(node.phase)},
        frozenset(
            UnfoldedEdge((edge.source[0], time), (edge.target[0], time + edge.delay))
            for edge in graph.edges
            for time in times(edge.source[1])
            if start <= time + edge.delay < stop
        ),
    )


def fold(unfolded: UnfoldedGraph, period: int | None = None) -> CyclicGraph:
    """The cyclic graph whose unfolding this window shows; its period is the smallest, or the one given.

    The window must be at least twice the period plus the longest delay long. The caller vouches that no edge is longer
    than those in the window, because a longer one would not show in it.

    Raises:
        GraphError: the window does not repeat with any period (or with the given one) that it is long enough to show.
    """
    length = unfolded.stop - unfolded.start
    reach = max((abs(edge.delay) for edge in unfolded.edges), default=0)
    longest = (length - reach) // 2
    if longest < 1:
        raise GraphError(f"a window of {length} steps with delays up to {reach} is too short to show any period")
    if period is not None and period < 1:
        raise GraphError(f"a period is at least 1, got {period}")
    if period is not None and period > longest:
        raise GraphError(
            f"a window of {length} steps with delays up to {reach} shows periods up to {longest}, not {period}"
        )
    for candidate in range(1, longest + 1) if period is None else (period,):
        if _repeats(unfolded, candidate):
            return _folded(unfolded, candidate)
    asked = f"1 to {longest}" if period is None else str(period)
    raise GraphError(
        f"times {unfolded.start} to {unfolded.stop - 1} do not repeat with a period of {asked}; unfold a longer window"
    )


def smallest_period(graph: CyclicGraph) -> int:
    """The smallest shift of time that leaves the unfolded graph unchanged: a divisor of the graph's period.

    >>> from rnnlab.graph.catalogue import named_graph
    >>> smallest_period(named_graph("mongia-b")), smallest_period(named_graph("mongia-c"))
    (1, 2)
    """
    checked_graph(graph, "smallest_period")
    # a period m repeats every name in period / m phases, so that number divides how often each name occurs
    most = math.gcd(graph.period, *Counter(graph.names).values())
    nodes, edges = frozenset(graph.nodes), frozenset(graph.edges)
    return next(
        m
        for m in (graph.period // times for times in range(most, 0, -1) if graph.period % times == 0)
        if all(Node(n.name, n.kind, (n.phase + m) % graph.period) in nodes for n in nodes)
        and all(_shifted(edge, m, graph.period) in edges for edge in edges)
    )


def _shifted(edge: Edge, shift: int, period: int) -> Edge:
    (source, source_phase), (target, target_phase), delay = edge
    return Edge((source, (source_phase + shift) % period), (target, (target_phase + shift) % period), delay)


def _repeats(unfolded: UnfoldedGraph, period: int) -> bool:
    """Whether the window looks the same after a shift by `period`, wherever both sides lie inside it."""
    start, stop = unfolded.start, unfolded.stop

    def inside(time: int) -> bool:
        return start <= time < stop

    for (name, time), kind in unfolded.nodes.items():
        for shifted in (time - period, time + period):
            if inside(shifted) and unfolded.nodes.get((name, shifted)) != kind:
                return False
    for (source, t), (target, u) in unfolded.edges:
        for shift in (-period, period):
            moved = UnfoldedEdge((source, t + shift), (target, u + shift))
            if inside(t + shift) and inside(u + shift) and moved not in unfolded.edges:
                return False
    return True


def _folded(unfolded: UnfoldedGraph, period: int) -> CyclicGraph:
    """Each moment mapped to its time modulo the period: the covering map."""
    nodes = {Node(name, kind, time % period) for (name, time), kind in unfolded.nodes.items()}
    edges = {Edge((source, t % period), (target, u % period), u - t) for (source, t), (target, u) in unfolded.edges}
    return CyclicGraph(nodes, edges, period)
