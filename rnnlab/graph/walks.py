"""Potentials, best cycle ratios and longest walks, in exact integers: the three computations behind every measure.

`potentials` is policy iteration. Every node keeps one *parent*, the last edge of the best walk known to end in it. A
round evaluates all those walks at once by pointer doubling, O(n log n) whatever their length, then lets every node
switch to a better last edge. A switch strictly gains, so switches close a cycle only if it has positive weight.

`max_cycle_ratio` rests on this (Howard's algorithm): with weights `gain - ratio * cost` a positive cycle is one of a
better ratio. The potentials left at the end turn every weight into a loss of zero or more, on which `longest_walks` is
Dijkstra's algorithm (Johnson's reweighting).
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[Any]
"""Integers, as int64 or, where a sum could overflow, as Python objects."""

NO_EDGE = -1
_INT64_SAFE = 2**62
_ROUNDS_BEFORE_PASSES = 100
_EDGES_BEFORE_DIJKSTRA = 20  # how often each edge may be tried, on average, before rounds give way


class EdgeList(NamedTuple):
    """A directed multigraph in numbers: edge e runs from node `sources[e]` to node `targets[e]`; sorted by target."""

    num_nodes: int
    sources: IntArray
    targets: IntArray


class Potentials(NamedTuple):
    """Numbers that prove that no cycle has positive weight, or cycles that do."""

    values: IntArray  # [num_nodes], with values[target] >= values[source] + weight on every edge
    parents: IntArray  # [num_nodes], an edge into each node, without cycles; NO_EDGE at roots
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

    Cost: O(m + n log n) a round. A random graph takes 10 to 60 rounds, a chain or ring of any length one. What is not
    settled after 100 rounds is settled node by node.

    Args:
        edges: the graph.
        weights: one an edge.
        parents: an edge into each node to begin with (NO_EDGE for none); the heaviest by default.
    """
    weights = _exact(weights, edges.num_nodes)
    parents = heaviest_incoming(edges, weights) if parents is None else parents.copy()
    values, cycles = _evaluate(edges, weights, parents)
    if cycles:  # the first guess may have cycles of any weight; switches close only positive ones
        parents[[edges.targets[cycle[0]] for cycle in cycles]] = NO_EDGE
        if positive := [cycle for cycle in cycles if sum(weights[cycle].tolist()) > 0]:
            return Potentials(values, parents, positive)
        values, cycles = _evaluate(edges, weights, parents)
    for _ in range(_ROUNDS_BEFORE_PASSES):
        gains = values[edges.sources] + weights - values[edges.targets]
        better = np.flatnonzero(gains > 0)
        if not better.size:
            return Potentials(values, parents, [])
        best = better[_best_of_each(edges.targets[better], gains[better])]
        parents[edges.targets[best]] = best
        values, cycles = _evaluate(edges, weights, parents)
        if cycles:
            parents[[edges.targets[cycle[0]] for cycle in cycles]] = NO_EDGE
            return Potentials(values, parents, cycles)
    return _settle(edges, weights, values, parents)


def _settle(edges: EdgeList, weights: IntArray, values: IntArray, parents: IntArray) -> Potentials:
    """Finish `potentials` node by node, in passes along the edges that gain or would (Goldberg and Radzik's algorithm).

    A graph without cycles takes a pass or two, however long its chains are.
    """
    outgoing = _Outgoing.of(edges)
    first, targets = outgoing.first.tolist(), edges.targets[outgoing.by_source].tolist()
    numbers, gains, heights = outgoing.by_source.tolist(), weights[outgoing.by_source].tolist(), values.tolist()

    def ahead(node: int) -> Iterator[int]:
        # edges without slack count too: they gain as soon as the node rises
        places = range(first[node], first[node + 1])
        return (targets[place] for place in places if heights[node] + gains[place] >= heights[targets[place]])

    changed = set(edges.sources[values[edges.sources] + weights > values[edges.targets]].tolist())
    while changed:
        for node in _depth_first(sorted(changed), ahead):
            changed.discard(node)
            for place in range(first[node], first[node + 1]):
                target, height = targets[place], heights[node] + gains[place]
                if height > heights[target]:
                    heights[target], parents[target] = height, numbers[place]
                    changed.add(target)
        if cycles := _evaluate(edges, weights, parents)[1]:
            parents[[edges.targets[cycle[0]] for cycle in cycles]] = NO_EDGE
            return Potentials(values, parents, cycles)
    return Potentials(np.array(heights, dtype=values.dtype), parents, [])


def _depth_first(starts: Sequence[int], following: Callable[[int], Iterator[int]]) -> list[int]:
    """All that can be reached from `starts`, each before what follows it, as far as there is no cycle."""
    finished: list[int] = []
    seen: set[int] = set()
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        stack = [(start, following(start))]
        while stack:
            node, ways = stack[-1]
            fresh = next((way for way in ways if way not in seen), None)
            if fresh is None:
                finished.append(node)
                stack.pop()
            else:
                seen.add(fresh)
                stack.append((fresh, following(fresh)))
    return finished[::-1]


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
        cycle = max(found.cycles, key=lambda each: _ratio(each, gains, costs))
        ratio = _ratio(cycle, gains, costs)
        parents = found.parents


