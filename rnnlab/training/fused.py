"""Clipping, L2 and the update of a whole population as one kernel on a GPU: every number is read and written once.

It computes what `gradients.limit` and `optimisers.update` do one after another, in some twenty passes over memory.
"""

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from rnnlab.training.gradients import Limits, shares
from rnnlab.training.optimisers import Coefficients, Moments

BLOCK = 1024

_COLUMNS = (
    *("share", "value", "l2", "first_keep", "first_add", "second_keep", "second_add"),
    *("root", "epsilon", "rate"),
)
"""The columns of the table that the kernel reads for each member."""


@cache
def has_fused(device: torch.device) -> bool:
    """Whether the kernel runs there: on a GPU, where Triton is installed."""
    return device.type == "cuda" and find_spec("triton") is not None


def fused_learn(
    numbers: Tensor,
    gradients: Tensor,
    norms: Tensor,
    moments: Moments,
    limits: Limits,
    coefficients: Coefficients,
    *,
    rates: Tensor,
    num_updates: Tensor,
    is_active: Tensor,
) -> None:
    """Change numbers and averages by one step, in place; arguments as those of `limit` and `update`."""
    first_lack, second_lack = coefficients.corrections(num_updates)
    dtype = numbers.dtype
    columns = {
        "share": shares(norms, limits, is_active),
        "value": limits.value if limits.value is not None else torch.full_like(norms, torch.inf),
        "l2": torch.zeros_like(norms) if limits.l2 is None else torch.where(is_active, limits.l2, 0.0),
        "first_keep": torch.where(is_active, coefficients.first_keep, 1.0),
        "first_add": coefficients.first_add,
        "second_keep": torch.where(is_active, coefficients.second_keep, 1.0),
        "second_add": coefficients.second_add,
        "root": second_lack.sqrt().to(dtype),
        "epsilon": coefficients.epsilon,
        "rate": torch.where(is_active, rates / first_lack, 0.0).to(dtype),
    }
    table = torch.cat([columns[name].to(dtype) for name in _COLUMNS], dim=1)  # [P, columns]
    num_members, width = numbers.shape
    grid = (num_members, -(-width // BLOCK))
    second = moments.second if coefficients.uses_second else moments.first
    _kernel()[grid](
        numbers,
        gradients,
        moments.first,
        second,
        table,
        width,
        COLUMNS=len(_COLUMNS),
        USES_SECOND=coefficients.uses_second,
        BLOCK=BLOCK,
    )


@cache
def _kernel() -> Any:
    from rnnlab.training.fused_kernel import learn

    return learn
