"""Perceptron capacity (C39-C45): how many random labels a network can learn by heart, in bits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from rnnlab.errors import TaskError
from rnnlab.integers import keep_integers
from rnnlab.tasks.example import Example, Grid, first_sequence
from rnnlab.tasks.generated import Choices
from rnnlab.tasks.losses import binary_cross_entropy, last_step, mean, totals
from rnnlab.tasks.memorised import AbstractMemorisedTask
from rnnlab.tasks.presentation import present
from rnnlab.tasks.task import MOST, Batch, Score, Tally, keep_integers_of_members


@dataclass(frozen=True, kw_only=True)
class Capacity(AbstractMemorisedTask):
    """Learn random binary labels of random binary vectors by heart (C39-C44).

    The loss is the cross entropy of one sigmoid output at the last step. The score is the mutual information of labels
    and predictions, b + b (p log2 p + (1 - p) log2 (1 - p)) for b samples of which the share p is right (C41). A p
    below ½ counts as ½, so that being wrong earns nothing.

    A batch as large as a member's set or larger holds the whole set; a smaller one is drawn from it.

    Args:
        num_samples: b, for all members or one for each.
        num_inputs: how many bits a vector has; the paper does not say. If b squared is above 2**num_inputs, some
            vectors are expected twice, with both labels, and the best score is not known.
        length: the number of steps; 5 in the paper.
        input_once: whether the vector is shown at the first step only, instead of at every step; for all members or one
            for each.

    >>> task = Capacity(num_samples=(3, 5), num_inputs=4)
    >>> batch = task.sample(6, generator=torch.Generator().manual_seed(0))
    >>> batch.inputs.shape, batch.weights.long().tolist()
    (torch.Size([2, 6, 5, 4]), [[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 0]])
    """

    name: ClassVar[str] = "capacity"
    batch_size: ClassVar[int] = 1000
    only_last: ClassVar[bool] = True

    num_samples: int | tuple[int, ...] = 1000
    num_inputs: int = 32
    length: int = 5
    input_once: bool | tuple[bool, ...] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_integers(self, TaskError, num_inputs=1, length=1)
        keep_integers_of_members(self, num_samples=1)
        if not all(isinstance(once, bool) for once in _listed(self.input_once)):
            raise TaskError(f"input_once is true or false, for all members or each, got {self.input_once!r}")
        per_member = {len(value) for value in (self.num_samples, self.input_once) if isinstance(value, tuple)}
        if 0 in per_member:
            raise TaskError("num_samples and input_once have one value, or one for each member; got none")
        if len(per_member) > 1:
            raise TaskError(
                f"num_samples and input_once are for different numbers of members: {self.num_samples!r} and "
                f"{self.input_once!r}"
            )

    @property
    def input_size(self) -> int:
        """The bits of a vector."""
        return self.num_inputs

    @property
    def output_size(self) -> int:
        """One, of which a sigmoid is taken."""
        return 1

    @property
    def num_steps(self) -> int:
        """5 in the paper."""
        return self.length

    @property
    def population(self) -> int | None:
        """The number of members, if arguments differ between members."""
        lengths = [len(value) for value in (self.num_samples, self.input_once) if isinstance(value, tuple)]
        return lengths[0] if lengths else None

    def select_members(self, members: Sequence[int]) -> Self:
        """The same task for some of its members."""
        chosen: dict[str, Any] = {
            name: tuple(value[member] for member in members)
            for name, value in (("num_samples", self.num_samples), ("input_once", self.input_once))
            if isinstance(value, tuple)
        }
        return replace(self, **chosen) if chosen else self

    @property
    def set_sizes(self) -> int | tuple[int, ...]:
        """b, for all members or for each."""
        return self.num_samples

    @property
    def scores(self) -> tuple[Score, ...]:
        """Mutual information, of at most b bits, with accuracy and cross entropy."""
        sizes = self.num_samples
        most = tuple(map(float, sizes)) if isinstance(sizes, tuple) else float(sizes)
        tosses = "toss a coin"  # its luck is worth less than a bit, so chance is given as 0
        are_distinct = self.largest_set**2 <= 2**self.num_inputs
        bits, right, nats = (most, 1.0, 0.0) if are_distinct else (None, None, None)
        return (
            Score(name="mutual_information", unit="bits", better="higher", chance=0.0, baseline=tosses, best=bits),
            Score(name="accuracy", unit="", better="higher", chance=0.5, baseline=tosses, best=right),
            Score(
                name="cross_entropy",
                unit="nats",
                better="lower",
                chance=math.log(2),
                baseline="predict 1/2",
                best=nats,
            ),
        )

    def samples(self) -> Choices:
        """Vectors [b, N] and labels [b], for the largest set; each from its own generator, one number after another."""
        size = self.largest_set
        vectors, labels = (torch.Generator().manual_seed((2 * self.seed + part) % (MOST + 1)) for part in range(2))
        return (
            torch.randint(2, (size, self.num_inputs), generator=vectors, dtype=torch.uint8),
            torch.randint(2, (size,), generator=labels, dtype=torch.uint8),
        )

    def encode(self, samples: Choices, rows: Tensor, is_inside: Tensor) -> Batch:
        """The vectors over time, the labels, and weights of 0 where a member has no such sample."""
        vectors, labels = samples
        inputs = present(vectors, self.length, once=self.input_once)
        return Batch(inputs=inputs, targets=labels.to(torch.float32), weights=is_inside)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The cross entropy at the last step."""
        return mean(binary_cross_entropy(last_step(outputs)[..., 0], batch.targets), batch.weights)

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        """Which labels are right, and the cross entropies."""
        logits = last_step(outputs)[..., 0]
        return Tally.of(
            accuracy=totals((logits > 0) == (batch.targets > 0), batch.weights),
            cross_entropy=totals(binary_cross_entropy(logits, batch.targets), batch.weights),
        )

    def finish(self, tally: Tally) -> dict[str, Tensor]:
        """Mutual information needs the whole set: it is not a mean over batches."""
        means = {name: tally.sums[name] / tally.counts[name] for name in ("accuracy", "cross_entropy")}
        return {"mutual_information": mutual_information(means["accuracy"], tally.counts["accuracy"])} | means

    def example(self, batch: Batch) -> Example:
        """The bits over time, and the label."""
        label = int(first_sequence(batch.targets, 1)[0])
        rows = (Grid("bits", first_sequence(batch.inputs, 2).T),)
        return Example(str(self), rows, f"label {label}, at step {self.length}")


def mutual_information(accuracy: Tensor, num_samples: Tensor) -> Tensor:
    """The bits that predictions hold about random binary labels (C41, equation 22), at least 0.

    >>> mutual_information(torch.tensor([1.0, 0.5, 0.2]), torch.tensor(100.0)).tolist()
    [100.0, 0.0, 0.0]
    """
    right = accuracy.clamp(min=0.5)
    nats = torch.xlogy(right, right) + torch.xlogy(1 - right, 1 - right)
    return num_samples * (1 + nats / math.log(2))


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
