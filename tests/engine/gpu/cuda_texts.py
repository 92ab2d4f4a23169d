"""Kernels in CUDA C++ as text, made as for a GPU that need not be there."""

from typing import NamedTuple

import pytest

from rnnlab import Architecture, ModelError
from rnnlab.engine.gpu import cuda_driver, kernels, program
from rnnlab.engine.gpu.choice import gpu_program
from rnnlab.engine.gpu.kernels import CudaKernel, resident_kernel, spread_kernel
from rnnlab.engine.gpu.launch import best_shape
from rnnlab.engine.gpu.program import GpuProgram
from rnnlab.engine.gpu.sharing import Processors
from rnnlab.engine.nodes import Part


class Gpu(NamedTuple):
    """What kernels depend on of a GPU."""

    architecture: str
    num_processors: int
    shared_bytes: int  # that a program may have of a multiprocessor's own memory
    cluster_size: int  # how many programs may share theirs


GPUS = {
    "A100": Gpu("sm_80", 108, 166_912, 1),
    "RTX 3070": Gpu("sm_86", 46, 101_376, 1),
    "H200": Gpu("sm_90", 132, 232_448, 8),
}


class CudaText(NamedTuple):
    """What would be compiled and loaded: stands in for `CudaFunction`."""

    source: str
    device: int
    shared_bytes: int


def cuda_texts(
    architecture: Architecture,
    precision: str,
    gpu: Gpu,
    *,
    is_spread: bool,
    sizes: tuple[int, int] = (1, 3),
    nonlinearity: tuple[str, ...] | None = None,
) -> list[CudaText]:
    """The texts of all kernels in CUDA C++ that a network has on a GPU, forward and backward in turn.

    Components that cannot be spread, or whose nodes are not resident, have none.

    Args:
        architecture: the network.
        precision: how it multiplies.
        gpu: where it would run.
        is_spread: whether it is spread; otherwise they are those of its resident nodes.
        sizes: members and sequences.
        nonlinearity: of the members, where they have their own.
    """
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(kernels, "CudaFunction", CudaText)
        for module in (program, kernels):
            patches.setattr(module, "shared_memory", lambda: gpu.shared_bytes)
        patches.setattr(program, "cluster_size", lambda: gpu.cluster_size)
        gpu_program.cache_clear()  # a program keeps the tilings of one GPU
        made = gpu_program(architecture, nonlinearity, precision, "spread" if is_spread else "population")
        gpu_program.cache_clear()
        numbers = [number for number, each in enumerate(made.plan.components) if not each.is_hoisted]
        write = _spread if is_spread else _resident
        return [text for number in numbers for text in write(made, number, gpu, sizes)]


def _spread(made: GpuProgram, number: int, gpu: Gpu, sizes: tuple[int, int]) -> list[CudaText]:
    tilings = made.tilings(number, sizes, Processors(gpu.num_processors, gpu.num_processors))
    if isinstance(tilings, str):
        return []
    passes = zip(tilings, (None, gradients_of(made)[:2]), strict=True)
    return [_text_of(spread_kernel(made, number, tiling, frozenset(), each, 0)) for tiling, each in passes]


def _resident(made: GpuProgram, number: int, gpu: Gpu, sizes: tuple[int, int]) -> list[CudaText]:
    if not made.is_resident(number):
        return []
    found = made.shapes(number)
    shapes = {found[0], best_shape(found, made.resident(number), sizes, gpu.num_processors)}
    passes = (None, gradients_of(made))
    return [_text_of(resident_kernel(made, number, shape, frozenset(), each, 0)) for shape in shapes for each in passes]


def gradients_of(made: GpuProgram) -> tuple[frozenset[Part], frozenset[Part], frozenset[Part]]:
    """All parts gather gradients, and all have some in memory, at all times and of the final state."""
    parts = frozenset(part for part in made.state if part[0] not in made.tokens)
    return parts, parts, parts


def _text_of(kernel: CudaKernel) -> CudaText:
    assert isinstance(kernel.function, CudaText)
    return kernel.function


def has_nvrtc() -> bool:
    """Whether NVRTC is installed, which needs no GPU."""
    try:
        cuda_driver.machine_code('extern "C" __global__ void kernel() {}', "sm_90")
    except ModelError:
        return False
    return True
