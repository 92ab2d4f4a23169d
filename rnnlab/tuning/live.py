"""The live display of a study in a terminal."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from rnnlab.training.display import AbstractDisplay
from rnnlab.training.progress import Clock, duration
from rnnlab.tuning.events import TuningEvent
from rnnlab.tuning.progress import Tracker
from rnnlab.tuning.standing import ArmStanding

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

MOST_ROWS = 20


class LiveDisplay(AbstractDisplay):
    """Draws how a study stands, again and again in the same place: a listener, and a context.

    Args:
        place: the store.
        console: the terminal, of rich; standard error by default, so that results can be piped on.
        clock: tells seconds.
    """

    def __init__(self, place: str | Path, console: "Console | None" = None, clock: Clock = time.monotonic) -> None:
        self._tracker = Tracker(place, clock)
        super().__init__(console)  # which draws at once

    def __call__(self, event: TuningEvent) -> None:
        """Take an event in."""
        self._tracker(event)

    def render(self) -> "RenderableType":
        """The picture at this moment."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        tracker = self._tracker
        if tracker.started is None:
            return Text("preparing ...")
        bar = Table.grid()  # alone it would not end its line
        bar.add_row(ProgressBar(total=tracker.num_trials, completed=tracker.num_ended, width=50))
        return Group(Text(tracker.title(), style="bold"), bar, self._table(), Text(self._foot()))

    def _table(self) -> "RenderableType":
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for heading in ("arm", "trials", "infeasible", "best"):
            table.add_column(heading, justify="left" if heading == "arm" else "right")
        for arm in self._rows():
            best = "" if arm.best is None else f"{arm.score} {arm.best:.6g}"
            cells = (arm.arm, f"{arm.num_ended} of {arm.budget}", str(arm.num_infeasible or ""), best)
            table.add_row(*(Text(cell) for cell in cells))
        return table

    def _rows(self) -> list[ArmStanding]:
        """Those that fit on a screen; of many, first those that have something left to do."""
        arms = list(self._tracker.arms.values())
        return sorted(arms, key=lambda arm: arm.num_ended >= arm.budget)[:MOST_ROWS] if len(arms) > MOST_ROWS else arms

    def _foot(self) -> str:
        tracker, left = self._tracker, self._tracker.seconds_left
        hidden = max(0, len(tracker.arms) - MOST_ROWS)
        parts = [
            f"{hidden} more arms" if hidden else "",
            f"{tracker.num_workers} workers" if tracker.num_workers > 1 else "",
            tracker.under_way(),
            tracker.awaited() or ("" if left is None else f"{duration(left)} left"),
        ]
        return "; ".join(part for part in parts if part)
