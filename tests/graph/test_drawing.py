"""Pictures: what is in them, that nothing covers anything else, and that files say what the drawing says."""

import importlib.util
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from rnnlab.errors import GraphError
from rnnlab.graph.catalogue import CATALOGUE, named_graph
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.drawing import BORDER, Drawing, EdgeMark, draw
from rnnlab.graph.elements import Edge
from rnnlab.graph.geometry import Box
from rnnlab.graph.highlights import ROLES, Role, unfolded_highlights
from rnnlab.graph.ink import ROLE_COLOURS, Area, Stroke, inks
from rnnlab.graph.measures import measure
from rnnlab.graph.paths import path_lengths
from rnnlab.graph.unfolding import UnfoldedEdge, unfold
from tests.graph.strategies import graphs

DOCS = Path(__file__).parents[2] / "docs"
NAMES = [name for family in CATALOGUE for name in family.examples]
NUM_STEPS = 6
SVG = "{http://www.w3.org/2000/svg}"
SHAPES = {"input": f"{SVG}rect", "hidden": f"{SVG}circle", "output": f"{SVG}polygon"}
TIMES = np.linspace(0.0, 1.0, 121)

FOLDED = pytest.param(None, id="folded")
UNFOLDED = pytest.param(NUM_STEPS, id="unfolded")
every_name = pytest.mark.parametrize("name", NAMES)
both_ways = pytest.mark.parametrize("window", [FOLDED, UNFOLDED])

BIDIRECTIONAL = CyclicGraph(
    [("x", "input"), ("f",), ("b",), ("y", "output")],
    [("x", "f", 0), ("f", "f", 1), ("f", "y", 0), ("x", "b", 0), ("b", "b", -1), ("b", "y", 0)],
)
NEGATIVE = CyclicGraph(
    [("x", "input"), ("h",), ("g",), ("y", "output")],
    [("x", "h", -1), ("h", "g", -1), ("g", "h", 2), ("h", "h", 1), ("g", "y", 0)],
)


@cache
def picture(name: str, window: int | None) -> Drawing:
    return draw(named_graph(name), unfold=window)


def layer(*extra: tuple[str, str, int], names: Sequence[str] = ("x", "h", "y")) -> CyclicGraph:
    """One hidden layer, with other names and edges where asked for."""
    x, h, y = names
    return CyclicGraph([(x, "input"), (h,), (y, "output")], [(x, h, 0), (h, h, 1), (h, y, 0), *extra])


def ends(mark: EdgeMark, window: int | None) -> list[tuple[str, int]]:
    """Name and column of the source and of the target."""
    (source, _), (target, phase), delay = mark.edge
    return [(source, mark.column), (target, phase if window is None else mark.column + delay)]


def filled(box: Box) -> np.ndarray:
    xs, ys = np.meshgrid(np.linspace(box.left, box.right, 7), np.linspace(box.top, box.bottom, 7))
    return np.stack([xs, ys], axis=-1)


def check_labels_are_apart(drawing: Drawing) -> None:
    marks = (*drawing.delays, *drawing.keys, *drawing.nodes)
    for first, second in combinations([*(mark.label for mark in marks), *drawing.texts], 2):
        assert not first.box.overlaps(second.box), f"{first.text!r} covers {second.text!r}"


def check_labels_are_off_nodes(drawing: Drawing) -> None:
    for text in (*(delay.label for delay in drawing.delays), *drawing.texts):
        for node in drawing.nodes:
            assert node.outline.gaps(filled(text.box)).min() > 1.0, f"label {text.text!r} touches node {node.name}"


def check_edges_are_off_foreign_nodes(drawing: Drawing, window: int | None) -> None:
    for mark in drawing.edges:
        points, own = mark.curve.points(TIMES), ends(mark, window)
        for node in drawing.nodes:
            if (node.name, node.column) not in own:
                assert node.outline.gaps(points).min() > 2.0, f"{mark.edge} at {mark.column} runs into {node.name}"


def check_edges_end_at_borders(drawing: Drawing, window: int | None) -> None:
    outlines = {(node.name, node.column): node.outline for node in drawing.nodes}
    for mark in drawing.edges:
        source, target = ends(mark, window)
        if mark.part != "arriving":
            assert float(outlines[source].gaps(np.array(mark.curve.start))) == pytest.approx(BORDER / 2, abs=0.01)
        if mark.part != "leaving":
            assert float(outlines[target].gaps(np.array(mark.curve.end))) == pytest.approx(BORDER / 2, abs=0.01)


