"""How many multiprocessors a model may take: all of a GPU's, or a share where others run beside it."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import NamedTuple

import torch

_SHARE: ContextVar[float] = ContextVar("share of the GPU", default=1.0)


class Processors(NamedTuple):
    """Multiprocessors that a model may take.

    Args:
        own: its share; more of them are taken from others, so that work there counts as much longer.
        all: those of the GPU: programs that wait for one another run at once, and need one each.
    """

    own: int
    all: int


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


def processors(device: torch.device) -> Processors:
    """The multiprocessors of a device that a model may take."""
    every = _all_processors(device)
    return Processors(max(1, round(_SHARE.get() * every)), every)


@lru_cache(maxsize=8)
def _all_processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
