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
        "Each point is one network, tuned: the most bits that any of its trials stored, and the same number divided by "
        "its parameters. If the stored bits lie on a straight line, a parameter stores the same amount at every size.",
        capacity_panels(record),
    )
    matrix = multiplier_matrix(record)
    if len(matrix) > 1:
        title = "parameters for equal capacity"
        caption = (
            "How many times as many parameters the column's cell needs to store as much as the row's cell. Computed "
            "from each cell's bits per parameter (best trial), averaged over sizes and depths."
        )
        drawing = draw_matrix(matrix, title)
        yield Figure("Multipliers of parameters (figure 1i)", caption, (drawing,), as_table(matrix))
    yield from _figure(
        "ReLU alone against both nonlinearities (figure 2a)",
        "Solid: the best of all trials, with tanh or ReLU, as tuning chose. Dashed: the best of the trials with ReLU, "
        "which an IRNN always has.",
        relu_panels(record),
    )
    yield from _figure(
        "Unrolled steps (figure 2b)",
        "Bits per parameter of networks that see their input for different numbers of steps.",
        unrolled_panels(record),
    )
    yield from _figure(
        "Set size and information (figure App.1)",
        "Each dot is one network: the number of labels in its best training set, which tuning chose, against the bits "
        "it stored. On the dotted line, every label is stored.",
        set_size_panels(record),
    )


def _memory(record: "StudyRecord", _: Paper) -> Iterator[Piece]:
    yield from _figure(
        "Error against units (figure 2c)",
        "Squared error per input number. The dotted curve is the best that n units can do if each stores one number. "
        "At the vertical line there is one unit per input.",
        memory_panels(record),
    )


def _sizes(record: "StudyRecord", _: Paper) -> Iterator[Piece]:
    yield from _figure(
        f"{quantity(record.arms[0].arm.score).capitalize()} by size (figure 3)",
        "Each point is the best setting of one network. The last panel shows the networks of one layer again, by their "
        "number of units: a unit of a cell with more matrices has more parameters.",
        size_panels(record),
    )


def _tuning(record: "StudyRecord", _: Paper) -> Iterator[Piece]:
    yield from _figure(
        "The course of tuning (figure 4)",
        "Each dot is one setting, trained to its end and scored on evaluation data. If there are very many dots, only "
        "some are shown; the worst tenth may be drawn at the edge. Lines show the running median, which is good if "
        "most settings work, or the running best.",
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
            "Scores on evaluation data of the settings that did not diverge. A box contains the middle half of them, "
            "and the vertical line is the median. Whiskers extend at most one and a half box lengths; scores beyond "
            "are dots. The column on the right is the share of settings that diverged.",
            drawings,
            Table(headings, rows),
        )
    yield PaperTable(
        "Settings that diverged (table 1)",
        "Percentage of random settings that diverged in training: our result / the paper's, where it gives one.",
        (infeasible_table(record, beside(record, paper)),),
    )
    tests = pair_tests(record)
    if tests.rows:
        yield PaperTable(
            "Welch's tests of all pairs (table App.2)",
            "Tests of the evaluation losses of all settings that did not diverge. A negative t means that the second "
            "cell of the pair has the larger mean loss. As in the paper, p is not corrected for the number of pairs.",
            (pair_test_table(tests),),
        )


def _robustness(record: "StudyRecord", paper: Paper) -> Iterator[Piece]:
    yield PaperTable(
        "The best setting, trained many times (table App.1)",
        "Evaluation losses of each cell's best setting, trained again from other initial weights and on other batches. "
        "“Original” is its loss in tuning.",
        (robustness_table(record, beside(record, paper)),),
    )


def _skips(record: "StudyRecord", paper: Paper) -> Iterator[Piece]:
    yield from _figure(
        "Accuracy by recurrent skip coefficient (table 2)",
        "Test accuracy of networks with skip connections across s steps. Solid: our means over seeds, with 95% "
        "intervals as bars. Dashed: the paper's numbers.",
        skip_panels(record, paper),
    )


def _lengths(record: "StudyRecord", _: Paper) -> Iterator[Piece]:
    yield from _figure(
        "Learning curves by sequence length",
        "Each line is the median over seeds; the band contains the middle half of the seeds. The dotted line is the "
        "score of a network without memory.",
        length_panels(record),
    )


def _losses(record: "StudyRecord", _: Paper) -> Iterator[Piece]:
    yield from _figure(
        "Training losses of all versions",
        "Each line is the median training loss over seeds; the band contains the middle half of the seeds. Runs that "
        "diverged are left out.",
        loss_panels(record),
    )


def _table(record: "StudyRecord", paper: Paper) -> Iterator[Piece]:
    found = beside(record, paper)
    grids = depth_grids(record, found)
    if grids:
        yield Figure(
            "Scores by both depths",
            "Each square is one network, with the feedforward depth d_f of its row and the recurrent depth d_r of its "
            "column. The stronger the colour, the better the network is among them. Below our score is the paper's, "
            "where its text gives one.",
            tuple(map(draw_grid, grids)),
            grid_numbers(grids),
        )
    rows = {row: some for row, some in table_rows(found).items() if any(each.measured for each in some)}
    if rows:
        yield Figure(
            "Our scores and the paper's",
            "One row for each network. The coloured mark is our mean on test data, with its 95% interval over seeds; "
            "the vertical line is the paper's number. Sizes and training may differ, as listed below.",
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
