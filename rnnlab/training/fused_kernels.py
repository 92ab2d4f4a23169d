"""The kernels of `fused.py`, in a file of their own because Triton is not everywhere."""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]


@triton.jit
def judge(
    losses,  # [P], of this step, as norms
    norms,
    constants,  # [constant, P]
    step,  # a number
    end_step,  # [P], as all up to `table`
    plateau,
    reason,
    diverged_at,
    first_loss,
    last_loss,
    rates,
    loss_sum,
    loss_count,
    table,  # [P, COLUMNS], which `learn` reads
    num_members,
    COLUMNS: tl.constexpr,  # noqa: N803
    MEMBERS: tl.constexpr,  # noqa: N803
):
    """Who has diverged at this step, and what the next MEMBERS members' gradients and averages are multiplied by."""
    place = tl.program_id(0) * MEMBERS + tl.arange(0, MEMBERS)
    inside = place < num_members
    member = tl.minimum(place, num_members - 1)  # places beyond the end repeat the last member, and are not stored
    of = constants + member
    explosion = tl.load(of)
    start = tl.load(of + 1 * num_members)
    decay = tl.load(of + 2 * num_members)
    inverse_steps = tl.load(of + 3 * num_members)
    inverse_start = tl.load(of + 4 * num_members)
    log_first_keep = tl.load(of + 5 * num_members)
    log_second_keep = tl.load(of + 6 * num_members)
    is_corrected = tl.load(of + 7 * num_members)
    longest = tl.load(of + 8 * num_members)
    largest = tl.load(of + 9 * num_members)
    l2 = tl.load(of + 10 * num_members)
    first_keep = tl.load(of + 11 * num_members)
    first_add = tl.load(of + 12 * num_members)
    second_keep = tl.load(of + 13 * num_members)
    second_add = tl.load(of + 14 * num_members)
    epsilon = tl.load(of + 15 * num_members)
    now = tl.load(step)
    loss, norm = tl.load(losses + member), tl.load(norms + member)
    exact_loss = loss.to(tl.float64)

    why_before = tl.load(reason + member)
    was_active = (now < tl.load(end_step + member)) & (why_before == 0)
    first = tl.load(first_loss + member)
    first = tl.where(first != first, exact_loss, first)
    why = tl.where(exact_loss > explosion * (1 + first), 3, 0)
    why = tl.where(tl.abs(norm) < float("inf"), why, 2)  # which is not true of what is no number either
    why = tl.where(tl.abs(loss) < float("inf"), why, 1)
    is_new, is_active = was_active & (why > 0), was_active & (why == 0)
    tl.store(first_loss + member, first, inside)
    tl.store(reason + member, tl.where(is_new, why, why_before), inside)
    tl.store(diverged_at + member, tl.where(is_new, now, tl.load(diverged_at + member)), inside)

    inverse = 1 + tl.maximum(now - inverse_start, 0.0) / inverse_steps
    rate = start * tl.exp(decay * now) / inverse * tl.load(plateau + member)
    tl.store(last_loss + member, tl.where(was_active, exact_loss, tl.load(last_loss + member)), inside)
    tl.store(rates + member, tl.where(is_active, rate, tl.load(rates + member)), inside)
    added = tl.where(is_active, exact_loss, 0.0)
    tl.store(loss_sum + member, tl.load(loss_sum + member) + added, inside)
    tl.store(loss_count + member, tl.load(loss_count + member) + is_active.to(tl.float64), inside)

    num_updates = (now + 1).to(tl.float64)
    first_lack = tl.where(is_corrected > 0, 1 - tl.exp(log_first_keep * num_updates), 1.0)
    second_lack = tl.where(is_corrected > 0, 1 - tl.exp(log_second_keep * num_updates), 1.0)
    row = table + member * COLUMNS
    share = tl.where(norm > longest, longest / tl.where(norm > 0, norm, 1.0), 1.0).to(tl.float32)
    tl.store(row, tl.where(is_active, share, 0.0), inside)
    tl.store(row + 1, largest.to(tl.float32), inside)
    tl.store(row + 2, tl.where(is_active, l2, 0.0).to(tl.float32), inside)
    tl.store(row + 3, tl.where(is_active, first_keep, 1.0).to(tl.float32), inside)
    tl.store(row + 4, first_add.to(tl.float32), inside)
    tl.store(row + 5, tl.where(is_active, second_keep, 1.0).to(tl.float32), inside)
    tl.store(row + 6, second_add.to(tl.float32), inside)
    tl.store(row + 7, tl.sqrt(second_lack).to(tl.float32), inside)
    tl.store(row + 8, epsilon.to(tl.float32), inside)
    tl.store(row + 9, tl.where(is_active, rate / first_lack, 0.0).to(tl.float32), inside)


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
    member = tl.program_id(1).to(tl.int64)
    row = table + member * COLUMNS
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
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
