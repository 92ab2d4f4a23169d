"""What an architecture fills in, what it counts, and what it refuses."""

import json
import re

import numpy as np
import pytest
from hypothesis import given

from rnnlab import Architecture, ArchitectureError, CyclicGraph, EdgeSpec, NodeSpec, RnnlabError, architecture, measure
from tests.architecture.strategies import architectures


def node(name: str, kind: str = "hidden", units: int = 4, **options) -> NodeSpec:
    return NodeSpec(name=name, kind=kind, units=units, **options)


def edge(source: str, target: str, delay: int = 0, **options) -> EdgeSpec:
    """An edge between nodes written `h` or `h@1`."""

    def key(text: str) -> tuple[str, int]:
        name, _, phase = text.partition("@")
        return (name, int(phase or 0))

    return EdgeSpec(source=key(source), target=key(target), delay=delay, **options)


def simple(cell: str = "lstm", *extra: EdgeSpec, **options) -> Architecture:
    nodes = [node("x", "input", 3), node("h", cell=cell, **options), node("y", "output", 2)]
    return Architecture(nodes, [edge("x", "h"), edge("h", "h", 1), edge("h", "y"), *extra])


def plus_rnn(*extra: EdgeSpec, **options) -> Architecture:
    """The second worked example of the design, with `options` for the edge between the layers."""
    cells = {"a": "intersection", "b": "intersection"}
    return Architecture(
        [node("x", "input", 5), *(node(name, cell=cell) for name, cell in cells.items()), node("y", "output", 2)],
        [edge("x", "a"), edge("a", "a", 1), edge("a", "b", **options), edge("b", "b", 1), edge("b", "y"), *extra],
    )


def test_matrices_of_one_name_are_one_only_where_they_are_tied() -> None:
    nodes = [node("x", "input"), node("a", cell="tanh"), node("a->b[0]", cell="tanh"), node("b[0]->y", "output")]
    nodes.append(node("y", "output"))
    into = [edge("x", "a"), edge("a", "a", 1), edge("x", "a->b[0]")]
    with pytest.raises(ArchitectureError, match=r"two matrices would be called 'a->b\[0\]->y\[0\]': of an edge from"):
        Architecture(nodes, [*into, edge("a", "b[0]->y"), edge("a->b[0]", "y")])
    tied = [edge("a", "b[0]->y", weights="W"), edge("a->b[0]", "y", weights="W")]
    assert len(Architecture(nodes, [*into, *tied]).parameters) == 9


def test_parameters_are_called_after_their_edges_and_nodes() -> None:
    made = plus_rnn(edge("b", "y", port="h"), weights="W")
    of_a, of_b = (made.depth_edge((name, 0)) for name in "ab")
    assert of_a is not None
    assert of_b is not None
    matrices = [made.matrix_name(each) for each in made.edges]
    assert matrices == ["x->a[0]", "a->a[1]", "W", "b->b[1]", "b->y[0] h", "b->y[0]"]
    names = [made.projection_name(of_a), made.projection_bias_name(of_a)]
    assert names == ["x->a[0] projection", "x->a[0] projection bias"]
    assert made.projection_name(of_b) == "W projection"
    assert [made.bias_name((name, 0)) for name in "ay"] == ["a bias", "y bias"]
    assert [made.initial_name(("a", 0), "h"), made.initial_name(("y", 0), "")] == ["a initial h", "y initial"]
    assert {*names, "W", "a bias", "a initial h"} <= {spec.name for spec in made.parameters}


def test_names_that_are_one_in_a_state_dict_are_refused() -> None:
    nodes = [
        node("x", "input"),
        node("h.1", cell="tanh"),
        node("h\N{ONE DOT LEADER}1", cell="tanh"),
        node("y", "output"),
    ]
    with pytest.raises(ArchitectureError, match="differ in a dot and a one dot leader only"):
        Architecture(nodes, [*(edge(end.name, end.name, 1) for end in nodes[1:3]), edge("h.1", "y")])


