"""The progress of a run, from its events: for people as lines of text, for programs as lines of JSON.

A listener is called with every event of `train(..., report=listener)`. `Tracker` works out the numbers; `PlainLines`
and `JsonLines` write them to a stream; `LiveDisplay` (live.py) draws them in a terminal.
"""

import json
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TextIO

from rnnlab.json_values import json_value
from rnnlab.training.events import Evaluated, Event, Finished, MemberInfeasible, Saved, Started, Stepped, Values

Listener = Callable[[Event], None]
Clock = Callable[[], float]

WINDOW_SECONDS = 60.0
SECONDS_A_LINE = 10.0


@dataclass(frozen=True)
class Spread:
    """The best of some values, and the median."""

    best: float
    median: float

    def __str__(self) -> str:
        return f"{self.best:.4g}" if self.best == self.median else f"best {self.best:.4g}, median {self.median:.4g}"


def spread(values: Values, better: str = "lower") -> Spread | None:
    """Best and median of those values that are numbers; None if there are none.

    >>> print(spread([0.5, None, 0.1, 0.3, float("nan")]))
    best 0.1, median 0.3
    >>> print(spread([0.5, 0.7, 0.9], "higher"))
    best 0.9, median 0.7
    """
    found = [value for value in values if value is not None and not math.isnan(value)]
    if not found:
        return None
    return Spread(min(found) if better == "lower" else max(found), statistics.median(found))


class Tracker:
    """What is known of a run after the events so far.

    Args:
        clock: tells seconds.

    Attributes:
        started: how the run began; None before it has.
        step: how many steps are done.
        num_active, num_infeasible: how many members still train, and how many diverged.
        losses: best and median training loss of the last report.
        scores: best and median of the members' best scores on validation.
        scored_step: after which step they were found.
        saved_step: after which step the last checkpoint was written.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._marks: deque[tuple[float, int, int]] = deque()  # seconds, steps, model-steps
        self.started: Started | None = None
        self.step = 0
        self.num_active = 0
        self.num_infeasible = 0
        self.losses: Spread | None = None
        self.scores: Spread | None = None
        self.scored_step: int | None = None
        self.saved_step: int | None = None

    def __call__(self, event: Event) -> None:
        """Take an event in."""
        if isinstance(event, Started):
            self.started, self.num_active = event, event.population
            self._mark(event.step)
        elif isinstance(event, Stepped):
            self._mark(event.step)
            self.num_active = event.num_active
            self.losses = spread(event.losses)
        elif isinstance(event, Evaluated) and event.split == "validation" and self.started is not None:
            self.scores, self.scored_step = spread(event.best, self.started.better), event.step
        elif isinstance(event, MemberInfeasible):
            self.num_infeasible += 1
        elif isinstance(event, Saved):
            self.saved_step = event.step

    def _mark(self, step: int) -> None:
        now = self._clock()
        done = self._marks[-1][2] + (step - self.step) * self.num_active if self._marks else 0
        self._marks.append((now, step, done))
        self.step = step
        while len(self._marks) > 2 and now - self._marks[1][0] > WINDOW_SECONDS:
            self._marks.popleft()

    @property
    def model_steps_a_second(self) -> float | None:
        """Steps of single members over the last minute, evaluations and checkpoints included; None at the start."""
        return self._rate(2)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the last step, if no member ends early and the speed of the last minute lasts."""
        rate = self._rate(1)
        if rate is None or self.started is None:
            return None
        since = self._clock() - self._marks[-1][0]
        return max(0.0, (self.started.num_steps - self.step) / rate - since)

    def _rate(self, column: int) -> float | None:
        first, last = (self._marks[0], self._marks[-1]) if self._marks else ((0.0, 0, 0), (0.0, 0, 0))
        seconds, done = last[0] - first[0], last[column] - first[column]
        return done / seconds if seconds > 0 and done > 0 else None

    def title(self) -> str:
        """What is trained on what."""
        if self.started is None:
            return ""
        members = f"{self.started.population} members of " if self.started.population > 1 else ""
        sizes = f"{members}{self.started.num_parameters:,} parameters"
        start = f"; goes on after step {self.started.step:,}" if self.started.step else ""
        return f"{self.started.architecture} on {self.started.task}: {sizes}; {self.started.path}{start}"

    def members(self) -> str:
        """How many members are training, and how many diverged."""
        population = self.started.population if self.started else 0
        diverged = f", {self.num_infeasible} infeasible" if self.num_infeasible else ""
        return f"{self.num_active} of {population} active{diverged}"

    def speed(self) -> str:
        """Model-steps a second and the time left, once they are known."""
        rate, left = self.model_steps_a_second, self.seconds_left
        return "" if rate is None or left is None else f"{rate:,.0f} model-steps/s, {duration(left)} left"


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> [duration(seconds) for seconds in (3.2, 59.6, 150, 8000)]
    ['3 s', '1 min', '2 min 30 s', '2 h 13 min']
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, rest = divmod(round(seconds / 60), 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


class PlainLines:
    """Writes a line at the start, now and then in between, and at the end.

    Args:
        stream: where to.
        clock: tells seconds; between two lines at least SECONDS_A_LINE pass.
    """

    def __init__(self, stream: TextIO, clock: Clock = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._tracker = Tracker(clock)
        self._last = clock()

    def __call__(self, event: Event) -> None:
        """Take an event in, and write a line if it is time to."""
        self._tracker(event)
        if isinstance(event, Started):
            self._write(self._tracker.title())
        elif isinstance(event, Finished):
            self._write(finish_line(event))
        elif isinstance(event, Stepped | Evaluated) and self._clock() - self._last >= SECONDS_A_LINE:
            self._write(progress_line(self._tracker))

    def _write(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()
        self._last = self._clock()


def progress_line(tracker: Tracker) -> str:
    """Where a run stands, in one line."""
    assert tracker.started is not None
    parts = [
        f"step {tracker.step:,} of {tracker.started.num_steps:,}",
        tracker.members() if tracker.started.population > 1 else "",
        f"loss {tracker.losses}" if tracker.losses else "",
        f"{tracker.started.score} {tracker.scores}" if tracker.scores else "",
        tracker.speed(),
    ]
    return "; ".join(part for part in parts if part)


def finish_line(event: Finished) -> str:
    """How a run ended, in one line."""
    diverged = f"; {event.num_infeasible} infeasible" if event.num_infeasible else ""
    how = "finished" if event.is_complete else "stopped"
    return f"{how} at step {event.step:,} after {duration(event.seconds)}{diverged}"


class JsonLines:
    """Writes every event as a line of JSON; what is no number (infinite, undefined) is null.

    Args:
        stream: where to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, event: Event) -> None:
        """Write an event."""
        self.write(event.to_json())

    def write(self, value: Any) -> None:
        """Write any value that JSON can hold."""
        self._stream.write(json.dumps(json_value(value), allow_nan=False) + "\n")
        self._stream.flush()


def tell_all(listeners: Iterable[Listener]) -> Listener:
    """One listener that hands every event on to several, in order."""
    found = tuple(listeners)

    def tell(event: Event) -> None:
        for listener in found:
            listener(event)

    return tell
