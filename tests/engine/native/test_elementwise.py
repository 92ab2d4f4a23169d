"""Kernels of formulas are made once: what tells them apart, and what does not."""

import time

import pytest

from rnnlab import architecture
from rnnlab.architecture.expressions import Expression, named, tanh
from rnnlab.engine.cpu_program import CpuProgram
from rnnlab.engine.native.elementwise import Kernel, compile_kernel
from rnnlab.engine.native.target import host
from rnnlab.engine.nodes import choices
from rnnlab.engine.plan import plan


def kernel(**changes: object) -> Kernel:
    usual = {"outputs": {"y": tanh(named("x")) * 0.0}, "adds": (), "nonlinearity": "tanh", "dtype": "float32"}
    return compile_kernel(**(usual | changes), target=host())  # pyright: ignore[reportArgumentType]


def test_formulas_that_are_written_alike_share_a_kernel() -> None:
    assert kernel() is kernel()


@pytest.mark.parametrize(
    "changes",
    [
        {"outputs": {"z": tanh(named("x")) * 0.0}},
        {"outputs": {"y": tanh(named("z")) * 0.0}},
        {"outputs": {"y": tanh(named("x")) * -0.0}},
        {"outputs": {"y": tanh(named("x")) + 0.5}},
        {"outputs": {"y": Expression("sigmoid", (named("x"),)) * 0.0}},
        {"outputs": {"y": named("x") - named("z")}},
        {"outputs": {"y": named("z") - named("x")}},
        {"outputs": {"y": tanh(named("x")) * 0.0, "z": named("x")}},
        {"adds": ("y",)},
        {"nonlinearity": None},
        {"nonlinearity": "relu"},
        {"dtype": "float64"},
    ],
)
def test_whatever_differs_makes_another(changes: dict[str, object]) -> None:
    assert kernel(**changes) is not kernel()


def test_order_of_differences_tells_kernels_apart() -> None:
    x, z = named("x"), named("z")
    assert kernel(outputs={"y": x - z}) is not kernel(outputs={"y": z - x})


def seconds_of(num_uses: int) -> float:
    """What it takes a processor to write a kernel whose values are each read twice by the next."""
    state = named("x")
    for number in range(num_uses):
        state = state + state * (number + 0.5)
    start = time.process_time()
    kernel(outputs={"y": state})
    return time.process_time() - start


def test_formulas_that_use_values_often_take_linear_time() -> None:
    """Twice the time for each use would be a million times as much."""
    assert seconds_of(24) < 10 * seconds_of(4)


def test_networks_of_one_cell_share_its_kernels() -> None:
    def found(name: str) -> set[int]:
        network = architecture(name, "lstm", input_size=3, output_size=2, units=4)
        program = CpuProgram(plan(network), choices(network, None))
        hidden = [code for code in program.codes.values() if code.key[0].startswith("h")]
        return {id(program.kernels(code, "float32").forward) for code in hidden}

    assert len(found("sh") | found("stack-3")) == 1
