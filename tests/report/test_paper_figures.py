"""Figures and tables in the papers' form: their numbers from records whose results are known, and real small runs."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

from rnnlab import TuningError
from rnnlab.report.figures import Figure, figure_html
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
from rnnlab.report.paper_curves import PAPER, length_panels, loss_panels, skip_panels
from rnnlab.report.paper_drawing import draw_panel, styles_of
from rnnlab.report.paper_grid import depth_grids, draw_grid
from rnnlab.report.paper_page import HEADING, paper_html, paper_json, paper_markdown
from rnnlab.report.paper_panels import Panel, Series
from rnnlab.report.paper_section import paper_section
from rnnlab.report.paper_tables import infeasible_table, pair_tests, panel_numbers, paper_tables, robustness_table
from rnnlab.report.paper_values import beside
from rnnlab.report.report import make_report
from rnnlab.report.style import style_sheet
from rnnlab.studies.expansion import expand
from rnnlab.studies.records import ArmRecord, StudyRecord, load_record
from tests.report.browser import look, needs_chromium
from tests.report.made_papers import MNIST, accuracy, made, spec, table
from tests.report.made_records import demo_record, unfinished
from tests.report.small_papers import NAMES, put_small_data, smoke


def series(panel: Panel, name: str, kind: str = "line") -> Series:
    (found,) = [each for each in panel.series if (each.name, each.kind) == (name, kind)]
    return found


# ---------------------------------------------------------------- Collins et al.


def bits(arm: str, number: int) -> float:
    size = 120 if "120" in arm else 60
    return size * (4.0 if "tanh" in arm else 2.5) - 10 * number


@pytest.fixture(scope="module")
def capacity() -> StudyRecord:
    return made("collins-capacity", "smoke", bits, trials=4)


def test_capacity_is_the_most_that_any_trial_stored(capacity: StudyRecord) -> None:
    stored, per_parameter = capacity_panels(capacity)
    counts = {
        cell: sorted(
            each.arm.architecture.num_parameters()
            for each in capacity.arms
            if each.labels["cell"] == cell and "task.length" not in each.labels
        )
        for cell in ("tanh", "gru")
    }
    for name, cell, most in (("RNN", "tanh", (240.0, 480.0)), ("GRU", "gru", (150.0, 300.0))):
        assert series(stored, name).x == tuple(counts[cell])
        assert series(stored, name).y == most
        expected = tuple(value / count for value, count in zip(most, counts[cell], strict=True))
        assert series(per_parameter, name).y == pytest.approx(expected)


def test_capacity_has_a_panel_for_all_depths_and_for_each() -> None:
    found = made("collins-capacity", "smoke", bits, arms=[{"cells": ["tanh"], "depths": [1, 2], "parameters": [200]}])
    assert [panel.title for panel in capacity_panels(found)] == ["all depths", "1 layer", "2 layers"] * 2


def test_what_is_proportional_is_drawn_straight() -> None:
    line = Series("a", (1.0, 2.0, 5.0), (10.0, 20.0, 500.0))
    panel = Panel(title="", x_title="x", y_title="y", series=(line,))
    ticks = [
        [each.text for each in ElementTree.fromstring(draw_panel(shown, styles_of([shown]))).iter("text")]
        for shown in (panel, replace(panel, has_equal_scales=True))
    ]
    assert "400" not in ticks[0]  # only powers of ten: logarithmic
    assert "400" in ticks[1]  # equal steps: linear, as the x axis


def test_multipliers_are_ratios_of_mean_bits_per_parameter(capacity: StudyRecord) -> None:
    per_parameter = capacity_panels(capacity)[1]
    means = {name: float(np.mean(series(per_parameter, name).y)) for name in ("RNN", "GRU")}
    found = multiplier_matrix(capacity)
    assert found["RNN"]["GRU"] == pytest.approx(means["RNN"] / means["GRU"])  # a GRU needs more to match an RNN
    assert found["GRU"]["GRU"] == 1.0
    assert found["RNN"]["GRU"] > 1 > found["GRU"]["RNN"]


def test_relu_lines_are_of_trials_with_a_relu_alone() -> None:
    found = made("collins-capacity", "smoke", lambda arm, number: 100.0 - number, trials=20)
    (panel,) = relu_panels(found)
    for arm in found.arms:
        if "task.length" in arm.labels:
            continue
        name = {"tanh": "RNN", "gru": "GRU"}[arm.labels["cell"]]
        relu = [trial.value or 0.0 for trial in arm.trials if trial.point["nonlinearity"] == "relu"]
        size = arm.arm.architecture.num_parameters()
        for kind, best in (("line", 100.0), ("dashed", max(relu))):
            line = series(panel, name, kind)
            assert dict(zip(line.x, line.y, strict=True))[size] == pytest.approx(best / size)
    assert any(max(series(panel, n, "dashed").y) < max(series(panel, n).y) for n in ("RNN", "GRU"))


def test_unrolled_steps_have_the_five_of_the_others_among_them(capacity: StudyRecord) -> None:
    (panel,) = unrolled_panels(capacity)
    (line,) = panel.series
    assert (line.name, line.x) == ("GRU", (2.0, 5.0))


def test_set_sizes_are_those_of_the_best_trials(capacity: StudyRecord) -> None:
    (panel,) = set_size_panels(capacity)
    dots = series(panel, "RNN", "dots")
    assert dots.x == (240.0, 480.0)
    best = [each.best for each in capacity.arms if each.labels["cell"] == "tanh"]
    assert dots.y == tuple(float(trial.arguments["num_samples"]) for trial in best if trial is not None)
    line = series(panel, "all stored", "theory")
    assert line.x == line.y


def test_memory_has_the_curve_of_one_number_a_unit() -> None:
    found = made("collins-memory", "smoke", lambda arm, number: 0.5 + number)
    one, two = memory_panels(found)
    assert (one.title, two.title) == ("1 layer", "2 layers")
    assert one.uprights == ((4.0, "4 inputs"),)
    assert series(one, "RNN").x == (2.0, 4.0)
    assert series(one, "RNN").y == (0.5, 0.5)
    (theory,) = [each for each in one.series if each.kind == "theory"]
    for at, error in zip(theory.x, theory.y, strict=True):
        assert error == max(0.0, 1 - at / 4)
    assert max(theory.x) >= 4
    assert {each.name for each in two.series} == {"RNN", "+RNN", theory.name}


def test_sizes_are_shown_by_parameters_and_by_units() -> None:
    found = made("collins-rcf", "smoke", lambda arm, number: 0.3 if "gru" in arm else 0.4)
    by_parameters, by_units = size_panels(found)
    networks = {each.labels["cell"]: each.arm.architecture for each in found.arms}
    grus = [each.arm.architecture for each in found.arms if each.labels["cell"] == "gru"]
    assert series(by_parameters, "GRU").x == tuple(float(each.num_parameters()) for each in grus)
    assert series(by_units, "GRU").x == tuple(
        float(max(node.units for node in each.nodes if node.cell)) for each in grus
    )
    assert series(by_units, "RNN").y == (0.4, 0.4)
    assert set(networks) == {"tanh", "gru"}


def test_tuning_shows_running_median_and_minimum_on_evaluation_data() -> None:
    values = [5.0, 3.0, None, 4.0, 1.0, 2.0]
    found = made("collins-parentheses", "smoke", lambda arm, number: values[number], trials=6)
    panels = {panel.title: panel for panel in tuning_panels(found)}
    assert list(panels) == [
        *("1 layer, running median", "2 layers, running median"),
        *("1 layer, running minimum", "2 layers, running minimum"),
    ]
    median, least = panels["1 layer, running median"], panels["1 layer, running minimum"]
    assert series(median, "GRU", "dots").x == (1.0, 2.0, 4.0, 5.0, 6.0)
    assert series(median, "GRU", "dots").y == (5.0, 3.0, 4.0, 1.0, 2.0)
    assert series(median, "GRU").y == (5.0, 4.0, 4.0, 4.0, 3.5, 3.0)
    assert series(least, "GRU").y == (5.0, 3.0, 3.0, 3.0, 1.0, 1.0)


def test_tuning_is_scored_on_evaluation_data_not_on_validation() -> None:
    found = made("collins-parentheses", "smoke", lambda arm, number: 1.0)
    moved = tuple(
        replace(each, trials=tuple(replace(t, scores=t.scores | {"test": {"cross_entropy": 7.0}}) for t in each.trials))
        for each in found.arms
    )
    for panel in tuning_panels(replace(found, arms=moved)):
        assert {value for each in panel.series for value in each.y} == {7.0}


def test_boxes_are_quartiles_and_whiskers() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 100.0, None]
    found = made("collins-random", "smoke", lambda arm, number: values[number], trials=10)
    shown = boxes(found)
    assert list(shown) == [1, 2]
    assert [box.name for box in shown[1]] == ["GRU", "IRNN"]
    box = shown[2][-1]
    assert box.name == "+RNN"
    assert (box.num, box.num_infeasible) == (9, 1)
    assert (box.low, box.quartile, box.median, box.upper_quartile, box.high) == (1.0, 3.0, 5.0, 7.0, 8.0)
    assert box.outliers == (100.0,)


def test_infeasible_shares_stand_beside_table1() -> None:
    found = made(
        "collins-random", "smoke", lambda arm, number: None if "irnn" in arm and number else 1.0, depths=[1, 8]
    )
    shown = infeasible_table(found, beside(found, table(found)))
    assert shown.headings == ("infeasible, %", "1 layer", "8 layers")
    assert shown.rows == (
        ("GRU", "0.0 / 15.5", "0.0 / 3.2"),
        ("IRNN", "75.0 / 56.7", "75.0 / 44.6"),
        ("+RNN", "–", "0.0 / 8.8"),
    )


def test_pairs_are_tested_as_scipy_does() -> None:
    generator = np.random.default_rng(3)
    losses = {"gru": generator.normal(1, 0.3, 40), "irnn": generator.normal(2, 1.0, 40)}

    def loss(arm: str, number: int) -> float:
        return float(losses["irnn" if "irnn" in arm else "gru"][number])

    found = made("collins-random", "smoke", loss, trials=40)
    shown = pair_tests(found)
    assert shown.columns == ("1 layer", "2 layers")
    (row,) = [row for row in shown.rows if (row.first, row.second) == ("GRU", "IRNN")]
    expected = stats.ttest_ind(losses["gru"], losses["irnn"], equal_var=False)
    assert row.tests[0] is not None
    assert (row.tests[0].t, row.tests[0].p) == pytest.approx((expected.statistic, expected.pvalue))
    (other,) = [row for row in shown.rows if (row.first, row.second) == ("+RNN", "GRU")]
    assert other.tests[0] is None  # there is no +RNN of one layer (C18)


def test_robustness_has_the_columns_of_the_papers_table() -> None:
    again = [0.25, 0.5, None]
    found = made("collins-robustness", "smoke", lambda arm, number: 0.125, lambda arm, number: again[number])
    shown = robustness_table(found, beside(found, table(found)))
    assert shown.headings[1:] == ("Original", "% infeasible", "Min", "Mean", "Max", "S. Dev.", "S. Dev. / Mean")
    rows = {row[0]: row[1:] for row in shown.rows}
    deviation = math.sqrt(2) / 8
    ours = ("0.125", "33.3", "0.25", "0.375", "0.5", f"{deviation:.3g}", f"{deviation / 0.375:.3g}")
    assert rows["RNN, ours"] == ours
    assert rows["RNN, paper"] == ("0.0116", "0", "0.0141", "0.0821", "0.294", "0.0522", "0.636")
    assert rows["GRU, paper"][1] == "1"


# ---------------------------------------------------------------- Zhang et al., Pascanu et al., Mongia


def test_accuracy_is_shown_against_the_skip_coefficient() -> None:
    found = made("zhang-table2", "gpu", accuracy, arms=MNIST, seeds=3)
    (panel,) = skip_panels(found, table(found))
    ours, theirs = series(panel, "ours"), series(panel, PAPER, "dashed")
    assert ours.x == (1.0, 5.0, 21.0)
    assert ours.y == pytest.approx((51.0, 75.0, 75.0))  # the mean of 0.50, 0.51 and 0.52
    assert ours.low[0] < 51 < ours.high[0]
    assert theirs.x == (1, 5, 9, 13, 21)
    assert theirs.y == (34.9, 46.9, 74.9, 85.4, 87.8)


def test_networks_of_another_size_are_no_part_of_the_line() -> None:
    found = made("zhang-table2", "gpu", accuracy, seeds=0, finalists=1, space={"learning_rate": [0.01]})
    titles = [panel.title for panel in skip_panels(found, table(found))]
    assert titles == ["mnist, tanh", "permuted-mnist, tanh", "mnist, lstm", "permuted-mnist, lstm"]
    assert series(skip_panels(found, table(found))[1], "ours").x == (1.0, 3.0, 5.0, 7.0, 9.0)


def test_curves_by_length_have_the_level_of_no_memory() -> None:
    found = made("zhang-copying", "gpu", lambda arm, number: 0.01, seeds=2)
    panels = {panel.title: panel for panel in length_panels(found)}
    assert list(panels) == [f"copying, delay {delay}" for delay in (100, 200, 300)]
    for delay, panel in zip((100, 200, 300), panels.values(), strict=True):
        ((level, name),) = panel.levels
        assert name == "no memory"
        assert level == pytest.approx(10 * math.log(8) / (delay + 20))
    assert [each.name for each in panels["copying, delay 100"].series] == ["sh", "skip-10", "skip-20"]
    assert series(panels["copying, delay 300"], "skip-30").y[-1] == pytest.approx(0.01, rel=0.2)


def test_losses_are_those_of_training() -> None:
    found = made("mongia-recall", "smoke", lambda arm, number: 0.02)
    moved = tuple(
        replace(
            each,
            finalists=tuple(
                replace(
                    finalist,
                    trials=tuple(
                        replace(run, curve=dict(run.curve) | {"losses": [float(step) for step in run.curve["steps"]]})
                        for run in finalist.trials
                    ),
                )
                for finalist in each.finalists
            ),
        )
        for each in found.arms
    )
    first, second = loss_panels(replace(found, arms=moved))
    assert [each.name for each in first.series] == ["mongia-a", "mongia-b", "mongia-c", "mongia-d"]
    assert [each.name for each in second.series] == ["special-4"]
    assert all(each.y == each.x for each in (*first.series, *second.series))
    assert first.title != second.title


def test_reviews_have_a_panel_for_each_cell() -> None:
    found = made("mongia-sst", "gpu", lambda arm, number: 0.3, seeds=2, units=4)
    assert [panel.title for panel in loss_panels(found)] == ["sst, relu", "sst, lstm"]


def test_tables_have_the_papers_layout() -> None:
    found = made("zhang-table1", "laptop", lambda arm, number: 1.5 if "td" in arm else 1.75)
    first, quoted = paper_tables(beside(found, table(found)), table(found).quoted)
    assert first.headings == ("", "sh", "st", "bu", "td")
    assert [row[0] for row in first.rows] == [
        *("PTB, tanh RNN", "text8, tanh RNN-small", "text8, tanh RNN-large", "text8, LSTM-small", "text8, LSTM-large"),
    ]
    assert first.rows[0] == (
        *("PTB, tanh RNN", "1.75 ± 0.00 / 1.54", "1.75 ± 0.00 / 1.59", "1.75 ± 0.00 / 1.54", "1.50 ± 0.00 / 1.49"),
    )
    assert first.rows[1][1:] == ("– / 1.80", "– / 1.82", "– / 1.80", "– / 1.77")
    assert [row[1] for row in quoted.rows] == ["1.48", "1.54"]


def grid_of_depths(task: str) -> StudyRecord:
    """Feedforward depth 4 with recurrent depth 3 is the best by far, feedforward depth 2 with 1 the worst."""

    def value(arm: str, number: int) -> float:
        name = arm.split()[0].removesuffix(":tanh")
        return 0.5 + 0.1 * int(name[5]) - 0.05 * int(name[7]) if task == "mnist" else 2.0 + 0.1 * int(name[5])

    return made("zhang-grid", "smoke", value, arms=[{"task": task, "parameters": 3000}])


def test_networks_stand_in_a_grid_by_their_depths() -> None:
    """Z67: with the paper's numbers."""
    found = grid_of_depths("text8-zhang")
    (grid,) = depth_grids(found, beside(found, table(found)))
    assert (grid.rows, grid.columns) == (("2", "3", "4"), ("1", "2", "3"))
    assert grid.cells["2", "1"].value == pytest.approx(2.2)
    assert [grid.cells["3", column].paper for column in grid.columns] == [1.86, 1.84, 1.86]
    assert [grid.cells[row, "1"].shade for row in grid.rows] == pytest.approx([1.0, 0.5, 0.0])  # lower is better
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", draw_grid(grid))
    assert texts.count("paper 1.84") == 1
    assert {"d_f = 4", "d_r = 3", "2.2", "bits per character first74, lower is better"} <= set(texts)


