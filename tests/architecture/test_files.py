"""Architectures in files: saving and loading is the identity; what a user may write for one."""

import json
from pathlib import Path

import pytest
from hypothesis import given

from rnnlab import (
    CATALOGUE,
    Architecture,
    RnnlabError,
    architecture,
    find_architecture,
    find_connections,
    load_architecture,
    named_graph,
    save_architecture,
    save_graph,
)
from tests.architecture.strategies import architectures

SIZES = {"input_size": 3, "output_size": 2}
NODES = [
    {"name": "x", "kind": "input", "units": 3},
    {"name": "h", "kind": "hidden", "units": 4, "cell": "lstm"},
    {"name": "y", "kind": "output", "units": 2},
]
EDGES = [
    {"source": "x", "target": "h", "delay": 0},
    {"source": ["h", 0], "target": "h", "delay": 1},
    {"source": "h", "target": "y", "delay": 0},
]


@given(architectures())
def test_json_is_the_identity(made: Architecture) -> None:
    assert Architecture.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_choices_against_the_defaults_are_kept() -> None:
    """The depth input of two, the longer carry edge, the other port."""
    hidden = {"kind": "hidden", "units": 3, "cell": "intersection"}
    data = {
        "nodes": [NODES[0], {"name": "a"} | hidden, {"name": "b", "initial": "zero"} | hidden, NODES[2]],
        "edges": [
            {"source": "x", "target": "a", "delay": 0},
            {"source": "a", "target": "a", "delay": 1},
            {"source": "a", "target": "b", "delay": 0},
            {"source": "x", "target": "b", "delay": 0, "role": "depth"},
            {"source": "b", "target": "b", "delay": 1},
            {"source": "b", "target": "b", "delay": 2, "carry": True},
            {"source": "b", "target": "y", "delay": 0, "port": "h"},
        ],
    }
    made = Architecture.from_json(data)
    assert [str(made.depth_edge(("b", 0))), *map(str, made.carries(("b", 0)))] == ["x -[0]-> b", "b -[2]-> b"]
    assert [edge.port for edge in made.incoming(("y", 0))] == ["h"]
    assert Architecture.from_json(made.to_json()) == made


@pytest.mark.parametrize("name", [name for family in CATALOGUE for name in family.examples])
def test_files_are_the_identity(name: str, tmp_path: Path) -> None:
    made = architecture(name, **SIZES, units=4, encoding="tokens")
    save_architecture(made, tmp_path / "a.json")
    assert load_architecture(tmp_path / "a.json") == made


def test_file_has_a_line_for_each_node_and_edge(tmp_path: Path) -> None:
    made = architecture("mongia-d:lstm", **SIZES, units=4)
    save_architecture(made, tmp_path / "a.json")
    lines = (tmp_path / "a.json").read_text().splitlines()
    assert len(lines) == 6 + 7 + 7
    assert '    {"name": "y", "kind": "output", "phase": 0, "units": 2, "bias": "by"},' in lines
    ends = '    {"source": ["h", %d], "target": ["h", 1], '
    assert ends % 1 + '"delay": 2, "transform": "identity"},' in lines
    assert ends % 0 + '"delay": 1, "transform": "dense", "weights": "W2", "carry": true},' in lines


