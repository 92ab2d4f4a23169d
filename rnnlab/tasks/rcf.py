"""Random continuous functions (C56, C57): learn random numbers of random vectors by heart, some more than others."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rnnlab.errors import TaskError
from rnnlab.integers import keep_integers
from rnnlab.tasks.example import Example, Grid, first_sequence
from rnnlab.tasks.generated import Choices
from rnnlab.tasks.losses import last_squared_error, totals
from rnnlab.tasks.memorised import AbstractMemorisedTask
from rnnlab.tasks.presentation import present
from rnnlab.tasks.task import Batch, Score, Tally


@dataclass(frozen=True, kw_only=True)
class RandomFunction(AbstractMemorisedTask):
    """Learn N random numbers by heart, where number i matters by β_i = (i + τ)^-1 / Z, with Σ β = 1 (C56, C57).

    Vectors are Gaussian, scaled to length 1 (the paper: "unit norm Gaussian"), numbers are Gaussian of variance 1, and
    i runs from 1 to N. The loss is the squared error at the last step, weighted by β. A batch is drawn uniformly, and
    its mean of N β_i (ŷ_i - y_i)² estimates the sum over all.

    Args:
        num_samples: N.
        num_inputs: d, how many numbers a vector has.
        tau: τ, the number of the sample from which the weights fall off.
        length: how many steps; 50 in the paper.
        input_once: whether the vector is shown at the first step only, in place of every step; left open.

    >>> task = RandomFunction(num_samples=4, tau=1, num_inputs=3)
    >>> (60 * task.weights(torch.arange(4))).round(decimals=3)  # 1/2, 1/3, 1/4, 1/5, divided by their sum 77/60
    tensor([23.3770, 15.5840, 11.6880,  9.3510], dtype=torch.float64)
    """

    name: ClassVar[str] = "rcf"
    batch_size: ClassVar[int] = 256
    only_last: ClassVar[bool] = True

    num_samples: int = 1_000_000
    num_inputs: int = 50
    tau: int = 5000
    length: int = 50
    input_once: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_integers(self, TaskError, num_samples=1, num_inputs=1, length=1, tau=0)
        if not isinstance(self.input_once, bool):
            raise TaskError(f"input_once is true or false, got {self.input_once!r}")

    @property
    def input_size(self) -> int:
        """d."""
        return self.num_inputs

    @property
    def output_size(self) -> int:
        """One number."""
        return 1

    @property
    def num_steps(self) -> int:
        """50 in the paper."""
        return self.length

    @property
    def set_sizes(self) -> int | tuple[int, ...]:
        """N, for all members."""
        return self.num_samples

    @property
    def scores(self) -> tuple[Score, ...]:
        """The weighted squared error of numbers of variance 1."""
        return (Score(name="weighted_mse", unit="", better="lower", chance=1.0, baseline="predict 0", best=0.0),)

    @cached_property
    def normaliser(self) -> float:
        """Z = Σ 1 / (i + τ) over i from 1 to N."""
        return float(np.sum(1 / (np.arange(1, self.num_samples + 1, dtype=np.float64) + self.tau)))

    def weights(self, rows: Tensor) -> Tensor:
        """β of samples, the first of which is row 0."""
        return 1 / ((rows + 1 + self.tau).to(torch.float64) * self.normaliser)

    def samples(self) -> Choices:
        """Vectors [N, d] of length 1 and numbers [N, 1]."""
        generator = torch.Generator().manual_seed(self.seed)
        vectors = torch.randn(self.num_samples, self.num_inputs, generator=generator)
        numbers = torch.randn(self.num_samples, 1, generator=generator)
        return vectors / vectors.norm(dim=-1, keepdim=True), numbers

    def encode(self, samples: Choices, rows: Tensor, is_inside: Tensor) -> Batch:
        """The vectors over time, the numbers, and the weights N β."""
        vectors, numbers = samples
        inputs = present(vectors, self.length, once=self.input_once)
        weights = self.num_samples * self.weights(rows) * is_inside
        return Batch(inputs=inputs, targets=numbers, weights=weights.to(vectors.dtype))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The mean of N β times the squared error: on average over batches, Σ β times the squared error."""
        assert batch.weights is not None
        weighted = last_squared_error(outputs, batch.targets) * batch.weights
        return weighted.sum(-1) / (batch.weights > 0).sum(-1)

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        """The weighted squared errors."""
        return Tally.of(weighted_mse=totals(last_squared_error(outputs, batch.targets), batch.weights))

    def example(self, batch: Batch) -> Example:
        """The vector over time, the number that is wanted, and how much it matters."""
        assert batch.weights is not None
        number, weight = first_sequence(batch.targets, 1)[0], first_sequence(batch.weights, 0)
        rows = (Grid("vector", first_sequence(batch.inputs, 2).T),)
        answer = f"{number:.3f}, at step {self.length}; it counts {weight:.3g} times as much as the average sample"
        return Example(str(self), rows, answer)