def test_grid_of_mnist_has_a_figure_without_numbers_of_the_paper() -> None:
    """Z68."""
    found = grid_of_depths("mnist")
    section = paper_section(found)
    assert section is not None
    (figure,) = [piece for piece in section.pieces if isinstance(piece, Figure)]
    (grid,) = depth_grids(found, section.numbers)
    assert grid.words == "accuracy (%), higher is better"
    assert grid.cells["4", "1"].value == pytest.approx(85.0)
    assert grid.cells["4", "1"].shade == 1.0
    assert {cell.paper for cell in grid.cells.values()} == {None}
    assert ("mnist", "d_f = 4", "d_r = 3", "75", "–") in figure.table.rows
    assert "paper" not in "".join(re.findall(r"<text[^>]*>([^<]*)</text>", figure.drawings[0]))


def test_networks_that_fill_no_grid_have_none() -> None:
    found = made("zhang-table1", "laptop", lambda arm, number: 1.5)
    assert depth_grids(found, ()) == []


def test_numbers_of_panels_say_what_they_are(capacity: StudyRecord) -> None:
    rows = panel_numbers(capacity_panels(capacity)).rows
    assert len({row[:4] for row in rows}) == len(rows)  # each has a meaning of its own
    assert {row[3] for row in rows} == {"stored bits", "bits per parameter"}


