"""Every construction of the papers has the measures that the papers give it (golden numbers with citation)."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from rnnlab import CATALOGUE, CyclicGraph, GraphError, measure, named_graph, path_lengths, smallest_period

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "graphs.json").read_text())


def triple(graph: CyclicGraph) -> tuple[Fraction, Fraction | None, Fraction]:
    measures = measure(graph)
    return (measures.recurrent_depth, measures.feedforward_depth, measures.recurrent_skip_coefficient)


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: row["name"])
def test_measures_are_the_papers(row) -> None:
    graph = named_graph(row["name"])
    assert triple(graph) == (Fraction(row["d_r"]), Fraction(row["d_f"]), Fraction(row["s"])), row["citation"]
    assert graph.period == row["period"]


@pytest.mark.parametrize("feedforward", range(2, 7))
@pytest.mark.parametrize("recurrent", range(1, 6))
def test_grid_has_the_depths_of_its_name_and_no_skip(feedforward: int, recurrent: int) -> None:
    """Z37: the nine of figure 2(b) and beyond; s = 1 throughout, so depth is not confounded with it."""
    assert triple(named_graph(f"grid-{feedforward}-{recurrent}")) == (recurrent, feedforward, 1)


@pytest.mark.parametrize(
    ("name", "input_into", "recurrent", "output_from"),
    [
        ("grid-2-1", "r", [], "r"),
        ("grid-2-2", "r2", [("r2", "r1")], "r2"),
        ("grid-2-3", "r3", [("r3", "r1")], "r3"),
        ("grid-3-1", "r", [], "e1"),
        ("grid-3-2", "r1", [("r2", "r1")], "r2"),
        ("grid-3-3", "r2", [("r3", "r1")], "r3"),
        ("grid-4-1", "r", [], "e2"),
        ("grid-4-2", "r1", [("r2", "r1")], "e1"),
        ("grid-4-3", "r1", [("r3", "r1")], "r3"),
    ],
)
def test_grid_connects_as_reconstructed(name: str, input_into: str, recurrent, output_from: str) -> None:
    """The table of requirements 2.4: where the input enters, what leads back, where the output is read."""
    edges = named_graph(name).edges
    assert [edge.target[0] for edge in edges if edge.source[0] == "x"] == [input_into]
    assert [edge.source[0] for edge in edges if edge.target[0] == "y"] == [output_from]
    back = [(edge.source[0], edge.target[0]) for edge in edges if edge.delay and edge.source != edge.target]
    assert back == recurrent
    hidden = {node.name for node in named_graph(name).nodes if node.kind == "hidden"}
    assert {edge.source[0] for edge in edges if edge.source == edge.target and edge.delay == 1} == hidden


@pytest.mark.parametrize("skip", [2, 3, 5, 9, 17, 21])
def test_only_some_skips_raise_the_skip_coefficient(skip: int) -> None:
    """Z28, Z39: four ways to add a skip of the same length."""
    measured = [triple(named_graph(f"section45-{variant}-{skip}")) for variant in (1, 2, 3, 4)]
    assert measured == [(1, 3, 1), (1, 3, 1), (1, 3, Fraction(skip, 2)), (1, 3, skip)]


@pytest.mark.parametrize("skip", range(1, 41))
def test_skip_coefficient_is_the_skip(skip: int) -> None:
    assert triple(named_graph(f"skip-{skip}")) == (1, 2, skip)


def test_figure_1a_has_the_path_lengths_of_the_text() -> None:
    """Z29: D_t(1..4) = 5, 6, 8, 9 for even t; requirements 2.2 for the rest."""
    lengths = path_lengths(named_graph("fig1a"), [0, 1], range(7))
    even = [lengths.longest[0, n] for n in range(7)]
    assert even == [3, 5, 6, 8, 9, 11, 12]
    assert even == [lengths.longest_input_output[0, n] for n in range(7)]
    assert [lengths.longest[1, n] for n in range(5)] == [3, 4, 6, 7, 9]
    assert [lengths.shortest[0, n] for n in range(7)] == [0, 1, 1, 2, 2, 3, 3]


def test_figure_1a_has_the_edges_of_the_text() -> None:
    """Z30: (1,7) -> (0,3) crosses one step; (0,3) has a loop of two; the path of requirements 2.2 proves d_f."""
    graph = named_graph("fig1a")
    assert (("7", 1), ("3", 0), 1) in graph.edges
    assert (("3", 0), ("3", 0), 2) in graph.edges
    path = measure(graph).witnesses.feedforward_depth
    assert path is not None
    assert [path[0].source[0], *(edge.target[0] for edge in path)] == ["1", "2", "3", "6", "7", "8"]


def test_smallest_periods_are_the_papers() -> None:
    """Z10, Z11; Mongia's B repeats every step as a graph, and needs two phases for its two matrices."""
    expected = {"sh": 1, "mongia-b": 1, "mongia-c": 2, "special-4": 4, "clockwork": 4, "hierarchical": 2, "fig1a": 2}
    assert {name: smallest_period(named_graph(name)) for name in expected} == expected