def test_integers_of_numpy_are_kept_as_plain_ones() -> None:
    """As files have them."""
    one = np.int64(1)
    nodes = [node("x", "input", np.int64(3), phase=np.int32(0)), node("h", cell="tanh"), node("y", "output")]
    edges = [edge("x", "h"), EdgeSpec(source=("h", np.int64(0)), target=("h", np.uint8(0)), delay=one), edge("h", "y")]
    made = Architecture(nodes, edges, one)
    assert json.loads(json.dumps(made.to_json())) == made.to_json()
    sized = architecture("sh", "tanh", input_size=one, output_size=one, units=np.int16(4))
    assert json.dumps(sized.to_json())
    assert architecture("sh", "tanh", input_size=3, output_size=2, parameters=np.int64(99)).num_parameters() <= 99


def test_worked_example_of_two_phases_and_two_matrices() -> None:
    """Mongia's version D with LSTM cells: 48 + 64 + 64 + 32 + 16 + 8 + 2 = 234 parameters."""
    made = Architecture(
        [
            *(node("x", "input", 3, phase=phase) for phase in (0, 1)),
            *(node("h", cell="lstm", phase=phase) for phase in (0, 1)),
            *(node("y", "output", 2, phase=phase, bias="by") for phase in (0, 1)),
        ],
        [
            *(edge(f"x@{phase}", f"h@{phase}", weights="Wx") for phase in (0, 1)),
            *(edge(f"h@{phase}", f"y@{phase}", weights="Wo") for phase in (0, 1)),
            edge("h@1", "h@0", 1, weights="W1", carry=True),
            edge("h@0", "h@1", 1, weights="W2", carry=True),
            edge("h@1", "h@1", 2, transform="identity"),
        ],
        period=2,
    )
    sizes = {spec.name: spec.size for spec in made.parameters if spec.category in ("weights", "read-out weights")}
    assert sizes == {"Wx": 48, "W1": 64, "W2": 64, "Wo": 8}
    kinds = {"biases": 32, "initial state": 16, "read-out biases": 2}
    assert {kind: made.num_parameters([kind]) for kind in kinds} == kinds
    assert made.num_parameters() == 234
    assert made == architecture("mongia-d:lstm", input_size=3, output_size=2, units=4)
    measures = measure(made.graph)
    assert (measures.recurrent_depth, measures.feedforward_depth, measures.recurrent_skip_coefficient) == (1, 2, 2)


def test_worked_example_of_a_stack_with_depth_inputs() -> None:
    """A +RNN stack: 24 + 144 + 144 + 8 + 10 = 330 parameters."""
    made = plus_rnn()
    assert made.num_parameters() == 330
    assert made.num_parameters(["projection"]) == 24
    assert [(spec.name, spec.size) for spec in made.parameters if spec.category == "initial state"] == [
        ("a initial h", 4),
        ("b initial h", 4),
    ]
    assert made == plus_rnn(role="depth", port="y")
    assert [made.has_projection(edge) for edge in made.edges if edge.role == "depth"] == [True, False]


def test_carry_is_the_shortest_edge_from_the_own_name() -> None:
    made = simple("lstm", edge("h", "h", 3))
    assert [str(edge) for edge in made.carries(("h", 0))] == ["h -[1]-> h"]
    chosen = Architecture(
        [node("x", "input"), node("h", cell="gru")], [edge("x", "h"), edge("h", "h", 1), edge("h", "h", 3, carry=True)]
    )
    assert [str(edge) for edge in chosen.carries(("h", 0))] == ["h -[3]-> h"]


def test_layer_that_runs_backward_carries_from_the_nearest_future() -> None:
    graph = CyclicGraph(
        [("x", "input"), ("f",), ("b",), ("y", "output")],
        [
            *(("x", "f", 0), ("f", "f", 1), ("f", "f", 2), ("f", "y", 0)),
            *(("x", "b", 0), ("b", "b", -1), ("b", "b", -2), ("b", "y", 0)),
        ],
    )
    made = architecture(graph, "lstm", input_size=3, output_size=2, units=4)
    assert {made.by_key[name, 0].cell for name in "fb"} == {"lstm"}
    assert [str(edge) for name in "fb" for edge in made.carries((name, 0))] == ["f -[1]-> f", "b -[-1]-> b"]


def test_cell_without_memory_carries_nothing() -> None:
    assert simple("tanh").carries(("h", 0)) == ()