def check_everything_is_inside(drawing: Drawing) -> None:
    strokes = [curve.points(TIMES) for ink in inks(drawing) if isinstance(ink, Stroke) for curve in ink.curves]
    heads = [np.array(ink.points) for ink in inks(drawing) if isinstance(ink, Area)]
    marks = (*drawing.delays, *drawing.keys, *drawing.nodes)
    boxes = [mark.label.box for mark in marks] + [node.outline.box for node in drawing.nodes]
    boxes += [text.box for text in drawing.texts]
    points = np.concatenate([*strokes, *heads, *(np.array(box).reshape(2, 2) for box in boxes)])
    assert (points >= 1.0).all()
    assert (points <= [drawing.width - 1.0, drawing.height - 1.0]).all()


@every_name
@both_ways
def test_nothing_covers_anything_else(name: str, window: int | None) -> None:
    drawing = picture(name, window)
    check_labels_are_apart(drawing)
    check_labels_are_off_nodes(drawing)
    check_edges_are_off_foreign_nodes(drawing, window)
    check_edges_end_at_borders(drawing, window)
    check_everything_is_inside(drawing)


def test_checks_see_what_is_wrong() -> None:
    drawing = picture("st", None)
    (node, other, *_), (edge, *edges), (delay, *delays) = drawing.nodes, drawing.edges, drawing.delays
    on_node = delay._replace(label=delay.label._replace(anchor_point=node.outline.centre))
    with pytest.raises(AssertionError, match="covers"):
        check_labels_are_apart(replace(drawing, delays=(on_node, on_node)))
    with pytest.raises(AssertionError, match="touches"):
        check_labels_are_off_nodes(replace(drawing, delays=(on_node, *delays)))
    (x, y), (to_x, to_y) = edge.curve.start, other.outline.centre
    astray = edge._replace(edge=edges[-1].edge, curve=edge.curve.moved(to_x - x, to_y - y))
    with pytest.raises(AssertionError, match="runs into"):
        check_edges_are_off_foreign_nodes(replace(drawing, edges=(astray,)), None)
    with pytest.raises(AssertionError):
        check_edges_end_at_borders(replace(drawing, edges=(edge._replace(curve=edge.curve.moved(0.0, 1.0)),)), None)
    with pytest.raises(AssertionError):
        check_everything_is_inside(replace(drawing, width=drawing.width / 2))


@every_name
@both_ways
def test_svg_has_the_nodes_of_the_graph(name: str, window: int | None) -> None:
    graph, root = named_graph(name), ElementTree.fromstring(picture(name, window).to_svg())
    kinds = [node.kind for node in graph.nodes] if window is None else list(unfold(graph, 0, window).nodes.values())
    groups = [group for group in root.iter(f"{SVG}g") if group.get("class") in SHAPES]
    assert Counter(group.get("class") for group in groups) == Counter(kinds)
    for group in groups:
        assert [child.tag for child in group] == [f"{SVG}title", SHAPES[group.get("class", "")], f"{SVG}text"]


@every_name
def test_delays_are_those_of_the_edges(name: str) -> None:
    drawing = picture(name, None)
    assert Counter(mark.edge for mark in drawing.delays) == Counter(named_graph(name).edges)
    curves = {mark.edge: mark.curve.points(TIMES) for mark in drawing.edges}
    for mark in drawing.delays:
        assert int(mark.label.text) == mark.edge.delay
        steps = curves[mark.edge] - np.array(mark.label.anchor_point)
        assert np.hypot(steps[:, 0], steps[:, 1]).min() < 2.0, f"the delay of {mark.edge} is not on it"


@every_name
def test_unfolded_edges_are_those_of_the_window(name: str) -> None:
    graph, drawing = named_graph(name), picture(name, NUM_STEPS)
    whole = [UnfoldedEdge(*ends(mark, NUM_STEPS)) for mark in drawing.edges if mark.part == "whole"]
    assert Counter(whole) == Counter(unfold(graph, 0, NUM_STEPS).edges)
    inside = range(NUM_STEPS)
    for mark in drawing.edges:
        arrives = mark.column + mark.edge.delay
        assert (mark.column in inside, arrives in inside) == (mark.part != "arriving", mark.part != "leaving")


