"""Which kernels run a model on the GPU: one program for each member's whole network, or a network spread over it."""

from functools import lru_cache
from typing import NamedTuple

import torch

from rnnlab.architecture.architecture import Architecture
from rnnlab.engine.gpu.launch import processors
from rnnlab.engine.gpu.layout import padded
from rnnlab.engine.gpu.program import GpuProgram, is_interpreted
from rnnlab.engine.gpu.spread import Tiling
from rnnlab.engine.nodes import Product, choices
from rnnlab.engine.plan import plan
from rnnlab.errors import ModelError

# Microseconds that a program which runs a network alone takes for a moment of a component, forward and backward; and
# for 10,000 numbers of its matrices, on the chip or read anew. Fitted to ten timings on an H200 in bf16, 60 to 128
# units and up to 40 members, within 10 in 100 on average (benchmarks/results/gpu-lots-h200.json); 132 LSTMs with skips,
# which memory holds up, took two and a half times as long. They are of whole training steps, which take spread networks
# of such widths 1.2 to 1.7 times as long as the cost model of `spread.py` says of their kernels.
_COMPONENT, _ON_CHIP, _READ, _WHOLE_STEP = 1.3, 0.67, 2.7, 1.3


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
    if kernels == "spread" and isinstance(found, str):
        raise ModelError(f"the network cannot be spread over the GPU: {found}")
    if isinstance(found, str):
        return Choice(population, f"a program for each member: {found}")
    alone, together = microseconds_alone(population), _WHOLE_STEP * found.microseconds
    if kernels == "auto" and alone is not None and alone <= together:
        reason = f"about {alone:.1f} us a slot and back, and {together:.1f} if it were spread"
        return Choice(population, f"a program for each member: {reason}")
    return Choice(spread, str(found))


def microseconds_alone(program: GpuProgram) -> float | None:
    """What a moment takes where each member has a program to itself, both passes; None where nobody measured it."""
    if program.precision != "bf16":
        return None
    found = 0.0
    for number, component in enumerate(program.plan.components):
        if not component.is_hoisted:
            products = [product for code in program.codes_of(component) for product in code.internal]
            if any(product.reset_pairs for product in products):
                return None
            size = sum(_size(program, product) for product in products)
            found += _COMPONENT + size / 10_000 * (_ON_CHIP if program.is_resident(number) else _READ)
    return found


def _size(program: GpuProgram, product: Product) -> int:
    """How many numbers a matrix has as it lies in memory."""
    return product.num_gates * padded(program.codes[product.edge.target].units) * program.widths[product.part]


class Tilings(tuple[Tiling, ...]):
    """How the components of a spread network are cut up, each forward and backward."""

    @property
    def microseconds(self) -> float:
        """What a moment takes, both passes."""
        return sum(each.microseconds for each in self)

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