def longest_walks(edges: EdgeList, weights: IntArray, proof: IntArray, starts: IntArray) -> Walks:
    """The largest weight of a walk into each node, over all walks that begin in a node of `starts`.

    Rounds over whole arrays settle an ordinary graph; Dijkstra's algorithm finishes one with long chains. Cost:
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
    outgoing = _Outgoing.of(edges)
    changed, budget = starts, _EDGES_BEFORE_DIJKSTRA * edges.targets.size
    while budget >= 0:
        tried = outgoing.edges_of(changed)
        budget -= tried.size + 1
        totals = distances[edges.sources[tried]] + losses[tried]
        gains = distances[edges.targets[tried]] - totals
        better = np.flatnonzero(gains > 0)
        if not better.size:
            break
        best = better[_best_of_each(edges.targets[tried[better]], gains[better])]
        changed = edges.targets[tried[best]]
        distances[changed] = totals[best]
        parents[changed] = tried[best]
    else:
        _dijkstra(edges, outgoing, losses, distances, parents, changed)
    return Walks(distances < far // 2, proof - distances, parents)


class _Outgoing(NamedTuple):
    """The edges by the node they leave."""

    edges: EdgeList
    by_source: IntArray  # [num_edges], edges sorted by source
    first: IntArray  # [num_nodes + 1], where each node's begin

    @staticmethod
    def of(edges: EdgeList) -> "_Outgoing":
        by_source = np.argsort(edges.sources, kind="stable")
        first = np.zeros(edges.num_nodes + 1, dtype=np.int64)
        np.cumsum(np.bincount(edges.sources, minlength=edges.num_nodes), out=first[1:])
        return _Outgoing(edges, by_source, first)

    def leaving(self, node: int) -> IntArray:
        """The edges that leave one node."""
        return self.by_source[self.first[node] : self.first[node + 1]]

    def edges_of(self, nodes: IntArray) -> IntArray:
        """The edges that leave `nodes`, in order."""
        if 8 * nodes.size > self.edges.num_nodes:  # sorting would cost more than looking at every edge
            chosen = np.zeros(self.edges.num_nodes, dtype=bool)
            chosen[nodes] = True
            return np.flatnonzero(chosen[self.edges.sources])
        counts = self.first[nodes + 1] - self.first[nodes]
        before = np.cumsum(counts) - counts
        places = np.arange(int(counts.sum())) + np.repeat(self.first[nodes] - before, counts)
        return np.sort(self.by_source[places])


def _dijkstra(
    edges: EdgeList, outgoing: _Outgoing, losses: IntArray, distances: IntArray, parents: IntArray, changed: IntArray
) -> None:
    """Lower `distances` and `parents` to the shortest, in place, where only edges out of `changed` can still gain."""
    best = distances.tolist()
    queue = [(best[node], node) for node in changed.tolist()]
    heapq.heapify(queue)
    while queue:
        distance, node = heapq.heappop(queue)
        if distance > best[node]:
            continue
        leaving = outgoing.leaving(node)
        ends = zip(leaving.tolist(), edges.targets[leaving].tolist(), losses[leaving].tolist(), strict=True)
        for edge, target, loss in ends:
            if distance + loss < best[target]:
                best[target], parents[target] = distance + loss, edge
                heapq.heappush(queue, (best[target], target))
    distances[:] = best


def find_cycles(edges: EdgeList) -> list[list[int]]:
    """Some cycles, each as edges in order: at least one if there is any, and one in every part that has no way in."""
    return potentials(edges, np.ones(edges.sources.size, dtype=np.int64)).cycles


def heaviest_incoming(edges: EdgeList, weights: IntArray) -> IntArray:
    """The edge of largest weight into each node; NO_EDGE where none leads to it."""
    parents = np.full(edges.num_nodes, NO_EDGE)
    best = _best_of_each(edges.targets, weights)
    parents[edges.targets[best]] = best
    return parents


def _best_of_each(groups: IntArray, scores: IntArray) -> IntArray:
    """Where the largest score of each group stands, the first of equals; equal groups must stand side by side."""
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    if not first.size:
        return first
    best = np.maximum.reduceat(scores, first)
    winners = np.flatnonzero(scores == np.repeat(best, np.diff(first, append=groups.size)))
    return winners[np.diff(groups[winners], prepend=-1) != 0]


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
            on_cycle = np.zeros(end + 1, dtype=bool)
            on_cycle[pointers] = True
            return values[:end], _cycles_through(np.flatnonzero(on_cycle[:end]), edges, parents)
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