@every_name
def test_copies_of_an_edge_have_one_shape(name: str) -> None:
    shapes: dict[Edge, list[np.ndarray]] = {}
    for mark in picture(name, NUM_STEPS).edges:
        if mark.part == "whole":
            shapes.setdefault(mark.edge, []).append(np.array(mark.curve) - np.array(mark.curve.start))
    for copies in shapes.values():
        np.testing.assert_allclose(copies, [copies[0]] * len(copies), atol=1e-6)


@every_name
def test_folded_highlights_are_the_witnesses(name: str) -> None:
    witnesses = measure(named_graph(name)).witnesses
    wanted = (witnesses.recurrent_depth, witnesses.feedforward_depth or (), witnesses.recurrent_skip_coefficient)
    for role, walk in zip(ROLES, wanted, strict=True):
        assert {mark.edge for mark in picture(name, None).edges if role in mark.roles} == set(walk)


def highlighted_path(drawing: Drawing, role: Role) -> list[UnfoldedEdge]:
    """The edges of a colour, in order; fails where they are not one path."""
    marks = {mark for mark in drawing.edges if role in mark.roles}
    by_source = {edge.source: edge for edge in (UnfoldedEdge(*ends(mark, NUM_STEPS)) for mark in marks)}
    targets = {edge.target for edge in by_source.values()}
    (here,) = [source for source in by_source if source not in targets]
    path: list[UnfoldedEdge] = []
    while here in by_source:
        path.append(by_source[here])
        here = path[-1].target
    assert len(path) == len(marks)
    return path


@every_name
def test_unfolded_highlights_attain_the_path_lengths(name: str) -> None:
    graph, drawing = named_graph(name), picture(name, NUM_STEPS)
    lengths = path_lengths(graph, [0], [NUM_STEPS - 1])
    red, blue = (highlighted_path(drawing, role) for role in ("longest", "shortest"))
    for path, wanted in ((red, lengths.longest), (blue, lengths.shortest)):
        assert (path[0].source[1], path[-1].target[1]) == (0, NUM_STEPS - 1)
        assert len(path) == wanted[0, NUM_STEPS - 1]


@every_name
def test_unfolded_yellow_is_the_path_of_feedforward_depth(name: str) -> None:
    graph = named_graph(name)
    yellow = highlighted_path(picture(name, NUM_STEPS), "input_output")
    period = graph.period
    folded = [Edge((a, t % period), (b, u % period), u - t) for (a, t), (b, u) in yellow]
    assert tuple(folded) == measure(graph).witnesses.feedforward_depth


@given(graphs())
def test_unfolded_highlights_attain_the_path_lengths_of_any_graph(graph: CyclicGraph) -> None:
    highlights = unfolded_highlights(measure(graph), NUM_STEPS)
    lengths = path_lengths(graph, range(NUM_STEPS), range(NUM_STEPS))
    window = unfold(graph, 0, NUM_STEPS)
    for role, wanted in (("longest", lengths.longest), ("shortest", lengths.shortest)):
        path = highlights[role]
        assert window.edges.issuperset(path)
        assert all(before.target == after.source for before, after in pairwise(path))
        if path:
            start = path[0].source[1]
            assert len(path) == wanted[start, path[-1].target[1] - start]


def test_highlight_falls_back_to_the_widest_span_with_a_path() -> None:
    graph = CyclicGraph([("h",)], [("h", "h", 4)])
    (edge,) = unfolded_highlights(measure(graph), 6)["longest"]
    assert edge == UnfoldedEdge(("h", 0), ("h", 4))


@every_name
@both_ways
def test_time_and_phase_run_from_left_to_right(name: str, window: int | None) -> None:
    nodes = sorted(picture(name, window).nodes, key=lambda node: node.column)
    for (_, first, here, _), (_, second, there, _) in combinations(nodes, 2):
        assert first == second or here.centre[0] < there.centre[0]


@every_name
@both_ways
def test_inputs_are_below_and_outputs_above_all_others(name: str, window: int | None) -> None:
    heights: dict[str, list[float]] = {"input": [], "hidden": [], "output": []}
    for node in picture(name, window).nodes:
        heights[node.outline.kind].append(node.outline.centre[1])
    assert min(heights["input"]) > max(heights["hidden"]) >= min(heights["hidden"]) > max(heights["output"])


