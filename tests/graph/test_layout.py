"""Where things go: rows and lanes of the layout, curves of the routing, and the geometry under both."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnlab.graph.catalogue import named_graph
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.geometry import Bezier, Box, Outline, between_outlines
from rnnlab.graph.layout import lay_out, name_places
from rnnlab.graph.lettering import fitted_name, text_width
from rnnlab.graph.routing import Wire, route
from tests.graph.strategies import graphs

TIMES = np.linspace(0.0, 1.0, 101)
CURVE = Bezier((0.0, 0.0), (30.0, -60.0), (80.0, 50.0), (120.0, 10.0))


def rows(graph: CyclicGraph) -> dict[str, int]:
    return {name: place.row for name, place in name_places(graph).items()}


def one_phase(*edges: tuple[str, str, int]) -> CyclicGraph:
    kinds = {"x": "input", "y": "output"}
    names = dict.fromkeys(end for source, target, _ in edges for end in (source, target))
    return CyclicGraph([(name, kinds.get(name[0], "hidden")) for name in names], list(edges))


def test_rows_follow_the_edges_of_delay_0() -> None:
    assert rows(named_graph("stack-3")) == {"x": 0, "h1": 1, "h2": 2, "h3": 3, "y": 4}
    assert rows(named_graph("td")) == rows(named_graph("bu")) == {"x": 0, "h1": 1, "h2": 2, "y": 3}


def test_rows_of_different_phases_are_shared() -> None:
    assert rows(named_graph("fig1a")) == {"1": 0, "5": 0, "2": 1, "6": 1, "3": 2, "7": 2, "4": 3, "8": 3}


def test_rows_follow_delayed_edges_where_nothing_else_lifts_a_name() -> None:
    graph = one_phase(("x", "a", 0), ("a", "b", 1), ("b", "c", 1), ("c", "a", 1), ("c", "y", 0))
    assert rows(graph) == {"x": 0, "a": 1, "b": 2, "c": 3, "y": 4}


def test_rows_exist_where_phases_contradict_each_other() -> None:
    nodes = [(name, "hidden", phase) for name in "ab" for phase in (0, 1)]
    edges = [(("a", 0), ("b", 0), 0), (("b", 1), ("a", 1), 0), (("b", 0), ("b", 1), 1), (("a", 1), ("a", 0), 1)]
    assert sorted(rows(CyclicGraph(nodes, edges, 2)).values()) == [0, 1]


def test_hidden_names_of_one_layer_are_staggered() -> None:
    graph = one_phase(("x", "f", 0), ("f", "f", 1), ("f", "y", 0), ("x", "b", 0), ("b", "b", -1), ("b", "y", 0))
    places = name_places(graph)
    assert places["f"].row != places["b"].row
    assert places["f"].lane == -places["b"].lane != 0


def test_inputs_stand_side_by_side() -> None:
    graph = one_phase(("x1", "h", 0), ("x2", "h", 0), ("h", "h", 1), ("h", "y", 0))
    places = name_places(graph)
    assert places["x1"].row == places["x2"].row == 0
    assert places["x1"].lane < places["x2"].lane


def test_wide_graphs_become_compact() -> None:
    hidden = [f"h{number}" for number in range(30)]
    edges = [("x", name, 0) for name in hidden] + [(name, name, 1) for name in hidden]
    assert max(rows(one_phase(*edges)).values()) == 1


@given(graphs())
def test_inputs_are_at_the_bottom_and_outputs_on_top(graph: CyclicGraph) -> None:
    kinds = {name: {node.kind for node in graph.nodes if node.name == name} for name in graph.names}
    places = rows(graph)
    for lower, upper in ((a, b) for a in places for b in places):
        if (kinds[lower] == {"input"} and kinds[upper] != {"input"}) or (
            kinds[upper] == {"output"} and kinds[lower] != {"output"}
        ):
            assert places[lower] < places[upper]


@given(graphs(), st.sampled_from([16.0, 26.0]))
def test_nodes_of_one_column_never_overlap(graph: CyclicGraph, radius: float) -> None:
    """However large they are, as long names make them."""
    layout = lay_out(graph, row_gap=40.0, column_gap=40.0, radius=radius)
    boxes = [layout.outline(node.name, node.phase, node.kind).box for node in graph.nodes]
    assert not [(a, b) for number, a in enumerate(boxes) for b in boxes[:number] if a.overlaps(b)]


def test_part_of_a_curve_lies_on_it() -> None:
    part = CURVE.part(0.2, 0.7)
    np.testing.assert_allclose(part.points(TIMES), CURVE.points(0.2 + 0.5 * TIMES), atol=1e-9)


def test_time_at_measures_from_both_ends() -> None:
    total = CURVE.length()
    assert CURVE.part(0.0, CURVE.time_at(40.0)).length() == pytest.approx(40.0, abs=0.1)
    assert CURVE.part(CURVE.time_at(40.0, backward=True), 1.0).length() == pytest.approx(40.0, abs=0.1)
    assert CURVE.time_at(2 * total) == 1.0


@pytest.mark.parametrize("offset", [-3.0, 3.0])
def test_parallel_curve_keeps_its_distance(offset: float) -> None:
    beside = np.concatenate([piece.points(TIMES) for piece in CURVE.beside(offset)])
    dense = CURVE.points(np.linspace(0.0, 1.0, 2001))
    distances = np.hypot(*(beside[:, None] - dense[None]).transpose(2, 0, 1)).min(axis=1)
    np.testing.assert_allclose(distances, 3.0, atol=0.2)  # a fifth of a pixel cannot be seen


def test_positive_offset_is_to_the_left_of_travel() -> None:
    level = Bezier((0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (3.0, 0.0))
    assert level.beside(1.0)[0].start == pytest.approx((0.0, -1.0))


@pytest.mark.parametrize("kind", ["input", "hidden", "output"])
def test_edges_end_at_borders(kind: str) -> None:
    source, target = Outline(kind, CURVE.start, 16.0), Outline("hidden", CURVE.end, 16.0)  # type: ignore[arg-type]
    visible = between_outlines(CURVE, source, target, margin=0.5)
    ends = visible.points(np.array([0.0, 1.0]))
    assert source.gaps(ends)[0] == pytest.approx(0.5, abs=1e-3)
    assert target.gaps(ends)[1] == pytest.approx(0.5, abs=1e-3)


def test_outlines_know_their_inside() -> None:
    corner = np.array([[11.0, 11.0]])  # inside the square of half side 12, outside the circle and the diamond
    gaps = {kind: float(Outline(kind, (0.0, 0.0), 12.0).gaps(corner)[0]) for kind in ("input", "hidden", "output")}
    assert gaps["input"] < 0 < gaps["hidden"] < gaps["output"]


def test_boxes_that_touch_do_not_overlap() -> None:
    box = Box(0.0, 0.0, 10.0, 10.0)
    assert not box.overlaps(Box(10.0, 0.0, 20.0, 10.0))
    assert box.overlaps(Box(9.0, 9.0, 20.0, 20.0))


def wire(source: int, target: int, **changes: object) -> Wire:
    return Wire(source, target, turns=0, num_passed=0, has_twin=False, label_size=None)._replace(**changes)


def disc(x: float, y: float) -> Outline:
    return Outline("hidden", (x, y), 16.0)


def test_route_is_straight_where_nothing_is_in_the_way() -> None:
    chosen = route([wire(0, 1)], [disc(0, 0), disc(100, 40)], None)[0].curve
    np.testing.assert_allclose(chosen.points(TIMES) @ [-40.0, 100.0], 0.0, atol=1e-6)


def test_route_goes_round_a_node() -> None:
    nodes = [disc(0, 0), disc(0, -80), disc(0, -160)]
    chosen = route([wire(0, 2)], nodes, None)[0].curve
    assert nodes[1].gaps(chosen.points(TIMES)).min() > 5.0


def test_routes_of_opposite_edges_are_apart() -> None:
    first, second = route([wire(0, 1, has_twin=True), wire(1, 0, has_twin=True)], [disc(0, 0), disc(100, 0)], None)
    middles = [way.curve.points(np.array([0.5]))[0] for way in (first, second)]
    assert np.hypot(*(middles[0] - middles[1])) > 20.0


def test_loops_of_one_node_are_apart() -> None:
    ways = route([wire(0, 0, has_twin=True) for _ in range(4)], [disc(0, 0)], None)
    middles = np.array([way.curve.points(np.array([0.5]))[0] for way in ways])
    distances = np.hypot(*(middles[:, None] - middles[None]).transpose(2, 0, 1))
    assert distances[~np.eye(4, dtype=bool)].min() > 10.0


def test_route_round_the_cylinder_avoids_copies_of_its_own_node() -> None:
    chosen = route([wire(0, 0, turns=3, num_passed=2)], [disc(0, 0)], 80.0)[0].curve
    assert chosen.end == (240.0, 0.0)
    for x in (80.0, 160.0):
        assert disc(x, 0).gaps(chosen.points(TIMES)).min() > 5.0


@given(st.text(min_size=1, max_size=30), st.sampled_from(["input", "hidden", "output"]))
def test_names_fit_their_nodes(name: str, kind: str) -> None:
    outline = Outline(kind, (0.0, 0.0), 16.0)  # type: ignore[arg-type]
    text = fitted_name(name, outline, 12.0)
    assert text_width(text.text, text.size) <= 2 * outline.radius or len(text.text) <= 3
    assert text.text == name or "…" in text.text