def test_lstm_edges_takes_several_carry_edges_and_a_gate_for_each() -> None:
    made = simple("lstm-edges", edge("h", "h", 3, carry=True))
    assert made.gates(("h", 0)) == ("g", "i", "o", "f0")
    both = Architecture(
        [node("x", "input", 3), node("h", cell="lstm-edges")],
        [edge("x", "h"), edge("h", "h", 1, carry=True), edge("h", "h", 3, carry=True)],
    )
    assert both.gates(("h", 0)) == ("g", "i", "o", "f0", "f1")


def test_gru_of_cudnn_keeps_the_products_of_old_state_and_input_apart() -> None:
    made = simple("gru-cudnn")
    gates = {str(edge): made.edge_gates(edge) for edge in made.edges}
    assert gates["x -[0]-> h"] == ("c", "r", "u")
    assert gates["h -[1]-> h"] == ("r", "u", "n")


def test_ports_of_a_plus_rnn_follow_the_delay() -> None:
    ports = {str(edge): edge.port for edge in plus_rnn(edge("b", "a", 2)).edges}
    assert ports == {
        "x -[0]-> a": None,
        "a -[1]-> a": "h",
        "b -[2]-> a": "h",
        "a -[0]-> b": "y",
        "b -[1]-> b": "h",
        "b -[0]-> y": "y",
    }


def test_edges_that_read_two_ports_have_matrices_of_their_own() -> None:
    made = plus_rnn(edge("b", "y", port="h"))
    assert [spec.name for spec in made.parameters if spec.category == "read-out weights"] == ["b->y[0] h", "b->y[0]"]


def test_initial_state_is_of_the_components_that_are_read() -> None:
    """Of an LSTM both; of a +RNN not y, which goes up and not on; none at all where it starts from zero."""
    names = [spec.name for spec in simple("lstm").parameters if spec.category == "initial state"]
    assert names == ["h initial h", "h initial c"]
    assert plus_rnn().initial_components(("a", 0)) == ("h",)
    assert plus_rnn(edge("b", "a", 2, port="y")).initial_components(("b", 0)) == ("h", "y")
    assert simple("lstm", initial="zero").num_parameters(["initial state"]) == 0


def test_output_that_is_fed_back_has_an_initial_value() -> None:
    fed_back = simple("tanh", edge("y", "h", 1))
    assert [spec.name for spec in fed_back.parameters if spec.category == "initial state"] == [
        "h initial h",
        "y initial",
    ]


def test_counts_add_up_and_unknown_ones_are_refused() -> None:
    made = simple("lstm")
    assert made.num_parameters(["weights", "biases"]) == 4 * 4 * (3 + 4 + 1)
    assert made.num_parameters([]) == 0
    with pytest.raises(ArchitectureError, match=r"count knows weights, .*; got readout"):
        made.num_parameters(["readout"])


@given(architectures())
def test_every_array_belongs_to_the_graph_and_counts_once(made: Architecture) -> None:
    assert len({spec.name for spec in made.parameters}) == len(made.parameters)
    assert made.num_parameters() == sum(spec.size for spec in made.parameters)
    assert made == Architecture(reversed(made.nodes), reversed(made.edges), made.period)
    assert hash(made) == hash(Architecture(made.nodes, made.edges, made.period))
    for hidden in (node for node in made.nodes if node.kind == "hidden"):
        assert bool(made.carries(hidden.key)) == made.cell(hidden.key).needs_carry


