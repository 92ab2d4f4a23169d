"""How many bytes a training step needs, by arithmetic alone."""

from typing import NamedTuple

from rnnlab.architecture.architecture import Architecture
from rnnlab.architecture.specs import NodeSpec
from rnnlab.engine.plan import Plan
from rnnlab.graph.elements import NodeKey

_TOKEN_BYTES = 8  # tokens are 64-bit integers, whatever the dtype
_ACTIVATIONS = ("sigmoid", "tanh", "relu", "nonlinearity")


class Memory(NamedTuple):
    """The bytes that a training step needs, by what they hold."""

    values: int
    value_gradients: int
    gates: int
    second_products: int
    projections: int
    parameters_and_gradients: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)


def training_memory(plan: Plan, *, population: int = 1, batch: int, steps: int, num_bytes: int = 4) -> Memory:
    """What forward and backward pass of the CPU path keep for P members, B sequences and T steps.

    With N the width of a node, K how far back and L how far ahead anything reads a part of its state:

        values           each part of each node's state    P · (K + T + L) · B · N
        their gradients  as much again, but for inputs and for outputs that no edge leaves, whose values they overwrite
        gates            each node                         P · T · B · gates · N; their gradients overwrite them
        second products  each node whose cell has one      P · T · B · N
        projections      each projected depth input        P · T · B · N, and as much for its gradient
        parameters       their number, times P, and as much for their gradients

    A node of one phase out of m has T / m steps, rounded up or down, in place of T; its values share one array with
    those of its other phases. Inputs and outputs have one part and outputs one gate. Where a single gate becomes the
    state, as in an output or a plain layer to whose state no identity edge adds, it has no array of its own. Tokens
    take 8 bytes, every other number `num_bytes`. Left out are packed copies of the matrices (about twice the
    parameters), what lives for one step or one product only, the outputs as torch gets them, and the arrays of an
    optimiser.
    """
    architecture = plan.architecture
    each = population * batch

    def num_steps(key: NodeKey) -> int:
        return len(range(key[1], steps, architecture.period))

    read = {edge.source[0] for edge in architecture.edges}
    values, once, tokens = 0, 0, 0
    for (name, part), node in _parts(plan).items():
        rows = plan.histories.get((name, part), 0) + steps + plan.lookaheads.get((name, part), 0)
        if node.encoding == "tokens":
            tokens += rows
        elif node.kind == "input" or (node.kind == "output" and name not in read):
            once += rows * node.units
        else:
            values += rows * node.units
    gates, resets, projections = 0, 0, 0
    for node in architecture.nodes:
        size = num_steps(node.key) * node.units
        if node.kind != "input" and not _gate_is_state(architecture, node.key):
            gates += size * len(architecture.gates(node.key))
        if node.kind == "hidden" and architecture.cell(node.key).reset is not None:
            resets += size
        projections += 2 * size * sum(map(architecture.has_projection, architecture.incoming(node.key)))
    return Memory(
        values=each * ((values + once) * num_bytes + tokens * _TOKEN_BYTES),
        value_gradients=each * values * num_bytes,
        gates=each * gates * num_bytes,
        second_products=each * resets * num_bytes,
        projections=each * projections * num_bytes,
        parameters_and_gradients=2 * population * architecture.num_parameters() * num_bytes,
    )


def _parts(plan: Plan) -> dict[tuple[str, str], NodeSpec]:
    """A node for each (name, part of state)."""
    found: dict[tuple[str, str], NodeSpec] = {}
    for node in plan.architecture.nodes:
        for part in plan.architecture.cell(node.key).state if node.kind == "hidden" else ("",):
            found[node.name, part] = node
    return found


def _gate_is_state(architecture: Architecture, key: NodeKey) -> bool:
    """Whether a node's only gate, activated in place, is its new state."""
    if architecture.by_key[key].kind == "output":
        return True
    if any(edge.transform == "identity" for edge in architecture.incoming(key)):
        return False
    formulas = architecture.cell(key).formulas(max(1, len(architecture.carries(key))))
    activated = [each for each in formulas.new_state.values() if each.operation in _ACTIVATIONS]
    gates = [each.arguments[0].name.removeprefix("gate ") for each in activated]
    return formulas.reset is None and len(formulas.new_state) == 1 and tuple(gates) == architecture.gates(key)
