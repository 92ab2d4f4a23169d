"""How numbers start: what defines each way to draw them, and where the gate bias lands."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from rnnlab import CELLS, Architecture, ArchitectureError, Expression, architecture
from rnnlab.engine.initialisation import (
    MATRICES,
    Initialisation,
    glorot,
    identity,
    initial_arrays,
    normal,
    orthogonal,
    sparse,
    uniform,
)
from rnnlab.engine.model import Model

SIZES = {"input_size": 3, "output_size": 2, "units": 4}
SHAPES = [(5, 5), (7, 3), (3, 7)]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def arrays(name: str = "sh:lstm", *, seed: int = 0, members: int = 1, **options) -> dict[str, Tensor]:
    network = name if isinstance(name, Architecture) else architecture(name, **SIZES)
    return initial_arrays(network, [Initialisation(**options)] * members, seeded(seed))


def gate(network: Architecture, found: dict[str, Tensor], name: str, gate: str) -> Tensor:
    """The columns of a gate in an array of the first member."""
    spec = next(spec for spec in network.parameters if spec.name == name)
    return found[name][0].chunk(len(spec.blocks), dim=-1)[spec.blocks.index(gate)]


# ------------------------------------------------------------------------------------------------------------ matrices


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", MATRICES)
def test_matrices_have_their_shape_and_repeat_with_their_seed(kind: str, shape: tuple[int, int]) -> None:
    first, again = (MATRICES[kind](*shape, seeded()) for _ in range(2))
    assert first.shape == shape
    assert first.dtype == torch.float64
    assert first.isfinite().all()
    assert torch.equal(first, again)
    assert kind == "identity" or not torch.equal(first, MATRICES[kind](*shape, seeded(1)))


@pytest.mark.parametrize("shape", SHAPES)
def test_orthogonal_matrix_has_orthonormal_rows_or_columns(shape: tuple[int, int]) -> None:
    matrix = orthogonal(*shape, seeded())
    product = matrix @ matrix.T if shape[0] <= shape[1] else matrix.T @ matrix
    torch.testing.assert_close(product, torch.eye(min(shape), dtype=torch.float64))


def test_orthogonal_matrices_favour_no_direction() -> None:
    """Without a correction of signs, QR would make the first entries negative, always."""
    corners = torch.stack([orthogonal(3, 3, seeded(seed))[0, 0] for seed in range(400)])
    assert 0.4 < (corners > 0).double().mean() < 0.6
    assert abs(corners.mean()) < 0.1


@pytest.mark.parametrize("shape", [(100, 100), (30, 50), (50, 30), (5, 8)])
def test_sparse_matrix_has_twenty_connections_and_largest_singular_value_one(shape: tuple[int, int]) -> None:
    matrix = sparse(*shape, seeded())
    assert ((matrix != 0).sum(dim=0) == min(20, shape[0])).all()  # into each unit
    torch.testing.assert_close(torch.linalg.svdvals(matrix).max(), torch.tensor(1.0, dtype=torch.float64))


def test_sparse_connections_are_spread_over_all_rows() -> None:
    assert ((sparse(100, 100, seeded()) != 0).sum(dim=1) > 5).all()


def test_glorot_lies_within_its_limit() -> None:
    matrix, limit = glorot(60, 90, seeded()), (6 / 150) ** 0.5
    assert matrix.abs().max() <= limit
    assert matrix.abs().max() > 0.99 * limit
    assert abs(matrix.std() - limit / 3**0.5) < 0.02 * limit


def test_normal_has_the_standard_deviation_of_its_rows() -> None:
    matrix = normal(100, 400, seeded())
    assert abs(matrix.std() - 0.1) < 0.002
    assert abs(matrix.mean()) < 0.002


@pytest.mark.parametrize("limit", [0.01, 1.0])
def test_uniform_lies_within_its_limit(limit: float) -> None:
    matrix = uniform(limit)(50, 50, seeded())
    assert 0.99 * limit < matrix.abs().max() <= limit
    assert abs(matrix.mean()) < 0.05 * limit


def test_identity_has_ones_on_its_diagonal() -> None:
    assert torch.equal(identity(3, 3, seeded()), torch.eye(3, dtype=torch.float64))


# ------------------------------------------------------------------------------------------------------ whole networks


@pytest.mark.parametrize("name", ["sh:lstm", "td:gru-cudnn", "mongia-c:tanh", "stack-2:intersection"])
def test_every_array_of_the_network_is_drawn(name: str) -> None:
    found = arrays(name, members=3)
    assert {key: tuple(value.shape) for key, value in found.items()} == {
        spec.name: (3, *spec.shape) for spec in architecture(name, **SIZES).parameters
    }


def test_square_and_rectangular_matrices_are_drawn_each_their_way() -> None:
    network = architecture("st:lstm", **SIZES)
    found = arrays(network, square="orthogonal", rectangular="uniform", square_scale=2.0, rectangular_scale=0.1)
    for name in ("h1->h1[1]", "h1->h2[0]", "h2->h2[1]"):
        for each in "ifgo":  # gate by gate: the blocks are square, the whole is not
            block = gate(network, found, name, each)
            torch.testing.assert_close(block @ block.T, 4 * torch.eye(4, dtype=torch.float64))
    for name in ("x->h1[0]", "h2->y[0]"):
        assert 0.05 < found[name].abs().max() <= 0.1


def test_square_input_matrices_count_as_rectangular() -> None:
    """C22 is about recurrent matrices: an input as wide as the layer gets no identity."""
    network = architecture("sh:tanh", input_size=4, output_size=4, units=4)
    found = arrays(network, square="identity")
    assert torch.equal(found["h->h[1]"][0], torch.eye(4, dtype=torch.float64))
    assert not torch.equal(found["x->h[0]"][0], torch.eye(4, dtype=torch.float64))
    assert not torch.equal(found["h->y[0]"][0], torch.eye(4, dtype=torch.float64))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("sh:irnn", ["h->h[1]"]),
        ("stack-2:irnn", ["h1->h1[1]", "h2->h2[1]"]),  # not from layer to layer
        ("skip-3:irnn", ["h->h[1]"]),  # two identities would add up
        ("td:irnn", ["h1->h1[1]", "h2->h2[1]"]),
    ],
)
def test_recurrences_of_irnns_start_as_the_identity_unless_told_otherwise(name: str, wanted: list[str]) -> None:
    """C13; every other matrix, and every other cell's, starts from Glorot's distribution."""
    found, relu = arrays(name), arrays(name.replace("irnn", "relu"))
    assert [key for key, matrix in found.items() if torch.equal(matrix[0], torch.eye(*matrix[0].shape))] == wanted
    told = arrays(name, square="glorot")
    assert all(torch.equal(told[key], relu[key]) for key in relu)


def test_a_cell_says_how_its_square_matrices_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CELLS, "own", replace(CELLS["tanh"], name="own", square="orthogonal"))
    matrix = arrays("sh:own")["h->h[1]"][0]
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(4, dtype=torch.float64))
    monkeypatch.setitem(CELLS, "own", replace(CELLS["tanh"], name="own", square="orthodox"))
    with pytest.raises(ArchitectureError, match=r"cell 'own': square is one of glorot, .* got 'orthodox'"):
        arrays("sh:own")


def test_identity_is_not_scaled() -> None:
    """C24."""
    found = arrays("sh:irnn", square="identity", square_scale=0.01)
    assert torch.equal(found["h->h[1]"][0], torch.eye(4, dtype=torch.float64))


def test_initial_states_start_at_zero() -> None:
    found = arrays("td:lstm", bias="normal", bias_scale=1.0)
    assert all(value.abs().max() == 0 for name, value in found.items() if "initial" in name)
    assert sum("initial" in name for name in found) == 4


def test_constant_biases_are_constant() -> None:
    found = arrays("sh:gru", bias_scale=-1.5)
    assert found["h bias"].unique().tolist() == found["y bias"].unique().tolist() == [-1.5]


def test_normal_biases_have_their_scale() -> None:
    network = architecture("sh:lstm", input_size=3, output_size=2, units=500)
    found = initial_arrays(network, [Initialisation(bias="normal", bias_scale=0.5)], seeded())
    assert abs(found["h bias"].std() - 0.5) < 0.03
    assert abs(found["h bias"].mean()) < 0.03


GATE_BIASES = {
    "tanh": (),
    "ugrnn": ("g",),
    "gru": ("u",),
    "gru-cudnn": ("u",),
    "lstm": ("f",),
    "lstm-edges": ("f0",),
    "mgu": (),
}


@pytest.mark.parametrize("cell", GATE_BIASES)
def test_gate_bias_lands_on_its_gate_alone(cell: str) -> None:
    """C20, C27: b^fg on top of the bias, for the gates that keep the old state."""
    network = architecture("sh", cell, **SIZES)
    found = arrays(network, bias_scale=1.0, gate_bias=5.0)
    for each in network.gates(("h", 0)):
        wanted = 6.0 if each in GATE_BIASES[cell] else 1.0
        assert gate(network, found, "h bias", each).tolist() == [wanted] * 4, each
    assert found["y bias"].unique().tolist() == [1.0]


def test_gate_bias_lands_on_every_forget_gate_of_an_edge() -> None:
    network = architecture("td:lstm-edges", **SIZES)
    found = arrays(network, gate_bias=3.0)
    for key in (("h1", 0), ("h2", 0)):
        assert network.gates(key).count("f0") == network.gates(key).count("f1") == 1
        for each in network.gates(key):
            wanted = 3.0 if each in ("f0", "f1") else 0.0
            assert gate(network, found, f"{key[0]} bias", each).unique().tolist() == [wanted]


def test_gate_bias_lands_on_gates_of_edges_whose_names_end_in_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = replace(CELLS["lstm-edges"], name="numbered", edge_gates=("f1",), gate_bias=("f1", "g"), update=_numbered)
    monkeypatch.setitem(CELLS, "numbered", cell)
    network = architecture("sh:numbered", **SIZES)
    found = arrays(network, gate_bias=3.0)
    means = {name: gate(network, found, "h bias", name).mean().item() for name in network.gates(("h", 0))}
    assert means == {"g": 3.0, "i": 0.0, "o": 0.0, "f10": 3.0}


def _numbered(gates: Any, carried: Any) -> dict[str, Expression]:
    return {"h": gates.i * gates.o, "c": gates.g + sum(a * b.c for a, b in zip(gates.f1, carried, strict=True))}


def test_gate_bias_lands_on_both_gates_of_an_intersection() -> None:
    network = architecture("stack-2:intersection", **SIZES)
    found = arrays(network, gate_bias=2.0)
    values = {each: gate(network, found, "h1 bias", each).unique().tolist() for each in network.gates(("h1", 0))}
    assert values == {"y": [0.0], "h": [0.0], "gy": [2.0], "gh": [2.0]}


def test_gate_bias_reaches_tied_biases_once() -> None:
    network = architecture("mongia-c:lstm", **SIZES)
    found = arrays(network, gate_bias=2.0)
    assert gate(network, found, "bh", "f").unique().tolist() == [2.0]


# ------------------------------------------------------------------------------------------------------------- members


def test_generator_decides_everything() -> None:
    first, again, other = (arrays("td:gru", seed=seed, bias="normal", bias_scale=1.0, members=2) for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first if "initial" not in name)


def test_global_seed_decides_nothing() -> None:
    torch.manual_seed(0)
    first = arrays()
    torch.manual_seed(1)
    assert all(torch.equal(value, first[name]) for name, value in arrays().items())


def test_first_members_do_not_depend_on_how_many_follow() -> None:
    """Members are drawn one after another, so a larger population begins with the members of a smaller one."""
    few, many = arrays(members=2, bias="normal"), arrays(members=5, bias="normal")
    assert all(torch.equal(value, many[name][:2]) for name, value in few.items())


def test_members_differ_as_their_initialisations_do() -> None:
    network = architecture("sh:irnn", **SIZES)
    members = [Initialisation(square="identity"), Initialisation(square="orthogonal", bias_scale=1.0)]
    found = initial_arrays(network, members, seeded())
    assert torch.equal(found["h->h[1]"][0], torch.eye(4, dtype=torch.float64))
    torch.testing.assert_close(found["h->h[1]"][1] @ found["h->h[1]"][1].T, torch.eye(4, dtype=torch.float64))
    assert found["h bias"].tolist() == [[0.0] * 4, [1.0] * 4]


def test_model_holds_what_was_drawn() -> None:
    network, members = architecture("sh:gru", **SIZES), [Initialisation(gate_bias=float(k)) for k in range(3)]
    model = Model(network, generator=seeded(), population=3, initialisation=members)
    wanted = initial_arrays(network, members, seeded())
    for name, value in model.named_parameters():
        assert torch.equal(value, wanted[name.removeprefix("arrays.")].float())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"square": "diagonal"}, "square is one of glorot, normal, orthogonal"),
        ({"rectangular": "none"}, "rectangular is one of"),
        ({"bias": "zero"}, "bias is constant or normal, got 'zero'"),
    ],
)
def test_unknown_initialisations_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ArchitectureError, match=message):
        Initialisation(**options)
