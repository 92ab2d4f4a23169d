"""What torch takes several passes over memory for, in one: matrices turned over, narrow read-outs and their gradients.

Each function has a kernel of Triton (`memory_bound_kernels.py`) on a GPU, and torch's operations on a CPU, where
kernels in CUDA C++ are emulated in tests. Members and sequences lie along the first axis of grids, for the others have
limits.
"""

from functools import cache
from types import ModuleType

import torch
from torch import Tensor

from rnnlab.triton_support import is_interpreted

TILE = 64  # rows and columns of a matrix that a program turns together
MOST_COLUMNS = 64  # of a narrow read-out; wider ones are bound by their products
ROWS = 128  # of a read-out that a program computes
TIMES, SEQUENCES = 16, 8  # of a gradient that a program puts in their place


def turned(matrices: Tensor) -> Tensor:
    """The transposes [P, N, M] of matrices [P, M, N], each of which lies together in memory."""
    if not _runs_triton(matrices):
        return matrices.mT.contiguous()
    members, rows, columns = matrices.shape
    found = torch.empty(members, columns, rows, dtype=matrices.dtype, device=matrices.device)
    grid = (members, -(-rows // TILE), -(-columns // TILE))
    _kernels().turn[grid](matrices, found, matrices.stride(0), rows, columns, TILE=TILE)
    return found


def put_padded(found: Tensor, gradient: Tensor) -> None:
    """Write the gradient of an output [P, T, B, M] to rows that may be wider, and zeros for the padding."""
    members, times, sequences, width = found.shape
    units = gradient.shape[3]
    is_narrow = width <= MOST_COLUMNS and gradient.stride(3) == 1 and found[0].is_contiguous()
    if not (is_narrow and _runs_triton(found)):
        found[..., :units] = gradient
        if width > units:
            found[..., units:] = 0
        return
    grid = (members * -(-sequences // SEQUENCES), -(-times // TIMES))
    sizes = (times, sequences, units, *gradient.stride()[:3], found.stride(0))
    columns = 1 << (width - 1).bit_length()
    _kernels().put[grid](gradient, found, *sizes, WIDTH=width, COLUMNS=columns, TIMES=TIMES, SEQUENCES=SEQUENCES)


def can_read_out(states: Tensor, width: int) -> bool:
    """Whether `read_out` takes states [P, T, B, K] to outputs that are so wide."""
    return width <= MOST_COLUMNS and states.dtype == torch.bfloat16 and states[0].is_contiguous()


def read_out(states: Tensor, matrix: Tensor, bias: Tensor, found: Tensor) -> None:
    """Write states [P, T, B, K] times a matrix [P, K, N] plus a bias [P, N] to an output [P, T, B, N] in float32."""
    if not _runs_triton(states):
        found.copy_(torch.einsum("ptbk,pkn->ptbn", states.float(), matrix.float()) + bias[:, None, None])
        return
    members, times, sequences, depth = states.shape
    width, num_rows = matrix.shape[2], times * sequences
    columns, step = 1 << (width - 1).bit_length(), min(64, depth & -depth)
    grid = (members * -(-num_rows // ROWS),)
    _kernels().read_out[grid](
        states,
        matrix,
        bias,
        found,
        states.stride(0),
        found.stride(0),
        num_rows,
        depth,
        WIDTH=width,
        COLUMNS=columns,
        ROWS=ROWS,
        STEP=step,
    )


def _runs_triton(tensor: Tensor) -> bool:
    return tensor.is_cuda or is_interpreted()


@cache
def _kernels() -> ModuleType:
    from rnnlab.engine.gpu import memory_bound_kernels  # needs Triton, which is not everywhere

    return memory_bound_kernels
