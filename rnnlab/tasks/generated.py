"""Tasks whose sequences are made, not read: fresh ones for training, fixed sets to compare networks on."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rnnlab.errors import TaskError
from rnnlab.integers import as_integer, keep_integers
from rnnlab.tasks.task import MOST, SPLITS, AbstractTask, Batch, Split, numbered, require_split

Choices = tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class AbstractGeneratedTask(AbstractTask):
    """A task that draws its sequences in two steps: what is random (`choose`), and what follows from it (`encode`).

    Choices are small, so fixed sets are drawn on the CPU, are the same on every machine, and become sequences on the
    device of the model.

    Args:
        num_training: how many fixed sequences training batches are drawn from; None draws fresh ones without end.
        num_evaluation: how many sequences validation and test each have.
        seed: of the fixed sets; another seed draws others.
    """

    num_training: int | None = None
    num_evaluation: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        keep_integers(self, TaskError, num_evaluation=1, seed=0)
        if self.num_training is not None:
            keep_integers(self, TaskError, num_training=1)

    @abstractmethod
    def choose(self, num_sequences: int, generator: torch.Generator) -> Choices:
        """Everything random about `num_sequences` sequences, on the generator's device; the first axis is theirs."""

    @abstractmethod
    def encode(self, choices: Choices) -> Batch:
        """The sequences that follow from `choices`, on their device; nothing is random here."""

    def num_sequences(self, split: Split) -> int | None:
        """How many sequences a split has; None if training draws new ones without end."""
        return self.num_training if require_split(split) == "train" else self.num_evaluation

    def draw(self, num_sequences: int, generator: torch.Generator) -> Batch:
        """Fresh sequences, or some of the fixed training set, drawn with replacement."""
        return self.encode(self._drawn(num_sequences, [generator]))

    def draw_each(self, num_sequences: int, generators: Sequence[torch.Generator]) -> Batch:
        """The same for each generator, encoded together: small batches of several take as long as that of one."""
        return self.encode(self._drawn(num_sequences, generators)).with_members(len(generators))

    def _drawn(self, num_sequences: int, generators: Sequence[torch.Generator]) -> Choices:
        """Choices of all generators, one after another."""
        if self.num_training is None:
            each = [self.choose(num_sequences, generator) for generator in generators]
            return tuple(torch.cat(parts) for parts in zip(*each, strict=True))
        device, most = generators[0].device, self.num_training
        rows = torch.cat([torch.randint(most, (num_sequences,), generator=each, device=device) for each in generators])
        return tuple(choice[rows] for choice in self._fixed_choices("train", device))

    def batches(self, split: Split, batch_size: int, *, device: torch.device | str = "cpu") -> Iterator[Batch]:
        """One pass over a fixed set; if training draws without end, `train` is a fixed set of `num_evaluation` here."""
        batch_size = as_integer(batch_size, "batch_size", TaskError, 1)
        choices = self._fixed_choices(require_split(split), numbered(device))
        starts = range(0, len(choices[0]), batch_size)
        return (self.encode(tuple(choice[start : start + batch_size] for choice in choices)) for start in starts)

    def _fixed_choices(self, split: Split, device: torch.device) -> Choices:
        """All choices of a fixed set, drawn at once: they depend neither on the size of batches nor on the device."""
        if (split, device) not in self.kept:
            generator = torch.Generator().manual_seed((len(SPLITS) * self.seed + SPLITS.index(split)) % (MOST + 1))
            choices = self.choose(self.num_sequences(split) or self.num_evaluation, generator)
            self.kept[split, device] = tuple(choice.to(device) for choice in choices)
        return self.kept[split, device]
