"""The figures and tables of each form, with their captions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rnnlab.report.chart import Style
from rnnlab.report.figures import Figure
from rnnlab.report.paper_collins import (
    boxes,
    capacity_panels,
    memory_panels,
    multiplier_matrix,
    relu_panels,
    set_size_panels,
    size_panels,
    tuning_panels,
    unrolled_panels,
)
from rnnlab.report.paper_curves import length_panels, loss_panels, skip_panels
from rnnlab.report.paper_drawing import draw_beside, draw_boxes, draw_matrix, draw_panel, styles_of
from rnnlab.report.paper_grid import depth_grids, draw_grid, grid_numbers
from rnnlab.report.paper_panels import Panel, by_cell, layer_words
from rnnlab.report.paper_tables import (
    as_table,
    infeasible_table,
    ours_and_theirs,
    pair_test_table,
    pair_tests,
    panel_numbers,
    robustness_table,
    table_rows,
)
from rnnlab.report.paper_values import Beside, beside
from rnnlab.report.tables import Table
from rnnlab.studies.paper import Paper
from rnnlab.studies.verdict import quantity, shown

if TYPE_CHECKING:
    from rnnlab.studies.records import StudyRecord


@dataclass(frozen=True)
class PaperTable:
    """Tables that are always open to view.

    Args:
        heading: above them.
        caption: what their numbers are.
        tables: the numbers.
    """

    heading: str
    caption: str
    tables: tuple[Table, ...]


Piece = Figure | PaperTable


def _figure(heading: str, caption: str, panels: Sequence[Panel]) -> Iterator[Figure]:
    """Panels side by side; none where none has a point."""
    some = [panel for panel in panels if any(each.kind != "theory" for each in panel.series)]
    if some:
        styles = styles_of(some)
        yield Figure(heading, caption, tuple(draw_panel(panel, styles) for panel in some), panel_numbers(some))


def _capacity(record: "StudyRecord", _: Paper) -> Iterator[Piece]:
    yield from _figure(
        "Stored bits and bits per parameter (figure 1)",
        "Every point is one size of network, tuned: the most bits that any of its trials has stored, and the same "
        "divided by its parameters. Where the former lie on a straight line, a parameter is worth as much at any size.",
        capacity_panels(record),
    )
    matrix = multiplier_matrix(record)
    if len(matrix) > 1:
        title = "parameters for equal capacity"
        caption = (
            "How many times the parameters of the row's cell the column's cell needs to store as much, by the mean "
            "over sizes and depths of the most bits per parameter."
        )
        drawing = draw_matrix(matrix, title)
        yield Figure("Multipliers of parameters (figure 1i)", caption, (drawing,), as_table(matrix))
    yield from _figure(
        "ReLU alone against both nonlinearities (figure 2a)",
        "Solid: the better of tanh and ReLU, as tuning chose. Dashed: ReLU only, as an IRNN always has it.",
        relu_panels(record),
    )
    yield from _figure(
        "Unrolled steps (figure 2b)",
        "Bits per parameter of networks that see their input for more or fewer steps.",
        unrolled_panels(record),
    )
    yield from _figure(
        "Set size and information (figure App.1)",
        "Every dot is one network: the number of labels that tuning chose, and how many bits of them were stored. On "
        "the dotted line all of them are.",
        set_size_panels(record),
    )


def _memory(record: "StudyRecord", _: Paper) -> Iterator[Piece]:
    yield from _figure(
        "Error against units (figure 2c)",
        "The squared error per input number. The dotted curve is what n units can do at best if each holds one number; "
        "the upright line stands where there is a unit for every input.",
        memory_panels(record),
    )


def _sizes(record: "StudyRecord", _: Paper) -> Iterator[Piece]:
    yield from _figure(
        f"{quantity(record.arms[0].arm.score).capitalize()} by size (figure 3)",
        "Every point is the best setting of one network. The last panel has the same networks of one layer by the "
        "number of their units: in cells with more matrices each has more parameters.",
        size_panels(record),
    )


def _tuning(record: "StudyRecord", _: Paper) -> Iterator[Piece]:
    yield from _figure(
        "The course of tuning (figure 4)",
        "Dots are single settings, trained to their end and scored on evaluation data; of very many some are left out, "
        "and the worst tenth may lie at the edge. Lines are the running median, which is low where most settings work, "
        "and the running best.",
        tuning_panels(record),
    )


def _random(record: "StudyRecord", paper: Paper) -> Iterator[Piece]:
    styles = {name: Style(number) for number, name in enumerate(by_cell(record.arms))}
    found = {depth: some for depth, some in boxes(record).items() if some}
    words = quantity(record.arms[0].arm.score)
    if found:
        drawings = tuple(draw_boxes(layer_words(depth), some, styles, words) for depth, some in found.items())
        headings = ("", "runs", "diverged", "lower quartile", "median", "upper quartile")
        rows = tuple(
            (
                f"{layer_words(depth)}, {box.name}",
                str(box.num),
                str(box.num_infeasible),
                *(shown(value) for value in (box.quartile, box.median, box.upper_quartile)),
            )
            for depth, some in found.items()
            for box in some
        )
        yield Figure(
            "Losses of random settings (figure 5)",
            "Boxes hold the middle half of the settings that did not diverge, on evaluation data; the upright line is "
            "the median, whiskers reach one and a half times the box; at the right the share that diverged.",
            drawings,
            Table(headings, rows),
        )
    yield PaperTable(
        "Settings that diverged (table 1)",
        "The percentage of random settings whose training loss diverged: ours / the paper's, where it gives one.",
        (infeasible_table(record, beside(record, paper)),),
    )
    tests = pair_tests(record)
    if tests.rows:
        yield PaperTable(
            "Welch's tests of all pairs (table App.2)",
            "On the evaluation losses of all settings that did not diverge. A negative t means that the second one's "
            "mean loss is larger. The p values are not corrected for the number of pairs, as in the paper.",
            (pair_test_table(tests),),
        )


def _robustness(record: "StudyRecord", paper: Paper) -> Iterator[Piece]:
    yield PaperTable(
        "The best setting again and again (table App.1)",
        "Evaluation losses of the best setting of each cell, trained again from other initial weights on other "
        "batches; Original is its loss in tuning.",
        (robustness_table(record, beside(record, paper)),),
    )


def _skips(record: "StudyRecord", paper: Paper) -> Iterator[Piece]:
    yield from _figure(
        "Accuracy by recurrent skip coefficient (table 2)",
        "Test accuracy of networks whose skip connections reach over s steps; bars are 95% intervals over seeds. "
        "Dashed: the paper's numbers.",
        skip_panels(record, paper),
    )


def _lengths(record: "StudyRecord", _: Paper) -> Iterator[Piece]:
    yield from _figure(
        "Learning by length",
        "The median over seeds, the band holds the middle half. The dotted line is what a network without memory "
        "reaches.",
        length_panels(record),
    )


def _losses(record: "StudyRecord", _: Paper) -> Iterator[Piece]:
    yield from _figure(
        "Training losses of all versions",
        "The median over seeds of the training loss, the band holds the middle half. Runs that diverged are left out.",
        loss_panels(record),
    )


def _table(record: "StudyRecord", paper: Paper) -> Iterator[Piece]:
    found = beside(record, paper)
    grids = depth_grids(record, found)
    if grids:
        yield Figure(
            "Scores by both depths",
            "Each square is one network: its feedforward depth d_f is that of the row, its recurrent depth d_r that of "
            "the column. The better a network is among them, the stronger its colour. Under our number the paper's, "
            "where its text gives one.",
            tuple(map(draw_grid, grids)),
            grid_numbers(grids),
        )
    rows = {row: some for row, some in table_rows(found).items() if any(each.measured for each in some)}
    if rows:
        yield Figure(
            "Ours and the paper's",
            "One row for each network: the coloured mark is our mean on test data with its 95% interval over seeds, "
            "the upright line the paper's number. Sizes and training may differ: see below.",
            tuple(draw_beside(row, some) for row, some in rows.items()),
            Table(("", "ours / the paper's"), tuple(_pairs(rows))),
        )


def _pairs(rows: Mapping[str, Sequence[Beside]]) -> Iterator[tuple[str, str]]:
    for row, some in rows.items():
        yield from ((f"{row}, {each.number.column}", ours_and_theirs(each)) for each in some)


FORMS: dict[str, Callable[["StudyRecord", Paper], Iterator[Piece]]] = {
    "capacity": _capacity,
    "memory": _memory,
    "sizes": _sizes,
    "tuning": _tuning,
    "random": _random,
    "robustness": _robustness,
    "table": _table,
    "skips": _skips,
    "lengths": _lengths,
    "losses": _losses,
}
"""What each form of figures draws, by its name in the `[paper]` table."""
