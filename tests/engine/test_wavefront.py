"""Wavefronts: which components share a pattern of slots, and that the network computes the same."""

from itertools import product

import networkx
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from rnnlab import Architecture, CyclicGraph, EdgeSpec, NodeSpec, architecture
from rnnlab.engine.groups import Order, groups
from rnnlab.engine.model import Model
from rnnlab.engine.plan import Plan, plan
from tests.engine.comparison import REFERENCE, TOLERANCES, Case, Results, check_equal, make_case, run
from tests.engine.networks import catalogue
from tests.engine.strategies import architectures

SIZES = {"input_size": 3, "output_size": 2, "units": 3}


def graph_of(arrows: str) -> CyclicGraph:
    """A graph from its edges, as in `x>f f>y`: f… run forward in time, b… backward, all others are on no cycle."""
    pairs = [arrow.split(">") for arrow in arrows.split()]
    names = sorted({name for pair in pairs for name in pair})
    kinds = {"x": "input", "y": "output"}
    loops = [(name, name, 1 if name[0] == "f" else -1) for name in names if name[0] in "fb"]
    edges = [(source, target, 0) for source, target in pairs]
    return CyclicGraph([(name, kinds.get(name, "hidden")) for name in names], edges + loops)


def network_of(graph: CyclicGraph) -> Architecture:
    """The graph with tanh cells of two units, which run in any direction."""
    return Architecture(
        [
            NodeSpec(name=node.name, kind=node.kind, units=2, cell="tanh" if node.kind == "hidden" else None)
            for node in graph.nodes
        ],
        [EdgeSpec(source=edge.source, target=edge.target, delay=edge.delay) for edge in graph.edges],
    )


def together(graph: CyclicGraph, order: Order = "wavefront") -> set[str]:
    """The names of each group of more than one node, or of one on a cycle."""
    found = ([name for name, _ in keys] for keys in groups(graph, order))
    return {" ".join(sorted(names)) for names in found if len(names) > 1 or names[0][0] in "fb"}


@pytest.mark.parametrize(
    ("arrows", "wavefronts"),
    [
        ("x>f1 f1>f2 f2>f3 f3>y", {"f1 f2 f3"}),
        # nodes before, between and after; what is beside a wavefront, but leads to no cycle, is not between
        ("x>i i>f1 f1>m m>f2 f2>o o>y f1>s s>y", {"f1 f2 m"}),
        ("x>f1 x>f2 f1>y f2>y", {"f1 f2"}),  # side by side
        ("x>f x>b f>y b>y", {"f", "b"}),
        ("x>f1 f1>b f1>f2 b>f2 f2>y", {"f1", "b", "f2"}),  # f2 must wait for b, which waits for f1
        ("x>f1 x>b1 f1>f2 b1>f2 f1>b2 b1>b2 f2>y b2>y", {"f1", "b1 b2", "f2"}),
        ("x>f1 f1>m m>b b>y", {"f1", "b"}),  # between different directions
        ("x>b b>f1 x>f2 f1>y f2>y", {"b", "f1 f2"}),  # f2 waits, so that it can run with f1
        ("x>b1 b1>m m>b2 b2>y", {"b1 b2 m"}),
        ("x>f1 f1>b1 b1>f2 f2>b2 x>f3 f3>m m>b2 b2>y", {"f1 f3", "b1", "f2", "b2"}),
    ],
)
def test_components_of_one_direction_share_a_wavefront(arrows: str, wavefronts: set[str]) -> None:
    graph = graph_of(arrows)
    assert together(graph) == wavefronts
    assert together(graph, "by component") == {name for name in graph.names if name[0] in "fb"}


@st.composite
def stacks(draw: st.DrawFn) -> CyclicGraph:
    """Up to six nodes in a row, each forward, backward or on no cycle, with any edges from earlier to later ones."""
    signs = draw(st.lists(st.sampled_from([1, -1, 0, 2, -2]), min_size=1, max_size=6).filter(any))
    number = st.integers(0, len(signs) - 1)
    pairs = draw(st.lists(st.tuples(number, number, st.integers(-2, 2)), max_size=10))
    edges = [(f"h{min(u, v)}", f"h{max(u, v)}", delay) for u, v, delay in pairs if u != v]
    loops = [(f"h{node}", f"h{node}", sign) for node, sign in enumerate(signs) if sign]
    ends = [("x", "h0", 0), *((f"h{node}", "y", 0) for node in range(len(signs)))]
    nodes = [("x", "input"), *((f"h{node}",) for node in range(len(signs))), ("y", "output")]
    return CyclicGraph(nodes, edges + loops + ends)


@given(stacks())
def test_groups_are_those_that_the_rule_describes(graph: CyclicGraph) -> None:
    """One direction in each, all that lies between two of its cycles in it, nothing else; and as few as can be."""
    order = groups(graph, "wavefront")
    group_of = {key: number for number, keys in enumerate(order) for key in keys}
    assert sorted(group_of) == sorted(graph.index)
    assert all(group_of[edge.source] <= group_of[edge.target] for edge in graph.edges)
    signs = {edge.source: 1 if edge.delay > 0 else -1 for edge in graph.edges if edge.source == edge.target}
    below = {key: networkx.descendants(networkx.DiGraph(graph.to_networkx()), key) | {key} for key in graph.index}
    for keys in order:
        cyclic = [key for key in keys if key in signs]
        assert len({signs[key] for key in cyclic}) <= 1
        between = {key for key in graph.index if any(key in below[u] and below[key] & set(cyclic) for u in cyclic)}
        assert set(keys) == between or (not cyclic and len(keys) == 1)
    assert len({group_of[key] for key in signs}) == fewest_groups(below, signs)


