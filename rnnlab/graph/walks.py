"""Longest walks and best cycle ratios, exact and vectorised: the one computation behind every measure.

`longest_walks` is policy iteration. Every node keeps one *parent*, the last edge of the best walk known to end in it.
A round first evaluates all those walks at once by pointer doubling, O(n log n) whatever their length, then lets every
node switch to a better last edge. Policy iteration is never slower than Bellman-Ford, and on long chains, where
Bellman-Ford needs one round an edge, it needs one round in all.

A switch happens only where it strictly gains, so the parents can close a cycle only if that cycle has positive weight.
`max_cycle_ratio` rests on this (Howard's algorithm): with weights `gain - ratio * cost` a positive cycle is one of a
better ratio. All arithmetic is in integers; it leaves int64 for Python's own integers where a sum could overflow.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.integer]

NO_EDGE = -1
_INT64_SAFE = 2**62


class EdgeList(NamedTuple):
    """A directed multigraph in numbers: edge e runs from node `sources[e]` to node `targets[e]`."""

    num_nodes: int
    sources: IntArray
    targets: IntArray


class Walks(NamedTuple):
    """The best walk into every node, or the cycles that make walks better without end."""

    values: IntArray  # [num_nodes], weight of the best walk ending there, the start value of its first node included
    parents: IntArray  # [num_nodes], last edge of that walk; NO_EDGE where the walk is the node alone
    cycles: list[
        list[int]
    ]  # cycles of positive weight, each as edges in order; where there are any, values mean nothing


class RatioCycle(NamedTuple):
    """A cycle of the largest ratio, and the walks that prove that no cycle has a larger one."""

    ratio: Fraction
    cycle: list[int]
    walks: Walks  # for the integer weights `ratio.denominator * gain - ratio.numerator * cost`, starting anywhere at 0


def longest_walks(edges: EdgeList, weights: IntArray, starts: IntArray, parents: IntArray | None = None) -> Walks:
    """The largest weight of a walk into each node, over all nodes it may start from at their start values.

    Args:
        edges: the graph.
        weights: integers, one an edge.
        starts: integers, one a node: what a walk has gained before its first edge.
        parents: where to begin, if a good guess is known. Its cycles, if any, must have positive weight.

    Returns:
        Values and last edges, or the positive cycles met on the way. Cost: O(m + n log n) a round, usually 10 to 60
        rounds.
    """
    weights, starts = _exact(edges.num_nodes, weights, starts)
    parents = np.full(edges.num_nodes, NO_EDGE) if parents is None else parents.copy()
    while True:
        values, on_cycles = _evaluate(edges, weights, starts, parents)
        if on_cycles.size:
            return Walks(values, parents, _cycles_through(on_cycles, edges, parents))
        gains = values[edges.sources] + weights - values[edges.targets]
        better = np.flatnonzero(gains > 0)
        restarting = np.flatnonzero(starts > values)
        if not better.size and not restarting.size:
            return Walks(values, parents, [])
        # where an index repeats, numpy keeps the last assignment: sorted by gain, that is the best edge into the node
        better = better[np.argsort(gains[better], kind="stable")]
        best_gains = np.zeros_like(values)
        best_gains[edges.targets[better]] = gains[better]
        parents[edges.targets[better]] = better
        parents[restarting[(starts - values)[restarting] > best_gains[restarting]]] = NO_EDGE


def max_cycle_ratio(edges: EdgeList, gains: IntArray, costs: IntArray) -> RatioCycle | None:
    """The largest sum of gains over sum of costs of any cycle, or None where there is no cycle.

    Both sums must be positive on every cycle. By the mediant inequality the best closed walk is a simple cycle.
    """
    order = np.argsort(gains - costs, kind="stable")
    parents = np.full(edges.num_nodes, NO_EDGE)
    parents[edges.targets[order]] = (
        order  # a good first guess: each node takes its incoming edge of largest gain - cost
    )
    best: tuple[Fraction, list[int]] = (Fraction(0), [])
    starts = np.zeros(edges.num_nodes, dtype=np.int64)
    while True:
        ratio, cycle = best
        walks = longest_walks(edges, reduced_weights(gains, costs, ratio), starts, parents)
        if not walks.cycles:
            return RatioCycle(ratio, cycle, walks) if cycle else None
        best = max((cycle_ratio(found, gains, costs), found) for found in walks.cycles)
        parents = walks.parents
        for found in walks.cycles:  # the next round starts from a forest: cut each cycle at one node
            parents[edges.targets[found[0]]] = NO_EDGE


def cycle_ratio(cycle: list[int], gains: IntArray, costs: IntArray) -> Fraction:
    """Sum of gains over sum of costs along the edges of `cycle`."""
    return Fraction(sum(gains[cycle].tolist()), sum(costs[cycle].tolist()))


def reduced_weights(gains: IntArray, costs: IntArray, ratio: Fraction) -> IntArray:
    """`gain - ratio * cost` of every edge, times the ratio's denominator to stay in integers."""
    largest = max(magnitude(gains) * ratio.denominator, magnitude(costs) * ratio.numerator)
    if largest >= _INT64_SAFE:
        gains, costs = gains.astype(object), costs.astype(object)
    return ratio.denominator * gains - ratio.numerator * costs


