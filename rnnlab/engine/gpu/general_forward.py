"""The general forward kernel, for any cyclic component: a loop over its moments, with all operands in global memory.

Written in Triton with `writer.py`; `general_backward.py` holds its counterpart. A moment is one node at one time step.
The lines of each node make products into its gates, then compute the cell's formulas, one tile of columns after
another. A moment may load what the one before stored, after a barrier of the program's own threads: programs (thread
blocks) have members and sequences of their own and need not wait for one another.
"""

from collections.abc import Iterator, Mapping, Sequence

from rnnlab.architecture.expressions import Expression
from rnnlab.engine.gpu.compiled import KernelText
from rnnlab.engine.gpu.formulas import names_read, needs_choice, write_formulas
from rnnlab.engine.gpu.layout import padded
from rnnlab.engine.gpu.writer import Place, Writer
from rnnlab.engine.nodes import NodeCode, Product


def general_forward(writer: Writer, codes: Sequence[NodeCode]) -> KernelText:
    """The forward kernel of the nodes of a component."""
    for code in moments(writer, codes, backward=False):
        _node(writer, code)
        writer.barrier()
    return writer.text()


def moments(writer: Writer, codes: Sequence[NodeCode], *, backward: bool) -> Iterator[NodeCode]:
    """Yield each node in turn; what the caller writes then is run at each of its moments, in a loop over all of them.

    If there is a single node (and period 1), its moments are simply all times. Otherwise node and time are read from
    `moments` in memory, each pair while the moment before it runs.
    """
    writer.add("is_relu = False")
    if len(codes) == 1 and writer.plan.architecture.period == 1:
        component = writer.plan.components[writer.plan.component_of[codes[0].key]]
        is_falling = component.is_backward != backward
        with writer.block("for number in range(num_moments):"):
            writer.add("time = T - 1 - number" if is_falling else "time = number + (T - T)")
            yield codes[0]
        return
    array = writer.array("moments", None, "0")
    writer.add(f"next_node = tl.load({array})", f"next_time = tl.load({array} + 1)")
    with writer.block("for number in range(num_moments):"):
        writer.add("node = next_node", "time = next_time")
        writer.add("place = 2 * tl.minimum(number + 1, num_moments - 1)")
        writer.add(f"next_node = tl.load({array} + place)", f"next_time = tl.load({array} + place + 1)")
        for number, code in enumerate(codes):
            with writer.block(f"if node == {number}:"):
                yield code


def _node(writer: Writer, code: NodeCode) -> None:
    for product in code.internal:
        if product.has_projection:
            _project(writer, code, product)
            writer.barrier()
    late, gates = code.late_gates, range(code.num_gates)
    if code.program.early is None:
        _stage(writer, code, code.program.forward, gates, has_second_product=False)
        return
    _stage(writer, code, code.program.early, [gate for gate in gates if gate not in late], has_second_product=False)
    writer.barrier()
    _stage(writer, code, code.program.forward, late, has_second_product=True)


def _project(writer: Writer, code: NodeCode, product: Product) -> None:
    """Write lines that project a depth input to its node's width."""
    width = padded(code.units)
    size = writer.tile_of(width)
    place = writer.value(product.part, product.edge.delay)
    bias = writer.array("bias", product.projection_bias, str(width))
    with writer.columns(width, size):
        writer.add(f"sum0 = {writer.load_vector(bias, size)}")
        writer.multiply([("sum0", 0)], place, product.projection, (place.width, width), size, turned=False)
        writer.store(writer.per_time("projected", product.edge, width), "sum0")


def _stage(
    writer: Writer,
    code: NodeCode,
    outputs: Mapping[str, Expression],
    fresh: Sequence[int],
    *,
    has_second_product: bool,
) -> None:
    """Write lines that sum products into the `fresh` gates and compute formulas over them.

    A cell with a second product, such as a GRU, has two stages; `has_second_product` is for the second.
    """
    width = padded(code.units)
    names = code.program.gates
    fed = [gate for gate in fresh if any(gate == theirs for each in code.external for _, theirs in each.pairs)]
    read = {name for name in names_read(outputs) if not name.startswith("bias ")}
    num_others = len(fed) + len(read - {f"gate {names[gate]}" for gate in fresh})
    size = writer.tile_of(width, len(fresh), num_others)
    with writer.columns(width, size):
        # everything is loaded before the products, so that it has arrived by the time they are done
        for gate in fed:
            writer.add(f"given{gate} = {writer.load(writer.gates(code).at(gate * width, width))}")
        inputs = {f"gate {names[gate]}": f"sum{gate}" for gate in fresh}
        load_inputs(writer, code, outputs, inputs, size)
        for gate in fresh:
            writer.add(f"sum{gate} = tl.zeros((ROWS, {size}), tl.float32)")
        for product in code.internal:
            sums = [(f"sum{theirs}", mine * width) for mine, theirs in product.pairs if theirs in fresh]
            if sums:
                place = writer.source(code, product)
                writer.multiply(sums, place, product.name, (place.width, product.num_gates * width), size, turned=False)
        for product in code.products if has_second_product else ():
            sums = [(f"sum{theirs}", mine * width) for mine, theirs in product.reset_pairs]
            if sums:
                place = writer.per_time("reset", code.key, width)
                writer.multiply(sums, place, product.name, (width, product.num_gates * width), size, turned=False)
        writer.add(*(f"sum{gate} += given{gate}" for gate in fed))
        lines, found = write_formulas(outputs, inputs, code.nonlinearity)
        writer.add(*lines)
        for name, variable in found.items():
            _store(writer, code, name, variable)


def load_inputs(
    writer: Writer, code: NodeCode, outputs: Mapping[str, Expression], inputs: dict[str, str], size: int
) -> None:
    """Write lines that load what formulas read and `inputs` lacks, and add the variables to `inputs`."""
    for number, name in enumerate(name for name in names_read(outputs) if name not in inputs):
        if name.startswith("bias "):
            bias = writer.array("bias", code.bias, str(code.num_gates * padded(code.units)))
            column = code.program.gates.index(name.removeprefix("bias ")) * padded(code.units)
            writer.add(f"i{number} = {writer.load_vector(f'{bias} + {column}', size)}")
        else:
            writer.add(f"i{number} = {writer.load(operand(writer, code, name))}")
        inputs[name] = f"i{number}"
    if code.nonlinearity is None and needs_choice(outputs):
        writer.add(f"is_relu = tl.load({writer.array('relu', code.key, '1')}) > 0")


def operand(writer: Writer, code: NodeCode, name: str) -> Place:
    """The place of a name in a node's formulas that is not a gradient (has no `d ` in front)."""
    width = padded(code.units)
    kind, _, rest = name.partition(" ")
    match kind:
        case "gate":
            if code.gate_is_state:
                return writer.value((code.key[0], code.first_part), 0)
            return writer.gates(code).at(code.program.gates.index(rest) * width, width)
        case "depth":
            return writer.source(code, code.depth_product)
        case "carried" | "identity":
            return writer.edge_source(*code.edge_read(name))
        case "reset":
            return writer.per_time("reset", code.key, width)
        case _:
            assert kind == "state", name
            return writer.value((code.key[0], rest), 0)


def _store(writer: Writer, code: NodeCode, name: str, variable: str) -> None:
    if not (name.startswith("gate ") and code.gate_is_state):  # if they are the same, only the state is stored
        writer.store(operand(writer, code, name), variable)
