"""The cells are the papers' equations (C12-C20), written out a second time here."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from rnnlab import CELLS, ArchitectureError, Cell, architecture, named_cell, nonlinearity, register_cell, sigmoid, tanh
from rnnlab.architecture.expressions import evaluate

H, C, X = 0.7, -0.4, 0.9  # old state, old memory, depth input


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def rectifier(x: float) -> float:
    return max(x, 0.0)


FUNCTIONS = {"sigmoid": logistic, "tanh": math.tanh, "relu": rectifier}


def new_state(name: str, gates: dict[str, float], s=math.tanh, **carried: float) -> dict[str, float]:
    """The state after one step, `s` being the node's nonlinearity."""
    cell = CELLS[name]
    num_carries = sum(key.startswith("f") and key[1:].isdecimal() for key in gates) or 1
    inputs = {f"gate {gate}": value for gate, value in gates.items()}
    inputs |= {f"carried {key[0]} {key[1:] or 0}": value for key, value in carried.items()}
    inputs["depth"] = X
    return evaluate(cell.formulas(num_carries).new_state, inputs, FUNCTIONS | {"nonlinearity": s})


@pytest.mark.parametrize("name", ["tanh", "relu", "irnn"])
def test_rnn_applies_its_nonlinearity(name: str) -> None:
    """C12, C13: h = s(a)."""
    assert new_state(name, {"c": -0.3}, s=rectifier) == {"h": 0.0}
    assert new_state(name, {"c": -0.3}) == {"h": math.tanh(-0.3)}


@pytest.mark.parametrize(("name", "expected"), [("tanh", "tanh"), ("relu", "relu"), ("irnn", "relu"), ("lstm", "tanh")])
def test_nonlinearity_is_the_cells_own_by_default(name: str, expected: str) -> None:
    """C13: an IRNN has ReLU."""
    assert CELLS[name].nonlinearity == expected


def test_ugrnn_is_c14() -> None:
    g = logistic(0.2)
    assert new_state("ugrnn", {"c": -0.3, "g": 0.2}, h=H)["h"] == pytest.approx(g * H + (1 - g) * math.tanh(-0.3))


def test_gru_is_c15() -> None:
    u = logistic(0.2)
    found = new_state("gru", {"r": 1.5, "u": 0.2, "c": -0.3}, h=H)
    assert found["h"] == pytest.approx(u * H + (1 - u) * math.tanh(-0.3))
    reset = evaluate({"r": CELLS["gru"].formulas(1).reset}, {"gate r": 1.5, "carried h 0": H}, FUNCTIONS)["r"]
    assert reset == pytest.approx(logistic(1.5) * H)
    assert CELLS["gru"].reset_gates == ("c",)


def test_gru_of_cudnn_resets_after_the_product() -> None:
    u, r = logistic(0.2), logistic(1.5)
    found = new_state("gru-cudnn", {"r": 1.5, "u": 0.2, "c": -0.3, "n": 0.8}, h=H)
    assert found["h"] == pytest.approx(u * H + (1 - u) * math.tanh(-0.3 + r * 0.8))


def test_lstm_is_c16_with_a_fixed_tanh_on_the_way_out() -> None:
    gates = {"i": 0.1, "f": 0.2, "g": 0.3, "o": 0.4}
    memory = logistic(0.2) * C + logistic(0.1) * rectifier(0.3)
    found = new_state("lstm", gates, s=rectifier, c=C)
    assert found["c"] == pytest.approx(memory)
    assert found["h"] == pytest.approx(logistic(0.4) * math.tanh(memory))


def test_lstm_edges_has_a_forget_gate_for_each_memory() -> None:
    """Requirements 2.1, B.2: c = f_u c + f_v c' + i g."""
    gates = {"i": 0.1, "g": 0.3, "o": 0.4, "f0": 0.2, "f1": -0.6}
    memory = logistic(0.2) * C + logistic(-0.6) * 0.5 + logistic(0.1) * math.tanh(0.3)
    found = new_state("lstm-edges", gates, c0=C, c1=0.5)
    assert found["c"] == pytest.approx(memory)
    assert found["h"] == pytest.approx(logistic(0.4) * math.tanh(memory))


def test_lstm_edges_with_one_edge_is_the_lstm() -> None:
    gates = {"i": 0.1, "g": 0.3, "o": 0.4}
    one_edge = new_state("lstm-edges", gates | {"f0": 0.2}, c0=C)
    assert one_edge == pytest.approx(new_state("lstm", gates | {"f": 0.2}, c=C))


def test_intersection_is_c17_with_relu_up_and_tanh_on() -> None:
    gates = {"y": 0.3, "h": -0.5, "gy": 0.2, "gh": -0.1}
    found = new_state("intersection", gates, s=rectifier, h=H)
    up, on = logistic(0.2), logistic(-0.1)
    assert found["y"] == pytest.approx(up * X + (1 - up) * rectifier(0.3))
    assert found["h"] == pytest.approx(on * H + (1 - on) * math.tanh(-0.5))


