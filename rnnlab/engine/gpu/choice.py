"""The choice of what runs a model on the GPU, by a cost model.

The candidates: programs (thread blocks) or clusters of them for each member, kernels spread over the whole GPU, layers
side by side in a relay, or cuDNN, which runs on request only. `Model` calls `choose` before each run; its result, a
`GpuProgram` (`program.py`) or a `CudnnNetwork` (`cudnn.py`), runs the batch. What then runs each component of the
network is for `GpuProgram.kind` to say.
"""

import math
from functools import lru_cache, partial
from typing import NamedTuple

import torch

from rnnlab.architecture.architecture import Architecture
from rnnlab.architecture.cells import Cell
from rnnlab.engine.gpu.costs import SPREAD, is_on_chip, microseconds_alone
from rnnlab.engine.gpu.cudnn import CudnnNetwork, cudnn_network
from rnnlab.engine.gpu.launch import best_shape
from rnnlab.engine.gpu.limits import cluster_size, cuda_obstacle, shared_memory
from rnnlab.engine.gpu.program import GpuProgram, Kernels
from rnnlab.engine.gpu.relay import relay_cut
from rnnlab.engine.gpu.sharing import processors
from rnnlab.engine.gpu.spread import Tiling
from rnnlab.engine.nodes import choices
from rnnlab.engine.plan import plan
from rnnlab.errors import ModelError
from rnnlab.triton_support import is_interpreted

_MOST_TURNS = 4  # of a spread network, where there is no estimate of what the alternative takes


class Choice(NamedTuple):
    """What runs, and why."""

    program: GpuProgram | CudnnNetwork
    reason: str


Programs = dict[tuple[object, ...], GpuProgram]
"""The programs of a model, by what they were made from. They live as long as the model, because CUDA graphs that were
recorded of it read their tensors."""


def choose(
    architecture: Architecture,
    nonlinearity: tuple[str, ...] | None,
    precision: str,
    kernels: str,
    sizes: tuple[int, int],
    device: torch.device,
    *,
    programs: Programs,
    has_outputs: bool = True,
    keep_all: bool = False,
) -> Choice:
    """What runs an architecture on this many members and sequences, and why.

    Args:
        architecture: what runs.
        nonlinearity: of each member, if members differ.
        precision: of products: `float32`, `tf32` or `bf16`.
        kernels: `auto`, `population`, `spread`, `relay` or `cudnn`.
        sizes: the numbers of members and sequences.
        device: where it runs.
        programs: the model's programs so far; new ones are added.
        has_outputs: whether outputs are computed, or states only.
        keep_all: whether states of all steps are needed.

    Raises:
        ModelError: the kernels asked for cannot run this network.
    """
    layers = cudnn_layers(architecture, nonlinearity, precision, sizes, keep_all=keep_all)
    if kernels == "cudnn":
        if isinstance(layers, str):
            raise ModelError(layers)
        return Choice(layers, "cuDNN, asked for")
    made = partial(_kept, programs, architecture, nonlinearity, precision, has_outputs=has_outputs)
    room = processors(device).own
    if kernels == "relay":
        relay = made("relay")
        cut = relay_cut(relay, sizes, room, device)
        if isinstance(cut, str):
            raise ModelError(f"the layers cannot run side by side on the GPU: {cut}")
        return Choice(relay, f"{cut}, asked for")
    population = made("population")
    if kernels == "population":
        return Choice(population, f"{described(population, sizes, room)}, asked for")
    spread = made("spread")
    found = spread_reason(spread, sizes, device)
    if kernels == "spread":
        if isinstance(found, str):
            raise ModelError(f"the network cannot be spread over the GPU: {found}")
        return Choice(spread, str(found))
    relay = made("relay")
    key = ("own", sizes, room, device, shared_memory(), cluster_size())
    own = population.keep(key, lambda: _own_programs(population, relay, sizes, room, device))
    if isinstance(found, str):
        return Choice(own.program, f"{own.text}: {found}")
    most_turns = 1 if is_on_chip(population) else _MOST_TURNS if own.microseconds is None else math.inf
    by_cudnn = layers.microseconds(sizes[1]) if isinstance(layers, CudnnNetwork) else None
    return _cheapest(own, spread, found, most_turns, by_cudnn)


def _cheapest(own: "_Own", spread: GpuProgram, found: "Tilings", most_turns: float, by_cudnn: float | None) -> Choice:
    """Programs of its own for each member, or a network spread over the GPU in so many turns at most."""
    alone, together = own.microseconds, SPREAD[spread.precision] * _microseconds_a_step(spread, found)
    if found.num_turns > most_turns:
        return Choice(own.program, f"{own.text}: it would take {found.num_turns} turns if it were spread")
    if alone is not None and alone <= together:
        reason = f"about {alone:.1f} us a step and back, and {together:.1f} if it were spread"
        return Choice(own.program, f"{own.text}: {reason}")
    expected = "" if alone is None else f"; about {together:.1f} us a step and back, and {alone:.1f} by {own.text}"
    hint = ""
    # cuDNN is not chosen by itself: states carried from step to step should be float32
    if by_cudnn is not None and by_cudnn < found.microseconds:
        hint = f"; cuDNN would take about {by_cudnn:.1f}, with states in bf16 (path='gpu-cudnn')"
    return Choice(spread, f"{found}{expected}{hint}")


