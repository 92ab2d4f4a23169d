"""The RNN cyclic graph of definition 2.1 (Z1-Z6): a finite directed multigraph whose edges carry time delays."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rnnlab.errors import GraphError
from rnnlab.graph.elements import (
    KINDS,
    Edge,
    Node,
    NodeKey,
    checked_edge,
    checked_integer,
    checked_node,
    integer_array,
    natural_key,
    node_numbers,
    show_key,
)
from rnnlab.graph.validation import Direction, validate
from rnnlab.graph.walks import EdgeList, IntArray

if TYPE_CHECKING:
    import networkx

_LONGEST_SHOWN = 40  # edges of a walk in a message


@final
class CyclicGraph:
    """An RNN's connections as a cyclic graph with time delays (definition 2.1 of Zhang et al.).

    A graph never changes, is checked on construction, and has one canonical order: nodes by kind, name (`h2` before
    `h10`) and phase; edges by target, delay and source. Edges form a set: an edge given twice is one edge.

    Args:
        nodes: `Node`s, or tuples that begin like one: `("x", "input")`.
        edges: `Edge`s or tuples `(source, target, delay)`; if the period is 1, an end may be just a name.
        period: the number m of time steps after which the connections repeat.

    Raises:
        GraphError: a node or edge is malformed, or a condition of definition 2.1 fails; the message shows where.

    >>> graph = CyclicGraph([("x", "input"), ("h",), ("y", "output")], [("x", "h", 0), ("h", "h", 1), ("h", "y", 0)])
    >>> graph
    <CyclicGraph: 3 nodes, 3 edges, period 1>
    """

    period: int
    names: tuple[str, ...]
    kinds: IntArray  # [nodes], index into KINDS
    phases: IntArray  # [nodes]
    sources: IntArray  # [edges], index of a node
    targets: IntArray  # [edges]
    delays: IntArray  # [edges]
    direction: Direction  # "forward" where every cycle's delay is positive, "backward" where negative, else "both"

    def __init__(
        self, nodes: Iterable[Node | tuple[Any, ...]], edges: Iterable[Edge | tuple[Any, ...]], period: int = 1
    ) -> None:
        period = checked_integer(period, "period")
        checked = [checked_node(node) for node in nodes]
        index = {node.key: number for number, node in enumerate(checked)}
        if len(index) < len(checked):
            twice = next(node for number, node in enumerate(checked) if index[node.key] != number)
            raise GraphError(f"node {show_key(twice.key, period)} is listed twice; names must differ within a phase")
        names = [node.name for node in checked]
        phases = np.array([node.phase for node in checked], dtype=np.int64)
        _check_phases(names, phases, period)
        rows = [checked_edge(edge, index, period) for edge in edges]
        numbers = np.array(rows, dtype=np.int64).reshape(-1, 3)
        self._fill(
            names=names,
            ranks=_natural_ranks(names),
            kinds=np.array([KINDS.index(node.kind) for node in checked], dtype=np.int8),
            phases=phases,
            edges=(numbers[:, 0], numbers[:, 1], numbers[:, 2]),
            period=period,
        )

    @classmethod
    def from_arrays(
        cls,
        sources: ArrayLike,
        targets: ArrayLike,
        delays: ArrayLike,
        *,
        num_nodes: int,
        inputs: ArrayLike = (),
        outputs: ArrayLike = (),
        phases: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        period: int = 1,
    ) -> Self:
        """A graph from integer arrays, for graphs too large to build from `Node`s and `Edge`s one by one.

        Args:
            sources, targets, delays: one entry per edge; nodes are numbered from 0.
            num_nodes: how many nodes there are.
            inputs, outputs: the numbers of the input and output nodes; all others are hidden.
            phases: one entry per node; 0 by default.
            names: one per node; by default its number as a string.
            period: the number m of time steps after which the connections repeat.

        >>> CyclicGraph.from_arrays([0, 1, 1], [1, 1, 2], [0, 1, 0], num_nodes=3, inputs=[0], outputs=[2])
        <CyclicGraph: 3 nodes, 3 edges, period 1>
        """
        period = checked_integer(period, "period")
        num_nodes = checked_integer(num_nodes, "num_nodes")
        if num_nodes < 1:
            raise GraphError(f"a graph needs at least one node (definition 2.1), got num_nodes {num_nodes}")
        edges = (
            node_numbers(sources, num_nodes, "sources"),
            node_numbers(targets, num_nodes, "targets"),
            integer_array(delays, "delays"),
        )
        if len({column.size for column in edges}) > 1:
            sizes = ", ".join(str(column.size) for column in edges)
            raise GraphError(f"sources, targets and delays must be of one length, got {sizes}")
        kinds = np.full(num_nodes, KINDS.index("hidden"), dtype=np.int8)
        input_numbers, output_numbers = (
            node_numbers(numbers, num_nodes, what) for numbers, what in ((inputs, "inputs"), (outputs, "outputs"))
        )
        if both := np.intersect1d(input_numbers, output_numbers).tolist():
            raise GraphError(f"node {both[0]} is listed among the inputs and among the outputs")
        kinds[input_numbers] = KINDS.index("input")
        kinds[output_numbers] = KINDS.index("output")
        given_phases = np.zeros(num_nodes, np.int64) if phases is None else integer_array(phases, "phases")
        given_names = tuple(map(str, range(num_nodes))) if names is None else tuple(names)
        for name in given_names if names is not None else ():
            checked_node((name,))
        ranks = np.arange(num_nodes) if names is None else _natural_ranks(given_names)
        for label, size in (("phases", given_phases.size), ("names", len(given_names))):
            if size != num_nodes:
                raise GraphError(f"{label} must have one entry a node: {size} given for {num_nodes} nodes")
        _check_phases(given_names, given_phases, period)
        if names is not None and len(set(zip(given_names, given_phases.tolist(), strict=True))) < num_nodes:
            raise GraphError("names must differ within a phase; two nodes share both name and phase")
        graph = cls.__new__(cls)
        graph._fill(given_names, ranks, kinds, given_phases, edges, period)
        return graph

    def _fill(
        self,
        names: Sequence[str],
        ranks: IntArray,
        kinds: IntArray,
        phases: IntArray,
        edges: tuple[IntArray, ...],
        period: int,
    ) -> None:
        """Store the graph in canonical order and validate it; the one place where attributes are set."""
        order = np.lexsort((phases, ranks, kinds))
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        columns = _sorted_set(place[edges[1]], edges[2], place[edges[0]])
        self.__dict__.update(
            period=period,
            names=tuple(names[number] for number in order.tolist()),
            kinds=_frozen(kinds[order]),
            phases=_frozen(phases[order]),
            targets=_frozen(columns[0]),
            delays=_frozen(columns[1]),
            sources=_frozen(columns[2]),
        )
        self.__dict__["direction"] = validate(self)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a CyclicGraph never changes; build a new one instead of setting {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a CyclicGraph never changes; {name!r} stays")

    def __getstate__(self) -> dict[str, Any]:
        # what is cached is left behind: the hash differs between processes
        kept = ("period", "names", "kinds", "phases", "sources", "targets", "delays", "direction")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for column in self._columns:
            _frozen(column)

    @property
    def num_nodes(self) -> int:
        """How many nodes there are, all phases together."""
        return len(self.names)

    @property
    def num_edges(self) -> int:
        """How many edges there are."""
        return int(self.sources.size)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, in canonical order."""
        kinds = (KINDS[kind] for kind in self.kinds.tolist())
        return tuple(map(Node, self.names, kinds, self.phases.tolist()))

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """All edges, in canonical order."""
        return tuple(self.edge(number) for number in range(self.num_edges))

    @cached_property
    def index(self) -> Mapping[NodeKey, int]:
        """The number of each node, by its key (name, phase)."""
        keys = zip(self.names, self.phases.tolist(), strict=True)
        return MappingProxyType({key: number for number, key in enumerate(keys)})

    @cached_property
    def edge_list(self) -> EdgeList:
        """The connections alone, as the walk algorithms take them."""
        return EdgeList(self.num_nodes, self.sources, self.targets)

    def edge(self, number: int) -> Edge:
        """Edge `number` of the canonical order, without building the others."""
        return Edge(self.key(self.sources[number]), self.key(self.targets[number]), int(self.delays[number]))

    def key(self, number: int | np.integer) -> NodeKey:
        """Name and phase of node `number`."""
        return (self.names[number], int(self.phases[number]))

    def label(self, key: NodeKey) -> str:
        """How a node is written: `h`, or `h@1` where the graph has several phases."""
        return show_key(key, self.period)

    def show_walk(self, walk: Iterable[Edge]) -> str:
        """A path or cycle on one line, each arrow with its delay; a very long one is cut in the middle.

        >>> graph = CyclicGraph([("h",)], [("h", "h", 2)])
        >>> graph.show_walk(graph.edges)
        'h -[2]-> h'
        """
        edges = list(walk)
        steps = [f" -[{edge.delay}]-> {self.label(edge.target)}" for edge in edges]
        if len(steps) > _LONGEST_SHOWN:
            steps[_LONGEST_SHOWN - 4 : -4] = [f" … {len(steps) - _LONGEST_SHOWN} more edges …"]
        return self.label(edges[0].source) + "".join(steps)

    def __repr__(self) -> str:
        return f"<CyclicGraph: {self.num_nodes} nodes, {self.num_edges} edges, period {self.period}>"

    def __str__(self) -> str:
        by_kind = (
            f"  {kind:<6}  " + ", ".join(self.label(node.key) for node in self.nodes if node.kind == kind)
            for kind in KINDS
            if KINDS.index(kind) in self.kinds
        )
        edges = (f"  {self.show_walk([edge])}" for edge in self.edges)
        return "\n".join((f"period {self.period}", *by_kind, *edges))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CyclicGraph):
            return NotImplemented
        return (self.period, self.names) == (other.period, other.names) and all(
            np.array_equal(mine, theirs) for mine, theirs in zip(self._columns, other._columns, strict=True)
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.period, self.names, *(column.tobytes() for column in self._columns)))

    @property
    def _columns(self) -> tuple[IntArray, ...]:
        return (self.kinds, self.phases, self.sources, self.targets, self.delays)

    def to_json(self) -> dict[str, Any]:
        """The graph in the file form, ready for `json.dumps`."""
        return {
            "period": self.period,
            "nodes": [node._asdict() for node in self.nodes],
            "edges": [edge.to_json() for edge in self.edges],
        }

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """The graph of a parsed file; `period` and `phase` default to 1 and 0.

        >>> CyclicGraph.from_json({
        ...     "nodes": [{"name": "h", "kind": "hidden"}],
        ...     "edges": [{"source": "h", "target": ["h", 0], "delay": 1}],
        ... })
        <CyclicGraph: 1 nodes, 1 edges, period 1>
        """
        fields = _fields(data, "the graph", required=("nodes", "edges"), optional=("period",))
        nodes = [
            _fields(node, f"node {number}", required=("name", "kind"), optional=("phase",))
            for number, node in enumerate(_list(fields["nodes"], "nodes"))
        ]
        edges = [
            _fields(edge, f"edge {number}", required=("source", "target", "delay"))
            for number, edge in enumerate(_list(fields["edges"], "edges"))
        ]
        return cls(
            [(node["name"], node["kind"], node.get("phase", 0)) for node in nodes],
            [(_from_list(edge["source"]), _from_list(edge["target"]), edge["delay"]) for edge in edges],
            fields.get("period", 1),
        )

    def to_networkx(self) -> "networkx.MultiDiGraph[NodeKey]":
        """A `MultiDiGraph`: nodes are (name, phase) with `kind`, edges have `delay`, the graph has `period`."""
        import networkx

        graph: networkx.MultiDiGraph[NodeKey] = networkx.MultiDiGraph(period=self.period)
        graph.add_nodes_from((node.key, {"kind": node.kind}) for node in self.nodes)
        graph.add_edges_from((edge.source, edge.target, {"delay": edge.delay}) for edge in self.edges)
        return graph

    @classmethod
    def from_networkx(cls, graph: "networkx.Graph[Any]") -> Self:
        """The inverse of `to_networkx`. If the period is 1, nodes may be plain names; `kind` defaults to hidden."""
        if not graph.is_directed():
            raise GraphError("from_networkx needs a directed graph: an undirected edge has no time order")
        period = graph.graph.get("period", 1)
        keys = {node: (node, 0) if isinstance(node, str) else node for node in graph.nodes}
        for key in keys.values():
            if not isinstance(key, tuple) or len(key) != 2:
                raise GraphError(f"a networkx node must be a name or (name, phase), got {key!r}")
        for source, target, delay in graph.edges(data="delay"):
            if delay is None:
                raise GraphError(f"edge {source} -> {target} has no attribute 'delay'")
        return cls(
            [(keys[node][0], kind, keys[node][1]) for node, kind in graph.nodes(data="kind", default="hidden")],
            [(keys[source], keys[target], delay) for source, target, delay in graph.edges(data="delay")],
            period,
        )