X, Y = node("x", "input", 3), node("y", "output", 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: node("h", units=0, cell="tanh"), "node 'h': units must be an integer of at least 1, got 0"),
        (lambda: node("h", units=True, cell="tanh"), "node 'h': units must be an integer of at least 1, got True"),
        (lambda: node("h"), "node 'h' needs a cell; got cell None"),
        (lambda: node("x", "input", cell="tanh"), "node 'x' is an input and has no cell; got cell 'tanh'"),
        (lambda: node("h", cell=["tanh"]), "node 'h': cell is a name, got ['tanh']"),
        (lambda: node("h", cell="tanh", bias=""), "node 'h': bias is a name, got ''"),
        (lambda: node("h", cell="tanh", initial="one"), "node 'h': initial is one of learned, zero, got 'one'"),
        (lambda: node("h", cell="tanh", nonlinearity="sin"), "node 'h': nonlinearity is one of tanh, relu, got 'sin'"),
        (lambda: node("h", cell="tanh", encoding="tokens"), "node 'h' is not an input, so it takes no tokens"),
        (lambda: EdgeSpec(source="h", target=("h", 0), delay=1), "source and target are (name, phase)"),
        (
            lambda: edge("h", "h", 1, transform="skip"),
            "edge h -[1]-> h: transform is one of dense, identity, got 'skip'",
        ),
        (lambda: edge("h", "h", 1, carry=1), "edge h -[1]-> h: carry is true or false, got 1"),
        (lambda: edge("h", "h", 1, weights=3), "edge h -[1]-> h: weights is a name, got 3"),
        (lambda: edge("h", "h", 1, transform="identity", weights="W"), "edge h -[1]-> h is an identity"),
        (lambda: simple("lst"), "no cell is named 'lst'"),
        (lambda: simple("tanh", edge("x", "h", 1, port="h")), "reads port 'h', but 'x' is an input"),
        (lambda: simple("lstm", edge("h", "y", 1, port="c")), "edge h -[1]-> y reads port 'c'; cell 'lstm' has h"),
        (lambda: simple("tanh", edge("y", "x", 1)), "input x has an incoming edge: y -[1]-> x"),
        (lambda: simple("tanh", edge("h", "h", 2, role="depth")), "role depth, but cell 'tanh' has no depth input"),
        (lambda: simple("tanh", edge("h", "h", 2, carry=True)), "carries state, but cell 'tanh' uses none"),
        (lambda: simple("tanh", edge("h", "y", 1, carry=True)), "carries state, but 'y' is an output and keeps none"),
        (lambda: simple("gru", edge("h", "h", 2, carry=True), edge("h", "h", 3, carry=True)), "takes one carry edge"),
        (lambda: simple("lstm", edge("h", "h", 1)), "edge h -[1]-> h is listed twice with transform dense"),
        (lambda: simple("tanh", edge("x", "h", 2, transform="identity")), "equally wide; got 3 and 4"),
        (lambda: simple("tanh", edge("h", "h", 2, weights="x->h[0]")), "'x->h[0]' ties arrays that differ"),
        (lambda: simple("tanh", edge("h", "z", 1)), "names a node ('z', 0) that is not in the list"),
        (
            lambda: plus_rnn(edge("x", "b")),
            "node b (intersection) needs one depth input: it has 2 dense edges of delay 0",
        ),
        (lambda: plus_rnn(edge("x", "b", role="depth"), role="depth"), "node b has 2 depth inputs, it must have one"),
        (lambda: simple("lstm").cell(("x", 0)), "x is not a hidden node, so it has no cell"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(make, message: str) -> None:
    with pytest.raises(RnnlabError, match=re.escape(message)):
        make()


def test_gated_node_without_old_state_is_refused() -> None:
    with pytest.raises(ArchitectureError, match=r"node h \(gru\) has no carry edge: a gated cell needs its old state"):
        Architecture([X, node("z", cell="tanh"), node("h", cell="gru")], [edge("z", "h"), edge("h", "z", 1)])


def test_carried_state_must_exist_where_it_comes_from() -> None:
    nodes = [node("h", cell="lstm"), node("g", cell="gru")]
    with pytest.raises(ArchitectureError, match=r"edge g -\[1\]-> h cannot carry c: its source has no such state"):
        Architecture(nodes, [edge("g", "h", 1, carry=True), edge("h", "g", 1), edge("g", "g", 1)])


def test_carried_state_must_be_as_wide_as_the_node() -> None:
    nodes = [node("h", cell="gru"), node("g", cell="gru", units=5)]
    with pytest.raises(ArchitectureError, match=r"edge g -\[1\]-> h carries state, .* equally wide; got 5 and 4"):
        Architecture(nodes, [edge("g", "h", 1, carry=True), edge("h", "g", 1), edge("g", "g", 1)])


@pytest.mark.parametrize("other", [node("x", "input", 4, phase=1), node("x", cell="tanh", phase=1, units=3)])
def test_input_is_the_same_in_all_phases(other: NodeSpec) -> None:
    hidden = node("h", cell="tanh")
    with pytest.raises(ArchitectureError, match=r"'x' must be one kind and equally wide .* x@0 is input with 3 units"):
        Architecture([X, other, hidden], [edge("x@0", "h@0"), edge("h@0", "h@0", 2)], period=2)
