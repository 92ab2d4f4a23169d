"""The theory again, slow and obvious: enumeration of cycles and paths, and dynamic programming on explicit graphs."""

from collections.abc import Iterable, Iterator
from fractions import Fraction

import networkx

from rnnlab import CyclicGraph, Edge


def simple_walks(edges: Iterable[Edge], start: tuple[str, int]) -> Iterator[list[Edge]]:
    """Every path from `start` that repeats no node, and every simple cycle through `start`, as edges in order."""
    edges = list(edges)

    def extend(walk: list[Edge], visited: set[tuple[str, int]]) -> Iterator[list[Edge]]:
        here = walk[-1].target if walk else start
        for edge in edges:
            if edge.source != here:
                continue
            if edge.target == start:
                yield [*walk, edge]
            elif edge.target not in visited:
                yield [*walk, edge]
                yield from extend([*walk, edge], visited | {edge.target})

    return extend([], {start})


def simple_cycles(graph: CyclicGraph) -> list[list[Edge]]:
    return [
        walk
        for node in graph.nodes
        for walk in simple_walks(graph.edges, node.key)
        if walk[-1].target == walk[0].source
    ]


def delay(walk: Iterable[Edge]) -> int:
    return sum(edge.delay for edge in walk)


def recurrent_depth(graph: CyclicGraph) -> Fraction:
    return max(Fraction(len(cycle), delay(cycle)) for cycle in simple_cycles(graph))


def recurrent_skip_coefficient(graph: CyclicGraph) -> Fraction:
    return 1 / min(Fraction(len(cycle), delay(cycle)) for cycle in simple_cycles(graph))


def feedforward_depth(graph: CyclicGraph) -> Fraction | None:
    kinds = {node.key: node.kind for node in graph.nodes}
    paths = [
        walk
        for node in graph.nodes
        if node.kind == "input"
        for walk in simple_walks(graph.edges, node.key)
        if kinds[walk[-1].target] == "output"
    ]
    depth = recurrent_depth(graph)
    return max((len(path) - delay(path) * depth for path in paths), default=None)


def phi(graph: CyclicGraph) -> dict[tuple[str, int], Fraction]:
    """Bellman-Ford in fractions: as many rounds as there are nodes, each over all edges."""
    depth = recurrent_depth(graph)
    values = {node.key: Fraction(0) for node in graph.nodes}
    for _ in graph.nodes:
        for edge in graph.edges:
            values[edge.target] = max(values[edge.target], values[edge.source] + 1 - edge.delay * depth)
    return values


def unfolded(edges: Iterable[Edge], period: int, start: int, stop: int) -> networkx.DiGraph:
    """Definition 2.2 word for word, on a window of times."""
    graph = networkx.DiGraph()
    for time in range(start, stop):
        for (source, source_phase), (target, _), step in edges:
            if time % period == source_phase and start <= time + step < stop:
                graph.add_edge((source, time), (target, time + step))
    return graph


def path_lengths(graph: CyclicGraph, start: int, span: int) -> tuple[int | None, int | None, int | None]:
    """D, D* and d from time `start` to `start + span`, in a window so wide that no path leaves it."""
    reach = graph.num_nodes * max(abs(edge.delay) for edge in graph.edges)
    times = (start - reach, start + abs(span) + reach)
    dag = unfolded(graph.edges, graph.period, *times)
    kinds = {(node.name, time): node.kind for node in graph.nodes for time in range(*times) if _at(node, time, graph)}
    dag.add_nodes_from(kinds)
    order = list(networkx.topological_sort(dag))

    def extreme(first: str | None, last: str | None, best) -> int | None:
        lengths = {moment: 0 for moment in order if moment[1] == start and first in (None, kinds[moment])}
        for moment in order:
            before = [lengths[p] + 1 for p in dag.predecessors(moment) if p in lengths]
            if before:
                lengths[moment] = best([*before, *([lengths[moment]] if moment in lengths else [])])
        found = [lengths[m] for m in lengths if m[1] == start + span and last in (None, kinds[m])]
        return best(found) if found else None

    return extreme(None, None, max), extreme("input", "output", max), extreme(None, None, min)


def _at(node, time: int, graph: CyclicGraph) -> bool:
    return time % graph.period == node.phase
