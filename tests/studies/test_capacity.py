"""Mutual information and capacity against closed forms (C41-C47, C-b)."""

import math
from dataclasses import replace

import pytest
import torch

from rnnlab import RnnlabError
from rnnlab.studies.capacity import Stored, mean_bits_per_parameter, multipliers, stored_bits
from rnnlab.studies.records import ArmRecord
from rnnlab.tasks.capacity import mutual_information
from tests.report.made_records import demo_record, record, spec


def bits(share: float, num_samples: int) -> float:
    return mutual_information(torch.tensor(share, dtype=torch.float64), torch.tensor(float(num_samples))).item()


@pytest.mark.parametrize("share", [0.5, 0.6, 0.75, 0.9, 0.99])
def test_mutual_information_is_b_times_one_minus_the_entropy(share: float) -> None:
    """Equations 21 and 22: b - b H(p), with the entropy of a coin."""
    entropy = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
    assert bits(share, 400) == pytest.approx(400 * (1 - entropy), abs=1e-9)


def test_mutual_information_at_the_ends_and_its_clamp() -> None:
    """All right: b bits. Chance: none. Below chance: none, since p is clamped to ½ (C-b)."""
    assert bits(1.0, 400) == 400.0
    assert bits(0.5, 400) == 0.0
    assert bits(0.3, 400) == bits(0.0, 400) == 0.0


def capacity_arm(values: list[float | None]) -> ArmRecord:
    made = spec(
        task={"name": "capacity", "num_inputs": 32},
        architectures=["tanh"],
        trials=len(values),
        seeds=None,
        hyperparameters={"num_steps": 10},
    )
    (found,) = record(made, lambda _, number, __: values[number], lambda *_: None).arms
    return found


def test_stored_bits_are_those_of_the_best_trial() -> None:
    found = capacity_arm([120.0, None, 300.0, 210.0])
    stored = stored_bits(found)
    best = found.trials[2]
    assert (stored.bits, stored.num_parameters) == (300.0, best.num_parameters)
    assert stored.num_samples == best.arguments["num_samples"]
    assert stored.num_samples == round(best.point["task.samples_per_parameter"] * best.num_parameters)
    assert stored.bits_per_parameter == 300.0 / best.num_parameters


def test_nothing_is_stored_where_all_trials_diverged() -> None:
    assert stored_bits(capacity_arm([None, None])) is None


def test_other_tasks_store_no_labels() -> None:
    with pytest.raises(RnnlabError, match="adding, which stores no labels"):
        stored_bits(demo_record(trials=2, seeds=None).arms[0])


def test_multipliers_are_ratios_of_means_over_sizes_and_depths() -> None:
    found = {
        "rnn": [Stored(600.0, 700, 100), Stored(400.0, 500, 100)],
        "lstm": [Stored(800.0, 900, 200)],
        "none": [],
    }
    means = mean_bits_per_parameter(found)
    assert means == {"rnn": 5.0, "lstm": 4.0}
    matrix = multipliers(means)
    assert matrix["rnn"]["lstm"] == 1.25  # an LSTM needs that many times the parameters of an RNN
    assert matrix["rnn"]["lstm"] * matrix["lstm"]["rnn"] == pytest.approx(1.0)
    assert [matrix[name][name] for name in matrix] == [1.0, 1.0]


def test_best_trial_of_a_study_with_a_fixed_number_of_labels() -> None:
    found = capacity_arm([120.0])
    fixed = replace(found, trials=tuple(replace(trial, arguments={}) for trial in found.trials))
    assert stored_bits(fixed).num_samples == found.arm.task.num_samples
