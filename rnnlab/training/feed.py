"""Where training batches come from: drawn again and again, or one stream that begins anew at its end."""

from collections.abc import Iterator

import torch

from rnnlab.tasks.task import AbstractTask, Batch
from rnnlab.training.seeds import seeded


class Feed:
    """An endless row of training batches, of which a checkpoint can hold the place.

    Args:
        task: whose batches.
        batch_size: how many sequences each has.
        seed: of the draws.
        device: where they are made.
    """

    def __init__(self, task: AbstractTask, batch_size: int, seed: int, device: torch.device) -> None:
        self.task = task
        self.batch_size = batch_size
        self.generator = seeded("batches", seed, device)
        self.position = 0  # how many batches of the present pass over a stream were taken
        self._stream: Iterator[Batch] | None = None

    def next(self) -> Batch:
        """The next batch."""
        if self.task.feed == "samples":
            return self.task.sample(self.batch_size, generator=self.generator)
        batch = next(self._in_order(), None)
        if batch is None:
            self._stream, self.position = None, 0
            batch = next(self._in_order())
        self.position += 1
        return batch

    def select_members(self, task: AbstractTask) -> None:
        """Go on with the same task for fewer members."""
        self.task, self._stream = task, None

    def _in_order(self) -> Iterator[Batch]:
        """The present pass, from where it stands."""
        if self._stream is None:
            self._stream = self.task.batches("train", self.batch_size, device=self.generator.device)
            for _ in range(self.position):
                next(self._stream)
        return self._stream
