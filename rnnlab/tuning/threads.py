"""How many threads the linear algebra of a sampler may use."""

from collections.abc import Generator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits


@contextmanager
def single_thread() -> Generator[None]:
    """One thread for torch, numpy and scipy, and as many as before afterwards.

    Thousands of small products gain nothing from a second thread. Where other processes use the cores, as trials do,
    waiting for it made a batch forty times slower.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)
