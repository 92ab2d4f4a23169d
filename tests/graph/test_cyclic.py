"""Building, comparing, saving and converting cyclic graphs (Z1, Z2, Z9)."""

import json
import pickle
import subprocess
import sys

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnlab import CyclicGraph, Edge, GraphError, Node, load_graph, named_graph, save_graph
from tests.graph.strategies import graphs

RNN = ([("x", "input"), ("h",), ("y", "output")], [("x", "h", 0), ("h", "h", 1), ("h", "y", 0)])


@given(graphs(), st.randoms())
def test_order_of_construction_does_not_matter(graph: CyclicGraph, random) -> None:
    nodes, edges = list(graph.nodes), [*graph.edges, *graph.edges[:2]]
    random.shuffle(nodes)
    random.shuffle(edges)
    other = CyclicGraph(nodes, edges, graph.period)
    assert other == graph
    assert hash(other) == hash(graph)
    assert other.nodes == graph.nodes
    assert other.edges == graph.edges


@given(graphs())
def test_json_is_the_identity(graph: CyclicGraph) -> None:
    assert CyclicGraph.from_json(json.loads(json.dumps(graph.to_json()))) == graph


@given(graphs())
def test_networkx_is_the_identity(graph: CyclicGraph) -> None:
    assert CyclicGraph.from_networkx(graph.to_networkx()) == graph


@given(graphs())
def test_pickle_is_the_identity(graph: CyclicGraph) -> None:
    hash(graph)
    other = pickle.loads(pickle.dumps(graph))
    assert other == graph
    assert not other.delays.flags.writeable


