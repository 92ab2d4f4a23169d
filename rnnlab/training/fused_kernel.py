"""The kernel of `fused.py`, in a file of its own because Triton is not everywhere."""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]


@triton.jit
def learn(
    numbers,  # [P, N], as gradients, first and second
    gradients,
    first,
    second,
    table,  # [P, COLUMNS]
    width,
    COLUMNS: tl.constexpr,  # noqa: N803
    USES_SECOND: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
):
    """One step of a member's next BLOCK numbers."""
    member = tl.program_id(0).to(tl.int64)
    row = table + member * COLUMNS
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    at = member * width + columns
    number = tl.load(numbers + at, mask=inside, other=0.0)
    gradient = tl.load(gradients + at, mask=inside, other=0.0)
    # what is not finite is of a member that stands still
    gradient = tl.where(tl.abs(gradient) < float("inf"), gradient, 0.0) * tl.load(row)
    largest = tl.load(row + 1)
    decay = tl.load(row + 2)
    gradient = tl.maximum(tl.minimum(gradient, largest), -largest) + tl.where(decay > 0, number * decay, 0.0)
    mean = tl.load(first + at, mask=inside, other=0.0) * tl.load(row + 3) + gradient * tl.load(row + 4)
    tl.store(first + at, mean, mask=inside)
    change = mean
    if USES_SECOND:
        square = tl.load(second + at, mask=inside, other=0.0) * tl.load(row + 5)
        square += gradient * gradient * tl.load(row + 6)
        tl.store(second + at, square, mask=inside)
        change = mean / (tl.sqrt(square) / tl.load(row + 7) + tl.load(row + 8))
    tl.store(numbers + at, number - change * tl.load(row + 9), mask=inside)