def test_mgu_resets_and_updates_with_one_gate() -> None:
    """Zhou et al. 2016: h = (1 - f) h + f tanh(U (f h) + W x)."""
    f = logistic(0.2)
    assert new_state("mgu", {"f": 0.2, "c": -0.3}, h=H)["h"] == pytest.approx((1 - f) * H + f * math.tanh(-0.3))
    reset = evaluate({"r": CELLS["mgu"].formulas(1).reset}, {"gate f": 0.2, "carried h 0": H}, FUNCTIONS)["r"]
    assert reset == pytest.approx(f * H)


def test_extra_gate_bias_is_where_the_paper_has_it() -> None:
    """C20: one scalar, two of a +RNN, none of a cell without gates."""
    assert {name: CELLS[name].gate_bias for name in ("tanh", "ugrnn", "gru", "lstm", "intersection")} == {
        "tanh": (),
        "ugrnn": ("g",),
        "gru": ("u",),
        "lstm": ("f",),
        "intersection": ("gy", "gh"),
    }


@pytest.mark.parametrize(
    ("name", "blocks"), [("tanh", 1), ("relu", 1), ("irnn", 1), ("ugrnn", 2), ("gru", 3), ("lstm", 4), ("mgu", 2)]
)
@pytest.mark.parametrize(("size", "units"), [(3, 4), (10, 1)])
def test_layer_has_the_parameters_of_its_equations(name: str, blocks: int, size: int, units: int) -> None:
    """Requirements 2.7: n (n + d + 1) for each block of gates."""
    layer = architecture("sh", name, input_size=size, output_size=2, units=units)
    assert layer.num_parameters(["weights", "biases"]) == blocks * units * (units + size + 1)


@pytest.mark.parametrize("num_layers", [2, 3, 8])
def test_intersection_layer_has_the_parameters_of_its_equations(num_layers: int) -> None:
    """Requirements 2.7: 4 n (2 n + 1) a layer and n (d + 1) for the projection below the first."""
    stack = architecture(f"stack-{num_layers}", "intersection", input_size=5, output_size=2, units=4)
    assert stack.num_parameters(["weights", "biases"]) == num_layers * 4 * 4 * 9
    assert stack.num_parameters(["projection"]) == 4 * 6
    equal = architecture(f"stack-{num_layers}", "intersection", input_size=4, output_size=2, units=4)
    assert equal.num_parameters(["projection"]) == 0


def test_initial_state_is_a_vector_for_each_component() -> None:
    """C11, requirements 2.7: n a layer, 2 n of an LSTM."""
    sizes = {
        name: architecture("st", name, input_size=3, output_size=2, units=4).num_parameters(["initial state"])
        for name in ("tanh", "gru", "lstm", "intersection")
    }
    assert sizes == {"tanh": 8, "gru": 8, "lstm": 16, "intersection": 8}


@pytest.fixture
def free_name() -> Iterator[str]:
    yield "mine"
    CELLS.pop("mine", None)


def test_own_cell_works_where_the_shipped_ones_do(free_name: str) -> None:
    def update(gates, carried):
        keep = sigmoid(gates.g)
        return {"h": keep * carried.h + (1 - keep) * nonlinearity(gates.c)}

    mine = register_cell(Cell(free_name, gates=("c", "g"), update=update, gate_bias=("g",), nonlinearity="relu"))
    assert named_cell("mine") is mine
    assert register_cell(mine) is mine
    deep = architecture("do", "mine", input_size=3, output_size=2, units=4)
    assert {node.name: node.cell for node in deep.nodes} == {"x": None, "h": "mine", "o": "relu", "y": None}
    with pytest.raises(ArchitectureError, match="a cell named 'mine' exists already"):
        register_cell(Cell("mine", gates=("c", "g"), update=update))


def test_same_declaration_may_come_again(free_name: str) -> None:
    """As from a file that is read twice, whose functions are then others."""

    def declared(scale: float = 1.0, **changes):
        def update(gates, carried):
            total = sum((state.h for state in carried), start=scale * gates.c)
            return {"h": tanh(total * carried[0].h)}

        return Cell(**({"name": free_name, "gates": ("c",), "edge_gates": ("f",), "update": update} | changes))

    first = register_cell(declared())
    assert register_cell(declared()) is first
    for other in (declared(2.0), declared(gate_bias=("c",)), declared(edge_gates=("g",)), declared(update=keep_first)):
        with pytest.raises(ArchitectureError, match="a cell named 'mine' exists already"):
            register_cell(other)
    assert named_cell(free_name) is first


def keep_first(gates, carried):
    """The same as with one carry edge, and something else with two."""
    return {"h": tanh((carried[0].h + 1.0 * gates.c) * carried[0].h)}


def keep_going(gates, carried):
    return {"h": carried.h + gates.c}


