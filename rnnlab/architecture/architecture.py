"""An architecture: a cyclic graph, a cell and a width for each node, a transform for each edge."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from rnnlab.architecture.cells import Cell, named_cell
from rnnlab.architecture.specs import EdgeSpec, NodeSpec
from rnnlab.errors import ArchitectureError, RnnlabError
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.elements import NodeKey, show_key
from rnnlab.integers import as_integer

CATEGORIES = ("weights", "biases", "read-out weights", "read-out biases", "initial state", "projection")


class ParameterSpec(NamedTuple):
    """One trainable array of an architecture."""

    name: str
    category: str  # one of CATEGORIES
    shape: tuple[int, ...]  # [rows, columns] of a matrix, [columns] of a vector
    blocks: tuple[str, ...]  # the gates that share its columns, in order
    source_kind: str | None  # of a matrix: what its rows read, "input", "hidden" or "output"

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return self.shape[0] * (self.shape[1] if len(self.shape) > 1 else 1)


@dataclass(frozen=True, init=False, repr=False)
class Architecture:
    """A graph with cells: a whole network except its numbers. Never changes; equal if it computes in the same way.

    Whatever the specifications leave open (carry edges, ports, depth inputs) is filled in on construction, and nodes
    and edges are put into the graph's canonical order.
    """

    nodes: tuple[NodeSpec, ...]
    edges: tuple[EdgeSpec, ...]
    period: int

    def __init__(self, nodes: Iterable[NodeSpec], edges: Iterable[EdgeSpec], period: int = 1) -> None:
        listed = list(nodes)
        period = as_integer(period, "period", ArchitectureError)
        given = list(edges)
        graph = CyclicGraph([node.node for node in listed], [edge.edge for edge in given], period)
        by_key = {node.key: node for node in listed}
        self.__dict__.update(graph=graph, nodes=tuple(by_key[node.key] for node in graph.nodes), period=period)
        order = {edge: number for number, edge in enumerate(graph.edges)}
        filled = [self._with_port(edge) for edge in given]
        filled = [self._with_role(edge, filled) for edge in filled]
        filled = [self._with_carry(edge, filled) for edge in filled]
        ordered = sorted(filled, key=lambda edge: (order[edge.edge], edge.transform, edge.port or ""))
        self.__dict__["edges"] = tuple(ordered)
        self._check()

    @cached_property
    def graph(self) -> CyclicGraph:
        """The connections alone, from which the measures and the schedule are computed."""
        return CyclicGraph([node.node for node in self.nodes], [edge.edge for edge in self.edges], self.period)

    @cached_property
    def by_key(self) -> dict[NodeKey, NodeSpec]:
        """Each node by name and phase."""
        return {node.key: node for node in self.nodes}

    def cell(self, key: NodeKey) -> Cell:
        """The cell of a hidden node."""
        name = self.by_key[key].cell
        if name is None:
            raise ArchitectureError(f"{self.label(key)} is not a hidden node, so it has no cell")
        return named_cell(name)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells that the nodes' cell names refer to at present: an entry of `CELLS` may have been replaced."""
        return tuple(named_cell(name) for name in self._cell_names)

    @cached_property
    def _cell_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node.cell for node in self.nodes if node.cell is not None))

    def incoming(self, key: NodeKey) -> tuple[EdgeSpec, ...]:
        """The edges into a node, in canonical order."""
        return self._incoming[key]

    @cached_property
    def _incoming(self) -> dict[NodeKey, tuple[EdgeSpec, ...]]:
        return self._edges_by(lambda edge: edge.target)

    @cached_property
    def _outgoing(self) -> dict[NodeKey, tuple[EdgeSpec, ...]]:
        return self._edges_by(lambda edge: edge.source)

    def _edges_by(self, end: Callable[[EdgeSpec], NodeKey]) -> dict[NodeKey, tuple[EdgeSpec, ...]]:
        found: dict[NodeKey, list[EdgeSpec]] = {node.key: [] for node in self.nodes}
        for edge in self.edges:
            found[end(edge)].append(edge)
        return {key: tuple(edges) for key, edges in found.items()}

    def carries(self, key: NodeKey) -> tuple[EdgeSpec, ...]:
        """The edges that bring a node the state itself."""
        return tuple(edge for edge in self.incoming(key) if edge.carry)

    def depth_edge(self, key: NodeKey) -> EdgeSpec | None:
        """The edge whose value a +RNN node uses unchanged."""
        return next((edge for edge in self.incoming(key) if edge.role == "depth"), None)

    def gates(self, key: NodeKey) -> tuple[str, ...]:
        """The gates of a node, in the order of its bias; an output has a single gate, without a name."""
        if self.by_key[key].kind == "output":
            return ("",)
        return self.cell(key).gate_names(len(self.carries(key)))

    def edge_gates(self, edge: EdgeSpec) -> tuple[str, ...]:
        """The gates of the target that a dense edge feeds, in the order of its matrix's columns."""
        if self.by_key[edge.target].kind == "output":
            return ("",)
        cell = self.cell(edge.target)
        skipped = cell.other_gates if edge.carry else cell.carry_gates
        return tuple(gate for gate in self.gates(edge.target) if gate not in skipped)

    def has_matrix(self, edge: EdgeSpec) -> bool:
        """Whether an edge multiplies by a matrix: a dense edge does, unless it feeds no gate and only carries state."""
        return edge.transform == "dense" and bool(self.edge_gates(edge))

    def has_projection(self, edge: EdgeSpec) -> bool:
        """Whether the value of a depth edge is mapped to the node's width first; tokens always are."""
        source = self.by_key[edge.source]
        is_vector = source.encoding == "values" and source.units == self.by_key[edge.target].units
        return edge.role == "depth" and not is_vector

    def label(self, key: NodeKey) -> str:
        """How a node is written: `h`, or `h@1` where there are phases."""
        return show_key(key, self.period)

    def edge_label(self, edge: EdgeSpec) -> str:
        """How an edge is written: `h->y[0]`, with its port where that is not the default."""
        port = "" if edge.port == self._default_port(edge) else f" {edge.port}"
        return f"{self.label(edge.source)}->{self.label(edge.target)}[{edge.delay}]{port}"

    def matrix_name(self, edge: EdgeSpec) -> str:
        """The name of an edge's matrix among the parameters: its `weights`, or else how the edge is written."""
        return edge.weights or self.edge_label(edge)

    def projection_name(self, edge: EdgeSpec) -> str:
        """The name of the matrix that maps the value of a depth edge to the node's width."""
        return f"{self.matrix_name(edge)} projection"

    def projection_bias_name(self, edge: EdgeSpec) -> str:
        """The name of the bias that is added after that matrix."""
        return f"{self.projection_name(edge)} bias"

    def bias_name(self, key: NodeKey) -> str:
        """The name of a node's bias."""
        return self.by_key[key].bias or f"{self.label(key)} bias"

    def initial_name(self, key: NodeKey, part: str) -> str:
        """The name of a component of a node's state before the first step, if that is learned."""
        return f"{self.label(key)} initial {part}".rstrip()  # the state of an output is one component without a name

    def initial_components(self, key: NodeKey) -> tuple[str, ...]:
        """The components of a node's state that are read from before the first step."""
        node = self.by_key[key]
        if node.kind != "hidden":
            return ("",) if any(edge.delay > 0 for edge in self._outgoing[key]) else ()
        read: set[str] = set()
        for edge in self._outgoing[key]:
            if edge.delay > 0:
                if edge.transform == "identity" or self.has_matrix(edge):
                    read.add(edge.port or "")
                if edge.carry:
                    read.update(self.cell(edge.target).carries)
        return tuple(part for part in self.cell(key).state if part in read)

    @cached_property
    def parameters(self) -> tuple[ParameterSpec, ...]:
        """Every trainable array; tied arrays appear once."""
        found: dict[str, ParameterSpec] = {}
        for edge in self.edges:
            for spec in self._edge_parameters(edge):
                _keep(found, spec)
        for node in self.nodes:
            for spec in self._node_parameters(node):
                _keep(found, spec)
        return tuple(found.values())

    def num_parameters(self, count: Iterable[str] = CATEGORIES) -> int:
        """How many trainable parameters there are in the categories in `count`, or in the one that it is."""
        counted = {count} if isinstance(count, str) else set(count)
        if unknown := counted - set(CATEGORIES):
            raise ArchitectureError(f"count knows {', '.join(CATEGORIES)}; got {', '.join(sorted(unknown))}")
        return sum(spec.size for spec in self.parameters if spec.category in counted)

    def _edge_parameters(self, edge: EdgeSpec) -> list[ParameterSpec]:
        if not self.has_matrix(edge):
            return []
        source, target = self.by_key[edge.source], self.by_key[edge.target]
        rows = target.units if self.has_projection(edge) else source.units
        gates = self.edge_gates(edge)
        category = "read-out weights" if target.kind == "output" else "weights"
        shape = (rows, len(gates) * target.units)
        specs = [ParameterSpec(self.matrix_name(edge), category, shape, gates, source.kind)]
        if self.has_projection(edge):
            shape = (source.units, target.units)
            specs.append(ParameterSpec(self.projection_name(edge), "projection", shape, ("",), source.kind))
            name = self.projection_bias_name(edge)
            specs.append(ParameterSpec(name, "projection", (target.units,), ("",), None))
        return specs

    def _node_parameters(self, node: NodeSpec) -> list[ParameterSpec]:
        specs: list[ParameterSpec] = []
        if node.kind != "input":
            gates = self.gates(node.key)
            category = "read-out biases" if node.kind == "output" else "biases"
            shape = (len(gates) * node.units,)
            specs.append(ParameterSpec(self.bias_name(node.key), category, shape, gates, None))
        if node.initial == "learned" and node.kind != "input":
            for part in self.initial_components(node.key):
                name = self.initial_name(node.key, part)
                specs.append(ParameterSpec(name, "initial state", (node.units,), (part,), None))
        return specs

    def _with_port(self, edge: EdgeSpec) -> EdgeSpec:
        source = self.by_key[edge.source]
        if source.kind != "hidden":
            if edge.port is not None:
                raise ArchitectureError(
                    f"edge {edge} reads port {edge.port!r}, but {source.name!r} is an {source.kind}"
                )
            return edge
        ports = named_cell(source.cell or "").ports
        port = edge.port or self._default_port(edge)
        if port not in ports:
            raise ArchitectureError(f"edge {edge} reads port {port!r}; cell {source.cell!r} has {', '.join(ports)}")
        return replace(edge, port=port)

    def _default_port(self, edge: EdgeSpec) -> str | None:
        cell = self.by_key[edge.source].cell
        if cell is None:
            return None
        return named_cell(cell).ports[0 if edge.delay else -1]

    def _with_role(self, edge: EdgeSpec, edges: list[EdgeSpec]) -> EdgeSpec:
        target = self.by_key[edge.target]
        has_depth = target.kind == "hidden" and named_cell(target.cell or "").has_depth_input
        if not has_depth:
            if edge.role == "depth":
                raise ArchitectureError(f"edge {edge} has role depth, but cell {target.cell!r} has no depth input")
            return edge
        into = [other for other in edges if other.target == edge.target]
        if any(other.role == "depth" for other in into):
            return edge
        immediate = [other for other in into if other.delay == 0 and other.transform == "dense"]
        if len(immediate) != 1:
            raise ArchitectureError(
                f"node {self.label(edge.target)} ({target.cell}) needs one depth input: it has {len(immediate)} dense "
                'edges of delay 0; mark one with "role": "depth"'
            )
        return replace(edge, role="depth") if edge is immediate[0] else edge

    def _with_carry(self, edge: EdgeSpec, edges: list[EdgeSpec]) -> EdgeSpec:
        if edge.carry is not None:
            return edge
        target = self.by_key[edge.target]
        if target.kind != "hidden" or not named_cell(target.cell or "").needs_carry:
            return replace(edge, carry=False)
        into = [other for other in edges if other.target == edge.target and other.transform == "dense"]
        if any(other.carry for other in into):
            return replace(edge, carry=False)
        own = [other for other in into if other.delay and other.source[0] == target.name and other.carry is None]
        # a node that runs backward in time finds its old state in the future
        nearest = min(own, key=lambda other: (other.delay < 0, abs(other.delay)), default=None)
        return replace(edge, carry=edge == nearest)

    def _check(self) -> None:
        same = Counter((edge.edge, edge.transform, edge.port) for edge in self.edges)
        if twice := next((key for key, times in same.items() if times > 1), None):
            raise ArchitectureError(
                f"edge {self.graph.show_walk([twice[0]])} is listed twice with transform {twice[1]}"
            )
        for node in self.nodes:
            if node.kind == "input" and self.incoming(node.key):
                raise ArchitectureError(
                    f"input {self.label(node.key)} has an incoming edge: {self.incoming(node.key)[0]}"
                )
            if node.kind == "hidden":
                self._check_carries(node)
                depths = [edge for edge in self.incoming(node.key) if edge.role == "depth"]
                if len(depths) > 1:
                    raise ArchitectureError(
                        f"node {self.label(node.key)} has {len(depths)} depth inputs, it must have one"
                    )
                if depths and not self.has_matrix(depths[0]):
                    raise ArchitectureError(
                        f"edge {depths[0]} is a depth input, so it must feed a gate of {node.cell!r}"
                    )
        for edge in self.edges:
            if edge.transform == "identity":
                self._check_widths(edge, "adds its value unchanged")
                if self.by_key[edge.source].encoding == "tokens":
                    raise ArchitectureError(f"edge {edge} reads tokens, which are no vector to be added unchanged")
            if edge.carry and self.by_key[edge.target].kind != "hidden":
                raise ArchitectureError(
                    f"edge {edge} carries state, but {edge.target[0]!r} is an output and keeps none"
                )
        self._check_phases()
        self._check_names()

    def _check_phases(self) -> None:
        first: dict[str, NodeSpec] = {}
        for node in self.nodes:
            other = first.setdefault(node.name, node)
            if (node.kind, node.units) == (other.kind, other.units):
                continue
            raise ArchitectureError(
                f"{node.name!r} must be one kind and equally wide in all phases; "
                f"{self.label(other.key)} is {other.kind} with {other.units} units, "
                f"{self.label(node.key)} is {node.kind} with {node.units}"
            )

    def _check_names(self) -> None:
        """Arrays are one only where somebody said so; ties of different shapes are refused too."""
        first: dict[str, EdgeSpec] = {}
        for edge in self.edges:
            if edge.weights is None and self.has_matrix(edge):
                other = first.setdefault(self.edge_label(edge), edge)
                if other is not edge:
                    raise ArchitectureError(
                        f"two matrices would be called {self.edge_label(edge)!r}: of an edge from {other.source[0]!r} "
                        f"and of one from {edge.source[0]!r}; give them weights, or rename nodes that hold '->'"
                    )
        keys: dict[str, str] = {}
        for spec in self.parameters:
            other = keys.setdefault(spec.name.replace(".", "\N{ONE DOT LEADER}"), spec.name)  # as state dicts have it
            if other != spec.name:
                raise ArchitectureError(
                    f"{other!r} and {spec.name!r} differ in a dot and a one dot leader only, and are one name in a "
                    "state dict: rename one"
                )

    def _check_carries(self, node: NodeSpec) -> None:
        cell, carries, label = self.cell(node.key), self.carries(node.key), self.label(node.key)
        if cell.needs_carry and not carries:
            raise ArchitectureError(
                f"node {label} ({cell.name}) has no carry edge: a gated cell needs its old state; add a dense edge "
                f'with a delay from {node.name!r}, or mark one with "carry": true'
            )
        if carries and not cell.needs_carry:
            raise ArchitectureError(f"edge {carries[0]} carries state, but cell {cell.name!r} uses none")
        if len(carries) > 1 and not cell.edge_gates:
            shown = " and ".join(map(str, carries))
            raise ArchitectureError(f"node {label} ({cell.name}) takes one carry edge, got {shown}")
        for edge in carries:
            source = self.by_key[edge.source]
            has_parts = source.kind == "hidden" and set(cell.carries) <= set(self.cell(edge.source).state)
            if not has_parts:
                raise ArchitectureError(
                    f"edge {edge} cannot carry {', '.join(cell.carries)}: its source has no such state"
                )
            self._check_widths(edge, "carries state")

    def _check_widths(self, edge: EdgeSpec, what: str) -> None:
        source, target = self.by_key[edge.source].units, self.by_key[edge.target].units
        if source != target:
            raise ArchitectureError(f"edge {edge} {what}, so both ends must be equally wide; got {source} and {target}")

    def __repr__(self) -> str:
        cells = sorted({node.cell for node in self.nodes if node.cell})
        return f"<Architecture: {self.graph!r}, {', '.join(cells)}, {self.num_parameters()} parameters>"

    def to_json(self) -> dict[str, Any]:
        """The architecture in the file form: a graph's file with `cell`, `units`, `transform` and the rest."""
        from rnnlab.architecture.files import architecture_to_json

        return architecture_to_json(self)

    @classmethod
    def from_json(cls, data: Any) -> "Architecture":
        """The architecture of a parsed file."""
        from rnnlab.architecture.files import architecture_from_json

        return architecture_from_json(data)


