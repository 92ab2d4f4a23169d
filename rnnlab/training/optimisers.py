"""SGD, momentum, RMSProp and Adam as one formula with coefficients for each member (C29, C32).

With gradient g and the numbers w of a member, a step is

    first  = first_keep · first + first_add · g
    second = second_keep · second + second_add · g²
    w      = w - rate / correction_1 · first / (√(second / correction_2) + epsilon)

The four optimisers are four rows of coefficients, so members of one population may differ in them. Each row gives what
the optimiser of that name in torch.optim does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from rnnlab.training.hyperparameters import Hyperparameters


class Row(NamedTuple):
    """The coefficients of one member."""

    first_keep: float
    first_add: float
    second_keep: float
    second_add: float
    epsilon: float
    is_corrected: float  # 1 where the two averages are corrected for having begun at zero


def _sgd(member: "Hyperparameters") -> Row:
    return Row(0.0, 1.0, 0.0, 0.0, 1.0, 0.0)  # the square root of nothing plus 1 divides by 1


def _momentum(member: "Hyperparameters") -> Row:
    return Row(member.momentum, 1.0, 0.0, 0.0, 1.0, 0.0)


def _rmsprop(member: "Hyperparameters") -> Row:
    return Row(0.0, 1.0, member.momentum, 1 - member.momentum, member.epsilon, 0.0)


def _adam(member: "Hyperparameters") -> Row:
    first, second = member.momentum, member.second_momentum
    return Row(first, 1 - first, second, 1 - second, member.epsilon, 1.0)


OPTIMISERS: dict[str, Callable[["Hyperparameters"], Row]] = {
    "sgd": _sgd,
    "momentum": _momentum,
    "rmsprop": _rmsprop,
    "adam": _adam,
}
"""The coefficients of each optimiser, by name."""


@dataclass(frozen=True, eq=False)
class Coefficients:
    """The coefficients of all members, each [P, 1] in the numbers' dtype; those of powers in float64."""

    first_keep: Tensor
    first_add: Tensor
    second_keep: Tensor
    second_add: Tensor
    epsilon: Tensor
    exact_first_keep: Tensor
    exact_second_keep: Tensor
    is_corrected: Tensor
    uses_second: bool  # whether any member has a second average: the others need no memory for it

    @classmethod
    def of(
        cls, members: Sequence["Hyperparameters"], *, dtype: torch.dtype, device: torch.device | str
    ) -> "Coefficients":
        """Those of a population."""
        rows = [OPTIMISERS[member.optimiser](member) for member in members]
        exact = torch.tensor(rows, dtype=torch.float64, device=device).T[..., None]  # [coefficient, P, 1]
        first_keep, first_add, second_keep, second_add, epsilon, _ = exact.to(dtype)
        return cls(
            first_keep=first_keep,
            first_add=first_add,
            second_keep=second_keep,
            second_add=second_add,
            epsilon=epsilon,
            exact_first_keep=exact[0],
            exact_second_keep=exact[2],
            is_corrected=exact[5] > 0,
            uses_second=any(row.second_add for row in rows),
        )

    def corrections(self, num_updates: Tensor) -> tuple[Tensor, Tensor]:
        """What the averages of Adam lack after so many updates, the one at hand included, [P, 1]; 1 for others."""
        lacks = [1 - keep.pow(num_updates) for keep in (self.exact_first_keep, self.exact_second_keep)]
        first, second = (torch.where(self.is_corrected, lack, 1.0) for lack in lacks)
        return first, second


@dataclass(eq=False)
class Moments:
    """The two averages of all members, [P, N]; the second has no columns where no member needs it."""

    first: Tensor
    second: Tensor

    @classmethod
    def zeros(cls, numbers: Tensor, coefficients: Coefficients) -> "Moments":
        """Before the first step."""
        width = numbers.shape[1] if coefficients.uses_second else 0
        return cls(torch.zeros_like(numbers), numbers.new_zeros(len(numbers), width))


def update(
    numbers: Tensor,
    gradients: Tensor,
    moments: Moments,
    coefficients: Coefficients,
    *,
    rates: Tensor,
    num_updates: Tensor,
    is_active: Tensor,
) -> None:
    """Change numbers and averages by one step, in place; the gradients are used up.

    Args:
        numbers, gradients: [P, N]; the gradients of members that are not active are zero.
        moments: the averages so far.
        coefficients: of all members.
        rates: the learning rates, [P, 1] in float64.
        num_updates: how many updates there will have been, this one included; a number, on the device.
        is_active: [P, 1]; other members keep their numbers and averages.
    """
    first_lack, second_lack = coefficients.corrections(num_updates)
    # to choose among coefficients takes no time; to choose among numbers would go through all of them
    rates = torch.where(is_active, rates / first_lack, 0.0).to(numbers.dtype)
    moments.first.mul_(torch.where(is_active, coefficients.first_keep, 1.0))
    moments.first.addcmul_(gradients, coefficients.first_add)
    if not coefficients.uses_second:
        numbers.addcmul_(moments.first, rates, value=-1)
        return
    moments.second.mul_(torch.where(is_active, coefficients.second_keep, 1.0))
    moments.second.addcmul_(gradients.square_(), coefficients.second_add)
    divisor = _root(moments.second, out=gradients)
    divisor.div_(second_lack.sqrt().to(divisor.dtype)).add_(coefficients.epsilon)
    change = torch.div(moments.first, divisor, out=divisor)
    numbers.addcmul_(change, rates, value=-1)


def _root(values: Tensor, *, out: Tensor) -> Tensor:
    """The square roots of values, in the memory of `out`.

    torch divides roots among threads from 2048 numbers on, other operations from 32,768 on: where other processes keep
    the cores busy, the wait for a second thread takes a thousand times as long as the roots of a small network. numpy's
    are made on one thread, and are correctly rounded, so that they are the same in any population.
    """
    if values.device.type == "cpu":
        np.sqrt(values.numpy(), out=out.numpy())
        return out
    return torch.sqrt(values, out=out)
