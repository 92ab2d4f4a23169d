"""A laboratory for recurrent neural networks: describe, measure and draw any recurrent architecture.

    CyclicGraph ──► Architecture ──► Plan ──► Model ──► Population run ──► Study ──► Report
"""

from rnnlab.errors import GraphError, RnnlabError
from rnnlab.graph.catalogue import CATALOGUE, Family, named_graph
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.directions import Directions, directions
from rnnlab.graph.elements import Edge, Node
from rnnlab.graph.files import find_graph, load_graph, save_graph
from rnnlab.graph.measures import (
    Measures,
    Witnesses,
    feedforward_depth,
    measure,
    recurrent_depth,
    recurrent_skip_coefficient,
)
from rnnlab.graph.paths import PathLengths, path_lengths
from rnnlab.graph.schedule import Slots, slots
from rnnlab.graph.unfolding import UnfoldedEdge, UnfoldedGraph, fold, smallest_period, unfold

__all__ = [
    "CATALOGUE",
    "CyclicGraph",
    "Directions",
    "Edge",
    "Family",
    "GraphError",
    "Measures",
    "Node",
    "PathLengths",
    "RnnlabError",
    "Slots",
    "UnfoldedEdge",
    "UnfoldedGraph",
    "Witnesses",
    "directions",
    "feedforward_depth",
    "find_graph",
    "fold",
    "load_graph",
    "measure",
    "named_graph",
    "path_lengths",
    "recurrent_depth",
    "recurrent_skip_coefficient",
    "save_graph",
    "slots",
    "smallest_period",
    "unfold",
]