def magnitude(array: IntArray) -> int:
    """The largest absolute value in `array`."""
    return max(abs(int(array.max())), abs(int(array.min()))) if array.size else 0


def walk_to(node: int, edges: EdgeList, parents: IntArray) -> list[int]:
    """The edges of the walk into `node` that `parents` describe, in order."""
    walk: list[int] = []
    while (edge := int(parents[node])) != NO_EDGE:
        walk.append(edge)
        node = int(edges.sources[edge])
    return walk[::-1]


def any_cycles(edges: EdgeList) -> list[list[int]]:
    """One cycle in each part of the graph where every node has an incoming edge: at least one if any cycle exists."""
    ones = np.ones(edges.sources.size, dtype=np.int64)
    guess = np.full(edges.num_nodes, NO_EDGE)
    guess[edges.targets] = np.arange(edges.targets.size)
    return longest_walks(edges, ones, np.zeros(edges.num_nodes, dtype=np.int64), guess).cycles


def _exact(num_nodes: int, weights: IntArray, starts: IntArray) -> tuple[IntArray, IntArray]:
    """The same numbers in a type in which no sum of this computation overflows."""
    # pointer doubling sums at most 2n edges, and a gain is the difference of two such sums
    bound = 2 * ((2 * num_nodes + 1) * magnitude(weights) + magnitude(starts))
    dtype = np.int64 if bound < _INT64_SAFE else object
    return weights.astype(dtype, copy=False), starts.astype(dtype, copy=False)


def _evaluate(edges: EdgeList, weights: IntArray, starts: IntArray, parents: IntArray) -> tuple[IntArray, IntArray]:
    """Weight of the walk that `parents` describe into every node, and the nodes on cycles of that description."""
    end = edges.num_nodes  # a sentinel node behind every walk's first node
    inner = np.flatnonzero(parents != NO_EDGE)
    pointers = np.full(end + 1, end)
    pointers[inner] = edges.sources[parents[inner]]
    values = np.zeros(end + 1, dtype=weights.dtype)
    values[:end] = starts
    values[inner] = weights[parents[inner]]
    jumps = 1
    while (pointers != end).any():
        if jumps >= end:  # longer than any simple walk: what has not ended goes round, and has jumped onto its cycle
            return values[:end], np.unique(pointers[pointers != end])
        values = values + values[pointers]
        pointers = pointers[pointers]
        jumps *= 2
    return values[:end], np.empty(0, dtype=np.int64)


def _cycles_through(nodes: IntArray, edges: EdgeList, parents: IntArray) -> list[list[int]]:
    """Each cycle of `parents` once, as edges in order; `nodes` are the nodes on them."""
    cycles: list[list[int]] = []
    seen: set[int] = set()
    for first in nodes.tolist():
        cycle: list[int] = []
        node = first
        while node not in seen:
            seen.add(node)
            cycle.append(int(parents[node]))
            node = int(edges.sources[cycle[-1]])
        if cycle:
            cycles.append(cycle[::-1])
    return cycles
