"""The kernels of a program's components: written for it, compiled at the first call, and kept with it.

`general_*`, `spread_*`, `resident_*` and `relay_text` write them. `program.py` says which of them run a component, and
`launch.py` launches them.
"""

from typing import Any, NamedTuple

from rnnlab.engine.gpu.compiled import KernelText, compiled
from rnnlab.engine.gpu.cuda_driver import CudaFunction
from rnnlab.engine.gpu.general_backward import general_backward
from rnnlab.engine.gpu.general_forward import general_forward
from rnnlab.engine.gpu.limits import shared_memory
from rnnlab.engine.gpu.program import GpuProgram
from rnnlab.engine.gpu.relay_text import RelayText, relay_text
from rnnlab.engine.gpu.resident import Layout, Shape
from rnnlab.engine.gpu.resident_backward import write_backward
from rnnlab.engine.gpu.resident_forward import write_forward
from rnnlab.engine.gpu.resident_writer import Leg, ResidentWriter
from rnnlab.engine.gpu.spread import Tiling
from rnnlab.engine.gpu.spread_backward import spread_backward
from rnnlab.engine.gpu.spread_forward import spread_forward
from rnnlab.engine.gpu.spread_node import SpreadWriter
from rnnlab.engine.gpu.writer import Writer
from rnnlab.engine.nodes import Part
from rnnlab.triton_support import is_interpreted

Gradients = tuple[frozenset[Part], frozenset[Part], frozenset[Part]]
"""What the backward kernel of a component depends on, as three sets of parts: those whose gradients are wanted; of
these, those that already have gradients at all times in memory; and those whose gradient of the final state is in an
array of its own."""


class Kernel(NamedTuple):
    """A Triton kernel, ready to be launched."""

    text: KernelText
    function: Any


class CudaKernel(NamedTuple):
    """A kernel in CUDA C++, ready to be launched."""

    text: KernelText
    function: CudaFunction
    num_threads: int


class RelayKernel(NamedTuple):
    """The kernel of a relay, ready to be launched."""

    text: RelayText
    function: CudaFunction


# --------------------------------------------------------------------------------------------------- general components


def general_kernel(program: GpuProgram, number: int, shared: frozenset[str], wanted: frozenset[Part] | None) -> Kernel:
    """The general (Triton) kernel of a component.

    Args:
        program: of the network.
        number: the component's.
        shared: the inputs that all members share.
        wanted: the parts whose gradients are wanted, for the backward kernel; None for the forward one.
    """

    def make() -> Kernel:
        codes = program.codes_of(program.plan.components[number])
        is_fast = program.precision == "bf16" and not is_interpreted()
        sizes: dict[str, Any] = {"is_fast": is_fast, "shared_bytes": shared_memory()}
        writer = Writer(program.plan, program.widths, shared, program.arithmetic, **sizes)
        text = general_forward(writer, codes) if wanted is None else general_backward(writer, codes, wanted)
        return Kernel(text, compiled(text.source))

    return program.keep(("general kernel", number, shared, wanted), make)


# -------------------------------------------------------------------------------------------------- resident components


def resident_kernel(
    program: GpuProgram, number: int, shape: Shape, shared: frozenset[str], gradients: Gradients | None, device: int
) -> CudaKernel:
    """The kernel of a resident component.

    Args:
        program: of the network.
        number: the component's.
        shape: how it is divided among programs.
        shared: the inputs that all members share.
        gradients: for the backward kernel; None for the forward one.
        device: the number of the GPU.
    """

    def make() -> CudaKernel:
        text = resident_text(program, number, shape, shared, gradients)
        num_bytes = _shared_bytes(program, number, shape, backward=gradients is not None)
        return CudaKernel(text, CudaFunction(text.source, device, num_bytes), 32 * text.num_warps)

    return program.keep(("resident kernel", number, shape, shared, gradients, device), make)


def resident_text(
    program: GpuProgram, number: int, shape: Shape, shared: frozenset[str], gradients: Gradients | None
) -> KernelText:
    """The text of `resident_kernel`, with the same arguments."""
    return _resident_writer(program, number, shape, shared, gradients).text()


