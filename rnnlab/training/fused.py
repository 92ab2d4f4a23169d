"""`learning.learn` as two kernels on a GPU: one for what there is one number of for each member, one for all numbers.

Some eighty small operations fall away, which take longer than a step of tiny networks; of clipping and the update, some
twenty passes over memory become one.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from rnnlab.training.learning import Rules, member_norms
from rnnlab.training.state import TrainingState
from rnnlab.triton_support import has_triton

BLOCK = 1024  # numbers of a program
MEMBERS = 32  # of a program
NUM_COLUMNS = 10  # of what the second kernel reads for each member


def has_fused(device: torch.device) -> bool:
    """Whether the kernels run there: on a GPU, where Triton is installed."""
    return device.type == "cuda" and has_triton()


class FusedLearning:
    """The rules of a population, as the kernels read them.

    Args:
        rules: of its members.
    """

    def __init__(self, rules: Rules) -> None:
        coefficients, schedule, limits = rules.coefficients, rules.schedule, rules.limits
        nothing = torch.zeros_like(limits.norm)
        columns = [  # in the order in which `judge` takes them
            rules.explosion,
            schedule.start,
            schedule.decay_per_step,
            schedule.inverse_steps,
            schedule.inverse_start,
            coefficients.exact_first_keep.log(),  # powers are made of logarithms
            coefficients.exact_second_keep.log(),
            coefficients.is_corrected,
            limits.norm,
            nothing + torch.inf if limits.value is None else limits.value,
            nothing if limits.l2 is None else limits.l2,
            coefficients.first_keep,
            coefficients.first_add,
            coefficients.second_keep,
            coefficients.second_add,
            coefficients.epsilon,
        ]
        self._constants = torch.stack([column.view(-1).double() for column in columns])  # [constant, P]
        self._table = torch.empty(len(limits.norm), NUM_COLUMNS, dtype=limits.norm.dtype, device=limits.norm.device)
        self._uses_second = coefficients.uses_second

    def learn(self, state: TrainingState, losses: Tensor, gradients: Tensor) -> None:
        """What `learning.learn` does; arguments as there."""
        judge, learn = _kernels()
        num_members, width = state.numbers.shape
        feasibility = state.feasibility
        judge[(-(-num_members // MEMBERS),)](
            losses.contiguous(),
            member_norms(gradients),
            self._constants,
            state.step,
            state.end_step,
            state.plateau,
            feasibility.reason,
            feasibility.step,
            feasibility.first_loss,
            state.losses,
            state.rates,
            state.loss_sum,
            state.loss_count,
            self._table,
            num_members,
            COLUMNS=NUM_COLUMNS,
            MEMBERS=MEMBERS,
        )
        state.step.add_(1)  # by itself: all programs read it
        learn[
            (-(-width // BLOCK), num_members)
        ](  # a grid has room for 2 ** 31 programs one way, and for 65,535 another
            state.numbers,
            gradients,
            state.moments.first,
            state.moments.second if self._uses_second else state.moments.first,
            self._table,
            width,
            COLUMNS=NUM_COLUMNS,
            USES_SECOND=self._uses_second,
            BLOCK=BLOCK,
        )


@cache
def _kernels() -> tuple[Any, Any]:
    from rnnlab.training.fused_kernels import judge, learn

    return judge, learn
