"""Our numbers beside a paper's: which arms are meant, and what of them is looked at."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rnnlab.errors import TuningError
from rnnlab.studies.capacity import of_relu, stored_bits
from rnnlab.studies.comparison import score_on_test
from rnnlab.studies.paper import Paper, PaperNumber, Where
from rnnlab.studies.statistics import Interval, Summary, mean_interval, summary

if TYPE_CHECKING:
    from rnnlab.studies.records import ArmRecord, StudyRecord
    from rnnlab.tuning.trials import Trial

_LOWER_IS_BETTER = {"infeasible", "repeat_infeasible", "deviation", "relative_deviation", "labels_per_bit"}
_HIGHER_IS_BETTER = {"bits_per_parameter", "bits_per_parameter_of_relu"}


@dataclass(frozen=True)
class Measured:
    """A number of ours.

    Args:
        value: in the unit of the paper.
        num: of how many runs.
        interval: where the mean of all possible runs lies; None for what is no mean, or of too few runs.
    """

    value: float
    num: int
    interval: Interval | None = None


@dataclass(frozen=True)
class Beside:
    """A number of a paper, and ours.

    Args:
        number: the paper's.
        arm: the name of our arm; None where the study has none at its scale.
        measured: ours; None where there is no arm, or no run of it has a score.
    """

    number: PaperNumber
    arm: str | None
    measured: Measured | None


def is_meant(labels: Mapping[str, Any], where: Where) -> bool:
    """Whether an arm with these labels is among those selected; a label that it lacks counts as empty.

    >>> is_meant({"cell": "gru", "depth": 1}, {"cell": ("gru", "lstm"), "label": ("",)})
    True
    >>> is_meant({"cell": "gru", "depth": 1}, {"depth": (8,)})
    False
    """
    return all(labels.get(key, "") in values for key, values in where.items())


def selected(records: Sequence["ArmRecord"], where: Where) -> list["ArmRecord"]:
    """Those arms that are meant, in order."""
    return [each for each in records if is_meant(each.labels, where)]


def beside(record: "StudyRecord", paper: Paper) -> tuple[Beside, ...]:
    """Every number of the paper with ours.

    Raises:
        TuningError: a number of the paper is of several arms.
    """
    return tuple(_beside(number, selected(record.arms, number.where)) for number in paper.numbers)


def _beside(number: PaperNumber, found: Sequence["ArmRecord"]) -> Beside:
    if len(found) > 1:
        names = ", ".join(each.arm.name for each in found)
        raise TuningError(f"the paper's number {number.value:g} ({number.requirement}) is of several arms: {names}")
    if not found:
        return Beside(number, None, None)
    return Beside(number, found[0].arm.name, measured(found[0], number.quantity, number.unit))


def measured(record: "ArmRecord", quantity: str, unit: str = "") -> Measured | None:
    """A quantity of an arm in a paper's unit; None where nothing is known yet.

    Args:
        record: of the arm.
        quantity: one of QUANTITIES.
        unit: shares are given in percent where the unit is %.
    """
    found = _MEASURES[quantity](record) if quantity in _MEASURES else _summarised(record, quantity)
    if found is None or unit != "%" or quantity in ("infeasible", "repeat_infeasible"):
        return found
    interval = found.interval
    if interval is not None:
        interval = Interval(100 * interval.low, 100 * interval.high, interval.confidence)
    return Measured(100 * found.value, found.num, interval)


def is_higher_better(record: "ArmRecord", quantity: str) -> bool:
    """Which way is better."""
    if quantity in _HIGHER_IS_BETTER:
        return True
    return quantity not in _LOWER_IS_BETTER and record.arm.is_maximised


def scores_of(record: "ArmRecord", runs: Sequence["Trial"]) -> list[float | None]:
    """The scores on test data of runs that have ended; None for one that diverged."""
    return [score_on_test(run, record.arm.score.name) for run in runs if run.has_ended]


def courses_of(record: "ArmRecord", runs: Sequence["Trial"]) -> list[float | None]:
    """For each run that has ended the mean of its score on validation over training; None for one that diverged.

    The mean is over steps, and a run that was stopped early keeps its last score: who learns fast has a better one.
    """
    return [_course(record, run) if run.state == "complete" else None for run in runs if run.has_ended]


def _course(record: "ArmRecord", run: "Trial") -> float | None:
    values = run.curve.get("scores", {}).get(record.arm.score.name, ())
    known = [(step, value) for step, value in zip(run.curve.get("steps", ()), values, strict=True) if value is not None]
    if not known:
        return None
    steps, scores = zip(*known, (max(known[-1][0], record.arm.hyperparameters.num_steps), known[-1][1]), strict=True)
    return float(np.trapezoid(scores, steps) / (steps[-1] - steps[0])) if steps[-1] > steps[0] else scores[-1]


def _score(record: "ArmRecord") -> Measured | None:
    scores = scores_of(record, record.repeats)
    found = summary(scores)
    if not found.num:
        return _best(record)
    # the same interval whenever the report is made
    return Measured(found.mean, found.num, mean_interval(scores, generator=np.random.default_rng(0)))


def _best(record: "ArmRecord") -> Measured | None:
    best = None if record.best is None else score_on_test(record.best, record.arm.score.name)
    return None if best is None else Measured(best, 1)


def _median(record: "ArmRecord") -> Measured | None:
    found = summary(scores_of(record, record.trials))
    return Measured(found.median, found.num) if found.num else None


def _average(record: "ArmRecord") -> Measured | None:
    found = summary(scores_of(record, record.trials))
    return Measured(found.mean, found.num) if found.num else None


def _infeasible(record: "ArmRecord") -> Measured | None:
    return _share(summary(scores_of(record, record.trials)))


def _repeat_infeasible(record: "ArmRecord") -> Measured | None:
    return _share(summary(scores_of(record, record.repeats)))


def _share(found: Summary) -> Measured | None:
    total = found.num + found.num_infeasible
    return Measured(100 * found.infeasible_share, total) if total else None


def _bits_per_parameter(record: "ArmRecord") -> Measured | None:
    found = stored_bits(record)
    return None if found is None else Measured(found.bits_per_parameter, 1)


def _share_of_relu(record: "ArmRecord") -> Measured | None:
    found, best = (_bits_per_parameter(each) for each in (of_relu(record), record))
    return None if found is None or best is None or not best.value else Measured(found.value / best.value, 1)


def _labels_per_bit(record: "ArmRecord") -> Measured | None:
    found = stored_bits(record)
    return None if found is None else Measured(found.labels_per_bit, 1)


def _mean_course(record: "ArmRecord") -> Measured | None:
    courses = courses_of(record, record.repeats)
    found = summary(courses)
    return (
        Measured(found.mean, found.num, mean_interval(courses, generator=np.random.default_rng(0)))
        if found.num
        else None
    )


def _off_curve(record: "ArmRecord") -> Measured | None:
    """Of a task that gives back its inputs (C54)."""
    found = _score(record)
    share = record.labels["units"] / getattr(record.arm.task, "num_inputs", math.nan)
    return None if found is None else Measured(found.value - max(0.0, 1.0 - share), found.num)


_MEASURES = {
    "score": _score,
    "best": _best,
    "median": _median,
    "average": _average,
    "infeasible": _infeasible,
    "repeat_infeasible": _repeat_infeasible,
    "course": _mean_course,
    "bits_per_parameter": _bits_per_parameter,
    "bits_per_parameter_of_relu": lambda record: _bits_per_parameter(of_relu(record)),
    "share_of_relu": _share_of_relu,
    "labels_per_bit": _labels_per_bit,
    "off_curve": _off_curve,
}


def _summarised(record: "ArmRecord", quantity: str) -> Measured | None:
    """`least`, `mean`, `most`, `deviation` or `relative_deviation` over seeds."""
    found = summary(scores_of(record, record.repeats))
    value = getattr(found, quantity) if found.num else float("nan")
    return Measured(value, found.num) if np.isfinite(value) else None
