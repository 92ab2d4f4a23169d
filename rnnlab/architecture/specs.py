"""What a user specifies for a node and for an edge: cell and width, transform and ties."""

from dataclasses import dataclass
from typing import Any, Literal

from rnnlab.errors import ArchitectureError
from rnnlab.graph.elements import Edge, Kind, Node, NodeKey
from rnnlab.integers import as_integer

Transform = Literal["dense", "identity"]
Encoding = Literal["values", "tokens"]
Initial = Literal["learned", "zero"]


@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """A node of the graph, and what it computes.

    Args:
        name, kind, phase: the node of the graph.
        units: its width; for an input of tokens, the size of the vocabulary.
        cell: what a hidden node does with its inputs, by name.
        nonlinearity: tanh or relu, to replace the cell's own choice.
        encoding: whether an input takes vectors, or integers below its width for which dense edges select rows of their
            matrices.
        bias: a name; nodes with the same name share one bias.
        initial: whether the state before the first step is learned or zero.
    """

    name: str
    kind: Kind
    units: int
    phase: int = 0
    cell: str | None = None
    nonlinearity: str | None = None
    encoding: Encoding = "values"
    bias: str | None = None
    initial: Initial = "learned"

    def __post_init__(self) -> None:
        label = f"node {self.name!r}"
        object.__setattr__(self, "units", as_integer(self.units, f"{label}: units", ArchitectureError, 1))
        object.__setattr__(self, "phase", as_integer(self.phase, f"{label}: phase", ArchitectureError))
        if (self.kind == "hidden") != (self.cell is not None):
            needs = "needs a cell" if self.kind == "hidden" else f"is an {self.kind} and has no cell"
            raise ArchitectureError(f"{label} {needs}; got cell {self.cell!r}")
        _choice(label, "encoding", self.encoding, ("values", "tokens"))
        _choice(label, "initial", self.initial, ("learned", "zero"))
        _choice(label, "nonlinearity", self.nonlinearity, (None, "tanh", "relu"))
        _name(label, "cell", self.cell)
        _name(label, "bias", self.bias)
        if self.encoding == "tokens" and self.kind != "input":
            raise ArchitectureError(f"{label} is not an input, so it takes no tokens")

    @property
    def key(self) -> NodeKey:
        """Name and phase."""
        return (self.name, self.phase)

    @property
    def node(self) -> Node:
        """The node of the graph."""
        return Node(self.name, self.kind, self.phase)


@dataclass(frozen=True, kw_only=True)
class EdgeSpec:
    """An edge of the graph, and what it does to the value it carries.

    Args:
        source, target, delay: the edge of the graph.
        transform: `dense` multiplies by a matrix; `identity` adds the value to the target's state, after the
            nonlinearity.
        weights: a name; edges with the same name share one matrix.
        carry: whether the edge also brings the source's state itself, which a gated cell needs. By default, the dense
            edge of smallest positive delay from a node of the same name does; if all of them run backward in time, the
            one that reaches least far ahead.
        port: which component of the source's state is read; the default depends on the cell and the delay.
        role: `depth` for the edge whose value a +RNN node uses unchanged; by default its only edge of delay 0.
    """

    source: NodeKey
    target: NodeKey
    delay: int
    transform: Transform = "dense"
    weights: str | None = None
    carry: bool | None = None
    port: str | None = None
    role: str | None = None

    def __post_init__(self) -> None:
        for end in (self.source, self.target):
            if not isinstance(end, tuple) or len(end) != 2:
                raise ArchitectureError(
                    f'an edge\'s source and target are (name, phase), such as ("h", 0); got {end!r}'
                )
        label = f"edge {self}"
        for field, (name, phase) in (("source", self.source), ("target", self.target)):
            number = as_integer(phase, f"{label}: the phase of its {field}", ArchitectureError)
            object.__setattr__(self, field, (name, number))
        object.__setattr__(self, "delay", as_integer(self.delay, f"delay of {label}", ArchitectureError))
        _choice(label, "transform", self.transform, ("dense", "identity"))
        _choice(label, "role", self.role, (None, "depth"))
        if not isinstance(self.carry, bool | None):
            raise ArchitectureError(f"{label}: carry is true or false, got {self.carry!r}")
        _name(label, "weights", self.weights)
        _name(label, "port", self.port)
        if self.transform == "identity" and (self.weights or self.role or self.carry):
            raise ArchitectureError(f"{label} is an identity: it has no weights, carries no state and has no role")

    @property
    def edge(self) -> Edge:
        """The edge of the graph."""
        return Edge(self.source, self.target, self.delay)

    def __str__(self) -> str:
        (source, i), (target, j) = self.source, self.target
        return f"{source}@{i} -[{self.delay}]-> {target}@{j}" if i or j else f"{source} -[{self.delay}]-> {target}"


def _choice(label: str, field: str, value: Any, choices: tuple[Any, ...]) -> None:
    if value not in choices:
        known = ", ".join(str(choice) for choice in choices if choice is not None)
        raise ArchitectureError(f"{label}: {field} is one of {known}, got {value!r}")


def _name(label: str, field: str, value: Any) -> None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ArchitectureError(f"{label}: {field} is a name, got {value!r}")
