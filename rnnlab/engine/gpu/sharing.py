"""How many multiprocessors (SMs) a model may take: all of a GPU's, or a share if other models run beside it.

The training and tuning packages set the share; `choice.py` and `arrays.py` ask for it before work is divided.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import NamedTuple

import torch

_SHARE: ContextVar[float] = ContextVar("share of the GPU", default=1.0)


class Processors(NamedTuple):
    """Numbers of multiprocessors (SMs).

    Args:
        own: the model's share. It may use more, but takes them from others, so the cost model counts the time as
            correspondingly longer.
        all: those of the whole GPU. Programs (thread blocks) that wait for one another must all run at once and take
            one SM each, so this is a hard limit.
    """

    own: int
    all: int


@contextmanager
def share_of_gpu(share: float) -> Generator[None]:
    """Inside, the work of models is divided as if the GPU had only this share of its multiprocessors.

    A model alone is fastest as many small programs, which leave a GPU half idle. Beside others, a model is fastest as
    few large programs.
    """
    before = _SHARE.set(share)
    try:
        yield
    finally:
        _SHARE.reset(before)


def processors(device: torch.device) -> Processors:
    """How many multiprocessors of a device a model may take; a CPU (for tests) counts as one."""
    every = _all_processors(device)
    return Processors(max(1, round(_SHARE.get() * every)), every)


@lru_cache(maxsize=8)
def _all_processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
