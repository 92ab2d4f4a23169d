"""Random small cyclic graphs, valid by construction."""

from hypothesis import strategies as st

from rnnlab import CyclicGraph, Edge, Node

KINDS = ("input", "hidden", "output")


@st.composite
def nodes(draw: st.DrawFn, max_nodes: int = 6) -> tuple[list[Node], int]:
    """Nodes with phases, kinds and names; some names occur at several phases."""
    period = draw(st.integers(1, 4))
    keys = draw(
        st.lists(
            st.tuples(st.sampled_from("abcdef"), st.integers(0, period - 1)),
            min_size=1,
            max_size=max_nodes,
            unique=True,
        )
    )
    return [Node(name, draw(st.sampled_from(KINDS)), phase) for name, phase in keys], period


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 6, max_edges: int = 10) -> CyclicGraph:
    """Forward graphs with zero, negative and parallel delays.

    Delays start non-negative, and 0 only from an earlier node to a later one, so every cycle is positive; then every
    node is moved in time by a multiple of the period, which makes delays negative and keeps the sum of each cycle.
    """
    listed, period = draw(nodes(max_nodes))
    number = st.integers(0, len(listed) - 1)
    pairs = draw(st.lists(st.tuples(number, number, st.integers(0, 2)), max_size=max_edges))
    ring = draw(st.lists(number, min_size=1, unique=True))
    pairs += [(u, v, draw(st.integers(0, 2))) for u, v in zip(ring, [*ring[1:], ring[0]], strict=True)]
    moves = draw(st.lists(st.integers(-2, 2), min_size=len(listed), max_size=len(listed)) | st.just([0] * len(listed)))
    edges: list[Edge] = []
    for u, v, laps in pairs:
        delay = (listed[v].phase - listed[u].phase) % period + laps * period
        if delay == 0 and v <= u:
            delay = period
        edges.append(Edge(listed[u].key, listed[v].key, delay + (moves[u] - moves[v]) * period))
    return CyclicGraph(listed, edges, period)


@st.composite
def loose_edges(draw: st.DrawFn) -> tuple[list[Node], list[Edge], int]:
    """Nodes and edges that satisfy condition (1) and perhaps none of the others."""
    listed, period = draw(nodes(max_nodes=4))
    number = st.integers(0, len(listed) - 1)
    pairs = draw(st.lists(st.tuples(number, number, st.integers(-1, 1)), max_size=6))
    edges = [
        Edge(listed[u].key, listed[v].key, listed[v].phase - listed[u].phase + laps * period) for u, v, laps in pairs
    ]
    return listed, edges, period
