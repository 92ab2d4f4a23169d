"""The table on the screen: rows as they come, and how long the rest will take."""

import sys
import time

from rnnlab.bench.processes import Benchmark, Progress
from rnnlab.bench.rows import HEADER, Row


class Display:
    """Shows what a benchmark tells: rows on standard output, progress on standard error where that is a terminal.

    Args:
        show_rows: whether to print rows as they come.
    """

    def __init__(self, *, show_rows: bool) -> None:
        self._show_rows = show_rows
        self._has_progress = sys.stderr.isatty()
        self._start = time.monotonic()
        self._is_empty = True

    def __call__(self, event: Row | Progress) -> None:
        """Show a row, or the case that begins."""
        if self._has_progress:
            sys.stderr.write("\r\033[K")  # rub out the line of progress
        if isinstance(event, Row):
            if self._show_rows:
                print(f"{HEADER}\n{event}" if self._is_empty else event, flush=True)
                self._is_empty = False
        elif self._has_progress:
            sys.stderr.write(f"{event.number + 1} of {event.total}: {event.case}{self._time_left(event)}")
            sys.stderr.flush()

    def _time_left(self, event: Progress) -> str:
        if not event.number:
            return ""
        left = (time.monotonic() - self._start) / event.number * (event.total - event.number)
        return f", about {left / 60:.0f} min left" if left >= 60 else f", about {left:.0f} s left"


def footer(benchmark: Benchmark) -> str:
    """What stands under the table: machine, versions, and how many goals are reached."""
    versions = ", ".join(f"{name} {number}" for name, number in benchmark.versions.items())
    verdicts = [row.is_reached for row in benchmark.rows]
    reached, missed, unknown = (verdicts.count(verdict) for verdict in (True, False, None))
    left_out = f"; {unknown} rows not measured" if unknown else ""
    return f"{benchmark.machine}; {versions}\n{reached} of {reached + missed} goals reached{left_out}"
