"""The theory: cyclic graphs with time delays, their exact measures, schedules and pictures. Imports no torch."""

from rnnlab.graph.catalogue import CATALOGUE, Family, named_graph
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.directions import Directions, directions
from rnnlab.graph.drawing import Drawing, draw
from rnnlab.graph.elements import Edge, Node
from rnnlab.graph.files import load_graph, save_graph
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
    "Drawing",
    "Edge",
    "Family",
    "Measures",
    "Node",
    "PathLengths",
    "Slots",
    "UnfoldedEdge",
    "UnfoldedGraph",
    "Witnesses",
    "directions",
    "draw",
    "feedforward_depth",
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
