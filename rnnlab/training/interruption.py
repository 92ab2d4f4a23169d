"""Ctrl-C as a request: training ends after the current step, with everything saved."""

import signal
from collections.abc import Mapping
from types import FrameType
from typing import Any


class Interruption:
    """Listens, inside a `with`, for Ctrl-C and for the signal with which machines are shut down.

    The first one makes `interruption()` true, for `train(..., stop=interruption)` to ask; a second one raises
    KeyboardInterrupt at once. Outside the `with` all is as it was before.
    """

    def __init__(self) -> None:
        self._is_asked = False
        self._before: Mapping[signal.Signals, Any] = {}

    def __enter__(self) -> "Interruption":
        self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self) -> bool:
        """Whether a signal has asked to stop."""
        return self._is_asked

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._is_asked:
            raise KeyboardInterrupt
        self._is_asked = True
