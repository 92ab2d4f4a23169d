"""`rnnlab train`."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from rnnlab.commands.options import (
    AsJsonLines,
    Device,
    NameOrFile,
    Parameters,
    Precision,
    ReportEvery,
    Steps,
    TaskName,
    Units,
    count,
    task_words,
)
from rnnlab.errors import RnnlabError
from rnnlab.tasks.registry import task_from_words


def train_command(
    context: typer.Context,
    architecture: NameOrFile,
    task_name: TaskName,
    population: Annotated[
        int | None, typer.Option(help="Train this many members at once, with consecutive seeds.")
    ] = None,
    hyperparameter: Annotated[
        list[str] | None,
        typer.Option(
            "--hyperparameter",
            "-p",
            metavar="NAME=VALUE",
            help="Repeatable. Comma-separated values go to successive members.",
        ),
    ] = None,
    steps: Steps = None,
    units: Units = None,
    parameters: Parameters = None,
    start: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Begin with the numbers of a model that -o has written.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the batches and of the first member's initial values.")] = 0,
    device: Device = "cpu",
    precision: Precision = "float32",
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Save checkpoints there, to resume from after an interruption."),
    ] = None,
    save_every: Annotated[int, typer.Option(help="Save a checkpoint every this many steps.")] = 1000,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the checkpoint in that folder.")] = False,
    report_every: ReportEvery = 100,
    tensorboard: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write learning curves there for TensorBoard.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the trained model to this .safetensors file.")
    ] = None,
    as_json: AsJsonLines = False,
) -> None:
    """Train a network, or a population of networks, on a task.

    Arguments of the task are given as options: `rnnlab train lstm --task adding --length 200`. Where one has the name
    of an option listed here, write --task-NAME. Hyperparameters are those of `rnnlab.Hyperparameters`:
    `-p learning_rate=0.01,0.001` trains two members that differ in it. Ctrl-C stops after the current step, saves a
    checkpoint and prints the command that resumes.
    """
    from rnnlab.engine.model_files import load_model
    from rnnlab.training.console import run_and_show
    from rnnlab.training.words import members_from_words, network_for, usable_device

    if resume and checkpoint is None:
        raise RnnlabError("--resume needs --checkpoint FOLDER, the folder to resume from")
    chosen = task_from_words(task_name, task_words(context.args))
    settings = [*(hyperparameter or []), *([] if steps is None else [f"num_steps={steps}"])]
    if start is not None:
        _check_nothing_is_drawn(settings)
    is_complete = run_and_show(
        network_for(chosen, architecture, units=units, parameters=count(parameters)),
        chosen,
        members_from_words(settings, population=population, seed=seed),
        name=architecture,
        output=output,
        tensorboard=tensorboard,
        as_json=as_json,
        command=context.obj,
        start=None if start is None else load_model(start),
        seed=seed,
        device=usable_device(device),
        precision=precision,
        checkpoint=checkpoint,
        save_every=save_every,
        report_every=report_every,
        resume=resume,
    )
    if not is_complete:
        raise typer.Exit(130)


def _check_nothing_is_drawn(settings: list[str]) -> None:
    """With --start parameters are there already, so how they are drawn would be said in vain."""
    from rnnlab.engine.initialisation import Initialisation

    given = {word.partition("=")[0] for word in settings}
    if vain := sorted(given & {field.name for field in fields(Initialisation)}):
        raise RnnlabError(f"with --start nothing is drawn: leave out {', '.join(vain)}")
