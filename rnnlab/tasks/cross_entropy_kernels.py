"""The kernels of `fused_cross_entropy.py`, in a file of their own because Triton is not everywhere."""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

# a recorded step may find targets elsewhere in memory than the steps before it did, and must not compile
_TARGETS = ["targets_0", "targets_1", "targets_2"]
_LOSSES = ["of_losses_0", "of_losses_1", "of_losses_2"]


@triton.jit(do_not_specialize=_TARGETS)
def surprise(
    logits,  # [N, N1, N2, K], of which the last axis lies together
    targets,  # [N, N1, N2], as all that follow
    losses,  # together
    log_sums,  # together
    num_rows,
    n1,
    n2,
    num_classes,
    logits_0,  # strides
    logits_1,
    logits_2,
    targets_0,
    targets_1,
    targets_2,
    ROWS: tl.constexpr,  # noqa: N803
    COLUMNS: tl.constexpr,  # noqa: N803
):
    """Losses of the next ROWS rows, and logarithms of their sums of exponentials."""
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = place < num_rows
    row = tl.minimum(place, num_rows - 1)  # places beyond the end repeat the last row, and are not stored
    i0, i1, i2 = (row // (n1 * n2)).to(tl.int64), (row // n2 % n1).to(tl.int64), (row % n2).to(tl.int64)
    of_row = logits + i0 * logits_0 + i1 * logits_1 + i2 * logits_2
    largest = tl.full([ROWS], float("-inf"), tl.float32)
    shift = tl.zeros([ROWS], tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    for first in range(0, num_classes, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        values = tl.load(of_row[:, None] + column[None, :], (column < num_classes)[None, :], other=float("-inf"))
        largest = tl.maximum(largest, tl.max(values, axis=1))
        new_shift = tl.where(tl.abs(largest) < float("inf"), largest, 0.0)
        before = tl.where(total > 0, total * tl.exp(shift - new_shift), total)  # nothing stays nothing: no 0 * infinity
        total = before + tl.sum(tl.exp(values - new_shift[:, None]), axis=1)
        shift = new_shift
    log_sum = tl.log(total) + shift
    target = tl.load(targets + i0 * targets_0 + i1 * targets_1 + i2 * targets_2)
    is_class = (target >= 0) & (target < num_classes)
    wanted = tl.load(of_row + target, is_class, other=float("nan"))
    tl.store(losses + row, log_sum - wanted, inside)
    tl.store(log_sums + row, log_sum, inside)


@triton.jit(do_not_specialize=_TARGETS + _LOSSES)
def slope(
    logits,  # as above
    targets,
    log_sums,
    of_losses,  # the gradient of the losses, [N, N1, N2]
    of_logits,  # that of the logits, [N, N1, N2, K], of which the last axis lies together
    num_rows,
    n1,
    n2,
    num_classes,
    logits_0,  # strides
    logits_1,
    logits_2,
    targets_0,
    targets_1,
    targets_2,
    of_losses_0,
    of_losses_1,
    of_losses_2,
    of_logits_0,
    of_logits_1,
    of_logits_2,
    ROWS: tl.constexpr,  # noqa: N803
    COLUMNS: tl.constexpr,  # noqa: N803
):
    """The gradient of COLUMNS logits of the next ROWS rows."""
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = place < num_rows
    row = tl.minimum(place, num_rows - 1)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    i0, i1, i2 = (row // (n1 * n2)).to(tl.int64), (row // n2 % n1).to(tl.int64), (row % n2).to(tl.int64)
    target = tl.load(targets + i0 * targets_0 + i1 * targets_1 + i2 * targets_2)
    log_sum = tl.load(log_sums + row)
    of_loss = tl.load(of_losses + i0 * of_losses_0 + i1 * of_losses_1 + i2 * of_losses_2)
    is_class = (column < num_classes)[None, :]
    of_row = logits + i0 * logits_0 + i1 * logits_1 + i2 * logits_2
    likely = tl.exp(tl.load(of_row[:, None] + column[None, :], is_class, other=float("-inf")) - log_sum[:, None])
    is_wanted = column[None, :] == target[:, None]
    to_row = of_logits + i0 * of_logits_0 + i1 * of_logits_1 + i2 * of_logits_2
    tl.store(
        to_row[:, None] + column[None, :],
        of_loss[:, None] * (likely - is_wanted.to(tl.float32)),
        inside[:, None] & is_class,
    )
