"""The progress of each member, on the host: its best score, when that was, and whether it continues."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.training.run import FINISHED, INFEASIBLE, STOPPED, TOO_SLOW, UNFINISHED, LearningCurve, Member


@dataclass
class Standing:
    """The progress of one member so far.

    Args:
        outcome: `unfinished` until it ends.
        num_steps: how many steps it was trained.
        reason: why it is infeasible.
        best_step: after how many steps it was best; None before the first evaluation.
        validation: its scores of that moment.
        num_worse: evaluations in a row that brought no improvement.
        num_flat: the same since its learning rate was last lowered.
        steps, scores, losses: its curve.
    """

    outcome: str = UNFINISHED
    num_steps: int = 0
    reason: str | None = None
    best_step: int | None = None
    validation: dict[str, float] = field(default_factory=dict[str, float])
    num_worse: int = 0
    num_flat: int = 0
    steps: list[int] = field(default_factory=list[int])
    scores: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    losses: list[float] = field(default_factory=list[float])

    @property
    def has_ended(self) -> bool:
        """Whether it has stopped training."""
        return self.outcome != UNFINISHED

    def end(self, outcome: str, step: int, reason: str | None = None) -> None:
        """Record how and when it ended."""
        self.outcome, self.num_steps, self.reason = outcome, step, reason

    def record(self, step: int, scores: Mapping[str, float], loss: float, watch: "Watch") -> bool:
        """Record an evaluation, and say whether it is the best so far."""
        self.steps.append(step)
        self.losses.append(loss)
        for name, value in scores.items():
            self.scores.setdefault(name, []).append(value)
        best = self.validation.get(watch.score)
        has_improved = watch.has_improved(scores[watch.score], best)
        self.num_worse = 0 if has_improved else self.num_worse + 1
        self.num_flat = 0 if has_improved else self.num_flat + 1
        is_best = watch.is_better(scores[watch.score], best)
        if is_best:
            self.best_step, self.validation = step, dict(scores)
        return is_best

    def member(self, hyperparameters: Hyperparameters, test: Mapping[str, float], num_steps: int) -> Member:
        """The member as part of the result of a run with that many steps."""
        return Member(
            hyperparameters=hyperparameters,
            outcome=self.outcome,
            num_steps=self.num_steps if self.has_ended else num_steps,
            reason=self.reason,
            best_step=self.best_step,
            validation=self.validation,
            test=test,
            curve=LearningCurve(
                steps=tuple(self.steps),
                scores={name: tuple(values) for name, values in self.scores.items()},
                losses=tuple(self.losses),
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """All values; `Standing(**values)` reads them back."""
        return asdict(self)


@dataclass(frozen=True)
class Watch:
    """The score that decides, and when a value of it is better than another.

    >>> watch = Watch("mse", "lower", least_improvement=0.1)
    >>> watch.is_better(0.95, 1.0), watch.has_improved(0.95, 1.0), watch.has_improved(0.85, 1.0)
    (True, False, True)
    """

    score: str
    better: str
    least_improvement: float = 0.0

    def is_better(self, value: float, best: float | None) -> bool:
        """Whether a value is the best so far; NaN never is."""
        if best is None or math.isnan(value):
            return not math.isnan(value)
        return value < best if self.better == "lower" else value > best

    def has_improved(self, value: float, best: float | None) -> bool:
        """Whether a value is better by enough to count."""
        if best is None:
            return self.is_better(value, best)
        needed = self.least_improvement * abs(best)
        return self.is_better(value, best - needed if self.better == "lower" else best + needed)


def decide(standing: Standing, member: Hyperparameters, step: int, rate: float) -> float:
    """After an evaluation: end a member that has no prospect, or lower its learning rate on a plateau (P, Z52).

    Args:
        standing: the member, which is still training.
        member: its hyperparameters.
        step: how many steps were done.
        rate: its next learning rate.

    Returns:
        The factor by which to multiply the learning rate.
    """
    factor = 1.0
    if standing.num_flat >= member.plateau_patience and member.plateau_factor < 1:
        standing.num_flat, factor = 0, member.plateau_factor
    if member.patience is not None and standing.num_worse >= member.patience:
        standing.end(STOPPED, step)
    elif rate * factor < member.lowest_learning_rate:
        standing.end(TOO_SLOW, step)
    return factor


REASONS = {
    FINISHED: "all its steps are done",
    STOPPED: "no improvement",
    TOO_SLOW: "the learning rate is too low",
    INFEASIBLE: "infeasible",
}
"""Why a member ended, in words, by outcome."""


def column(standings: Sequence[Standing], score: str) -> list[float | None]:
    """The best values of a score, None for members that have none."""
    return [standing.validation.get(score) for standing in standings]
