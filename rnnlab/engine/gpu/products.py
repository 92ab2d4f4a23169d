"""Large products over all time steps at once, by torch, in the precision of the model.

`hoisted.py` and `backward.py` use them for everything that does not depend on the recurrence.
"""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from threading import Condition, Lock
from typing import Any

import torch
from torch import Tensor

# torch's precision of float32 products is one setting of the whole process. Threads that want the same value may hold
# it together; a thread that wants another waits until they have all left.
_ENTRANCE = Lock()  # while a thread waits, later ones queue behind it, even if they want what is set now
_CHANGE = Condition()
_INSIDE: Counter[str] = Counter()  # how many threads hold each value


@contextmanager
def multiplying(precision: str) -> Generator[None]:
    """Inside, torch multiplies float32 matrices in this precision; the previous setting is restored at the end.

    Do not nest: a thread inside that asked for another precision would wait for itself.
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


_before: list[Any] = []  # the setting to restore


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
    """The product of [P, M, K] and [P, K, N], float32 whatever the dtype of the factors."""
    if left.dtype == torch.float32:
        return torch.bmm(left, right)
    if left.is_cuda:
        return torch.bmm(left, right, out_dtype=torch.float32)
    return torch.bmm(left.float(), right.float())


def product_into(out: Tensor, left: Tensor, right: Tensor) -> None:
    """Write the same product to `out`, which may have another dtype."""
    if out.dtype == left.dtype:
        torch.bmm(left, right, out=out)
    elif left.is_cuda and out.dtype == torch.float32:
        torch.bmm(left, right, out_dtype=torch.float32, out=out)
    else:
        out.copy_(product(left, right))


def add_product(out: Tensor, left: Tensor, right: Tensor) -> None:
    """Add the same product to `out`, which is float32."""
    if left.dtype == torch.float32:
        torch.baddbmm(out, left, right, out=out)
    elif left.is_cuda:
        torch.baddbmm(out, left, right, out_dtype=torch.float32, out=out)
    else:
        out += product(left, right)


def summed(array: Tensor) -> Tensor:
    """The sum of [P, times, B, N] over times and sequences, [P, N], computed as a product with ones.

    `torch.sum` over both axes takes up to three times as long, and up to four times the memory of the array.
    """
    rows = flat(array)
    ones = rows.new_ones(1, 1, rows.shape[1]).expand(rows.shape[0], -1, -1)
    return product(ones, rows)[:, 0]


def flat(array: Tensor) -> Tensor:
    """[P, times, B, N] as [P, times * B, N]: a view, or a copy if the times are not neighbours in memory."""
    return array.flatten(1, 2)
