"""Where training batches come from: drawn again and again, or one stream that begins anew at its end."""

from collections.abc import Iterator, Sequence

import torch

from rnnlab.tasks.task import AbstractTask, Batch
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.training.seeds import seeded


def batch_seeds(members: Sequence[Hyperparameters], seed: int) -> list[int]:
    """The seed of each member's batches: its own, or that of the run."""
    return [seed if member.batch_seed is None else member.batch_seed for member in members]


class Feed:
    """An endless row of training batches, of which a checkpoint can hold the place.

    Args:
        task: whose batches.
        batch_size: how many sequences each has.
        seeds: of the draws, one for each member. Members with the same seed see the same sequences, and where all have
            the same the batches have no axis P.
        device: where they are made.
    """

    def __init__(self, task: AbstractTask, batch_size: int, seeds: Sequence[int], device: torch.device) -> None:
        self.task = task
        self.batch_size = batch_size
        self.generators = {seed: seeded("batches", seed, device) for seed in seeds}
        self.position = 0  # how many batches of the present pass over a stream were taken
        self._device = device
        self._all_seeds = self._seeds = tuple(seeds)
        self._stream: Iterator[Batch] | None = None

    def next(self) -> Batch:
        """The next batch."""
        if self.task.feed == "samples":
            return self._drawn()
        batch = next(self._in_order(), None)
        if batch is None:
            self._stream, self.position = None, 0
            batch = next(self._in_order())
        self.position += 1
        return batch

    def _drawn(self) -> Batch:
        if len(self.generators) == 1:
            (generator,) = self.generators.values()
            return self.task.sample(self.batch_size, generator=generator)
        drawn = self.task.draw_each(self.batch_size, list(self.generators.values()))
        if len(self.generators) == len(self._seeds):
            return drawn
        of_seed = {seed: place for place, seed in enumerate(self.generators)}
        # an index made of Python's numbers would make the host wait for a GPU
        return drawn.map(lambda tensor: torch.stack([tensor[of_seed[seed]] for seed in self._seeds]))

    def select_members(self, task: AbstractTask, members: Sequence[int]) -> None:
        """Go on with some of the members, and the task as it is for them."""
        self.task, self._stream = task, None
        self._seeds = tuple(self._all_seeds[member] for member in members)
        self.generators = {seed: self.generators[seed] for seed in self._seeds}

    def _in_order(self) -> Iterator[Batch]:
        """The present pass, from where it stands."""
        if self._stream is None:
            self._stream = self.task.batches("train", self.batch_size, device=self._device)
            for _ in range(self.position):
                next(self._stream)
        return self._stream
