"""Networks by name: a graph of the catalogue with a cell in every hidden node, `td:lstm` (C4, Z41, M1-M6, P3-P10).

What papers and graphs leave open is decided here:

- A gated cell needs its old state, which an edge with a delay from a node of the same name brings. A hidden node
  without one (deep input's f, deep output's o, the inner layers of a deep transition) is a plain layer with the cell's
  nonlinearity.
- With `lstm-edges`, every edge between two of its nodes carries state, those of delay 0 too, as in Zhang's own code.
- A read-out takes what a cell hands upwards (y of a +RNN), also where it reads a slow module's state of some steps ago.
- Where the connections change from step to step, the matrices do not: edges between nodes of the same two names share
  one (where several such edges enter a node, the one of smallest delay with its like, the next with its like), and
  nodes of one name share their bias. The exceptions are Mongia's networks, whose point is which matrices change.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Required, TypedDict

from rnnlab.architecture.architecture import CATEGORIES, Architecture
from rnnlab.architecture.cells import CELLS, Cell, named_cell
from rnnlab.architecture.sizing import Fit, fit_units
from rnnlab.architecture.specs import EdgeSpec, Encoding, Initial, NodeSpec
from rnnlab.errors import ArchitectureError
from rnnlab.graph.catalogue import CATALOGUE, Family, named_graph
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.elements import Edge, Kind, NodeKey
from rnnlab.hints import hint, nearest

Units = int | Mapping[str, int]

# families whose matrices alternate, and whether one matrix serves all phases nevertheless (M2-M5)
ALTERNATING = {"mongia-b": False, "mongia-c": True, "mongia-d": False, "special-K": False}


class BuildOptions(TypedDict, total=False):
    """The keyword arguments of `architecture`, for functions that pass them on."""

    input_size: Required[Units]
    output_size: Required[Units]
    units: Units | None
    parameters: int | None
    fit: Fit
    count: Iterable[str]
    encoding: Encoding
    initial: Initial


def architecture(
    name: str | CyclicGraph,
    cell: str | None = None,
    *,
    input_size: Units,
    output_size: Units,
    units: Units | None = None,
    parameters: int | None = None,
    fit: Fit = "under",
    count: Iterable[str] = CATEGORIES,
    encoding: Encoding = "values",
    initial: Initial = "learned",
) -> Architecture:
    """A network of the catalogue, or one made from your own graph, with cells and widths.

    Args:
        name: `graph`, `graph:cell` or `cell`, as `rnnlab list` shows them; a cell alone means one layer of it,
            `sh:cell`. Or a `CyclicGraph`: with a period above 1, edges between nodes of the same two names share their
            matrices over the phases, the shortest delays first. (`mongia-` networks share theirs as their paper says.)
        cell: the cell, if `name` gives none; tanh by default.
        input_size: the width of every input, or a width for each name; for tokens, the size of the vocabulary.
        output_size: the same for outputs.
        units: the width of every hidden node, or a width for each name.
        parameters: instead of `units`, the number of trainable parameters to fit; all layers then get the same width.
        fit, count: with `parameters`, how to fit and what counts, as in `fit_units`.
        encoding: whether inputs are vectors (`values`) or integers (`tokens`).
        initial: whether the state before the first step is `learned` (C11) or `zero`.

    Raises:
        ArchitectureError: there is no such cell, the graph cannot hold it, or the size cannot be reached.

    >>> architecture("td", "lstm", input_size=27, output_size=27, units=260)
    <Architecture: <CyclicGraph: 4 nodes, 6 edges, period 1>, lstm, 1119847 parameters>
    >>> fitted = architecture("td:tanh", input_size=27, output_size=27, parameters=290_331, initial="zero")
    >>> fitted.by_key["h1", 0].units
    262
    """
    graph, family, cell_name = _resolved(name, cell)
    recipe = Recipe(
        graph=graph,
        cells=node_cells(graph, named_cell(cell_name)),
        alternating=None if family is None else ALTERNATING.get(family.pattern),
        input_size=input_size,
        output_size=output_size,
        encoding=encoding,
        initial=initial,
    )
    if units is not None and parameters is None:
        return recipe.build(units)
    if parameters is not None and units is None:
        return fit_units(recipe.build, parameters, fit=fit, count=count)
    raise ArchitectureError(f"give units or parameters, one of the two; got {units!r} and {parameters!r}")


def split_name(name: str) -> tuple[str, str | None]:
    """The graph and the cell that a name gives: a bare cell means `sh:cell`, a bare graph leaves the cell open.

    >>> split_name("td:lstm"), split_name("lstm"), split_name("td")
    (('td', 'lstm'), ('sh', 'lstm'), ('td', None))
    """
    graph, colon, cell = name.partition(":")
    if colon:
        if not cell:
            raise ArchitectureError(f"{name!r} names no cell after the colon; known: {', '.join(sorted(CELLS))}")
        return graph, cell
    if _family(name) is not None:
        return name, None
    if name in CELLS:
        return "sh", name
    if nearest(name, CELLS, least=0.75) is not None:
        raise ArchitectureError(f"no architecture is named {name!r}; {hint(name, CELLS, '`rnnlab list` shows all')}")
    return name, None


def _family(name: str) -> Family | None:
    return next((family for family in CATALOGUE if family.match(name) is not None), None)


def _resolved(name: str | CyclicGraph, cell: str | None) -> tuple[CyclicGraph, Family | None, str]:
    if isinstance(name, CyclicGraph):
        return name, None, cell or "tanh"
    graph_name, own = split_name(name)
    if own is not None and cell is not None and own != cell:
        raise ArchitectureError(f"{name!r} names cell {own!r}, the argument cell is {cell!r}; give one of them")
    return named_graph(graph_name), _family(graph_name), own or cell or "tanh"


def node_cells(graph: CyclicGraph, cell: Cell) -> dict[NodeKey, str]:
    """Which cell each hidden node gets: `cell`, or a plain layer where a gated one would find no old state."""
    hidden = [node for node in graph.nodes if node.kind == "hidden"]
    if cell.has_depth_input and len({node.name for node in hidden}) < 2:
        raise ArchitectureError(
            f"cell {cell.name!r} gates what passes from layer to layer, so it needs two hidden layers or more (C18); "
            f"this graph has {', '.join(sorted({node.name for node in hidden})) or 'none'}"
        )
    if not cell.needs_carry:
        return {node.key: cell.name for node in hidden}
    kept = {edge.target for edge in graph.edges if edge.delay and edge.source[0] == edge.target[0]}
    if not any(node.key in kept for node in hidden):
        raise ArchitectureError(
            f"cell {cell.name!r} keeps state, but no hidden node of this graph has an edge with a delay from its own "
            "name, so none could keep any; choose tanh or relu, or a graph with such an edge"
        )
    return {node.key: cell.name if node.key in kept else cell.nonlinearity for node in hidden}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything about an architecture but the widths of its hidden nodes."""

    graph: CyclicGraph
    cells: Mapping[NodeKey, str]
    alternating: bool | None  # as in ALTERNATING; None for every other family
    input_size: Units
    output_size: Units
    encoding: Encoding
    initial: Initial

    def build(self, units: Units) -> Architecture:
        """The architecture with hidden nodes of that width, or of those widths by name."""
        nodes, edges = self._nodes(units), [self._edge(edge) for edge in self.graph.edges]
        if self.alternating is not None:
            nodes = [_alternating_node(node, one_matrix=self.alternating) for node in nodes]
            edges = [made for edge in edges for made in self._alternating_edges(edge, one_matrix=self.alternating)]
        built = Architecture(nodes, edges, self.graph.period)
        return built if self.graph.period == 1 or self.alternating is not None else tied_over_phases(built)

    def _nodes(self, units: Units) -> list[NodeSpec]:
        widths = {
            **widths_by_name(self.graph, "hidden", units, "units"),
            **widths_by_name(self.graph, "input", self.input_size, "input_size"),
            **widths_by_name(self.graph, "output", self.output_size, "output_size"),
        }
        return [
            NodeSpec(
                name=node.name,
                kind=node.kind,
                phase=node.phase,
                units=widths[node.name],
                cell=self.cells.get(node.key),
                encoding=self.encoding if node.kind == "input" else "values",
                initial=self.initial if node.kind != "input" else "learned",
            )
            for node in self.graph.nodes
        ]

    def _edge(self, edge: Edge) -> EdgeSpec:
        source, target = (self.cells.get(key) for key in (edge.source, edge.target))
        both_gate_edges = all(cell and named_cell(cell).edge_gates for cell in (source, target))
        upwards = source is not None and target is None
        return EdgeSpec(
            source=edge.source,
            target=edge.target,
            delay=edge.delay,
            carry=True if both_gate_edges else None,
            port=named_cell(source).ports[-1] if source and upwards else None,
        )

    def _alternating_edges(self, edge: EdgeSpec, *, one_matrix: bool) -> list[EdgeSpec]:
        """Mongia's: Wx and Wo the same in all phases, a matrix into each phase, a skip added after the nonlinearity."""
        if edge.source not in self.cells:
            return [replace(edge, weights="Wx")]
        if edge.target not in self.cells:
            return [replace(edge, weights="Wo")]
        found: list[EdgeSpec] = []
        if edge.delay == 1:
            found.append(replace(edge, weights="W1" if one_matrix else f"W{edge.target[1] + 1}"))
        if edge.delay == self.graph.period:
            found.append(replace(edge, transform="identity", carry=None))
        return found


