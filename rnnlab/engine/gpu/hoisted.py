"""Forward work over all times at once, as torch operations: products from other components, and acyclic nodes.

`launch.py` calls this before and between the kernels of cyclic components; `backward.py` holds the way back.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from rnnlab.architecture.expressions import Expression, evaluate
from rnnlab.engine.gpu.arrays import GpuArrays
from rnnlab.engine.gpu.formulas import names_read
from rnnlab.engine.gpu.layout import padded
from rnnlab.engine.gpu.memory_bound import can_read_out, read_out
from rnnlab.engine.gpu.products import flat, product, product_into
from rnnlab.engine.nodes import NodeCode, Product, runs


def external_products(arrays: GpuArrays, code: NodeCode) -> None:
    """Write the sums of products from other components to the gates of a node, at all its times.

    Gates that no such product feeds stay uninitialized: nothing reads them.
    """
    times = len(arrays.times(code.key))
    gates = arrays.gates[code.key][:, :times]
    written: set[int] = set()
    for each in code.external:
        if each.edge in arrays.program.handed:  # the kernel of the relay multiplies it
            continue
        if each.has_projection:
            _project(arrays, code, each)
        matrix = arrays.matrix(code, each)
        for mine, theirs in runs(each.pairs, padded(code.units)):
            fed = set(range(theirs.start, theirs.stop))
            out, columns, is_taken = gates[..., theirs], matrix[..., mine], arrays.reads_tokens(each)
            if is_taken and not fed & written:
                taken(columns, arrays.source(each), out=out)
            elif not fed & written:
                product_into(flat(out), flat(arrays.source_factor(each)), columns)
            else:
                source = arrays.source(each) if is_taken else arrays.source_factor(each)
                found = taken(columns, source) if is_taken else product(flat(source), columns).view(out.shape)
                for part in [theirs] if fed <= written else _split(theirs, padded(code.units)):
                    inside = found[..., part.start - theirs.start : part.stop - theirs.start]
                    gates[..., part] = inside + gates[..., part] if part.start in written else inside
            written |= fed


def _split(columns: slice, width: int) -> list[slice]:
    return [slice(start, start + width) for start in range(columns.start, columns.stop, width)]


def taken(matrix: Tensor, tokens: Tensor, out: Tensor | None = None) -> Tensor:
    """The rows of a matrix [P, V, N] that tokens [P, times, B] choose, [P, times, B, N]; written to `out` if given.

    The token -1 stands for none and gives zeros.
    """
    members = torch.arange(matrix.shape[0], device=matrix.device)[:, None, None]
    return torch.mul(matrix[members, tokens.clamp(min=0)], (tokens >= 0)[..., None], out=out)


def _project(arrays: GpuArrays, code: NodeCode, each: Product) -> None:
    """Project a depth input to its node's width, at all times, into `projected`."""
    matrix, bias = arrays.projection(code, each), arrays.bias(each.projection_bias, code, 1)
    value = arrays.value(each.part, each.edge.delay, code.key)
    if each.part[0] in arrays.program.tokens:
        found = taken(matrix, value)
    else:
        found = product(flat(arrays.factor(value)), matrix).view(*value.shape[:3], matrix.shape[2])
    arrays.projected[each.edge][:, : value.shape[1]] = found + bias[:, None, None]


def read_out_at_once(arrays: GpuArrays, code: NodeCode) -> bool:
    """Compute a narrow output of one product, bias included, in one pass over what it reads; whether that was done."""
    if code.key[0] not in arrays.program.unread or len(code.products) != 1:
        return False
    (each,) = code.products
    if each.has_projection or arrays.reads_tokens(each):
        return False
    states, width = arrays.source_factor(each), padded(code.units)
    if not can_read_out(states, width):
        return False
    read_out(states, arrays.matrix(code, each), arrays.bias(code.bias, code, 1), arrays.values[code.key[0], ""])
    return True


