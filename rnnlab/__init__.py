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
from rnnlab.version import VERSION

if TYPE_CHECKING:
    from rnnlab.comparing import compare
    from rnnlab.engine.conversion import from_torch
    from rnnlab.engine.costs import Costs, costs
    from rnnlab.engine.initialisation import Initialisation
    from rnnlab.engine.model import Model
    from rnnlab.engine.model_files import load_model
    from rnnlab.engine.plan import Plan, plan
    from rnnlab.engine.state import State
    from rnnlab.report.report import Report, make_report, write_report
    from rnnlab.studies.comparison import Comparison, Contender
    from rnnlab.studies.records import ArmRecord, Finalist, StudyRecord, load_record
    from rnnlab.studies.run import resume_study, run_study
    from rnnlab.studies.specification import StudySpec, load_spec
    from rnnlab.studies.status import StudyStatus, list_studies, study_status
    from rnnlab.studies.table import load_study
    from rnnlab.tasks.data import add_folder, list_data
    from rnnlab.tasks.example import Example
    from rnnlab.tasks.generated import AbstractGeneratedTask
    from rnnlab.tasks.show import show
    from rnnlab.tasks.task import AbstractTask, Batch, Score, Tally
    from rnnlab.training.evaluation import evaluate
    from rnnlab.training.hyperparameters import Hyperparameters, load_hyperparameters
    from rnnlab.training.loop import train
    from rnnlab.training.run import LearningCurve, Member, Run
    from rnnlab.tuning.arms import Arm
    from rnnlab.tuning.dimensions import Category, Float, Integer
    from rnnlab.tuning.optuna_sampler import OptunaSampler
    from rnnlab.tuning.space import SearchSpace, load_space
    from rnnlab.tuning.trials import Trial
    from rnnlab.tuning.tune import Tuning, tune

__version__ = VERSION

# loaded when first asked for: torch takes seconds, and the theory does without it
_ON_DEMAND = {
    "AbstractGeneratedTask": "rnnlab.tasks.generated",
    "AbstractTask": "rnnlab.tasks.task",
    "Arm": "rnnlab.tuning.arms",
    "ArmRecord": "rnnlab.studies.records",
    "Batch": "rnnlab.tasks.task",
    "Category": "rnnlab.tuning.dimensions",
    "Comparison": "rnnlab.studies.comparison",
    "Contender": "rnnlab.studies.comparison",
    "Costs": "rnnlab.engine.costs",
    "Example": "rnnlab.tasks.example",
    "Finalist": "rnnlab.studies.records",
    "Float": "rnnlab.tuning.dimensions",
    "Hyperparameters": "rnnlab.training.hyperparameters",
    "Initialisation": "rnnlab.engine.initialisation",
    "Integer": "rnnlab.tuning.dimensions",
    "LearningCurve": "rnnlab.training.run",
    "Member": "rnnlab.training.run",
    "Model": "rnnlab.engine.model",
    "OptunaSampler": "rnnlab.tuning.optuna_sampler",
    "Plan": "rnnlab.engine.plan",
    "Report": "rnnlab.report.report",
    "Run": "rnnlab.training.run",
    "Score": "rnnlab.tasks.task",
    "SearchSpace": "rnnlab.tuning.space",
    "State": "rnnlab.engine.state",
    "StudyRecord": "rnnlab.studies.records",
    "StudySpec": "rnnlab.studies.specification",
    "StudyStatus": "rnnlab.studies.status",
    "Tally": "rnnlab.tasks.task",
    "Trial": "rnnlab.tuning.trials",
    "Tuning": "rnnlab.tuning.tune",
    "add_folder": "rnnlab.tasks.data",
    "compare": "rnnlab.comparing",
    "costs": "rnnlab.engine.costs",
    "evaluate": "rnnlab.training.evaluation",
    "from_torch": "rnnlab.engine.conversion",
    "list_data": "rnnlab.tasks.data",
    "list_studies": "rnnlab.studies.status",
    "load_hyperparameters": "rnnlab.training.hyperparameters",
    "load_model": "rnnlab.engine.model_files",
    "load_record": "rnnlab.studies.records",
    "load_space": "rnnlab.tuning.space",
    "load_spec": "rnnlab.studies.specification",
    "load_study": "rnnlab.studies.table",
    "make_report": "rnnlab.report.report",
    "plan": "rnnlab.engine.plan",
    "resume_study": "rnnlab.studies.run",
    "run_study": "rnnlab.studies.run",
    "show": "rnnlab.tasks.show",
    "study_status": "rnnlab.studies.status",
    "train": "rnnlab.training.loop",
    "tune": "rnnlab.tuning.tune",
    "write_report": "rnnlab.report.report",
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
    "Arm",
    "ArmRecord",
    "Batch",
    "Category",
    "Cell",
    "CheckpointError",
    "Comparison",
    "Contender",
    "Costs",
    "CyclicGraph",
    "Directions",
    "Drawing",
    "Edge",
    "EdgeSpec",
    "Example",
    "Expression",
    "Family",
    "Finalist",
    "Float",
    "GraphError",
    "Hyperparameters",
    "Initialisation",
    "Integer",
    "Layer",
    "LearningCurve",
    "Measures",
    "Member",
    "Model",
    "ModelError",
    "Node",
    "NodeSpec",
    "OptunaSampler",
    "ParameterSpec",
    "PathLengths",
    "Plan",
    "Report",
    "RnnlabError",
    "Run",
    "Score",
    "SearchSpace",
    "Signal",
    "Slots",
    "State",
    "StudyRecord",
    "StudySpec",
    "StudyStatus",
    "Tally",
    "TaskEntry",
    "TaskError",
    "TrainingError",
    "Trial",
    "Tuning",
    "TuningError",
    "UnfoldedEdge",
    "UnfoldedGraph",
    "Witnesses",
    "add_folder",
    "architecture",
    "compare",
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
    "list_studies",
    "load_architecture",
    "load_graph",
    "load_hyperparameters",
    "load_model",
    "load_record",
    "load_space",
    "load_spec",
    "load_study",
    "make_report",
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
    "resume_study",
    "run_study",
    "save_architecture",
    "save_graph",
    "show",
    "sigmoid",
    "slots",
    "smallest_period",
    "study_status",
    "tanh",
    "task",
    "train",
    "tune",
    "unfold",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module 'rnnlab' has no attribute {name!r}")
    value = getattr(importlib.import_module(_ON_DEMAND[name]), name)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_DEMAND})
