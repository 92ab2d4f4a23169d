"""A plan compiled for the CPU: for each node what it multiplies, where the products go, and its cell's programs."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.cell_program import CellProgram, compile_cell
from rnnlab.engine.elementwise import Choice
from rnnlab.engine.plan import Plan
from rnnlab.engine.pool import Pool
from rnnlab.graph.elements import NodeKey

Part = tuple[str, str]
"""A part of a node's state: node name and component, such as ("h", "c"); inputs and outputs have the part ""."""


class Product(NamedTuple):
    """A dense edge: what it reads, and which of its target's gates it adds to.

    A run pairs neighbouring gates of the matrix with the same number of neighbouring gates of the target.
    """

    edge: EdgeSpec
    name: str  # of the matrix
    part: Part
    runs: tuple[tuple[slice, slice], ...]  # gates of the matrix, gates of the target
    reset_runs: tuple[tuple[slice, slice], ...]  # the same for the second product
    has_projection: bool


class NodeCode(NamedTuple):
    """A hidden or output node, ready to run."""

    key: NodeKey
    units: int
    bias: str
    num_gates: int
    program: CellProgram | None  # None for an output, which is linear
    choice: Choice
    external: tuple[Product, ...]
    internal: tuple[Product, ...]
    identities: tuple[EdgeSpec, ...]
    carries: tuple[tuple[EdgeSpec, tuple[Part, ...]], ...]
    depth: EdgeSpec | None
    state: tuple[Part, ...]  # in the order of the update's outputs
    kept: tuple[Part, ...]  # parts whose values are what the update computed, nothing added
    shares_gates: bool  # the activated gate is the new state: one array serves both


class CpuProgram:
    """A plan compiled for numpy; holds no numbers of its own."""

    def __init__(self, plan: Plan, choices: Mapping[NodeKey, Choice]) -> None:
        self.plan = plan
        self.architecture = plan.architecture
        self.pool = Pool()
        self.codes = {
            node.key: self._code(node.key, choices) for node in plan.architecture.nodes if node.kind != "input"
        }

    def _code(self, key: NodeKey, choices: Mapping[NodeKey, Choice]) -> NodeCode:
        architecture = self.architecture
        node = architecture.by_key[key]
        products = [self._product(edge) for edge in architecture.incoming(key) if edge.transform == "dense"]
        carries = tuple(
            (edge, tuple((edge.source[0], part) for part in architecture.cell(key).carries))
            for edge in architecture.carries(key)
        )
        identities = tuple(edge for edge in architecture.incoming(key) if edge.transform == "identity")
        choice = choices.get(key, "tanh")
        cell = None if node.kind == "output" else architecture.cell(key)
        # what identity edges add is in the values too: these are then no longer what the cell computed
        kept = () if cell is None else tuple(part for part in cell.state if not identities or part != cell.ports[0])
        program = None if cell is None else compile_cell(cell, len(carries), choice, kept)
        return NodeCode(
            key=key,
            units=node.units,
            bias=node.bias or f"{architecture.label(key)} bias",
            num_gates=len(architecture.gates(key)),
            program=program,
            choice=choice,
            external=tuple(product for product in products if not self.plan.is_internal(product.edge)),
            internal=tuple(product for product in products if self.plan.is_internal(product.edge)),
            identities=identities,
            carries=carries,
            depth=architecture.depth_edge(key),
            state=tuple((key[0], part) for part in program.update.outputs) if program else ((key[0], ""),),
            kept=tuple((key[0], part) for part in kept),
            shares_gates=self._shares_gates(program, identities),
        )

    def _shares_gates(self, program: CellProgram | None, identities: Sequence[EdgeSpec]) -> bool:
        if self.architecture.period > 1 or identities:
            return False
        return program is None or (len(program.gates) == 1 and program.is_activation_only)

    def _product(self, edge: EdgeSpec) -> Product:
        architecture = self.architecture
        gates, fed = architecture.gates(edge.target), architecture.edge_gates(edge)
        is_hidden = architecture.by_key[edge.target].kind == "hidden"
        late = architecture.cell(edge.target).reset_gates if is_hidden and edge.carry else ()
        columns = [(fed.index(gate), gates.index(gate)) for gate in fed if gate not in late]
        reset = [(fed.index(gate), gates.index(gate)) for gate in late]
        name = edge.weights or architecture.edge_label(edge)
        part = (edge.source[0], edge.port or "")
        return Product(edge, name, part, _runs(columns), _runs(reset), architecture.has_projection(edge))


def _runs(columns: Sequence[tuple[int, int]]) -> tuple[tuple[slice, slice], ...]:
    """Pairs of gate numbers as pairs of ranges, neighbours joined."""
    runs: list[list[int]] = []  # first gate of the matrix, first of the target, how many
    for mine, theirs in columns:
        if runs and runs[-1][0] + runs[-1][2] == mine and runs[-1][1] + runs[-1][2] == theirs:
            runs[-1][2] += 1
        else:
            runs.append([mine, theirs, 1])
    return tuple((slice(mine, mine + count), slice(theirs, theirs + count)) for mine, theirs, count in runs)
