"""Who may use several cores: torch's threads, for large products only.

numpy's BLAS and torch have a pool of threads each. Where both are used in turn, one's idle threads spin on the cores
that the other's are waiting for, and a step of a small network takes six times as long. So numpy's products run on one
thread, and large ones are left to torch.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

Array = NDArray[Any]

_LARGE = 2**21  # multiplications from which a second thread pays


def one_blas_thread() -> AbstractContextManager[Any]:
    """numpy's products on one thread while this lasts; nothing to do where torch has one thread, too."""
    return nullcontext() if torch.get_num_threads() == 1 else _controller().limit(limits=1)


def matrix_product(left: Array, right: Array) -> Array:
    """A product of two matrices, on all of torch's threads where it is large."""
    if torch.get_num_threads() == 1 or left.shape[0] * left.shape[1] * right.shape[1] < _LARGE:
        return left @ right
    return torch.mm(torch.from_numpy(left), torch.from_numpy(right)).numpy()


def product_into(left: Array, right: Array, out: Array) -> None:
    """The same into an array, [times, B, N], without a copy where that is contiguous."""
    if not out.flags.c_contiguous:
        out[...] = matrix_product(left, right).reshape(out.shape)
        return
    flat = out.reshape(-1, out.shape[-1])
    if torch.get_num_threads() == 1 or left.size * right.shape[1] < _LARGE:
        np.dot(left, right, out=flat)
    else:
        torch.mm(torch.from_numpy(left), torch.from_numpy(right), out=torch.from_numpy(flat))


def step_product(
    sources: Sequence[Array], matrices: Array, out: Array, multiply: Callable[..., Any]
) -> Callable[[int], Any]:
    """A function that multiplies the j-th source into `out`: by `multiply`, or where it is large by torch."""
    if torch.get_num_threads() == 1 or out.size * matrices.shape[-2] < _LARGE:
        return lambda j: multiply(sources[j], matrices, out)
    tensors = [torch.from_numpy(source) for source in sources]
    matrix, result = torch.from_numpy(matrices), torch.from_numpy(out)
    return lambda j: torch.matmul(tensors[j], matrix, out=result)


@cache
def _controller() -> Any:
    return ThreadpoolController().select(user_api="blas")
