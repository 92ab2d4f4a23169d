"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from rnnlab.errors import RnnlabError

NameOrFile = Annotated[
    str,
    typer.Argument(
        metavar="NAME|NAME:CELL|FILE", help="A catalogue name, e.g. td or td:lstm (see `rnnlab list`), or a JSON file."
    ),
]
TaskName = Annotated[
    str, typer.Option("--task", metavar="TASK|FILE", help="A task's name (see `rnnlab list tasks`), or a Python file.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsJsonLines = Annotated[
    bool, typer.Option("--json", help="Print every event as a line of JSON; the last line is the result.")
]
Units = Annotated[
    int | None, typer.Option(help="Width of every hidden layer, unless a file gives widths.", show_default="64")
]
Parameters = Annotated[
    str | None, typer.Option(metavar="NUMBER", help="Instead of --units: a parameter budget, e.g. 20000 or 20k.")
]
Steps = Annotated[
    int | None, typer.Option(help="Number of training steps; short for -p num_steps=STEPS.", show_default="10000")
]
NotTuned = Annotated[
    list[str] | None,
    typer.Option(
        "--hyperparameter",
        "-p",
        metavar="NAME=VALUE",
        help="Fix a hyperparameter instead of tuning it. Repeatable.",
    ),
]
Device = Annotated[str, typer.Option(help="Where to train: cpu, cuda or cuda:NUMBER.")]
Precision = Annotated[str, typer.Option(help="Precision of products on a GPU: float32, tf32 or bf16.")]
StorePlace = Annotated[
    str,
    typer.Option(
        "--store", metavar="FILE|URL", help="Where results are kept: a SQLite file, or postgresql://USER@HOST/NAME."
    ),
]
Population = Annotated[
    int | None, typer.Option(help="How many networks to train at once.", show_default="chosen for the device")
]
Checkpoints = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Where to save checkpoints; all workers must have access.",
        show_default="next to the store",
    ),
]
SaveEvery = Annotated[
    int | None,
    typer.Option(help="Save a checkpoint every this many steps.", show_default="every 30 seconds, or less often"),
]
ReportEvery = Annotated[int, typer.Option(help="Report progress every this many steps.")]
Grace = Annotated[
    float, typer.Option(metavar="SECONDS", help="How long a worker may be silent before others take over its trials.")
]


def count(text: str | None) -> int | None:
    """A number as people write it: 20000, 20k or 1.5M."""
    if text is None:
        return None
    factor = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    try:
        return round(float(text if factor == 1 else text[:-1]) * factor)
    except (ValueError, OverflowError):
        raise RnnlabError(f"--parameters takes a number such as 20000, 20k or 1.5M, got {text!r}") from None


def task_words(words: list[str]) -> list[str]:
    """Arguments of a task; one with the name of an option is written --task-NAME."""
    return [f"--{word[7:]}" if word.startswith("--task-") else word for word in words]
