"""MNIST pixel by pixel: in the order of reading (Z47), and in one random order for all images (Z48)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rnnlab.errors import TaskError
from rnnlab.integers import as_integer, keep_integers
from rnnlab.tasks.data import contents
from rnnlab.tasks.data_catalogue import DataSet
from rnnlab.tasks.data_formats import idx_array
from rnnlab.tasks.data_tasks import AbstractDataTask, Tensors, label_chance, label_scores, label_tally
from rnnlab.tasks.example import Curve, Example, Grid, Row, first_sequence
from rnnlab.tasks.losses import cross_entropy, last_step, mean
from rnnlab.tasks.task import Batch, Score, Split, Tally, require_split

NUM_CLASSES = 10
SIDE = 28


@dataclass(frozen=True, kw_only=True)
class AbstractMnist(AbstractDataTask):
    """Read an image one pixel a step, and say at the last step which digit it is. A split is (images, labels).

    Args:
        num_validation: how many of the 60,000 training images, the last ones, are for validation; Zhang et al. do not
            say how they divide them.
        data: the data set.
    """

    batch_size: ClassVar[int] = 50
    only_last: ClassVar[bool] = True

    num_validation: int = 10_000
    data: str = "mnist"

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_integers(self, TaskError, num_validation=1)

    @property
    def input_size(self) -> int:
        """One pixel."""
        return 1

    @property
    def output_size(self) -> int:
        """A logit for every digit."""
        return NUM_CLASSES

    @property
    def num_steps(self) -> int:
        """28 × 28."""
        return SIDE * SIDE

    @property
    def scores(self) -> tuple[Score, ...]:
        """The share of digits that are right, and the cross entropy."""
        return label_scores(self.chance, labels="training digits")

    def order(self) -> np.ndarray:
        """The pixel that is shown at each step, counted line by line."""
        return np.arange(SIDE * SIDE)

    def num_sequences(self, split: Split) -> int | None:
        """How many images a split has."""
        return len(self.tensors(require_split(split), "cpu")[1])

    def read(self, data_set: DataSet) -> Mapping[Split, Tensors]:
        """Pixels [images, 784] in the order of the task, and labels, both as bytes."""
        files = {name: idx_array(content) for name, content in contents(data_set).items()}
        images, labels = _in_order(files, "train", self.order())
        num_training = len(labels) - self.num_validation
        if num_training < 1:
            raise TaskError(f"num_validation must be below {len(labels):,}, the number of training images")
        sizes = [num_training, self.num_validation]
        (training, validation), (labels, validation_labels) = images.split(sizes), labels.split(sizes)
        test = _in_order(files, "t10k", self.order())
        return {"train": (training, labels), "validation": (validation, validation_labels), "test": test}

    def draw(self, num_sequences: int, generator: torch.Generator) -> Batch:
        """Random training images, with replacement."""
        images, labels = self.tensors("train", generator.device)
        rows = torch.randint(len(labels), (num_sequences,), generator=generator, device=generator.device)
        return _batch(images[rows], labels[rows])

    def batches(self, split: Split, batch_size: int, *, device: torch.device | str = "cpu") -> Iterator[Batch]:
        """The images of a split in the order of the files."""
        batch_size = as_integer(batch_size, "batch_size", TaskError, 1)
        images, labels = self.tensors(require_split(split), device)
        for some, their_labels in zip(images.split(batch_size), labels.split(batch_size), strict=True):
            yield _batch(some, their_labels)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The cross entropy at the last step."""
        return mean(cross_entropy(last_step(outputs), batch.targets))

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        """Which digits are right, and their cross entropies."""
        return label_tally(last_step(outputs), batch.targets)

    def measure_chance(self) -> dict[str, float]:
        """Always the commonest digit, or the frequencies of all."""
        (_, training), (_, test) = self.tensors("train", "cpu"), self.tensors("test", "cpu")
        return label_chance(training, test, NUM_CLASSES)

    def example(self, batch: Batch) -> Example:
        """The image, and its pixels one after another as the network sees them."""
        pixels = first_sequence(batch.inputs, 2)[:, 0]
        image = np.empty_like(pixels)
        image[self.order()] = pixels
        rows: tuple[Row, ...] = (
            Grid("image", image.reshape(SIDE, SIDE), columns="pixels"),
            Curve("pixels", tuple(map(float, pixels))),
        )
        return Example(str(self), rows, f"{int(first_sequence(batch.targets, 0))}, at the last step")


@dataclass(frozen=True, kw_only=True)
class SequentialMnist(AbstractMnist):
    """Read digits line by line, one pixel a step (Z47).

    >>> task = SequentialMnist()
    >>> task.input_size, task.output_size, task.num_steps
    (1, 10, 784)
    """

    name: ClassVar[str] = "mnist"


@dataclass(frozen=True, kw_only=True)
class PermutedMnist(AbstractMnist):
    """Read the pixels of digits in a random order that is the same for all of them (Z48).

    Args:
        seed: of the order; numpy's legacy generator draws it, whose numbers never change.

    >>> PermutedMnist().order()[:5].tolist()
    [693, 85, 647, 392, 765]
    """

    name: ClassVar[str] = "permuted-mnist"

    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_integers(self, TaskError, seed=0)
        if self.seed >= 2**32:
            raise TaskError(f"seed must be below 2**32, got {self.seed}")

    def order(self) -> np.ndarray:
        """The pixel that is shown at each step, counted line by line."""
        return np.random.RandomState(self.seed).permutation(SIDE * SIDE)


def _in_order(files: Mapping[str, np.ndarray], part: str, order: np.ndarray) -> tuple[Tensor, Tensor]:
    images, labels = files[f"{part}-images-idx3-ubyte"], files[f"{part}-labels-idx1-ubyte"]
    if images.shape != (len(labels), SIDE, SIDE) or labels.max() >= NUM_CLASSES:
        found = f"images of shape {list(images.shape)} and {len(labels):,} labels up to {labels.max()}"
        raise TaskError(f"{part} files have {found}; wanted are {SIDE} × {SIDE} pixels and labels below {NUM_CLASSES}")
    return torch.from_numpy(images.reshape(len(images), -1)[:, order]), torch.from_numpy(labels.copy())


def _batch(pixels: Tensor, labels: Tensor) -> Batch:
    # a product is the same on every device; GPUs round quotients in their own way
    return Batch(inputs=(pixels * (1 / 255))[..., None], targets=labels.long())
