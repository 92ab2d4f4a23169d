"""Each optimiser is torch.optim's own, step by step, alone and beside others (C29, C32, C34)."""

from decimal import Decimal

import pytest
import torch

from rnnlab import Hyperparameters
from rnnlab.training.gradients import Limits, limit
from rnnlab.training.optimisers import OPTIMISERS, Coefficients, Moments, _root, update

NUM_STEPS = 25
MEMBERS = {
    "sgd": Hyperparameters(optimiser="sgd", learning_rate=0.1),
    "momentum": Hyperparameters(optimiser="momentum", learning_rate=0.05, momentum=0.8),
    "rmsprop": Hyperparameters(optimiser="rmsprop", learning_rate=0.01, momentum=0.95, epsilon=1e-6),
    "adam": Hyperparameters(optimiser="adam", learning_rate=0.02, momentum=0.7, second_momentum=0.9, epsilon=1e-7),
}


def torch_optimiser(member: Hyperparameters, parameter: torch.nn.Parameter) -> torch.optim.Optimizer:
    rate, momentum, epsilon = member.learning_rate, member.momentum, member.epsilon
    if member.optimiser == "sgd":
        return torch.optim.SGD([parameter], rate)
    if member.optimiser == "momentum":
        return torch.optim.SGD([parameter], rate, momentum=momentum)
    if member.optimiser == "rmsprop":
        return torch.optim.RMSprop([parameter], rate, alpha=momentum, eps=epsilon)
    return torch.optim.Adam([parameter], rate, betas=(momentum, member.second_momentum), eps=epsilon)


def gradients(numbers: torch.Tensor, step: int) -> torch.Tensor:
    """Of a bowl that is steeper along later axes, and tilts from step to step."""
    steepness = torch.arange(1, numbers.shape[-1] + 1, dtype=numbers.dtype)
    return steepness * numbers + torch.sin(steepness + step)


def start() -> torch.Tensor:
    return torch.randn(5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def torch_path(member: Hyperparameters) -> list[torch.Tensor]:
    parameter = torch.nn.Parameter(start())
    optimiser = torch_optimiser(member, parameter)
    path: list[torch.Tensor] = []
    for step in range(NUM_STEPS):
        parameter.grad = gradients(parameter.detach(), step)
        optimiser.step()
        path.append(parameter.detach().clone())
    return path


def our_path(members: list[Hyperparameters]) -> list[torch.Tensor]:
    numbers = start().expand(len(members), -1).clone()
    coefficients = Coefficients.of(members, dtype=torch.float64, device="cpu")
    moments = Moments.zeros(numbers, coefficients)
    rates = torch.tensor([[member.learning_rate] for member in members], dtype=torch.float64)
    active = torch.ones(len(members), 1, dtype=torch.bool)
    path: list[torch.Tensor] = []
    for step in range(NUM_STEPS):
        done = torch.tensor(step + 1)
        slopes = gradients(numbers, step)
        update(numbers, slopes, moments, coefficients, rates=rates, num_updates=done, is_active=active)
        path.append(numbers.clone())
    return path


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimiser_is_that_of_torch_step_by_step(name: str) -> None:
    for ours, theirs in zip(our_path([MEMBERS[name]]), torch_path(MEMBERS[name]), strict=True):
        torch.testing.assert_close(ours[0], theirs, rtol=1e-12, atol=1e-14)


def test_members_with_different_optimisers_do_not_mix() -> None:
    together = our_path(list(MEMBERS.values()))
    for number, member in enumerate(MEMBERS.values()):
        for ours, theirs in zip(together, torch_path(member), strict=True):
            torch.testing.assert_close(ours[number], theirs, rtol=1e-12, atol=1e-14)


def test_inactive_member_keeps_numbers_and_averages() -> None:
    member = MEMBERS["adam"]
    numbers = torch.ones(2, 3, dtype=torch.float64)
    coefficients = Coefficients.of([member, member], dtype=torch.float64, device="cpu")
    moments = Moments(torch.full_like(numbers, 0.5), torch.full_like(numbers, 0.25))
    slopes = torch.tensor([[1.0, 2.0, 3.0], [torch.nan, torch.inf, 1.0]], dtype=torch.float64)
    limits = Limits.of([member, member], dtype=torch.float64, device="cpu")
    rates = torch.full((2, 1), 0.1, dtype=torch.float64)
    active = torch.tensor([[True], [False]])
    limit(slopes, slopes.norm(dim=1, keepdim=True), numbers, limits, active)
    update(numbers, slopes, moments, coefficients, rates=rates, num_updates=torch.tensor(1), is_active=active)
    assert (numbers[0] < 1).all()
    assert torch.equal(numbers[1], torch.ones(3, dtype=torch.float64))
    for average, before in ((moments.first, 0.5), (moments.second, 0.25)):
        assert (average[0] != before).all()
        assert (average[1] == before).all()


def test_without_adam_and_rmsprop_there_is_no_second_average() -> None:
    coefficients = Coefficients.of([MEMBERS["sgd"], MEMBERS["momentum"]], dtype=torch.float64, device="cpu")
    assert Moments.zeros(torch.zeros(2, 7), coefficients).second.shape == (2, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_roots_are_correctly_rounded_wherever_they_lie(dtype: torch.dtype) -> None:
    """So a member's do not depend on who is trained beside it; and they are written where they shall be."""
    values = torch.rand(3, 1999, generator=torch.Generator().manual_seed(0), dtype=dtype) ** 8
    values[0, :3] = torch.tensor([0.0, torch.inf, torch.nan], dtype=dtype)
    out = torch.empty_like(values)
    assert _root(values, out=out) is out
    exact = [
        [number if number != number else float(Decimal(number).sqrt()) for number in row] for row in values.tolist()
    ]
    torch.testing.assert_close(out, torch.tensor(exact, dtype=dtype), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(_root(values[1:2].clone(), out=torch.empty(1, 1999, dtype=dtype)), out[1:2])
