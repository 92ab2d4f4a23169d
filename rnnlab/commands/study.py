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

StudyName = Annotated[str, typer.Argument(metavar="NAME", help="A study (see `rnnlab study list`).")]
Workers = Annotated[int, typer.Option(help="Worker processes on this machine.")]
Ray = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Run on this Ray cluster; 'local' starts one here.", show_default=False),
]
CpusPerWorker = Annotated[int, typer.Option(help="With --ray and without GPUs: cores per worker.")]


@study_app.callback(invoke_without_command=True)
def study_group(context: typer.Context) -> None:
    """Run studies of many architectures, sizes and tasks.

    A study is described by a specification. All its architectures are tuned equally, and every trial is recorded.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@study_app.command("run")
def run_command(
    context: typer.Context,
    spec: Annotated[
        str,
        typer.Argument(metavar="FILE|NAME", help="A specification file, or the name of one (see `rnnlab study list`)."),
    ],
    scale: Annotated[
        str | None, typer.Option(help="Which scale of the specification to run.", show_default="its default")
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
    """Run a study from a specification; continues an unfinished one.

    Any number of these commands with the same --store, on one machine or many, share the work. Ctrl-C stops after the
    current step and prints the command that resumes.
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
            help="A study, or a record file, which is first put into the store if its study is not there.",
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
    """Resume a study from the store or from a record file.

    Both contain the specification, so its file is not needed.
    """
    from rnnlab.studies.run import resume_study

    options = {"device": device, "population": population, "checkpoints": checkpoints, "save_every": save_every}
    options |= {"report_every": report_every, "grace": grace, "workers": workers, "ray": ray}
    options |= {"cpus_per_worker": cpus_per_worker}
    _show(context, partial(resume_study, name), store, as_json, options)


@study_app.command("status")
def status_command(name: StudyName, store: StorePlace = "rnnlab.db", as_json: AsJson = False) -> None:
    """Show a study's progress, best scores, workers and time left."""
    from rnnlab.studies.status import study_status

    status = study_status(name, store)
    print(json.dumps(status.to_json(), indent=2) if as_json else status)


@study_app.command("list")
def list_command(store: StorePlace = "rnnlab.db", as_json: AsJson = False) -> None:
    """List the studies in the store, and rnnlab's specifications."""
    from rnnlab.studies.listing import list_all

    found = list_all(store)
    print(json.dumps(found.to_json(), indent=2) if as_json else found)


@study_app.command("table")
def table_command(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A study, or a record file.")],
    store: StorePlace = "rnnlab.db",
    kind: Annotated[
        str | None,
        typer.Option("--format", help="csv, json or parquet.", show_default="from the file name, else csv"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The file to write.", show_default="the terminal; NAME.parquet for parquet"
        ),
    ] = None,
) -> None:
    """Write a study as a table, one row per trial."""
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
    output: Annotated[Path, typer.Option("--output", "-o", help="The .json or .json.gz file to write.")],
    store: StorePlace = "rnnlab.db",
    points: Annotated[int, typer.Option(help="Maximum number of points per learning curve.")] = 200,
) -> None:
    """Write all results of a study to one file.

    Tables and reports can be made from it without the store.
    """
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
    how_to_resume = f"resume with: {shlex.join(('rnnlab', *context.obj))}"
    work = partial(run, store=store, **options)
    if not run_and_show(work, record_to_json, store=store, as_json=as_json, how_to_resume=how_to_resume):
        raise typer.Exit(130)
