"""The adding problem (Z45): remember two marked numbers of a long sequence and output their sum."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rnnlab.errors import TaskError
from rnnlab.integers import keep_integers
from rnnlab.tasks.example import Curve, Example, first_sequence
from rnnlab.tasks.generated import AbstractGeneratedTask, Choices
from rnnlab.tasks.losses import last_squared_error, mean, totals
from rnnlab.tasks.task import Batch, Score, Tally


@dataclass(frozen=True, kw_only=True)
class Adding(AbstractGeneratedTask):
    """Add the two marked numbers of a sequence (Z45).

    The first input is uniform on [0, 1), the second is 1 at one step of each half and 0 elsewhere. The loss is the
    squared error of the last output. Zhang et al. take T of 100, 200, 400, 750 and 1000; 100,000 training sequences as
    in the code of Arjovsky et al., whose settings they follow.

    Args:
        length: T, the number of steps.

    >>> batch = Adding(length=6).sample(3, generator=torch.Generator().manual_seed(0))
    >>> batch.inputs.shape, batch.targets.shape
    (torch.Size([3, 6, 2]), torch.Size([3, 1]))
    """

    name: ClassVar[str] = "adding"
    batch_size: ClassVar[int] = 50
    only_last: ClassVar[bool] = True

    length: int = 100
    num_training: int | None = 100_000

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_integers(self, TaskError, length=2)

    @property
    def input_size(self) -> int:
        """A number and a mark."""
        return 2

    @property
    def output_size(self) -> int:
        """The sum."""
        return 1

    @property
    def num_steps(self) -> int:
        """T."""
        return self.length

    @property
    def scores(self) -> tuple[Score, ...]:
        """The mean squared error; of two uniform numbers the sum has variance 1/6."""
        return (Score(name="mse", unit="", better="lower", chance=1 / 6, baseline="predict 1", best=0.0),)

    def choose(self, num_sequences: int, generator: torch.Generator) -> Choices:
        """The numbers [B, T], the marked step of the first half [B] and that of the second."""
        device, half = generator.device, self.length // 2
        numbers = torch.rand(num_sequences, self.length, generator=generator, device=device)
        first = torch.randint(half, (num_sequences,), generator=generator, device=device)
        second = torch.randint(half, self.length, (num_sequences,), generator=generator, device=device)
        return numbers, first, second

    def encode(self, choices: Choices) -> Batch:
        """Numbers beside marks, and the sum of the marked numbers."""
        numbers, first, second = choices
        steps = torch.arange(self.length, device=numbers.device)
        marks = (steps == first[:, None]) | (steps == second[:, None])
        inputs = torch.stack((numbers, marks.to(numbers.dtype)), dim=-1)
        return Batch(inputs=inputs, targets=(numbers * marks).sum(-1, keepdim=True))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The squared error at the last step."""
        return mean(last_squared_error(outputs, batch.targets))

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        """The squared errors."""
        return Tally.of(mse=totals(last_squared_error(outputs, batch.targets)))

    def example(self, batch: Batch) -> Example:
        """The numbers with the marked ones, and the sum."""
        numbers, marks = first_sequence(batch.inputs, 2).T
        marked = frozenset(step for step, mark in enumerate(marks) if mark)
        terms = " + ".join(f"{numbers[step]:.3f}" for step in sorted(marked))
        rows = (Curve("number", tuple(map(float, numbers)), marked), Curve("mark", tuple(map(float, marks)), marked))
        return Example(str(self), rows, f"{terms} = {first_sequence(batch.targets, 1)[0]:.3f}, at the last step")