def test_recollected_numbers_are_marked() -> None:
    found = made("pascanu-ptb-word", "gpu", lambda arm, number: 200.0)
    first, quoted = paper_tables(beside(found, table(found)), table(found).quoted)
    assert first.rows[0][1:] == (
        *("200.0 ± 0.0 / 117.7*", "200.0 ± 0.0 / 112.0*", "200.0 ± 0.0 / 107.5†", "200.0 ± 0.0 / 110.0†"),
    )
    assert [row[1] for row in quoted.rows] == ["123*", "117*"]
    assert "*: written down from memory, not checked against the paper." in "\n".join(paper_markdown(found))


def test_a_number_of_several_arms_is_refused() -> None:
    found = made("zhang-table1", "laptop", lambda arm, number: 1.5)
    twice = replace(found, arms=(*found.arms, found.arms[0]))
    with pytest.raises(TuningError, match=re.escape("the paper's number 1.54 (Z62) is of several arms")):
        paper_section(twice)


# ---------------------------------------------------------------- small runs of all experiments


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for stores, where small data stand for the real ones."""
    folder = tmp_path_factory.mktemp("papers")
    with pytest.MonkeyPatch.context() as patch:
        put_small_data(folder, patch)
        yield folder


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_runs_and_is_drawn(name: str, small: Path) -> None:
    ran = smoke(name, small)
    assert ran.is_complete
    assert all(trial.has_ended for each in ran.arms for trial in each.all_trials)
    ran.save(small / f"{name}.json.gz")
    found = load_record(small / f"{name}.json.gz")
    section = paper_section(found)
    assert section is not None
    assert section.pieces
    for piece in section.pieces:
        for drawing in piece.drawings if isinstance(piece, Figure) else ():
            root = ElementTree.fromstring(drawing)
            assert root.find("desc") is not None
            assert not re.search(r"\bnan\b|\binf\b", drawing.lower())
    page = make_report(found).to_html()
    assert HEADING in page
    assert all(piece.heading.replace("'", "&#x27;") in page for piece in section.pieces)
    assert page.index('<section class="verdict">') < page.index(HEADING)
    json.dumps(paper_json(found), allow_nan=False)
    text = "\n".join(paper_markdown(found))
    assert all(each in text for each in section.deviations)


@pytest.mark.parametrize("name", NAMES)
def test_studies_without_a_result_have_a_section_too(name: str, small: Path) -> None:
    whole = spec(name, "smoke")
    arms = tuple(ArmRecord(arm=row.arm, labels=row.labels, trials=()) for row in expand(whole))
    found = StudyRecord(name=whole.study, store="none", spec=whole, arms=arms)
    assert HEADING in "".join(paper_html(found, figure_html))
    assert "not tested at this scale" in "".join(paper_markdown(found))


def test_studies_of_no_paper_have_no_section() -> None:
    found = demo_record()
    assert paper_section(found) is None
    assert not list(paper_html(found, figure_html))
    assert not list(paper_markdown(found))
    assert paper_json(found) is None
    assert not list(paper_html(unfinished(found), figure_html))


@needs_chromium
def test_sections_look_right_in_a_browser(tmp_path: Path) -> None:
    def value(arm: str, number: int) -> float | None:
        return None if number % 7 == 3 else 0.02 * (1 + len(arm) % 5) * 1.3 ** (number % 11)

    parts: list[str] = []
    for name, changes in {
        "collins-parentheses": {"trials": 12},
        "collins-random": {"trials": 12},
        "collins-memory": {"trials": 3, "units": [16, 64, 96], "depths": [1, 4]},
        "zhang-table2": {"seeds": 2},
        "zhang-copying": {"seeds": 2},
        "zhang-section45": {"seeds": 2},
    }.items():
        parts += paper_html(made(name, "gpu", value, **changes), figure_html)
    capacity = made("collins-capacity", "gpu", lambda arm, number: 500.0 * (1 + len(arm) % 5) * (1 + number), trials=3)
    parts += paper_html(capacity, figure_html)
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f"<head>{view}<style>{style_sheet()}</style></head>"
    page = f"<!doctype html><html>{head}<body><main>{''.join(parts)}</main></body></html>"
    look(page, tmp_path).check()
