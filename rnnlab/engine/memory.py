"""How many bytes a training step keeps, by arithmetic alone."""

from typing import NamedTuple

from rnnlab.engine.plan import Plan
from rnnlab.graph.elements import NodeKey

_TOKEN_BYTES = 8  # tokens are 64-bit integers, whatever the dtype


class Memory(NamedTuple):
    """Bytes that a training step keeps, by what they hold."""

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

        values           each part of each node's state         P · (K + T + L) · B · N
        their gradients  as much again, but none of tokens
        gates            each hidden node                       P · T · B · gates · N, where gradients overwrite them
        second products  each node whose cell has one           P · T · B · N
        projections      each projected depth input             P · T · B · N, and as much for its gradient
        parameters       their number, times P, and their gradients

    A node of one phase out of m has T / m steps, rounded up or down, in place of T; its values share one array with
    those of its other phases. Inputs and outputs have values of one part. Tokens take 8 bytes each; everything else
    `num_bytes`. What lives for one slot or one product only, and an optimiser's own arrays, are left out.
    """
    architecture = plan.architecture
    each = population * batch

    def num_steps(key: NodeKey) -> int:
        return len(range(key[1], steps, architecture.period))

    values, tokens = 0, 0
    for (name, part), units in _parts(plan).items():
        rows = plan.histories.get((name, part), 0) + steps + plan.lookaheads.get((name, part), 0)
        if units is None:
            tokens += rows
        else:
            values += rows * units
    gates, resets, projections = 0, 0, 0
    for node in architecture.nodes:
        size = num_steps(node.key) * node.units
        if node.kind == "hidden":
            gates += size * len(architecture.gates(node.key))
            resets += size * (architecture.cell(node.key).reset is not None)
        projections += 2 * size * sum(map(architecture.has_projection, architecture.incoming(node.key)))
    return Memory(
        values=each * (values * num_bytes + tokens * _TOKEN_BYTES),
        value_gradients=each * values * num_bytes,
        gates=each * gates * num_bytes,
        second_products=each * resets * num_bytes,
        projections=each * projections * num_bytes,
        parameters_and_gradients=2 * population * architecture.num_parameters() * num_bytes,
    )


def _parts(plan: Plan) -> dict[tuple[str, str], int | None]:
    """The width of each (name, part of state), None for tokens."""
    found: dict[tuple[str, str], int | None] = {}
    for node in plan.architecture.nodes:
        for part in plan.architecture.cell(node.key).state if node.kind == "hidden" else ("",):
            found[node.name, part] = None if node.encoding == "tokens" else node.units
    return found
