"""The unidirectional parts of a bidirectional network, which is measured one direction at a time (Z16)."""

from typing import NamedTuple

import numpy as np

from rnnlab.errors import GraphError
from rnnlab.graph.cyclic import CyclicGraph, checked_graph
from rnnlab.graph.elements import Edge, Node, NodeKey
from rnnlab.graph.validation import cycle_signs


class Directions(NamedTuple):
    """The two halves of a network; None for a direction in which it has no cycle."""

    forward: CyclicGraph | None
    backward: CyclicGraph | None  # with time reversed, so that its cycles run forward and it can be measured


def directions(graph: CyclicGraph) -> Directions:
    """Split a network into the part without backward cycles and the part, time reversed, without forward ones.

    Nodes on no cycle (inputs, outputs, features) belong to both.

    >>> birnn = CyclicGraph(
    ...     [("x", "input"), ("f",), ("b",), ("y", "output")],
    ...     [("x", "f", 0), ("f", "f", 1), ("f", "y", 0), ("x", "b", 0), ("b", "b", -1), ("b", "y", 0)],
    ... )
    >>> halves = directions(birnn)
    >>> halves.backward.edges[1]
    Edge(source=('b', 0), target=('b', 0), delay=1)
    """
    signs = cycle_signs(checked_graph(graph, "directions"))
    return Directions(
        forward=_without(graph, signs < 0) if (signs > 0).any() else None,
        backward=reversed_in_time(_without(graph, signs > 0)) if (signs < 0).any() else None,
    )


def one_direction(graph: CyclicGraph, direction: str) -> CyclicGraph:
    """The forward or the backward half of a network, the latter with time reversed."""
    half = getattr(directions(graph), direction)
    if half is None:
        raise GraphError(f"the network has no {direction} cycle")
    return half


def _without(graph: CyclicGraph, dropped: np.ndarray) -> CyclicGraph:
    keys = {key for key, number in graph.index.items() if not dropped[number]}
    return CyclicGraph(
        [node for node in graph.nodes if node.key in keys],
        [edge for edge in graph.edges if edge.source in keys and edge.target in keys],
        graph.period,
    )


def reversed_in_time(graph: CyclicGraph) -> CyclicGraph:
    """The graph in which time t is called -t: phases and delays change sign."""

    def mirrored(key: NodeKey) -> NodeKey:
        return (key[0], -key[1] % graph.period)

    return CyclicGraph(
        [Node(node.name, node.kind, -node.phase % graph.period) for node in graph.nodes],
        [Edge(mirrored(edge.source), mirrored(edge.target), -edge.delay) for edge in graph.edges],
        graph.period,
    )
