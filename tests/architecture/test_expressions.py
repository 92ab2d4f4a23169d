"""Recorded formulas: evaluated as ordinary arithmetic, differentiated exactly."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnlab import CELLS, nonlinearity, relu, sigmoid, tanh
from rnnlab.architecture.expressions import evaluate, gradients, in_order, named

FUNCTIONS = {
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "tanh": math.tanh,
    "relu": lambda x: max(x, 0.0),
    "nonlinearity": math.tanh,
    "step": lambda x: float(x > 0),
    "slope": lambda value: 1 - value * value,
}


def value(expression, **inputs: float) -> float:
    return evaluate({"out": expression}, inputs, FUNCTIONS)["out"]


def test_arithmetic_is_recorded_on_either_side_of_a_number() -> None:
    x, y = named("x"), named("y")
    assert value(2 + x * 3 - y, x=5, y=1) == 16
    assert value(1 - (x - 2) * -y, x=5, y=4) == 13
    assert value((x + y) / 4, x=5, y=1) == 1.5
    assert str(1 - sigmoid(x) * y) == "(1 - (sigmoid(x) * y))"


def test_functions_are_the_ones_named() -> None:
    x = named("x")
    assert value(sigmoid(x), x=0.0) == 0.5
    assert value(tanh(x), x=0.3) == math.tanh(0.3)
    assert value(relu(x), x=-2.0) == 0
    assert value(nonlinearity(x), x=0.3) == math.tanh(0.3)


def test_numbers_that_change_nothing_are_left_out() -> None:
    x = named("x")
    assert [str(made) for made in (x + 0, 0 + x, x - 0, 1 * x, x * 1)] == ["x"] * 5


def test_shared_parts_are_computed_once() -> None:
    x = named("x")
    shared = sigmoid(x)
    order = in_order([shared * shared + shared])
    assert [step.operation for step in order] == ["input", "sigmoid", "multiply", "add"]


def test_gradient_of_what_plays_no_part_is_zero() -> None:
    x, y = named("x"), named("y")
    assert str(gradients({"out": x * 2}, {"y": y})["y"]) == "0"


def test_gradients_of_several_outputs_add_up() -> None:
    x = named("x")
    found = gradients({"a": x * 3, "b": x * x}, {"x": x})
    assert evaluate(found, {"x": 5.0, "d a": 1.0, "d b": 10.0}, FUNCTIONS) == {"x": 103.0}


def test_formulas_may_be_longer_than_the_stack_is_deep() -> None:
    x = value = named("x")
    for _ in range(5000):
        value = value + x
    assert evaluate({"y": value}, {"x": 1.0}, FUNCTIONS) == {"y": 5001.0}
    assert evaluate(gradients({"y": value}, {"x": x}), {"x": 1.0, "d y": 2.0}, FUNCTIONS) == {"x": 10002.0}


@pytest.mark.parametrize("name", sorted(CELLS))
@given(data=st.data())
def test_gradients_of_every_cell_are_those_of_small_differences(name: str, data) -> None:
    formulas = CELLS[name].formulas(num_carries=2 if CELLS[name].edge_gates else 1)
    outputs = dict(formulas.new_state) | ({} if formulas.reset is None else {"reset": formulas.reset})
    inputs = {step.name: step for step in in_order(outputs.values()) if step.operation == "input"}
    # away from zero, where relu has a kink
    number = st.floats(0.05, 2.0) | st.floats(-2.0, -0.05)
    at = {key: data.draw(number, label=key) for key in inputs}
    arriving = {f"d {key}": data.draw(number, label=f"d {key}") for key in outputs}
    found = evaluate(gradients(outputs, inputs), at | arriving, FUNCTIONS)

    def scalar(point: dict[str, float]) -> float:
        return sum(arriving[f"d {key}"] * made for key, made in evaluate(outputs, point, FUNCTIONS).items())

    step = 1e-5
    for key in inputs:
        difference = scalar(at | {key: at[key] + step}) - scalar(at | {key: at[key] - step})
        assert found[key] == pytest.approx(difference / (2 * step), rel=1e-6, abs=1e-8)
