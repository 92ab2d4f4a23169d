"""The progress of an arm: counts of its trials, for displays and for status."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rnnlab.tuning.arms import Arm
from rnnlab.tuning.store import Store
from rnnlab.tuning.trials import Trial, Trials
from rnnlab.tuning.tune import best_trial


@dataclass(frozen=True, kw_only=True)
class ArmStanding:
    """The progress of an arm.

    Args:
        arm: its name.
        budget: how many trials are planned.
        num_complete, num_infeasible, num_running: how many trials have a value, diverged, or are being trained.
        score: what is tuned for.
        is_maximised: whether higher values are better.
        best: the best value so far.
        best_trial: the number of the trial that has it.
    """

    arm: str
    budget: int
    num_complete: int
    num_infeasible: int
    num_running: int
    score: str
    is_maximised: bool
    best: float | None
    best_trial: int | None

    @property
    def num_ended(self) -> int:
        """How many trials have a result."""
        return self.num_complete + self.num_infeasible

    def after(self, number: int, value: float | None) -> "ArmStanding":
        """Its progress after one more trial has ended, with a value or infeasible.

        >>> before = ArmStanding(arm="a", budget=9, num_complete=2, num_infeasible=0, num_running=0, score="mse",
        ...                      is_maximised=False, best=0.5, best_trial=1)
        >>> after = before.after(2, 0.25).after(3, None).after(4, 0.75)
        >>> after.num_ended, after.num_infeasible, after.best, after.best_trial
        (5, 1, 0.25, 2)
        >>> replace(before, is_maximised=True).after(2, 0.25).after(3, 0.75).best
        0.75
        """
        if value is None:
            return replace(self, num_infeasible=self.num_infeasible + 1)
        sign = -1 if self.is_maximised else 1
        is_better = self.best is None or sign * value < sign * self.best
        best = {"best": value, "best_trial": number} if is_better else {}
        return replace(self, num_complete=self.num_complete + 1, **best)

    def to_json(self) -> dict[str, Any]:
        """All values."""
        return asdict(self)


def arm_standing(arm: Arm, trials: Sequence[Trial]) -> ArmStanding:
    """The progress of an arm with these trials."""
    states = [trial.state for trial in trials]
    best = best_trial(trials, is_maximised=arm.is_maximised)
    return ArmStanding(
        arm=arm.name,
        budget=arm.num_trials,
        num_complete=states.count("complete"),
        num_infeasible=states.count("infeasible"),
        num_running=states.count("running"),
        score=arm.score.name,
        is_maximised=arm.is_maximised,
        best=None if best is None else best.value,
        best_trial=None if best is None else best.number,
    )


def standing(store: Store, study: str) -> tuple[ArmStanding, ...]:
    """The progress of all arms of a study.

    Raises:
        TuningError: there is no such study.
    """
    return tuple(arm_standing(arm, Trials(store, study, arm).all()) for arm in store.arms(study))
