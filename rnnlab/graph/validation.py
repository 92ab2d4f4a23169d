"""The three conditions of definition 2.1 (Z3-Z5), and whether time runs one way or both (Z6, Z16)."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from rnnlab.errors import GraphError
from rnnlab.graph.walks import EdgeList, IntArray, find_cycles, potentials

if TYPE_CHECKING:
    from rnnlab.graph.cyclic import CyclicGraph

Direction = Literal["forward", "backward", "both"]


def validate(graph: "CyclicGraph") -> Direction:
    """Check conditions (1) to (3) and say which way time runs.

    Raises:
        GraphError: naming the condition that fails, with the edge or cycle that breaks it.
    """
    _check_delays_fit_phases(graph)
    if not find_cycles(graph.edge_list):
        raise GraphError(
            "condition (2) of definition 2.1 fails: the graph has no directed cycle, so the network is not recurrent; "
            "add an edge that leads back, such as h -> h with delay 1"
        )
    if (graph.delays >= 0).all():
        _check_no_zero_delay_cycle(graph)
        return "forward"
    signs = cycle_signs(graph)
    if (signs >= 0).all():
        return "forward"
    return "backward" if (signs <= 0).all() else "both"


def cycle_signs(graph: "CyclicGraph") -> IntArray:
    """For each node the sign of the delay of the cycles through it, 0 where there is none; raises where (3) fails.

    Closed walks stay inside a strongly connected component, and a component with cycles of both signs has a closed walk
    of delay 0: condition (3) holds if and only if all cycles of a component have one strict sign.
    """
    import scipy.sparse
    from scipy.sparse.csgraph import connected_components

    size = graph.num_nodes
    ones = np.ones(graph.num_edges, dtype=np.int8)
    matrix = scipy.sparse.coo_array((ones, (graph.sources, graph.targets)), shape=(size, size)).tocsr()
    num_components, component = connected_components(matrix, connection="strong")
    inside = np.flatnonzero(component[graph.sources] == component[graph.targets])
    edges = EdgeList(size, graph.sources[inside], graph.targets[inside])

    # every node with an edge inside its component has one that leads to it, so each component shows a cycle
    samples = {int(component[edges.targets[cycle[0]]]): inside[cycle].tolist() for cycle in find_cycles(edges)}
    sign_of = np.zeros(num_components, dtype=np.int64)
    for number, cycle in samples.items():
        delay = _delay(graph, cycle)
        if delay == 0:
            raise _zero_delay_error(graph, cycle)
        sign_of[number] = 1 if delay > 0 else -1
    signs = sign_of[component]

    # a cycle has positive weight here if and only if its delay, counted its component's way, is 0 or less
    weights = 1 - signs[edges.targets].astype(object) * graph.delays[inside] * (size + 1)
    against = potentials(edges, weights).cycles
    if against:
        cycle = inside[against[0]].tolist()
        if _delay(graph, cycle) == 0:
            raise _zero_delay_error(graph, cycle)
        raise _two_signs_error(graph, cycle, samples[int(component[graph.targets[cycle[0]]])])
    return signs


def _check_delays_fit_phases(graph: "CyclicGraph") -> None:
    shift = graph.phases[graph.targets] - graph.phases[graph.sources]
    wrong = np.flatnonzero((graph.delays - shift) % graph.period)
    if wrong.size:
        edge = graph.edge(int(wrong[0]))
        raise GraphError(
            f"condition (1) of definition 2.1 fails: edge {graph.show_walk([edge])} leads from phase {edge.source[1]} "
            f"to phase {edge.target[1]}, so its delay must be {edge.target[1] - edge.source[1]} plus a multiple of the "
            f"period {graph.period}, not {edge.delay}"
        )


def _check_no_zero_delay_cycle(graph: "CyclicGraph") -> None:
    """Condition (3) where no delay is negative: only edges of delay 0 can form a closed walk of delay 0."""
    zero = np.flatnonzero(graph.delays == 0)
    cycles = find_cycles(EdgeList(graph.num_nodes, graph.sources[zero], graph.targets[zero]))
    if cycles:
        raise _zero_delay_error(graph, zero[cycles[0]].tolist())


def _delay(graph: "CyclicGraph", cycle: list[int]) -> int:
    return sum(graph.delays[cycle].tolist())


def _zero_delay_error(graph: "CyclicGraph", cycle: list[int]) -> GraphError:
    return GraphError(
        f"condition (3) of definition 2.1 fails: cycle {graph.show_walk(map(graph.edge, cycle))} has total delay 0, so "
        "no step order exists; give one of its edges another delay"
    )


def _two_signs_error(graph: "CyclicGraph", cycle: list[int], other: list[int]) -> GraphError:
    shown = " and ".join(f"{graph.show_walk(map(graph.edge, c))} (delay {_delay(graph, c)})" for c in (cycle, other))
    return GraphError(
        f"condition (3) of definition 2.1 fails: cycles {shown} reach each other, so a closed walk round both, each "
        "often enough, has total delay 0; separate the two directions of time"
    )
