"""Networks without their numbers: cells, architectures, their catalogue and their sizes. Imports no torch."""

from rnnlab.architecture.architecture import CATEGORIES, Architecture, ParameterSpec
from rnnlab.architecture.catalogue import architecture
from rnnlab.architecture.cells import CELLS, Cell, named_cell, register_cell
from rnnlab.architecture.expressions import Expression, nonlinearity, relu, sigmoid, tanh
from rnnlab.architecture.files import (
    find_architecture,
    find_connections,
    load_architecture,
    save_architecture,
)
from rnnlab.architecture.operators import Layer, Signal, compose, plus, predict
from rnnlab.architecture.sizing import fit_units
from rnnlab.architecture.specs import EdgeSpec, NodeSpec

__all__ = [
    "CATEGORIES",
    "CELLS",
    "Architecture",
    "Cell",
    "EdgeSpec",
    "Expression",
    "Layer",
    "NodeSpec",
    "ParameterSpec",
    "Signal",
    "architecture",
    "compose",
    "find_architecture",
    "find_connections",
    "fit_units",
    "load_architecture",
    "named_cell",
    "nonlinearity",
    "plus",
    "predict",
    "register_cell",
    "relu",
    "save_architecture",
    "sigmoid",
    "tanh",
]
