"""The command line: parse, call one public function, print."""

import io
import json
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rnnlab.architecture.files import find_connections, sized_architecture
from rnnlab.commands.compare import compare_command, report_command
from rnnlab.commands.listing import list_command
from rnnlab.commands.options import AsJson, NameOrFile
from rnnlab.commands.study import study_app
from rnnlab.commands.train import train_command
from rnnlab.commands.tune import tune_command
from rnnlab.errors import RnnlabError
from rnnlab.graph.directions import one_direction
from rnnlab.graph.measures import measure
from rnnlab.tasks.registry import task_from_words
from rnnlab.version import VERSION

if TYPE_CHECKING:
    from rnnlab.bench.processes import Benchmark

app = typer.Typer(
    help="A laboratory for recurrent neural networks.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

bench_app = typer.Typer(rich_markup_mode=None)
app.add_typer(bench_app, name="bench")

data_app = typer.Typer(rich_markup_mode=None)
app.add_typer(data_app, name="data")

# arguments of the task follow the options of the command
WITH_TASK_ARGUMENTS: Any = {"allow_extra_args": True, "ignore_unknown_options": True}

MOST_PLANNED_STEPS = 1_000_000  # a few seconds

# what typer raises for a wrong command line; its place in the package differs between versions
CommandLineError: Any = typer.BadParameter.__mro__[2]


# options of both benchmarks
Quick = Annotated[
    bool, typer.Option("--quick", help="Small shapes and few repeats: a check that it works, not a measurement.")
]
Measurements = Annotated[Path | None, typer.Option("--output", "-o", help="Write the measurements to this JSON file.")]


class Direction(StrEnum):
    """The direction of time."""

    FORWARD = "forward"
    BACKWARD = "backward"


@app.callback(invoke_without_command=True)
def version_option(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", show_default=False)] = False,
) -> None:
    """A laboratory for recurrent neural networks."""
    if version:
        print(f"rnnlab {VERSION}")


app.command("list")(list_command)


@app.command("measure")
def measure_command(
    architecture: NameOrFile,
    direction: Annotated[
        Direction | None, typer.Option(help="Which half of a bidirectional network to measure.", show_default=False)
    ] = None,
    show_plan: Annotated[
        bool, typer.Option("--plan", help="Also show how the network runs on a CPU: order, slots, products, memory.")
    ] = False,
    units: Annotated[
        int | None,
        typer.Option(help="With --plan: width of every hidden layer, unless a file gives widths.", show_default="64"),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="With --plan: sequences per training step.", show_default="32")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="With --plan: time steps per sequence.", show_default="100")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure depth and reach through time exactly, with proofs.

    The measures are recurrent depth, feedforward depth and recurrent skip coefficient.
    Each measure comes with the cycle or path that attains it: `h1 -[0]-> h2` is an edge of delay 0.
    """
    graph = find_connections(architecture)
    measures = measure(graph if direction is None else one_direction(graph, direction.value))
    data, shown = measures.to_json(), str(measures)
    sizes = {"units": units, "batch": batch, "steps": steps}
    given = {name: size for name, size in sizes.items() if size is not None}
    if show_plan:
        how, lines = _plan(architecture, **given)
        data, shown = data | {"plan": how}, f"{shown}\n\n{lines}"
    elif given:
        raise RnnlabError(f"{', '.join(f'--{name}' for name in given)}: add --plan, which shows what depends on it")
    print(json.dumps(data, indent=2) if as_json else shown)


@app.command("draw")
def draw_command(
    architecture: NameOrFile,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The .svg, .png or .pdf file to write.", show_default="NAME.svg in this folder"
        ),
    ] = None,
    unfold: Annotated[
        int | None, typer.Option(metavar="STEPS", help="Draw the graph unfolded over this many time steps.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the picture.", show_default=False)] = None,
    highlight: Annotated[
        bool, typer.Option(help="Colour the longest path red, the longest input-output path yellow, the shortest blue.")
    ] = True,
) -> None:
    """Draw an architecture, folded or unfolded over time.

    Squares are inputs, circles hidden nodes, diamonds outputs; the number on an edge is its delay.
    """
    from rnnlab.graph.drawing import draw

    path = output or Path(Path(architecture).stem.replace(":", "-") + ".svg")
    draw(find_connections(architecture), unfold=unfold, highlight=highlight, title=title).save(path)
    print(f"wrote {path}")


@app.command("show", context_settings=WITH_TASK_ARGUMENTS)
def show_command(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="TASK|FILE", help="A task's name (see `rnnlab list tasks`), or a Python file.")
    ],
    number: Annotated[int, typer.Option(help="Which sequence of the validation split to show, from 1.")] = 1,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Draw it to this .svg, .png or .pdf file instead of the terminal."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a task: sizes, scores, and one of its sequences.

    The sequence is shown as the network sees it. Arguments of the task follow its name: `rnnlab show adding --length
    20`. Comma-separated values go to successive members of a population: `rnnlab show capacity --num-samples 100,200`.
    """
    if name.startswith("-"):
        raise RnnlabError(f"name the task before its arguments: rnnlab show TASK {name} ...")
    chosen = task_from_words(name, context.args)
    from rnnlab.tasks.show import description, show, summary
    from rnnlab.tasks.terminal import print_example

    if as_json:
        print(json.dumps(description(chosen), indent=2))
        return
    example = show(chosen, number=number)
    if output is not None:
        example.save(output)
        print(f"wrote {output}")
        return
    print_example(example, before=summary(chosen))


app.command("train", context_settings=WITH_TASK_ARGUMENTS)(train_command)
app.command("tune", context_settings=WITH_TASK_ARGUMENTS)(tune_command)
app.add_typer(study_app, name="study")
app.command("compare", context_settings=WITH_TASK_ARGUMENTS)(compare_command)
app.command("report")(report_command)


@data_app.callback(invoke_without_command=True)
def data_group(context: typer.Context) -> None:
    """Manage the files of data sets, which rnnlab does not ship."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@data_app.command("add")
def data_add_command(
    folder: Annotated[Path, typer.Argument(help="A folder with files of data sets.")], as_json: AsJson = False
) -> None:
    """Verify a folder of data files, and remember it."""
    from rnnlab.tasks.data import add_folder

    found = add_folder(folder)
    remembered = f"{found}\n\nremembered: tasks look in {found.folders[0]} from now on"
    print(json.dumps(found.to_json(), indent=2) if as_json else remembered)


@data_app.command("list")
def data_list_command(as_json: AsJson = False) -> None:
    """Show which data sets are present, and where to get others.

    Data sets that are present have been verified. Every set is listed with where it is published and under which
    terms.
    """
    from rnnlab.tasks.data import list_data

    found = list_data()
    print(json.dumps(found.to_json(), indent=2) if as_json else found)


@bench_app.callback(invoke_without_command=True)
def bench_group(context: typer.Context) -> None:
    """Measure speed and memory on this machine against other libraries."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@bench_app.command("cpu")
def bench_cpu_command(
    threads: Annotated[
        list[int] | None,
        typer.Option(metavar="NUMBER", help="Threads for each side; may be given twice.", show_default="1 and 2"),
    ] = None,
    quick: Quick = False,
    output: Measurements = None,
    as_json: AsJson = False,
) -> None:
    """Race training steps against other libraries.

    The competitors are torch.nn, JAX, torchrecurrent and hand-written loops. A step is forward, backward and all weight
    gradients. Both sides must compute the same results before they are timed. They take turns; a row shows the ratio
    of their medians or, for memory, of their peaks. Rows where rnnlab is slower are shown too, as are competitors
    that are not installed (`pip install 'rnnlab[bench]'`).
    """
    from rnnlab.bench.cpu import bench_cpu

    _bench(partial(bench_cpu, threads=threads, quick=quick), output, as_json)


@bench_app.command("train")
def bench_train_command(
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:NUMBER.")] = "cpu",
    precision: Annotated[
        str | None,
        typer.Option(help="Precision of rnnlab's products on CUDA: float32, tf32 or bf16.", show_default="tf32"),
    ] = None,
    threads: Annotated[
        list[int] | None,
        typer.Option(metavar="NUMBER", help="Threads for each side; may be given twice.", show_default="2"),
    ] = None,
    quick: Quick = False,
    output: Measurements = None,
    as_json: AsJson = False,
) -> None:
    """Race the training of populations against training one by one.

    One by one, networks are trained with torch.nn and torch.optim. A model-step is one training step of one network: a
    new batch, forward, backward, clipping, Adam. Both sides start from the same initial values, and the losses of their
    first steps must agree before they are timed.
    """
    from rnnlab.bench.training import bench_train

    _bench(partial(bench_train, device=device, precision=precision, threads=threads, quick=quick), output, as_json)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 130 after Ctrl-C, or 2 and one line where the input is wrong."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):  # a terminal that lacks a sign shows ? in its place
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        status = app(args=given or ["--help"], standalone_mode=False, prog_name="rnnlab", obj=given)
        return status if isinstance(status, int) else 0
    except CommandLineError as error:
        message = error.format_message()
    except RnnlabError as error:
        message = str(error)
    except OSError as error:
        message = _file_trouble(error)
    print(f"rnnlab: {message}", file=sys.stderr)
    return 2


def _file_trouble(error: OSError) -> str:
    """Which file could not be used, and why."""
    if not error.filename:
        return str(error)
    folder = Path(error.filename).parent
    is_lost = isinstance(error, FileNotFoundError) and not folder.is_dir()
    return f"{error.filename}: {f'there is no folder {folder}' if is_lost else error.strerror}"


def _bench(run: "Callable[..., Benchmark]", output: Path | None, as_json: bool) -> None:
    """Run a benchmark, show its rows as they come, and write them to a file."""
    from rnnlab.bench.display import Display, footer

    if output is not None and not output.parent.is_dir():
        raise RnnlabError(f"cannot write {output}: there is no folder {output.parent}")
    try:
        found = run(tell=Display(show_rows=not as_json))
    except KeyboardInterrupt:
        print("\nstopped; nothing was written", file=sys.stderr)
        raise typer.Exit(130) from None
    text = json.dumps(found.to_json(), indent=2)
    if output is not None:
        output.write_text(text + "\n")
    print(text if as_json else footer(found))
    found.check()


def _plan(architecture: str, units: int | None = None, **sizes: int) -> tuple[dict[str, Any], str]:
    """How a network would run on a CPU, as JSON and as text."""
    from rnnlab.engine.costs import costs
    from rnnlab.engine.explanation import labelled
    from rnnlab.engine.plan import plan

    if sizes.get("steps", 0) > MOST_PLANNED_STEPS:
        raise RnnlabError(f"--steps must be at most {MOST_PLANNED_STEPS} with --plan, which counts all their slots")
    network = sized_architecture(architecture, units)
    widths = {node.name: node.units for node in network.nodes}
    found = costs(plan(network), **sizes)
    lines = (
        labelled("path", "cpu: what a float32 model on the CPU runs"),
        labelled("widths", ", ".join(f"{name} {width}" for name, width in widths.items())),
        str(found),
    )
    return {"path": "cpu", "widths": widths, **found.to_json()}, "\n".join(lines)
