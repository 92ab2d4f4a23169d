"""The critical cycles of a graph: the ones that set its recurrent depth and its recurrent skip coefficient."""

import numpy as np

from rnnlab.errors import GraphError
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.walks import IntArray, RatioCycle, max_cycle_ratio


def longest_cycle(graph: CyclicGraph) -> RatioCycle:
    """The cycle of most edges a time step."""
    return _best_cycle(graph, gains=np.ones_like(graph.delays), costs=graph.delays)


def farthest_cycle(graph: CyclicGraph) -> RatioCycle:
    """The cycle of most time steps an edge."""
    return _best_cycle(graph, gains=graph.delays, costs=np.ones_like(graph.delays))


def _best_cycle(graph: CyclicGraph, gains: IntArray, costs: IntArray) -> RatioCycle:
    if graph.direction != "forward":
        raise GraphError(
            "the measures are defined for networks whose cycles all run forward in time, and this one has cycles of "
            "negative total delay; measure the graphs that directions(graph) returns, one a direction"
        )
    best = max_cycle_ratio(graph.edge_list, gains, costs)
    assert best is not None, "a valid graph has a cycle (condition 2)"
    return best
