"""The three conditions of definition 2.1 (Z3-Z5) and the direction of time (Z6), against the definition itself."""

import networkx
import pytest
from hypothesis import given

from rnnlab import CyclicGraph, GraphError
from tests.graph import oracle
from tests.graph.strategies import graphs, loose_edges


@given(loose_edges())
def test_graph_is_accepted_exactly_if_the_definition_holds(drawn) -> None:
    """Condition (3) is lemma 2.1 read backward: a closed walk of delay 0 is a cycle of the unfolded graph."""
    nodes, edges, period = drawn
    window = oracle.unfolded(edges, period, 0, 150)
    is_valid = networkx.is_directed_acyclic_graph(window) and any(
        walk[-1].target == node.key for node in nodes for walk in oracle.simple_walks(edges, node.key)
    )
    if is_valid:
        CyclicGraph(nodes, edges, period)
    else:
        with pytest.raises(GraphError, match=r"condition \([23]\) of definition 2.1 fails"):
            CyclicGraph(nodes, edges, period)


@given(graphs())
def test_direction_is_forward_where_every_cycle_is(graph: CyclicGraph) -> None:
    assert all(oracle.delay(cycle) > 0 for cycle in oracle.simple_cycles(graph))
    assert graph.direction == "forward"


@pytest.mark.parametrize(
    ("edges", "direction"),
    [
        ([("a", "a", 1)], "forward"),
        ([("a", "b", -3), ("b", "a", 4)], "forward"),
        ([("a", "b", 3), ("b", "a", -4)], "backward"),
        ([("a", "a", 1), ("b", "b", -1)], "both"),
        ([("a", "a", 1), ("a", "b", -5), ("b", "b", -1)], "both"),
    ],
)
def test_direction_is_that_of_the_cycles(edges, direction: str) -> None:
    assert CyclicGraph([("a",), ("b",)], edges).direction == direction


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([], r"condition \(2\) .* no directed cycle"),
        ([("a", "b", 1)], r"condition \(2\) .* no directed cycle"),
        ([("a", "a", 0)], r"condition \(3\) .* cycle a -\[0\]-> a has total delay 0"),
        ([("a", "b", 0), ("b", "a", 0)], r"condition \(3\) .* a -\[0\]-> b -\[0\]-> a|b -\[0\]-> a -\[0\]-> b"),
        ([("a", "b", 2), ("b", "a", -2)], r"condition \(3\) .* has total delay 0"),
        ([("a", "a", 2), ("a", "a", -3)], r"condition \(3\) .* a -\[-3\]-> a \(delay -3\)"),
        ([("a", "a", 2), ("a", "b", 1), ("b", "a", -3)], r"condition \(3\) .* reach each other"),
        ([("b", "b", 1), ("a", "a", 2), ("a", "a", -2)], r"condition \(3\)"),
        (
            [("a", "a", 5), ("b", "a", 6), ("a", "b", 6), ("b", "b", 0), ("a", "z", -1)],
            r"cycle b -\[0\]-> b has total delay 0",
        ),
    ],
)
def test_broken_condition_is_named_and_shown(edges, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        CyclicGraph([("a",), ("b",), ("z",)], edges)


def test_long_rings_and_huge_delays_keep_their_direction() -> None:
    ring = [(str(n), str((n + 1) % 5), delay) for n, delay in enumerate([-1, 0, 0, 0, 2])]
    assert CyclicGraph([(str(n),) for n in range(5)], ring).direction == "forward"
    assert CyclicGraph([("a",), ("b",)], [("a", "a", 2**61), ("a", "b", -1)]).direction == "forward"


def test_delay_that_does_not_fit_the_phases_is_shown() -> None:
    nodes = [("a", "hidden", 0), ("b", "hidden", 2)]
    edges = [(("a", 0), ("b", 2), -1), (("b", 2), ("a", 0), 1), (("a", 0), ("a", 0), 4)]
    with pytest.raises(GraphError) as caught:
        CyclicGraph(nodes, edges, period=3)
    assert str(caught.value) == (
        "condition (1) of definition 2.1 fails: edge a@0 -[4]-> a@0 leads from phase 0 to phase 0, so its delay must "
        "be 0 plus a multiple of the period 3, not 4"
    )
