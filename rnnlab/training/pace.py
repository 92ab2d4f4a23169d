"""When runs are saved: every so many steps, or so often that saving takes a small part of the time."""

import time
from datetime import timedelta
from typing import Protocol
from weakref import WeakSet

from rnnlab.errors import TrainingError
from rnnlab.integers import as_integer

SHARE = 0.05  # of the time that may go into saving
MOST_SECONDS = 600.0  # between two saves, however long they take: so much may be lost


class Saves(Protocol):
    """When one run is saved."""

    def is_due(self, step: int) -> bool:
        """Whether the run is due to be saved after a step."""
        ...

    def took(self, seconds: float) -> None:
        """Record that the run was saved, and how long that took."""
        ...


class Pace:
    """How often runs that take turns are saved: more rarely if saving would take more than its share of the time.

    A checkpoint of large networks takes seconds: two dozen populations, each saved every half minute, might do little
    else. The time that a save takes is estimated from earlier saves of any of the runs.

    Args:
        every: the least time between two saves of a run.
    """

    def __init__(self, every: timedelta) -> None:
        if every <= timedelta(0):
            raise TrainingError(f"save_every must be a time above 0, got {every!r}")
        self._every = every.total_seconds()
        self._runs: WeakSet[_Timed] = WeakSet()  # those that are left
        self._cost = 0.0  # seconds of a save

    def of_a_run(self) -> "_Timed":
        """The rule for saving one of the runs."""
        run = _Timed(self)
        self._runs.add(run)
        return run

    @property
    def seconds(self) -> float:
        """How many seconds now lie between two saves of a run."""
        if not self._cost:
            return self._every
        return max(self._every, min(MOST_SECONDS, len(self._runs) * self._cost / SHARE))

    def record_cost(self, seconds: float) -> None:
        """Record how long a save took. The estimate is the mean of this time and the estimate before."""
        self._cost = (self._cost + seconds) / 2 if self._cost else seconds


class _Timed:
    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._began: float | None = None  # with the first step after a save: its time does not count

    def is_due(self, step: int) -> bool:
        now = time.perf_counter()
        self._began = now if self._began is None else self._began
        return now - self._began >= self._pace.seconds

    def took(self, seconds: float) -> None:
        self._pace.record_cost(seconds)
        self._began = None


class _Counted:
    def __init__(self, every: int) -> None:
        self._every = as_integer(every, "save_every", TrainingError, 1)

    def is_due(self, step: int) -> bool:
        return step % self._every == 0

    def took(self, seconds: float) -> None:
        pass


def saves(every: int | timedelta | Pace) -> Saves:
    """When a run is saved: every so many steps, every so often, or at a pace that it shares with others."""
    if isinstance(every, Pace):
        return every.of_a_run()
    return Pace(every).of_a_run() if isinstance(every, timedelta) else _Counted(every)
