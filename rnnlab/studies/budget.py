"""A study within a given time; how many trials that allows becomes known while it runs.

Every architecture has the same share of the time, including its runs over seeds. After a first round of trials the time
per trial is known. Each further round has as many trials as the remaining time allows, but at most doubles their
number, so that the estimate improves on the way.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from rnnlab.errors import TuningError
from rnnlab.studies.records import ArmRecord, StudyRecord, load_record
from rnnlab.studies.run import WorkOptions, run_study
from rnnlab.studies.specification import StudySpec
from rnnlab.tuning.store import Store

FIRST_ROUND = 8
"""How many trials each architecture has before anything is known."""

LEAST_PACE = 0.01  # many workers side by side; below, clocks have failed

MakeSpec = Callable[[Mapping[str, int], int], StudySpec]


def run_within(
    make: MakeSpec,
    names: Sequence[str],
    *,
    seconds: float,
    num_seeds: int,
    store: str | Path,
    workers: int = 1,
    clock: Callable[[], float] = time.monotonic,
    **options: Unpack[WorkOptions],
) -> StudyRecord:
    """Run a study for about the given time.

    Called again, it continues: the store knows how long trials took.

    Args:
        make: a function from the number of trials of each arm and the number of seeds to the specification.
        names: of the arms.
        seconds: for tuning and seeds of all arms together.
        num_seeds: over how many seeds the best settings are trained at the end.
        store: where the study is.
        workers: how many processes work on it.
        clock: tells seconds.
        options: as in `Work`.
    """
    counts = dict.fromkeys(names, FIRST_ROUND)
    stored = _stored(make(counts, 0).study, store)
    before, began = 0.0, clock()
    if stored is not None:
        counts = {each.arm.name: each.arm.num_trials for each in stored.arms}
        before = _training_seconds(stored)
    while stored is None or not any(each.repeated for each in stored.arms):
        record = run_study(make(counts, 0), store=store, workers=workers, **options)
        if not record.is_complete:
            return record
        pace = _pace(clock() - began, _training_seconds(record) - before)
        more = more_trials(record, seconds / len(names), num_seeds, pace)
        if not any(more.values()):
            break
        counts = {name: count + more[name] for name, count in counts.items()}
    return run_study(make(counts, num_seeds), store=store, workers=workers, **options)


def more_trials(record: StudyRecord, share: float, num_seeds: int, pace: float) -> dict[str, int]:
    """How many trials each arm gets next; none if its time is up.

    Args:
        record: of the trials so far.
        share: how many seconds each arm has.
        num_seeds: how many runs must still be possible after them.
        pace: how many seconds pass per second of training: above one if suggestions take long, below one if workers
            train side by side.
    """
    found: dict[str, int] = {}
    for each in record.arms:
        spent, num = pace * training_seconds(each), len(each.trials)
        left = share - spent - num_seeds * spent / num
        found[each.arm.name] = max(0, min(int(left / spent * num), num))
    return found


def training_seconds(record: ArmRecord) -> float:
    """How long the trials of an arm took, with the time of a population divided among its members."""
    return sum((trial.wall_seconds or 0.0) / (trial.population or 1) for trial in record.trials)


def _training_seconds(record: StudyRecord) -> float:
    return sum(map(training_seconds, record.arms))


def _pace(passed: float, trained: float) -> float:
    """How many seconds pass per second of training; 1 if nothing has been trained yet."""
    return max(LEAST_PACE, passed / trained) if trained > 0 else 1.0


def _stored(study: str, store: str | Path) -> StudyRecord | None:
    """The record of the study, if it has begun."""
    place = Store(store)
    try:
        return load_record(study, place) if study in place.study_names() else None
    finally:
        place.close()


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_from_words(text: str) -> float:
    """A time as people write it, in seconds.

    >>> seconds_from_words("10m"), seconds_from_words("1h30m"), seconds_from_words("90s")
    (600.0, 5400.0, 90.0)
    >>> seconds_from_words("10")
    Traceback (most recent call last):
    rnnlab.errors.TuningError: a time is a number with a unit, such as 90s, 10m, 1h30m or 2d, got '10'
    """
    if not re.fullmatch(r"(\d+(\.\d+)?[smhd])+", text):
        raise TuningError(f"a time is a number with a unit, such as 90s, 10m, 1h30m or 2d, got {text!r}")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+(?:\.\d+)?)([smhd])", text))
    if not seconds > 0:
        raise TuningError(f"a time is longer than zero, got {text!r}")
    return seconds
