"""The heartbeat of a worker: a thread that keeps reporting that the worker is alive."""

import threading
from collections.abc import Callable

from rnnlab.errors import TuningError


class Heart:
    """Beats inside a `with`.

    Args:
        beat: reports it to the store; returns False if there is no point in continuing.
        interval: seconds between two beats.
    """

    def __init__(self, beat: Callable[[], bool], interval: float) -> None:
        self._beat, self._interval = beat, interval
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._keep_beating, name="rnnlab heartbeat", daemon=True)
        self.is_lost = False  # whether a beat has said so, as when a lot has become another worker's

    def __enter__(self) -> "Heart":
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._end.set()
        self._thread.join()

    def _keep_beating(self) -> None:
        while not self._end.wait(self._interval):
            try:
                if not self._beat():
                    self.is_lost = True
                    return
            except TuningError:
                continue  # the store is out of reach for now; should it stay so, recording will say it
