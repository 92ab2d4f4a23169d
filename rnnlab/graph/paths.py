"""Path lengths in the unfolded graph: D_i(n), D*_i(n) and d_i(n) (Z17, Z20, Z25).

Where delays are negative a path may leave the interval from i to i + n and come back. Retiming removes them: there are
integers r(v) with `delay + r(v) - r(u) >= 0` on every edge, so in the shifted time `t + r(v)` no edge leads backward.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from rnnlab.errors import GraphError
from rnnlab.graph.cyclic import CyclicGraph, checked_graph
from rnnlab.graph.walks import IntArray, longest_walks, potentials

Lengths = dict[tuple[int, int], int | None]
"""By (i, n): a number of edges, or None where there is no such path."""


@dataclass(frozen=True)
class PathLengths:
    """Lengths of extreme paths from time i to time i + n in the unfolded graph, by (i, n)."""

    longest: Lengths  # D_i(n), between any two nodes
    longest_input_output: Lengths  # D*_i(n), from an input node to an output node
    shortest: Lengths  # d_i(n), between any two nodes


def path_lengths(graph: CyclicGraph, starts: Iterable[int], spans: Iterable[int]) -> PathLengths:
    """The lengths of the longest, longest input-output and shortest paths, for every i in `starts` and n in `spans`.

    Cost: O((largest span + spread of the retiming) * edges) per start, in Python; starts that agree modulo the period
    are computed once.

    >>> from rnnlab.graph.catalogue import named_graph
    >>> lengths = path_lengths(named_graph("fig1a"), starts=[0], spans=range(5))
    >>> list(lengths.longest.values()), list(lengths.shortest.values())
    ([3, 5, 6, 8, 9], [0, 1, 1, 2, 2])
    """
    if checked_graph(graph, "path_lengths").direction != "forward":
        raise GraphError("path lengths are bounded only where time runs forward; ask for directions(graph) first")
    spans, results = list(spans), PathLengths({}, {}, {})
    retimed = _retime(graph)
    inputs, outputs = ([node.kind == kind for node in graph.nodes] for kind in ("input", "output"))
    anywhere = [True] * graph.num_nodes

    @cache
    def rows(phase: int) -> tuple[dict[int, int], ...]:
        return (
            _extreme_lengths(graph, retimed, phase, spans, anywhere, anywhere, max),
            _extreme_lengths(graph, retimed, phase, spans, inputs, outputs, max),
            _extreme_lengths(graph, retimed, phase, spans, anywhere, anywhere, min),
        )

    for start, span in product(starts, spans):
        longest, longest_input_output, shortest = rows(start % graph.period)
        results.longest[start, span] = longest.get(span)
        results.longest_input_output[start, span] = longest_input_output.get(span)
        results.shortest[start, span] = shortest.get(span)
    return results


class _Retimed(NamedTuple):
    """The graph in shifted time `t + shift of the node`, in which no edge leads backward."""

    shifts: list[int]
    incoming: list[list[tuple[int, int]]]  # of each node: (source, delay in shifted time)
    order: list[int]  # every edge of shifted delay 0 leads to a node later in this list


def _smallest_shifts(graph: CyclicGraph) -> IntArray:
    """How late each node must be for no edge to lead backward: the largest look-ahead of any walk into it."""
    if (graph.delays >= 0).all():
        return np.zeros(graph.num_nodes, dtype=np.int64)
    proof = potentials(graph.edge_list, -graph.delays).values
    return longest_walks(graph.edge_list, -graph.delays, proof, np.arange(graph.num_nodes)).values


def _retime(graph: CyclicGraph) -> _Retimed:
    shifts = _smallest_shifts(graph)
    delays = graph.delays + shifts[graph.targets] - shifts[graph.sources]
    incoming: list[list[tuple[int, int]]] = [[] for _ in range(graph.num_nodes)]
    for source, target, delay in zip(graph.sources.tolist(), graph.targets.tolist(), delays.tolist(), strict=True):
        incoming[target].append((source, delay))
    # potentials that rise along every edge of delay 0; other edges lose more than such edges can gain in all
    ranks = potentials(graph.edge_list, np.where(delays == 0, 1, -graph.num_nodes)).values
    return _Retimed(shifts.tolist(), incoming, np.argsort(ranks, kind="stable").tolist())


def _extreme_lengths(
    graph: CyclicGraph,
    retimed: _Retimed,
    start: int,
    spans: Sequence[int],
    may_begin: Sequence[bool],
    may_end: Sequence[bool],
    best: Callable[[Iterable[int]], int],
) -> dict[int, int]:
    """Length of the best path from time `start` to `start + span`, by span; spans without a path are left out."""
    phases = graph.phases.tolist()
    lengths: dict[tuple[int, int], int] = {}  # by (node, shifted time)
    results: dict[int, int] = {}
    for now in range(start + min(retimed.shifts), start + max(spans, default=-1) + max(retimed.shifts) + 1):
        for node in retimed.order:
            time = now - retimed.shifts[node]
            if time % graph.period != phases[node]:
                continue
            sources = ((source, now - delay) for source, delay in retimed.incoming[node])
            found = [lengths[moment] + 1 for moment in sources if moment in lengths]
            if time == start and may_begin[node]:
                found.append(0)
            if found:
                lengths[node, now] = length = best(found)
                if may_end[node]:
                    results[time - start] = best((length, results.get(time - start, length)))
    return results