@pytest.mark.parametrize("name", ["fig1a", "clockwork"])
@both_ways
def test_same_graph_gives_the_same_bytes(name: str, window: int | None) -> None:
    graph = named_graph(name)
    again = CyclicGraph(reversed(graph.nodes), reversed(graph.edges), graph.period)
    assert draw(again, unfold=window).to_svg() == picture(name, window).to_svg()


def test_legend_shows_the_measures_in_their_colours() -> None:
    drawing = picture("fig1a", None)
    assert [(key.role, key.label.text) for key in drawing.keys] == [
        ("longest", "d_r = 3/2"),
        ("input_output", "d_f = 7/2"),
        ("shortest", "s = 2"),
    ]
    text = "".join(ElementTree.fromstring(drawing.to_svg()).itertext())
    assert all(shown in text for shown in ("dr= 3/2", "df= 7/2", "s= 2"))  # a shift stands before the sign
    assert drawing.to_svg().count("<tspan dx=") == 3


def test_edge_of_several_roles_shows_every_colour_beside_the_others() -> None:
    drawing = picture("dt-2", None)
    assert max(len(mark.roles) for mark in drawing.edges) == 3
    (mark,) = [mark for mark in drawing.edges if len(mark.roles) == 3]
    alone = replace(drawing, edges=(mark,), nodes=(), delays=(), keys=())
    strokes = [ink for ink in inks(alone) if isinstance(ink, Stroke)]
    assert [stroke.colour for stroke in strokes] == [ROLE_COLOURS[role] for role in ROLES]
    starts = np.array([stroke.curves[0].start for stroke in strokes])
    for first, second in combinations(range(3), 2):
        assert np.hypot(*(starts[first] - starts[second])) > max(strokes[0].width, strokes[1].width)


@both_ways
def test_no_highlight_means_no_colours_and_no_legend(window: int | None) -> None:
    plain = draw(named_graph("td"), unfold=window, highlight=False)
    assert plain.keys == ()
    assert not any(mark.roles for mark in plain.edges)
    assert not any(colour in plain.to_svg() for colour in ROLE_COLOURS.values())


@both_ways
def test_bidirectional_network_is_drawn_without_highlights(window: int | None) -> None:
    drawing = draw(BIDIRECTIONAL, unfold=window)
    assert drawing.keys == ()
    check_labels_are_apart(drawing)
    check_edges_are_off_foreign_nodes(drawing, window)


@both_ways
def test_negative_delays_are_drawn(window: int | None) -> None:
    drawing = draw(NEGATIVE, unfold=window)
    check_labels_are_apart(drawing)
    check_edges_are_off_foreign_nodes(drawing, window)
    assert {mark.label.text for mark in drawing.delays} == ({"\N{MINUS SIGN}1", "0", "1", "2"} if not window else set())


@settings(max_examples=15)
@given(graphs())
def test_any_graph_can_be_drawn(graph: CyclicGraph) -> None:
    for window in (None, 4):
        drawing = draw(graph, unfold=window)
        check_everything_is_inside(drawing)
        check_edges_end_at_borders(drawing, window)
        ElementTree.fromstring(drawing.to_svg())
    assert Counter(mark.edge for mark in draw(graph).edges) == Counter(graph.edges)


def test_long_skip_leaves_the_window_in_stubs() -> None:
    drawing = draw(named_graph("skip-21"), unfold=NUM_STEPS)
    parts = Counter(mark.part for mark in drawing.edges if mark.edge.delay == 21)
    assert parts == {"leaving": NUM_STEPS, "arriving": NUM_STEPS}
    assert all(mark.curve.length() < 30.0 for mark in drawing.edges if mark.part != "whole")


def test_longer_skips_are_higher() -> None:
    drawing = draw(CyclicGraph([("h",)], [("h", "h", delay) for delay in (1, 2, 5)]), unfold=8)
    heights = {
        mark.edge.delay: abs(float(mark.curve.points(TIMES)[60, 1]) - drawing.nodes[0].outline.centre[1])
        for mark in drawing.edges
        if mark.part == "whole"
    }
    assert heights[1] == pytest.approx(0.0, abs=1e-6)
    assert drawing.nodes[0].outline.radius < heights[2] < heights[5]


def test_names_are_escaped() -> None:
    drawing = draw(layer(names=("<x>", 'a&"b', "y'")), title="1 < 2 & more")
    root = ElementTree.fromstring(drawing.to_svg())
    titles = [group.findtext(f"{SVG}title") for group in root.iter(f"{SVG}g")]
    assert sorted(filter(None, titles)) == ["<x>", 'a&"b', "y'"]
    assert root.findtext(f"{SVG}title") == "1 < 2 & more"