class _Own(NamedTuple):
    """Programs of its own for each member: how they divide the work, in words, and what a step takes, if known."""

    program: GpuProgram
    text: str
    microseconds: float | None


def _own_programs(
    population: GpuProgram, relay: GpuProgram, sizes: tuple[int, int], processors: int, device: torch.device
) -> _Own:
    """Layers one after another or side by side, whichever takes less."""
    spent = microseconds_alone(population, sizes, processors)
    alone = _Own(population, described(population, sizes, processors), spent)
    cut = relay_cut(relay, sizes, processors, device)
    if isinstance(cut, str) or spent is None:
        return alone
    side_by_side = microseconds_alone(relay, sizes, processors, cut)
    return _Own(relay, str(cut), side_by_side) if side_by_side is not None and side_by_side < spent else alone


def _kept(
    programs: Programs,
    architecture: Architecture,
    nonlinearity: tuple[str, ...] | None,
    precision: str,
    kernels: Kernels,
    *,
    has_outputs: bool = True,
) -> GpuProgram:
    """A program that the model keeps from then on, even if it drops out of the cache of `gpu_program`."""
    cells = architecture.cells
    key = (architecture, cells, nonlinearity, precision, kernels, has_outputs)
    if key not in programs:
        programs[key] = gpu_program(
            architecture, nonlinearity, precision, kernels, has_outputs=has_outputs, cells=cells
        )
    return programs[key]


def cudnn_layers(
    architecture: Architecture,
    nonlinearity: tuple[str, ...] | None,
    precision: str,
    sizes: tuple[int, int],
    *,
    keep_all: bool,
) -> CudnnNetwork | str:
    """The network as layers of cuDNN, or why cuDNN cannot run it."""
    if precision != "bf16":
        return "cuDNN runs with precision='bf16' only: whether it may use tf32 is a setting of the whole process"
    if sizes[0] > 1:
        return "cuDNN runs one network, and this is a population"
    if keep_all:
        return "cuDNN has no cell states but the last: leave out lengths"
    return cudnn_network(architecture, nonlinearity)


def described(program: GpuProgram, sizes: tuple[int, int], processors: int) -> str:
    """How the work is divided if each member has programs of its own, in words."""
    shapes = [
        best_shape(program.shapes(number), program.resident(number), sizes, processors)
        for number in range(len(program.plan.components))
        if program.is_resident(number)
    ]
    if not shapes:
        return "a program for each member"
    rows, count = shapes[0]  # other components mostly have the same
    programs = f"a cluster of {count} programs" if count > 1 else "a program"
    return f"{programs} for each member and {rows} sequences, matrices in shared memory"


class Tilings(tuple[Tiling, ...]):
    """How each component of a spread network is divided among programs: forward, backward, then the next component."""

    @property
    def microseconds(self) -> float:
        """Estimated microseconds of a slot of every component, both passes."""
        return sum(each.microseconds for each in self)

    @property
    def num_turns(self) -> int:
        """In how many turns, one after another, its programs run."""
        return max(each.num_turns for each in self)

    def __str__(self) -> str:
        names = ("forward", "backward") * (len(self) // 2)
        return "spread over multiprocessors: " + "; ".join(
            f"{name} over {each.num_programs}{' in pairs' if each.is_paired else ''}{_turns(each)}, "
            f"{each.units} units of {each.rows} sequences each, "
            f"matrices {'in shared memory' if each.is_kept else 'streamed'}, about {each.microseconds:.1f} us a slot"
            for name, each in zip(names, self, strict=True)
        )


def _microseconds_a_step(program: GpuProgram, tilings: Tilings) -> float:
    """Estimated microseconds of a time step of a spread network, which may take several slots of a component."""
    schedules = (each.schedule for each in program.plan.components if each.schedule is not None)
    passes = zip(schedules, tilings[::2], tilings[1::2], strict=True)
    return sum(float(each.per_step) * (forward.microseconds + back.microseconds) for each, forward, back in passes)


def _turns(tiling: Tiling) -> str:
    return f" in {tiling.num_turns} turns" if tiling.num_turns > 1 else ""


def spread_reason(program: GpuProgram, sizes: tuple[int, int], device: torch.device) -> Tilings | str:
    """How the components of a network are spread over the GPU, or why they cannot be."""
    if is_interpreted():
        return "Triton's interpreter runs one program after another"
    if obstacle := cuda_obstacle(device):
        return obstacle
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
    kernels: Kernels,
    *,
    has_outputs: bool = True,
    cells: tuple[Cell, ...] = (),
) -> GpuProgram:
    """The program of an architecture; a spread one runs as a wavefront, which takes the fewest slots.

    `cells` is only part of the cache's key: equal architectures may have different cells, if an entry of `CELLS` was
    replaced.
    """
    order = "wavefront" if kernels == "spread" else "by component"
    chosen = choices(architecture, nonlinearity)
    return GpuProgram(plan(architecture, order=order), chosen, precision, kernels, has_outputs=has_outputs)
