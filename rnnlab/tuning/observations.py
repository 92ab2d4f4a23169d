"""What is known about a point: its value, that it is infeasible, or that it is still being tried."""

import math
from dataclasses import dataclass
from typing import Literal

from rnnlab.errors import TuningError
from rnnlab.tuning.space import Point

STATES = ("complete", "infeasible", "pending")


@dataclass(frozen=True)
class Observation:
    """A point and its result.

    Args:
        point: the hyperparameters.
        value: the value to be minimised; a caller that maximises passes the negative. None if not complete.
        state: `complete`; `infeasible`, if training diverged (C72); or `pending`, if it is still going on.

    >>> Observation({"l2": 0.1}, 0.5)
    Observation(point={'l2': 0.1}, value=0.5, state='complete')
    """

    point: Point
    value: float | None = None
    state: Literal["complete", "infeasible", "pending"] = "complete"

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise TuningError(f"the state of an observation is one of {', '.join(STATES)}, got {self.state!r}")
        is_number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if self.state == "complete" and not (is_number and math.isfinite(self.value or 0)):
            raise TuningError(f"a complete observation has a finite value, got {self.value!r}")
        if self.state != "complete" and self.value is not None:
            raise TuningError(f"an observation that is {self.state} has no value, got {self.value!r}")
