"""The critical cycles of a graph: the ones that set its recurrent depth and its recurrent skip coefficient."""

import numpy as np

from rnnlab.errors import GraphError
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.walks import IntArray, RatioCycle, max_cycle_ratio, potentials


def longest_cycle(graph: CyclicGraph) -> RatioCycle:
    """The cycle of most edges a time step."""
    return _best_cycle(graph, gains=np.ones_like(graph.delays), costs=graph.delays)


def farthest_cycle(graph: CyclicGraph) -> RatioCycle:
    """The cycle of most time steps an edge."""
    return _best_cycle(graph, gains=graph.delays, costs=np.ones_like(graph.delays))


def _best_cycle(graph: CyclicGraph, gains: IntArray, costs: IntArray) -> RatioCycle:
    if graph.direction != "forward":
        backward = potentials(graph.edge_list, -graph.delays).cycles[0]  # of positive weight: of negative delay
        raise GraphError(
            f"cycle {graph.show_walk(map(graph.edge, backward))} runs backward in time, and the measures are defined "
            "for networks whose cycles all run forward; measure one direction at a time, as directions(graph) splits "
            "them (rnnlab measure --direction)"
        )
    best = max_cycle_ratio(graph.edge_list, gains, costs)
    assert best is not None, "a valid graph has a cycle (condition 2)"
    return best
