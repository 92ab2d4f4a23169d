"""Products of matrices and their gradients, against numpy in float64."""

import ctypes

import numpy as np
import pytest

from rnnlab.engine.native.products import packed_size
from rnnlab.engine.native.runtime import address, matrix_gradients, runtime
from tests.engine.native.targets import TARGETS

SIZES = [(1, 1, 1), (1, 5, 3), (7, 3, 17), (14, 16, 32), (15, 33, 33), (29, 256, 16), (3, 259, 70), (130, 40, 48)]
TOLERANCE = {"float32": 1e-5, "float64": 1e-13}


def random(*shape: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def multiply(lefts: list[np.ndarray], matrices: list[np.ndarray], out: np.ndarray, target, adds: bool) -> None:
    """The sum of products, in one call."""
    loop = runtime(out.dtype.name, target)
    place, number = ctypes.c_void_p, ctypes.c_int64
    function = loop.library.function("multiply", place, number, place, *[number] * 4)
    sources, held = [], []
    for left, matrix in zip(lefts, matrices, strict=True):
        depth, columns = matrix.shape
        packed = np.full(packed_size(depth, columns, loop.lanes), np.nan, out.dtype)
        loop.pack(address(matrix), 0, *matrix.strides, address(packed), 0, 1, depth, columns)
        held.append(packed)
        sources.append([address(left), *left.strides, address(packed), depth])
    given = np.array(sources, np.int64)
    function(address(given), len(given), address(out), out.strides[0], *out.shape, adds)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("rows", "depth", "columns"), SIZES)
def test_products_are_right(rows: int, depth: int, columns: int, dtype: str, target) -> None:
    left, matrix = random(rows, depth, dtype=dtype), random(depth, columns, dtype=dtype)
    wanted = left.astype(np.float64) @ matrix.astype(np.float64)
    bound = TOLERANCE[dtype] * np.abs(wanted).max()
    for given in (matrix, np.asfortranarray(matrix)):  # as it is, and transposed
        room = np.full((rows, columns + 3), np.nan, dtype)
        multiply([left], [given], room[:, :columns], target, adds=False)
        np.testing.assert_allclose(room[:, :columns], wanted, rtol=0, atol=bound)
        assert np.isnan(room[:, columns:]).all()
        multiply([left], [given], room[:, :columns], target, adds=True)
        np.testing.assert_allclose(room[:, :columns], 2 * wanted, rtol=0, atol=2 * bound)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_several_products_make_one_sum(target) -> None:
    lefts = [random(20, depth, dtype="float64") for depth in (3, 1, 40)]
    matrices = [random(depth, 37, dtype="float64") for depth in (3, 1, 40)]
    out = np.full((20, 37), np.nan)
    multiply(lefts, matrices, out, target, adds=False)
    wanted = sum(left @ matrix for left, matrix in zip(lefts, matrices, strict=True))
    np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-12)
    multiply([], [], out, target, adds=False)
    assert (out == 0).all()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("rows", "depth", "columns"), [*SIZES, (600, 20, 70)])
def test_gradients_of_matrices_are_right(rows: int, depth: int, columns: int, dtype: str, target, threads: int) -> None:
    """left transposed times right, and the sums of the rows of right."""
    left, right = random(rows, depth, dtype=dtype), random(rows, columns + 2, dtype=dtype)[:, :columns]
    out, sums = np.full((depth, columns + 1), np.nan, dtype), np.full(columns, np.nan, dtype)
    job = [
        *(address(left), left.strides[0], address(right), right.strides[0], rows, depth, columns),
        *(address(out), out.strides[0], address(sums)),
    ]
    matrix_gradients(np.array([job], np.int64), runtime(dtype, target), np.dtype(dtype), threads)
    wanted = left.astype(np.float64).T @ right.astype(np.float64)
    np.testing.assert_allclose(out[:, :columns], wanted, rtol=0, atol=TOLERANCE[dtype] * np.abs(wanted).max())
    np.testing.assert_allclose(
        sums, right.sum(axis=0, dtype=np.float64), rtol=0, atol=1e-4 if dtype == "float32" else 1e-12
    )
    assert np.isnan(out[:, columns:]).all()
