"""`rnnlab compare` and `rnnlab report`."""

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from rnnlab.commands.options import (
    AsJsonLines,
    Checkpoints,
    Device,
    Grace,
    NotTuned,
    Population,
    Precision,
    ReportEvery,
    SaveEvery,
    StorePlace,
    TaskName,
    count,
    task_words,
)
from rnnlab.errors import RnnlabError


def compare_command(
    context: typer.Context,
    architectures: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME|NAME:CELL|FILE", help="Two or more catalogue names (see `rnnlab list`) or JSON files."
        ),
    ],
    task_name: TaskName,
    parameters: Annotated[
        str, typer.Option(metavar="NUMBER", help="Parameter budget of each network, e.g. 20000 or 20k.")
    ],
    trials: Annotated[
        int | None, typer.Option(help="Hyperparameter settings to try for each architecture.", show_default="32")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Instead of --trials: total time, e.g. 10m or 1h30m.", show_default=False),
    ] = None,
    seeds: Annotated[
        int, typer.Option(help="How often to retrain the best setting of each, with different seeds.")
    ] = 10,
    steps: Annotated[
        int | None, typer.Option(help="Training steps per run.", show_default="chosen for the task")
    ] = None,
    hyperparameter: NotTuned = None,
    space: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="Search space: collins, zhang, or a file.", show_default="collins"),
    ] = None,
    sampler: Annotated[str, typer.Option(help="What suggests settings: gp, random, grid or tpe.")] = "gp",
    seed: Annotated[int, typer.Option(help="Random seed for everything.")] = 0,
    precision: Precision = "float32",
    store: StorePlace = "rnnlab.db",
    name: Annotated[
        str | None, typer.Option(help="Name of the study.", show_default="derived from all settings")
    ] = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Where to write the report: a folder, or a .html, .md or .json file."),
    ] = Path(),
    device: Device = "cpu",
    workers: Annotated[int, typer.Option(help="Worker processes on this machine.")] = 1,
    population: Population = None,
    checkpoints: Checkpoints = None,
    save_every: SaveEvery = None,
    report_every: ReportEvery = 100,
    grace: Grace = 60.0,
    as_json: AsJsonLines = False,
) -> None:
    """Compare architectures fairly, and write a report.

    Fairly means equal numbers of parameters, equal tuning, several seeds and a statistical test.
    Arguments of the task are given as options: `rnnlab compare sh td lstm --task adding --length 50 --parameters 2k`.
    Where one has the name of an option listed here, write --task-NAME. Ctrl-C stops after the current step; the same
    command resumes.
    """
    from rnnlab.comparing import compare
    from rnnlab.report.report import Report
    from rnnlab.tasks.registry import parse_arguments
    from rnnlab.training.words import usable_device
    from rnnlab.tuning.console import run_and_show
    from rnnlab.tuning.words import base_from_words

    base_from_words(hyperparameter or ())  # which complains of what is wrong
    names, words = split_words([*architectures, *context.args])
    arguments: dict[str, Any] = {"device": usable_device(device), "population": population, "checkpoints": checkpoints}
    arguments |= {"save_every": save_every, "report_every": report_every, "grace": grace, "workers": workers}
    work = partial(
        compare,
        names,
        {"name": task_name, **parse_arguments(task_words(words))},
        parameters=count(parameters),
        trials=trials,
        budget=budget,
        seeds=seeds,
        steps=steps,
        space=space,
        sampler=sampler,
        hyperparameters=parse_arguments([f"--{word}" for word in hyperparameter or ()]),
        seed=seed,
        precision=precision,
        store=store,
        name=name,
        output=output,
        **arguments,
    )
    how_to_resume = f"resume with: {shlex.join(('rnnlab', *context.obj))}"
    if not run_and_show(work, Report.to_json, store=store, as_json=as_json, how_to_resume=how_to_resume):
        raise typer.Exit(130)


def report_command(
    name: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="A study (see `rnnlab study list`), or a record file.")
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Where to write it: a folder, or a .html, .md or .json file."),
    ] = Path(),
    store: StorePlace = "rnnlab.db",
    brief: Annotated[
        bool, typer.Option("--brief", help="Leave out the figures of the individual comparisons.")
    ] = False,
) -> None:
    """Write the report of a study: verdict, figures and tables.

    It also contains the protocol, and the command that repeats the study.
    """
    from rnnlab.report.report import write_report

    print(write_report(name, output, store=store, brief=brief))


def split_words(words: list[str]) -> tuple[list[str], list[str]]:
    """Architectures, and the arguments of the task with their values, which may stand anywhere among them.

    >>> split_words(["sh", "--length", "50", "td", "--num-evaluation=9"])
    (['sh', 'td'], ['--length', '50', '--num-evaluation=9'])
    """
    names: list[str] = []
    arguments: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            names.append(word)
        elif "=" in word:
            arguments.append(word)
        else:
            value = next(rest, None)
            if value is None:
                raise RnnlabError(f"{word} needs a value")
            arguments += [word, value]
    return names, arguments
