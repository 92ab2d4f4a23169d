"""The three measures equal brute force, carry their proof, and agree with the limits that define them (Z17-Z27)."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rnnlab
from rnnlab import CyclicGraph, Edge, GraphError, Node, measure, named_graph, path_lengths
from tests.graph import oracle
from tests.graph.strategies import graphs


@given(graphs())
def test_measures_equal_brute_force(graph: CyclicGraph) -> None:
    measures = measure(graph)
    assert measures.recurrent_depth == oracle.recurrent_depth(graph)
    assert measures.feedforward_depth == oracle.feedforward_depth(graph)
    assert measures.recurrent_skip_coefficient == oracle.recurrent_skip_coefficient(graph)


def test_measures_equal_brute_force_on_two_thousand_graphs() -> None:
    rng = np.random.default_rng(20161101)
    for _ in range(2000):
        graph = random_graph(rng, size=int(rng.integers(2, 6)), num_edges=int(rng.integers(1, 9)))
        measures = measure(graph)
        assert measures.recurrent_depth == oracle.recurrent_depth(graph)
        assert measures.feedforward_depth == oracle.feedforward_depth(graph)
        assert measures.recurrent_skip_coefficient == oracle.recurrent_skip_coefficient(graph)


def random_graph(rng: np.random.Generator, size: int, num_edges: int) -> CyclicGraph:
    """Delays 0 to 5, zero only from a lower number to a higher, and a ring through all nodes."""
    sources, targets = rng.integers(0, size, (2, num_edges))
    ring = np.arange(size)
    sources, targets = np.append(sources, ring), np.append(targets, np.roll(ring, -1))
    delays = rng.integers(0, 6, num_edges + size)
    delays[(delays == 0) & (sources >= targets)] = 1
    return CyclicGraph.from_arrays(
        sources, targets, delays, num_nodes=size, inputs=ring[:-1][rng.random(size - 1) < 0.3], outputs=ring[-1:]
    )


@given(graphs(max_nodes=6, max_edges=18))
def test_single_measures_equal_measure(graph: CyclicGraph) -> None:
    measures = measure(graph)
    assert rnnlab.recurrent_depth(graph) == measures.recurrent_depth
    assert rnnlab.feedforward_depth(graph) == measures.feedforward_depth
    assert rnnlab.recurrent_skip_coefficient(graph) == measures.recurrent_skip_coefficient


@given(graphs())
def test_witnesses_attain_the_measures(graph: CyclicGraph) -> None:
    measures = measure(graph)
    for cycle, expected in (
        (measures.witnesses.recurrent_depth, measures.recurrent_depth),
        (measures.witnesses.recurrent_skip_coefficient, 1 / measures.recurrent_skip_coefficient),
    ):
        assert_walk(graph, cycle)
        assert cycle[-1].target == cycle[0].source
        assert len({edge.target for edge in cycle}) == len(cycle), "the cycle repeats a node"
        assert Fraction(len(cycle), oracle.delay(cycle)) == expected
    path = measures.witnesses.feedforward_depth
    if path is None:
        assert measures.feedforward_depth is None
        return
    kinds = {node.key: node.kind for node in graph.nodes}
    assert_walk(graph, path)
    assert (kinds[path[0].source], kinds[path[-1].target]) == ("input", "output")
    assert len(path) - oracle.delay(path) * measures.recurrent_depth == measures.feedforward_depth
    assert len({path[0].source, *(edge.target for edge in path)}) == len(path) + 1, "the path repeats a node"


def assert_walk(graph: CyclicGraph, walk: tuple[Edge, ...]) -> None:
    assert set(walk) <= set(graph.edges)
    assert all(before.target == after.source for before, after in pairwise(walk))


@given(graphs(), st.randoms())
def test_relabelling_changes_nothing(graph: CyclicGraph, random) -> None:
    names = sorted({node.name for node in graph.nodes})
    other = dict(zip(names, random.sample([f"node {n}" for n in range(20)], len(names)), strict=True))
    shift = random.randrange(graph.period)

    def moved(key: tuple[str, int]) -> tuple[str, int]:
        return (other[key[0]], (key[1] + shift) % graph.period)

    nodes = [Node(other[node.name], node.kind, moved(node.key)[1]) for node in graph.nodes]
    edges = [Edge(moved(edge.source), moved(edge.target), edge.delay) for edge in graph.edges]
    random.shuffle(nodes)
    random.shuffle(edges)
    mine, theirs = measure(graph), measure(CyclicGraph(nodes, edges, graph.period))
    assert mine.recurrent_depth == theirs.recurrent_depth
    assert mine.feedforward_depth == theirs.feedforward_depth
    assert mine.recurrent_skip_coefficient == theirs.recurrent_skip_coefficient
    assert {moved(key): value for key, value in mine.slots.phi.items()} == theirs.slots.phi


@given(graphs())
def test_input_output_paths_stay_below_their_bound_and_reach_it(graph: CyclicGraph) -> None:
    """Proposition 3.3.1: D*_i(n) <= n d_r + d_f, and d_f is the least such number."""
    measures = measure(graph)
    lengths = path_lengths(graph, range(graph.period), range(-12, 25)).longest_input_output
    found = {(i, n): length - n * measures.recurrent_depth for (i, n), length in lengths.items() if length is not None}
    if measures.feedforward_depth is None:
        assert not found
        return
    assert all(excess <= measures.feedforward_depth for excess in found.values())
    path = measures.witnesses.feedforward_depth
    start, span = path[0].source[1], oracle.delay(path)
    attained = path_lengths(graph, [start], [span]).longest_input_output[start, span]
    assert attained - span * measures.recurrent_depth == measures.feedforward_depth


@given(graphs())
def test_longest_paths_grow_as_recurrent_depth(graph: CyclicGraph) -> None:
    """Theorem A.1 in full generality: max over i of limsup D_i(n) / n = d_r.

    Above: no path exceeds n d_r by more than a constant. Below: from the witness's start every lap adds its length.
    """
    measures = measure(graph)
    lengths = path_lengths(graph, range(graph.period), range(30)).longest
    constant = max(measures.slots.phi.values())
    assert all(
        length <= n * measures.recurrent_depth + constant for (_, n), length in lengths.items() if length is not None
    )
    cycle = measures.witnesses.recurrent_depth
    start, lap = cycle[0].source[1], oracle.delay(cycle)
    rounds = path_lengths(graph, [start], [k * lap for k in range(4)]).longest
    assert all(rounds[start, k * lap] >= k * len(cycle) for k in range(4))


@given(graphs())
def test_shortest_paths_grow_as_skip_coefficient(graph: CyclicGraph) -> None:
    """Theorem A.3 in full generality: min over i of liminf d_i(n) / n = 1 / s."""
    measures = measure(graph)
    lengths = path_lengths(graph, range(graph.period), range(30)).shortest
    reach = graph.num_nodes * max(abs(edge.delay) for edge in graph.edges)  # what a path without cycles can cross
    slowest = 1 / measures.recurrent_skip_coefficient
    assert all(length >= (n - reach) * slowest for (_, n), length in lengths.items() if length is not None)
    cycle = measures.witnesses.recurrent_skip_coefficient
    start, lap = cycle[0].source[1], oracle.delay(cycle)
    rounds = path_lengths(graph, [start], [k * lap for k in range(4)]).shortest
    assert all(rounds[start, k * lap] <= k * len(cycle) for k in range(4))


def test_limit_need_not_exist() -> None:
    """One node with a loop of delay 2: no path crosses an odd span, so only the limsup is d_r (requirements 2.1)."""
    graph = CyclicGraph([("x", "input"), ("h",), ("y", "output")], [("x", "h", 0), ("h", "h", 2), ("h", "y", 0)])
    longest = path_lengths(graph, [0], range(5)).longest
    assert list(longest.values()) == [2, None, 3, None, 4]
    measures = measure(graph)
    assert (measures.recurrent_depth, measures.recurrent_skip_coefficient) == (Fraction(1, 2), 2)


def test_node_at_even_times_only_has_no_path_from_odd_times() -> None:
    graph = CyclicGraph([("h",)], [(("h", 0), ("h", 0), 2)], period=2)
    lengths = path_lengths(graph, [1], range(8))
    assert set(lengths.longest.values()) == {None}


@pytest.mark.parametrize(
    ("edges", "longest", "shortest"),
    [
        ([("0", "1", 0), ("1", "0", 3)], Fraction(2, 3), Fraction(2, 3)),
        ([("0", "0", 200), ("0", "0", 201)], Fraction(1, 200), Fraction(1, 201)),
    ],
)
def test_graphs_on_which_a_peer_is_wrong(edges, longest: Fraction, shortest: Fraction) -> None:
    """Boost's howard_cycle_ratio gives infinity for the first and 1/201 as the larger ratio of the second."""
    measures = measure(CyclicGraph([("0",), ("1",)], edges))
    assert measures.recurrent_depth == longest
    assert measures.recurrent_skip_coefficient == 1 / shortest