def checked_graph(given: CyclicGraph, what: str) -> CyclicGraph:
    """The graph itself; a name, a file or an architecture in its place is refused with the way to the graph.

    >>> checked_graph("td", "draw")
    Traceback (most recent call last):
    rnnlab.errors.GraphError: draw takes a graph: named_graph('td') makes one of the catalogue
    """
    if isinstance(given, CyclicGraph):
        return given
    if isinstance(given, str):
        is_file = given.endswith(".json")
        way = f"load_graph({given!r}) reads one" if is_file else f"named_graph({given!r}) makes one of the catalogue"
        raise GraphError(f"{what} takes a graph: {way}")
    hint = ": its .graph is one" if isinstance(getattr(given, "graph", None), CyclicGraph) else ""
    raise GraphError(f"{what} takes a graph, got {given!r}"[:300] + hint)


def _check_phases(names: Sequence[str], phases: IntArray, period: int) -> None:
    if period < 1:
        raise GraphError(f"period must be at least 1, got {period}")
    if not names:
        raise GraphError("a graph needs at least one node (definition 2.1)")
    outside = np.flatnonzero((phases < 0) | (phases >= period))
    if outside.size:
        name, phase = names[int(outside[0])], phases[outside[0]]
        raise GraphError(f"node {name!r} has phase {phase}; with period {period} phases are 0 to {period - 1}")


