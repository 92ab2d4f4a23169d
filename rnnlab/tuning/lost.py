"""The event of a worker that is gone."""

from dataclasses import dataclass

from rnnlab.tuning.events import TuningEvent


@dataclass(frozen=True, kw_only=True)
class WorkerLost(TuningEvent):
    """A worker process ended before the study did; others continue its trials.

    Args:
        process: its number in the system.
        status: its exit status; negative if a signal ended it.
        num_left: how many others there are.
    """

    process: int
    status: int
    num_left: int
