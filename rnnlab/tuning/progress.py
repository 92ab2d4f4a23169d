"""The progress of a study, from its events: for people as lines of text; `live.py` draws it in a terminal."""

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from rnnlab.training.events import Started, Stepped
from rnnlab.training.progress import SECONDS_A_LINE, Clock, duration
from rnnlab.tuning.events import (
    LotEvent,
    LotFinished,
    LotHandedBack,
    LotLost,
    LotTakenOver,
    Trained,
    TrialEnded,
    TuningEvent,
    Waiting,
    WorkEnded,
    WorkStarted,
)
from rnnlab.tuning.lost import WorkerLost
from rnnlab.tuning.standing import ArmStanding, arm_standing
from rnnlab.tuning.store import Store
from rnnlab.tuning.trials import Trials


class Tracker:
    """What is known of a study after the events so far.

    Args:
        place: the store, to see what was there before.
        clock: tells seconds.

    Attributes:
        started: how the work on the present study began; None before it has.
        arms: how each arm stands, by name.
        num_workers: how many are at work.
        awaited_grace: for how long other workers, whose lots are waited for, may be silent; None while there is
            something to do here.
    """

    def __init__(self, place: str | Path, clock: Clock = time.monotonic) -> None:
        self._place, self._clock = place, clock
        self._lots: dict[tuple[str, int], tuple[int, float]] = {}  # members, and the share of their training done
        self._steps: dict[tuple[str, int], int] = {}
        self._begun, self._num_ended = clock(), 0
        self._ended: set[tuple[str, int]] = set()
        self._left: set[str] = set()  # studies that workers have left: a slow one may still tell of them
        self.started: WorkStarted | None = None
        self.arms: dict[str, ArmStanding] = {}
        self.num_workers = 0
        self.awaited_grace: float | None = None

    def __call__(self, event: TuningEvent) -> None:
        """Take an event in."""
        if event.study in self._left:
            return
        self.awaited_grace = event.grace if isinstance(event, Waiting) else None
        if isinstance(event, WorkStarted):
            self._start(event)
        elif isinstance(event, WorkEnded | WorkerLost):
            self.num_workers -= 1
        elif isinstance(event, TrialEnded):
            self._end(event)
        elif isinstance(event, Trained):
            self._train(event)
        elif isinstance(event, LotFinished | LotHandedBack | LotLost):
            self._lots.pop((event.arm, event.lot), None)

    def _start(self, event: WorkStarted) -> None:
        if self.started is None or self.started.study != event.study:
            self._left |= set() if self.started is None else {self.started.study}
            self._read(event.study)
            self.started, self.num_workers, self._lots = event, 0, {}
            self._begun, self._num_ended = self._clock(), 0
        self._learn(event.budgets, event.study)
        for name, budget in event.budgets.items():  # which may have grown since
            self.arms[name] = replace(self.arms[name], budget=max(budget, self.arms[name].budget))
        self.num_workers += 1

    def _end(self, event: TrialEnded) -> None:
        self._learn([event.arm], event.study)
        if (event.arm, event.number) not in self._ended:
            self._ended.add((event.arm, event.number))
            self.arms[event.arm] = self.arms[event.arm].after(event.number, event.value)
            self._num_ended += 1

    def _learn(self, arms: Iterable[str], study: str) -> None:
        """Look again where the study has gained arms since."""
        if not set(arms) <= self.arms.keys():
            self._read(study)

    def _read(self, study: str) -> None:
        """What has been done before."""
        store = Store(self._place)
        trials = [(arm, Trials(store, study, arm).all()) for arm in store.arms(study)]
        store.close()
        self.arms = {arm.name: arm_standing(arm, found) for arm, found in trials}
        self._ended = {(each.arm, each.number) for _, found in trials for each in found if each.has_ended}

    def _train(self, event: Trained) -> None:
        key, inner = (event.arm, event.lot), event.event
        if isinstance(inner, Started):
            self._steps[key] = inner.num_steps
        elif isinstance(inner, Stepped):
            self._lots[key] = (len(event.members), inner.step / self._steps[key])

    @property
    def num_ended(self) -> int:
        """How many trials have a result."""
        return sum(arm.num_ended for arm in self.arms.values())

    @property
    def num_infeasible(self) -> int:
        """How many trials diverged."""
        return sum(arm.num_infeasible for arm in self.arms.values())

    @property
    def num_trials(self) -> int:
        """How many there are to be."""
        return sum(arm.budget for arm in self.arms.values())

    def under_way(self) -> str:
        """The progress of the trials that are being trained."""
        lots = list(self._lots.values())
        members = sum(count for count, _ in lots)
        return f"{members} in training, {sum(count * share for count, share in lots) / members:.0%}" if members else ""

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the last trial ends, if trials take as long as those that ended since the work began."""
        seconds = self._clock() - self._begun
        if not self._num_ended or seconds <= 0:
            return None
        partly = sum(members * share for members, share in list(self._lots.values()))
        rate = (self._num_ended + partly) / seconds
        return max(0.0, (self.num_trials - self.num_ended - partly) / rate)

    def title(self) -> str:
        """Which study it is, and where."""
        assert self.started is not None
        arms = f"{len(self.arms)} arms, " if len(self.arms) > 1 else ""
        done = f"; {self.num_ended} have ended" if self.num_ended else ""
        return f"study {self.started.study} in {self.started.store}: {arms}{self.num_trials} trials{done}"

    def line(self) -> str:
        """How it stands, in one line."""
        parts = [f"{self.num_ended} of {self.num_trials} trials"]
        if self.num_infeasible:
            parts.append(f"{self.num_infeasible} infeasible")
        parts += [part for part in (self.under_way(), *self._best()) if part]
        if self.awaited_grace is not None:
            parts.append(self.awaited())
        elif self.seconds_left is not None:
            parts.append(f"{duration(self.seconds_left)} left")
        return "; ".join(parts)

    def awaited(self) -> str:
        """Why this worker is waiting."""
        if self.awaited_grace is None:
            return ""
        return f"waits for trials that other workers have ({duration(self.awaited_grace)}, if killed)"

    def _best(self) -> list[str]:
        """The best value of a study of one arm; values of several arms cannot always be compared."""
        arms = list(self.arms.values())
        if len(arms) != 1 or arms[0].best is None:
            return []
        return [f"best {arms[0].score} {arms[0].best:.6g}"]


class PlainLines:
    """Writes a line at the start, now and then in between, and at the end.

    Args:
        stream: where to.
        place: the store.
        clock: tells seconds; between two lines at least SECONDS_A_LINE pass.
    """

    def __init__(self, stream: TextIO, place: str | Path, clock: Clock = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._tracker = Tracker(place, clock)
        self._last = clock()

    def __call__(self, event: TuningEvent) -> None:
        """Take an event in, and write a line if it is time to."""
        before = self._tracker.started
        self._tracker(event)
        if self._tracker.started is not before:
            self._write(self._tracker.title())
        elif isinstance(event, WorkEnded):
            self._write_end(event)
        elif isinstance(event, LotTakenOver) and event.was_lost:
            self._write(f"goes on with {event.num_trials} trials of {event.arm}, whose worker was lost")
        elif isinstance(event, WorkerLost):
            self._write(f"worker {event.process} is gone (status {event.status}); {event.num_left} left")
        elif isinstance(event, LotEvent | TrialEnded | Waiting) and self._clock() - self._last >= SECONDS_A_LINE:
            self._write(self._tracker.line())

    def _write_end(self, event: WorkEnded) -> None:
        if event.is_complete and self._tracker.num_workers == 0:
            self._write(f"{self._tracker.line().split('; ')[0]} have ended, the last after {duration(event.seconds)}")

    def _write(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()
        self._last = self._clock()