def test_what_goes_without_saying_may_be_left_out() -> None:
    made = Architecture.from_json({"nodes": NODES, "edges": EDGES})
    assert made == architecture("lstm", **SIZES, units=4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, "an architecture is a JSON object with lists nodes and edges, got None"),
        ({"nodes": {}}, "an architecture is a JSON object with lists nodes and edges"),
        ({"cell": "lstm"}, "unknown keys cell; known: period, nodes, edges"),
        ({"nodes": [*NODES, {"name": "g", "kind": "hidden", "cell": "gru"}]}, "node 3 lacks 'units'"),
        ({"nodes": [*NODES, "g"]}, "node 3 must be a JSON object, got 'g'"),
        ({"nodes": [*NODES, NODES[0] | {"width": 3}]}, "node 3 has unknown keys 'width'; known: name, kind, units"),
        (
            {"nodes": [NODES[0] | {"units": "3"}, *NODES[1:]]},
            "node 'x': units must be an integer of at least 1, got '3'",
        ),
        ({"nodes": [NODES[0] | {"kind": "in"}, *NODES[1:]]}, "node 'x' has kind 'in'; a kind is one of"),
        ({"nodes": [NODES[0], NODES[1] | {"cell": "lst"}, NODES[2]]}, "no cell is named 'lst'"),
        ({"nodes": [*NODES, NODES[0]]}, "node x is listed twice"),
        ({"edges": [*EDGES, {"source": "x", "delay": 0}]}, "edge 3 lacks 'target'"),
        ({"edges": [*EDGES, 3]}, "edge 3 must be a JSON object, got 3"),
        ({"edges": [*EDGES, EDGES[0] | {"target": ["h"]}]}, "edge 3: target is written"),
        ({"edges": [*EDGES, EDGES[0] | {"delay": 1.5}]}, "delay of edge"),
        ({"edges": [*EDGES, EDGES[0] | {"delay": 1, "wieghts": "W"}]}, "edge 3 has unknown keys 'wieghts'"),
        ({"edges": [*EDGES, EDGES[1] | {"target": "y"}, EDGES[0] | {"source": "q"}]}, "names a node ('q', 0)"),
        ({"period": 2}, "edge 0: source is written"),
        ({"period": "one"}, "edge 0: source is written"),
    ],
)
def test_wrong_files_are_refused_by_node_edge_and_key(change, message: str) -> None:
    data = None if change is None else {"nodes": NODES, "edges": EDGES} | change
    with pytest.raises(RnnlabError) as caught:
        Architecture.from_json(data)
    assert message in str(caught.value)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_graph(named_graph("td"), "graph.json")
    save_architecture(architecture("td:gru", **SIZES, units=5), "own.json")
    Path("text.json").write_text("nodes:")
    Path("wrong.json").write_text(json.dumps({"nodes": [NODES[0] | {"units": 0}], "edges": []}))
    return tmp_path


@pytest.mark.parametrize(
    ("written", "cell", "expected"),
    [
        ("td", None, "td:tanh"),
        ("td", "gru", "td:gru"),
        ("td:lstm", "gru", "td:lstm"),
        ("lstm", "gru", "sh:lstm"),
        ("graph.json", None, "td:tanh"),
        ("./graph.json", "gru", "td:gru"),
        ("graph.json:lstm", "gru", "td:lstm"),
    ],
)
def test_find_takes_a_name_or_a_file_and_a_cell(folder: Path, written: str, cell, expected: str) -> None:
    found = find_architecture(written, cell, **SIZES, parameters=500)
    assert found == architecture(expected, **SIZES, parameters=500)
    assert find_connections(written) == found.graph


def test_find_takes_a_file_that_says_everything(folder: Path) -> None:
    assert find_architecture("own.json", "lstm", **SIZES) == architecture("td:gru", **SIZES, units=5)
    assert find_connections("own.json") == named_graph("td")


@pytest.mark.parametrize(
    ("written", "options", "message"),
    [
        ("own.json:lstm", {}, "own.json gives its cells itself; write it without :lstm"),
        ("own.json", {"parameters": 500}, "own.json gives widths itself, so parameters cannot be set"),
        ("own.json", {"units": 5}, "own.json gives widths itself, so units cannot be set"),
        ("own.json", {"input_size": 4}, "own.json: input 'x' has 3 units, 4 are needed"),
        ("own.json", {"input_size": {"u": 3}}, "own.json: input_size must give a width to each of x; got u"),
        ("own.json", {"output_size": 1}, "own.json: output 'y' has 2 units, 1 are needed"),
        ("own.json", {"encoding": "tokens"}, "own.json: input 'x' takes values, tokens are needed"),
        ("graph.json", {}, "give units or parameters"),
        ("graph.json:lst", {"units": 4}, "no cell is named 'lst'"),
        ("none.json", {}, "cannot read none.json: No such file or directory"),
        ("text.json", {}, "text.json is not JSON"),
        ("wrong.json", {}, "wrong.json: node 'x': units must be an integer of at least 1, got 0"),
        ("tdd:lstm", {"units": 4}, "no architecture is named 'tdd'"),
    ],
)
def test_find_refuses_what_contradicts_itself(folder: Path, written: str, options, message: str) -> None:
    with pytest.raises(RnnlabError) as caught:
        find_architecture(written, **(SIZES | options))
    assert message in str(caught.value)


def test_graph_is_not_taken_for_an_architecture(folder: Path) -> None:
    with pytest.raises(RnnlabError, match=r"graph.json holds a graph without cells and widths"):
        load_architecture("graph.json")


def test_connections_of_a_file_with_cells_take_no_other_cell(folder: Path) -> None:
    with pytest.raises(RnnlabError, match="gives its cells itself"):
        find_connections("own.json:gru")
