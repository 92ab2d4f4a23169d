"""The papers' tables with our numbers in them (Z62-Z76, C72-C74)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rnnlab.report.paper_panels import Panel, by_cell, by_depth, cell_name, layer_words
from rnnlab.report.paper_values import Beside, Measured, measured, scores_of
from rnnlab.report.tables import Table
from rnnlab.studies.paper import PaperNumber, QuotedNumber
from rnnlab.studies.verdict import shown
from rnnlab.studies.welch_table import WelchTable, shown_test, welch_table

if TYPE_CHECKING:
    from rnnlab.studies.records import StudyRecord

MARKS = {"stated": "", "second-hand": "†", "recollected": "*"}
"""What stands behind a paper's number that its own text does not state."""

NOTHING = "–"
MORE_DECIMALS = 1  # than the paper prints, where our interval would round to nothing
ROBUSTNESS = ("best", "repeat_infeasible", "least", "mean", "most", "deviation", "relative_deviation")
"""The columns of Collins et al.'s table App.1 (C73)."""

ROBUSTNESS_HEADINGS = ("Original", "% infeasible", "Min", "Mean", "Max", "S. Dev.", "S. Dev. / Mean")


def table_rows(found: Sequence[Beside]) -> dict[str, list[Beside]]:
    """The numbers that stand in a table of the paper, by its rows."""
    rows: dict[str, list[Beside]] = {}
    for each in found:
        if each.number.row:
            rows.setdefault(each.number.row, []).append(each)
    return rows


def paper_tables(found: Sequence[Beside], quoted: Sequence[QuotedNumber]) -> list[Table]:
    """The numbers in the paper's layout, each cell ours / the paper's; rows with the same columns share a table."""
    rows = {
        row: {each.number.column: ours_and_theirs(each) for each in some} for row, some in table_rows(found).items()
    }
    decimals = max((_digits(other.value) for other in quoted), default=0)
    for other in quoted:
        value = f"{_about(other.is_about)}{other.value:.{decimals}f}{MARKS[other.certainty]}"
        rows.setdefault(other.model, {})[other.column] = value
    tables: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for name, cells in rows.items():
        tables.setdefault(tuple(cells), []).append((name, *cells.values()))
    return [Table(("", *columns), tuple(own)) for columns, own in tables.items()]


def ours_and_theirs(each: Beside) -> str:
    """Our number with half its interval, and the paper's."""
    number = each.number
    ours = NOTHING if each.measured is None else shown_like(each.measured, _decimals(number))
    return f"{ours} / {paper_value(number)}"


def paper_value(number: PaperNumber) -> str:
    """A paper's number as printed, with a mark where its own text does not state it.

    >>> from rnnlab.studies.paper import PaperNumber
    >>> paper_value(PaperNumber(value=1.8, unit="BPC", where={}, requirement="Z63", quantity="score", row="", column="",
    ...                         at=None, certainty="recollected", is_about=False))
    '1.80*'
    """
    return f"{_about(number.is_about)}{number.value:.{_decimals(number)}f}{MARKS[number.certainty]}"


def shown_like(found: Measured, decimals: int) -> str:
    """Our number with as many decimals as the paper's, and half its interval; a narrow one is shown by more.

    >>> from rnnlab.studies.statistics import Interval
    >>> shown_like(Measured(88.123, 10, Interval(87.0, 89.0, 0.95)), 1)
    '88.1 ± 1.0'
    >>> shown_like(Measured(1.6607, 5, Interval(1.658, 1.662, 0.95)), 2)
    '1.661 ± 0.002'
    >>> shown_like(Measured(2e-6, 5, Interval(1e-6, 3e-6, 0.95)), 4)
    '< 0.0001'
    """
    if 0 < abs(found.value) < 0.5 * 10**-decimals:
        return f"< {10**-decimals:.{decimals}f}"
    if found.interval is None:
        return f"{found.value:.{decimals}f}"
    half = (found.interval.high - found.interval.low) / 2
    if 0 < half < 0.5 * 10**-decimals:
        decimals += MORE_DECIMALS
    return f"{found.value:.{decimals}f} ± {half:.{decimals}f}"


_DECIMALS = {"BPC": 2, "%": 1, "NLL": 3, "perplexity": 1}  # a paper's 1.80 is 1.8 in a file


