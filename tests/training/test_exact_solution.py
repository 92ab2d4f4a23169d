"""Mongia's networks with skips can solve first-element recall exactly, with two units (M9)."""

import pytest
import torch

from rnnlab import Model, architecture, evaluate, task

# holds back a carrier for every number that is no less than its inverse
STRONG = 1e8


def two_units(name: str) -> Model:
    """Unit 0 carries the first input until the store, unit 1, holds something; the skip keeps the store."""
    model = Model(
        architecture(name, "relu", input_size=6, output_size=1, units=2, initial="zero"), generator=torch.Generator()
    )
    with torch.no_grad():
        for array in model.arrays.values():
            array.zero_()
        model.arrays["Wx"][0, 0, 0] = 1.0
        model.arrays["Wo"][0, 1, 0] = 1.0
        model.arrays["W1"][0, 1, 0] = -STRONG  # into odd steps: the store silences the carrier
        model.arrays["W2" if "W2" in model.arrays else "W1"][0, 0, 1] = 1.0  # into even steps: the carrier is stored
    return model


@pytest.mark.parametrize("name", ["mongia-c", "mongia-d"])
@pytest.mark.parametrize("length", [2, 100, 500])
def test_two_units_recall_the_first_number_without_error(name: str, length: int) -> None:
    problem = task("recall", length=length, num_evaluation=300)
    assert evaluate(two_units(name), problem, "test", 100)["mse"] == [0.0]


def test_without_the_skip_the_same_numbers_forget() -> None:
    problem = task("recall", length=100, num_evaluation=300)
    model = two_units("mongia-d")
    bare = Model(
        architecture("mongia-b", "relu", input_size=6, output_size=1, units=2, initial="zero"),
        generator=torch.Generator(),
    )
    with torch.no_grad():
        for name, array in bare.arrays.items():
            array.copy_(model.arrays[name])
    assert evaluate(bare, problem, "test", 100)["mse"][0] > 0.01
