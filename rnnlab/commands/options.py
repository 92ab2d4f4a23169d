"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from rnnlab.errors import RnnlabError

NameOrFile = Annotated[
    str,
    typer.Argument(
        metavar="NAME|NAME:CELL|FILE", help="A name that `rnnlab list` shows, as td or td:lstm, or a JSON file."
    ),
]
TaskName = Annotated[
    str, typer.Option("--task", metavar="TASK|FILE", help="A name that `rnnlab list tasks` shows, or a file.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
AsJsonLines = Annotated[
    bool, typer.Option("--json", help="Print everything that happens as a line of JSON; the last is the result.")
]
Units = Annotated[int | None, typer.Option(help="The width of every hidden layer of a name.", show_default="64")]
Parameters = Annotated[
    str | None, typer.Option(metavar="NUMBER", help="In place of units: the most parameters, as 20000 or 20k.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda or cuda:NUMBER.")]
Precision = Annotated[str, typer.Option(help="How a GPU multiplies: float32, tf32 or bf16.")]
StorePlace = Annotated[
    str, typer.Option("--store", metavar="FILE|URL", help="A SQLite file, or postgresql://USER@HOST/NAME.")
]
Population = Annotated[
    int | None, typer.Option(help="How many networks are trained at once.", show_default="what the device likes")
]
Checkpoints = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Save what is being trained there; all workers must see it.", show_default="by the store"
    ),
]
SaveEvery = Annotated[
    int | None,
    typer.Option(help="After how many steps it is saved.", show_default="every half a minute, or more rarely"),
]
ReportEvery = Annotated[int, typer.Option(help="After how many steps progress is told.")]
Grace = Annotated[
    float, typer.Option(metavar="SECONDS", help="How long a worker may be silent before others go on with its trials.")
]


def count(text: str | None) -> int | None:
    """A number as people write it: 20000, 20k or 1.5M."""
    if text is None:
        return None
    factor = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    try:
        return round(float(text if factor == 1 else text[:-1]) * factor)
    except (ValueError, OverflowError):
        raise RnnlabError(f"--parameters is a number as 20000, 20k or 1.5M, got {text!r}") from None


def task_words(words: list[str]) -> list[str]:
    """Arguments of a task, of which one that has the name of an option is written --task-NAME."""
    return [f"--{word[7:]}" if word.startswith("--task-") else word for word in words]
