"""First-element recall (M7): remember one number from the very first step."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rnnlab.errors import TaskError
from rnnlab.integers import keep_integers
from rnnlab.tasks.example import Example, Grid, first_sequence
from rnnlab.tasks.generated import AbstractGeneratedTask, Choices
from rnnlab.tasks.losses import last_squared_error, mean, totals
from rnnlab.tasks.task import Batch, Score, Tally


@dataclass(frozen=True, kw_only=True)
class Recall(AbstractGeneratedTask):
    """Output the first element of the first input at the end of the sequence (M7).

    Inputs are vectors of six numbers, uniform on [0, 1): the paper gives no distribution, and with positive numbers its
    ReLU networks have an exact solution. 10,000 training sequences of 100 steps; 500 in the paper's special version.

    Args:
        length: how many steps.
        num_inputs: how many numbers each step has.

    >>> batch = Recall(length=5).sample(2, generator=torch.Generator().manual_seed(0))
    >>> bool((batch.targets == batch.inputs[:, 0, :1]).all())
    True
    """

    name: ClassVar[str] = "recall"
    batch_size: ClassVar[int] = 100
    only_last: ClassVar[bool] = True

    length: int = 100
    num_inputs: int = 6
    num_training: int | None = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_integers(self, TaskError, length=1, num_inputs=1)

    @property
    def input_size(self) -> int:
        """The numbers of a step."""
        return self.num_inputs

    @property
    def output_size(self) -> int:
        """One number."""
        return 1

    @property
    def num_steps(self) -> int:
        """100 in the paper."""
        return self.length

    @property
    def scores(self) -> tuple[Score, ...]:
        """The mean squared error; a uniform number has variance 1/12."""
        return (Score(name="mse", unit="", better="lower", chance=1 / 12, baseline="predict 1/2", best=0.0),)

    def choose(self, num_sequences: int, generator: torch.Generator) -> Choices:
        """All inputs, [B, T, N]."""
        size = (num_sequences, self.length, self.num_inputs)
        return (torch.rand(size, generator=generator, device=generator.device),)

    def encode(self, choices: Choices) -> Batch:
        """The inputs, and the first number of all."""
        (inputs,) = choices
        return Batch(inputs=inputs, targets=inputs[:, 0, :1])

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The squared error at the last step."""
        return mean(last_squared_error(outputs, batch.targets))

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        """The squared errors."""
        return Tally.of(mse=totals(last_squared_error(outputs, batch.targets)))

    def example(self, batch: Batch) -> Example:
        """The inputs over time, and the number that is wanted at the end."""
        wanted = first_sequence(batch.targets, 1)[0]
        rows = (Grid("inputs", first_sequence(batch.inputs, 2).T),)
        return Example(str(self), rows, f"{wanted:.3f}, top left, at step {self.length}")