def hoisted_forward(arrays: GpuArrays, code: NodeCode) -> None:
    """Compute a node outside of all cycles at all its times."""
    program = code.program
    if code.is_read_out:  # outputs are large: they are written once, straight to their values
        find = operands(arrays, code)
        torch.add(find("gate "), find("bias "), out=find("state "))
        return
    fresh = {f"gate {gate}" for gate in program.gates}
    if program.early is not None:
        late = {f"gate {program.gates[gate]}" for gate in code.late_gates}
        _compute(arrays, code, program.early, fresh - late)
        times = len(arrays.times(code.key))
        width = padded(code.units)
        for each in code.products:
            for mine, theirs in runs(each.reset_pairs, width):
                reset = arrays.factor(arrays.resets[code.key][:, :times])
                found = product(flat(reset), arrays.matrix(code, each)[..., mine])
                out = arrays.gates[code.key][:, :times, :, theirs]
                is_fed = all(_is_fed(code, column // width) for column in range(theirs.start, theirs.stop, width))
                out.copy_(found.view(out.shape) + out if is_fed else found.view(out.shape))
        fresh = late
    _compute(arrays, code, program.forward, fresh)


def _is_fed(code: NodeCode, gate: int) -> bool:
    """Whether a product from another component feeds a gate, given by its number."""
    return any(gate == theirs for each in code.external for _, theirs in each.pairs)


def _compute(arrays: GpuArrays, code: NodeCode, outputs: Mapping[str, Expression], fresh: set[str]) -> None:
    find = operands(arrays, code)
    late = code.late_gates
    unfed = {
        f"gate {gate}"
        for number, gate in enumerate(code.program.gates)
        if f"gate {gate}" in fresh and not _is_fed(code, number) and number not in late
    }
    inputs = {name: 0.0 if name in unfed else find(name).float() for name in names_read(outputs)}
    for name, value in evaluate(outputs, inputs, functions(arrays, code)).items():
        if not (name.startswith("gate ") and code.gate_is_state):
            find(name).copy_(value)


def operands(arrays: GpuArrays, code: NodeCode, *, is_done: bool = False) -> Callable[[str], Tensor]:
    """A function from a name in a node's formulas to the array that it stands for, at all its times, [P, times, B, N].

    `is_done` is for the backward pass: a gate that is also the new state is then found there alone.
    """
    width, times = padded(code.units), len(arrays.times(code.key))

    def find(name: str) -> Tensor:
        kind, _, rest = name.partition(" ")
        match kind:
            case "gate" if is_done and code.gate_is_state:
                return arrays.value((code.key[0], code.first_part), 0, code.key)
            case "gate":
                start = code.program.gates.index(rest) * width
                return arrays.gates[code.key][:, :times, :, start : start + width]
            case "bias":
                start = code.program.gates.index(rest) * width
                return arrays.bias(code.bias, code, code.num_gates)[:, None, None, start : start + width]
            case "depth":
                return arrays.source(code.depth_product)
            case "carried" | "identity":
                edge, part = code.edge_read(name)
                return arrays.value((edge.source[0], part), edge.delay, code.key)
            case "reset":
                return arrays.resets[code.key][:, :times]
            case _:
                assert kind == "state", name
                return arrays.value((code.key[0], rest), 0, code.key)

    return find


def functions(arrays: GpuArrays, code: NodeCode) -> dict[str, Callable[[Tensor], Tensor]]:
    """The functions that formulas call, by name, on tensors."""

    def step(x: Tensor) -> Tensor:
        return (x > 0).to(x.dtype)

    def tanh_slope(y: Tensor) -> Tensor:
        return 1 - y * y

    def chosen(
        for_relu: Callable[[Tensor], Tensor], for_tanh: Callable[[Tensor], Tensor]
    ) -> Callable[[Tensor], Tensor]:
        if code.nonlinearity is not None:
            return for_relu if code.nonlinearity == "relu" else for_tanh
        is_relu = arrays.is_relu(code).bool()[:, None, None, None]
        return lambda x: torch.where(is_relu, for_relu(x), for_tanh(x))

    return {
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "relu": torch.relu,
        "step": step,
        "nonlinearity": chosen(torch.relu, torch.tanh),
        "slope": chosen(step, tanh_slope),
    }
