"""The figures of a plan: slots, parameters by group, memory; in words and as JSON."""

import json

import pytest
from hypothesis import given

from rnnlab import Architecture, ModelError, architecture
from rnnlab.engine.costs import GROUPS, costs, parameter_groups, show_bytes
from rnnlab.engine.plan import plan
from tests.engine.strategies import architectures
from tests.engine.test_reference import worked_example_1, worked_example_2

SIZES = {"input_size": 3, "output_size": 2, "units": 4}


def groups(network: Architecture) -> dict[str, int]:
    return {group: count for group, count in parameter_groups(network).items() if count}


def test_parameters_of_worked_example_1_by_group() -> None:
    """One recurrent layer in two phases, each with its matrix."""
    found = groups(worked_example_1())
    assert found == {"input": 48, "recurrent": 64 + 64, "read-out": 8 + 2, "biases": 32, "initial state": 16}


def test_parameters_of_worked_example_2_by_group() -> None:
    """The matrix of a's depth input reads the projection of an input; b's lies between two layers."""
    weights = {"input": 64, "between layers": 64, "recurrent": 64 + 64, "projection": 24, "read-out": 8 + 2}
    assert groups(worked_example_2()) == weights | {"biases": 32, "initial state": 8}


@given(architectures())
def test_groups_divide_the_parameters(network: Architecture) -> None:
    found = parameter_groups(network)
    assert tuple(found) == GROUPS
    assert sum(found.values()) == network.num_parameters()
    assert found["initial state"] == network.num_parameters(["initial state"])
    assert found["read-out"] == network.num_parameters(["read-out weights", "read-out biases"])


def test_costs_read_well() -> None:
    text = str(costs(plan(architecture("st:gru", **SIZES)), batch=2, steps=10))
    assert text.splitlines()[-4:] == [
        "slots       2·T, that is 20 for T = 10",
        "parameters  222: input 36, between layers 48, recurrent 96, read-out 10, biases 24, initial state 8",
        "memory      6.14 kB on the cpu path for a training step of B = 2, T = 10",
        "            values 1.1 kB, value gradients 704 B, gates 1.92 kB, second products 640 B, "
        "parameters and gradients 1.78 kB",
    ]


def test_population_is_named_and_counted() -> None:
    network = architecture("sh", **SIZES)
    one, three = (costs(plan(network), population=population) for population in (1, 3))
    assert f"parameters  {network.num_parameters()} a member, 3 members: input" in str(three)
    assert "of P = 3, B = 32, T = 100" in str(three)
    assert "P =" not in str(one)
    assert three.memory.total == 3 * one.memory.total


def test_costs_of_a_wavefront_are_its_own() -> None:
    found = costs(plan(architecture("stack-4", **SIZES), order="wavefront"), steps=50)
    assert found.num_slots == 53
    assert "slots       T + 3, that is 53 for T = 50" in str(found)


def test_json_holds_all_figures() -> None:
    found = costs(plan(architecture("st:gru", **SIZES)), batch=2, steps=10)
    data = json.loads(json.dumps(found.to_json()))
    assert data["slots_per_step"] == "2"
    assert (data["num_slots"], data["batch"], data["steps"], data["population"]) == (20, 2, 10, 1)
    assert data["parameters"]["total"] == 222
    assert data["parameters"]["recurrent"] == 96
    assert data["memory"]["total"] == sum(size for name, size in data["memory"].items() if name != "total")
    assert data["memory"]["gates"] == 2 * 10 * 2 * 12 * 4
    assert data["order"] == "by component"
    assert len(data["components"]) == 4


@pytest.mark.parametrize("sizes", [{"batch": 0}, {"steps": -1}, {"population": 1.5}, {"steps": True}])
def test_sizes_that_make_no_sense_are_named(sizes: dict) -> None:
    ((name, value),) = sizes.items()
    with pytest.raises(ModelError, match=f"{name} must be an integer of at least 1, got {value!r}"):
        costs(plan(architecture("sh", **SIZES)), **sizes)


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1234, "1.23 kB"), (999_499, "999 kB"), (999_500, "1 MB")],
)
def test_bytes_are_shown_with_three_digits(count: int, shown: str) -> None:
    assert show_bytes(count) == shown
    assert show_bytes(10**18) == "1e+06 TB"
