"""A cell compiled for the loop over time: activation of the gates, update, and both backward."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rnnlab.architecture.cells import Cell, Formulas
from rnnlab.architecture.expressions import Expression, gradients, in_order, named, rewritten
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
    backward: Program  # the same, slopes, kept state, gradients of the new state -> gradients of gates, carried, depth
    reset_backward: Program | None  # gradient of what was multiplied -> gradients of gates and carried
    is_activation_only: bool  # the new state is the activated gate itself


def compile_cell(cell: Cell, num_carries: int, choice: Choice, kept: Sequence[str] = ()) -> CellProgram:
    """The programs of a cell with that many carry edges, for one nonlinearity or a choice for each member.

    The values of the parts of the new state in `kept` are at hand in the backward pass, and not computed again.
    """
    gates = cell.gate_names(num_carries)
    formulas = cell.formulas(max(1, num_carries))
    operations = _gate_operations(formulas, gates)
    reset = {} if formulas.reset is None else {"reset": formulas.reset}
    activated = rewritten({**formulas.new_state, **reset}, lambda each: _activated_gate(each, operations))
    new_state = {part: activated[part] for part in formulas.new_state}
    inputs = [f"gate {gate}" for gate in gates]
    inputs += [f"carried {part} {number}" for number in range(num_carries) for part in cell.carries]
    inputs += ["depth"] if cell.has_depth_input else []
    slopes = [f"slope {gate}" for gate in gates]
    backward = _backward(new_state, [*inputs, *slopes], operations, kept)
    return CellProgram(
        gates,
        _grouped(gates, [gate for gate in gates if gate not in cell.reset_gates], operations),
        _grouped(gates, cell.reset_gates, operations),
        compile_program(new_state, inputs, choice),
        compile_program({"reset": activated["reset"]}, inputs, choice) if reset else None,
        compile_program(backward, [*inputs, *slopes, *_names("state", kept), *_names("d", new_state)], choice),
        compile_program(
            _backward({"reset": activated["reset"]}, [*inputs, *slopes], operations, ()),
            [*inputs, *slopes, "d reset"],
            choice,
        )
        if reset
        else None,
        all(value.operation == "input" for value in new_state.values()) and set(operations) == set(gates),
    )


def _names(prefix: str, parts: Iterable[str]) -> list[str]:
    return [f"{prefix} {part}" for part in parts]


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


def _activated_gate(expression: Expression, operations: Mapping[str, str]) -> Expression | None:
    """The gate itself where an expression is the nonlinearity of a gate that is kept activated."""
    if expression.operation not in _ACTIVATIONS or expression.arguments[0].operation != "input":
        return None
    (argument,) = expression.arguments
    return named(argument.name) if argument.name.removeprefix("gate ") in operations else None


def _backward(
    outputs: Mapping[str, Expression], inputs: Sequence[str], operations: Mapping[str, str], kept: Sequence[str]
) -> dict[str, Expression]:
    """Gradients of the inputs that the outputs depend on, through the activations to the preactivations."""
    leaves = {each.name: each for each in in_order(outputs.values()) if each.operation == "input"}
    found = gradients(outputs, leaves)
    for name in found:
        gate = name.removeprefix("gate ")
        if name.startswith("gate ") and gate in operations:
            found[name] = found[name] * named(f"slope {gate}")
    wanted = {f"d {name}": found[name] for name in inputs if name in found}
    at_hand = {id(outputs[part]): part for part in kept if outputs[part].operation != "input"}
    return rewritten(wanted, lambda each: named(f"state {at_hand[id(each)]}") if id(each) in at_hand else None)


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
