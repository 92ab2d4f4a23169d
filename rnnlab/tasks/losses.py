"""Losses step by step and their sums: all accept tensors with or without a population's axis P in front.

Targets and weights broadcast against outputs, so a batch without P serves every member.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from rnnlab.tasks.fused_cross_entropy import FusedCrossEntropy, can_be_fused


def last_step(outputs: Tensor) -> Tensor:
    """The outputs at the last step, [..., B, M] of [..., B, T, M]."""
    return outputs[..., -1, :]


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The cross entropy of the softmax of `logits` [..., K] and the classes `targets` [...], in nats, [...].

    >>> cross_entropy(torch.zeros(2, 3, 8), torch.tensor([0, 7, 5])).shape  # of 2 members, the same 3 targets
    torch.Size([2, 3])
    """
    classes = targets.long().expand(logits.shape[:-1])
    if can_be_fused(logits):
        return FusedCrossEntropy.apply(logits, classes)
    return logits.logsumexp(-1) - logits.gather(-1, classes[..., None])[..., 0]


def binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The cross entropy of sigmoids of `logits` and `targets` of 0 and 1, in nats, element by element.

    >>> binary_cross_entropy(torch.zeros(2), torch.tensor([0.0, 1.0]))
    tensor([0.6931, 0.6931])
    """
    # on a CPU softplus rounds the last few numbers of a tensor differently: a member's loss would depend on its place
    softplus = functional.softplus(logits) if logits.is_cuda else -functional.logsigmoid(-logits)
    return softplus - targets.to(logits.dtype) * logits


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """The squares of the differences, element by element."""
    return (outputs - targets.to(outputs.dtype)).square()


def last_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean squared difference of the last outputs and targets [..., B, M], for each sequence, [..., B]."""
    return squared_error(last_step(outputs), targets).mean(-1)


def totals(values: Tensor, weights: Tensor | None = None, *, num_axes: int = 1) -> tuple[Tensor, Tensor]:
    """The weighted sum of `values` over the last axes, and the sum of the weights: exact to float64.

    >>> values = torch.tensor([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]])
    >>> [total.tolist() for total in totals(values)]
    [[9.0, 3.0], [3.0, 3.0]]
    >>> [total.tolist() for total in totals(values, torch.tensor([1, 1, 0]))]
    [[3.0, 0.0], [2.0, 2.0]]
    """
    axes = tuple(range(-num_axes, 0))
    if weights is None:
        sums = values.sum(axes, dtype=torch.float64)
        return sums, torch.full_like(sums, math.prod(values.shape[-num_axes:]))
    weights = weights.to(torch.float64).expand(values.shape)
    return (values * weights).sum(axes), weights.sum(axes)


def mean(values: Tensor, weights: Tensor | None = None, *, num_axes: int = 1) -> Tensor:
    """The weighted mean of `values` over the last axes, in their own dtype: what a loss returns.

    >>> mean(torch.tensor([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]]), torch.tensor([1, 1, 0]))
    tensor([1.5000, 0.0000])
    """
    axes = tuple(range(-num_axes, 0))
    if weights is None:
        return values.mean(axes)
    weights = weights.to(values.dtype).expand(values.shape)
    return (values * weights).sum(axes) / weights.sum(axes)
