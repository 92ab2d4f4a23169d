"""The forward kernel of any cyclic component: moment after moment, operands in global memory.

A moment is a node at a time. Each has its own lines: products into the gates, then the cell's formulas, tile of columns
after tile of columns. What one moment stores the next may load, after a barrier of the program's own threads.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rnnlab.architecture.expressions import Expression
from rnnlab.engine.gpu.compiled import KernelText
from rnnlab.engine.gpu.formulas import names_read, needs_choice, write_formulas
from rnnlab.engine.gpu.layout import padded, tile
from rnnlab.engine.gpu.nodes import NodeCode, Product
from rnnlab.engine.gpu.writer import Place, Writer


def general_forward(writer: Writer, codes: Sequence[NodeCode]) -> KernelText:
    """The kernel of the nodes of a component."""
    with moments_loop(writer):
        for number, code in enumerate(codes):
            with writer.block(f"if node == {number}:"):
                _node(writer, code)
                writer.barrier()
    return writer.text()


@contextmanager
def moments_loop(writer: Writer) -> Iterator[None]:
    """Lines for each moment in turn."""
    moments = writer.array("moments", None, "0")
    writer.add("is_relu = False")
    with writer.block("for number in range(num_moments):"):
        writer.add(f"node = tl.load({moments} + 2 * number)", f"time = tl.load({moments} + 2 * number + 1)")
        yield


def _node(writer: Writer, code: NodeCode) -> None:
    for product in code.internal:
        if product.has_projection:
            _project(writer, code, product)
            writer.barrier()
    late = {gate for product in code.products for _, gate in product.reset_pairs}
    gates = range(code.num_gates)
    if code.program.early is None:
        _stage(writer, code, code.program.forward, gates, has_second_product=False)
        return
    _stage(writer, code, code.program.early, [gate for gate in gates if gate not in late], has_second_product=False)
    writer.barrier()
    _stage(writer, code, code.program.forward, sorted(late), has_second_product=True)


def _project(writer: Writer, code: NodeCode, product: Product) -> None:
    """Bring a depth input to its node's width."""
    width = padded(code.units)
    size = tile(width, 128)
    place = writer.value(product.part, product.edge.delay)
    name = f"{product.name} projection"
    bias = writer.array("bias", f"{name} bias", str(width))
    with writer.columns(width, size):
        writer.add(f"sum0 = tl.broadcast_to(tl.load({bias} + columns)[None, :], (ROWS, {size}))")
        _multiply(writer, place, name, width, [(0, "sum0")], width)
        writer.store(writer.per_time("projected", product.edge, width), "sum0")


def _stage(
    writer: Writer,
    code: NodeCode,
    outputs: Mapping[str, Expression],
    fresh: Sequence[int],
    *,
    has_second_product: bool,
) -> None:
    """Sums of products into the fresh gates, and formulas over them."""
    width = padded(code.units)
    size = tile(width, 128 if len(fresh) <= 2 else 64)
    names = code.program.gates
    with writer.columns(width, size):
        for gate in fresh:
            if any(gate == theirs for product in code.external for _, theirs in product.pairs):
                writer.add(f"sum{gate} = {writer.load(writer.gates(code).at(gate * width))}")
            else:
                writer.add(f"sum{gate} = tl.zeros((ROWS, {size}), tl.float32)")
        for product in code.internal:
            sums = [(mine, f"sum{theirs}") for mine, theirs in product.pairs if theirs in fresh]
            if sums:
                num_gates = len(product.pairs) + len(product.reset_pairs)
                _multiply(writer, writer.source(code, product), product.name, num_gates * width, sums, width)
        for product in code.products if has_second_product else ():
            sums = [(mine, f"sum{theirs}") for mine, theirs in product.reset_pairs]
            if sums:
                num_gates = len(product.pairs) + len(product.reset_pairs)
                place = writer.per_time("reset", code.key, width)
                _multiply(writer, place, product.name, num_gates * width, sums, width)
        inputs = {f"gate {names[gate]}": f"sum{gate}" for gate in fresh}
        load_inputs(writer, code, outputs, inputs, size)
        lines, found = write_formulas(outputs, inputs, nonlinearity(code), "e")
        writer.add(*lines)
        for name, variable in found.items():
            _store(writer, code, name, variable)


def _multiply(
    writer: Writer, place: Place, name: str, columns: int, sums: Sequence[tuple[int, str]], width: int
) -> None:
    """Add a place times some gates of a matrix, `columns` wide, to the sums of a tile of columns."""
    size = tile(place.width, 64 if writer.arithmetic.text == "tl.bfloat16" else 32)
    matrix = writer.matrix(name, place.width, columns)
    with writer.columns(place.width, size, "depth", "first_depth"):
        writer.add(f"left = {writer.load_factor(place, 'depth')}")
        for gate, total in sums:
            pointers = f"{matrix} + (depth * {columns})[:, None] + (columns + {gate * width})[None, :]"
            writer.add(f"{total} = {writer.dot('left', f'tl.load({pointers})', total)}")


def load_inputs(
    writer: Writer, code: NodeCode, outputs: Mapping[str, Expression], inputs: dict[str, str], size: int
) -> None:
    """Lines that load what formulas read, beyond what is in `inputs` already, and put it there."""
    for number, name in enumerate(name for name in names_read(outputs) if name not in inputs):
        if name.startswith("bias "):
            bias = writer.array("bias", code.bias, str(code.num_gates * padded(code.units)))
            column = code.program.gates.index(name.removeprefix("bias ")) * padded(code.units)
            writer.add(f"i{number} = tl.broadcast_to(tl.load({bias} + {column} + columns)[None, :], (ROWS, {size}))")
        else:
            writer.add(f"i{number} = {writer.load(operand(writer, code, name))}")
        inputs[name] = f"i{number}"
    if not isinstance(code.choice, str) and needs_choice(outputs):
        writer.add(f"is_relu = tl.load({writer.array('relu', code.key, '1')}) > 0")


def operand(writer: Writer, code: NodeCode, name: str) -> Place:
    """Where something lies that formulas name without `d ` in front."""
    width = padded(code.units)
    kind, _, rest = name.partition(" ")
    match kind:
        case "gate":
            if code.gate_is_state:
                return writer.value((code.key[0], code.first_part), 0)
            return writer.gates(code).at(code.program.gates.index(rest) * width)
        case "carried":
            part, _, number = rest.rpartition(" ")
            return writer.edge_source(code.carries[int(number)], part)
        case "depth":
            return writer.source(code, code.depth_product)
        case "identity":
            edge = code.identities[int(rest)]
            return writer.edge_source(edge, edge.port or "")
        case "reset":
            return writer.per_time("reset", code.key, width)
        case _:
            assert kind == "state", name
            return writer.value((code.key[0], rest), 0)


def _store(writer: Writer, code: NodeCode, name: str, variable: str) -> None:
    if not (name.startswith("gate ") and code.gate_is_state):  # then the state is stored, and is enough
        writer.store(operand(writer, code, name), variable)


def nonlinearity(code: NodeCode) -> str | None:
    """The node's nonlinearity, or None where members differ."""
    return code.choice if isinstance(code.choice, str) else None
