"""A cell compiled for the loop over time: activation of the gates, update, and both backward."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rnnlab.architecture.cells import Cell, Formulas
from rnnlab.architecture.expressions import Expression, gradients, in_order, named
from rnnlab.engine.elementwise import Choice, Program, compile_program

_ACTIVATIONS = ("sigmoid", "tanh", "relu", "nonlinearity")


class Activation(NamedTuple):
    """A nonlinearity on neighbouring gates, from gate number `first` up to `last`."""

    operation: str
    first: int
    last: int


class CellProgram(NamedTuple):
    """Everything elementwise about a node.

    The loop keeps gates *activated*: where all a cell does with a gate's preactivation is one nonlinearity, that is
    applied in place, and only its value is kept for the backward pass. All else is computed again from there.
    """

    gates: tuple[str, ...]
    activations: tuple[Activation, ...]  # of gates that need no second product
    late_activations: tuple[Activation, ...]  # of gates that wait for the second product
    update: Program  # gates, carried, depth -> new state
    reset: Program | None  # gates, carried -> what the second product multiplies
    backward: Program  # the same and the gradients of the new state -> gradients of gates, carried, depth
    reset_backward: Program | None  # gradient of what was multiplied -> gradients of gates and carried
    is_activation_only: bool  # the new state is the activated gate itself


def compile_cell(cell: Cell, num_carries: int, choice: Choice) -> CellProgram:
    """The programs of a cell with that many carry edges, for one nonlinearity or a choice for each member."""
    gates = cell.gate_names(num_carries)
    formulas = cell.formulas(max(1, num_carries))
    operations = _gate_operations(formulas, gates)
    formulas = Formulas(
        {part: _activated(value, operations) for part, value in formulas.new_state.items()},
        None if formulas.reset is None else _activated(formulas.reset, operations),
    )
    early = [gate for gate in gates if gate not in cell.reset_gates]
    inputs = [f"gate {gate}" for gate in gates]
    inputs += [f"carried {part} {number}" for number in range(num_carries) for part in cell.carries]
    inputs += ["depth"] if cell.has_depth_input else []
    return CellProgram(
        gates,
        _grouped(gates, early, operations),
        _grouped(gates, cell.reset_gates, operations),
        compile_program(formulas.new_state, inputs, choice),
        None if formulas.reset is None else compile_program({"reset": formulas.reset}, inputs, choice),
        _backward(formulas.new_state, inputs, operations, choice),
        None if formulas.reset is None else _backward({"reset": formulas.reset}, inputs, operations, choice),
        all(value.operation == "input" for value in formulas.new_state.values()) and set(operations) == set(gates),
    )


def _gate_operations(formulas: Formulas, gates: tuple[str, ...]) -> dict[str, str]:
    """For each gate that only ever goes into one nonlinearity, which."""
    outputs = [*formulas.new_state.values(), *([formulas.reset] if formulas.reset is not None else [])]
    users: dict[str, set[str]] = {gate: set() for gate in gates}
    for expression in in_order(outputs):
        for argument in expression.arguments:
            if argument.operation == "input" and argument.name.startswith("gate "):
                users[argument.name.removeprefix("gate ")].add(expression.operation)
    for output in outputs:
        if output.operation == "input" and output.name.startswith("gate "):
            users[output.name.removeprefix("gate ")].add("output")
    return {gate: next(iter(used)) for gate, used in users.items() if len(used) == 1 and used < set(_ACTIVATIONS)}


def _activated(output: Expression, operations: Mapping[str, str]) -> Expression:
    """The formula in terms of activated gates: the nonlinearity of such a gate is the gate itself."""
    made: dict[int, Expression] = {}
    for expression in in_order([output]):
        gate = expression.arguments[0].name.removeprefix("gate ") if expression.operation in _ACTIVATIONS else ""
        if gate in operations and expression.arguments[0].operation == "input":
            made[id(expression)] = made[id(expression.arguments[0])]
            continue
        arguments = tuple(made[id(argument)] for argument in expression.arguments)
        made[id(expression)] = Expression(expression.operation, arguments, expression.name, expression.number)
    return made[id(output)]


def _backward(
    outputs: Mapping[str, Expression], inputs: list[str], operations: Mapping[str, str], choice: Choice
) -> Program:
    """Gradients of the inputs that the outputs depend on, through the activations to the preactivations."""
    leaves = [expression.name for expression in in_order(outputs.values()) if expression.operation == "input"]
    shared = {name: named(name) for name in leaves}
    merged = {name: _with_inputs(output, shared) for name, output in outputs.items()}
    found = gradients(merged, shared)
    for name in found:
        gate = name.removeprefix("gate ")
        if name.startswith("gate ") and gate in operations:
            found[name] = found[name] * _slope(shared[name], operations[gate])
    wanted = {f"d {name}": found[name] for name in inputs if name in found}
    return compile_program(wanted, [*inputs, *(f"d {name}" for name in outputs)], choice)


def _with_inputs(output: Expression, shared: Mapping[str, Expression]) -> Expression:
    """The same formula with one object for each input, so that gradients of all its uses meet there."""
    made: dict[int, Expression] = {}
    for expression in in_order([output]):
        if expression.operation == "input":
            made[id(expression)] = shared[expression.name]
        else:
            arguments = tuple(made[id(argument)] for argument in expression.arguments)
            made[id(expression)] = Expression(expression.operation, arguments, "", expression.number)
    return made[id(output)]


def _slope(value: Expression, operation: str) -> Expression:
    """The derivative of a nonlinearity, from its value."""
    if operation == "sigmoid":
        return value * (1 - value)
    if operation == "tanh":
        return 1 - value * value
    return Expression("step" if operation == "relu" else "slope", (value,))


def _grouped(gates: Sequence[str], chosen: Sequence[str], operations: Mapping[str, str]) -> tuple[Activation, ...]:
    """The activations of the chosen gates, neighbours of one kind together."""
    groups: list[Activation] = []
    for number, gate in enumerate(gates):
        if gate not in chosen or gate not in operations:
            continue
        operation = operations[gate]
        if groups and groups[-1].operation == operation and groups[-1].last == number:
            groups[-1] = groups[-1]._replace(last=number + 1)
        else:
            groups.append(Activation(operation, number, number + 1))
    return tuple(groups)
