"""Tuning and studies that a person watches from a terminal, or a program reads line by line."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rnnlab.training.interruption import Interruption
from rnnlab.training.progress import JsonLines
from rnnlab.tuning.events import TuningEvent
from rnnlab.tuning.live import LiveDisplay
from rnnlab.tuning.progress import PlainLines

Listener = Callable[[TuningEvent], None]


class Result(Protocol):
    """What comes of tuning or of a study: it prints well, and says whether it came to its end."""

    @property
    def is_complete(self) -> bool:
        """Whether all trials have ended."""
        ...


ResultT = TypeVar("ResultT", bound=Result)


def run_and_show(
    run: Callable[..., ResultT],
    to_json: Callable[[ResultT], dict[str, Any]],
    *,
    store: str | Path,
    as_json: bool,
    how_to_resume: str,
) -> bool:
    """Do the work, show how it gets on and what came of it; returns whether it came to its end.

    The result goes to standard output. Progress goes to standard error, drawn in place if that is a terminal, otherwise
    line by line; as JSON both are lines on standard output.

    Args:
        run: called with `report` and `stop`.
        to_json: what came of it, for programs.
        store: where the study is.
        as_json: whether to write JSON.
        how_to_resume: said after an interruption.
    """
    try:
        with listener(store, as_json=as_json) as report, Interruption() as interruption:
            found = run(report=report, stop=interruption)
    except KeyboardInterrupt:  # pressed again
        print(f"\nstopped at once; {how_to_resume}", file=sys.stderr)
        return False
    if as_json:
        JsonLines(sys.stdout).write({"event": "Result", **to_json(found)})
    else:
        print(found)
    if not found.is_complete:
        print(f"stopped; {how_to_resume}", file=sys.stderr)
    return found.is_complete


@contextmanager
def listener(store: str | Path, *, as_json: bool) -> Generator[Listener]:
    """What is told to whoever watches."""
    if as_json:
        lines = JsonLines(sys.stdout)
        yield lambda event: lines.write(event.to_json())
    elif sys.stderr.isatty():
        with LiveDisplay(store) as display:
            yield display
    else:
        yield PlainLines(sys.stderr, store)