def test_no_path_from_input_to_output_gives_no_feedforward_depth() -> None:
    graph = CyclicGraph([("x", "input"), ("h",), ("y", "output")], [("h", "h", 1), ("h", "y", 0)])
    measures = measure(graph)
    assert measures.feedforward_depth is None
    assert measures.to_json()["feedforward_depth"] is None
    assert measures.to_json()["witnesses"]["feedforward_depth"] is None
    assert "no input reaches an output" in str(measures)


def test_measures_are_exact_beyond_64_bits() -> None:
    """Delays whose products pass 2**63 leave int64 for Python's integers."""
    huge = 2**61
    graph = CyclicGraph(
        [("x", "input"), ("a",), ("b",), ("y", "output")],
        [("x", "a", huge - 7), ("a", "b", huge - 1), ("b", "a", huge - 3), ("a", "a", huge - 5), ("b", "y", 0)],
    )
    measures = measure(graph)
    assert measures.recurrent_depth == oracle.recurrent_depth(graph) == Fraction(1, huge - 5)
    assert measures.recurrent_skip_coefficient == huge - 2
    assert measures.feedforward_depth == oracle.feedforward_depth(graph)
    assert measures.slots.phi == oracle.phi(graph)


def test_long_ring_of_huge_delays_is_exact() -> None:
    size, huge = 9, 2**61
    ring = np.arange(size)
    delays = huge - ring**2
    graph = CyclicGraph.from_arrays(ring, np.roll(ring, -1), delays, num_nodes=size)
    assert measure(graph).recurrent_skip_coefficient == Fraction(sum(delays.tolist()), size)
    assert measure(graph).recurrent_depth == Fraction(size, sum(delays.tolist()))


