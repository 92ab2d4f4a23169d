"""Elementwise formulas as machine code: one pass over memory for all that a cell computes at a step."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from rnnlab.architecture.expressions import Expression, in_order
from rnnlab.engine.native.code import INT, POINTER, Function, Kind, Value
from rnnlab.engine.native.target import Library, Target, compiled
from rnnlab.engine.native.vector_math import sigmoid, tanh

RECORD = 4  # integers that say where an operand lies: address, bytes from member to member, time to time, row to row
CHOICE = "is relu"  # the operand that holds 1 for members whose nonlinearity is relu, where members differ
_STRANDS = 4  # rows narrower than a vector are taken from so many places in turn


class Kernel(NamedTuple):
    """A compiled pass over rows: `function(records, width, member, time, first row, rows)`."""

    library: Library  # where it lives
    operands: tuple[str, ...]  # in the order of their records

    @property
    def address(self) -> int:
        """Where it starts."""
        return self.library.address("kernel")


_KERNELS: dict[Any, Kernel] = {}
"""Made before, by all that they depend on: to write one takes several milliseconds, and networks share cells."""


def compile_kernel(
    outputs: Mapping[str, Expression], adds: Sequence[str], nonlinearity: str | None, dtype: str, target: Target
) -> Kernel:
    """Machine code that computes `outputs` from operands of the names that the expressions read; made once.

    Args:
        outputs: by the name of the operand that each is written to.
        adds: the outputs that are added to what is there.
        nonlinearity: `tanh` or `relu`, or None where the operand `is relu` says for each member.
        dtype: `float32` or `float64`.
        target: the machine.
    """
    key = (_recipe(outputs), tuple(adds), nonlinearity, dtype, target)
    if key not in _KERNELS:
        _KERNELS[key] = _kernel(outputs, adds, nonlinearity, dtype, target)
    return _KERNELS[key]


def _recipe(outputs: Mapping[str, Expression]) -> tuple[Any, ...]:
    """Formulas as a value: equal for those that are written alike."""
    places: dict[int, int] = {}
    steps: list[Any] = []
    for each in in_order(outputs.values()):
        arguments = tuple(places[id(part)] for part in each.arguments)
        places[id(each)] = len(steps)
        steps.append((each.operation, arguments, each.name, float(each.number).hex()))  # 0.0 and -0.0 are equal
    return (*steps, *((name, places[id(output)]) for name, output in outputs.items()))


def _kernel(
    outputs: Mapping[str, Expression], adds: Sequence[str], nonlinearity: str | None, dtype: str, target: Target
) -> Kernel:
    inputs = dict.fromkeys(each.name for each in in_order(outputs.values()) if each.operation == "input")
    has_choice = nonlinearity is None and any(
        each.operation in ("nonlinearity", "slope") for each in in_order(outputs.values())
    )
    operands = (*dict.fromkeys((*inputs, *outputs)), *([CHOICE] if has_choice else []))
    kind = Kind(dtype, target)
    module = ir.Module()
    code = Function(module, "kernel", [POINTER, INT, INT, INT, INT, INT], kind)
    _write(code, outputs, tuple(inputs), operands, frozenset(adds), nonlinearity)
    return Kernel(compiled(str(module), target), operands)


def _write(
    code: Function,
    outputs: Mapping[str, Expression],
    inputs: Sequence[str],
    operands: Sequence[str],
    adds: frozenset[str],
    nonlinearity: str | None,
) -> None:
    records, width, member, time, first_row, rows = code.args
    build = code.build
    bases: dict[str, Value] = {}
    row_bytes: dict[str, Value] = {}
    for number, name in enumerate(operands):
        address, by_member, by_time, by_row = (
            code.load_int(records, RECORD * number + field) for field in range(RECORD)
        )
        moved = build.add(build.mul(member, by_member), build.mul(time, by_time))
        bases[name] = build.inttoptr(build.add(address, moved), POINTER)
        row_bytes[name] = by_row
    is_relu = None
    if CHOICE in bases:
        is_relu = build.fcmp_ordered(">", code.load_scalar(bases[CHOICE]), ir.Constant(code.kind.scalar, 0.5))
    functions = _functions(code, nonlinearity, is_relu)

    def body(row: Value, column: Value, mask: Value | None) -> None:
        starts = {name: code.at(bases[name], build.mul(row, row_bytes[name])) for name in bases}
        places = {name: code.element(starts[name], column) for name in bases}
        found = {name: code.load(places[name], mask) for name in inputs}
        values = _evaluate(code, outputs, found, functions)
        for name, value in values.items():
            # read only now: two outputs may be one place, and both are added
            total = build.fadd(code.load(places[name], mask), value) if name in adds else value
            code.store(total, places[name], mask)

    last_row, whole = build.add(first_row, rows), build.and_(width, INT(-code.kind.lanes))
    with code.loop(first_row, last_row) as row, code.loop(INT(0), whole, code.kind.lanes) as column:
        body(row, column, None)
    # A masked load that spans what was just stored, if only outside its mask, waits until that has left the processor.
    # So the rest of each row comes when all rows are done; and of narrow rows, where each spans the next, not in order.
    rest = build.sub(width, whole)
    mask = code.first_lanes(rest)
    with build.if_then(build.icmp_signed(">", rest, INT(0))):
        strand = build.sdiv(build.add(rows, INT(_STRANDS - 1)), INT(_STRANDS))
        apart = build.select(build.icmp_signed("==", whole, INT(0)), strand, INT(1))
        with code.loop(first_row, build.add(first_row, apart)) as first, code.loop(first, last_row, apart) as row:
            body(row, whole, mask)
    code.finish()


def _evaluate(
    code: Function,
    outputs: Mapping[str, Expression],
    inputs: Mapping[str, Value],
    functions: Mapping[str, Callable[[Value], Value]],
) -> dict[str, Value]:
    """The outputs as values in the code; equal expressions are computed once."""
    build = code.build
    binary: dict[str, Any] = {"add": build.fadd, "subtract": build.fsub, "multiply": build.fmul}
    numbers: dict[Any, int] = {}  # of what was computed: keys that held their parts' keys would double with every use
    places: dict[int, int] = {}
    values: list[Value] = []
    for each in in_order(outputs.values()):
        parts = tuple(places[id(part)] for part in each.arguments)
        key = (each.operation, parts, each.name, float(each.number).hex())
        place = places[id(each)] = numbers.setdefault(key, len(numbers))
        if place < len(values):
            continue
        arguments = [values[part] for part in parts]
        if each.operation == "input":
            values.append(inputs[each.name])
        elif each.operation == "number":
            values.append(code.number(each.number))
        elif each.operation in binary:
            values.append(binary[each.operation](*arguments, flags=("contract",)))
        else:
            values.append(functions[each.operation](*arguments))
    return {name: values[places[id(output)]] for name, output in outputs.items()}


def _functions(code: Function, nonlinearity: str | None, is_relu: Value | None) -> dict[str, Callable[[Value], Value]]:
    build, zero, one = code.build, code.number(0.0), code.number(1.0)

    def relu(x: Value) -> Value:
        return build.select(build.fcmp_ordered("<", x, zero), zero, x)  # NaN stays

    def step(x: Value) -> Value:
        return build.select(build.fcmp_ordered("<=", x, zero), zero, one)  # NaN lets gradients pass, as in torch

    def tanh_slope(y: Value) -> Value:
        return code.fused(build.fneg(y), y, one)

    def chosen(for_relu: Callable[[Value], Value], for_tanh: Callable[[Value], Value]) -> Callable[[Value], Value]:
        if nonlinearity is not None:
            return for_relu if nonlinearity == "relu" else for_tanh
        return lambda x: build.select(is_relu, for_relu(x), for_tanh(x))

    return {
        "negate": build.fneg,
        "sigmoid": lambda x: sigmoid(code, x),
        "tanh": lambda x: tanh(code, x),
        "relu": relu,
        "step": step,
        "nonlinearity": chosen(relu, lambda x: tanh(code, x)),
        "slope": chosen(step, tanh_slope),
    }
