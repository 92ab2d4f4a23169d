"""How a vector becomes a sequence: shown at every step, or at the first one only."""

import torch
from torch import Tensor


def present(vectors: Tensor, num_steps: int, *, once: bool | Tensor) -> Tensor:
    """Vectors [..., B, N] as sequences [..., B, T, N].

    Args:
        vectors: what to show.
        num_steps: T.
        once: whether at the first step only, with zeros after it; or that for each member, [P].

    >>> present(torch.tensor([[1.0, 2.0]]), 3, once=True).tolist()
    [[[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]]
    """
    if once is False:
        return vectors[..., None, :].expand(*vectors.shape[:-1], num_steps, vectors.shape[-1])
    shown = torch.arange(num_steps, device=vectors.device)[:, None] == 0  # [T, 1]
    if isinstance(once, Tensor):
        shown = shown | ~once[:, None, None, None]  # [P, 1, T, 1]
    return vectors[..., None, :] * shown.to(vectors.dtype)
