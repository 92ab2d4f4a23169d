"""Losses against torch's own, and sums of them."""

import pytest
import torch
from torch.nn import functional

from rnnlab.tasks.losses import binary_cross_entropy, cross_entropy, last_squared_error, mean, squared_error, totals
from tests.tasks.contract import generator


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=generator(), dtype=torch.float64)


@pytest.mark.parametrize("members", [(), (3,)])
def test_cross_entropy_is_that_of_torch(members: tuple[int, ...]) -> None:
    logits, targets = random(*members, 4, 5, 6), torch.randint(6, (4, 5), generator=generator())
    expected = functional.cross_entropy(
        logits.reshape(-1, 6), targets.expand(*members, 4, 5).reshape(-1), reduction="none"
    )
    torch.testing.assert_close(cross_entropy(logits, targets).reshape(-1), expected)
    torch.testing.assert_close(cross_entropy(logits, targets.expand(*members, 4, 5).short()).reshape(-1), expected)


def test_binary_cross_entropy_is_that_of_torch_and_stays_finite() -> None:
    logits, targets = 100 * random(3, 7), torch.randint(2, (7,), generator=generator())
    expected = functional.binary_cross_entropy_with_logits(logits, targets.double().expand(3, 7), reduction="none")
    torch.testing.assert_close(binary_cross_entropy(logits, targets), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_losses_of_a_member_do_not_depend_on_its_place(dtype: torch.dtype) -> None:
    """Torch rounds the last numbers of a tensor, too few for a vector, differently in some functions."""
    whole = torch.randn(97, generator=torch.Generator().manual_seed(0), dtype=dtype) * 4
    targets = (torch.arange(97) % 3 == 0).float()

    def found(part: slice) -> tuple[torch.Tensor, torch.Tensor]:
        logits = whole[part].clone().requires_grad_()
        losses = binary_cross_entropy(logits, targets[part])
        return losses.detach(), torch.autograd.grad(losses.sum(), logits)[0]

    for start in range(90):
        part = slice(start, start + 7)
        for alone, among_others in zip(found(part), found(slice(0, 97)), strict=True):
            assert torch.equal(alone, among_others[part])


def test_squared_errors_are_means_over_units_of_the_last_step() -> None:
    outputs, targets = random(2, 3, 5, 4), random(3, 4)
    expected = ((outputs[:, :, 4] - targets) ** 2).sum(-1) / 4
    torch.testing.assert_close(last_squared_error(outputs, targets), expected)
    torch.testing.assert_close(squared_error(outputs[:, :, 4], targets).mean(-1), expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("num_axes", [1, 2])
def test_means_and_totals_are_those_of_a_loop(num_axes: int, weighted: bool) -> None:
    values, weights = random(2, 3, 4), torch.randint(3, (3, 4), generator=generator()).float()
    sums, counts = totals(values, weights if weighted else None, num_axes=num_axes)
    means = mean(values, weights if weighted else None, num_axes=num_axes)
    for member in range(2):
        for row in range(3):
            places = [(row, at) for at in range(4)] if num_axes == 1 else [(i, j) for i in range(3) for j in range(4)]
            numbers = [(values[member][place].item(), weights[place].item() if weighted else 1.0) for place in places]
            at = (member, row) if num_axes == 1 else (member,)
            expected = sum(value * weight for value, weight in numbers)
            assert sums[at].item() == pytest.approx(expected)
            assert counts[at].item() == sum(weight for _, weight in numbers)
            assert means[at].item() == pytest.approx(expected / sum(weight for _, weight in numbers))


def test_totals_stay_exact_where_single_precision_would_not() -> None:
    values = torch.full((2**25,), 1.0)
    values[0] = 2.0**25  # in float32, adding 1 to it changes nothing
    sums, counts = totals(values)
    assert sums.item() == 2**26 - 1
    assert counts.item() == 2**25
    assert totals(values > 0)[0].item() == 2**25
    assert mean(values.float()).dtype == torch.float32
