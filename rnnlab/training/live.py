"""The live display of a run in a terminal."""

import time
from typing import TYPE_CHECKING

from rnnlab.training.display import AbstractDisplay
from rnnlab.training.events import Event
from rnnlab.training.progress import Clock, Tracker

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


class LiveDisplay(AbstractDisplay):
    """Draws where a run stands, again and again in the same place: a listener, and a context.

    Args:
        console: the terminal, of rich; standard error by default, so that results can be piped on.
        clock: tells seconds.
    """

    def __init__(self, console: "Console | None" = None, clock: Clock = time.monotonic) -> None:
        self._tracker = Tracker(clock)
        super().__init__(console)  # which draws at once

    def __call__(self, event: Event) -> None:
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
        table = Table.grid(padding=(0, 2))
        table.add_row("", ProgressBar(total=tracker.started.num_steps, completed=tracker.step, width=50))
        table.add_row("step", f"{tracker.step:,} of {tracker.started.num_steps:,}")
        for label, text in self._rows():
            table.add_row(Text(label), Text(text))
        return Group(Text(tracker.title(), style="bold"), table)

    def _rows(self) -> list[tuple[str, str]]:
        tracker = self._tracker
        assert tracker.started is not None
        rows = [("members", tracker.members())]
        if tracker.losses:
            rows.append(("training loss", str(tracker.losses)))
        if tracker.scores:
            rows.append((tracker.started.score, f"{tracker.scores} on validation, step {tracker.scored_step:,}"))
        if speed := tracker.speed():
            rows.append(("speed", speed))
        if tracker.saved_step is not None:
            rows.append(("checkpoint", f"step {tracker.saved_step:,}"))
        return rows