def test_worked_example_of_two_phases_and_two_matrices() -> None:
    """Mongia's version D: d_r 1, d_f 2, s 2; phi x 0, h 1, y 2."""
    graph = CyclicGraph(
        [(name, kind, phase) for name, kind in (("x", "input"), ("h", "hidden"), ("y", "output")) for phase in (0, 1)],
        [
            *[(("x", 0), ("h", 0), 0), (("x", 1), ("h", 1), 0), (("h", 1), ("h", 0), 1), (("h", 0), ("h", 1), 1)],
            *[(("h", 1), ("h", 1), 2), (("h", 0), ("y", 0), 0), (("h", 1), ("y", 1), 0)],
        ],
        period=2,
    )
    assert graph == named_graph("mongia-d")
    assert triple(graph) == (1, 2, 2)
    phi = measure(graph).slots.phi
    assert {graph.label(key): value for key, value in phi.items()} == {
        "x@0": 0,
        "x@1": 0,
        "h@0": 1,
        "h@1": 1,
        "y@0": 2,
        "y@1": 2,
    }


def test_worked_example_of_a_stack_with_depth_inputs() -> None:
    """A +RNN stack as a graph: d_r 1, d_f 3, s 1; phi x 0, a 1, b 2, y 3."""
    graph = CyclicGraph(
        [("x", "input"), ("a",), ("b",), ("y", "output")],
        [("x", "a", 0), ("a", "a", 1), ("a", "b", 0), ("b", "b", 1), ("b", "y", 0)],
    )
    assert triple(graph) == (1, 3, 1)
    assert measure(graph).to_json()["slots"] == {"per_step": "1", "phi": {"x": "0", "a": "1", "b": "2", "y": "3"}}


def test_clockwork_modules_read_the_latest_state() -> None:
    """Z11: at an odd step only the fastest module runs; it reads the slow ones' states of up to three steps ago."""
    graph = named_graph("clockwork")
    into_fast = {(edge.source[0], edge.delay) for edge in graph.edges if edge.target == ("h1", 3)}
    assert into_fast == {("x", 0), ("h1", 1), ("h2", 1), ("h3", 3)}
    assert [node.phase for node in graph.nodes if node.name == "h2"] == [0, 2]
    assert [node.phase for node in graph.nodes if node.name == "h3"] == [0]


def test_every_example_belongs_to_its_family() -> None:
    names = [name for family in CATALOGUE for name in family.examples]
    assert len(set(names)) == len(names)
    for family in CATALOGUE:
        assert all(family.match(name) is not None for name in family.examples)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tdd", "no architecture is named 'tdd'; did you mean 'td'?"),
        ("TD", "no architecture is named 'TD'; did you mean 'td'?"),
        ("skip-K", "'skip-K' is a family: put numbers in place of its capital letters, as in 'skip-2'"),
        ("", "no architecture is named ''"),
        ("skip-0", "the skip K must be at least 1, got 0"),
        ("stack-0", "the number of layers L must be at least 1"),
        ("dt-0", "the number of transition layers L must be at least 1"),
        ("grid-1-1", "the feedforward depth DF must be at least 2"),
        ("grid-2-0", "the recurrent depth DR must be at least 1"),
        ("section45-5-3", "variants V = 1 to 4, got 5"),
        ("section45-2-0", "the skip K must be at least 1"),
        ("special-0", "the period K must be at least 1"),
        ("fig1b-6", "examples 1 to 5, got 6"),
    ],
)
def test_wrong_names_are_refused_with_a_hint(name: str, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        named_graph(name)
    assert message in str(caught.value)
