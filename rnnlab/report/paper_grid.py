"""Networks by their two depths as numbers and as a drawing: the grid of Zhang et al.'s section 4.3 (Z67, Z68)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rnnlab.report.chart import FONT
from rnnlab.report.figures import SMALL_WIDTH
from rnnlab.report.paper_panels import task_words
from rnnlab.report.paper_values import Beside, measured
from rnnlab.report.svg import Markup, document, element, text
from rnnlab.report.tables import Table
from rnnlab.studies.comparison import measures_of
from rnnlab.studies.verdict import quantity, shown

if TYPE_CHECKING:
    from rnnlab.studies.records import ArmRecord, StudyRecord


@dataclass(frozen=True)
class DepthCell:
    """One network of a grid.

    Args:
        value: its score, in percent where that is an accuracy.
        shade: how good that is among the others, from 0 for the worst to 1 for the best.
        paper: the paper's number; None where it gives none.
    """

    value: float
    shade: float
    paper: float | None


@dataclass(frozen=True)
class DepthGrid:
    """Networks of one task, a row for each feedforward depth and a column for each recurrent depth.

    Args:
        title: the task, and what else tells these networks from others.
        words: what the numbers are, and which way is better.
        rows, columns: the depths.
        cells: by feedforward and recurrent depth.
    """

    title: str
    words: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], DepthCell]


def depth_grids(record: "StudyRecord", found: Sequence[Beside]) -> list[DepthGrid]:
    """A grid for each task, size and label whose networks have every combination of two depths or more, once each.

    Args:
        record: of the study.
        found: the paper's numbers.
    """
    groups: dict[tuple[str, str, str], list[ArmRecord]] = {}
    for each in record.arms:
        key = (task_words(each), str(each.labels.get("label", "")), str(each.labels.get("parameters", "")))
        groups.setdefault(key, []).append(each)
    papers = {each.arm: each.number.value for each in found if each.arm is not None}
    grids = [_grid(", ".join(filter(None, key[:2])), arms, papers) for key, arms in groups.items()]
    return [grid for grid in grids if grid is not None]


def _grid(title: str, arms: Sequence["ArmRecord"], papers: Mapping[str, float]) -> DepthGrid | None:
    places = [_depths(each) for each in arms]
    rows, columns = (tuple(sorted({place[axis] for place in places}, key=float)) for axis in (0, 1))
    is_whole = len(set(places)) == len(places) == len(rows) * len(columns)
    if not is_whole or min(len(rows), len(columns)) < 2:
        return None
    score = arms[0].arm.score
    unit = "%" if score.name == "accuracy" else ""
    values = {
        place: (each, found.value)
        for place, each in zip(places, arms, strict=True)
        if (found := measured(each, "score", unit)) is not None
    }
    if not values:
        return None
    shades = _shades([value for _, value in values.values()], is_higher_better=score.better == "higher")
    cells = {
        place: DepthCell(value, shade, papers.get(each.arm.name))
        for (place, (each, value)), shade in zip(values.items(), shades, strict=True)
    }
    words = f"{quantity(score)}{' (%)' if unit else ''}, {score.better} is better"
    return DepthGrid(title, words, rows, columns, cells)


def _depths(record: "ArmRecord") -> tuple[str, str]:
    """Feedforward and recurrent depth; 0 for a network that has no measures."""
    found = measures_of(record.arm)
    return ("0", "0") if found is None else (str(found.feedforward_depth or 0), str(found.recurrent_depth))


def _shades(values: Sequence[float], *, is_higher_better: bool) -> list[float]:
    """How good each value is among all, from 0 to 1; all are 1 where they are equal.

    >>> _shades([1.8, 2.0, 1.9], is_higher_better=False)
    [1.0, 0.0, 0.5]
    """
    low, high = min(values), max(values)
    shares = [(value - low) / (high - low) if high > low else 1.0 for value in values]
    return shares if is_higher_better or high == low else [round(1.0 - share, 12) for share in shares]


def grid_numbers(grids: Sequence[DepthGrid]) -> Table:
    """The numbers of grids in one table."""
    rows = [
        (
            grid.title,
            f"d_f = {row}",
            f"d_r = {column}",
            shown(cell.value),
            "–" if cell.paper is None else str(cell.paper),
        )
        for grid in grids
        for (row, column), cell in grid.cells.items()
    ]
    return Table(("task", "feedforward depth", "recurrent depth", "ours", "the paper's"), tuple(rows))


_WIDE, _HIGH, _LEFT, _TOP = 96.0, 52.0, 62.0, 62.0


def draw_grid(grid: DepthGrid) -> Markup:
    """A square for each network, in a stronger colour where it is better; under our number the paper's."""
    parts = [
        text(grid.title, (2.0, 14.0), class_="name"),
        text(grid.words, (2.0, 34.0), class_="title"),
        *(
            text(f"d_r = {column}", (_LEFT + _WIDE * (place + 0.5), _TOP - 8), class_="tick", anchor="middle")
            for place, column in enumerate(grid.columns)
        ),
    ]
    for down, row in enumerate(grid.rows):
        y = _TOP + _HIGH * down
        parts.append(text(f"d_f = {row}", (_LEFT - 8, y + _HIGH / 2 + 0.35 * FONT), class_="tick", anchor="end"))
        for across, column in enumerate(grid.columns):
            if cell := grid.cells.get((row, column)):
                parts += _square(cell, _LEFT + _WIDE * across, y)
    words = "; ".join(f"d_f {row}, d_r {column}: {shown(cell.value)}" for (row, column), cell in grid.cells.items())
    height = _TOP + _HIGH * len(grid.rows) + 6
    width = max(SMALL_WIDTH, _LEFT + _WIDE * len(grid.columns))
    return document(width, height, grid.title, f"{grid.words}. {words}.", parts)


def _square(cell: DepthCell, x: float, y: float) -> list[Markup]:
    shade = f"opacity:{0.06 + 0.4 * cell.shade:.2f}"
    middle = x + _WIDE / 2 - 1
    lift = 0.1 * FONT if cell.paper is None else 0.35 * FONT
    found = [
        element("rect", x=x, y=y, width=_WIDE - 2, height=_HIGH - 2, class_="bar c0", style=shade),
        text(shown(cell.value), (middle, y + _HIGH / 2 + 0.35 * FONT - lift), class_="label", anchor="middle"),
    ]
    if cell.paper is not None:
        found.append(text(f"paper {cell.paper:g}", (middle, y + _HIGH - 9), class_="tick", anchor="middle"))
    return found
