"""The kernel that clips and updates in one go does what `limit` and `update` do one after another.

On a machine with a GPU it runs there; without one Triton's interpreter runs it where it is asked for, as `make test`
does.
"""

import os
from importlib.util import find_spec

import pytest
import torch

from rnnlab import Hyperparameters
from rnnlab.training.fused import BLOCK, fused_learn, has_fused
from rnnlab.training.gradients import Limits, limit
from rnnlab.training.optimisers import Coefficients, Moments, update
from rnnlab.training.step import member_norms

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if IS_INTERPRETED else "cuda"
NUM_STEPS = 5

pytestmark = [
    pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed"),
    pytest.mark.skipif(
        not IS_INTERPRETED and not torch.cuda.is_available(),
        reason="no GPU; TRITON_INTERPRET=1 runs the kernel in Triton's interpreter",
    ),
]

ALL_KINDS = [
    Hyperparameters(optimiser="sgd", learning_rate=0.1, clip_norm=0.5),
    Hyperparameters(optimiser="momentum", learning_rate=0.05, momentum=0.8, clip_value=0.3),
    Hyperparameters(optimiser="rmsprop", learning_rate=0.01, momentum=0.95, l2=0.1),
    Hyperparameters(optimiser="adam", learning_rate=0.02, momentum=0.7, second_momentum=0.9),
    Hyperparameters(optimiser="adam", learning_rate=0.02),  # stands still
]


def path(members: list[Hyperparameters], width: int, *, fused: bool) -> list[torch.Tensor]:
    """Numbers and averages after every step; the gradients of who stands still are not finite."""
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(len(members), width, generator=generator).to(DEVICE)
    coefficients = Coefficients.of(members, dtype=torch.float32, device=DEVICE)
    limits = Limits.of(members, dtype=torch.float32, device=DEVICE)
    moments = Moments.zeros(numbers, coefficients)
    rates = torch.tensor([[member.learning_rate] for member in members], dtype=torch.float64, device=DEVICE)
    is_active = torch.tensor([[number < 4] for number in range(len(members))], device=DEVICE)
    found: list[torch.Tensor] = []
    for step in range(NUM_STEPS):
        gradients = torch.randn(numbers.shape, generator=generator).to(DEVICE)
        gradients[4:, ::2], gradients[4:, 1::2] = torch.nan, torch.inf
        norms = member_norms(gradients)[:, None]
        now = {"rates": rates, "num_updates": torch.tensor(step + 1, device=DEVICE), "is_active": is_active}
        if fused:
            fused_learn(numbers, gradients, norms, moments, limits, coefficients, **now)
        else:
            limit(gradients, norms, numbers, limits, is_active)
            update(numbers, gradients, moments, coefficients, **now)
        found += [numbers.cpu().clone(), moments.first.cpu().clone(), moments.second.cpu().clone()]
    return found


@pytest.mark.parametrize("width", [1, 7, BLOCK + 3])
@pytest.mark.parametrize("kinds", [slice(0, 5), slice(0, 2), slice(1, 2), slice(3, 4)])
def test_kernel_does_what_the_formulas_do(kinds: slice, width: int) -> None:
    members = ALL_KINDS[kinds]
    for ours, wanted in zip(path(members, width, fused=True), path(members, width, fused=False), strict=True):
        assert wanted.isfinite().all()
        torch.testing.assert_close(ours, wanted, rtol=2e-6, atol=1e-7)


def test_who_stands_still_keeps_every_bit() -> None:
    first, *_, last, _, _ = path(ALL_KINDS, 9, fused=True)
    assert torch.equal(first[4], last[4])
    assert not torch.equal(first[3], last[3])


def test_it_is_asked_for_on_a_gpu_only() -> None:
    assert not has_fused(torch.device("cpu"))
    assert has_fused(torch.device("cuda", 0))
