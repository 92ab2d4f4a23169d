"""The events that tuning reports: plain values, ready for JSON, as those of training (`rnnlab.training.events`)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rnnlab.training.events import Event

if TYPE_CHECKING:
    from rnnlab.tuning.lots import Lot  # a lot comes from the store, which needs Optuna; events do not


@dataclass(frozen=True, kw_only=True)
class TuningEvent:
    """Something that happened to a study.

    Args:
        study: which.
    """

    study: str

    def to_json(self) -> dict[str, Any]:
        """The kind of event and its values."""
        return {"event": type(self).__name__, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class WorkStarted(TuningEvent):
    """A worker begins.

    Args:
        worker: its name.
        store: where the study is.
        device: where it trains.
        budgets: how many trials each arm is to have.
        ended: how many have ended.
    """

    worker: str
    store: str
    device: str
    budgets: Mapping[str, int]
    ended: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class LotEvent(TuningEvent):
    """Something that happened to trials that are trained together.

    Args:
        arm: which.
        lot: its number.
        first: the number of its first trial.
        num_trials: how many there are.
    """

    arm: str
    lot: int
    first: int
    num_trials: int


def about(lot: "Lot") -> dict[str, Any]:
    """The values of a `LotEvent` that tell of which lot it is."""
    return {
        "study": lot.study,
        "arm": lot.arm,
        "lot": lot.number,
        "first": lot.first,
        "num_trials": len(lot.points),
    }


@dataclass(frozen=True, kw_only=True)
class LotClaimed(LotEvent):
    """New trials were suggested, and are trained next.

    Args:
        seconds: how long the suggestions took.
    """

    seconds: float


@dataclass(frozen=True, kw_only=True)
class LotTakenOver(LotEvent):
    """Trials that another worker had taken are continued.

    Args:
        was_lost: whether that worker fell silent; otherwise it handed them back.
    """

    was_lost: bool


@dataclass(frozen=True, kw_only=True)
class Trained(LotEvent):
    """An event of training.

    Args:
        members: the numbers of the trials, in the order of the population.
        event: the event.
    """

    members: list[int]
    event: Event

    def to_json(self) -> dict[str, Any]:
        """The kind of event and its values, those of training's own among them."""
        return {**super().to_json(), "event": "Trained", "training": self.event.to_json()}


@dataclass(frozen=True, kw_only=True)
class TrialEnded(TuningEvent):
    """A trial was recorded.

    Args:
        arm, number: which.
        state: `complete` or `infeasible`.
        value: the watched score on validation.
        reason: why it is infeasible.
    """

    arm: str
    number: int
    state: str
    value: float | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class LotFinished(LotEvent):
    """All its trials are recorded."""


@dataclass(frozen=True, kw_only=True)
class LotHandedBack(LotEvent):
    """Training was told to stop; the next worker goes on from here."""


@dataclass(frozen=True, kw_only=True)
class LotLost(LotEvent):
    """Another worker has taken the trials over, since this one was silent for too long."""


@dataclass(frozen=True, kw_only=True)
class Waiting(TuningEvent):
    """Everything left is being trained by other workers; if one of them falls silent, this worker takes over.

    Args:
        num_lots: how many lots that is.
        grace: for how many seconds at most their workers may be silent.
    """

    num_lots: int
    grace: float


@dataclass(frozen=True, kw_only=True)
class WorkEnded(TuningEvent):
    """A worker ends.

    Args:
        is_complete: whether every trial of the study has ended; otherwise it was told to stop.
        num_trials: how many trials this worker recorded.
        seconds: how long it worked.
    """

    is_complete: bool
    num_trials: int
    seconds: float
