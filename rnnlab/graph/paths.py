"""Path lengths in the unfolded graph: D_i(n), D*_i(n) and d_i(n) (Z17, Z20, Z25).

Where delays are negative a path may leave the interval from i to i + n and come back. Retiming removes them: there are
integers r(v) with `delay + r(v) - r(u) >= 0` on every edge, so in the shifted time `t + r(v)` no edge leads backward.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rnnlab.errors import GraphError
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.walks import longest_walks

Lengths = dict[tuple[int, int], int | None]
"""By (i, n): a number of edges, or None where there is no such path."""


@dataclass(frozen=True)
class PathLengths:
    """Lengths of extreme paths from time i to time i + n in the unfolded graph, by (i, n)."""

    longest: Lengths  # D_i(n), between any two nodes
    longest_input_output: Lengths  # D*_i(n), from an input node to an output node
    shortest: Lengths  # d_i(n), between any two nodes


def path_lengths(graph: CyclicGraph, starts: Iterable[int], spans: Iterable[int]) -> PathLengths:
    """The three lengths for every i in `starts` and n in `spans`.

    Cost: O((largest span + spread of the retiming) * edges) a start, in Python; starts that agree modulo the period are
    computed once.

    >>> from rnnlab.graph.catalogue import named_graph
    >>> lengths = path_lengths(named_graph("fig1a"), starts=[0], spans=range(5))
    >>> list(lengths.longest.values()), list(lengths.shortest.values())
    ([3, 5, 6, 8, 9], [0, 1, 1, 2, 2])
    """
    if graph.direction != "forward":
        raise GraphError("path lengths are bounded only where time runs forward; ask for directions(graph) first")
    spans, results = list(spans), PathLengths({}, {}, {})
    if not spans:
        return results
    sweep = _Sweep(graph, min(spans), max(spans))
    rows: dict[int, PathLengths] = {}
    for start in starts:
        phase = start % graph.period
        if phase not in rows:
            rows[phase] = sweep.lengths_from(phase)
        for span in spans:
            results.longest[start, span] = rows[phase].longest.get((phase, span))
            results.longest_input_output[start, span] = rows[phase].longest_input_output.get((phase, span))
            results.shortest[start, span] = rows[phase].shortest.get((phase, span))
    return results


class _Sweep:
    """Dynamic programming over shifted time; one object serves all starts."""

    def __init__(self, graph: CyclicGraph, first_span: int, last_span: int) -> None:
        zeros = np.zeros(graph.num_nodes, dtype=np.int64)
        self.graph = graph
        self.spans = range(first_span, last_span + 1)
        self.retiming: list[int] = longest_walks(graph.edge_list, -graph.delays, zeros).values.tolist()
        self.incoming: list[list[tuple[int, int]]] = [[] for _ in range(graph.num_nodes)]
        rows = zip(graph.sources.tolist(), graph.targets.tolist(), graph.delays.tolist(), strict=True)
        for source, target, delay in rows:
            shift = delay + self.retiming[target] - self.retiming[source]
            self.incoming[target].append((source, shift))
        self.order = self._order()

    def _order(self) -> list[int]:
        """Nodes so that every edge of shift 0 leads to a later one: by the longest chain of such edges into each."""
        graph, retiming = self.graph, np.array(self.retiming)
        shifts = graph.delays + retiming[graph.targets] - retiming[graph.sources]
        # an edge of positive shift must never look worth taking: it costs more than all others together can gain
        weights = np.where(shifts == 0, 1, -graph.num_nodes)
        depth = longest_walks(graph.edge_list, weights, np.zeros(graph.num_nodes, dtype=np.int64)).values
        return np.argsort(depth, kind="stable").tolist()

    def lengths_from(self, start: int) -> PathLengths:
        """The three lengths for one start and every span, by (start, span); entries without a path are left out."""
        graph, phases = self.graph, self.graph.phases.tolist()
        kinds = [node.kind for node in graph.nodes]
        first = start + min(self.retiming)
        last = start + self.spans[-1] + max(self.retiming)
        results = PathLengths({}, {}, {})
        longest: dict[tuple[int, int], int] = {}
        from_input: dict[tuple[int, int], int] = {}
        shortest: dict[tuple[int, int], int] = {}
        for shifted_time in range(first, last + 1):
            for node in self.order:
                time = shifted_time - self.retiming[node]
                if (time - phases[node]) % graph.period:
                    continue
                here = (node, shifted_time)
                before = [(source, shifted_time - shift) for source, shift in self.incoming[node]]
                trivial = [0] if time == start else []
                _extend(longest, here, before, trivial, max)
                _extend(shortest, here, before, trivial, min)
                _extend(from_input, here, before, trivial if kinds[node] == "input" else [], max)
                if (span := time - start) not in self.spans:
                    continue
                _keep(results.longest, (start, span), longest.get(here), max)
                _keep(results.shortest, (start, span), shortest.get(here), min)
                if kinds[node] == "output":
                    _keep(results.longest_input_output, (start, span), from_input.get(here), max)
        return results


def _extend(lengths, here, before, trivial, best):  # type: ignore[no-untyped-def]
    found = [*trivial, *(lengths[moment] + 1 for moment in before if moment in lengths)]
    if found:
        lengths[here] = best(found)


def _keep(lengths, key, value, best):  # type: ignore[no-untyped-def]
    if value is not None:
        lengths[key] = value if key not in lengths else best(lengths[key], value)
