"""What members learn from the gradients of a step: clipping, regularisation and update, and which have diverged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rnnlab.training.gradients import Limits, limit
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.training.optimisers import Coefficients, update
from rnnlab.training.schedules import Schedule
from rnnlab.training.state import TrainingState


@dataclass(frozen=True, eq=False)
class Rules:
    """How the members of a population learn.

    Args:
        coefficients: of their optimisers.
        schedule: of their learning rates.
        limits: of their gradients.
        explosion: how many times larger than 1 + the first loss a loss may be, [P] in float64.
    """

    coefficients: Coefficients
    schedule: Schedule
    limits: Limits
    explosion: Tensor

    @classmethod
    def of(cls, members: Sequence[Hyperparameters], *, dtype: torch.dtype, device: torch.device | str) -> "Rules":
        """Those of a population."""
        return cls(
            coefficients=Coefficients.of(members, dtype=dtype, device=device),
            schedule=Schedule.of(members, device),
            limits=Limits.of(members, dtype=dtype, device=device),
            explosion=torch.tensor([member.explosion for member in members], dtype=torch.float64, device=device),
        )


def learn(state: TrainingState, losses: Tensor, gradients: Tensor, rules: Rules) -> None:
    """Update every member that has not diverged, and record its loss and learning rate.

    Args:
        state: of the population; it is changed in place.
        losses: of this step, [P].
        gradients: [P, N]; they are used up.
        rules: of the members.
    """
    norms = member_norms(gradients)
    was_active = state.is_active
    is_active = state.feasibility.look(losses, norms, rules.explosion, state.step, was_active)
    rates = rules.schedule.rates(state.step, state.plateau)
    now: Any = {"rates": rates[:, None], "num_updates": state.step + 1, "is_active": is_active[:, None]}
    limit(gradients, norms[:, None], state.numbers, rules.limits, is_active[:, None])
    update(state.numbers, gradients, state.moments, rules.coefficients, **now)
    state.losses.copy_(torch.where(was_active, losses.double(), state.losses))
    state.rates.copy_(torch.where(is_active, rates, state.rates))
    state.loss_sum.add_(torch.where(is_active, losses.double(), 0.0))
    state.loss_count.add_(is_active)
    state.step.add_(1)


def member_norms(gradients: Tensor) -> Tensor:
    """The length of each member's gradient, [P] of [P, N].

    Squares are added up in float64: over hundreds of steps gradients of 1e30 are nothing unusual, and clipping can use
    them as long as their norm is finite.
    """
    # torch adds up a single row in another order: a member alone must get the norm that it gets beside others
    rows = gradients if len(gradients) > 1 else gradients.repeat(2, 1)
    return torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)[: len(gradients)].to(gradients.dtype)
