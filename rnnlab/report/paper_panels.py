"""Charts as numbers: panels of lines, bands and dots, and how arms become the points of a line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rnnlab.report.paper_values import measured

if TYPE_CHECKING:
    from rnnlab.studies.records import ArmRecord

Kind = Literal["line", "dashed", "dots", "theory"]

CELL_NAMES = {"tanh": "RNN", "irnn": "IRNN", "ugrnn": "UGRNN", "gru": "GRU", "lstm": "LSTM", "intersection": "+RNN"}
"""What Collins et al. call the cells (C4); their RNN may have either nonlinearity."""


@dataclass(frozen=True)
class Series:
    """Points of one colour.

    Args:
        name: whose they are: the same name has the same colour in all panels.
        x, y: of the points.
        kind: how they are joined.
        low, high: the ends of a band around a line, or of bars at its points; empty where there is none.
        has_bars: whether the ends are those of bars.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    kind: Kind = "line"
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    has_bars: bool = False


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One chart.

    Args:
        title: what tells it from its neighbours.
        x_title, y_title: of the axes, with units.
        series: what is shown.
        levels: values with a name that get a horizontal line.
        uprights: values with a name that get an upright line.
        better: which way is better, where the axis may leave out absurd values at the other end; None for none.
        may_be_log: whether the x axis may be logarithmic.
        has_equal_scales: whether the y axis is logarithmic only where the x axis is: what is proportional is straight.
    """

    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    levels: tuple[tuple[float, str], ...] = ()
    uprights: tuple[tuple[float, str], ...] = ()
    better: str | None = None
    may_be_log: bool = True
    has_equal_scales: bool = False


def arm_series(
    name: str,
    arms: Sequence["ArmRecord"],
    x: Callable[["ArmRecord"], float],
    *,
    quantity: str = "score",
    unit: str = "",
    kind: Kind = "line",
) -> Series | None:
    """A line through arms, from the smallest x on; bars show the intervals of means over seeds.

    Args:
        name: of the line.
        arms: its points; those without a value are left out.
        x: where an arm lies.
        quantity: what its height is.
        unit: of the heights.
        kind: how the points are joined.

    Returns:
        None where no arm has a value.
    """
    points = sorted(
        ((x(each), found) for each in arms if (found := measured(each, quantity, unit)) is not None),
        key=lambda point: point[0],
    )
    if not points:
        return None
    found = [each for _, each in points]
    ends = [
        (each.value, each.value) if each.interval is None else (each.interval.low, each.interval.high) for each in found
    ]
    has_bars = any(each.interval is not None for each in found)
    return Series(
        name,
        tuple(at for at, _ in points),
        tuple(each.value for each in found),
        kind,
        tuple(low for low, _ in ends) if has_bars else (),
        tuple(high for _, high in ends) if has_bars else (),
        has_bars,
    )


def known(found: Sequence[Series | None]) -> tuple[Series, ...]:
    """Those series that have points."""
    return tuple(each for each in found if each is not None)


def cell_name(record: "ArmRecord") -> str:
    """A cell as Collins et al. call it."""
    cell = str(record.labels.get("cell", record.labels["architecture"]))
    return CELL_NAMES.get(cell, cell)


def by_cell(arms: Sequence["ArmRecord"]) -> dict[str, list["ArmRecord"]]:
    """Arms by cell, in the order of the study."""
    found: dict[str, list[ArmRecord]] = {}
    for each in arms:
        found.setdefault(cell_name(each), []).append(each)
    return found


def by_depth(arms: Sequence["ArmRecord"]) -> dict[int, list["ArmRecord"]]:
    """Arms by the number of layers, the fewest first."""
    depths = sorted({each.labels["depth"] for each in arms})
    return {depth: [each for each in arms if each.labels["depth"] == depth] for depth in depths}


def layer_words(depth: int) -> str:
    """How many layers, in words.

    >>> layer_words(1), layer_words(8)
    ('1 layer', '8 layers')
    """
    return f"{depth} layer{'' if depth == 1 else 's'}"


def task_words(record: "ArmRecord") -> str:
    """The task with the arguments that tell it from others in its study, as `adding, length 200`."""
    arguments = [
        f"{key.removeprefix('task.')} {value}"
        for key, value in record.labels.items()
        if key in ("task.length", "task.delay")
    ]
    return ", ".join((Path(str(record.labels["task"])).stem, *arguments))


def num_parameters(record: "ArmRecord") -> float:
    """Of the network."""
    return float(record.arm.architecture.num_parameters())


def num_units(record: "ArmRecord") -> float:
    """Of a layer; all hidden layers of these networks are equally wide."""
    return float(max(node.units for node in record.arm.architecture.nodes if node.cell is not None))
