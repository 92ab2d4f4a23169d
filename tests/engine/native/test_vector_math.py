"""Sigmoid and tanh on vectors, against float64 numbers of torch."""

import ctypes

import numpy as np
import pytest
import torch

from rnnlab import Expression, nonlinearity, relu, sigmoid, tanh
from rnnlab.architecture.expressions import named
from rnnlab.engine.native.elementwise import CHOICE, Kernel, compile_kernel
from rnnlab.engine.native.runtime import address
from tests.engine.native.targets import TARGETS

ULPS = 3  # units in the last place; measured: 1.5 in float32, 2.3 in float64

Arrays = dict[str, np.ndarray]


def run(kernel: Kernel, operands: Arrays, rows: int = 1, member: int = 0) -> None:
    """Call a kernel on arrays [rows, width], or of one row that serves all."""
    width = max(array.shape[-1] for array in operands.values())
    records = []
    for name in kernel.operands:
        array = operands[name]
        by_member = array.itemsize if name == CHOICE else 0
        records += [address(array), by_member, 0, array.strides[0] if array.ndim == 2 else 0]
    given = np.array(records, np.int64)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 5)(kernel.address)
    call(address(given), width, member, 0, 0, rows)


def applied(output: Expression, x: np.ndarray, target, choice: str | None = "tanh", **more: np.ndarray) -> np.ndarray:
    y = np.full_like(x, np.nan)
    run(compile_kernel({"y": output}, (), choice, x.dtype.name, target), {"x": x, "y": y, **more})
    return y


def numbers(dtype: str) -> np.ndarray:
    small = np.logspace(-30, 1.9, 4001)
    return np.concatenate([np.linspace(-80, 80, 40_001), small, -small]).astype(dtype)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", [sigmoid, tanh], ids=["sigmoid", "tanh"])
def test_values_are_right_to_the_last_digits(function, dtype: str, target) -> None:
    x = numbers(dtype)
    wanted = {sigmoid: torch.sigmoid, tanh: torch.tanh}[function](torch.tensor(x, dtype=torch.float64)).numpy()
    error = np.abs(applied(function(named("x")), x, target) - wanted) / np.maximum(np.abs(wanted), np.finfo(dtype).tiny)
    assert error.max() <= ULPS * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ends_of_the_range(dtype: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0], dtype)
    for target in TARGETS.values():
        np.testing.assert_array_equal(applied(tanh(named("x")), x, target), [np.nan, 1, -1, 1, -1, 0])
        np.testing.assert_allclose(
            applied(sigmoid(named("x")), x, target), [np.nan, 1, 0, 1, 0, 0.5], atol=2 * np.finfo(dtype).tiny
        )
        np.testing.assert_array_equal(applied(relu(named("x")), x, target), np.maximum(x, 0))


@pytest.mark.parametrize("width", [1, 3, 15, 16, 17, 40])
def test_columns_beyond_the_width_are_left_alone(width: int) -> None:
    for target in TARGETS.values():
        x, y = np.ones((2, width), np.float32), np.full((2, 64), 7, np.float32)
        kernel = compile_kernel({"y": named("x") + named("y")}, (), "tanh", "float32", target)
        run(kernel, {"x": x, "y": y[:, :width]}, rows=2)
        assert (y[:, :width] == 8).all()
        assert (y[:, width:] == 7).all()


def test_two_outputs_in_one_place_are_both_added() -> None:
    x = np.arange(20, dtype=np.float32)
    total = np.ones(20, np.float32)
    kernel = compile_kernel(
        {"a": named("x"), "b": 2 * named("x")}, ("a", "b"), "tanh", "float32", TARGETS["this machine"]
    )
    run(kernel, {"x": x, "a": total, "b": total})
    np.testing.assert_array_equal(total, 1 + 3 * x)


def test_each_member_has_its_nonlinearity() -> None:
    x, choices = np.linspace(-2, 2, 9, dtype=np.float32), np.array([1, 0], np.float32)
    kernel = compile_kernel({"y": nonlinearity(named("x"))}, (), None, "float32", TARGETS["this machine"])
    for member, wanted in enumerate((np.maximum(x, 0), np.tanh(x))):
        y = np.empty_like(x)
        run(kernel, {"x": x, "y": y, CHOICE: choices}, member=member)
        np.testing.assert_allclose(y, wanted, rtol=1e-6)
