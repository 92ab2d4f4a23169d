"""Nodes and edges of a cyclic graph, and the checks that turn a user's input into them."""

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rnnlab.errors import GraphError
from rnnlab.graph.walks import IntArray
from rnnlab.integers import as_integer

Kind = Literal["input", "hidden", "output"]
KINDS: tuple[Kind, ...] = ("input", "hidden", "output")

NodeKey = tuple[str, int]
"""What identifies a node: its name and its phase."""


class Node(NamedTuple):
    """A node of the cyclic graph: computed at every time t with t mod period = phase."""

    name: str
    kind: Kind = "hidden"
    phase: int = 0

    @property
    def key(self) -> NodeKey:
        """Name and phase."""
        return (self.name, self.phase)


class Edge(NamedTuple):
    """An edge (u, v, delay): node v at time t + delay reads node u at time t."""

    source: NodeKey
    target: NodeKey
    delay: int

    def to_json(self) -> dict[str, Any]:
        """The file form: {"source": ["h1", 0], "target": ["h2", 0], "delay": 0}."""
        return {"source": list(self.source), "target": list(self.target), "delay": self.delay}


def natural_key(name: str) -> tuple[tuple[bool, int, str, str], ...]:
    """Sorts numbers inside names by value: `h2` before `h10`."""
    parts = re.split(r"(\d+)", name)
    # numbers compare by length, then digit by digit, leading zeros aside: no need to read them
    digits = [part.lstrip("0") if part.isdecimal() else "" for part in parts]
    return tuple((part.isdecimal(), len(digit), digit, part) for part, digit in zip(parts, digits, strict=True))


def show_key(key: NodeKey, period: int) -> str:
    """How a node is written: `h`, or `h@1` where the graph has several phases."""
    return key[0] if period == 1 else f"{key[0]}@{key[1]}"


def checked_node(node: Any) -> Node:
    """A well-formed `Node` from one, or from a tuple that begins like one."""
    if not isinstance(node, tuple) or not 1 <= len(node) <= 3:
        raise GraphError(f"a node is (name, kind, phase), got {node!r}")
    name, kind, phase = Node(*node)
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise GraphError(f"a node's name is a non-empty string of printable characters, got {name!r}")
    if kind not in KINDS:
        raise GraphError(f"node {name!r} has kind {kind!r}; a kind is one of {', '.join(KINDS)}")
    return Node(name, kind, checked_integer(phase, f"phase of node {name!r}"))


def checked_edge(edge: Any, index: Mapping[NodeKey, int], period: int) -> tuple[int, int, int]:
    """The edge in numbers (source, target, delay), `index` being the number of each node."""
    if not isinstance(edge, tuple) or len(edge) != 3:
        raise GraphError(f"an edge is (source, target, delay), got {edge!r}")
    source, target = (index[checked_key(end, edge, index, period)] for end in edge[:2])
    return (source, target, checked_integer(edge[2], f"delay of edge {edge!r}"))


def checked_key(end: Any, edge: object, index: Mapping[NodeKey, int], period: int) -> NodeKey:
    """One end of `edge` as a node's key; a bare name stands for phase 0 where the period is 1."""
    if isinstance(end, str) and period > 1:
        raise GraphError(f'edge {edge!r}: with period {period} write {end!r} with its phase, as ["{end}", 0]')
    key = (end, 0) if isinstance(end, str) else end
    is_key = isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str) and type(key[1]) is int
    if not is_key or key not in index:
        raise GraphError(f"edge {edge!r} names a node {end!r} that is not in the list of nodes")
    return key


def as_plain(value: Any) -> Any:
    """A number of numpy's as one of Python's, since a file knows no others; all else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def checked_integer(value: object, what: str) -> int:
    """`value` as a plain integer that int64 holds with room to spare."""
    return as_integer(value, what, GraphError, bits=62)


def integer_array(values: ArrayLike, what: str) -> IntArray:
    """`values` as a new one-dimensional int64 array."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise GraphError(
            f"{what} must be a one-dimensional array of integers, got {array.dtype} of shape {array.shape}"
        )
    for extreme in (array.min(), array.max()) if array.size else ():
        checked_integer(extreme, what)
    return array.astype(np.int64)


def node_numbers(values: ArrayLike, num_nodes: int, what: str) -> IntArray:
    """`values` as an array of node numbers."""
    numbers = integer_array(values, what)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= num_nodes):
        raise GraphError(f"{what} must number nodes from 0 to {num_nodes - 1}, got {numbers.min()} to {numbers.max()}")
    return numbers