def test_bidirectional_network_is_measured_per_direction() -> None:
    graph = CyclicGraph(
        [("x", "input"), ("f",), ("b1",), ("b2",), ("y", "output")],
        [
            *[("x", "f", 0), ("f", "f", 1), ("f", "y", 0)],
            *[("x", "b1", 0), ("b1", "b2", 0), ("b2", "b1", -1), ("b2", "y", 0)],
        ],
    )
    assert graph.direction == "both"
    for question in (measure, rnnlab.slots, lambda g: path_lengths(g, [0], [0])):
        with pytest.raises(GraphError, match=r"directions\(graph\)"):
            question(graph)
    halves = rnnlab.directions(graph)
    assert halves.forward is not None
    assert halves.backward is not None
    assert measure(halves.forward).recurrent_depth == 1
    assert measure(halves.backward).recurrent_depth == 2
    assert measure(halves.backward).feedforward_depth == 3


@given(graphs())
def test_reversed_graph_has_the_same_measures(graph: CyclicGraph) -> None:
    """Time turned round is a backward graph; its one direction, turned round again, is the graph."""
    turned = CyclicGraph(
        [Node(node.name, node.kind, -node.phase % graph.period) for node in graph.nodes],
        [Edge((u, -i % graph.period), (v, -j % graph.period), -delay) for (u, i), (v, j), delay in graph.edges],
        graph.period,
    )
    assert turned.direction == "backward"
    assert rnnlab.directions(turned) == (None, graph)
    assert rnnlab.directions(graph) == (graph, None)


@pytest.mark.parametrize("size", [1, 2, 3, 1000, 30_000])
def test_long_ring_and_long_chain_are_measured_in_one_piece(size: int) -> None:
    """A ring of zero delays closed by delay 1, behind a chain: the worst case for relaxing one edge a round."""
    ring = np.arange(size)
    sources = np.concatenate([ring, size + ring[:-1], [2 * size - 1]])
    targets = np.concatenate([np.roll(ring, -1), size + ring[1:], [0]])
    delays = np.zeros(2 * size, dtype=np.int64)
    delays[size - 1] = 1
    graph = CyclicGraph.from_arrays(sources, targets, delays, num_nodes=2 * size + 1, inputs=[size], outputs=[2 * size])
    measures = measure(graph)
    assert measures.recurrent_depth == size
    assert measures.recurrent_skip_coefficient == Fraction(1, size)
    assert measures.feedforward_depth is None
    assert max(measures.slots.phi.values()) == 2 * size - 1


@given(st.integers(0, 2**32 - 1))
def test_larger_random_graphs_equal_parametric_search(seed: int) -> None:
    """Beyond enumeration: Bellman-Ford finds no cycle that beats the ratio, and the witness attains it."""
    size = 40
    graph = random_graph(np.random.default_rng(seed), size, num_edges=160)
    measures = measure(graph)
    for cycle, ratio, sign in (
        (measures.witnesses.recurrent_depth, measures.recurrent_depth, 1),
        (measures.witnesses.recurrent_skip_coefficient, 1 / measures.recurrent_skip_coefficient, -1),
    ):
        assert Fraction(len(cycle), oracle.delay(cycle)) == ratio
        weights = sign * (ratio.denominator - ratio.numerator * graph.delays)
        values = np.zeros(size, dtype=np.int64)
        for _ in range(size + 1):
            before = values.copy()
            np.maximum.at(values, graph.targets, before[graph.sources] + weights)
        assert (values == before).all(), "a cycle has a better ratio"


def test_measures_print_their_proofs() -> None:
    text = str(measure(named_graph("fig1a")))
    assert "d_r = 3/2" in text
    assert "path 1@0 -[0]-> 2@0 -[0]-> 3@0 -[1]-> 6@1 -[0]-> 7@1 -[0]-> 8@1" in text
    assert "T steps run in ⌊(3/2)·T + 3⌋ sequential slots" in text