def test_long_names_are_cut_and_kept_in_full() -> None:
    name = "an_uncommonly_long_name"
    drawing = draw(layer(names=("x", name, "y")))
    (node,) = [node for node in drawing.nodes if node.name == name]
    first, last = node.label.text.split("…")
    assert name.startswith(first)
    assert name.endswith(last)
    assert first
    assert last
    assert node.label.box.right - node.label.box.left < 2 * node.outline.radius
    assert f"<title>{name}</title>" in drawing.to_svg()


def test_names_of_twelve_letters_are_not_cut() -> None:
    drawing = draw(layer(names=("input_vector", "hidden_state", "output_layer")))
    assert [node.label.text for node in drawing.nodes] == ["input_vector", "hidden_state", "output_layer"]


def test_large_graphs_are_drawn() -> None:
    edges = [("x", f"h{n}", 0) for n in range(38)] + [(f"h{n}", f"h{(n + 1) % 38}", 1) for n in range(38)]
    nodes = [("x", "input"), *((f"h{n}",) for n in range(38)), ("y", "output")]
    drawing = draw(CyclicGraph(nodes, [*edges, ("h0", "y", 0)]))
    check_labels_are_apart(drawing)
    check_everything_is_inside(drawing)


def test_svg_is_an_accessible_image() -> None:
    drawing = draw(named_graph("td"), title="top-down")
    root = ElementTree.fromstring(drawing.to_svg())
    assert root.get("role") == "img"
    assert root.get("viewBox") == f"0 0 {drawing.width:g} {drawing.height:g}"
    assert root.findtext(f"{SVG}desc") == drawing.description
    assert "h2 -[1]-> h1" in drawing.description
    assert drawing.to_svg() == drawing._repr_svg_()


def test_save_writes_svg(tmp_path: Path) -> None:
    drawing = picture("sh", None)
    drawing.save(tmp_path / "sh.SVG")
    assert (tmp_path / "sh.SVG").read_text(encoding="utf-8") == drawing.to_svg()


def test_save_refuses_other_formats(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"\.svg, \.png or \.pdf, got 'sh\.gif'"):
        picture("sh", None).save(tmp_path / "sh.gif")


def test_unfold_needs_a_time_step() -> None:
    with pytest.raises(GraphError, match="at least 1 time step, got 0"):
        draw(named_graph("sh"), unfold=0)


@pytest.mark.figures
@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".pdf", b"%PDF")])
def test_save_writes_the_same_png_and_pdf_twice(tmp_path: Path, suffix: str, magic: bytes) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'rnnlab[figures]'")
    drawing = draw(layer(names=("$x$", "a_b^", "{y}")), title="a $ sign")
    paths = [tmp_path / f"{number}{suffix}" for number in range(2)]
    for path in paths:
        drawing.save(path)
    first, second = (path.read_bytes() for path in paths)
    assert first.startswith(magic)
    assert first == second


@pytest.mark.figures
def test_png_has_the_size_and_colours_of_the_svg(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'rnnlab[figures]'")
    from matplotlib.colors import to_rgb
    from matplotlib.image import imread

    drawing = picture("dt-2", None)
    drawing.save(tmp_path / "dt.png")
    pixels = imread(tmp_path / "dt.png")[..., :3]
    assert pixels.shape[:2] == pytest.approx((3 * drawing.height, 3 * drawing.width), abs=1)
    for colour in ROLE_COLOURS.values():
        assert (np.abs(pixels - to_rgb(colour)).max(axis=-1) < 0.02).sum() > 300


def test_missing_matplotlib_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(GraphError, match=r"pip install 'rnnlab\[figures\]'"):
        picture("sh", None).save(tmp_path / "sh.png")


def test_gallery_is_not_stale() -> None:
    spec = importlib.util.spec_from_file_location("make_gallery", DOCS / "make_gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    wanted = module.gallery_files()
    found = {path.relative_to(DOCS).as_posix() for path in (DOCS / "gallery").iterdir()} | {"gallery.md"}
    assert found == set(wanted), "run `python docs/make_gallery.py docs` and remove what it did not write"
    stale = [path for path, text in wanted.items() if (DOCS / path).read_text(encoding="utf-8") != text]
    assert not stale, "run `python docs/make_gallery.py docs`"
