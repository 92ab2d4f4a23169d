"""A laboratory for recurrent neural networks: describe, measure, draw and run any recurrent architecture.

CyclicGraph ──► Architecture ──► Plan ──► Model ──► Population run ──► Study ──► Report
"""

import importlib
from typing import TYPE_CHECKING, Any

from rnnlab.architecture import (
    CATEGORIES,
    CELLS,
    Architecture,
    Cell,
    EdgeSpec,
    Expression,
    Layer,
    NodeSpec,
    ParameterSpec,
    Signal,
    architecture,
    compose,
    find_architecture,
    find_connections,
    fit_units,
    load_architecture,
    named_cell,
    nonlinearity,
    plus,
    predict,
    register_cell,
    relu,
    save_architecture,
    sigmoid,
    tanh,
)
from rnnlab.errors import ArchitectureError, GraphError, ModelError, RnnlabError
from rnnlab.graph import (
    CATALOGUE,
    CyclicGraph,
    Directions,
    Drawing,
    Edge,
    Family,
    Measures,
    Node,
    PathLengths,
    Slots,
    UnfoldedEdge,
    UnfoldedGraph,
    Witnesses,
    directions,
    draw,
    feedforward_depth,
    fold,
    load_graph,
    measure,
    named_graph,
    path_lengths,
    recurrent_depth,
    recurrent_skip_coefficient,
    save_graph,
    slots,
    smallest_period,
    unfold,
)

if TYPE_CHECKING:
    from rnnlab.engine.conversion import from_torch
    from rnnlab.engine.costs import Costs, costs
    from rnnlab.engine.initialisation import Initialisation
    from rnnlab.engine.model import Model, load_model
    from rnnlab.engine.plan import Plan, plan
    from rnnlab.engine.state import State

# loaded when first asked for: torch takes seconds, and the theory does without it
_ON_DEMAND = {
    "Costs": "rnnlab.engine.costs",
    "Initialisation": "rnnlab.engine.initialisation",
    "Model": "rnnlab.engine.model",
    "Plan": "rnnlab.engine.plan",
    "State": "rnnlab.engine.state",
    "costs": "rnnlab.engine.costs",
    "from_torch": "rnnlab.engine.conversion",
    "load_model": "rnnlab.engine.model",
    "plan": "rnnlab.engine.plan",
}

__all__ = [
    "CATALOGUE",
    "CATEGORIES",
    "CELLS",
    "Architecture",
    "ArchitectureError",
    "Cell",
    "Costs",
    "CyclicGraph",
    "Directions",
    "Drawing",
    "Edge",
    "EdgeSpec",
    "Expression",
    "Family",
    "GraphError",
    "Initialisation",
    "Layer",
    "Measures",
    "Model",
    "ModelError",
    "Node",
    "NodeSpec",
    "ParameterSpec",
    "PathLengths",
    "Plan",
    "RnnlabError",
    "Signal",
    "Slots",
    "State",
    "UnfoldedEdge",
    "UnfoldedGraph",
    "Witnesses",
    "architecture",
    "compose",
    "costs",
    "directions",
    "draw",
    "feedforward_depth",
    "find_architecture",
    "find_connections",
    "fit_units",
    "fold",
    "from_torch",
    "load_architecture",
    "load_graph",
    "load_model",
    "measure",
    "named_cell",
    "named_graph",
    "nonlinearity",
    "path_lengths",
    "plan",
    "plus",
    "predict",
    "recurrent_depth",
    "recurrent_skip_coefficient",
    "register_cell",
    "relu",
    "save_architecture",
    "save_graph",
    "sigmoid",
    "slots",
    "smallest_period",
    "tanh",
    "unfold",
]


def __getattr__(name: str) -> Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module 'rnnlab' has no attribute {name!r}")
    return getattr(importlib.import_module(_ON_DEMAND[name]), name)
