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
from rnnlab.errors import (
    ArchitectureError,
    CheckpointError,
    GraphError,
    ModelError,
    RnnlabError,
    TaskError,
    TrainingError,
    TuningError,
)
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
from rnnlab.tasks.registry import TASKS, TaskEntry, task

if TYPE_CHECKING:
    from rnnlab.engine.conversion import from_torch
    from rnnlab.engine.costs import Costs, costs
    from rnnlab.engine.initialisation import Initialisation
    from rnnlab.engine.model import Model, load_model
    from rnnlab.engine.plan import Plan, plan
    from rnnlab.engine.state import State
    from rnnlab.tasks.data import add_folder, list_data
    from rnnlab.tasks.example import Example
    from rnnlab.tasks.generated import AbstractGeneratedTask
    from rnnlab.tasks.show import show
    from rnnlab.tasks.task import AbstractTask, Batch, Score, Tally
    from rnnlab.training.evaluation import evaluate
    from rnnlab.training.hyperparameters import Hyperparameters, load_hyperparameters
    from rnnlab.training.loop import train
    from rnnlab.training.run import LearningCurve, Member, Run

# loaded when first asked for: torch takes seconds, and the theory does without it
_ON_DEMAND = {
    "AbstractGeneratedTask": "rnnlab.tasks.generated",
    "AbstractTask": "rnnlab.tasks.task",
    "Batch": "rnnlab.tasks.task",
    "Costs": "rnnlab.engine.costs",
    "Example": "rnnlab.tasks.example",
    "Hyperparameters": "rnnlab.training.hyperparameters",
    "Initialisation": "rnnlab.engine.initialisation",
    "LearningCurve": "rnnlab.training.run",
    "Member": "rnnlab.training.run",
    "Model": "rnnlab.engine.model",
    "Plan": "rnnlab.engine.plan",
    "Run": "rnnlab.training.run",
    "Score": "rnnlab.tasks.task",
    "State": "rnnlab.engine.state",
    "Tally": "rnnlab.tasks.task",
    "add_folder": "rnnlab.tasks.data",
    "costs": "rnnlab.engine.costs",
    "evaluate": "rnnlab.training.evaluation",
    "from_torch": "rnnlab.engine.conversion",
    "list_data": "rnnlab.tasks.data",
    "load_hyperparameters": "rnnlab.training.hyperparameters",
    "load_model": "rnnlab.engine.model",
    "plan": "rnnlab.engine.plan",
    "show": "rnnlab.tasks.show",
    "train": "rnnlab.training.loop",
}

__all__ = [
    "CATALOGUE",
    "CATEGORIES",
    "CELLS",
    "TASKS",
    "AbstractGeneratedTask",
    "AbstractTask",
    "Architecture",
    "ArchitectureError",
    "Batch",
    "Cell",
    "CheckpointError",
    "Costs",
    "CyclicGraph",
    "Directions",
    "Drawing",
    "Edge",
    "EdgeSpec",
    "Example",
    "Expression",
    "Family",
    "GraphError",
    "Hyperparameters",
    "Initialisation",
    "Layer",
    "LearningCurve",
    "Measures",
    "Member",
    "Model",
    "ModelError",
    "Node",
    "NodeSpec",
    "ParameterSpec",
    "PathLengths",
    "Plan",
    "RnnlabError",
    "Run",
    "Score",
    "Signal",
    "Slots",
    "State",
    "Tally",
    "TaskEntry",
    "TaskError",
    "TrainingError",
    "TuningError",
    "UnfoldedEdge",
    "UnfoldedGraph",
    "Witnesses",
    "add_folder",
    "architecture",
    "compose",
    "costs",
    "directions",
    "draw",
    "evaluate",
    "feedforward_depth",
    "find_architecture",
    "find_connections",
    "fit_units",
    "fold",
    "from_torch",
    "list_data",
    "load_architecture",
    "load_graph",
    "load_hyperparameters",
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
    "show",
    "sigmoid",
    "slots",
    "smallest_period",
    "tanh",
    "task",
    "train",
    "unfold",
]


def __getattr__(name: str) -> Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module 'rnnlab' has no attribute {name!r}")
    return getattr(importlib.import_module(_ON_DEMAND[name]), name)
