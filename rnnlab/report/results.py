"""The tables of a report: results, tests of all pairs, best settings, numbers behind the figures."""

import math

from rnnlab.report.curves import CurveBand
from rnnlab.report.history import History
from rnnlab.report.numbers import Part
from rnnlab.report.tables import Table
from rnnlab.studies.comparison import Comparison, Contender
from rnnlab.studies.importance import METHOD
from rnnlab.studies.statistics import Interval, PairTest
from rnnlab.studies.verdict import quantity, shown
from rnnlab.studies.welch_table import shown_p

_MOST_ROWS = 21  # of a learning curve
NO_SETTING = "There is none: nothing was tuned, or no trial has a score."


def result_table(comparison: Comparison) -> Table:
    """One row for each architecture, the best first: measures, size, score, and how many runs diverged."""
    ranked = comparison.ranked
    runs = "seeds" if comparison.sample == "seeds" else "trials"
    headings = (
        *("architecture", "d_r", "d_f", "s", "parameters", comparison.score.name, "95% interval", runs),
        *("best trial", "infeasible in tuning"),
    )
    leaders = comparison.verdict.leaders
    rows = tuple(_result_row(each) for each in ranked)
    return Table(headings, rows, frozenset(place for place, each in enumerate(ranked) if each.name in leaders))


def _result_row(each: Contender) -> tuple[str, ...]:
    measures = (each.recurrent_depth, each.feedforward_depth, each.recurrent_skip_coefficient)
    found = each.summary
    total = found.num + found.num_infeasible
    return (
        each.name,
        *("-" if value is None else str(value) for value in measures),
        f"{each.num_parameters:,}",
        shown(found.mean, found.standard_error) if found.num else "-",
        shown_interval(each.interval, found.standard_error),
        f"{found.num}" if not found.num_infeasible else f"{found.num} of {total}",
        "-" if each.validation is None else shown(each.validation),
        f"{100 * each.infeasible_share:.0f}% of {each.num_trials}",
    )


def pair_table(comparison: Comparison) -> Table:
    """One row for each pair: difference, test, and what follows."""
    headings = ("pair", "difference", "95% interval", "t", "df", "p", "p corrected", "conclusion")
    return Table(headings, tuple(_test_row(test, comparison) for test in comparison.tests))


def _test_row(test: PairTest, comparison: Comparison) -> tuple[str, ...]:
    pair = f"{test.first} - {test.second}"
    difference = "-" if test.difference is None else signed(test.difference)
    if test.welch is None or test.adjusted_p is None:
        return (pair, difference, "-", "-", "-", "-", "-", "cannot be tested")
    return (
        pair,
        difference,
        shown_interval(test.interval),
        f"{test.welch.t:.3g}",
        f"{test.welch.degrees_of_freedom:.3g}",
        shown_p(test.welch.p),
        shown_p(test.adjusted_p),
        conclusion(test, comparison),
    )


def conclusion(test: PairTest, comparison: Comparison) -> str:
    """What a test says, in words."""
    if not test.is_significant(comparison.level):
        return "no significant difference"
    is_first = ((test.difference or 0.0) < 0) == (comparison.score.better == "lower")
    return f"{test.first if is_first else test.second} is better"


def setting_table(part: Part) -> Table:
    """The best setting of each architecture: one row for each hyperparameter that was tuned."""
    points = {each.arm.name: {} if each.chosen is None else each.chosen.point for each in part.records}
    names = list(dict.fromkeys(name for point in points.values() for name in point))
    rows = tuple((name, *(_setting(point.get(name)) for point in points.values())) for name in names)
    return Table(("hyperparameter", *points), rows)


def _setting(value: object) -> str:
    return "-" if value is None else shown(value) if isinstance(value, float) else str(value)


def score_numbers(comparison: Comparison) -> Table:
    """The scores of all runs."""
    columns = [each.scores for each in comparison.contenders]
    rows = tuple(
        (str(place + 1), *(_score(column, place) for column in columns)) for place in range(max(map(len, columns)))
    )
    return Table(("run", *(each.name for each in comparison.contenders)), rows)


def _score(column: tuple[float | None, ...], place: int) -> str:
    if place >= len(column):
        return ""
    value = column[place]
    return "diverged" if value is None else f"{value:.6g}"


def curve_numbers(bands: tuple[CurveBand, ...]) -> Table:
    """Learning curves at some of their steps: median and quartiles."""
    steps = sorted({step for band in bands for step in band.steps})
    some = steps[:: -(-len(steps) // _MOST_ROWS)]
    return Table(
        ("step", *(band.name for band in bands)),
        tuple((f"{step:,}", *(_band_at(band, step) for band in bands)) for step in some),
    )


def _band_at(band: CurveBand, step: int) -> str:
    if step not in band.steps:
        return ""
    place = band.steps.index(step)
    return f"{shown(band.middle[place])} ({shown(band.low[place])} to {shown(band.high[place])})"


def history_numbers(histories: tuple[History, ...]) -> Table:
    """The best and the median of tuning after some of its trials."""
    count = max(len(history.values) for history in histories)
    some = [place for place in range(count) if (place + 1) % max(1, count // 10) == 0 or place in (0, count - 1)]
    headings = ("after trial", *(f"{each.name}, {what}" for each in histories for what in ("best", "median")))
    rows = tuple(
        (str(place + 1), *(_at(values, place) for each in histories for values in (each.best, each.median)))
        for place in some
    )
    return Table(headings, rows)


def _at(values: tuple[float | None, ...], place: int) -> str:
    value = values[place] if place < len(values) else None
    return "-" if value is None else shown(value)


def importance_numbers(part: Part) -> Table:
    """How much each hyperparameter mattered, for each architecture."""
    found = {name: {each.name: each.share for each in shares or ()} for name, shares in part.importances.items()}
    names = list(dict.fromkeys(name for shares in found.values() for name in shares))
    rows = tuple(
        (name, *(f"{100 * shares[name]:.0f}%" if name in shares else "-" for shares in found.values()))
        for name in names
    )
    return Table((f"hyperparameter ({METHOD})", *found), rows)


def shown_interval(interval: Interval | None, error: float = math.nan) -> str:
    """An interval in words, with as many digits as the number it belongs to."""
    return "-" if interval is None else f"{shown(interval.low, error)} to {shown(interval.high, error)}"


def signed(value: float) -> str:
    """A number with its sign."""
    return f"{'+' if value > 0 else ''}{shown(value)}"


def score_words(comparison: Comparison) -> str:
    """What is compared, and which way is better."""
    score = comparison.score
    return (
        f"Best first. The score is the {quantity(score)} on test data, averaged over {comparison.sample}; "
        f"{score.better} is better. The column “best trial” has the best score found in tuning, on validation data: a "
        "single run, which may have been lucky."
    )
