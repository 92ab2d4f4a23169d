"""How a worker works: where it trains, how much at once, how often it saves, and to whom it tells what happens."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from rnnlab.errors import TuningError
from rnnlab.integers import keep_integers
from rnnlab.tuning.events import TuningEvent
from rnnlab.tuning.lots import GRACE

MOST_GRACE = 10_000_000  # seconds, a third of a year
BEATS = 6  # heartbeats within the grace: some may be late when the store is busy


@dataclass(frozen=True, kw_only=True)
class Work:
    """How a worker works.

    Args:
        device: where it trains.
        population: how many networks at once; by default as many as suits the device.
        checkpoints: where populations are saved; by default beside a SQLite file, or in the current folder.
        save_every: after how many steps they are; by default every half a minute, or more rarely where that would take
            about a twentieth of the time.
        report: called with everything that happens (`events.py`).
        report_every: after how many steps training says how it stands.
        stop: asked before every lot and after every step; once it says yes, trials are saved, handed back, and the
            worker ends.
        grace: for how many seconds it may be silent before others go on with its trials.
    """

    device: torch.device | str = "cpu"
    population: int | None = None
    checkpoints: str | Path | None = None
    save_every: int | None = None
    report: Callable[[TuningEvent], None] | None = None
    report_every: int = 100
    stop: Callable[[], bool] | None = None
    grace: float = GRACE

    def __post_init__(self) -> None:
        keep_integers(self, TuningError, report_every=1)
        if self.save_every is not None:
            keep_integers(self, TuningError, save_every=1)
        if not self.grace > 0:
            raise TuningError(f"grace must be above 0 seconds, got {self.grace!r}")
        if self.grace > MOST_GRACE:
            raise TuningError(f"grace must be at most {MOST_GRACE:,} seconds, got {self.grace!r}")

    @property
    def beat_every(self) -> float:
        """Seconds between two heartbeats."""
        return self.grace / BEATS

    def is_stopped(self) -> bool:
        """Whether the worker is told to stop."""
        return self.stop is not None and self.stop()

    def tell(self, event: TuningEvent) -> None:
        """Report an event, if somebody listens."""
        if self.report is not None:
            self.report(event)
