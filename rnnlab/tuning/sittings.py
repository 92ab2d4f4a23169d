"""Sittings: when workers worked on a study, on what, and for how long, so that what it cost is known.

Trials say how long their population was trained; populations that are trained side by side share that time.
"""

from dataclasses import asdict, dataclass
from typing import Any

from rnnlab.tuning.store import SITTINGS, Store


@dataclass(frozen=True, kw_only=True)
class Sitting:
    """One worker's time on a study. That of a worker that was killed is not known.

    Args:
        study: of which study; the best settings over seeds are one of their own.
        worker: its name, which no other has.
        device: where it trained.
        ended: when it ended, in seconds since 1970, by the store's clock.
        seconds: how long it worked, from its first trial to its last.
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


def add_sitting(store: Store, sitting: Sitting) -> None:
    """Write one down; a worker has one in each study."""
    store.insert(SITTINGS.insert().values(**sitting.to_json()))


def sittings(store: Store, study: str) -> tuple[Sitting, ...]:
    """Those of a study, in order."""
    query = SITTINGS.select().where(SITTINGS.c.study == study).order_by(SITTINGS.c.ended, SITTINGS.c.worker)
    with store.transaction() as connection:
        return tuple(Sitting(**row) for row in connection.execute(query).mappings())
