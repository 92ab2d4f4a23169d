"""`rnnlab study`: run, resume, status, list, table."""

import json
import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from rnnlab.commands.options import (
    AsJson,
    AsJsonLines,
    Checkpoints,
    Device,
    Grace,
    Population,
    ReportEvery,
    SaveEvery,
    StorePlace,
)

study_app = typer.Typer(rich_markup_mode=None)

StudyName = Annotated[str, typer.Argument(metavar="NAME", help="A study that `rnnlab study list` shows.")]
Workers = Annotated[int, typer.Option(help="How many processes of this machine work on it.")]
Ray = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Work on this Ray cluster; local starts one here.", show_default=False),
]
CpusPerWorker = Annotated[int, typer.Option(help="With --ray and without GPUs, the cores of each worker.")]


@study_app.callback(invoke_without_command=True)
def study_group(context: typer.Context) -> None:
    """Run studies: architectures, sizes and tasks from a specification, tuned alike, every trial recorded."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@study_app.command("run")
def run_command(
    context: typer.Context,
    spec: Annotated[
        str, typer.Argument(metavar="FILE|NAME", help="A specification, or a name that `rnnlab study list` shows.")
    ],
    scale: Annotated[
        str | None, typer.Option(help="Which scale of the specification.", show_default="its default")
    ] = None,
    store: StorePlace = "rnnlab.db",
    device: Device = "cpu",
    workers: Workers = 1,
    ray: Ray = None,
    cpus_per_worker: CpusPerWorker = 1,
    population: Population = None,
    checkpoints: Checkpoints = None,
    save_every: SaveEvery = None,
    report_every: ReportEvery = 100,
    grace: Grace = 60.0,
    as_json: AsJsonLines = False,
) -> None:
    """Do what a specification asks for, as far as it is not done.

    Any number of these commands, on one machine or on many, share the work if they have the same --store. Ctrl-C stops
    after the step it is at, and says how to go on.
    """
    from rnnlab.studies.run import run_study

    options = {"device": device, "population": population, "checkpoints": checkpoints, "save_every": save_every}
    options |= {"report_every": report_every, "grace": grace, "workers": workers, "ray": ray}
    options |= {"cpus_per_worker": cpus_per_worker}
    _show(context, partial(run_study, spec, scale=scale), store, as_json, options)


@study_app.command("resume")
def resume_command(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE",
            help="A study, or the file of a record, which is put into the store first, unless its study is there.",
        ),
    ],
    store: StorePlace = "rnnlab.db",
    device: Device = "cpu",
    workers: Workers = 1,
    ray: Ray = None,
    cpus_per_worker: CpusPerWorker = 1,
    population: Population = None,
    checkpoints: Checkpoints = None,
    save_every: SaveEvery = None,
    report_every: ReportEvery = 100,
    grace: Grace = 60.0,
    as_json: AsJsonLines = False,
) -> None:
    """Go on with a study that is in the store, or with the record of one; its specification is there too."""
    from rnnlab.studies.run import resume_study

    options = {"device": device, "population": population, "checkpoints": checkpoints, "save_every": save_every}
    options |= {"report_every": report_every, "grace": grace, "workers": workers, "ray": ray}
    options |= {"cpus_per_worker": cpus_per_worker}
    _show(context, partial(resume_study, name), store, as_json, options)


@study_app.command("status")
def status_command(name: StudyName, store: StorePlace = "rnnlab.db", as_json: AsJson = False) -> None:
    """Show how a study stands: progress, best so far, infeasible trials, who works on it, time left."""
    from rnnlab.studies.status import study_status

    status = study_status(name, store)
    print(json.dumps(status.to_json(), indent=2) if as_json else status)


@study_app.command("list")
def list_command(store: StorePlace = "rnnlab.db", as_json: AsJson = False) -> None:
    """Show the studies in the store, and the specifications that come with rnnlab."""
    from rnnlab.studies.listing import list_all

    found = list_all(store)
    print(json.dumps(found.to_json(), indent=2) if as_json else found)


@study_app.command("table")
def table_command(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A study, or the file of a record.")],
    store: StorePlace = "rnnlab.db",
    kind: Annotated[
        str | None,
        typer.Option("--format", help="csv, json or parquet.", show_default="what the file's name says, else csv"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it to this file; parquet: NAME.parquet if left out.")
    ] = None,
) -> None:
    """Give every trial of a study as a row of one table."""
    from rnnlab.studies.table import load_study, table_format, table_text, write_table

    wanted = table_format(kind, output)
    table = load_study(name, store)
    if output is None and wanted != "parquet":
        print(table_text(table, wanted), end="")
        return
    path = output or Path(f"{Path(name).name.partition('.json')[0]}.parquet")
    write_table(table, path, wanted)
    print(f"wrote {path}: {len(table)} rows, {len(table.columns)} columns")


@study_app.command("record")
def record_command(
    name: StudyName,
    output: Annotated[Path, typer.Option("--output", "-o", help="A .json or .json.gz file.")],
    store: StorePlace = "rnnlab.db",
    points: Annotated[int, typer.Option(help="The most points that a learning curve keeps.")] = 200,
) -> None:
    """Write all that came of a study to one file, from which tables and reports can be made without the store."""
    from rnnlab.studies.records import load_record

    record = load_record(name, store)
    record.save(output, max_points=points)
    print(f"wrote {output}: {sum(len(each.all_trials) for each in record.arms)} trials")


def _show(context: typer.Context, run: Any, store: str, as_json: bool, options: dict[str, Any]) -> None:
    from rnnlab.studies.run import record_to_json
    from rnnlab.training.words import usable_device
    from rnnlab.tuning.console import run_and_show

    if options["ray"] is None:
        usable_device(options["device"])
    how_to_resume = f"go on with: {shlex.join(('rnnlab', *context.obj))}"
    work = partial(run, store=store, **options)
    if not run_and_show(work, record_to_json, store=store, as_json=as_json, how_to_resume=how_to_resume):
        raise typer.Exit(130)
