"""Writes docs/reference.md from the docstrings and the help of the commands."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import rnnlab

PAGE = Path(__file__).with_name("reference.md")

GROUPS = {
    "Graphs": ("CyclicGraph", "Node", "Edge", "load_graph", "save_graph"),
    "Measures": (
        *("measure", "Measures", "Witnesses"),
        *("recurrent_depth", "feedforward_depth", "recurrent_skip_coefficient", "directions", "Directions"),
    ),
    "Schedule": ("slots", "Slots"),
    "Unfolding and paths": (
        *("unfold", "UnfoldedGraph", "UnfoldedEdge", "fold", "smallest_period"),
        *("path_lengths", "PathLengths"),
    ),
    "Pictures": ("draw", "Drawing"),
    "Catalogue": ("named_graph", "CATALOGUE", "Family"),
    "Architectures": (
        *("architecture", "Architecture", "NodeSpec", "EdgeSpec", "ParameterSpec", "CATEGORIES", "fit_units"),
        *("load_architecture", "save_architecture", "find_architecture", "find_connections"),
    ),
    "Cells": (
        *("CELLS", "Cell", "named_cell", "register_cell"),
        *("Expression", "sigmoid", "tanh", "relu", "nonlinearity"),
    ),
    "Equations": ("Signal", "plus", "predict", "Layer", "compose"),
    "Models": ("Model", "load_model", "from_torch", "State", "Initialisation", "plan", "Plan", "costs", "Costs"),
    "Tasks": (
        *("TASKS", "TaskEntry", "task", "show", "Example", "AbstractTask", "AbstractGeneratedTask"),
        *("Batch", "Score", "Tally", "add_folder", "list_data"),
    ),
    "Training": ("train", "Hyperparameters", "load_hyperparameters", "Run", "Member", "LearningCurve", "evaluate"),
    "Tuning": (
        *("tune", "Tuning", "Trial", "Arm", "SearchSpace", "Float", "Integer", "Category", "load_space"),
        "OptunaSampler",
    ),
    "Studies": (
        *("StudySpec", "load_spec", "run_study", "resume_study", "study_status", "StudyStatus", "list_studies"),
        *("load_study", "load_record", "StudyRecord", "ArmRecord", "Finalist"),
    ),
    "Comparisons": ("compare", "Comparison", "Contender", "Report", "make_report", "write_report"),
    "Errors": (
        *("RnnlabError", "GraphError", "ArchitectureError", "ModelError", "TaskError"),
        *("TrainingError", "CheckpointError", "TuningError"),
    ),
}

COMMANDS = (
    *((), ("list",), ("measure",), ("draw",), ("show",), ("train",), ("tune",)),
    *(("study", "run"), ("study", "resume"), ("study", "status"), ("study", "list"), ("study", "table")),
    *(("study", "record"), ("compare",), ("report",)),
    *(("data", "add"), ("data", "list"), ("bench", "cpu"), ("bench", "train")),
)

CONSTANTS = {
    "CATALOGUE": "All families of architectures, in order; each is a `Family`.",
    "CATEGORIES": "The categories by which a network's parameters are counted, in order.",
    "CELLS": "All cells by name; `register_cell` adds to them.",
    "TASKS": "All tasks by name; each is a `TaskEntry`.",
}


def reference() -> str:
    """The whole page."""
    listed = [name for names in GROUPS.values() for name in names]
    assert sorted(listed) == sorted(rnnlab.__all__), set(listed) ^ set(rnnlab.__all__)
    parts = ["# Reference", "Written by `make docs` from the docstrings; import all of it from `rnnlab`."]
    for title, names in GROUPS.items():
        parts += [f"## {title}", *(_entry(name, getattr(rnnlab, name)) for name in names)]
    parts += [
        "## Commands",
        *(f"```text\n{_help(*command)}\n```" for command in COMMANDS),
    ]
    return "\n\n".join(parts) + "\n"


def _entry(name: str, thing: object) -> str:
    if not callable(thing):
        return f"### `{name}`\n\n{CONSTANTS[name]}"
    lines = [f"### `{name}`", _signature(name, thing), _text(thing)]
    if inspect.isclass(thing):
        lines += [_member(name, key, value) for key, value in vars(thing).items() if not key.startswith("_")]
    return "\n\n".join(line for line in lines if line)


def _member(owner: str, name: str, value: object) -> str:
    """A documented method or property of a class; fields are explained in the class itself."""
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    function = getattr(value, "fget", None) or getattr(value, "func", None) or value
    if not inspect.isfunction(function) or not function.__doc__:
        return ""
    shown = _signature(f"{owner}.{name}", function) if inspect.isfunction(value) else f"```python\n{owner}.{name}\n```"
    return f"{shown}\n\n{_text(function)}"


def _signature(name: str, thing: object) -> str:
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return ""
    parameters = inspect.signature(thing).parameters.values()  # type: ignore[arg-type]
    # names and defaults alone: how types are written changes from one Python to the next
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in parameters if each.name not in ("self", "cls")]
    return f"```python\n{name}{inspect.Signature(bare)}\n```"


def _text(thing: object) -> str:
    """The docstring as Markdown: sections in bold, examples as code."""
    text = inspect.getdoc(thing) or ""
    text = re.sub(r"^(Args|Attributes|Returns|Raises):\n((?:    .*\n?)+)", _section, text, flags=re.MULTILINE)
    return re.sub(r"(^>>> (?:.*\n?)+)", lambda found: f"```pycon\n{found[1].rstrip()}\n\n```", text, flags=re.MULTILINE)


def _section(found: re.Match[str]) -> str:
    if found[1] == "Returns":  # one text, not one item a line
        return f"**Returns**\n\n{' '.join(found[2].split())}\n"
    items = re.split(r"^    (?=\S)", found[2], flags=re.MULTILINE)[1:]
    return f"**{found[1]}**\n\n" + "\n".join("- " + " ".join(item.split()) for item in items) + "\n"


def _help(*command: str) -> str:
    run = [sys.executable, "-c", "import sys; from rnnlab.cli import main; sys.exit(main())", *command, "--help"]
    shown = subprocess.run(run, capture_output=True, text=True, check=True, env={"COLUMNS": "100", "TERM": "dumb"})
    return "\n".join(line.rstrip() for line in shown.stdout.strip().splitlines())


if __name__ == "__main__":
    PAGE.write_text(reference())
