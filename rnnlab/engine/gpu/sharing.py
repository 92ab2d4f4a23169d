"""How many multiprocessors a model may take: all of a GPU's, or a share where others run beside it."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

import torch

_SHARE: ContextVar[float] = ContextVar("share of the GPU", default=1.0)


@contextmanager
def share_of_gpu(share: float) -> Generator[None]:
    """Inside, models are cut up as for a GPU that has only a share of its multiprocessors.

    Alone a model is fastest as many small programs, which leave a GPU half idle; beside others as few large ones.
    """
    before = _SHARE.set(share)
    try:
        yield
    finally:
        _SHARE.reset(before)


def processors(device: torch.device) -> int:
    """How many multiprocessors of a device a model may take."""
    return max(1, round(_SHARE.get() * _all_processors(device)))


@lru_cache(maxsize=8)
def _all_processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
