"""How numbers lie in GPU memory and how they are multiplied: padded widths, tile sizes, precisions.

Nearly every other file of the package builds on this one. Widths are padded to what the matrix units (tensor cores)
take.
"""

from typing import NamedTuple

import torch

SMALLEST = 16  # rows or columns: the least that each side of a matrix-unit product (MMA) may have
LEAST_NOT_ROUNDED = float.fromhex("0x1.ffep127")  # from here on, rounding a float32 number to tf32 makes it infinite


class Arithmetic(NamedTuple):
    """How a precision multiplies. All precisions add up in float32."""

    dtype: torch.dtype  # of the factors in memory
    text: str  # Triton's name of that dtype
    input_precision: str  # the argument of Triton's `tl.dot`
    is_split: bool  # whether each factor is split into two tf32 numbers, and three products are added up (3xTF32)
    depth: int  # how many numbers along the summed axis (K) a Triton kernel multiplies at a time


ARITHMETIC = {
    # three products of tf32 parts are as accurate as float32, at several times the speed of float32 instructions
    "float32": Arithmetic(torch.float32, "tl.float32", "tf32", True, 32),
    "tf32": Arithmetic(torch.float32, "tl.float32", "tf32", False, 32),
    "bf16": Arithmetic(torch.bfloat16, "tl.bfloat16", "ieee", False, 64),
}


def padded(units: int) -> int:
    """The width that a layer of `units` units has in memory: rounded up to a multiple of 16, 32 or 64.

    Wider layers are rounded up to larger tiles, so that little memory is wasted at any width.

    >>> [padded(units) for units in (1, 17, 64, 100, 148, 300)]
    [16, 32, 64, 128, 160, 320]
    """
    tile = SMALLEST if units <= 4 * SMALLEST else 2 * SMALLEST if units <= 256 else 4 * SMALLEST
    return -(-units // tile) * tile


def tile(width: int, most: int) -> int:
    """How many columns of a padded width are taken at a time: a power of two, at most `most`.

    If that does not divide the width, the last tile reaches beyond it and is masked. A few large tiles are still faster
    than many that fit exactly, because each tile begins by waiting for memory.

    >>> tile(256, 128), tile(32, 128), tile(160, 256), tile(48, 32)
    (128, 32, 256, 32)
    """
    return min(most, 1 << (width - 1).bit_length())


def high_part(numbers: torch.Tensor) -> torch.Tensor:
    """The high parts of float32 numbers split into two tf32 numbers each: the numbers, rounded to tf32.

    They are rounded, not cut off, because errors of cutting off all have the same sign. NaN, infinity and numbers that
    rounding would make infinite have high part 0 and are left to the low part: the rounding carry could turn NaN into
    zero.
    """
    return _rounded(numbers, numbers.new_zeros(()))


def low_part(numbers: torch.Tensor) -> torch.Tensor:
    """The low parts: what remains of each number without its high part, rounded to tf32 as well."""
    rest = numbers - high_part(numbers)
    return _rounded(rest, rest)


def _rounded(numbers: torch.Tensor, otherwise: torch.Tensor) -> torch.Tensor:
    near = ((numbers.view(torch.int32) + (1 << 12)) & -(1 << 13)).view(torch.float32)
    return torch.where(numbers.abs() < LEAST_NOT_ROUNDED, near, otherwise)


def batch_tile(members: int, batch: int, processors: int) -> int:
    """How many sequences a program (thread block) takes: 64 or 32 if every SM still gets a program, else 16."""
    for rows in (64, 32):
        if batch > rows // 2 and members * -(-batch // rows) >= processors:
            return rows
    return SMALLEST