def widths_by_name(graph: CyclicGraph, kind: Kind, given: Units, what: str) -> dict[str, int]:
    """The width of each node of a kind; `what` is the argument that was given, for the message."""
    names = {node.name for node in graph.nodes if node.kind == kind}
    widths = dict(given) if isinstance(given, Mapping) else dict.fromkeys(names, given)
    if widths.keys() != names:
        found = ", ".join(sorted(map(str, widths))) or "none"
        raise ArchitectureError(f"{what} must give a width to each of {', '.join(sorted(names))}; got {found}")
    return widths


def _alternating_node(node: NodeSpec, *, one_matrix: bool) -> NodeSpec:
    """Mongia's: one bias of the read-out; a bias belongs to its matrix, so phases with one matrix share it."""
    if node.kind == "output":
        return replace(node, bias="by")
    return replace(node, bias="bh") if node.kind == "hidden" and one_matrix else node


def tied_over_phases(untied: Architecture) -> Architecture:
    """The same architecture with matrices and biases that do not change from phase to phase.

    Edges between the same two names share a matrix, by their place among those that enter a node, the shortest first.
    Where the phases of a node differ in their gates (it keeps state in one phase only, say), they share nothing.
    """
    edges: dict[tuple[str, str, int], list[EdgeSpec]] = defaultdict(list)
    for node in untied.nodes:
        place: dict[str, int] = defaultdict(int)
        for edge in untied.incoming(node.key):
            if edge.transform == "dense":
                edges[edge.source[0], node.name, place[edge.source[0]]].append(edge)
                place[edge.source[0]] += 1
    weights: dict[EdgeSpec, str] = {}
    for (source, target, place_number), group in edges.items():
        if len(group) > 1 and _has_same_gates(untied, {edge.target for edge in group}):
            suffix = f" {place_number + 1}" if place_number else ""
            weights |= dict.fromkeys(group, f"{source}->{target}{suffix}")
    nodes = [_with_tied_bias(node, untied) for node in untied.nodes]
    return Architecture(nodes, [replace(edge, weights=weights.get(edge)) for edge in untied.edges], untied.period)


def _with_tied_bias(node: NodeSpec, untied: Architecture) -> NodeSpec:
    group = [other for other in untied.nodes if other.name == node.name]
    if node.kind == "input" or len(group) == 1 or not _has_same_gates(untied, {other.key for other in group}):
        return node
    return replace(node, bias=f"{node.name} bias")


def _has_same_gates(untied: Architecture, keys: Iterable[NodeKey]) -> bool:
    """Whether nodes have the same gates, and each of them for edges from the same nodes."""
    carriers = {(untied.gates(key), tuple(edge.source[0] for edge in untied.carries(key))) for key in keys}
    return len(carriers) == 1
