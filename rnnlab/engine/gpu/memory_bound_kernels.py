"""The kernels of `memory_bound.py`, in a file of their own because Triton is not everywhere."""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]


@triton.jit
def turn(
    matrices,  # [P, M, N]
    found,  # [P, N, M]
    distance,  # from a matrix to the next
    num_rows,
    num_columns,
    TILE: tl.constexpr,  # noqa: N803
):
    """A tile of a member's matrix."""
    member = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * TILE + tl.arange(0, TILE)
    column = tl.program_id(2) * TILE + tl.arange(0, TILE)
    inside = (row < num_rows)[:, None] & (column < num_columns)[None, :]
    source = matrices + member * distance
    values = tl.load(source + row.to(tl.int64)[:, None] * num_columns + column[None, :], inside)
    to = found + member * num_rows * num_columns
    tl.store(to + column.to(tl.int64)[:, None] * num_rows + row[None, :], tl.trans(values), tl.trans(inside))


# Triton compiles a kernel anew for numbers that are 1, or that 16 divides: not for those that change from batch to
# batch
_SIZES = ["num_times", "num_sequences", "num_units"]
_STRIDES = ["of_member", "of_time", "of_sequence"]


@triton.jit(do_not_specialize=_SIZES + _STRIDES)
def put(
    gradient,  # [P, T, B, M], of which the last axis lies together
    found,  # [P, T, B, WIDTH], a member's together
    num_times,
    num_sequences,
    num_units,
    of_member,  # strides of the gradient
    of_time,
    of_sequence,
    distance,  # from a member's rows to the next one's
    WIDTH: tl.constexpr,  # noqa: N803
    COLUMNS: tl.constexpr,  # noqa: N803
    TIMES: tl.constexpr,  # noqa: N803
    SEQUENCES: tl.constexpr,  # noqa: N803
):
    """Some times of some sequences of a member, as they lie in the one and in the other."""
    num_blocks = tl.cdiv(num_sequences, SEQUENCES)
    member = (tl.program_id(0) // num_blocks).to(tl.int64)
    sequence = (tl.program_id(0) % num_blocks * SEQUENCES + tl.arange(0, SEQUENCES)).to(tl.int64)[None, :, None]
    time = (tl.program_id(1) * TIMES + tl.arange(0, TIMES)).to(tl.int64)[:, None, None]
    unit = tl.arange(0, COLUMNS)[None, None, :]
    inside = (time < num_times) & (sequence < num_sequences) & (unit < WIDTH)
    source = gradient + member * of_member + time * of_time + sequence * of_sequence + unit
    values = tl.load(source, inside & (unit < num_units), other=0.0)
    to = found + member * distance + (time * num_sequences + sequence) * WIDTH + unit
    tl.store(to, values.to(found.dtype.element_ty), inside)


@triton.jit(do_not_specialize=["num_rows"])
def read_out(
    states,  # [P, rows, K], a member's together
    matrix,  # [P, K, WIDTH]
    bias,  # [P, WIDTH]
    found,  # [P, rows, WIDTH], a member's together
    of_states,  # from a member to the next
    of_found,
    num_rows,
    depth,
    WIDTH: tl.constexpr,  # noqa: N803
    COLUMNS: tl.constexpr,  # noqa: N803
    ROWS: tl.constexpr,  # noqa: N803
    STEP: tl.constexpr,  # noqa: N803
):
    """ROWS rows of a member."""
    num_blocks = tl.cdiv(num_rows, ROWS)
    member = (tl.program_id(0) // num_blocks).to(tl.int64)
    row = (tl.program_id(0) % num_blocks).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    part = tl.arange(0, STEP)
    left = states + member * of_states + row * depth + part[None, :]
    right = matrix + member * depth * WIDTH + part[:, None] * WIDTH + column
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    for _ in range(0, depth, STEP):
        factors = tl.load(left, row < num_rows, other=0.0)
        sums = tl.dot(factors, tl.load(right, column < WIDTH, other=0.0), sums)
        left += STEP
        right += STEP * WIDTH
    sums += tl.load(bias + member * WIDTH + column, column < WIDTH, other=0.0)
    tl.store(found + member * of_found + row * WIDTH + column, sums, (row < num_rows) & (column < WIDTH))
