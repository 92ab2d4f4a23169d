"""The forward pass, one component after another, and the launch of kernels in both passes.

`autograd.py` calls `forward`. The kernels come from `kernels.py`, the tensors that they take from `arrays.py`, and the
torch operations between them from `hoisted.py`. `backward.py` uses the same launch functions. A grid is given in
programs (thread blocks).
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rnnlab.engine.gpu.arrays import GpuArrays
from rnnlab.engine.gpu.compiled import Argument
from rnnlab.engine.gpu.hoisted import external_products, hoisted_forward, read_out_at_once
from rnnlab.engine.gpu.kernels import (
    CudaKernel,
    Gradients,
    general_kernel,
    relay_kernel,
    resident_kernel,
    spread_kernel,
)
from rnnlab.engine.gpu.layout import batch_tile
from rnnlab.engine.gpu.products import multiplying
from rnnlab.engine.gpu.relay import relay_shapes
from rnnlab.engine.gpu.resident import Resident, Shape
from rnnlab.engine.nodes import NodeCode, Part, Product
from rnnlab.errors import ModelError


def forward(arrays: GpuArrays) -> None:
    """Run the forward pass: fill `values`, `factors`, `gates`, `resets` and `projected` for all time steps."""
    program = arrays.program
    with multiplying(program.precision):
        for number, component in enumerate(program.plan.components):
            kind, codes = program.kind(number), program.codes_of(component)
            if kind == "hoisted" and codes and read_out_at_once(arrays, codes[0]):
                continue
            for code in codes:
                external_products(arrays, code)
            match kind:
                case "hoisted":
                    if codes:
                        hoisted_forward(arrays, codes[0])
                case "spread":
                    launch_spread(arrays, number, forward_arguments(arrays), None)
                case "relay":
                    legs = program.relay_of[number]
                    if number == legs[-1]:  # one launch for all legs
                        launch_relay(arrays, legs, forward_arguments(arrays), None)
                case "resident":
                    launch_resident(arrays, number, forward_arguments(arrays), None)
                case "general":
                    launch_general(arrays, number, forward_arguments(arrays), None)


def launch_general(
    arrays: GpuArrays, number: int, find: Callable[[Argument], Tensor], wanted: frozenset[Part] | None
) -> None:
    """Launch the general (Triton) kernel of a component; `wanted` is for the backward pass."""
    backward = wanted is not None
    kernel = general_kernel(arrays.program, number, arrays.shared, wanted)
    moments = arrays.program.moments(number, arrays.T, arrays.first_step, arrays.device, backward=backward)
    if not len(moments):  # a short sequence may have no time at which these nodes exist
        return
    rows = batch_tile(arrays.P, arrays.B, arrays.processors.own)
    _require_few_programs(arrays, rows)
    _require_short_addresses(arrays)
    tensors = [moments if argument.kind == "moments" else find(argument) for argument in kernel.text.arguments]
    grid = (arrays.P, -(-arrays.B // rows))
    options = {"ROWS": rows, "num_warps": kernel.text.num_warps, "num_stages": kernel.text.num_stages}
    kernel.function[grid](*tensors, arrays.T, arrays.B, len(moments), **options)


def launch_resident(
    arrays: GpuArrays, number: int, find: Callable[[Argument], Tensor], gradients: Gradients | None
) -> None:
    """Launch the kernel of a resident component; `gradients` are for the backward pass."""
    shape = best_shape(
        arrays.program.shapes(number),
        arrays.program.resident(number),
        (arrays.P, arrays.B),
        arrays.processors.own,
    )
    _require_few_programs(arrays, shape.rows)
    device = arrays.device.index or 0
    kernel = resident_kernel(arrays.program, number, shape, arrays.shared, gradients, device)
    tensors = [find(argument) for argument in kernel.text.arguments]
    _launch(arrays, kernel, (shape.num_programs, -(-arrays.B // shape.rows), arrays.P), tensors, at_once=False)


MOST_BYTES_A_TIME = 2**31 - 1  # of all sequences at one time, in any array: kernels keep such distances in 32 bits
MOST_PROGRAMS = 65_535  # along the second and third axis of a grid: a limit of CUDA
LEAST_NUMBERS = 4096  # of matrices in each program of a cluster: with fewer, it would mostly wait for the others
MOST_ROWS_OF_GATES = 32  # sequences of a program whose nodes have three gates or more; else threads lack registers


def best_shape(shapes: Sequence[Shape], resident: Resident, sizes: tuple[int, int], processors: int) -> Shape:
    """How a resident component is divided: into programs of few sequences, in large clusters, if all run at once.

    The rules follow from timings on an H200 (`benchmarks/NOTES.md`).

    Args:
        shapes: the possible shapes; single programs first, and of these the ones with most sequences first.
        resident: the nodes of the component.
        sizes: the numbers of members and sequences.
        processors: how many multiprocessors (SMs) the model may take.
    """
    members, batch = sizes
    most = 64 if resident.most_gates < 3 else MOST_ROWS_OF_GATES
    rows = min(most, batch_tile(members, batch, processors))
    alone = [shape for shape in shapes if shape.num_programs == 1 and shape.rows <= rows]
    together = [
        shape
        for shape in shapes
        if shape.num_programs > 1
        and shape.num_in_all(members, batch) <= processors
        and resident.num_numbers >= LEAST_NUMBERS * shape.num_programs
    ]
    if alone or together:
        return min([*alone[:1], *together], key=lambda shape: (shape.rows, -shape.num_programs))
    return next(shape for shape in shapes if shape.rows <= most)


def launch_relay(
    arrays: GpuArrays,
    legs: tuple[int, ...],
    find: Callable[[Argument], Tensor],
    gradients: tuple[Gradients, ...] | None,
) -> None:
    """Launch the kernel of a relay: each leg has a range of the grid's second axis."""
    program = arrays.program
    shapes = relay_shapes(program, legs, (arrays.P, arrays.B), arrays.processors.own, arrays.device)
    assert not isinstance(shapes, str), shapes  # `choose` has checked
    kernel = relay_kernel(program, legs, shapes, arrays.shared, gradients, arrays.device.index or 0)
    of_legs = dict(zip(legs, shapes, strict=True))
    most = max(shape.num_in_all(arrays.P, arrays.B) for shape in shapes)
    told = dict(zip(legs, torch.zeros(len(shapes), most, dtype=torch.int32, device=arrays.device), strict=True))
    numbers: list[int] = []
    ends = [0]  # where along the grid each leg begins, in clusters, and where the last one ends
    for leg, arguments in kernel.text.legs:
        tensors = (told[each.of] if each.kind == "told" else find(each) for each in arguments)
        first_team = -ends[-1]  # so that the teams (clusters) of each leg are numbered from 0
        numbers += [*(tensor.data_ptr() for tensor in tensors), arrays.T, arrays.B, arrays.first_step, first_team]
        ends.append(ends[-1] + arrays.P * -(-arrays.B // of_legs[leg].rows))
    _require_short_addresses(arrays)
    grid = (shapes[0].num_programs, ends[-1], 1)
    kernel.function.launch(grid, kernel.text.num_threads, [*numbers, *ends[1:]], at_once=False)


def launch_spread(
    arrays: GpuArrays, number: int, find: Callable[[Argument], Tensor], gradients: Gradients | None
) -> None:
    """Launch the kernel of a spread component, for as many teams at a time as the GPU has room for.

    A team is the programs of the same sequences of a member. They wait for one another, so they must run at once: each
    waits until numbers have replaced the words that this function fills their arrays with.
    """
    tilings = arrays.program.tilings(number, (arrays.P, arrays.B), arrays.processors)
    assert not isinstance(tilings, str), tilings  # `choose` has checked
    tiling = tilings[gradients is not None]
    device = arrays.device.index or 0
    gathered = None if gradients is None else gradients[:2]
    kernel = spread_kernel(arrays.program, number, tiling, arrays.shared, gathered, device)
    workers, teams = arrays.program.spread(number).num_workers(tiling.units), -(-arrays.B // tiling.rows) * arrays.P
    for argument, key in kernel.text.awaited:
        arrays.mark_missing(find(argument), argument, key)
    tensors = [find(argument) for argument in kernel.text.arguments]
    for first in range(0, teams, tiling.num_teams):
        grid = (workers, min(tiling.num_teams, teams - first), 1)
        _launch(arrays, kernel, grid, tensors, at_once=True, first_team=first)


def _launch(
    arrays: GpuArrays,
    kernel: CudaKernel,
    grid: tuple[int, int, int],
    tensors: list[Tensor],
    *,
    at_once: bool,
    first_team: int = 0,
) -> None:
    _require_short_addresses(arrays)
    numbers = [*(tensor.data_ptr() for tensor in tensors), arrays.T, arrays.B, arrays.first_step, first_team]
    kernel.function.launch(grid, kernel.num_threads, numbers, at_once=at_once)


def _require_few_programs(arrays: GpuArrays, rows: int) -> None:
    """Raise an error if a grid has no room for all members, or for programs for all sequences."""
    if arrays.P > MOST_PROGRAMS:
        raise ModelError(f"{arrays.P} members are too many for a GPU: give at most {MOST_PROGRAMS} at a time")
    if (most := MOST_PROGRAMS * rows) < arrays.B:
        raise ModelError(f"{arrays.B} sequences at once are too many, {rows} in each program: give at most {most}")


def _require_short_addresses(arrays: GpuArrays) -> None:
    """Raise an error if the sequences of one time take more bytes than kernels' 32-bit offsets reach."""
    most = MOST_BYTES_A_TIME // arrays.program.most_row_bytes
    if most < arrays.B:
        raise ModelError(f"{arrays.B} sequences at once are too many for kernels of this width: give at most {most}")


def forward_arguments(arrays: GpuArrays) -> Callable[[Argument], Tensor]:
    """A function from an argument of a forward kernel to its tensor."""
    codes = arrays.program.codes
    uses = matrix_uses(arrays)

    def find(argument: Argument) -> Tensor:
        kind, of = argument
        match kind:
            case "values":
                return arrays.values[of]
            case "factor":
                return arrays.factors[of]
            case "gates":
                return arrays.gates[of]
            case "reset":
                return arrays.resets[of]
            case "projected":
                return arrays.projected[of]
            case "relu":
                return arrays.is_relu(codes[of])
            case _ if kind.startswith(("matrix", "turned")):
                code, product, is_projection = uses[of]
                matrix = arrays.projection(code, product) if is_projection else arrays.matrix(code, product)
                return arrays.prepared(kind, of, matrix)
            case _:
                assert kind == "bias", kind
                if of in uses:
                    return arrays.bias(of, uses[of][0], 1)
                code = next(code for code in codes.values() if code.bias == of)
                return arrays.bias(of, code, code.num_gates)

    return find


def matrix_uses(arrays: GpuArrays) -> dict[str, tuple[NodeCode, Product, bool]]:
    """For each matrix and each bias of a projection: a node and an edge that use it, and whether it projects."""
    found: dict[str, tuple[NodeCode, Product, bool]] = {}
    for code in arrays.program.codes.values():
        for product in code.products:
            if not arrays.reads_tokens(product):
                found[product.name] = (code, product, False)
            if product.has_projection:
                found[product.projection_bias] = (code, product, True)
                if product.part[0] not in arrays.program.tokens:
                    found[product.projection] = (code, product, True)
    return found
