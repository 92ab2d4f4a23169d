"""A small text as a task: one stream, whose state is carried over."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rnnlab import AbstractTask, Batch, Score, Tally
from rnnlab.tasks.losses import cross_entropy, mean, totals
from rnnlab.tasks.task import Encoding, Feed, Split
from rnnlab.tasks.text import stream_batches


@dataclass(frozen=True, kw_only=True)
class Letters(AbstractTask):
    """Predict the next of three letters that come in a fixed order, with a few errors."""

    name: ClassVar[str] = "letters"
    batch_size: ClassVar[int] = 2
    encoding: ClassVar[Encoding] = "tokens"
    feed: ClassVar[Feed] = "stream"

    length: int = 6
    size: int = 61

    @property
    def input_size(self) -> int:
        return 3

    @property
    def output_size(self) -> int:
        return 3

    @property
    def num_steps(self) -> int:
        return self.length

    @property
    def scores(self) -> tuple[Score, ...]:
        return (Score(name="nats", unit="nats", better="lower", chance=math.log(3), baseline="guess"),)

    def num_sequences(self, split: Split) -> int | None:
        return math.ceil((self.size - 1) / self.length)

    def batches(self, split: Split, batch_size: int, *, device: torch.device | str = "cpu") -> Iterator[Batch]:
        text = torch.arange(self.size, device=device) % 3
        text[::7] = {"train": 0, "validation": 1, "test": 2}[split]
        return stream_batches(text, batch_size, self.length)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return mean(cross_entropy(outputs, batch.targets), batch.weights, num_axes=2)

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        return Tally.of(nats=totals(cross_entropy(outputs, batch.targets), batch.weights, num_axes=2))
