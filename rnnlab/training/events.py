"""The events that the training loop reports: plain values with numbers of the host, ready for JSON.

`train(..., report=function)` calls the function with each of them, in the order in which things happen. Lists have one
entry for each member of the population, in its order; None where there is no number: the member has left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Values = Sequence[float | None]


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened.

    Args:
        step: how many training steps were done when it did.
    """

    step: int

    def to_json(self) -> dict[str, Any]:
        """The kind of event and its values."""
        return {"event": type(self).__name__, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class Started(Event):
    """Training begins, or goes on from a checkpoint at `step`.

    Args:
        architecture, task: what is trained on what, in words.
        population: how many members there are, those included that have left before a checkpoint.
        num_parameters: of one member.
        num_steps: after how many steps the last member ends, if none stops early.
        path: on which of the engine's paths the networks run, and whether as a CUDA graph.
        score: the name of the score that is watched.
        better: `lower` or `higher`.
    """

    architecture: str
    task: str
    population: int
    num_parameters: int
    num_steps: int
    path: str
    score: str
    better: str


@dataclass(frozen=True, kw_only=True)
class Stepped(Event):
    """Steps were done; every `report_every` of them.

    Args:
        losses: the training loss of the last step, for each member.
        learning_rates: those of the last step.
        num_active: how many members are still training.
    """

    losses: Values
    learning_rates: Values
    num_active: int


@dataclass(frozen=True, kw_only=True)
class Evaluated(Event):
    """The scores on a split.

    Args:
        split: `validation`, or `test` at the end, with the numbers that were best on validation.
        scores: by name, for each member.
        best: the best value of the watched score so far, for each member.
    """

    split: str
    scores: Mapping[str, Values]
    best: Values


@dataclass(frozen=True, kw_only=True)
class MemberInfeasible(Event):
    """A member diverged (C72); from `step` on, counted from 0, its numbers do not change.

    Args:
        member: which.
        reason: in words.
    """

    member: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class MemberFinished(Event):
    """A member came to its end.

    Args:
        member: which.
        reason: in words: all its steps, early stopping, or a learning rate too low.
    """

    member: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Compacted(Event):
    """Members that have ended were taken out, so that the others run faster.

    Args:
        members: those that are left.
    """

    members: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Saved(Event):
    """A checkpoint was written."""


@dataclass(frozen=True, kw_only=True)
class Finished(Event):
    """Nothing is left to train, or training was told to stop.

    Args:
        best: the best value of the watched score, for each member.
        num_infeasible: how many members diverged.
        is_complete: whether all came to their end; otherwise `resume` goes on.
        seconds: how long it took, without what came before a checkpoint.
    """

    best: Values
    num_infeasible: int
    is_complete: bool
    seconds: float
