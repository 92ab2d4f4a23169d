"""The computations behind the measures: potentials, cycle ratios and longest walks, in every arithmetic they use."""

import time
from fractions import Fraction

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnlab.graph import walks
from rnnlab.graph.walks import EdgeList, find_cycles, longest_walks, max_cycle_ratio, potentials

SIZE = 7


@st.composite
def weighted_edges(draw: st.DrawFn, scale: int = 1) -> tuple[EdgeList, np.ndarray]:
    number = st.integers(0, SIZE - 1)
    rows = sorted(draw(st.lists(st.tuples(number, number, st.integers(-5, 3)), min_size=1, max_size=20)))
    targets, sources, weights = (np.array(column) for column in zip(*rows, strict=True))
    return EdgeList(SIZE, sources, targets), weights.astype(object) * scale


def positive_cycle_exists(edges: EdgeList, weights: np.ndarray) -> bool:
    graph = networkx.DiGraph()
    for source, target, weight in zip(edges.sources.tolist(), edges.targets.tolist(), weights.tolist(), strict=True):
        if not graph.has_edge(source, target) or graph[source][target]["weight"] > -weight:
            graph.add_edge(source, target, weight=-weight)
    return networkx.negative_edge_cycle(graph)


@pytest.mark.parametrize("rounds", [0, 1, 100])
@pytest.mark.parametrize("scale", [1, 2**58, 2**61])
@given(data=st.data())
def test_potentials_prove_that_no_cycle_is_positive(rounds: int, scale: int, data) -> None:
    """Whether rounds find them, passes node by node do, or each does a part."""
    edges, weights = data.draw(weighted_edges(scale))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walks, "_ROUNDS_BEFORE_PASSES", rounds)
        found = potentials(edges, weights)
    assert bool(found.cycles) == positive_cycle_exists(edges, weights)
    for cycle in found.cycles:
        assert (edges.targets[cycle] == np.roll(edges.sources[cycle], -1)).all()
        assert weights[cycle].sum() > 0
    if not found.cycles:
        assert (found.values[edges.targets] >= found.values[edges.sources] + weights).all()


@pytest.mark.parametrize("tries", [-1, 0, 1, 20])
@pytest.mark.parametrize("scale", [1, 2**61])
@given(data=st.data())
def test_longest_walks_equal_bellman_ford(tries: int, scale: int, data) -> None:
    """Whether rounds settle the graph, Dijkstra's algorithm does, or each does a part."""
    edges, weights = data.draw(weighted_edges(scale))
    proof = potentials(edges, weights)
    if proof.cycles:
        return
    starts = data.draw(st.lists(st.integers(0, SIZE - 1), unique=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walks, "_EDGES_BEFORE_DIJKSTRA", tries)
        found = longest_walks(edges, weights, proof.values, np.array(starts, dtype=np.int64))
    best = dict.fromkeys(starts, 0)
    for _ in range(SIZE):
        for source, target, weight in zip(
            edges.sources.tolist(), edges.targets.tolist(), weights.tolist(), strict=True
        ):
            if source in best:
                best[target] = max(best[source] + weight, best.get(target, best[source] + weight))
    assert {node: int(found.values[node]) for node in np.flatnonzero(found.reached).tolist()} == best
    for node in best:
        walk = found.to(node, edges)
        assert weights[walk].sum() == best[node]
        assert (edges.targets[walk[:-1]] == edges.sources[walk[1:]]).all()


@given(st.integers(0, 2**32 - 1), st.sampled_from([-1, 1, 20]))
def test_longest_walks_of_larger_graphs_equal_bellman_ford(seed: int, tries: int) -> None:
    """Large enough for few nodes to be far fewer than all, so that their edges are looked up, not searched for."""
    rng = np.random.default_rng(seed)
    size, num_edges = 120, 400
    order = np.argsort(targets := rng.integers(0, size, num_edges), kind="stable")
    edges = EdgeList(size, rng.integers(0, size, num_edges), targets[order])
    weights = rng.integers(-9, 1, num_edges)
    starts = rng.integers(0, size, 2)
    proof = potentials(edges, weights)
    assert proof.cycles == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walks, "_EDGES_BEFORE_DIJKSTRA", tries)
        found = longest_walks(edges, weights, proof.values, np.unique(starts))
    best = np.full(size, -(10**9))
    best[starts] = 0
    for _ in range(size):
        np.maximum.at(best, edges.targets, best[edges.sources] + weights)
    assert (found.reached == (best > -(10**8))).all()
    assert (found.values[found.reached] == best[found.reached]).all()


def test_sums_just_beyond_64_bits_are_exact() -> None:
    chain = EdgeList(6, np.arange(5), np.arange(1, 6))
    assert potentials(chain, np.full(5, -(2**61))).values[5] == -5 * 2**61
    ring = EdgeList(6, np.array([4, 0, 1, 2, 3, 0, 5]), np.array([0, 1, 2, 3, 4, 5, 5]))
    delays = np.array([2, 0, 0, 0, 0, 0, 2**61])
    found = max_cycle_ratio(ring, np.ones(7, dtype=np.int64), delays)
    assert found is not None
    assert found.ratio == Fraction(5, 2)
    assert min(found.weights.tolist()) == 2 - 5 * 2**61


def test_ladder_takes_a_few_passes() -> None:
    """Rounds alone would need one for each rung."""
    size = 3000
    chain = np.arange(size - 1)
    columns = [np.stack([first + chain, first + chain + 1]) for first in (0, size, 2 * size)]
    rungs = np.stack([np.arange(size), size + np.arange(size)])
    ends = np.array([[3 * size - 1, 2 * size - 1], [size, 2 * size - 1]])
    sources, targets = np.concatenate([*columns, rungs, ends], axis=1)
    order = np.argsort(targets, kind="stable")
    edges = EdgeList(3 * size, sources[order], targets[order])
    weights = np.where(edges.sources == edges.targets, 0, 1)
    start = time.perf_counter()
    found = potentials(edges, weights)
    assert time.perf_counter() - start < 5
    assert found.values[2 * size - 1] == 2 * size - 1
    assert (found.values[edges.targets] >= found.values[edges.sources] + weights).all()


def test_max_cycle_ratio_without_a_cycle_is_none() -> None:
    edges = EdgeList(3, np.array([0, 1]), np.array([1, 2]))
    assert max_cycle_ratio(edges, np.array([1, 1]), np.array([1, 1])) is None
    assert find_cycles(edges) == []


def test_max_cycle_ratio_goes_through_many_improvements() -> None:
    """Loops of ratios 1, 2, 3, ... joined in a ring of ratio below 1: each improvement finds a better loop."""
    size = 30
    ring = np.arange(size)
    sources, targets = np.repeat(ring, 2), np.repeat(ring, 2)
    sources[0::2] = np.roll(ring, 1)
    gains = np.where(np.arange(2 * size) % 2, np.repeat(ring + 1, 2), 1)
    found = max_cycle_ratio(EdgeList(size, sources, targets), gains, np.where(np.arange(2 * size) % 2, 1, 9))
    assert found is not None
    assert found.ratio == Fraction(30)
    assert found.cycle == [2 * size - 1]
