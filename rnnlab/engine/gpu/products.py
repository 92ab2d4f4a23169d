"""Large products over all times, by torch, in the precision that was asked for."""

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import Tensor

from rnnlab.engine.gpu.layout import high_part

_SMALLEST_SPLIT = 64  # narrower products are not worth taking their factors apart


@contextmanager
def multiplying(precision: str) -> Generator[None]:
    """Inside, torch multiplies float32 matrices as the precision says; what was set before is set again after."""
    setting = torch.backends.cuda.matmul
    before = setting.fp32_precision
    setting.fp32_precision = "ieee" if precision == "float32" else "tf32"
    try:
        yield
    finally:
        setting.fp32_precision = before


def product(left: Tensor, right: Tensor) -> Tensor:
    """[P, M, K] times [P, K, N], float32 whatever the factors are."""
    if left.dtype == torch.float32:
        return _split_product(left, right) if _is_split(left, right) else torch.bmm(left, right)
    if left.is_cuda:
        return torch.bmm(left, right, out_dtype=torch.float32)
    return torch.bmm(left.float(), right.float())


def product_into(out: Tensor, left: Tensor, right: Tensor) -> None:
    """The same, written to `out`, which may have a dtype of its own."""
    if left.dtype == torch.float32 and _is_split(left, right):
        if left.stride(0) == 0:
            _product_side_by_side(left, right, out)
        else:
            out.copy_(_split_product(left, right))
    elif out.dtype == left.dtype:
        torch.bmm(left, right, out=out)
    elif left.is_cuda and out.dtype == torch.float32:
        torch.bmm(left, right, out_dtype=torch.float32, out=out)
    else:
        out.copy_(product(left, right))


def flat(array: Tensor) -> Tensor:
    """[P, times, B, N] as [P, times * B, N]; copied where the times are far apart."""
    return array.flatten(1, 2)


def _is_split(left: Tensor, right: Tensor) -> bool:
    """Whether three products in tf32 are to make one of float32: faster than the units that multiply float32."""
    wants_float32 = torch.backends.cuda.matmul.fp32_precision == "ieee"
    return left.is_cuda and wants_float32 and min(*left.shape[1:], right.shape[2]) >= _SMALLEST_SPLIT


def _split_product(left: Tensor, right: Tensor) -> Tensor:
    left_high, left_low = _parts(left)
    right_high, right_low = _parts(right)
    with multiplying("tf32"):
        out = torch.bmm(left_low, right_high)
        out.baddbmm_(left_high, right_low)
        return out.baddbmm_(left_high, right_high)


def _product_side_by_side(left: Tensor, right: Tensor, out: Tensor) -> None:
    """All three at once, where the left factor is one for all members and three copies of it are no burden."""
    left_high, left_low = _parts(left[:1])
    right_high, right_low = _parts(right)
    lefts = torch.cat([left_high, left_high, left_low], 2).expand(left.shape[0], -1, -1)
    with multiplying("tf32"):
        torch.bmm(lefts, torch.cat([right_high, right_low, right_high], 1), out=out)


def _parts(factor: Tensor) -> tuple[Tensor, Tensor]:
    """What tf32 holds of numbers, and the rest; what is one for all members stays so."""
    own = factor[:1] if factor.stride(0) == 0 else factor
    high = high_part(own)
    low = own - high
    return high.expand(factor.shape), low.expand(factor.shape)
