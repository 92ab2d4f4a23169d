"""The kernels that judge, clip and update do what the formulas of `learning.learn` do one after another.

On a machine with a GPU they run there; without one Triton's interpreter runs them where it is asked for, as `make test`
does.
"""

import os
from collections.abc import Callable
from importlib.util import find_spec

import pytest
import torch

from rnnlab import Hyperparameters
from rnnlab.training import fused
from rnnlab.training.fused import BLOCK, FusedLearning, has_fused
from rnnlab.training.learning import Rules, learn
from rnnlab.training.state import TrainingState

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if IS_INTERPRETED else "cuda"
NUM_STEPS = 7

pytestmark = [
    pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed"),
    pytest.mark.skipif(
        not IS_INTERPRETED and not torch.cuda.is_available(),
        reason="no GPU; TRITON_INTERPRET=1 runs the kernels in Triton's interpreter",
    ),
]


def members() -> list[Hyperparameters]:
    """Every optimiser, limit and schedule; what becomes of the last five is said in `gradients_at`."""
    return [
        Hyperparameters(optimiser="sgd", learning_rate=0.1, clip_norm=0.5, decay_factor=0.1, num_steps=20),
        Hyperparameters(optimiser="momentum", learning_rate=0.05, momentum=0.8, clip_value=0.3),
        Hyperparameters(optimiser="rmsprop", learning_rate=0.01, momentum=0.95, l2=0.1, inverse_decay_steps=3.0),
        Hyperparameters(optimiser="adam", learning_rate=0.02, momentum=0.7, second_momentum=0.9),
        Hyperparameters(
            optimiser="adam", learning_rate=0.02, momentum=0.0, inverse_decay_steps=2.0, inverse_decay_start=3
        ),
        Hyperparameters(optimiser="adam", learning_rate=0.02, num_steps=3),  # ends
        Hyperparameters(optimiser="adam", learning_rate=0.02, l2=0.1),  # its gradient is not finite from step 2 on
        Hyperparameters(optimiser="sgd", learning_rate=0.02),  # its loss is no number at step 4
        Hyperparameters(optimiser="rmsprop", learning_rate=0.02, explosion=10.0),  # its loss explodes at step 5
        Hyperparameters(optimiser="adam", learning_rate=0.02, clip_norm=0.1),  # its gradient is zero
    ]


def losses_at(step: int, kinds: slice, generator: torch.Generator) -> torch.Tensor:
    losses = torch.rand(10, generator=generator)
    losses[7] = torch.nan if step == 4 else losses[7]
    if step >= 3:  # ten times 1 and the first loss is more than 10
        losses[8] = 9.9 if step < 5 else 30.0
    return losses[kinds]


def gradients_at(step: int, width: int, kinds: slice, generator: torch.Generator) -> torch.Tensor:
    gradients = torch.randn(10, width, generator=generator)
    if step >= 2:
        gradients[6, ::2], gradients[6, 1::2] = torch.nan, torch.inf
    gradients[9] = 0.0
    return gradients[kinds]


def path(kinds: slice, width: int, *, is_fused: bool) -> list[dict[str, torch.Tensor]]:
    """All that training changes, after every step."""
    chosen = members()[kinds]
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(10, width, generator=generator)[kinds].to(DEVICE)
    rules = Rules.of(chosen, dtype=torch.float32, device=DEVICE)
    state = TrainingState.initial(numbers, chosen, rules.coefficients)
    state.plateau.mul_(torch.rand(10, generator=generator, dtype=torch.float64)[kinds].to(DEVICE))
    kernels = FusedLearning(rules)
    found: list[dict[str, torch.Tensor]] = []
    for step in range(NUM_STEPS):
        losses = losses_at(step, kinds, generator).to(DEVICE)
        gradients = gradients_at(step, width, kinds, generator).to(DEVICE)
        if is_fused:
            kernels.learn(state, losses, gradients)
        else:
            learn(state, losses, gradients, rules)
        found.append({name: tensor.cpu().clone() for name, tensor in state.tensors().items()})
    return found


@pytest.mark.parametrize("width", [1, 7, BLOCK + 3])
@pytest.mark.parametrize("kinds", [slice(0, 10), slice(0, 2), slice(1, 2), slice(3, 4)])
def test_kernels_do_what_the_formulas_do(kinds: slice, width: int) -> None:
    assert_same(path(kinds, width, is_fused=True), path(kinds, width, is_fused=False))


def test_members_may_be_in_several_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "MEMBERS", 4)
    assert_same(path(slice(0, 10), 7, is_fused=True), path(slice(0, 10), 7, is_fused=False))


def assert_same(found: list[dict[str, torch.Tensor]], wanted: list[dict[str, torch.Tensor]]) -> None:
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.keys() == theirs.keys()
        for name, tensor in ours.items():
            exact = tensor.dtype in (torch.float64, torch.int64)
            tolerance = {"rtol": 1e-12, "atol": 0.0} if exact else {"rtol": 2e-6, "atol": 1e-7}
            torch.testing.assert_close(
                tensor, theirs[name], **tolerance, equal_nan=True, msg=lambda m, n=name: f"{n}: {m}"
            )


def test_every_way_to_diverge_was_there() -> None:
    last = path(slice(0, 10), 3, is_fused=True)[-1]
    assert last["infeasible.reason"].tolist() == [0, 0, 0, 0, 0, 0, 2, 1, 3, 0]
    assert last["infeasible.step"].tolist() == [-1, -1, -1, -1, -1, -1, 2, 4, 5, -1]
    assert last["loss_count"].tolist() == [7, 7, 7, 7, 7, 3, 2, 4, 5, 7]


def test_who_stands_still_keeps_every_bit() -> None:
    states = path(slice(0, 10), 9, is_fused=True)
    for member, since in ((5, 2), (6, 1), (7, 3), (8, 4)):
        assert torch.equal(states[since]["numbers"][member], states[-1]["numbers"][member])
        assert torch.equal(states[since]["moments.first"][member], states[-1]["moments.first"][member])
        assert not torch.equal(states[since - 1]["numbers"][member], states[since]["numbers"][member])


def test_it_is_asked_for_on_a_gpu_only() -> None:
    assert not has_fused(torch.device("cpu"))
    assert has_fused(torch.device("cuda", 0))


def test_numbers_are_on_the_axis_that_has_room_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid has 65,535 programs on its second axis: members are there, for one may have 67 million numbers."""
    grids: list[tuple[int, ...]] = []

    class Kernel:
        def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
            grids.append(grid)
            return lambda *arguments, **options: None

    monkeypatch.setattr(fused, "_kernels", lambda: (Kernel(), Kernel()))
    path(slice(0, 2), 3 * BLOCK + 1, is_fused=True)
    assert set(grids) == {(1,), (4, 2)}