def _natural_ranks(names: Sequence[str]) -> IntArray:
    """Each name's place in the natural order; equal names share theirs."""
    distinct = {name: rank for rank, name in enumerate(sorted(set(names), key=natural_key))}
    return np.fromiter((distinct[name] for name in names), dtype=np.int64, count=len(names))


def _sorted_set(*columns: IntArray) -> tuple[IntArray, ...]:
    """The rows of `columns` sorted by the first column, then the second, ..., each row once."""
    if not columns[0].size:
        return columns
    lowest = [int(column.min()) for column in columns]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, lowest, strict=True)]
    if math.prod(spans) >= 2**62:
        order = np.lexsort(columns[::-1])
        rows = np.stack([column[order] for column in columns])
        is_new = np.append(True, (rows[:, 1:] != rows[:, :-1]).any(axis=0))
        return tuple(rows[:, is_new])
    # a row as one number: sorting plain integers is several times faster than sorting rows
    keys = np.ravel_multi_index([c - low for c, low in zip(columns, lowest, strict=True)], spans)
    keys.sort()
    parts = np.unravel_index(keys[np.diff(keys, prepend=-1) > 0], spans)
    return tuple(part + low for part, low in zip(parts, lowest, strict=True))


def _frozen(array: IntArray) -> IntArray:
    array.flags.writeable = False
    return array


def _fields(data: Any, what: str, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise GraphError(f"{what} must be a JSON object with {', '.join(required)}, got {data!r}")
    if missing := [name for name in required if name not in data]:
        raise GraphError(f"{what} lacks {', '.join(map(repr, missing))}: {data!r}"[:300])
    if unknown := [name for name in data if name not in (*required, *optional)]:
        raise GraphError(
            f"{what} has unknown keys {', '.join(map(repr, unknown))}; known: {', '.join(required + optional)}"
        )
    return data


def _list(data: Any, what: str) -> list[Any]:
    if not isinstance(data, list):
        raise GraphError(f"{what} must be a JSON list, got {data!r}"[:300])
    return data


def _from_list(end: Any) -> Any:
    if isinstance(end, str):
        return end
    if isinstance(end, list) and len(end) == 2 and isinstance(end[0], str) and type(end[1]) is int:
        return tuple(end)
    raise GraphError(f'an edge\'s source and target are written ["name", phase] or "name", got {end!r}')
