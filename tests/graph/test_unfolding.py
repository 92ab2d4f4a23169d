"""Unfolding and folding (definition 2.2, lemma 2.1, Z7-Z11) and path lengths (Z17, Z20, Z25)."""

from dataclasses import replace

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnlab import (
    CyclicGraph,
    Edge,
    GraphError,
    Node,
    UnfoldedEdge,
    fold,
    measure,
    named_graph,
    path_lengths,
    smallest_period,
    unfold,
)
from tests.graph import oracle
from tests.graph.strategies import graphs


def longest_delay(graph: CyclicGraph) -> int:
    return max(abs(edge.delay) for edge in graph.edges)


@given(graphs(), st.integers(-9, 9))
def test_unfold_then_fold_is_the_identity(graph: CyclicGraph, start: int) -> None:
    length = 2 * graph.period + longest_delay(graph)
    assert fold(unfold(graph, start, start + length), graph.period) == graph


@given(graphs(), st.integers(1, 3))
def test_fold_finds_the_smallest_period(graph: CyclicGraph, times: int) -> None:
    """Whatever multiple of the period a graph is written with, folding its unfolding gives the smallest."""
    period = times * graph.period
    length = 2 * period + longest_delay(graph)
    longer = fold(unfold(graph, 0, length), period)
    assert longer.period == period
    assert smallest_period(longer) == smallest_period(graph)
    assert fold(unfold(longer, 0, length)) == fold(unfold(graph, 0, length))
    assert fold(unfold(longer, 0, length)).period == smallest_period(graph)
    assert measure(longer).recurrent_depth == measure(graph).recurrent_depth
    assert measure(longer).feedforward_depth == measure(graph).feedforward_depth
    assert measure(longer).recurrent_skip_coefficient == measure(graph).recurrent_skip_coefficient


@given(graphs())
def test_smallest_period_is_the_smallest_shift_that_changes_nothing(graph: CyclicGraph) -> None:
    def shifted(by: int) -> CyclicGraph:
        def moved(key: tuple[str, int]) -> tuple[str, int]:
            return (key[0], (key[1] + by) % graph.period)

        nodes = [Node(node.name, node.kind, moved(node.key)[1]) for node in graph.nodes]
        return CyclicGraph(nodes, [Edge(moved(e.source), moved(e.target), e.delay) for e in graph.edges], graph.period)

    assert smallest_period(graph) == next(by for by in range(1, graph.period + 1) if shifted(by) == graph)


@given(graphs(), st.integers(-9, 9))
def test_unfolding_is_the_definition_and_acyclic(graph: CyclicGraph, start: int) -> None:
    window = unfold(graph, start, start + 20)
    expected = oracle.unfolded(graph.edges, graph.period, start, start + 20)
    assert set(window.edges) == set(expected.edges)
    assert networkx.is_directed_acyclic_graph(networkx.DiGraph(list(window.edges)))
    assert set(window.nodes) == {
        (node.name, time)
        for node in graph.nodes
        for time in range(start, start + 20)
        if time % graph.period == node.phase
    }


def test_smallest_period_sees_kinds_and_lonely_nodes() -> None:
    loops = [(("h", 0), ("h", 1), 1), (("h", 1), ("h", 0), 1)]
    hidden = [("h", "hidden", 0), ("h", "hidden", 1)]
    assert smallest_period(CyclicGraph(hidden, loops, 2)) == 1
    assert smallest_period(CyclicGraph([("h", "input", 0), ("h", "hidden", 1)], loops, 2)) == 2
    assert smallest_period(CyclicGraph([*hidden, ("y", "output", 1)], loops, 2)) == 2
    huge = CyclicGraph([("h",)], [(("h", 0), ("h", 0), 2**61)], 2**61)
    assert smallest_period(huge) == 2**61


def test_path_lengths_do_not_sweep_a_long_delay() -> None:
    graph = CyclicGraph([("x", "input"), ("h",), ("y", "output")], [("x", "h", 0), ("h", "h", 1), ("h", "y", 10**9)])
    assert list(path_lengths(graph, [0], range(3)).longest.values()) == [1, 2, 3]


def test_fold_refuses_what_does_not_repeat() -> None:
    window = unfold(named_graph("fig1a"), 0, 12)
    with pytest.raises(GraphError, match="do not repeat with a period of 1;"):
        fold(window, period=1)
    with pytest.raises(GraphError, match="shows periods up to 5, not 6"):
        fold(window, period=6)
    with pytest.raises(GraphError, match="unfold a longer window"):
        fold(unfold(named_graph("fig1a"), 0, 5))
    changing = replace(window, edges=window.edges | {UnfoldedEdge(("1", 10), ("8", 11))})
    with pytest.raises(GraphError, match="do not repeat"):
        fold(changing)
    with pytest.raises(GraphError, match="do not repeat"):
        fold(replace(window, nodes=window.nodes | {("new", 11): "hidden"}))
    with pytest.raises(GraphError, match="too short to show any period"):
        fold(unfold(named_graph("td"), 0, 2))
    with pytest.raises(GraphError, match="a period is at least 1, got 0"):
        fold(window, 0)
    with pytest.raises(GraphError, match="start < stop"):
        unfold(named_graph("sh"), 3, 3)


@given(graphs(max_nodes=4, max_edges=6), st.integers(-3, 5), st.integers(-6, 9))
def test_path_lengths_equal_brute_force(graph: CyclicGraph, start: int, span: int) -> None:
    lengths = path_lengths(graph, [start], [span])
    found = (lengths.longest[start, span], lengths.longest_input_output[start, span], lengths.shortest[start, span])
    assert found == oracle.path_lengths(graph, start, span)


def test_path_lengths_of_no_spans_are_none() -> None:
    assert path_lengths(named_graph("sh"), [0], []).longest == {}
