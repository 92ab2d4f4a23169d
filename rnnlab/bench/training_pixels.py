"""Sequences in the sizes of sequential MNIST, for machines without its files."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rnnlab.tasks.generated import AbstractGeneratedTask, Choices
from rnnlab.tasks.losses import cross_entropy, last_step, mean, totals
from rnnlab.tasks.task import Batch, Score, Tally

NUM_LABELS = 10


@dataclass(frozen=True, kw_only=True)
class RandomPixels(AbstractGeneratedTask):
    """Random pixels with random labels: they cost what digits cost, and cannot be learned.

    >>> batch = RandomPixels().sample(3, generator=torch.Generator().manual_seed(0))
    >>> batch.inputs.shape, batch.targets.shape
    (torch.Size([3, 784, 1]), torch.Size([3]))
    """

    name: ClassVar[str] = "random pixels"
    batch_size: ClassVar[int] = 50

    length: int = 784

    @property
    def input_size(self) -> int:
        """A pixel."""
        return 1

    @property
    def output_size(self) -> int:
        """Ten labels."""
        return NUM_LABELS

    @property
    def num_steps(self) -> int:
        """The pixels of an image."""
        return self.length

    @property
    def scores(self) -> tuple[Score, ...]:
        """The cross entropy."""
        chance = math.log(NUM_LABELS)
        return (Score(name="cross_entropy", unit="nats", better="lower", chance=chance, baseline="all alike"),)

    def choose(self, num_sequences: int, generator: torch.Generator) -> Choices:
        """Pixels as bytes, and labels."""
        size, device = (num_sequences, self.length), generator.device
        pixels = torch.randint(256, size, generator=generator, device=device, dtype=torch.uint8)
        return pixels, torch.randint(NUM_LABELS, (num_sequences,), generator=generator, device=device)

    def encode(self, choices: Choices) -> Batch:
        """Numbers from 0 to 1."""
        pixels, labels = choices
        return Batch(inputs=(pixels * (1 / 255))[..., None], targets=labels)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The cross entropy at the last step."""
        return mean(cross_entropy(last_step(outputs), batch.targets))

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        """The same."""
        return Tally.of(cross_entropy=totals(cross_entropy(last_step(outputs), batch.targets)))
