"""The kernels of the cross entropy give the losses and gradients of its formula.

On a machine with a GPU they run there; without one Triton's interpreter runs them where it is asked for, as `make test`
does.
"""

import os
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from rnnlab.tasks import fused_cross_entropy
from rnnlab.tasks.fused_cross_entropy import TILE, FusedCrossEntropy, can_be_fused
from rnnlab.tasks.losses import cross_entropy

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if IS_INTERPRETED else "cuda"

pytestmark = [
    pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed"),
    pytest.mark.skipif(
        not IS_INTERPRETED and not torch.cuda.is_available(),
        reason="no GPU; TRITON_INTERPRET=1 runs the kernels in Triton's interpreter",
    ),
]


def formula(logits: Tensor, targets: Tensor) -> Tensor:
    """In float64, on the CPU."""
    exact = logits.double().cpu()
    wanted = exact.gather(-1, targets.cpu().expand(exact.shape[:-1])[..., None])[..., 0]
    return exact.logsumexp(-1) - wanted


def both(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Losses and gradients of the kernels, of logits as they lie, and those of the formula."""
    weights = torch.rand(logits.shape[:-1], generator=torch.Generator().manual_seed(2))
    ours = logits.detach().requires_grad_()
    losses = FusedCrossEntropy.apply(ours, targets.expand(logits.shape[:-1]))
    (losses * weights.to(DEVICE)).sum().backward()
    theirs = logits.detach().double().cpu().requires_grad_()
    wanted = formula(theirs, targets)
    (wanted * weights).sum().backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    return losses, ours.grad, wanted, theirs.grad


def some(shape: tuple[int, ...], own: tuple[int, ...] | None = None) -> tuple[Tensor, Tensor]:
    """Logits, and targets that all members share, or have of their own."""
    generator = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(shape, generator=generator)
    targets = torch.randint(shape[-1], shape[1:-1] if own is None else own, generator=generator)
    return logits.to(DEVICE), targets.to(DEVICE)


SHAPES = [
    (2, 3),
    (7, 1),
    (2, 3, 10),
    (3, 2, 5, 27),
    (2, 1, 2, 2, 9),
    (1, 2, 3, TILE),
    (2, 2, 2, TILE + 1),
    (2, 3, 5001),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernels_agree_with_the_formula(shape: tuple[int, ...]) -> None:
    losses, gradient, wanted, wanted_gradient = both(*some(shape))
    assert losses.shape == shape[:-1]
    torch.testing.assert_close(losses.double().cpu(), wanted, rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(gradient.double().cpu(), wanted_gradient, rtol=1e-5, atol=1e-6)


def test_members_may_have_targets_of_their_own() -> None:
    losses, gradient, wanted, wanted_gradient = both(*some((3, 4, 6), own=(3, 4)))
    torch.testing.assert_close(losses.double().cpu(), wanted, rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(gradient.double().cpu(), wanted_gradient, rtol=1e-5, atol=1e-6)


def test_rows_may_lie_anywhere() -> None:
    """Turned axes, parts of sequences, and classes that are not neighbours."""
    logits, _ = some((3, 8, 4, 6))
    for view in (logits.transpose(1, 2), logits[:, 2:, 1:], logits.transpose(2, 3), logits[..., ::2]):
        classes = torch.arange(view[0, ..., 0].numel(), device=DEVICE).view(view.shape[1:-1]) % view.shape[-1]
        losses, gradient, wanted, wanted_gradient = both(view, classes)
        torch.testing.assert_close(losses.double().cpu(), wanted, rtol=1e-5, atol=2e-6)
        torch.testing.assert_close(gradient.double().cpu(), wanted_gradient, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")  # of numpy, interpreting
def test_large_logits_are_no_trouble_and_infinite_ones_show() -> None:
    logits, targets = some((1, 4, 5))
    large = logits + torch.tensor([1e4, -1e4, 0.0, 80.0], device=DEVICE)[:, None]
    losses, gradient, wanted, wanted_gradient = both(large, targets)
    torch.testing.assert_close(losses.double().cpu(), wanted, rtol=1e-5, atol=2e-3)  # eight digits of ten thousand
    torch.testing.assert_close(gradient.double().cpu(), wanted_gradient, rtol=1e-2, atol=2e-3)
    large[0, 0, 3], large[0, 1, 3] = torch.inf, torch.nan
    targets[:2] = 0
    of_infinite = FusedCrossEntropy.apply(large, targets.expand(1, 4)).cpu()
    assert of_infinite[0, 0] == torch.inf
    assert of_infinite[0, 1].isnan()
    assert of_infinite[0, 2:].isfinite().all()


@pytest.mark.parametrize("target", [-1, 5])
def test_loss_of_a_target_that_is_no_class_is_no_number(target: int) -> None:
    logits, targets = some((2, 3, 5))
    targets[1] = target
    losses = FusedCrossEntropy.apply(logits, targets.expand(2, 3)).cpu()
    assert losses.isnan().tolist() == [[False, True, False]] * 2


def test_gradients_have_gradients() -> None:
    logits, targets = some((2, 3, 5))
    found = []
    for loss_of, values in ((FusedCrossEntropy.apply, logits), (formula, logits.double().cpu())):
        values = values.detach().requires_grad_()
        losses = loss_of(values, targets.to(values.device).expand(2, 3))
        (gradient,) = torch.autograd.grad(losses.square().sum(), values, create_graph=True)
        found.append(torch.autograd.grad(gradient.square().sum(), values)[0].double().cpu())
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def test_losses_take_the_kernels_where_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, targets = some((2, 3, 5))
    assert can_be_fused(logits) == (DEVICE == "cuda")
    assert not can_be_fused(logits.double())
    assert not can_be_fused(logits[:0])
    plain = cross_entropy(logits.cpu(), targets.cpu())
    monkeypatch.setattr("rnnlab.tasks.losses.can_be_fused", lambda logits: True)
    calls: list[Tensor] = []
    monkeypatch.setattr(fused_cross_entropy, "_with_axes", _counted(fused_cross_entropy._with_axes, calls))  # pyright: ignore[reportPrivateUsage]
    torch.testing.assert_close(cross_entropy(logits, targets.int()).cpu(), plain)
    assert len(calls) == 2


def _counted(function, calls):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
    def call(values: Tensor, num_own: int) -> Tensor:
        calls.append(values)
        return function(values, num_own)

    return call
