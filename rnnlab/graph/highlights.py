"""The edges that a picture sets off in colour: what attains the three measures (Z31).

longest        red     a cycle of recurrent depth, or a longest path D_i(n) across the window
input_output   yellow  a path of feedforward depth
shortest       blue    a cycle of the skip coefficient, or a shortest path d_i(n) across the window
"""

from collections.abc import Callable, Collection
from graphlib import TopologicalSorter
from typing import Literal

from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.elements import Edge
from rnnlab.graph.measures import Measures, Walk, Witnesses
from rnnlab.graph.paths import Lengths, path_lengths
from rnnlab.graph.unfolding import Moment, UnfoldedEdge, UnfoldedGraph, unfold

Role = Literal["longest", "input_output", "shortest"]
ROLES: tuple[Role, ...] = ("longest", "input_output", "shortest")

Path = tuple[UnfoldedEdge, ...]
_Price = tuple[int, int, int]  # compared in this order


def folded_highlights(witnesses: Witnesses) -> dict[Role, Walk]:
    """The cyclic edges of each role."""
    return {
        "longest": witnesses.recurrent_depth,
        "input_output": witnesses.feedforward_depth or (),
        "shortest": witnesses.recurrent_skip_coefficient,
    }


def unfolded_highlights(measures: Measures, num_steps: int) -> dict[Role, Path]:
    """The edges of each role in the window of times 0 to num_steps - 1; a role without a path there is empty.

    Paths run from the first to the last time step, or over the widest span for which the window holds one.
    """
    graph, window = measures.graph, unfold(measures.graph, 0, num_steps)
    lengths = path_lengths(graph, range(num_steps), range(num_steps))
    on_depth_cycle = _on_walk(graph, measures.witnesses.recurrent_depth)
    on_skip_cycle = _on_walk(graph, measures.witnesses.recurrent_skip_coefficient)
    # of several longest paths the one that shows the cycle of recurrent depth best
    longest = _widest_path(window, lengths.longest, lambda edge: (-1, 0, -on_depth_cycle(edge)))
    # of several shortest paths one apart from the longest, then the one that shows the cycle of the skip coefficient
    shortest = _widest_path(window, lengths.shortest, lambda edge: (1, int(edge in longest), -on_skip_cycle(edge)))
    return {
        "longest": longest,
        "input_output": _placed(measures, num_steps, taken={*longest, *shortest}),
        "shortest": shortest,
    }


def _widest_path(window: UnfoldedGraph, lengths: Lengths, price: Callable[[UnfoldedEdge], _Price]) -> Path:
    """The cheapest path over the widest span, and there the first start, where the window holds one of that length.

    Where delays are negative an extreme path may need moments outside the window; such a span is passed over.
    """
    before = _moments_before(window)
    order = list(TopologicalSorter(before).static_order())
    for start, span in sorted(lengths, key=lambda key: (-key[1], key[0])):
        if start + span < window.stop and lengths[start, span]:
            path = _cheapest_path(window, before, order, start, start + span, price)
            if path is not None and len(path) == lengths[start, span]:
                return path
    return ()


def _cheapest_path(
    window: UnfoldedGraph,
    before: dict[Moment, list[Moment]],
    order: list[Moment],
    first: int,
    last: int,
    price: Callable[[UnfoldedEdge], _Price],
) -> Path | None:
    """The path of least price from any moment of time `first` to any of time `last`, or None where there is none."""
    best: dict[Moment, tuple[_Price, UnfoldedEdge | None]] = {}
    for moment in order:
        found: list[tuple[_Price, UnfoldedEdge | None]] = [((0, 0, 0), None)] if moment[1] == first else []
        for earlier in before[moment]:
            if earlier in best:
                edge = UnfoldedEdge(earlier, moment)
                found.append((_sum(best[earlier][0], price(edge)), edge))
        if found:
            best[moment] = min(found, key=lambda entry: entry[0])
    ends = [moment for moment in window.nodes if moment[1] == last and moment in best]
    return None if not ends else _walk_back(min(ends, key=lambda moment: best[moment][0]), best)


def _walk_back(moment: Moment, best: dict[Moment, tuple[_Price, UnfoldedEdge | None]]) -> Path:
    path: list[UnfoldedEdge] = []
    while (edge := best[moment][1]) is not None:
        path.append(edge)
        moment = edge.source
    return tuple(reversed(path))


def _on_walk(graph: CyclicGraph, walk: Walk) -> Callable[[UnfoldedEdge], bool]:
    """Whether an unfolded edge is a copy of one of the walk's edges."""

    def is_copy(edge: UnfoldedEdge) -> bool:
        (source, time), (target, later) = edge
        return Edge((source, time % graph.period), (target, later % graph.period), edge.delay) in walk

    return is_copy


def _placed(measures: Measures, num_steps: int, taken: Collection[UnfoldedEdge]) -> Path:
    """The path of feedforward depth where it covers fewest edges of other roles, and then nearest to the middle."""
    witness = measures.witnesses.feedforward_depth
    if not witness:
        return ()
    starts = range(witness[0].source[1], num_steps, measures.graph.period)
    placements = (_unfolded_walk(witness, start) for start in starts)
    inside = [path for path in placements if all(0 <= edge.target[1] < num_steps for edge in path)]

    def key(path: Path) -> tuple[int, int]:
        return sum(edge in taken for edge in path), abs(path[0].source[1] + path[-1].target[1] - num_steps + 1)

    return min(inside, key=key, default=())


def _unfolded_walk(walk: Walk, time: int) -> Path:
    path: list[UnfoldedEdge] = []
    for edge in walk:
        path.append(UnfoldedEdge((edge.source[0], time), (edge.target[0], time + edge.delay)))
        time += edge.delay
    return tuple(path)


def _moments_before(window: UnfoldedGraph) -> dict[Moment, list[Moment]]:
    before: dict[Moment, list[Moment]] = {moment: [] for moment in window.nodes}
    for source, target in sorted(window.edges):
        before[target].append(source)
    return before


def _sum(price: _Price, more: _Price) -> _Price:
    return price[0] + more[0], price[1] + more[1], price[2] + more[2]
