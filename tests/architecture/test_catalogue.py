"""Networks by name: which node gets which cell, which edges carry, which matrices are shared."""

import pytest
import torch

from rnnlab import (
    CATALOGUE,
    CELLS,
    Architecture,
    ArchitectureError,
    CyclicGraph,
    GraphError,
    Model,
    architecture,
    measure,
    named_graph,
)
from rnnlab.architecture.catalogue import split_name

EXAMPLES = [name for family in CATALOGUE for name in family.examples]


def build(name: str | CyclicGraph, cell: str | None = None, **options) -> Architecture:
    return architecture(name, cell, **({"input_size": 3, "output_size": 2, "units": 4} | options))


def cells(made: Architecture) -> dict[str, str]:
    return {made.label(node.key): node.cell for node in made.nodes if node.cell}


def shared(made: Architecture) -> dict[str, set[str]]:
    """Each matrix by name, with the edges that use it."""
    found: dict[str, set[str]] = {}
    for edge in made.edges:
        if edge.transform == "dense":
            found.setdefault(made.matrix_name(edge), set()).add(made.edge_label(edge))
    return found


@pytest.mark.parametrize("cell", ["tanh", "relu", "irnn"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_graph_takes_every_cell_without_gates(name: str, cell: str) -> None:
    made = build(name, cell)
    assert made.graph == named_graph(name)
    assert set(cells(made).values()) == {cell}
    assert {node.units for node in made.nodes} == {2, 3, 4}


@pytest.mark.parametrize("cell", ["ugrnn", "gru", "gru-cudnn", "lstm", "lstm-edges", "mgu"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_gated_cells_go_wherever_state_can_be_kept(name: str, cell: str) -> None:
    """Only deep transitions without shortcuts, and the figure drawn without loops, keep none at all."""
    graph = named_graph(name)
    if name in ("dt-2", "dt-3", "dot-2", "fig1b-2"):
        with pytest.raises(ArchitectureError, match=f"cell '{cell}' keeps state, but no hidden node"):
            build(name, cell)
        return
    kept = {edge.target for edge in graph.edges if edge.delay > 0 and edge.source[0] == edge.target[0]}
    made = build(name, cell)
    assert {node.key: node.cell for node in made.nodes if node.kind == "hidden"} == {
        node.key: cell if node.key in kept else "tanh" for node in graph.nodes if node.kind == "hidden"
    }


def test_layers_that_keep_no_state_are_plain() -> None:
    assert cells(build("deep-input:gru")) == {"f": "tanh", "h": "gru"}
    assert cells(build("dots-3:lstm")) == {"z1": "tanh", "z2": "tanh", "h": "lstm", "o": "tanh"}
    assert cells(build("dt-3:irnn")) == {"z1": "irnn", "z2": "irnn", "h": "irnn"}


@pytest.mark.parametrize("name", ["st", "bu", "td", "stack-8", "srnn-2", "grid-4-1", "section45-2-3", "clockwork"])
def test_intersection_passes_y_upwards_and_h_on(name: str) -> None:
    """C18, C19: each layer's depth input is the y of the one below; read-outs take y whenever they read it."""
    made = build(name, "intersection")
    for edge in made.edges:
        source, target = (made.by_key[key] for key in (edge.source, edge.target))
        assert (edge.role == "depth") == (edge.delay == 0 and target.kind == "hidden")
        if source.kind == "hidden":
            assert edge.port == ("h" if edge.delay and target.kind == "hidden" else "y")


@pytest.mark.parametrize("name", ["sh", "skip-3", "mongia-a", "mongia-d", "special-4", "stack-1", "grid-2-1"])
def test_intersection_needs_two_layers(name: str) -> None:
    with pytest.raises(ArchitectureError, match=r"cell 'intersection' .* needs two hidden layers or more \(C18\)"):
        build(name, "intersection")


def test_intersection_needs_one_layer_below_each() -> None:
    with pytest.raises(ArchitectureError, match=r"node r1 \(intersection\) needs one depth input: it has 0"):
        build("grid-2-2:intersection")


def test_lstm_with_a_gate_for_each_edge_is_the_authors() -> None:
    """Requirements 2.1, B.2: the memories that each layer of LSTM_bu and LSTM_td reads, delay 0 included."""

    def carried(name: str) -> dict[str, list[str]]:
        made = build(name, "lstm-edges")
        return {node.name: [str(edge) for edge in made.carries(node.key)] for node in made.nodes if node.cell}

    assert carried("td") == {
        "h1": ["h1 -[1]-> h1", "h2 -[1]-> h1"],
        "h2": ["h1 -[0]-> h2", "h2 -[1]-> h2"],
    }
    assert carried("bu") == {"h1": ["h1 -[1]-> h1"], "h2": ["h1 -[0]-> h2", "h1 -[1]-> h2", "h2 -[1]-> h2"]}
    assert carried("skip-5") == {"h": ["h -[1]-> h", "h -[5]-> h"]}
    assert build("bu:lstm-edges").gates(("h2", 0)) == ("g", "i", "o", "f0", "f1", "f2")


def test_names_of_graph_and_cell() -> None:
    """A bare cell means one layer of it, a bare graph means tanh."""
    assert build("lstm") == build("sh:lstm") == build("sh", "lstm") == build("sh:lstm", "lstm")
    assert build("td") == build("td:tanh")
    assert build(named_graph("td"), "gru") == build("td:gru")
    assert split_name("grid-4-2:gru-cudnn") == ("grid-4-2", "gru-cudnn")


@pytest.mark.parametrize("cell", sorted(set(CELLS) - {"intersection"}))
def test_every_cell_has_a_name_of_its_own(cell: str) -> None:
    assert set(cells(build(cell)).values()) == {cell}


@pytest.mark.parametrize(("letter", "skip"), [("b", None), ("c", ("h@1", 2)), ("d", ("h@1", 2))])
def test_mongia_shares_what_the_paper_shares(letter: str, skip) -> None:
    """M2-M4: Wx and the read-out are one; B and D have a matrix for each phase, C one; the skip is unweighted."""
    made = build(f"mongia-{letter}", "relu")
    hidden = {"W1": {"h@1->h@0[1]", "h@0->h@1[1]"}} if letter == "c" else {"W1": {"h@1->h@0[1]"}, "W2": {"h@0->h@1[1]"}}
    assert shared(made) == {"Wx": {"x@0->h@0[0]", "x@1->h@1[0]"}, "Wo": {"h@0->y@0[0]", "h@1->y@1[0]"}} | hidden
    identity = [(made.label(edge.source), edge.delay) for edge in made.edges if edge.transform == "identity"]
    assert identity == ([] if skip is None else [skip])
    biases = ["bh"] if letter == "c" else ["h@0 bias", "h@1 bias"]
    assert [spec.name for spec in made.parameters if "biases" in spec.category] == [*biases, "by"]


def test_mongia_a_is_one_layer() -> None:
    """M1."""
    assert build("mongia-a:lstm") == build("sh:lstm")


@pytest.mark.parametrize("period", [1, 2, 4, 7])
def test_special_version_has_a_matrix_for_each_phase(period: int) -> None:
    """M5; with period 2 it is version D, with period 1 each state adds the last one to itself."""
    made = build(f"special-{period}:lstm")
    assert set(shared(made)) == {"Wx", "Wo", *(f"W{number}" for number in range(1, period + 1))}
    assert sum(edge.transform == "identity" for edge in made.edges) == 1
    assert measure(made.graph).recurrent_skip_coefficient == period
    assert (made == build("mongia-d:lstm")) == (period == 2)


def test_clockwork_has_one_set_of_matrices() -> None:
    """Each module's matrices are the same whenever it runs; what runs once a period needs no tie."""
    made = build("clockwork:lstm")
    groups = {name: len(edges) for name, edges in shared(made).items()}
    assert groups == {
        "x->h1": 4,
        "h1->h1": 4,
        "h2->h1": 4,
        "h3->h1": 4,
        "x->h2": 2,
        "h2->h2": 2,
        "h3->h2": 2,
        "x@0->h3@0[0]": 1,
        "h3@0->h3@0[4]": 1,
        "h1->y": 4,
        "h2->y": 4,
        "h3->y": 4,
    }
    names = [spec.name for spec in made.parameters if "biases" in spec.category]
    assert names == ["h1 bias", "h2 bias", "h3@0 bias", "y bias"]


def test_own_graph_ties_its_edges_by_their_place() -> None:
    """A layer with a second, longer edge at one of its two phases: the shorter edges share a matrix."""
    graph = CyclicGraph(
        [("x", "input", 0), ("x", "input", 1), ("h", "hidden", 0), ("h", "hidden", 1)],
        [
            *[(("x", 0), ("h", 0), 0), (("x", 1), ("h", 1), 0)],
            *[(("h", 1), ("h", 0), 1), (("h", 0), ("h", 1), 1), (("h", 1), ("h", 1), 2)],
        ],
        period=2,
    )
    assert shared(build(graph)) == {
        "x->h": {"x@0->h@0[0]", "x@1->h@1[0]"},
        "h->h": {"h@1->h@0[1]", "h@0->h@1[1]"},
        "h@1->h@1[2]": {"h@1->h@1[2]"},
    }
    gates = build(graph, "lstm-edges")  # three forget gates at one phase, two at the other: nothing to share
    assert all(len(edges) == 1 for edges in shared(gates).values())
    assert len([spec for spec in gates.parameters if spec.category == "biases"]) == 2


def test_units_may_differ_by_name() -> None:
    made = build("dots-2", units={"z1": 400, "h": 400, "o": 600})
    assert {node.name: node.units for node in made.nodes} == {"x": 3, "z1": 400, "h": 400, "o": 600, "y": 2}


def test_encoding_and_initial_state_are_passed_on() -> None:
    made = build("td:lstm", encoding="tokens", initial="zero")
    assert [node.encoding for node in made.nodes] == ["tokens", "values", "values", "values"]
    assert made.num_parameters(["initial state"]) == 0
    assert made.num_parameters() == build("td:lstm").num_parameters() - 16


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("tdd", {}, GraphError, "no architecture is named 'tdd'; did you mean 'td'?"),
        ("lsmt", {}, ArchitectureError, "no architecture is named 'lsmt'; did you mean 'lstm'?"),
        ("td:lst", {}, ArchitectureError, "no cell is named 'lst'; did you mean 'lstm'?"),
        ("td:", {}, ArchitectureError, "'td:' names no cell after the colon"),
        ("skip-0:gru", {}, GraphError, "the skip K must be at least 1, got 0"),
        ("td:lstm", {"cell": "gru"}, ArchitectureError, "'td:lstm' names cell 'lstm', the argument cell is 'gru'"),
        ("td", {"units": None}, ArchitectureError, "give units or parameters, one of the two; got None and None"),
        ("td", {"parameters": 9}, ArchitectureError, "give units or parameters, one of the two; got 4 and 9"),
        ("td", {"input_size": {"u": 4}}, ArchitectureError, "input_size must give a width to each of x; got u"),
        ("td", {"output_size": {}}, ArchitectureError, "output_size must give a width to each of y; got none"),
        ("td", {"units": {"h1": 4}}, ArchitectureError, "units must give a width to each of h1, h2; got h1"),
        ("td", {"units": {"h1": 4, "h2": 0}}, ArchitectureError, "node 'h2': units must be an integer of at least 1"),
        ("td", {"units": "4"}, ArchitectureError, "units must be an integer of at least 1, got '4'"),
        ("td", {"input_size": 0}, ArchitectureError, "node 'x': units must be an integer of at least 1, got 0"),
        ("td:lstm-edges", {"units": {"h1": 4, "h2": 5}}, ArchitectureError, "equally wide; got 5 and 4"),
        ("mongia-d", {"encoding": "words"}, ArchitectureError, "encoding is one of values, tokens, got 'words'"),
    ],
)
def test_wrong_requests_are_refused(name: str, options, error, message: str) -> None:
    with pytest.raises(error) as caught:
        build(name, **options)
    assert message in str(caught.value)


def test_inputs_and_outputs_may_have_widths_of_their_own() -> None:
    edges = [("u", "h", 0), ("v", "h", 0), ("h", "h", 1), ("h", "y", 0), ("h", "z", 0)]
    graph = CyclicGraph([("u", "input"), ("v", "input"), ("h",), ("y", "output"), ("z", "output")], edges)
    made = architecture(graph, "gru", input_size={"u": 3, "v": 2}, output_size={"y": 1, "z": 5}, units=4)
    assert {node.name: node.units for node in made.nodes} == {"u": 3, "v": 2, "h": 4, "y": 1, "z": 5}
    model = Model(made, seed=0)
    outputs, _ = model(torch.ones(2, 6, 5))  # side by side, in the order of their names
    assert outputs.shape == (2, 6, 6)
    named, _ = model({"u": torch.ones(2, 6, 3), "v": torch.ones(2, 6, 2)})
    assert torch.equal(named, outputs)
