"""Lots: the trials that a worker takes at once. No trial is given to two workers, and none is lost with one.

A lot is a row of the store. Every change of it is one statement that says which state it expects to find, so that only
one of several workers succeeds:

    claim       insert the next lot of an arm: its number is taken once, and says how much of the budget is used up
    beat        the owner says that it is alive; it learns that the lot is no longer its own
    take over   become the owner of a lot that was handed back, or whose owner has been silent for too long
    hand back   stop before the end, so that anybody can go on at once
    finish      all its trials are recorded
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement

from rnnlab.tuning.space import Point
from rnnlab.tuning.store import LOTS, Store

GRACE = 60.0
"""For how many seconds a worker may be silent before others go on with its trials."""


@dataclass(frozen=True, kw_only=True)
class Lot:
    """Trials that are trained by one worker.

    Args:
        study, arm, number: which lot; numbers count from 0 in each arm.
        first: the number of its first trial in the arm.
        points: of its trials, in order.
        owner: the worker that has it; None if no worker has.
        grace: for how many seconds the owner may be silent, as it announced itself.
        generation: how often it has had another owner.
        num_lost: how often its owner fell silent.
        claimed, heartbeat, finished: when its owner got it, was last alive, and ended it; by the store's clock.
        seconds: how long earlier owners worked on it; once it is finished, how long all did.
        was_lost: whether the owner before this one fell silent, as far as `take_over` knows.
    """

    study: str
    arm: str
    number: int
    first: int
    points: tuple[Point, ...]
    owner: str | None
    grace: float
    generation: int
    num_lost: int
    claimed: float
    heartbeat: float
    finished: float | None
    seconds: float = 0.0
    was_lost: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether all its trials are recorded."""
        return self.finished is not None

    @property
    def numbers(self) -> range:
        """The numbers of its trials in the arm."""
        return range(self.first, self.first + len(self.points))


class Lots:
    """The lots of a study.

    Args:
        store: where they are.
        study: of which study.
        grace: for how many seconds a worker that claims or takes over lots through this object may be silent.
    """

    def __init__(self, store: Store, study: str, grace: float = GRACE) -> None:
        self._store, self._study, self._grace = store, study, grace

    def all(self) -> list[Lot]:
        """Every lot, in the order of arms and numbers."""
        order = (LOTS.c.arm, LOTS.c.number)
        with self._store.transaction() as connection:
            rows = connection.execute(LOTS.select().where(LOTS.c.study == self._study).order_by(*order)).mappings()
            return [_lot(row) for row in rows]

    def claim(
        self, arm: str, earlier: Sequence[Lot], points: Sequence[Point], owner: str, *, seconds: float = 0.0
    ) -> Lot | None:
        """The next lot of an arm, with these points; None if another worker has taken it since `earlier` was read.

        Args:
            arm: which.
            earlier: all its lots so far.
            points: of the new trials.
            owner: the worker that will train them.
            seconds: how long they were worked on in another store.
        """
        row = {
            "study": self._study,
            "arm": arm,
            "number": len(earlier),
            "first": earlier[-1].numbers.stop if earlier else 0,
            "points": json.dumps([dict(point) for point in points]),
            "owner": owner,
            "grace": self._grace,
            "generation": 0,
            "num_lost": 0,
            "claimed": self._store.now,
            "heartbeat": self._store.now,
            "seconds": seconds,
        }
        is_ours = self._store.insert(LOTS.insert().values(**row))
        return self._read(arm, len(earlier)) if is_ours else None

    def take_over(self, owner: str) -> Lot | None:
        """A lot that was handed back, or whose owner has been silent for too long, now this owner's; None without."""
        is_free = LOTS.c.finished.is_(None) & (
            LOTS.c.owner.is_(None) | (LOTS.c.heartbeat < self._store.now - LOTS.c.grace)
        )
        with self._store.transaction() as connection:
            query = LOTS.select().where(LOTS.c.study == self._study, is_free).order_by(LOTS.c.arm, LOTS.c.number)
            found = [_lot(row) for row in connection.execute(query).mappings()]
        for lot in found:
            is_lost = lot.owner is not None
            changes = {
                "owner": owner,
                "grace": self._grace,
                "generation": lot.generation + 1,
                "num_lost": lot.num_lost + is_lost,
                "seconds": LOTS.c.seconds + (LOTS.c.heartbeat - LOTS.c.claimed if is_lost else 0.0),
                "claimed": self._store.now,
                "heartbeat": self._store.now,
            }
            if self._change(lot, changes, is_free):
                return replace(self._read(lot.arm, lot.number), was_lost=is_lost)
        return None

    def beat(self, lot: Lot) -> bool:
        """Report that the owner is alive; False if it is no longer the owner."""
        return self._change(lot, {"heartbeat": self._store.now})

    def hand_back(self, lot: Lot) -> bool:
        """Leave a lot to any other worker; False if another one has it already."""
        return self._change(lot, {"owner": None, "seconds": LOTS.c.seconds + self._store.now - LOTS.c.claimed})

    def finish(self, lot: Lot) -> bool:
        """Mark all trials as recorded; False if another worker has the lot."""
        spent = LOTS.c.seconds + self._store.now - LOTS.c.claimed
        return self._change(lot, {"owner": None, "finished": self._store.now, "seconds": spent})

    def _change(self, lot: Lot, values: dict[str, Any], condition: ColumnElement[bool] | None = None) -> bool:
        """Change a lot, if it is still as it was when it was read."""
        is_same = (
            (LOTS.c.study == lot.study)
            & (LOTS.c.arm == lot.arm)
            & (LOTS.c.number == lot.number)
            & (LOTS.c.generation == lot.generation)
            & (LOTS.c.owner.is_(None) if lot.owner is None else LOTS.c.owner == lot.owner)
            & LOTS.c.finished.is_(None)
        )
        where = is_same if condition is None else is_same & condition
        with self._store.transaction() as connection:
            return connection.execute(LOTS.update().where(where).values(**values)).rowcount == 1

    def _read(self, arm: str, number: int) -> Lot:
        is_meant = (LOTS.c.study == self._study) & (LOTS.c.arm == arm) & (LOTS.c.number == number)
        with self._store.transaction() as connection:
            return _lot(connection.execute(LOTS.select().where(is_meant)).mappings().one())


def _lot(row: Any) -> Lot:
    values: dict[str, Any] = {**row, "points": tuple(json.loads(row["points"]))}
    return Lot(**values)
