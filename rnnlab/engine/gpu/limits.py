"""What the current GPU can do: which kernels it runs, how much memory programs share, how many run at once.

Without a GPU the answers are those of an H200 on which everything has room, for tests that compile or emulate kernels.
"""

from functools import lru_cache

import torch

from rnnlab.engine.gpu.cuda_driver import CudaFunction, code_obstacle
from rnnlab.errors import ModelError


def shared_memory() -> int:
    """Bytes of shared memory that a program (thread block) may have on the current device."""
    if not torch.cuda.is_available():
        return 232_448  # Hopper's, for tests without a GPU
    return _shared_memory(torch.cuda.current_device())


@lru_cache(maxsize=16)
def _shared_memory(device: int) -> int:
    return int(torch.cuda.get_device_properties(device).shared_memory_per_block_optin)


def runs_cuda() -> bool:
    """Whether kernels in CUDA C++ run here; without a GPU, tests compile and emulate them."""
    return not torch.cuda.is_available() or cuda_obstacle() is None


def cuda_obstacle(device: torch.device | None = None) -> str | None:
    """Why kernels in CUDA C++ cannot run on a GPU (the current one by default), or None if they can."""
    capability = torch.cuda.get_device_capability(device)
    if capability < (8, 0):  # tensor cores for bf16 and tf32, and asynchronous copies
        return "its kernels need a GPU of compute capability 8.0 or more"
    return code_obstacle(capability) if torch.cuda.is_available() else None


def cluster_size() -> int:
    """The most programs in a cluster, which can write to one another's shared memory; 1 before Hopper."""
    return 8 if not torch.cuda.is_available() or torch.cuda.get_device_capability() >= (9, 0) else 1


@lru_cache(maxsize=64)
def most_clusters(device: torch.device, num_programs: int) -> int:
    """How many clusters run at once whose programs have a multiprocessor's whole shared memory each."""
    if device.type != "cuda":  # an emulated GPU has no parts
        return 1 << 30
    source = f'extern "C" __global__ void __cluster_dims__({num_programs}, 1, 1) kernel() {{}}'
    return CudaFunction(source, device.index or 0, shared_memory()).most_clusters(num_programs)


def most_pairs() -> int:
    """How many pairs of programs (clusters of two) run at once on the current GPU, which has clusters."""
    if not torch.cuda.is_available():
        return 1 << 30  # an emulated GPU has no parts
    try:
        return most_clusters(torch.device("cuda", torch.cuda.current_device()), 2)
    except ModelError:  # a GPU, or the part of one that this process has, may refuse clusters
        return 0
