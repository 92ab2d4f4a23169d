"""Figures as numbers: axes, learning curves, the course of tuning (C70)."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rnnlab.report.chart import Style
from rnnlab.report.curves import curve_band
from rnnlab.report.history import tuning_history
from rnnlab.report.numbers import parts_of
from rnnlab.report.paper_drawing import draw_panel
from rnnlab.report.paper_panels import Panel, Series
from rnnlab.report.scales import axis, tick_label, window
from rnnlab.report.svg import Markup
from rnnlab.tuning.trials import Trial
from tests.report.made_records import demo_record

finite = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(st.lists(finite, min_size=1, max_size=20), st.integers(3, 8))
def test_linear_axis_holds_all_values_between_its_ticks(values: list[float], most_ticks: int) -> None:
    found = axis(values, may_be_log=False, most_ticks=most_ticks)
    assert not found.is_log
    slack = 1e-6 * (found.high - found.low)
    assert found.low - slack <= min(values) <= max(values) <= found.high + slack
    assert (found.ticks[0], found.ticks[-1]) == (found.low, found.high)
    assert 2 <= len(found.ticks) <= most_ticks + 1
    gaps = np.diff(found.ticks)
    assert np.allclose(gaps, gaps[0], rtol=1e-3)


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=20))
@example([2e7, 316978639.0])  # one power of ten only lies between
def test_log_axis_is_taken_where_values_are_far_apart(values: list[float]) -> None:
    found = axis(values)
    assert found.is_log == (math.log10(max(values) / min(values)) > 1.2)
    if found.is_log:
        assert found.low <= min(values) * (1 + 1e-8)
        assert found.high >= max(values) * (1 - 1e-8)
        assert found.ticks
        powers = [10.0**power for power in range(-11, 12) if found.low <= 10.0**power * (1 + 1e-9) <= found.high]
        leading = {f"{tick:.0e}"[0] for tick in found.ticks}
        assert leading <= ({"1"} if len(powers) > 1 else {"1", "2", "5"})
        assert len(found.ticks) <= 6


def test_zero_and_negative_values_have_a_linear_axis() -> None:
    assert not axis([0.0, 1e-5, 100.0]).is_log
    assert not axis([-1.0, 1e-5, 100.0]).is_log


def test_share_runs_from_zero_to_one() -> None:
    linear, log = axis([0.0, 10.0]), axis([0.01, 100.0])
    assert [linear.share(value) for value in (0.0, 2.5, 10.0, 99.0, -3.0)] == [0.0, 0.25, 1.0, 1.0, 0.0]
    assert [log.share(value) for value in (0.01, 1.0, 100.0)] == pytest.approx([0.0, 0.5, 1.0])
    assert log.holds(1.0)
    assert not log.holds(1000.0)


def test_window_leaves_out_the_absurd_but_not_the_bad() -> None:
    bulk = [0.1 * place for place in range(1, 20)]
    assert window([*bulk, 1e9], better="lower") == pytest.approx(bulk)
    assert window([*bulk, 4.0], better="lower") == pytest.approx([*bulk, 4.0])
    highs = [100.0 - value for value in bulk]
    assert max(window([*highs, -1e9], better="higher")) == pytest.approx(max(highs))
    assert -1e9 not in window([*highs, -1e9], better="higher")
    assert 1e9 in window([*highs, 1e9], better="higher")  # the best is never left out
    assert window([3.0], better="lower") == [3.0]
    assert window([], better="lower") == []


def test_tick_labels_differ_where_ticks_do() -> None:
    for values in ([0.0, 0.003], [1e-6, 5e-6], [0.0, 123_456.0], [1e-8, 1.0]):
        labels = [tick_label(tick) for tick in axis(values).ticks]
        assert len(set(labels)) == len(labels)


def runs(curves: list[dict]) -> list[Trial]:
    made = demo_record(trials=2, seeds=len(curves)).arms[1].repeats
    return [replace(run, curve=curve) for run, curve in zip(made, curves, strict=True)]


def curve(steps: list[int], values: list[float | None]) -> dict:
    return {"steps": steps, "scores": {"mse": values}, "losses": [0.0] * len(steps)}


def test_band_is_median_and_quartiles_over_seeds() -> None:
    made = runs([curve([10, 20], [level, level / 2]) for level in (1.0, 2.0, 3.0, 4.0, 5.0)])
    found = curve_band("st", made, "mse")
    assert (found.name, found.num, found.steps) == ("st", 5, (10, 20))
    assert (found.low, found.middle, found.high) == ((2.0, 1.0), (3.0, 1.5), (4.0, 2.0))


def test_run_that_ended_early_keeps_its_last_score() -> None:
    made = runs([curve([10, 20, 30], [4.0, 3.0, 2.0]), curve([10, 20], [8.0, 7.0])])
    found = curve_band("st", made, "mse")
    assert found.steps == (10, 20, 30)
    assert found.middle == (6.0, 5.0, 4.5)


def test_band_begins_where_all_runs_have_begun_and_skips_what_is_no_number() -> None:
    made = runs([curve([10, 20, 30], [None, 3.0, 2.0]), curve([10, 20, 30], [8.0, None, 6.0])])
    found = curve_band("st", made, "mse")
    assert found.steps == (20, 30)
    assert found.middle == (5.5, 4.0)


def test_diverged_runs_are_left_out_of_the_band() -> None:
    made = runs([curve([10], [1.0]), curve([10], [3.0])])
    assert curve_band("st", [replace(made[0], state="infeasible"), made[1]], "mse").num == 1
    assert curve_band("st", [replace(run, state="infeasible") for run in made], "mse") is None
    assert curve_band("st", [], "mse") is None


def test_long_curves_are_thinned_to_the_end() -> None:
    steps = list(range(1, 1001))
    found = curve_band("st", runs([curve(steps, [1.0 / step for step in steps])] * 2), "mse")
    assert len(found.steps) <= 200
    assert found.steps[-1] == 1000


def history_of(values: list[float | None], *, is_maximised: bool = False):
    made = demo_record(trials=len(values), seeds=None).arms[1].trials
    states = ["infeasible" if value is None else "complete" for value in values]
    shuffled = [
        replace(trial, value=value, state=state) for trial, value, state in zip(made, values, states, strict=True)
    ][::-1]
    return tuning_history("st", shuffled, is_maximised=is_maximised)


def test_history_is_in_the_order_of_trials_with_best_and_median_so_far() -> None:
    found = history_of([None, 4.0, 2.0, 3.0, None, 1.0])
    assert found.values == (None, 4.0, 2.0, 3.0, None, 1.0)
    assert found.best == (None, 4.0, 2.0, 2.0, 2.0, 1.0)
    assert found.median == (None, 4.0, 3.0, 3.0, 3.0, 2.5)
    assert found.num_infeasible == 2
    assert history_of([1.0, 3.0, 2.0], is_maximised=True).best == (1.0, 3.0, 3.0)


@cache
def some_trial() -> Trial:
    return demo_record(trials=1, seeds=None).arms[1].trials[0]


@given(st.lists(finite, min_size=1, max_size=30))
def test_history_agrees_with_numpy(values: list[float]) -> None:
    trials = [replace(some_trial(), number=number, value=value) for number, value in enumerate(values)]
    found = tuning_history("st", trials, is_maximised=False)
    assert found.best == tuple(np.minimum.accumulate(values))
    assert found.median == pytest.approx([np.median(values[: count + 1]) for count in range(len(values))])


def test_trials_that_still_run_are_no_part_of_the_history() -> None:
    made = demo_record(trials=2, seeds=None).arms[1].trials
    assert len(tuning_history("st", [made[0], replace(made[1], state="running")], is_maximised=False).values) == 1


def test_parts_hold_everything_of_each_comparison() -> None:
    record = demo_record()
    (part,) = parts_of(record)
    assert [band.name for band in part.bands] == ["sh", "st", "td", "lstm"]
    assert [band.num for band in part.bands] == [9, 10, 10, 10]
    assert [len(history.values) for history in part.histories] == [30] * 4
    assert set(part.importances) == {"sh", "st", "td", "lstm"}
    values = part.to_json()
    assert values["best_settings"]["td"] == dict(record.arms[2].best.point)
    assert values["learning_curves"][0]["steps"][-1] == 2000


def test_the_worst_dots_behind_lines_do_not_set_the_scale() -> None:
    losses = (*(0.4 + 0.01 * number for number in range(18)), 3.0, 3.5)
    dots = Series("gru", tuple(range(20)), losses, "dots")
    line = Series("gru", (0.0, 19.0), (0.6, 0.4), "line")
    alone, behind = (str(_drawn(series)) for series in ((dots,), (dots, line)))
    assert ">4<" in alone
    assert ">4<" not in behind
    assert ">0.4<" in behind


def _drawn(series: tuple[Series, ...]) -> Markup:
    panel = Panel(title="", x_title="trial", y_title="loss", series=series, better="lower", may_be_log=False)
    return draw_panel(panel, {"gru": Style(0)})
