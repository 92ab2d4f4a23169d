"""A plan node by node, as the fast paths run it: what each multiplies, which gates that feeds, and its formulas."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rnnlab.architecture.architecture import Architecture
from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.cell_program import CellProgram, compile_cell, linear_program
from rnnlab.engine.plan import Plan
from rnnlab.graph.elements import NodeKey

Part = tuple[str, str]
"""A part of a node's state: node name and component, such as ("h", "c"); inputs and outputs have the part ""."""

Pairs = tuple[tuple[int, int], ...]
"""Gates of a matrix, and the gates of the node that they feed."""


class Product(NamedTuple):
    """An edge with a matrix: what it reads, and which of its target's gates it adds to."""

    edge: EdgeSpec
    name: str  # of the matrix
    part: Part
    pairs: Pairs
    reset_pairs: Pairs  # the same for the second product
    has_projection: bool
    projection: str  # of the matrix that brings what it reads to its node's width first, where it has a projection
    projection_bias: str  # of the bias that is added then

    @property
    def num_gates(self) -> int:
        """How many gates its matrix has columns for."""
        return len(self.pairs) + len(self.reset_pairs)


class NodeCode(NamedTuple):
    """A hidden or output node, ready to run."""

    key: NodeKey
    units: int
    bias: str
    program: CellProgram
    choice: Any  # a nonlinearity by name, or where members differ whose is relu, [P, 1, 1]
    external: tuple[Product, ...]
    internal: tuple[Product, ...]
    identities: tuple[EdgeSpec, ...]
    carries: tuple[EdgeSpec, ...]
    depth: EdgeSpec | None
    first_part: str  # the part of its state that an activated gate may be, and that identity edges add to
    gate_is_state: bool  # the activated gate is the new state, and is kept as that alone
    parts: tuple[str, ...]  # of its state

    @property
    def products(self) -> tuple[Product, ...]:
        """All edges with a matrix into the node."""
        return self.external + self.internal

    @property
    def num_gates(self) -> int:
        """How many gates it has."""
        return len(self.program.gates)

    @property
    def late_gates(self) -> list[int]:
        """The gates that wait for a second product."""
        return sorted({gate for product in self.products for _, gate in product.reset_pairs})

    @property
    def nonlinearity(self) -> str | None:
        """Its nonlinearity by name, or None where members differ."""
        return self.choice if isinstance(self.choice, str) else None

    @property
    def is_output(self) -> bool:
        """Whether it is an output of the network: the one part of its state has no name."""
        return self.parts == ("",)

    @property
    def is_read_out(self) -> bool:
        """Whether it is an output that only adds a bias to its products."""
        return self.is_output and bool(self.products) and not self.identities

    @property
    def depth_product(self) -> Product:
        """The dense edge whose value a +RNN node also uses unchanged."""
        return next(product for product in self.products if product.edge is self.depth)

    def edge_read(self, name: str) -> tuple[EdgeSpec, str]:
        """The edge, and the part that it brings, of a state that the formulas take as it is, by its name in them."""
        kind, _, rest = name.partition(" ")
        if kind == "carried":
            part, _, number = rest.rpartition(" ")
            return self.carries[int(number)], part
        if kind == "identity":
            return self.identities[int(rest)], self.identities[int(rest)].port or ""
        assert kind == "depth", name
        return self.depth_product.edge, self.depth_product.part[1]


class Passed(NamedTuple):
    """A gradient that goes back as it is, not multiplied: from a node's formulas to a state that they took over."""

    reader: NodeCode
    name: str  # in the reader's formulas
    edge: EdgeSpec
    part: str

    @property
    def source(self) -> Part:
        """The part whose gradient it is."""
        return (self.edge.source[0], self.part)


def passed_by(code: NodeCode) -> list[Passed]:
    """All that a node's formulas pass back; projected inputs apart, whose gradients lie elsewhere."""
    names = [name.removeprefix("d ") for name in code.program.backward]
    names = [name for name in names if name.startswith(("carried ", "identity ", "depth"))]
    if code.depth is not None and code.depth_product.has_projection:
        names = [name for name in names if name != "depth"]
    return [Passed(code, name, *code.edge_read(name)) for name in names]


def state_parts(architecture: Architecture, *, has_outputs: bool = True) -> dict[Part, int]:
    """Every part that is computed or given, and its width."""
    return {
        (node.name, part): node.units
        for node in architecture.nodes
        if has_outputs or node.kind != "output"
        for part in (architecture.cell(node.key).state if node.kind == "hidden" else ("",))
    }


