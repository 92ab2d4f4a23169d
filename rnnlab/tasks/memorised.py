"""Tasks with nothing to generalise: a fixed set of random samples to be learned by heart (C39, C56).

Training, validation and test are the same set (C44): targets are random, so unseen ones could not be predicted.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from rnnlab.errors import TaskError
from rnnlab.integers import as_integer, keep_integers
from rnnlab.tasks.constants import constants
from rnnlab.tasks.generated import Choices
from rnnlab.tasks.task import AbstractTask, Batch, Split, numbered, require_split


@dataclass(frozen=True, kw_only=True)
class AbstractMemorisedTask(AbstractTask):
    """A fixed set of samples, of which each member may have its own share: the first samples of the set.

    All members use the same draw of a generator, each in its own share, so that a member sees the same samples in a
    population as alone.

    Args:
        seed: of the set; another seed draws another.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        keep_integers(self, TaskError, seed=0)

    @property
    @abstractmethod
    def set_sizes(self) -> int | tuple[int, ...]:
        """How many samples there are to learn, for all members or for each."""

    @property
    def largest_set(self) -> int:
        """How many samples there are in the largest set."""
        return max(self.set_sizes) if isinstance(self.set_sizes, tuple) else self.set_sizes

    @abstractmethod
    def samples(self) -> Choices:
        """All samples, on the CPU, drawn by `seed`. Where shares differ, a smaller set begins a larger one."""

    @abstractmethod
    def encode(self, samples: Choices, rows: Tensor, is_inside: Tensor) -> Batch:
        """Samples as a batch.

        Args:
            samples: what `samples` gives, of the rows taken: [B, ...] or [P, B, ...].
            rows: which rows those are, [B] or [P, B].
            is_inside: whether they are in a member's share, [B] or [P, B].
        """

    def num_sequences(self, split: Split) -> int | None:
        """How many samples there are, in every split."""
        require_split(split)
        return self.largest_set

    def draw(self, num_sequences: int, generator: torch.Generator) -> Batch:
        """Samples drawn with replacement; a set that fits into the batch is taken whole, and the rest is padding."""
        device = generator.device
        uniform = torch.rand(num_sequences, generator=generator, device=device, dtype=torch.float64)
        fits, in_order, is_inside = self._whole_sets(num_sequences, device)
        rows = torch.where(fits, in_order, (uniform * self._sizes(device)).long())
        samples = tuple(sample[rows] for sample in self._all_samples(device))
        return self.encode(samples, rows, is_inside)

    def _whole_sets(self, num_sequences: int, device: torch.device) -> Choices:
        """Which sets fit into a batch, the rows of a batch that holds one, and which of its places are not padding.

        Computed once, which saves eight small operations at every step.
        """
        key = (device, num_sequences)
        if key not in self.kept:
            places, sizes = torch.arange(num_sequences), self._sizes(torch.device("cpu"))
            fits = sizes <= num_sequences
            found = (fits, torch.minimum(places, sizes - 1), (places < sizes) | ~fits)
            self.kept[key] = tuple(each.to(device) for each in found)  # which waits: other streams may read them too
        return self.kept[key]

    def batches(self, split: Split, batch_size: int, *, device: torch.device | str = "cpu") -> Iterator[Batch]:
        """The set in order; samples beyond a member's share have weight 0."""
        batch_size = as_integer(batch_size, "batch_size", TaskError, 1)
        require_split(split)
        on = numbered(device)
        return (self._slice(start, batch_size, on) for start in range(0, self.largest_set, batch_size))

    def _slice(self, start: int, batch_size: int, device: torch.device) -> Batch:
        rows = torch.arange(start, min(start + batch_size, self.largest_set), device=device)
        samples = tuple(sample[rows] for sample in self._all_samples(device))
        return self.encode(samples, rows, rows < self._sizes(device))

    def _sizes(self, device: torch.device) -> Tensor:
        """[P, 1], or [1] where all members have the same."""
        if isinstance(self.set_sizes, tuple):
            return constants(self.set_sizes, torch.int64, device)[:, None]
        return constants((self.set_sizes,), torch.int64, device)

    def _all_samples(self, device: torch.device) -> Choices:
        if device not in self.kept:
            self.kept[device] = tuple(sample.to(device) for sample in self.samples())
        return self.kept[device]