def _decimals(number: PaperNumber) -> int:
    """How many decimals the paper prints."""
    return max(_DECIMALS.get(number.unit, 0), _digits(number.value))


def _digits(value: float) -> int:
    return len(f"{value:.6g}".partition(".")[2])


def _about(is_about: bool) -> str:
    return "≈" if is_about else ""


def infeasible_table(record: "StudyRecord", found: Sequence[Beside]) -> Table:
    """The percentage of trials that diverged, by cell and depth, ours / the paper's (table 1, C72)."""
    theirs = {each.arm: each for each in found if each.number.quantity == "infeasible" and each.arm is not None}
    depths = by_depth(record.arms)
    rows: list[tuple[str, ...]] = []
    for name in by_cell(record.arms):
        cells = [next((each for each in arms if cell_name(each) == name), None) for arms in depths.values()]
        shares = [None if each is None else measured(each, "infeasible") for each in cells]
        papers = [None if each is None else theirs.get(each.arm.name) for each in cells]
        rows.append((name, *(_share(ours, paper) for ours, paper in zip(shares, papers, strict=True))))
    return Table(("infeasible, %", *(layer_words(depth) for depth in depths)), tuple(rows))


def _share(ours: Measured | None, paper: Beside | None) -> str:
    own = NOTHING if ours is None else f"{ours.value:.1f}"
    return own if paper is None else f"{own} / {paper.number.value:.1f}"


def pair_tests(record: "StudyRecord") -> WelchTable:
    """Welch's tests of all pairs of cells by depth, on the evaluation losses of all trials (table App.2, C74)."""
    return welch_table(
        {
            layer_words(depth): {cell_name(each): scores_of(each, each.trials) for each in arms}
            for depth, arms in by_depth(record.arms).items()
        }
    )


def pair_test_table(found: WelchTable) -> Table:
    """The same as rows of text."""
    headings = tuple(f"{column}: {what}" for column in found.columns for what in ("t", "df", "p"))
    rows = tuple(
        (f"{row.first} vs {row.second}", *(value for test in row.tests for value in shown_test(test)))
        for row in found.rows
    )
    return Table(("pair", *headings), rows)


def robustness_table(record: "StudyRecord", found: Sequence[Beside]) -> Table:
    """The best setting over seeds, one row for our runs of each cell and one for the paper's (table App.1, C73)."""
    rows: list[tuple[str, ...]] = []
    for each in record.arms:
        values = [measured(each, quantity) for quantity in ROBUSTNESS]
        name = cell_name(each)
        rows.append((f"{name}, ours", *(NOTHING if value is None else shown(value.value) for value in values)))
        theirs = {other.number.quantity: other.number.value for other in found if other.arm == each.arm.name}
        if theirs:
            paper = [theirs.get(quantity) for quantity in ROBUSTNESS]
            rows.append((f"{name}, paper", *(NOTHING if value is None else shown(value) for value in paper)))
    return Table(("", *ROBUSTNESS_HEADINGS), tuple(rows))


def as_table(matrix: Mapping[str, Mapping[str, float]]) -> Table:
    """A matrix by row and column, with two decimals."""
    names = tuple(matrix)
    return Table(
        ("to hold as much as", *names),
        tuple((row, *(f"{matrix[row][column]:.2f}" for column in names)) for row in names),
    )


def panel_numbers(panels: Sequence[Panel], most_rows: int = 60) -> Table:
    """The numbers behind panels, without dots and theory; of long curves some."""
    lines = [(panel, each) for panel in panels for each in panel.series if each.kind not in ("theory",)]
    lines = [(panel, each) for panel, each in lines if each.kind != "dots" or len(each.x) <= most_rows]
    every = max(1, -(-sum(len(each.x) for _, each in lines) // most_rows)) if lines else 1
    rows: list[tuple[str, ...]] = []
    for panel, each in lines:
        points = list(zip(each.x, each.y, strict=True))[::-1][::every][::-1]
        kind = " (dashed)" if each.kind == "dashed" else ""
        name = f"{panel.title} {each.name}{kind}".strip()
        rows += [(name, panel.x_title, shown(x), panel.y_title, shown(y)) for x, y in points]
    return Table(("line", "x axis", "x", "y axis", "y"), tuple(rows))
