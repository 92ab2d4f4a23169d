"""Tasks whose sequences are read from verified files: read once, kept on the device, gathered there."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache

import torch
from torch import Tensor

from rnnlab.tasks.data_baselines import BASELINES
from rnnlab.tasks.data_catalogue import DataSet, named_data_set
from rnnlab.tasks.task import AbstractTask, Split

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class AbstractDataTask(AbstractTask):
    """A task on the files of a data set.

    Args:
        data: the name of the data set; one of one's own (`register_data_set`) may stand in if its files have the same
            form.
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
        """All splits as tensors on the CPU, from verified files; small integers where they will do."""

    @abstractmethod
    def measure_chance(self) -> dict[str, float]:
        """What the best constant answer reaches, by score: fitted on the training split, measured on the test split."""

    def tensors(self, split: Split, device: torch.device | str) -> Tensors:
        """What `read` gives for a split, on a device; files are read when first asked for."""
        return _tensors(self, self.data_set, _numbered(device))[split]

    @property
    def chance(self) -> Mapping[str, float]:
        """What `measure_chance` gives; with default arguments known also to those who lack the files."""
        return BASELINES[self.name] if self._is_default() else _measured_chance(self, self.data_set)

    def _is_default(self) -> bool:
        return all(getattr(self, field.name) == field.default for field in fields(self))


def _numbered(device: torch.device | str) -> torch.device:
    """A GPU with its number: which one is meant without it changes from moment to moment."""
    return torch.empty(0, device=device).device


# keyed by the data set itself too, hence by checksums: another set of the same name is never taken for it
@lru_cache(maxsize=8)
def _tensors(task: AbstractDataTask, data_set: DataSet, device: torch.device) -> Mapping[Split, Tensors]:
    if device.type == "cpu":
        return task.read(data_set)
    splits = _tensors(task, data_set, torch.device("cpu"))
    return {split: tuple(tensor.to(device) for tensor in tensors) for split, tensors in splits.items()}


@lru_cache(maxsize=8)
def _measured_chance(task: AbstractDataTask, data_set: DataSet) -> Mapping[str, float]:
    return task.measure_chance()


def frequencies(classes: Tensor, num_classes: int) -> Tensor:
    """How probable each class is by its count, every count one larger so that nothing is impossible; in float64.

    >>> frequencies(torch.tensor([0, 1, 1]), 3)
    tensor([0.3333, 0.5000, 0.1667], dtype=torch.float64)
    """
    counts = torch.bincount(classes, minlength=num_classes).double() + 1
    return counts / counts.sum()


def surprise(classes: Tensor, probabilities: Tensor) -> float:
    """How surprised fixed probabilities are by classes on average, in nats.

    >>> surprise(torch.tensor([0, 1]), torch.tensor([0.5, 0.5], dtype=torch.float64))
    0.6931471805599453
    """
    counts = torch.bincount(classes, minlength=len(probabilities)).double()
    return float(-(counts * probabilities.log()).sum() / counts.sum())
