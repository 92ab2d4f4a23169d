"""How many bytes a training step needs, by arithmetic alone."""

from typing import NamedTuple

from rnnlab.engine.nodes import choices, node_codes, output_names, state_parts, token_inputs
from rnnlab.engine.plan import Plan
from rnnlab.graph.elements import NodeKey

_TOKEN_BYTES = 8  # tokens are 64-bit integers, whatever the dtype


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

    inputs = {node.name for node in architecture.nodes if node.kind == "input"}
    unread = set(output_names(architecture)) - {edge.source[0] for edge in architecture.edges}
    integers = token_inputs(architecture)
    values, once, tokens = 0, 0, 0
    for part, units in state_parts(architecture).items():
        rows = plan.histories.get(part, 0) + steps + plan.lookaheads.get(part, 0)
        if part[0] in integers:
            tokens += rows
        elif part[0] in inputs | unread:
            once += rows * units
        else:
            values += rows * units
    gates, resets, projections = 0, 0, 0
    for key, code in node_codes(plan, choices(architecture, None)).items():
        size = num_steps(key) * code.units
        if not code.gate_is_state:
            gates += size * code.num_gates
        if code.program.early is not None:
            resets += size
        projections += 2 * size * sum(product.has_projection for product in code.products)
    return Memory(
        values=each * ((values + once) * num_bytes + tokens * _TOKEN_BYTES),
        value_gradients=each * values * num_bytes,
        gates=each * gates * num_bytes,
        second_products=each * resets * num_bytes,
        projections=each * projections * num_bytes,
        parameters_and_gradients=2 * population * architecture.num_parameters() * num_bytes,
    )