def output_names(architecture: Architecture) -> tuple[str, ...]:
    """The outputs, in order."""
    return tuple(dict.fromkeys(node.name for node in architecture.nodes if node.kind == "output"))


def token_inputs(architecture: Architecture) -> frozenset[str]:
    """The inputs that are integers."""
    return frozenset(node.name for node in architecture.nodes if node.encoding == "tokens")


def choices(architecture: Architecture, nonlinearity: Sequence[str] | None) -> dict[NodeKey, Any]:
    """For each hidden node its nonlinearity, or if members differ, a mask of the members with relu, [P, 1, 1]."""
    found: dict[NodeKey, Any] = {}
    for node in architecture.nodes:
        if node.kind == "hidden":
            own = node.nonlinearity or architecture.cell(node.key).nonlinearity
            members = list(dict.fromkeys(nonlinearity or (own,)))
            is_relu = [each == "relu" for each in nonlinearity or ()]
            found[node.key] = members[0] if len(members) == 1 else np.array(is_relu)[:, None, None]
    return found


def node_codes(plan: Plan, choices: Mapping[NodeKey, Any], *, has_outputs: bool = True) -> dict[NodeKey, NodeCode]:
    """Every node that computes something, in the order of the architecture; outputs may be left out."""
    kinds = ("hidden", "output") if has_outputs else ("hidden",)
    return {node.key: _code(plan, node.key, choices) for node in plan.architecture.nodes if node.kind in kinds}


def _code(plan: Plan, key: NodeKey, choices: Mapping[NodeKey, Any]) -> NodeCode:
    architecture = plan.architecture
    node = architecture.by_key[key]
    products = [_product(architecture, edge) for edge in architecture.incoming(key) if architecture.has_matrix(edge)]
    identities = tuple(edge for edge in architecture.incoming(key) if edge.transform == "identity")
    carries = architecture.carries(key)
    if node.kind == "output":
        program, parts, first = linear_program(len(identities), has_products=bool(products)), ("",), ""
    else:
        cell = architecture.cell(key)
        parts, first = cell.state, cell.ports[0]
        # what identity edges add is in the values too: these are then no longer what the cell computed
        kept = [part for part in cell.state if not identities or part != first]
        program = compile_cell(cell, len(carries), len(identities), kept)
    return NodeCode(
        key=key,
        units=node.units,
        bias=architecture.bias_name(key),
        program=program,
        choice=choices.get(key, "tanh"),
        external=tuple(product for product in products if not plan.is_internal(product.edge)),
        internal=tuple(product for product in products if plan.is_internal(product.edge)),
        identities=identities,
        carries=carries,
        depth=architecture.depth_edge(key),
        first_part=first,
        gate_is_state=program.is_activation_only and (node.kind == "output" or not identities),
        parts=tuple(parts),
    )


def _product(architecture: Architecture, edge: EdgeSpec) -> Product:
    gates, fed = architecture.gates(edge.target), architecture.edge_gates(edge)
    is_hidden = architecture.by_key[edge.target].kind == "hidden"
    late = architecture.cell(edge.target).reset_gates if is_hidden and edge.carry else ()
    return Product(
        edge=edge,
        name=architecture.matrix_name(edge),
        part=(edge.source[0], edge.port or ""),
        pairs=tuple((fed.index(gate), gates.index(gate)) for gate in fed if gate not in late),
        reset_pairs=tuple((fed.index(gate), gates.index(gate)) for gate in late),
        has_projection=architecture.has_projection(edge),
        projection=architecture.projection_name(edge),
        projection_bias=architecture.projection_bias_name(edge),
    )


def runs(pairs: Pairs, width: int) -> Iterator[tuple[slice, slice]]:
    """Columns of a matrix and of the gates that they feed, neighbours joined.

    >>> list(runs(((0, 1), (1, 2), (2, 4)), 10))
    [(slice(0, 20, None), slice(10, 30, None)), (slice(20, 30, None), slice(40, 50, None))]
    """
    joined: list[list[int]] = []  # first gate of the matrix, first of the node, how many
    for mine, theirs in pairs:
        if joined and joined[-1][0] + joined[-1][2] == mine and joined[-1][1] + joined[-1][2] == theirs:
            joined[-1][2] += 1
        else:
            joined.append([mine, theirs, 1])
    for mine, theirs, count in joined:
        yield slice(mine * width, (mine + count) * width), slice(theirs * width, (theirs + count) * width)
