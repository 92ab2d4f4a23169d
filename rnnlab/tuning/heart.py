"""The heartbeat of a worker: a thread that says again and again that its lot is being worked on."""

import threading

from rnnlab.errors import TuningError
from rnnlab.tuning.lots import Lot, Lots


class Heart:
    """Beats inside a `with`.

    Args:
        lots: where to say it.
        lot: what is worked on.
        interval: seconds between two beats.
    """

    def __init__(self, lots: Lots, lot: Lot, interval: float) -> None:
        self._lots, self._lot, self._interval = lots, lot, interval
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="rnnlab heartbeat", daemon=True)
        self.is_lost = False  # whether the lot has become another worker's

    def __enter__(self) -> "Heart":
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._end.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._end.wait(self._interval):
            try:
                if not self._lots.beat(self._lot):
                    self.is_lost = True
                    return
            except TuningError:
                continue  # the store is out of reach for now; should it stay so, recording will say it
