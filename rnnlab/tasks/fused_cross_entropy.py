"""`losses.cross_entropy` as two kernels on a GPU: one there, one back.

Logits of ten thousand words are larger than everything else of a language model. Taken apart into torch's operations a
dozen arrays of their size are written and read; the kernels read them twice, and write their gradient.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor

from rnnlab.triton_support import has_triton

TILE = 2048  # logits that a program looks at together
NUM_AXES = 3  # of rows, which may lie anywhere in memory


def can_be_fused(logits: Tensor) -> bool:
    """Whether the kernels take them: float32 on a GPU, where Triton is installed and nobody traces."""
    is_right = logits.is_cuda and logits.dtype == torch.float32 and logits.numel() > 0
    return is_right and not _is_traced() and has_triton()


class FusedCrossEntropy(torch.autograd.Function):
    """Takes logits [..., K] and targets [...]; a target that is none of the K classes has a loss that is no number."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:
        """The losses, [...]."""
        rows, classes = _rows(logits), _with_axes(targets, 0)
        losses, log_sums = (torch.empty(classes.shape, dtype=rows.dtype, device=rows.device) for _ in range(2))
        surprise, _ = _kernels()
        columns, block = _tile(rows.shape[-1])
        with _on(rows.device):
            surprise[(math.ceil(losses.numel() / block),)](
                rows,
                classes,
                losses,
                log_sums,
                losses.numel(),
                *rows.shape[1:],
                *rows.stride()[:-1],
                *classes.stride(),
                ROWS=block,
                COLUMNS=columns,
            )
        ctx.save_for_backward(logits, targets, log_sums)
        return losses.view(targets.shape)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """The gradient of the logits."""
        logits, targets, log_sums = ctx.saved_tensors
        if torch.is_grad_enabled() or _is_traced():  # create_graph: operations that have gradients themselves
            wanted = targets[..., None]
            surplus = logits.softmax(-1).scatter_add(-1, wanted, -torch.ones_like(wanted, dtype=logits.dtype))
            return gradients[0][..., None] * surplus, None
        rows, classes, of_losses = _rows(logits), _with_axes(targets, 0), _with_axes(gradients[0], 0)
        of_rows = torch.empty_like(rows)
        _, slope = _kernels()
        columns, block = _tile(rows.shape[-1])
        with _on(rows.device):
            slope[(math.ceil(log_sums.numel() / block), math.ceil(rows.shape[-1] / columns))](
                rows,
                classes,
                log_sums,
                of_losses,
                of_rows,
                log_sums.numel(),
                *rows.shape[1:],
                *rows.stride()[:-1],
                *classes.stride(),
                *of_losses.stride(),
                *of_rows.stride()[:-1],
                ROWS=block,
                COLUMNS=columns,
            )
        return of_rows.reshape(logits.shape), None


def _rows(logits: Tensor) -> Tensor:
    """[N, N1, N2, K] with classes that are neighbours in memory."""
    rows = _with_axes(logits, 1)
    return rows if rows.stride(-1) == 1 else rows.contiguous()


def _with_axes(values: Tensor, num_own: int) -> Tensor:
    """With three axes for rows before its own: several become one, which may make a copy, or some have one entry."""
    missing = NUM_AXES - (values.ndim - num_own)
    return values.flatten(0, -missing) if missing < 0 else values[(None,) * missing]


def _tile(num_classes: int) -> tuple[int, int]:
    """Columns and rows of a program's tile."""
    columns = min(TILE, 1 << (num_classes - 1).bit_length())
    return columns, TILE // columns


def _on(device: torch.device) -> AbstractContextManager[Any]:
    """Inside, kernels are launched on a device; Triton's interpreter has none."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _is_traced() -> bool:
    """Whether torch takes operations apart, or asks for many gradients at once."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()  # type: ignore[attr-defined]


@cache
def _kernels() -> tuple[Any, Any]:
    from rnnlab.tasks.cross_entropy_kernels import slope, surprise

    return surprise, slope
