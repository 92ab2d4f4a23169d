"""One line of a table of speeds: what was raced, against whom, how it went, and how it should go."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Row:
    """A race between rnnlab and one peer, or why there was none.

    Args:
        case: what was run, with its sizes (B, T, I, H).
        peer: who ran it, too.
        threads: how many threads each side had.
        goal: for speed, the ratio to reach or pass; for memory, the one to stay under.
        ours, theirs: the median time of a training step, its peak memory, or how many training steps of single models
            are done a second; None where nothing was measured.
        unit: milliseconds, megabytes or model-steps a second.
        note: why there are no numbers.
        is_refused: whether there are none because the two sides compute different things.
    """

    case: str
    peer: str
    threads: int
    goal: float
    ours: float | None = None
    theirs: float | None = None
    unit: Literal["ms", "mb", "model_steps_per_second"] = "ms"
    note: str = ""
    is_refused: bool = False

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the peer rnnlab is, or how many times as much memory it takes."""
        if self.ours is None or self.theirs is None:
            return None
        if self.unit == "ms":
            return self.theirs / self.ours
        if self.unit == "model_steps_per_second":
            return self.ours / self.theirs
        # a peer that needs no memory at all is beaten by any amount and met by none
        return self.ours / self.theirs if self.theirs else (float("inf") if self.ours else 1.0)

    @property
    def is_reached(self) -> bool | None:
        """Whether the goal is reached; None where nothing was measured."""
        if self.ratio is None:
            return None
        return self.ratio <= self.goal if self.unit == "mb" else self.ratio >= self.goal

    def to_json(self) -> dict[str, Any]:
        """The row as the results file holds it."""
        named = {"case": self.case, "peer": self.peer, "threads": self.threads}
        measured = {f"ours_{self.unit}": self.ours, f"peer_{self.unit}": self.theirs, "ratio": self.ratio}
        note = {"note": self.note} if self.note else {}
        return named | measured | {"goal": self.goal, "reached": self.is_reached} | note

    def __str__(self) -> str:
        start = f"{self.case:<46} {self.peer:<22} {self.threads:>7}"
        if self.ratio is None:
            return f"{start}  {self.note}"
        sign = "<=" if self.unit == "mb" else ">="
        numbers = f"{self.ours:>9.2f} {self.theirs:>9.2f} {_SHORT[self.unit]} {self.ratio:>7.2f}"
        return f"{start} {numbers}  {sign} {self.goal:<4g} {'reached' if self.is_reached else 'missed'}"


_SHORT = {"ms": "ms", "mb": "MB", "model_steps_per_second": "/s"}

HEADER = f"{'case (B, T, I, H)':<46} {'peer':<22} {'threads':>7} {'rnnlab':>9} {'peer':>9}    {'ratio':>7}  goal"