def _keep(found: dict[str, ParameterSpec], spec: ParameterSpec) -> None:
    """Add an array, or check that one of the same name is the same."""
    other = found.setdefault(spec.name, spec)
    if (other.shape, other.blocks, other.category) != (spec.shape, spec.blocks, spec.category):
        raise ArchitectureError(
            f"{spec.name!r} ties arrays that differ: {_show(other)} and {_show(spec)}; give them different names"
        )


def _show(spec: ParameterSpec) -> str:
    gates = ", ".join(gate for gate in spec.blocks if gate)
    return f"{spec.category} {list(spec.shape)}" + (f" for gates {gates}" if gates else "")


def checked_architecture(given: Architecture, what: str, error: type[RnnlabError] = ArchitectureError) -> Architecture:
    """The architecture itself; a name or a graph in its place is refused with the way to the architecture.

    >>> checked_architecture("lstm", "plan")
    Traceback (most recent call last):
    rnnlab.errors.ArchitectureError: plan takes an object for its architecture: architecture('lstm', ...) makes one
    """
    if isinstance(given, Architecture):
        return given
    if isinstance(given, str):
        raise error(f"{what} takes an object for its architecture: architecture({given!r}, ...) makes one")
    hint = ": architecture(graph, 'lstm', ...) gives it cells and widths" if isinstance(given, CyclicGraph) else ""
    raise error(f"{what} takes an architecture, got {given!r}"[:300] + hint)
