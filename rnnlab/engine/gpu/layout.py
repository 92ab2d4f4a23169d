"""How arrays lie in the GPU's memory: widths rounded up to what its matrix units take, and tiles of them."""

from typing import NamedTuple

import torch

PRECISIONS = ("float32", "tf32", "bf16")
SMALLEST = 16  # the least that a side of a product of matrix units may have


class Arithmetic(NamedTuple):
    """How a precision multiplies; sums are float32 in all of them."""

    dtype: torch.dtype  # of what is multiplied
    text: str  # the same for Triton
    input_precision: str  # of Triton's products


ARITHMETIC = {
    # three products of tf32 parts give float32's accuracy at several times its speed
    "float32": Arithmetic(torch.float32, "tl.float32", "tf32x3"),
    "tf32": Arithmetic(torch.float32, "tl.float32", "tf32"),
    "bf16": Arithmetic(torch.bfloat16, "tl.bfloat16", "ieee"),
}


def padded(units: int) -> int:
    """The width at which a layer lies in memory: a multiple of a tile that does not waste much.

    >>> [padded(units) for units in (1, 17, 64, 100, 148, 300)]
    [16, 32, 64, 128, 160, 320]
    """
    tile = SMALLEST if units <= 4 * SMALLEST else 2 * SMALLEST if units <= 256 else 4 * SMALLEST
    return -(-units // tile) * tile


def tile(width: int, most: int) -> int:
    """The largest power of two that divides a padded width, up to `most`.

    >>> tile(160, 64), tile(256, 64)
    (32, 64)
    """
    return min(width & -width, most)


def batch_tile(members: int, batch: int, processors: int) -> int:
    """How many sequences a program takes: as many as leave every multiprocessor something to do."""
    for rows in (64, 32):
        if batch > rows // 2 and members * -(-batch // rows) >= processors:
            return rows
    return SMALLEST
