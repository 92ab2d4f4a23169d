"""Potentials, best cycle ratios and longest walks, in exact integers: the three computations behind every measure.

`potentials` is policy iteration. Every node keeps one *parent*, the last edge of the best walk known to end in it. A
round evaluates all those walks at once by pointer doubling, O(n log n) whatever their length, then lets every node
switch to a better last edge. A switch strictly gains, so switches close a cycle only if it has positive weight.

`max_cycle_ratio` rests on this (Howard's algorithm): with weights `gain - ratio * cost` a positive cycle is one of a
better ratio. The potentials left at the end turn every weight into a loss of zero or more, on which `longest_walks` is
Dijkstra's algorithm (Johnson's reweighting).
"""

import heapq
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[Any]
"""Integers, as int64 or, where a sum could overflow, as Python objects."""

NO_EDGE = -1
_INT64_SAFE = 2**62
_ROUNDS_BEFORE_DIJKSTRA = 100


class EdgeList(NamedTuple):
    """A directed multigraph in numbers: edge e runs from node `sources[e]` to node `targets[e]`; sorted by target."""

    num_nodes: int
    sources: IntArray
    targets: IntArray


class Potentials(NamedTuple):
    """Numbers that prove that no cycle has positive weight, or cycles that do."""

    values: IntArray  # [num_nodes], with values[target] >= values[source] + weight on every edge
    parents: IntArray  # [num_nodes], an edge into each node on which equality holds; NO_EDGE at roots
    cycles: list[list[int]]  # of positive weight, as edges in order; where there are any, the values prove nothing


class RatioCycle(NamedTuple):
    """A cycle of the largest ratio, and the proof that no cycle has a larger one."""

    ratio: Fraction
    cycle: list[int]  # its edges, in order
    weights: IntArray  # [num_edges], ratio.denominator * gain - ratio.numerator * cost
    proof: IntArray  # [num_nodes], potentials for these weights


class Walks(NamedTuple):
    """The walk of largest weight into each node that any walk reaches."""

    reached: NDArray[np.bool_]  # [num_nodes]
    values: IntArray  # [num_nodes], the weight of the walk; without meaning where no walk leads
    parents: IntArray  # [num_nodes], the last edge of the walk; NO_EDGE where the walk is the node alone

    def to(self, node: int, edges: EdgeList) -> list[int]:
        """The edges of the best walk into `node`, in order."""
        walk: list[int] = []
        while (edge := int(self.parents[node])) != NO_EDGE:
            walk.append(edge)
            node = int(edges.sources[edge])
        return walk[::-1]


def potentials(edges: EdgeList, weights: IntArray, parents: IntArray | None = None) -> Potentials:
    """Potentials for integer weights, or the positive cycles met on the way to them.

    Cost: O(m + n log n) a round. A random graph takes 10 to 60 rounds; a chain or ring of any length takes one.

    Args:
        edges: the graph.
        weights: one an edge.
        parents: an edge into each node to begin with (NO_EDGE for none); the heaviest where left out.
    """
    weights = _exact(weights, edges.num_nodes)
    parents = heaviest_incoming(edges, weights) if parents is None else parents.copy()
    while True:
        values, cycles = _evaluate(edges, weights, parents)
        positive = [cycle for cycle in cycles if sum(weights[cycle].tolist()) > 0]
        if positive:
            return Potentials(values, parents, positive)
        if cycles:  # of the first guess: switches close none that is not positive
            parents[[edges.targets[cycle[0]] for cycle in cycles]] = NO_EDGE
            continue
        gains = values[edges.sources] + weights - values[edges.targets]
        better = np.flatnonzero(gains > 0)
        if not better.size:
            return Potentials(values, parents, [])
        better = _best_into_each(edges, better, gains[better])
        parents[edges.targets[better]] = better


def max_cycle_ratio(edges: EdgeList, gains: IntArray, costs: IntArray) -> RatioCycle | None:
    """The largest sum of gains over sum of costs of any cycle, or None where there is no cycle.

    Both sums must be positive on every cycle. By the mediant inequality the best closed walk is a simple cycle.
    """
    ratio, cycle = Fraction(0), list[int]()
    parents = heaviest_incoming(edges, gains - costs)
    while True:
        weights = _reduced(gains, costs, ratio)
        found = potentials(edges, weights, parents)
        if not found.cycles:
            return RatioCycle(ratio, cycle, weights, found.values) if cycle else None
        ratio, cycle = max((_ratio(each, gains, costs), each) for each in found.cycles)
        parents = found.parents


