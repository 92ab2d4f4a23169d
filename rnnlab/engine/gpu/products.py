"""Large products over all times, by torch, in the precision that was asked for."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from threading import Condition, Lock
from typing import Any

import torch
from torch import Tensor

# The setting is the whole process's: threads that want the same have it together, others wait until they have left.
_ENTRANCE = Lock()  # who waits is not overtaken by those that want what is set
_CHANGE = Condition()
_INSIDE: Counter[str] = Counter()  # threads by what they want


@contextmanager
def multiplying(precision: str) -> Generator[None]:
    """Inside, torch multiplies float32 matrices as the precision says; what was set before is set again after.

    A thread is inside once at most: for another precision it would wait for itself.
    """
    wanted = "ieee" if precision == "float32" else "tf32"
    with _ENTRANCE, _CHANGE:
        _CHANGE.wait_for(lambda: _INSIDE.total() == _INSIDE[wanted])
        _enter(wanted)
    try:
        yield
    finally:
        with _CHANGE:
            _leave(wanted)
            _CHANGE.notify_all()


_before: list[Any] = []  # what was set when nobody was inside


def _enter(wanted: str) -> None:
    setting = torch.backends.cuda.matmul
    if not _INSIDE.total():
        _before.append(setting.fp32_precision)
        setting.fp32_precision = wanted
    _INSIDE[wanted] += 1


def _leave(wanted: str) -> None:
    _INSIDE[wanted] -= 1
    if not _INSIDE.total():
        torch.backends.cuda.matmul.fp32_precision = _before.pop()


def product(left: Tensor, right: Tensor) -> Tensor:
    """[P, M, K] times [P, K, N], float32 whatever the factors are."""
    if left.dtype == torch.float32:
        return torch.bmm(left, right)
    if left.is_cuda:
        return torch.bmm(left, right, out_dtype=torch.float32)
    return torch.bmm(left.float(), right.float())


def product_into(out: Tensor, left: Tensor, right: Tensor) -> None:
    """The same, written to `out`, which may have a dtype of its own."""
    if out.dtype == left.dtype:
        torch.bmm(left, right, out=out)
    elif left.is_cuda and out.dtype == torch.float32:
        torch.bmm(left, right, out_dtype=torch.float32, out=out)
    else:
        out.copy_(product(left, right))


def add_product(out: Tensor, left: Tensor, right: Tensor) -> None:
    """The same, added to `out`, which is float32."""
    if left.dtype == torch.float32:
        torch.baddbmm(out, left, right, out=out)
    elif left.is_cuda:
        torch.baddbmm(out, left, right, out_dtype=torch.float32, out=out)
    else:
        out += product(left, right)


def summed(array: Tensor) -> Tensor:
    """[P, times, B, N] added up over times and sequences, [P, N], as a product with ones.

    torch's own sums over both take up to three times as long, and up to four times the memory of the array.
    """
    rows = flat(array)
    ones = rows.new_ones(1, 1, rows.shape[1]).expand(rows.shape[0], -1, -1)
    return product(ones, rows)[:, 0]


def flat(array: Tensor) -> Tensor:
    """[P, times, B, N] as [P, times * B, N]; copied where the times are far apart."""
    return array.flatten(1, 2)
