"""The forward pass on the CPU: products into the gates, then the cell's formulas, step after step."""

from collections.abc import Callable, Sequence

import numpy as np

from rnnlab.architecture.expressions import in_order, named
from rnnlab.engine.cpu_arrays import CpuArrays
from rnnlab.engine.cpu_pass import Factors, Operand, Pass, runs_ahead
from rnnlab.engine.cpu_program import Array
from rnnlab.engine.native.elementwise import CHOICE, compile_kernel
from rnnlab.engine.native.target import host
from rnnlab.engine.nodes import NodeCode, Product, runs


def forward(arrays: CpuArrays) -> None:
    """Fill `values`, `gates`, `resets` and `projected` for all time steps."""
    if arrays.forward_pass is None:
        arrays.forward_pass = _write(arrays)
    arrays.forward_pass.perform()


def _write(arrays: CpuArrays) -> Pass:
    operations = Pass(arrays)
    is_ahead = runs_ahead(arrays)
    for code in arrays.program.codes.values():
        _products(operations, code, code.internal if is_ahead else code.products, adds=is_ahead)
        _cell(operations, code)
        operations.end_list()
    for code in arrays.program.codes.values():
        if is_ahead:
            _products(operations, code, code.external, adds=False)
        operations.end_list()
    operations.finish(backward=False)
    return operations


def _products(operations: Pass, code: NodeCode, products: Sequence[Product], *, adds: bool) -> None:
    """The sums of products into all gates of a node; or added to what is there."""
    arrays, gates = operations.arrays, operations.arrays.gates[code.key]
    everything = (0, code.num_gates * code.units)
    dense: dict[tuple[int, int], list[Factors]] = {everything: []}  # by the columns of the gates that they feed
    tokens: list[tuple[tuple[int, int], Product, Array]] = []
    for product in products:
        if product.has_projection:
            _project(operations, code, product)
        for mine, theirs in runs(product.pairs, code.units):
            fed, matrix = (theirs.start, theirs.stop), arrays.parameters[product.name][:, :, mine]
            if arrays.program.reads_tokens(product):
                tokens.append((fed, product, matrix))
            else:
                dense.setdefault(fed, []).append((Operand(arrays.source(product)), product.name, matrix))
    is_first_by_token = len(dense) == 1 and bool(tokens) and tokens[0][0] == everything
    if not dense[everything] and (adds or is_first_by_token or not _reads_gates(code)):
        del dense[everything]  # otherwise a sum of no products clears the gates before others add to them
    for (first, last), factors in dense.items():
        operations.multiply(factors, Operand(gates, first), last - first, adds=adds)
        adds = True
    for (first, _), product, matrix in tokens:
        operations.gather(arrays.source(product), product.name, matrix, Operand(gates, first), adds=adds)
        adds = True


def _reads_gates(code: NodeCode) -> bool:
    return any(each.name.startswith("gate ") for each in in_order(code.program.forward.values()))


def _project(operations: Pass, code: NodeCode, product: Product) -> None:
    """Bring a depth input to its node's width."""
    arrays = operations.arrays
    out = Operand(arrays.projected[product.edge])
    name, bias = product.projection, product.projection_bias
    matrix = arrays.parameters[name]
    value = arrays.read(arrays.values, product.part, product.edge.delay, product.edge.target)
    if product.part[0] in arrays.program.tokens:
        operations.gather(value, name, matrix, out, adds=False)
    else:
        operations.multiply([(Operand(value), name, matrix)], out, code.units, adds=False)
    operands = {"sum": out, "bias": Operand(arrays.parameters[bias], parameter=bias)}
    kernel = compile_kernel({"sum": named("sum") + named("bias")}, (), "tanh", arrays.shape.dtype, host())
    operations.compute(kernel, operands.__getitem__, code.units)


def _cell(operations: Pass, code: NodeCode) -> None:
    """The formulas of a node, and the second product of those that have one."""
    arrays = operations.arrays
    kernels = arrays.program.kernels(code, arrays.shape.dtype)
    find = operands(arrays, code)
    operations.compute(kernels.early, find, code.units)
    for product in code.products:
        for mine, theirs in runs(product.reset_pairs, code.units):
            out = Operand(arrays.gates[code.key], theirs.start)
            matrix = arrays.parameters[product.name][:, :, mine]
            factors = (Operand(arrays.resets[code.key]), product.name, matrix)
            operations.multiply([factors], out, matrix.shape[2], adds=True)
    operations.compute(kernels.forward, find, code.units)


def operands(arrays: CpuArrays, code: NodeCode) -> Callable[[str], Operand]:
    """Where the forward pass keeps what a node's formulas name."""

    def find(name: str) -> Operand:
        if name == CHOICE:
            return Operand(np.ascontiguousarray(code.choice, arrays.dtype).reshape(-1, 1))
        kind, _, rest = name.partition(" ")
        match kind:
            case "gate":
                return Operand(arrays.gates[code.key], code.program.gates.index(rest) * code.units)
            case "bias":
                column = code.program.gates.index(rest) * code.units
                return Operand(arrays.parameters[code.bias], column, code.bias)
            case "carried" | "identity":
                edge, part = code.edge_read(name)
                return Operand(arrays.read(arrays.values, (edge.source[0], part), edge.delay, code.key))
            case "depth":
                return Operand(arrays.source(code.depth_product))
            case "reset":
                return Operand(arrays.resets[code.key])
            case _:
                assert kind == "state", name
                return Operand(arrays.new_state(arrays.values, code, rest))

    return find
