"""Divergence (C72): which members' training has run away, found on the device at the step where it happens."""

from dataclasses import dataclass

import torch
from torch import Tensor

REASONS = ("", "the loss is not finite", "the gradient is not finite", "the loss exploded")
"""Why a member is infeasible, in words, by number; 0 is feasible."""


@dataclass(eq=False)
class Feasibility:
    """Which members have diverged, when and why; each [P].

    Args:
        reason: a number in REASONS.
        step: the step at which a member diverged, counted from 0; -1 if it has not.
        first_loss: the loss of the first step, by which an explosion is measured; NaN before that step.
    """

    reason: Tensor
    step: Tensor
    first_loss: Tensor

    @classmethod
    def unknown(cls, population: int, device: torch.device | str) -> "Feasibility":
        """Before the first step."""
        return cls(
            torch.zeros(population, dtype=torch.int64, device=device),
            torch.full((population,), -1, dtype=torch.int64, device=device),
            torch.full((population,), torch.nan, dtype=torch.float64, device=device),
        )

    def look(self, losses: Tensor, norms: Tensor, explosion: Tensor, step: Tensor, is_active: Tensor) -> Tensor:
        """Mark members that diverge at this step, and return which are still active; nothing waits for the device.

        Args:
            losses, norms: the losses and the norms of the gradients at this step, [P].
            explosion: how many times larger than 1 + the first loss a loss may be, [P].
            step: the number of the step; on the device.
            is_active: which members were training until now, [P].
        """
        self.first_loss.copy_(torch.where(self.first_loss.isnan(), losses.double(), self.first_loss))
        has_exploded = losses > explosion * (1 + self.first_loss)
        reason = torch.where(has_exploded, 3, torch.zeros_like(self.reason))
        reason = torch.where(norms.isfinite(), reason, 2)
        reason = torch.where(losses.isfinite(), reason, 1)
        is_new = is_active & (reason > 0)
        self.reason.copy_(torch.where(is_new, reason, self.reason))
        self.step.copy_(torch.where(is_new, step, self.step))
        return is_active & ~is_new
