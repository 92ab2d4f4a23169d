"""What a cell computes at a step, forward and backward, as formulas over named places in memory.

Every fast path generates its kernels from these formulas. They read and write:

    gate NAME       before the step the sum of its products; after it what the backward pass needs of it
    bias NAME       the bias of a gate
    carried PART K  the part of the state that the K-th carry edge brings
    depth           the depth input of a +RNN node
    identity K      what the K-th identity edge adds after the nonlinearity
    reset           what the second product multiplies, in cells that have one
    state PART      the new state

and, with `d ` in front of these names, their gradients.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rnnlab.architecture.cells import Cell, Formulas
from rnnlab.architecture.expressions import Expression, gradients, in_order, named, rewritten

Outputs = Mapping[str, Expression]

_ACTIVATIONS = ("sigmoid", "tanh", "relu", "nonlinearity")


class CellProgram(NamedTuple):
    """Everything elementwise about a node.

    Gates are kept *activated*: if all a cell does with a gate's preactivation is one nonlinearity, only the result is
    kept, from which its slope follows.
    """

    gates: tuple[str, ...]
    early: Outputs | None  # before the second product: gates that do not wait for it, and what it multiplies
    forward: Outputs  # the other gates, and the new state
    late: Outputs | None  # gradients of the gates of the second product, from which that of `reset` follows
    backward: Outputs  # all other gradients, and those again
    is_activation_only: bool  # the new state is the one activated gate itself


def compile_cell(cell: Cell, num_carries: int, num_identities: int, kept: Sequence[str] = ()) -> CellProgram:
    """The formulas of a node of that cell with `num_carries` carry edges and `num_identities` identity edges.

    The backward pass reads the parts of the new state in `kept` from memory instead of computing them again.
    """
    gates = cell.gate_names(num_carries)
    formulas = cell.formulas(max(1, num_carries))
    operations = _gate_operations(formulas, gates)
    reset = {} if formulas.reset is None else {"reset": formulas.reset}
    activated = rewritten(
        {**{f"state {part}": value for part, value in formulas.new_state.items()}, **reset},
        lambda each: _activated_gate(each, operations),
    )
    new_state = {name: value for name, value in activated.items() if name != "reset"}
    early = _fresh([gate for gate in gates if gate not in cell.reset_gates], operations)
    late = _fresh(cell.reset_gates, operations)
    # with a second product the early gates lie in memory by the time the state is computed
    now = late if reset else early
    forward = {**now, **_with_identities(_replaced(new_state, now), f"state {cell.ports[0]}", num_identities)}
    return CellProgram(
        gates,
        {**early, **_replaced({"reset": activated["reset"]}, early)} if reset else None,
        forward,
        _late(new_state, cell.reset_gates, operations, kept) if reset else None,
        {
            **_backward(activated, gates, operations, kept),
            **{f"d identity {k}": named(f"d state {cell.ports[0]}") for k in range(num_identities)},
        },
        len(gates) == 1
        and set(operations) == set(gates)
        and all(value.operation == "input" for value in new_state.values())
        and new_state[f"state {cell.ports[0]}"].name == f"gate {gates[0]}",
    )


def linear_program(num_identities: int, *, has_products: bool) -> CellProgram:
    """An output node: the sum of its products, if any, and its bias, the only gate and part, both without a name."""
    forward = {"state ": named("gate ") + named("bias ") if has_products else named("bias ")}
    backward = {"d gate ": named("d state ")} | {f"d identity {k}": named("d state ") for k in range(num_identities)}
    return CellProgram(("",), None, _with_identities(forward, "state ", num_identities), None, backward, True)


def _fresh(gates: Sequence[str], operations: Mapping[str, str]) -> dict[str, Expression]:
    """What is kept of each gate, computed from the sum of its products and the bias."""
    sums = {gate: named(f"gate {gate}") + named(f"bias {gate}") for gate in gates}
    return {
        f"gate {gate}": Expression(operations[gate], (value,)) if gate in operations else value
        for gate, value in sums.items()
    }


def _replaced(outputs: Outputs, values: Mapping[str, Expression]) -> dict[str, Expression]:
    """Outputs in which some of the inputs are replaced by intermediate results."""
    return rewritten(outputs, lambda each: values.get(each.name) if each.operation == "input" else None)


def _with_identities(outputs: Outputs, port: str, count: int) -> dict[str, Expression]:
    added = dict(outputs)
    for k in range(count):
        added[port] = added[port] + named(f"identity {k}")
    return added


def _gate_operations(formulas: Formulas, gates: tuple[str, ...]) -> dict[str, str]:
    """For each gate that is used in one nonlinearity only, that nonlinearity."""
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
    """The gate itself, if an expression is the nonlinearity of a gate that is kept activated."""
    if expression.operation not in _ACTIVATIONS or expression.arguments[0].operation != "input":
        return None
    (argument,) = expression.arguments
    return named(argument.name) if argument.name.removeprefix("gate ") in operations else None


def _slope(operation: str, value: Expression) -> Expression:
    """The derivative of a nonlinearity, from its value."""
    match operation:
        case "sigmoid":
            return value * (1 - value)
        case "tanh":
            return 1 - value * value
        case "relu":
            return Expression("step", (value,))
        case _:
            return Expression("slope", (value,))


def _backward(
    outputs: Outputs, gates: Sequence[str], operations: Mapping[str, str], kept: Sequence[str]
) -> dict[str, Expression]:
    """Gradients of the gates' preactivations, of all of them, and of the other inputs that the outputs depend on."""
    leaves = {each.name: each for each in in_order(outputs.values()) if each.operation == "input"}
    found = gradients(outputs, leaves)
    for gate in gates:
        name = f"gate {gate}"
        found.setdefault(name, Expression("number", number=0.0))  # memory holds the gate until something is written
        if gate in operations:
            found[name] = found[name] * _slope(operations[gate], named(name))
    at_hand = {id(outputs[f"state {part}"]): part for part in kept if outputs[f"state {part}"].operation != "input"}
    return rewritten(
        {f"d {name}": gradient for name, gradient in found.items()},
        lambda each: named(f"state {at_hand[id(each)]}") if id(each) in at_hand else None,
    )


def _late(
    new_state: Outputs, reset_gates: Sequence[str], operations: Mapping[str, str], kept: Sequence[str]
) -> dict[str, Expression]:
    """The gradients of the gates of the second product alone."""
    everything = _backward(new_state, reset_gates, operations, kept)
    return {name: everything[name] for name in (f"d gate {gate}" for gate in reset_gates)}
