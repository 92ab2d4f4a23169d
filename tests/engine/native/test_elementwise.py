"""Kernels of formulas are made once: what tells them apart, and what does not."""

import ctypes
import time

import numpy as np
import pytest

from rnnlab import architecture
from rnnlab.architecture.expressions import Expression, named, tanh
from rnnlab.engine.cpu_program import CpuProgram
from rnnlab.engine.native.elementwise import Kernel, compile_kernel
from rnnlab.engine.native.runtime import address
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


@pytest.mark.parametrize("width", [1, 3, 5, 16, 19, 37])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 5, 9, 13])
def test_every_number_of_the_rows_is_computed_once_and_nothing_beside_them(width: int, rows: int) -> None:
    """Rows lie side by side, so that vectors of one reach into the next; and they come in an order of their own."""
    first, after = 2, 3
    x = np.arange((first + rows + after) * width, dtype=np.float32).reshape(-1, width)
    y = x + 1000
    expected = y.copy()
    expected[first : first + rows] += 2 * x[first : first + rows]
    adding = kernel(outputs={"y": named("x") * 2.0}, adds=("y",))
    strides = {"x": (address(x), 0, 0, 4 * width), "y": (address(y), 0, 0, 4 * width)}
    records = np.array([strides[name] for name in adding.operands], np.int64)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 5)(adding.address)
    run(address(records), width, 0, 0, first, rows)
    np.testing.assert_array_equal(y, expected)


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
