"""How learning rates fall: exponentially (C31), inversely (P), and on a plateau of the validation score (P)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rnnlab.training.hyperparameters import Hyperparameters


@dataclass(frozen=True, eq=False)
class Schedule:
    """The learning rates of all members as a function of the step; every tensor [P] in float64."""

    start: Tensor
    decay_per_step: Tensor  # the logarithm of the exponential decay's factor for one step
    inverse_steps: Tensor
    inverse_start: Tensor

    @classmethod
    def of(cls, members: Sequence[Hyperparameters], device: torch.device | str) -> "Schedule":
        """That of a population."""
        columns = [
            [member.learning_rate for member in members],
            [member.decay_factor for member in members],
            [float(member.num_steps) for member in members],
            [member.inverse_decay_steps or torch.inf for member in members],
            [float(member.inverse_decay_start) for member in members],
        ]
        start, factor, num_steps, inverse_steps, inverse_start = torch.tensor(
            columns, dtype=torch.float64, device=device
        )
        return cls(start, factor.log() / num_steps, inverse_steps, inverse_start)

    def rates(self, step: Tensor, plateau: Tensor) -> Tensor:
        """The learning rates at a step, counted from 0.

        Args:
            step: a number, on the device.
            plateau: what each member's rate was multiplied by on plateaus so far, [P].

        >>> member = Hyperparameters(learning_rate=1.0, decay_factor=0.01, num_steps=100)
        >>> schedule = Schedule.of([member], "cpu")
        >>> [round(schedule.rates(torch.tensor(step), torch.ones(1)).item(), 6) for step in (0, 50, 100)]
        [1.0, 0.1, 0.01]
        """
        exponential = (self.decay_per_step * step).exp()
        inverse = 1 + (step - self.inverse_start).clamp(min=0) / self.inverse_steps
        return self.start * exponential / inverse * plateau