def test_gates_may_be_named_by_numbers_that_no_edge_takes() -> None:
    def update(gates, carried):
        return {"h": sum(state.h for state in carried) + gates.c}

    odd = Cell("odd", gates=("1", "c"), edge_gates=("f",), update=update)
    assert odd.gate_names(2) == ("1", "c", "f0", "f1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gate_bias": ("f",)}, r"cell 'bad': gate_bias names \['f'\], its gates are \['c'\]"),
        ({"reset_gates": ("c",)}, "cell 'bad': reset and reset_gates go together"),
        (
            {"reset": lambda gates, carried: gates.c, "reset_gates": ("c",), "edge_gates": ("f",)},
            "cell 'bad': reset reads one carry edge, edge_gates allow several",
        ),
        ({"update": lambda gates, carried: {"h": gates.c + "1"}}, "cell 'bad': a formula is made of .*, got '1'"),
        ({"update": lambda gates, carried: {"h": (gates.c,)}}, "cell 'bad': a formula is made of gates, states and"),
        ({"update": lambda gates, carried: {"h": None}}, "cell 'bad': a formula is made of .*, got None"),
        ({"update": lambda gates, carried: {"h": sigmoid(True)}}, "cell 'bad': a formula is made of .*, got True"),
        ({"update": lambda gates, carried: None}, "cell 'bad': update returns the new state as a dict .*, got None"),
        ({"update": lambda gates, carried: gates.c}, "cell 'bad': update returns the new state as a dict"),
        ({"update": lambda gates, carried: {"h": gates.c / 0}}, "cell 'bad': a formula divides by numbers .*, got 0"),
        (
            {"update": lambda gates, carried: {"h": carried.h / gates.c}},
            "cell 'bad': a formula divides by numbers other than 0 only, got gate c",
        ),
        (
            {"reset": lambda gates, carried: sigmoid(gates.c) * carried.h, "reset_gates": ("c",)},
            r"cell 'bad': reset reads \['c'\], gates that wait for its own product",
        ),
        (
            {"reset": lambda gates, carried: carried.h, "reset_gates": ("c",), "other_gates": ("c",)},
            r"cell 'bad': reset_gates names \['c'\], which see no carry edge",
        ),
        (
            {"update": lambda gates, carried: {"h": gates.c * gates.forget}},
            "cell 'bad': there is no gate 'forget'; known: c",
        ),
        (
            {"update": lambda gates, carried: {"h": gates.c + carried.c}},
            "cell 'bad': there is no carried state 'c'; known: h",
        ),
        ({"update": lambda gates, carried: {"h": torch.tanh(gates.c)}}, "cell 'bad': tanh.* formulas are made of"),
        ({"update": lambda gates, carried: {"h": np.tanh(gates.c)}}, "cell 'bad': .*tanh.* rnnlab's sigmoid, tanh,"),
        ({"update": lambda gates, carried: {"h": math.tanh(gates.c)}}, "cell 'bad': .* rnnlab's sigmoid, tanh, relu"),
        ({"update": lambda gates, carried: {"h": gates.c.tanh()}}, "cell 'bad': .*no attribute 'tanh'; formulas are"),
        ({"update": lambda gates, carried: {"h": gates.c**2}}, "cell 'bad': unsupported operand .*; formulas are made"),
        (
            {"update": lambda gates, carried: {"h": 1 / gates.c}},
            "cell 'bad': unsupported operand .* division by numbers",
        ),
        ({"update": lambda gates, carried: {"h": max(gates.c, 0)}}, "cell 'bad': '>' not supported .*; formulas are"),
        (
            {"update": lambda gates, carried: {"h": gates.c or carried.h}},
            "cell 'bad': gate c has no value yet, so it is neither true nor false; formulas are made of",
        ),
        ({"update": lambda gates: {"h": gates.c}}, "cell 'bad': .* takes 1 positional argument but 2 were given; form"),
        ({"ports": ("y",)}, r"cell 'bad': ports names \['y'\], its state is \['h'\]"),
        ({"state": ("h", "c")}, r"cell 'bad': update returns \['h'\], its state is \['h', 'c'\]"),
        ({"nonlinearity": "sin"}, "cell 'bad': nonlinearity is one of tanh, relu"),
        ({"gates": ("c", "c")}, r"cell 'bad': names of gates must differ, but \['c'\] would be given twice"),
        ({"gates": ("c", "f0"), "edge_gates": ("f",)}, r"must differ, but \['f0'\] would be given twice"),
        ({"gates": "c"}, r"cell 'bad': gates is a tuple of names, as \(\"a\", \"b\"\), got 'c'"),
        ({"gates": ["c"]}, r"gates is a tuple of names, as .*, got \['c'\]"),
        ({"gates": ()}, "cell 'bad': it has no gates"),
        ({"name": "a:b"}, "a cell's name is not empty and has no colon or slash, got 'a:b'"),
    ],
)
def test_wrong_declarations_are_refused(options, message: str) -> None:
    with pytest.raises(ArchitectureError, match=message):
        Cell(**({"name": "bad", "gates": ("c",), "update": keep_going} | options))


def test_unknown_cell_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ArchitectureError, match="no cell is named 'x'; there are gru, gru-cudnn"):
        named_cell("x")