def fewest_groups(below: dict, signs: dict) -> int:
    """By trying all ways to number the cyclic nodes so that numbers never fall and each is of one direction."""
    keys = sorted(signs)
    pairs = [(i, j) for i, u in enumerate(keys) for j, v in enumerate(keys) if i != j and v in below[u]]
    apart = [(i, j) for i, u in enumerate(keys) for j, v in enumerate(keys) if signs[u] != signs[v]]
    assume(len(keys) <= 5)
    return min(
        len(set(numbers))
        for numbers in product(range(len(keys)), repeat=len(keys))
        if all(numbers[i] <= numbers[j] for i, j in pairs) and all(numbers[i] != numbers[j] for i, j in apart)
    )


@pytest.mark.parametrize("num_layers", [1, 2, 5])
@pytest.mark.parametrize("num_steps", [1, 2, 10])
def test_stack_takes_a_slot_for_each_step_and_layer(num_layers: int, num_steps: int) -> None:
    network = architecture(f"stack-{num_layers}", **SIZES)
    assert plan(network, order="wavefront").num_slots(num_steps) == num_steps + num_layers - 1
    assert plan(network).num_slots(num_steps) == num_steps * num_layers


def test_wavefronts_of_either_direction_add_up() -> None:
    """Two layers of each direction: T + 1 slots forward and T + 1 backward."""
    graph = graph_of("x>f1 f1>f2 x>b1 b1>b2 f2>y b2>y")
    found = plan(network_of(graph), order="wavefront")
    assert [" ".join(name for name, _ in part.nodes) for part in found.recurrent] == ["b1 b2", "f1 f2"]
    assert found.num_slots(10) == 22
    assert found.slots_formula == "2·T + 2"


def test_products_between_layers_are_internal_to_a_wavefront() -> None:
    network = architecture("st", **SIZES)
    internal = {
        order: {network.edge_label(edge) for edge in network.edges if plan(network, order=order).is_internal(edge)}
        for order in ("by component", "wavefront")
    }
    assert internal["by component"] == {"h1->h1[1]", "h2->h2[1]"}
    assert internal["wavefront"] == {"h1->h1[1]", "h2->h2[1]", "h1->h2[0]"}


# ------------------------------------------------------------------------------------------- the network is the same


def compare_orders(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs, state and gradients of both orders on the reference path."""
    wavefront = plan(case.architecture, order="wavefront")
    check_equal(
        run_with(wavefront, case, monkeypatch),
        run_with(plan(case.architecture), case, monkeypatch),
        TOLERANCES[torch.float64],
        "wavefront",
    )


def run_with(order: Plan, case: Case, monkeypatch: pytest.MonkeyPatch) -> Results:
    """The reference with that plan."""
    asked: list[Plan] = []

    def found(model: Model) -> Plan:
        asked.append(order)
        return order

    with monkeypatch.context() as patches:
        patches.setattr(Model, "plan", property(found))
        results = run(case, REFERENCE)
    assert asked  # the model took the plan from here
    return results


NETWORKS = {
    label: made
    for label, made in catalogue(("tanh", "gru", "lstm-edges", "intersection"), units=3).items()
    if plan(made).components != plan(made, order="wavefront").components
}


def test_catalogue_has_networks_with_a_wavefront() -> None:
    assert {"st:gru", "stack-3:intersection", "clockwork:lstm-edges", "hierarchical:tanh"} <= set(NETWORKS)


@pytest.mark.parametrize("label", NETWORKS)
def test_catalogue_computes_the_same_as_a_wavefront(label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_orders(make_case(NETWORKS[label], num_steps=7), monkeypatch)
    compare_orders(make_case(NETWORKS[label], num_steps=4, steps_before=3), monkeypatch)


@given(architectures(), st.integers(1, 7), st.integers(0, 999))
def test_random_networks_compute_the_same_as_a_wavefront(network: Architecture, num_steps: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patches:
        compare_orders(make_case(network, num_steps=num_steps, seed=seed), patches)


@given(architectures(can_stream=True), st.integers(1, 5), st.integers(1, 5), st.integers(0, 999))
def test_random_networks_continue_the_same_as_a_wavefront(
    network: Architecture, before: int, after: int, seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patches:
        compare_orders(make_case(network, num_steps=after, steps_before=before, seed=seed), patches)


@given(stacks(), st.integers(1, 7), st.integers(0, 999))
def test_stacks_of_both_directions_compute_the_same_as_a_wavefront(
    graph: CyclicGraph, num_steps: int, seed: int
) -> None:
    """Forward and backward layers in any order, with reads of past and future between them."""
    with pytest.MonkeyPatch.context() as patches:
        compare_orders(make_case(network_of(graph), num_steps=num_steps, seed=seed), patches)