def test_pickled_graph_is_found_again_in_another_process(tmp_path) -> None:
    """Hashes of strings differ between processes: a hash that travelled would not be found."""
    graph = named_graph("td")
    hash(graph)
    (tmp_path / "graph.pickle").write_bytes(pickle.dumps(graph))
    code = "import pickle, sys, rnnlab; print(pickle.load(open(sys.argv[1], 'rb')) in {rnnlab.named_graph('td')})"
    command = [sys.executable, "-c", code, str(tmp_path / "graph.pickle")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "True"


@given(graphs())
def test_arrays_are_the_identity(graph: CyclicGraph) -> None:
    other = CyclicGraph.from_arrays(
        graph.sources,
        graph.targets,
        graph.delays,
        num_nodes=graph.num_nodes,
        inputs=[n for n, node in enumerate(graph.nodes) if node.kind == "input"],
        outputs=[n for n, node in enumerate(graph.nodes) if node.kind == "output"],
        phases=graph.phases,
        names=graph.names,
        period=graph.period,
    )
    assert other == graph


def test_files_are_the_identity(tmp_path) -> None:
    for name in ("td", "fig1a", "clockwork"):
        save_graph(named_graph(name), tmp_path / "graph.json")
        assert load_graph(tmp_path / "graph.json") == named_graph(name)


def test_different_graphs_differ() -> None:
    graph = CyclicGraph(*RNN)
    others = [
        CyclicGraph([("x", "input"), ("h",), ("y", "hidden")], RNN[1]),
        CyclicGraph([("x", "input"), ("h",), ("z", "output")], [("x", "h", 0), ("h", "h", 1), ("h", "z", 0)]),
        CyclicGraph(RNN[0], [("x", "h", 0), ("h", "h", 2), ("h", "y", 0)]),
        CyclicGraph(RNN[0], RNN[1][:2]),
        CyclicGraph(RNN[0], [(("x", 0), ("h", 0), 0), (("h", 0), ("h", 0), 2), (("h", 0), ("y", 0), 0)], period=2),
    ]
    assert len({graph, *others}) == 6
    assert graph != "graph"


def test_canonical_order_is_by_kind_name_and_phase() -> None:
    nodes = [("h10",), ("h2",), ("b", "output"), ("x", "input"), ("a", "output")]
    graph = CyclicGraph(nodes, [("h10", "h2", 1), ("h2", "h10", 0), ("h2", "h2", 3), ("h2", "h2", 1)])
    assert graph.names == ("x", "h2", "h10", "a", "b")
    assert [node.key for node in named_graph("mongia-b").nodes if node.kind == "hidden"] == [("h", 0), ("h", 1)]
    two = CyclicGraph([("b",), ("a", "hidden", 1), ("b", "hidden", 1)], [(("b", 0), ("b", 0), 2)], period=2)
    assert [node.key for node in two.nodes] == [("a", 1), ("b", 0), ("b", 1)]
    assert graph.edges == (
        Edge(("h2", 0), ("h2", 0), 1),
        Edge(("h10", 0), ("h2", 0), 1),
        Edge(("h2", 0), ("h2", 0), 3),
        Edge(("h2", 0), ("h10", 0), 0),
    )


def test_edges_form_a_set_even_with_huge_delays() -> None:
    assert CyclicGraph.from_arrays([0, 0], [0, 0], [2**61, 2**61], num_nodes=1).num_edges == 1


def test_names_of_thousands_of_digits_are_names() -> None:
    graph = CyclicGraph([("9" * 5000,), ("10",), ("010",)], [("10", "10", 1)])
    assert graph.names == ("010", "10", "9" * 5000)


def test_large_arrays_name_nodes_by_number() -> None:
    graph = CyclicGraph.from_arrays([2, 11], [11, 2], [0, 1], num_nodes=12, inputs=[11])
    assert graph.nodes[0] == Node("11", "input")
    assert graph.edges == (Edge(("2", 0), ("11", 0), 0), Edge(("11", 0), ("2", 0), 1))


def test_graph_never_changes() -> None:
    graph = CyclicGraph(*RNN)
    with pytest.raises(AttributeError, match="never changes"):
        graph.period = 2
    with pytest.raises(ValueError, match="read-only"):
        graph.delays[0] = 7
    with pytest.raises(AttributeError, match="stays"):
        del graph.period
    with pytest.raises(TypeError):
        graph.index["h", 0] = 7


def test_caller_keeps_its_arrays() -> None:
    sources = np.array([0, 0])
    CyclicGraph.from_arrays(sources, [0, 0], [1, 2], num_nodes=1)
    assert sources.flags.writeable
    assert sources.tolist() == [0, 0]


def test_graph_prints_its_nodes_and_edges() -> None:
    text = str(named_graph("fig1a"))
    assert text.splitlines()[0] == "period 2"
    assert "  input   1@0, 5@1" in text
    assert "  7@1 -[1]-> 3@0" in text


def test_networkx_defaults_to_hidden_nodes_of_period_one() -> None:
    graph = networkx.DiGraph()
    graph.add_edge("a", "b", delay=0)
    graph.add_edge("b", "a", delay=1)
    assert CyclicGraph.from_networkx(graph) == CyclicGraph([("a",), ("b",)], [("a", "b", 0), ("b", "a", 1)])


def _networkx(**edge) -> networkx.DiGraph:
    graph = networkx.DiGraph()
    graph.add_edge("a", "a", **edge)
    return graph


H = [("h",)]
LOOP = [("h", "h", 1)]
NODE = {"name": "h", "kind": "hidden"}
EDGE = {"source": "h", "target": "h", "delay": 1}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CyclicGraph([], []), "at least one node"),
        (lambda: CyclicGraph(["h"], LOOP), r"a node is \(name, kind, phase\), got 'h'"),
        (lambda: CyclicGraph([("",)], LOOP), "non-empty string"),
        (lambda: CyclicGraph([("h\n\x1b[31m",)], LOOP), "printable characters"),
        (lambda: CyclicGraph([("\ud800",)], LOOP), "printable characters"),
        (lambda: CyclicGraph([("h", "recurrent")], LOOP), "kind 'recurrent'; a kind is one of input, hidden, output"),
        (lambda: CyclicGraph([("h", "hidden", 1)], LOOP), "phase 1; with period 1 phases are 0 to 0"),
        (lambda: CyclicGraph([("h", "hidden", 0.5)], LOOP), "phase of node 'h' must be an integer, got 0.5"),
        (lambda: CyclicGraph([("h",), ("h", "input")], LOOP), "node h is listed twice"),
        (lambda: CyclicGraph(H, [("h", "h")]), r"an edge is \(source, target, delay\)"),
        (lambda: CyclicGraph(H, [("h", "g", 1)]), "names a node 'g' that is not in the list"),
        (lambda: CyclicGraph(H, [("h", 3, 1)]), "names a node 3 that is not in the list"),
        (lambda: CyclicGraph(H, [("h", "h", 1.0)]), "must be an integer, got 1.0"),
        (lambda: CyclicGraph(H, [("h", "h", True)]), "must be an integer, got True"),
        (lambda: CyclicGraph(H, [("h", "h", 2**62)]), r"below 2\*\*62"),
        (lambda: CyclicGraph(H, [("h", "h", 2)], period=2), r'with period 2 write \'h\' with its phase, as \["h", 0\]'),
        (lambda: CyclicGraph(H, LOOP, period=0), "period must be at least 1, got 0"),
        (lambda: CyclicGraph(H, LOOP, period="2"), "period must be an integer"),
        (lambda: CyclicGraph.from_arrays([0], [1], [1], num_nodes=1), "targets must number nodes from 0 to 0, got 1"),
        (lambda: CyclicGraph.from_arrays([-1], [0], [1], num_nodes=1), "sources must number nodes"),
        (lambda: CyclicGraph.from_arrays([0], [0], [1.0], num_nodes=1), "one-dimensional array of integers"),
        (lambda: CyclicGraph.from_arrays([0], [0], [1, 2], num_nodes=1), "of one length, got 1, 1, 2"),
        (
            lambda: CyclicGraph.from_arrays([0], [0], [1], num_nodes=1, phases=[0, 0]),
            "phases must have one entry a node",
        ),
        (
            lambda: CyclicGraph.from_arrays([0], [0], [1], num_nodes=2, names=["a", "a"]),
            "two nodes share both name and phase",
        ),
        (lambda: CyclicGraph.from_arrays([0], [0], np.array([2**64 - 1], np.uint64), num_nodes=1), r"below 2\*\*62"),
        (lambda: CyclicGraph.from_arrays([0], [0], [-(2**62)], num_nodes=1), r"below 2\*\*62"),
        (lambda: CyclicGraph.from_arrays([], [], [], num_nodes=0), "at least one node"),
        (lambda: CyclicGraph.from_arrays([0], [0], [1], num_nodes=1, names=[3]), "printable characters, got 3"),
        (
            lambda: CyclicGraph.from_arrays([0], [0], [1], num_nodes=1, inputs=[0], outputs=[0]),
            "node 0 is listed among the inputs and among the outputs",
        ),
        (lambda: CyclicGraph(H, [("h", "h", -(2**62))]), r"below 2\*\*62"),
        (lambda: CyclicGraph(H, [((["h"], 0), "h", 1)]), "that is not in the list"),
        (lambda: CyclicGraph.from_json([]), "the graph must be a JSON object"),
        (lambda: CyclicGraph.from_json({"nodes": []}), "the graph lacks 'edges'"),
        (lambda: CyclicGraph.from_json({"nodes": {}, "edges": []}), "nodes must be a JSON list"),
        (lambda: CyclicGraph.from_json({"nodes": [NODE], "edges": [], "priod": 1}), "unknown keys 'priod'"),
        (lambda: CyclicGraph.from_json({"nodes": [{"name": "h"}], "edges": []}), "node 0 lacks 'kind'"),
        (
            lambda: CyclicGraph.from_json({"nodes": [NODE], "edges": [{**EDGE, "dealy": 1}]}),
            "edge 0 has unknown keys 'dealy'",
        ),
        (
            lambda: CyclicGraph.from_json({"nodes": [NODE], "edges": [{**EDGE, "source": ["h"]}]}),
            r'written \["name", phase\] or "name", got \[\'h\'\]',
        ),
        (lambda: CyclicGraph.from_networkx(networkx.Graph()), "needs a directed graph"),
        (lambda: CyclicGraph.from_networkx(_networkx()), "a -> a has no attribute 'delay'"),
        (lambda: CyclicGraph.from_networkx(networkx.DiGraph([(1, 2)])), r"a name or \(name, phase\), got 1"),
    ],
)
def test_malformed_input_is_refused_with_its_reason(build, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        build()


def test_unreadable_files_are_refused_with_their_name(tmp_path) -> None:
    (tmp_path / "text.json").write_text("{nodes")
    (tmp_path / "graph.json").write_text('{"nodes": [], "edges": []}')
    for name, message in (
        ("none.json", "cannot read"),
        ("text.json", "is not JSON"),
        ("graph.json", "at least one node"),
    ):
        with pytest.raises(GraphError, match=message) as caught:
            load_graph(tmp_path / name)
        assert name in str(caught.value)
