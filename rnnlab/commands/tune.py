"""`rnnlab tune`."""

import shlex
from functools import partial
from typing import Annotated

import typer

from rnnlab.commands.options import (
    AsJsonLines,
    Checkpoints,
    Device,
    Grace,
    NameOrFile,
    NotTuned,
    Parameters,
    Population,
    Precision,
    ReportEvery,
    SaveEvery,
    Steps,
    StorePlace,
    TaskName,
    Units,
    count,
    task_words,
)
from rnnlab.tasks.registry import parse_arguments, task


def tune_command(
    context: typer.Context,
    architecture: NameOrFile,
    task_name: TaskName,
    trials: Annotated[
        int | None, typer.Option(help="Hyperparameter settings to try.", show_default="100, or all of a smaller grid")
    ] = None,
    space: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="Search space: collins, zhang, or a file.", show_default="collins"),
    ] = None,
    sampler: Annotated[str, typer.Option(help="What suggests settings: gp, random, grid or tpe.")] = "gp",
    hyperparameter: NotTuned = None,
    steps: Steps = None,
    units: Units = None,
    parameters: Parameters = None,
    seed: Annotated[int, typer.Option(help="Random seed for suggestions, networks and batches.")] = 0,
    device: Device = "cpu",
    precision: Precision = "float32",
    population: Population = None,
    store: StorePlace = "rnnlab.db",
    name: Annotated[
        str | None, typer.Option(help="Name of the study.", show_default="derived from all settings")
    ] = None,
    checkpoints: Checkpoints = None,
    save_every: SaveEvery = None,
    report_every: ReportEvery = 100,
    grace: Grace = 60.0,
    as_json: AsJsonLines = False,
) -> None:
    """Find good hyperparameters of a network for a task.

    Arguments of the task are given as for `rnnlab train`. Given again, the command resumes, or shows the result; with
    more --trials it adds some. Several such commands with the same --store share the work. Ctrl-C stops after the
    current step and prints the command that resumes.
    """
    from rnnlab.training.words import network_for, usable_device
    from rnnlab.tuning.console import run_and_show
    from rnnlab.tuning.tune import tune
    from rnnlab.tuning.words import base_from_words, space_from_words, tuning_to_json

    table = {"name": task_name, **parse_arguments(task_words(context.args))}
    chosen = task(**table)
    settings = [*(hyperparameter or []), *([] if steps is None else [f"num_steps={steps}"])]
    run = partial(
        tune,
        network_for(chosen, architecture, units=units, parameters=count(parameters)),
        table,
        space_from_words(space),
        trials=trials,
        sampler=sampler,
        hyperparameters=base_from_words(settings),
        store=store,
        name=name,
        seed=seed,
        device=usable_device(device),
        precision=precision,
        population=population,
        checkpoints=checkpoints,
        save_every=save_every,
        report_every=report_every,
        grace=grace,
    )
    how_to_resume = f"resume with: {shlex.join(('rnnlab', *context.obj))}"
    if not run_and_show(run, tuning_to_json, store=store, as_json=as_json, how_to_resume=how_to_resume):
        raise typer.Exit(130)
