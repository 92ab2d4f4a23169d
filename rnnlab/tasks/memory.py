"""Memory capacity (C52-C55): see a vector once, and output it some steps later."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rnnlab.errors import TaskError
from rnnlab.integers import keep_integers
from rnnlab.tasks.example import Example, Grid, first_sequence
from rnnlab.tasks.generated import AbstractGeneratedTask, Choices
from rnnlab.tasks.losses import last_squared_error, mean, totals
from rnnlab.tasks.presentation import present
from rnnlab.tasks.task import Batch, Score, Tally


@dataclass(frozen=True, kw_only=True)
class Memory(AbstractGeneratedTask):
    """Output a vector that was shown at the first step (C52).

    Its 64 numbers are uniform on [-√3, √3), so of variance 1. The loss is the squared error of the output at the
    twelfth step, averaged over the numbers.

    Args:
        num_inputs: how many numbers the vector has.
        length: how many steps there are, the one that shows it included.

    >>> Memory().expected_error(48), Memory().expected_error(64)
    (0.25, 0.0)
    """

    name: ClassVar[str] = "memory"
    batch_size: ClassVar[int] = 64
    only_last: ClassVar[bool] = True

    num_inputs: int = 64
    length: int = 12

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_integers(self, TaskError, num_inputs=1, length=1)

    @property
    def input_size(self) -> int:
        """As many as there are numbers."""
        return self.num_inputs

    @property
    def output_size(self) -> int:
        """As many as there are numbers."""
        return self.num_inputs

    @property
    def num_steps(self) -> int:
        """12 in the paper."""
        return self.length

    @property
    def scores(self) -> tuple[Score, ...]:
        """The mean squared error of a number, whose variance is 1."""
        return (Score(name="mse", unit="", better="lower", chance=1.0, baseline="predict 0", best=0.0),)

    def expected_error(self, num_units: int) -> float:
        """The error of a network that keeps as many directions of the vector as it has units (C54, C55)."""
        return max(0.0, 1 - num_units / self.num_inputs)

    def choose(self, num_sequences: int, generator: torch.Generator) -> Choices:
        """The vectors, [B, N]."""
        unit = torch.rand(num_sequences, self.num_inputs, generator=generator, device=generator.device)
        return ((2 * unit - 1) * 3**0.5,)

    def encode(self, choices: Choices) -> Batch:
        """The vector, then zeros; the vector again."""
        (vectors,) = choices
        return Batch(inputs=present(vectors, self.length, once=True), targets=vectors)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The squared error at the last step."""
        return mean(last_squared_error(outputs, batch.targets))

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        """The squared errors."""
        return Tally.of(mse=totals(last_squared_error(outputs, batch.targets)))

    def example(self, batch: Batch) -> Example:
        """The inputs over time."""
        rows = (Grid("inputs", first_sequence(batch.inputs, 2).T),)
        return Example(str(self), rows, f"the {self.num_inputs} numbers of step 1 once more, at step {self.length}")
