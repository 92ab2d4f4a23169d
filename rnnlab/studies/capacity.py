"""Capacity in bits (C41-C47): what networks of a study have stored of random labels, and what a parameter is worth.

The tuner maximises the mutual information of labels and predictions over all hyperparameters, the number of labels
among them (`rnnlab.tasks.capacity`; a share of right labels below ½ counts as ½). What an arm can store is the most
that any of its trials has stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rnnlab.errors import TuningError

if TYPE_CHECKING:
    from rnnlab.studies.records import ArmRecord

SCORE = "mutual_information"


@dataclass(frozen=True)
class Stored:
    """The most that an arm has stored.

    Args:
        bits: the mutual information of its best trial.
        num_samples: b, how many labels that trial was given (C42: only a little more than the bits).
        num_parameters: of the network.
    """

    bits: float
    num_samples: int
    num_parameters: int

    @property
    def bits_per_parameter(self) -> float:
        """C43."""
        return self.bits / self.num_parameters

    @property
    def labels_per_bit(self) -> float:
        """C42."""
        return self.num_samples / self.bits


def stored_bits(record: "ArmRecord") -> Stored | None:
    """What an arm of a capacity study has stored; None where no trial is complete.

    Raises:
        TuningError: the arm is of another task.
    """
    if record.arm.score.name != SCORE:
        raise TuningError(f"arm {record.arm.name} is trained on {record.arm.task.name}, which stores no labels")
    best = record.best
    if best is None or best.value is None:
        return None
    num_samples = best.arguments.get("num_samples", getattr(record.arm.task, "num_samples", None))
    return Stored(best.value, num_samples, best.num_parameters)


def of_relu(record: "ArmRecord") -> "ArmRecord":
    """An arm with those trials alone that had a ReLU (C48): of an IRNN all of them."""
    if record.labels.get("cell") == "irnn":
        return record
    return replace(record, trials=tuple(each for each in record.trials if each.hyperparameters.nonlinearity == "relu"))


def mean_bits_per_parameter(found: Mapping[str, Sequence[Stored]]) -> dict[str, float]:
    """The mean over sizes and depths of what a parameter stores, for each architecture (C47).

    >>> mean_bits_per_parameter({"rnn": [Stored(500.0, 520, 100), Stored(900.0, 1000, 200)]})
    {'rnn': 4.75}
    """
    return {
        name: sum(each.bits_per_parameter for each in stored) / len(stored) for name, stored in found.items() if stored
    }


def multipliers(means: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """How many times the parameters of the row's architecture the column's needs to store as much (C47, figure 1i).

    >>> multipliers({"rnn": 5.0, "lstm": 4.0})
    {'rnn': {'rnn': 1.0, 'lstm': 1.25}, 'lstm': {'rnn': 0.8, 'lstm': 1.0}}
    """
    return {row: {column: means[row] / means[column] for column in means} for row in means}
