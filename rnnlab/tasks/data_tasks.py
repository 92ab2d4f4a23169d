"""Tasks whose sequences are read from verified files: read once, kept on the device, gathered there."""

import struct
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from rnnlab.errors import RnnlabError, TaskError
from rnnlab.tasks.data_baselines import BASELINES
from rnnlab.tasks.data_catalogue import DataSet, named_data_set
from rnnlab.tasks.losses import cross_entropy, totals
from rnnlab.tasks.task import AbstractTask, Score, Split, Tally, numbered

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class AbstractDataTask(AbstractTask):
    """A task on the files of a data set.

    Args:
        data: the name of the data set; one of your own (`register_data_set`) may replace it if its files have the same
            format.
    """

    data: str

    def __post_init__(self) -> None:
        named_data_set(self.data)

    @property
    def data_set(self) -> DataSet:
        """The data set of that name."""
        return named_data_set(self.data)

    @abstractmethod
    def read(self, data_set: DataSet) -> Mapping[Split, Tensors]:
        """All splits as tensors on the CPU, from verified files; as small integers where possible."""

    @abstractmethod
    def measure_chance(self) -> dict[str, float]:
        """What the best constant answer reaches, by score: fitted on the training split, measured on the test split."""

    def tensors(self, split: Split, device: torch.device | str) -> Tensors:
        """What `read` returns for a split, on a device; files are read when first needed."""
        # keyed by the data set, hence by its checksums: another set of the same name is never taken for it
        key = self.data_set, numbered(device)
        if key not in self.kept:
            # equal tasks share what was read; a copy, so that the cache does not hold what this task keeps on a GPU
            splits = _read(replace(self), self.data_set)
            self.kept[key] = {name: tuple(tensor.to(device) for tensor in found) for name, found in splits.items()}
        return self.kept[key][split]

    @cached_property
    def chance(self) -> Mapping[str, float]:
        """What `measure_chance` returns; for default arguments it is known even without the files."""
        return BASELINES[self.name] if self._is_default() else self.measure_chance()

    def _is_default(self) -> bool:
        return all(getattr(self, field.name) == field.default for field in fields(self))


@lru_cache(maxsize=8)
def _read(task: AbstractDataTask, data_set: DataSet) -> Mapping[Split, Tensors]:
    try:
        return task.read(data_set)
    except RnnlabError:
        raise
    except (LookupError, ValueError, struct.error) as error:
        raise TaskError(f"{task.name} cannot read the files of {data_set.name}: they have another form") from error


def frequencies(classes: Tensor, num_classes: int) -> Tensor:
    """The probability of each class by its count plus one, so that nothing is impossible; in float64.

    >>> frequencies(torch.tensor([0, 1, 1]), 3)
    tensor([0.3333, 0.5000, 0.1667], dtype=torch.float64)
    """
    counts = torch.bincount(classes, minlength=num_classes).double() + 1
    return counts / counts.sum()


def surprise(classes: Tensor, probabilities: Tensor) -> float:
    """The mean cross entropy of fixed probabilities and classes, in nats.

    >>> surprise(torch.tensor([0, 1]), torch.tensor([0.5, 0.5], dtype=torch.float64))
    0.6931471805599453
    """
    counts = torch.bincount(classes, minlength=len(probabilities)).double()
    return float(-(counts * probabilities.log()).sum() / counts.sum())


def label_scores(chance: Mapping[str, float], *, labels: str) -> tuple[Score, ...]:
    """The share of `labels` that are right, and their cross entropy, with their chance levels."""
    return (
        Score(
            name="accuracy",
            unit="",
            better="higher",
            chance=chance["accuracy"],
            baseline=f"always the most frequent of {labels}",
            best=1.0,
        ),
        Score(
            name="cross_entropy",
            unit="nats",
            better="lower",
            chance=chance["cross_entropy"],
            baseline=f"how often each occurs among {labels}",
            best=0.0,
        ),
    )


def label_tally(logits: Tensor, labels: Tensor) -> Tally:
    """Which labels [..., B] are right, and their cross entropies, of logits [..., B, K]."""
    return Tally.of(accuracy=totals(logits.argmax(-1) == labels), cross_entropy=totals(cross_entropy(logits, labels)))


def label_chance(training: Tensor, test: Tensor, num_labels: int) -> dict[str, float]:
    """What the commonest training label, or the frequencies of all, score on the test labels.

    >>> label_chance(torch.tensor([0, 1, 1]), torch.tensor([0, 1]), 2)["accuracy"]
    0.5
    """
    likely = frequencies(training, num_labels)
    right = (test == likely.argmax()).double().mean()
    return {"accuracy": float(right), "cross_entropy": surprise(test, likely)}
