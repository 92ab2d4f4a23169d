"""How arrays lie in the GPU's memory: widths rounded up to what its matrix units take, and tiles of them."""

from typing import NamedTuple

import torch

PRECISIONS = ("float32", "tf32", "bf16")
SMALLEST = 16  # the least that a side of a product of matrix units may have
LEAST_NOT_ROUNDED = float.fromhex("0x1.ffep127")  # of float32 numbers: tf32 would make it infinite


class Arithmetic(NamedTuple):
    """How a precision multiplies; sums are float32 in all of them."""

    dtype: torch.dtype  # of what is multiplied
    text: str  # the same for Triton
    input_precision: str  # of Triton's products
    is_split: bool  # whether factors are taken apart into two numbers of tf32, and three products added up
    depth: int  # how many rows of a matrix are multiplied at a time


ARITHMETIC = {
    # three products of tf32 parts give float32's accuracy at several times its speed
    "float32": Arithmetic(torch.float32, "tl.float32", "tf32", True, 32),
    "tf32": Arithmetic(torch.float32, "tl.float32", "tf32", False, 32),
    "bf16": Arithmetic(torch.bfloat16, "tl.bfloat16", "ieee", False, 64),
}


def padded(units: int) -> int:
    """The width at which a layer lies in memory: a multiple of a tile that does not waste much.

    >>> [padded(units) for units in (1, 17, 64, 100, 148, 300)]
    [16, 32, 64, 128, 160, 320]
    """
    tile = SMALLEST if units <= 4 * SMALLEST else 2 * SMALLEST if units <= 256 else 4 * SMALLEST
    return -(-units // tile) * tile


def tile(width: int, most: int) -> int:
    """How many columns are taken at a time: all of a padded width, or `most`; a power of two.

    Where that does not divide the width the last tile hangs over, and is masked: few tiles are worth more than none of
    it wasted, for each begins with waiting for memory.

    >>> tile(256, 128), tile(32, 128), tile(160, 256), tile(48, 32)
    (128, 32, 256, 32)
    """
    return min(most, 1 << (width - 1).bit_length())


def high_part(numbers: torch.Tensor) -> torch.Tensor:
    """The part of float32 numbers that tf32 holds, rounded: what is cut off would be off in one direction.

    What is NaN, which a carry would make zero, or infinite is in the low part.
    """
    return _rounded(numbers, numbers.new_zeros(()))


def low_part(numbers: torch.Tensor) -> torch.Tensor:
    """The rest, rounded too."""
    rest = numbers - high_part(numbers)
    return _rounded(rest, rest)


def _rounded(numbers: torch.Tensor, otherwise: torch.Tensor) -> torch.Tensor:
    near = ((numbers.view(torch.int32) + (1 << 12)) & -(1 << 13)).view(torch.float32)
    return torch.where(numbers.abs() < LEAST_NOT_ROUNDED, near, otherwise)


def batch_tile(members: int, batch: int, processors: int) -> int:
    """How many sequences a program takes: as many as leave every multiprocessor something to do."""
    for rows in (64, 32):
        if batch > rows // 2 and members * -(-batch // rows) >= processors:
            return rows
    return SMALLEST
