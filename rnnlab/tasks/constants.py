"""Constants that stay on a device: a copy at every step would make the host wait, and could not be recorded."""

from functools import cache

import torch
from torch import Tensor


# keyed by the dtype too: True and 1 are one and the same key; never dropped: a recorded CUDA graph may read them
@cache
def constants(values: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Numbers as a tensor on a device, made only once; not to be changed in place.

    >>> constants((1, 0), torch.bool, torch.device("cpu"))
    tensor([ True, False])
    """
    return torch.tensor(values, dtype=dtype, device=device)
