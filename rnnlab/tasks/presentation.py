"""How a vector becomes a sequence: shown at every step, or at the first one only."""

from functools import cache

import torch
from torch import Tensor


def present(vectors: Tensor, num_steps: int, *, once: bool | tuple[bool, ...]) -> Tensor:
    """Vectors [..., B, N] as sequences [..., B, T, N]; integers become float32.

    Args:
        vectors: what to show.
        num_steps: T.
        once: whether at the first step only, with zeros after it; for all members or for each.

    >>> present(torch.tensor([[1.0, 2.0]]), 3, once=True).tolist()
    [[[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]]
    """
    if once is False:
        numbers = vectors if vectors.is_floating_point() else vectors.float()
        return numbers[..., None, :].expand(*vectors.shape[:-1], num_steps, vectors.shape[-1])
    return vectors[..., None, :] * _shown(num_steps, once, vectors.device)


@cache  # never dropped: a recorded CUDA graph may read it
def _shown(num_steps: int, once: bool | tuple[bool, ...], device: torch.device) -> Tensor:
    """1 where a vector is shown and 0 elsewhere, [T, 1], or [P, 1, T, 1] where members differ."""
    is_first = torch.arange(num_steps)[:, None] == 0
    shown = is_first if isinstance(once, bool) else is_first | ~torch.tensor(once)[:, None, None, None]
    return shown.to(device, torch.float32)
