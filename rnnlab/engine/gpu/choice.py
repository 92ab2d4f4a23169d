"""Which kernels run a model on the GPU: one program for each member's whole network, or a network spread over it."""

from functools import lru_cache
from typing import NamedTuple

import torch

from rnnlab.architecture.architecture import Architecture
from rnnlab.engine.gpu.launch import processors
from rnnlab.engine.gpu.program import GpuProgram, is_interpreted
from rnnlab.engine.gpu.spread import Tiling
from rnnlab.engine.nodes import choices
from rnnlab.engine.plan import plan
from rnnlab.errors import ModelError


class Choice(NamedTuple):
    """The program that runs, and why."""

    program: GpuProgram
    reason: str


def choose(
    architecture: Architecture,
    nonlinearity: tuple[str, ...] | None,
    precision: str,
    kernels: str,
    sizes: tuple[int, int],
    device: torch.device,
    *,
    has_outputs: bool = True,
) -> Choice:
    """The program for so many members and sequences.

    Args:
        architecture: what runs.
        nonlinearity: of the members, where they have their own.
        precision: of products.
        kernels: `auto`, `population` or `spread`.
        sizes: members and sequences.
        device: where.
        has_outputs: whether outputs are computed, or states only.

    Raises:
        ModelError: a network was to be spread that cannot be.
    """
    population = gpu_program(architecture, nonlinearity, precision, is_spread=False, has_outputs=has_outputs)
    if kernels == "population":
        return Choice(population, "a program for each member, asked for")
    spread = gpu_program(architecture, nonlinearity, precision, is_spread=True, has_outputs=has_outputs)
    found = spread_reason(spread, sizes, device)
    if isinstance(found, Tilings):
        return Choice(spread, str(found))
    if kernels == "spread":
        raise ModelError(f"the network cannot be spread over the GPU: {found}")
    return Choice(population, f"a program for each member: {found}")


class Tilings(tuple[Tiling, ...]):
    """How the components of a spread network are cut up, each forward and backward."""

    def __str__(self) -> str:
        names = ("forward", "backward") * (len(self) // 2)
        return "spread over multiprocessors: " + "; ".join(
            f"{name} over {each.num_programs}, {each.units} units of {each.rows} sequences each, "
            f"matrices {'in shared memory' if each.is_kept else 'streamed'}, about {each.microseconds:.1f} us a slot"
            for name, each in zip(names, self, strict=True)
        )


def spread_reason(program: GpuProgram, sizes: tuple[int, int], device: torch.device) -> Tilings | str:
    """How the components of a network are cut up, or why they cannot be."""
    if is_interpreted():
        return "Triton's interpreter runs one program after another"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return "its kernels need a GPU of compute capability 8.0 or more"
    found: list[Tiling] = []
    for number, component in enumerate(program.plan.components):
        if component.is_hoisted:
            continue
        tilings = program.tilings(number, sizes, processors(device))
        if isinstance(tilings, str):
            return tilings
        found += tilings
    return Tilings(found)


@lru_cache(maxsize=128)
def gpu_program(
    architecture: Architecture,
    nonlinearity: tuple[str, ...] | None,
    precision: str,
    *,
    is_spread: bool,
    has_outputs: bool = True,
) -> GpuProgram:
    """The program of an architecture; a spread one runs as a wavefront, which has the fewest slots."""
    order = "wavefront" if is_spread else "by component"
    return GpuProgram(
        plan(architecture, order=order),
        choices(architecture, nonlinearity),
        precision,
        is_spread=is_spread,
        has_outputs=has_outputs,
    )
