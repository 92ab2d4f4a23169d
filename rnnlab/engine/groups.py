"""Which nodes run together: strongly connected components one by one, or groups of them in one pattern of slots."""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Literal, get_args

import networkx

from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.elements import NodeKey
from rnnlab.graph.validation import cycle_signs

Order = Literal["by component", "wavefront"]
ORDERS: tuple[Order, ...] = get_args(Order)

_FORWARD, _BACKWARD = 1, -1


def groups(graph: CyclicGraph, order: Order) -> list[tuple[NodeKey, ...]]:
    """The nodes that run together, in an order in which each group finds what it reads.

    By component, a group is a strongly connected component. In a wavefront it is all cyclic components whose turn it
    is, and the nodes between them: downstream of one and upstream of another. Forward and backward in time take turns,
    and each cyclic component has the earliest turn of its direction that is not before any component upstream of it;
    of the two directions the one begins that leads to fewer turns. Turns never fall along an edge, so the groups can
    run one after another; and no way to merge components of one direction has fewer groups, for groups that follow one
    another in one direction could be merged too. All other nodes are on their own: they are hoisted.
    """
    condensed = networkx.condensation(networkx.DiGraph(graph.to_networkx()))
    members: dict[int, set[NodeKey]] = {number: data["members"] for number, data in condensed.nodes(data=True)}
    group_of = {number: number for number in members}
    if order == "wavefront":
        group_of |= _waves(condensed, _signs(graph, members))
    merged: dict[int, list[NodeKey]] = defaultdict(list)
    for number, keys in members.items():
        merged[group_of[number]] += keys
    follows: networkx.DiGraph[int] = networkx.DiGraph()
    follows.add_nodes_from(merged)
    ends = ((group_of[source], group_of[target]) for source, target in condensed.edges)
    follows.add_edges_from((source, target) for source, target in ends if source != target)
    first = {group: min(map(graph.index.__getitem__, keys)) for group, keys in merged.items()}
    in_order = networkx.lexicographical_topological_sort(follows, key=first.__getitem__)
    return [tuple(sorted(merged[group], key=graph.index.__getitem__)) for group in in_order]


def _signs(graph: CyclicGraph, members: Mapping[int, set[NodeKey]]) -> dict[int, int]:
    """For each component 1 if its cycles run forward in time, -1 if backward, 0 if it has none."""
    signs = cycle_signs(graph).tolist()
    return {number: signs[graph.index[next(iter(keys))]] for number, keys in members.items()}


def _waves(condensed: "networkx.DiGraph[int]", signs: Mapping[int, int]) -> dict[int, int]:
    """For each component that is part of a wavefront the number of one that stands for the whole."""
    ways = [_turns(condensed, signs, first) for first in (_FORWARD, _BACKWARD)]
    latest = min(ways, key=lambda turns: len({turns[number] for number, sign in signs.items() if sign}))
    order: list[int] = list(networkx.topological_sort(condensed))
    earliest: dict[int, float] = {}  # the first turn among the cyclic components downstream
    for number in reversed(order):
        after = (earliest[each] for each in condensed.successors(number))
        earliest[number] = latest[number] if signs[number] else min(after, default=math.inf)
    stands_for: dict[int, int] = {}
    between = [number for number in order if latest[number] == earliest[number]]
    return {number: stands_for.setdefault(latest[number], number) for number in between}


def _turns(condensed: "networkx.DiGraph[int]", signs: Mapping[int, int], first: int) -> dict[int, int]:
    """The turn of each cyclic component; of the others the last turn upstream, or -1 where there is none."""
    turns: dict[int, int] = {}
    for number in networkx.topological_sort(condensed):
        turn = max((turns[before] for before in condensed.predecessors(number)), default=-1)
        if signs[number]:
            turn = max(turn, 0)
            turn += signs[number] != (first if turn % 2 == 0 else -first)
        turns[number] = turn
    return turns
