"""Sittings: when workers worked on a study, on what, and for how long, so that what it cost is known.

Trials say how long their population was trained; populations that are trained side by side share that time.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rnnlab.tuning.store import SITTINGS, Store


@dataclass(frozen=True, kw_only=True)
class Sitting:
    """One worker's time on a study; of a worker that was killed, until it was last heard of.

    Args:
        study: of which study; the best settings over seeds are one of their own.
        worker: its name, which no other has.
        device: where it trained.
        ended: when it ended, or was last heard of, in seconds since 1970, by the store's clock.
        seconds: how long it worked.
        num_trials: how many trials it recorded.
    """

    study: str
    worker: str
    device: str
    ended: float
    seconds: float
    num_trials: int

    def to_json(self) -> dict[str, Any]:
        """All values; `Sitting(**...)` makes it again."""
        return asdict(self)


def device_seconds(every: Sequence[Sitting]) -> float:
    """How long devices were at work: workers that sat at one at the same time used it together.

    Devices are told apart by machine and kind: several GPUs of one kind in one machine count as one.

    >>> from dataclasses import replace
    >>> first = Sitting(study="s", worker="here:1:a", device="H200", ended=100.0, seconds=60.0, num_trials=5)
    >>> second = replace(first, worker="here:2:b", ended=110.0)
    >>> device_seconds([first]), device_seconds([first, second]), device_seconds([first, replace(second, device="cpu")])
    (60.0, 70.0, 120.0)
    """
    by_device: defaultdict[tuple[str, str], list[Sitting]] = defaultdict(list)
    for each in sorted(every, key=lambda sitting: sitting.ended - sitting.seconds):
        machine = each.worker.partition(":")[0]
        by_device[machine, each.device].append(each)
    total = 0.0
    for own in by_device.values():
        until = -math.inf
        for each in own:
            total += max(0.0, each.ended - max(until, each.ended - each.seconds))
            until = max(until, each.ended)
    return total


def write_sitting(store: Store, sitting: Sitting) -> None:
    """Write one down, in place of what is there: a worker has one in each study, which grows."""
    is_it = (SITTINGS.c.study == sitting.study) & (SITTINGS.c.worker == sitting.worker)
    with store.transaction() as connection:
        if not connection.execute(SITTINGS.update().where(is_it).values(**sitting.to_json())).rowcount:
            connection.execute(SITTINGS.insert().values(**sitting.to_json()))


def sittings(store: Store, study: str) -> tuple[Sitting, ...]:
    """Those of a study, in order."""
    query = SITTINGS.select().where(SITTINGS.c.study == study).order_by(SITTINGS.c.ended, SITTINGS.c.worker)
    with store.transaction() as connection:
        return tuple(Sitting(**row) for row in connection.execute(query).mappings())