def _resident_writer(
    program: GpuProgram,
    number: int,
    shape: Shape,
    shared: frozenset[str],
    gradients: Gradients | None,
    leg: Leg | None = None,
) -> ResidentWriter:
    """A writer that has gathered the lines of a resident component's kernel, or of one leg of a relay's kernel."""
    chosen: Any = {"backward": gradients is not None, "leg": leg, **_writer_options(program, shared)}
    writer = ResidentWriter(program.plan, program.arithmetic, program.resident(number), shape, **chosen)
    if gradients is None:
        write_forward(writer)
    else:
        write_backward(writer, *gradients, program.readers(number), program.takers(number))
    return writer


def _shared_bytes(program: GpuProgram, number: int, shape: Shape, *, backward: bool) -> int:
    readers = program.readers(number) if backward else ()
    return Layout(program.resident(number), program.arithmetic, shape, backward, readers).total


def _writer_options(program: GpuProgram, shared: frozenset[str]) -> dict[str, Any]:
    """What writers of CUDA C++ must know of how numbers are stored."""
    return {
        "storage": {part: program.storage(part).itemsize for part in program.state},
        "widths": program.widths,
        "factors": frozenset(part for part in program.state if program.has_factor(part)),
        "shared": shared,
        "shared_bytes": shared_memory(),
    }


# --------------------------------------------------------------------------------------------------------------- relays


def relay_kernel(
    program: GpuProgram,
    legs: tuple[int, ...],
    shapes: tuple[Shape, ...],
    shared: frozenset[str],
    gradients: tuple[Gradients, ...] | None,
    device: int,
) -> RelayKernel:
    """The kernel of a relay; arguments as for `resident_kernel`, with shapes and gradients for each leg."""

    def make() -> RelayKernel:
        text = text_of_relay(program, legs, shapes, shared, gradients)
        pairs = zip(legs, shapes, strict=True)
        num_bytes = max(
            _shared_bytes(program, number, shape, backward=gradients is not None) for number, shape in pairs
        )
        return RelayKernel(text, CudaFunction(text.source, device, num_bytes))

    return program.keep(("relay kernel", legs, shapes, shared, gradients, device), make)


def text_of_relay(
    program: GpuProgram,
    legs: tuple[int, ...],
    shapes: tuple[Shape, ...],
    shared: frozenset[str],
    gradients: tuple[Gradients, ...] | None,
) -> RelayText:
    """The text of `relay_kernel`. The leg that waits for no other comes first; backward that is the last one."""
    component_of = program.plan.component_of
    rows = {number: shape.rows for number, shape in zip(legs, shapes, strict=True)}
    writers: list[ResidentWriter] = []
    for place, number in enumerate(legs):
        givers = {each.edge: component_of[each.edge.source] for _, each in program.resident(number).handed}
        takers = {each.edge: component_of[each.edge.target] for each in program.takers(number)}
        leg = Leg(number, rows, givers if gradients is None else takers)
        own = None if gradients is None else gradients[place]
        writers.append(_resident_writer(program, number, shapes[place], shared, own, leg))
    return relay_text(writers if gradients is None else writers[::-1])


# ---------------------------------------------------------------------------------------------------- spread components


def spread_kernel(
    program: GpuProgram,
    number: int,
    tiling: Tiling,
    shared: frozenset[str],
    gradients: tuple[frozenset[Part], frozenset[Part]] | None,
    device: int,
) -> CudaKernel:
    """The kernel of a spread component.

    Args:
        program: of the network.
        number: the component's.
        tiling: how it is divided among programs.
        shared: the inputs that all members share.
        gradients: the first two of `Gradients` for the backward kernel; None for the forward one.
        device: the number of the GPU.
    """
    cut = (tiling.rows, tiling.units, tiling.is_early, tiling.is_paired)

    def make() -> CudaKernel:
        writer = spread_writer(program, number, tiling, shared)
        text = spread_forward(writer) if gradients is None else spread_backward(writer, *gradients)
        return CudaKernel(text, CudaFunction(text.source, device, writer.most_shared), 32 * text.num_warps)

    return program.keep(("spread kernel", number, cut, shared, gradients, device), make)


def spread_writer(program: GpuProgram, number: int, tiling: Tiling, shared: frozenset[str]) -> SpreadWriter:
    """A writer for the text of a spread component's kernel."""
    return SpreadWriter(program.plan, program.spread(number), tiling, **_writer_options(program, shared))
