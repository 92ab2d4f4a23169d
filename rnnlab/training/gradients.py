"""Clipping and L2, for each member by itself."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rnnlab.training.hyperparameters import Hyperparameters


@dataclass(frozen=True, eq=False)
class Limits:
    """What bounds the gradients of each member, each [P, 1]; infinite where nothing does.

    What no member uses is None, and takes no time.
    """

    norm: Tensor
    value: Tensor | None
    l2: Tensor | None

    @classmethod
    def of(cls, members: Sequence[Hyperparameters], *, dtype: torch.dtype, device: torch.device | str) -> "Limits":
        """Those of a population."""
        columns = [
            [member.clip_norm or torch.inf for member in members],
            [member.clip_value or torch.inf for member in members],
            [member.l2 for member in members],
        ]
        norm, value, l2 = torch.tensor(columns, dtype=dtype, device=device)[..., None]
        has_value, has_l2 = (any(getattr(member, name) for member in members) for name in ("clip_value", "l2"))
        return cls(norm, value if has_value else None, l2 if has_l2 else None)


def shares(norms: Tensor, limits: Limits, is_active: Tensor) -> Tensor:
    """What gradients are multiplied by so that none is longer than its limit, [P, 1]; zero for who is not active."""
    # a norm of zero has an infinite share, which is 1
    return torch.where(is_active, (limits.norm / norms).clamp(max=1.0), 0.0)


def limit(gradients: Tensor, norms: Tensor, numbers: Tensor, limits: Limits, is_active: Tensor) -> None:
    """Change gradients, in place, to those to learn from.

    They are scaled to the largest norm (P), clamped to the largest value (C33), with L2 added (C34), and zero for
    members that are not active.

    Args:
        gradients, numbers: [P, N]; an active member's gradients are finite.
        norms: of the gradients, [P, 1].
        limits: of each member.
        is_active: [P, 1].

    >>> numbers, gradients = torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0]])
    >>> limits = Limits.of([Hyperparameters(clip_norm=1.0, clip_value=0.7, l2=0.1)], dtype=torch.float32, device="cpu")
    >>> limit(gradients, gradients.norm(dim=1, keepdim=True), numbers, limits, torch.tensor([[True]]))
    >>> gradients
    tensor([[0.7000, 0.7000]])
    """
    gradients.nan_to_num_(0.0, 0.0, 0.0).mul_(
        shares(norms, limits, is_active)
    )  # only members that stand still have values that are not finite
    if limits.value is not None:
        torch.minimum(gradients, limits.value, out=gradients)
        torch.maximum(gradients, -limits.value, out=gradients)
    if limits.l2 is not None:
        gradients.addcmul_(numbers, torch.where(is_active, limits.l2, 0.0))