def longest_walks(edges: EdgeList, weights: IntArray, proof: IntArray, starts: IntArray) -> Walks:
    """The largest weight of a walk into each node, over all walks that begin in a node of `starts`.

    Rounds over all edges settle an ordinary graph; Dijkstra's algorithm finishes what has long chains. Cost:
    O((m + n) log n).

    Args:
        edges: the graph.
        weights: one an edge; no cycle's sum is positive.
        proof: potentials for these weights.
        starts: the numbers of the nodes where walks may begin.
    """
    # a node's distance is its potential less the weight of the walk: what the walk has lost on the way
    losses = proof[edges.targets] - proof[edges.sources] - weights
    far = 2 * (edges.num_nodes + 1) * (_magnitude(losses) + _magnitude(proof) + 1)
    dtype = np.int64 if 2 * far < _INT64_SAFE else object
    losses, distances = losses.astype(dtype, copy=False), np.full(edges.num_nodes, far, dtype=dtype)
    distances[starts] = proof[starts]
    parents = np.full(edges.num_nodes, NO_EDGE)
    for _ in range(_ROUNDS_BEFORE_DIJKSTRA):
        totals = distances[edges.sources] + losses
        better = np.flatnonzero(totals < distances[edges.targets])
        if not better.size:
            break
        better = _best_into_each(edges, better, -totals[better])
        distances[edges.targets[better]] = totals[better]
        parents[edges.targets[better]] = better
    else:
        _dijkstra(edges, losses, distances, parents)
    return Walks(distances < far // 2, proof - distances, parents)


def _dijkstra(edges: EdgeList, losses: IntArray, distances: IntArray, parents: IntArray) -> None:
    """Lower `distances` to the shortest, in place: they are upper bounds, reached along `parents`."""
    order = np.argsort(edges.sources, kind="stable")
    first = np.searchsorted(edges.sources[order], np.arange(edges.num_nodes + 1)).tolist()
    outgoing, targets, lengths, best = order.tolist(), edges.targets.tolist(), losses.tolist(), distances.tolist()
    unsettled = np.unique(edges.sources[distances[edges.sources] + losses < distances[edges.targets]])
    queue = [(best[node], node) for node in unsettled.tolist()]
    heapq.heapify(queue)
    while queue:
        distance, node = heapq.heappop(queue)
        if distance > best[node]:
            continue
        for edge in outgoing[first[node] : first[node + 1]]:
            total, target = distance + lengths[edge], targets[edge]
            if total < best[target]:
                best[target], parents[target] = total, edge
                heapq.heappush(queue, (total, target))
    distances[:] = best


def find_cycles(edges: EdgeList) -> list[list[int]]:
    """Some cycles, each as edges in order: at least one if there is any, and one in every part that has no way in."""
    return potentials(edges, np.ones(edges.sources.size, dtype=np.int64)).cycles


def heaviest_incoming(edges: EdgeList, weights: IntArray) -> IntArray:
    """The edge of largest weight into each node; NO_EDGE where none leads to it."""
    parents = np.full(edges.num_nodes, NO_EDGE)
    best = _best_into_each(edges, np.arange(edges.targets.size), weights)
    parents[edges.targets[best]] = best
    return parents


def _best_into_each(edges: EdgeList, candidates: IntArray, scores: IntArray) -> IntArray:
    """Of the candidate edges, given in order, those of the largest score among the ones into the same node."""
    targets = edges.targets[candidates]
    first = np.flatnonzero(np.diff(targets, prepend=-1))  # the edges are sorted by target: where each target begins
    if not first.size:
        return candidates
    best = np.maximum.reduceat(scores, first)
    return candidates[scores == np.repeat(best, np.diff(first, append=targets.size))]


def _ratio(cycle: list[int], gains: IntArray, costs: IntArray) -> Fraction:
    return Fraction(sum(gains[cycle].tolist()), sum(costs[cycle].tolist()))


def _reduced(gains: IntArray, costs: IntArray, ratio: Fraction) -> IntArray:
    """`gain - ratio * cost` of every edge, times the ratio's denominator to stay in integers."""
    largest = _magnitude(gains) * ratio.denominator + _magnitude(costs) * ratio.numerator
    if largest >= _INT64_SAFE:
        gains, costs = gains.astype(object), costs.astype(object)
    return ratio.denominator * gains - ratio.numerator * costs


def _exact(weights: IntArray, num_nodes: int) -> IntArray:
    """The weights in a type in which no sum of policy iteration overflows."""
    # pointer doubling sums at most 2n edges, and a gain is a difference of two such sums
    bound = 2 * (2 * num_nodes + 1) * _magnitude(weights)
    return weights.astype(np.int64 if bound < _INT64_SAFE else object, copy=False)


def _magnitude(array: IntArray) -> int:
    return max(abs(int(array.max())), abs(int(array.min()))) if array.size else 0


def _evaluate(edges: EdgeList, weights: IntArray, parents: IntArray) -> tuple[IntArray, list[list[int]]]:
    """Weight of the walk that `parents` describe into every node, and the cycles of that description."""
    end = edges.num_nodes  # a sentinel behind the first node of every walk
    inner = np.flatnonzero(parents != NO_EDGE)
    pointers = np.full(end + 1, end)
    pointers[inner] = edges.sources[parents[inner]]
    values = np.zeros(end + 1, dtype=weights.dtype)
    values[inner] = weights[parents[inner]]
    jumps = 1
    while (pointers != end).any():
        if jumps >= end:  # longer than any walk without a cycle: what has not ended has jumped onto its cycle
            return values[:end], _cycles_through(np.unique(pointers[pointers != end]), edges, parents)
        values = values + values[pointers]
        pointers = pointers[pointers]
        jumps *= 2
    return values[:end], []


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
