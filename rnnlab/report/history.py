"""The course of tuning as numbers: every trial, the best so far and the median so far (C70)."""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rnnlab.tuning.trials import Trial


@dataclass(frozen=True)
class History:
    """How tuning of one architecture went.

    Args:
        name: of the architecture.
        values: each trial's score on validation, in order; None for one that diverged.
        best: the best of all trials so far; None before the first that has a score.
        median: the median of all trials so far that have one.
    """

    name: str
    values: tuple[float | None, ...]
    best: tuple[float | None, ...]
    median: tuple[float | None, ...]

    @property
    def num_infeasible(self) -> int:
        """How many trials diverged."""
        return sum(value is None for value in self.values)

    @property
    def is_empty(self) -> bool:
        """Whether no trial has a score."""
        return self.num_infeasible == len(self.values)


def tuning_history(name: str, trials: Sequence["Trial"], *, is_maximised: bool) -> History:
    """The course of an arm's trials that have ended, by number."""
    ended = sorted((trial for trial in trials if trial.has_ended), key=lambda trial: trial.number)
    values = tuple(trial.value for trial in ended)
    known: list[float] = []  # those so far, the smallest first
    best: list[float | None] = []
    median: list[float | None] = []
    for value in values:
        if value is not None:
            insort(known, value)
        best.append(known[-1 if is_maximised else 0] if known else None)
        median.append((known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2 if known else None)
    return History(name, values, tuple(best), tuple(median))
