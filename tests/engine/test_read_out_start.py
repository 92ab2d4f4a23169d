"""Read-outs may start otherwise than the rest, and +RNN's two gates with two biases (C20, C23-C26)."""

import pytest
import torch

from rnnlab import ArchitectureError, Hyperparameters, Initialisation, TrainingError, architecture
from rnnlab.engine.initialisation import initial_arrays

STACK = architecture("stack-2:intersection", input_size=4, output_size=2, units=4)


def start(initialisation: Initialisation) -> dict[str, torch.Tensor]:
    """The first numbers, by name."""
    arrays = initial_arrays(STACK, [initialisation], torch.Generator().manual_seed(0))
    return {name: array[0] for name, array in arrays.items()}


def names(category: str) -> set[str]:
    return {spec.name for spec in STACK.parameters if spec.category == category}


def changed(one: Initialisation, other: Initialisation) -> set[str]:
    ours, theirs = start(one), start(other)
    return {name for name, array in ours.items() if not torch.equal(array, theirs[name])}


def test_read_out_matrices_have_a_scale_of_their_own() -> None:
    plain, scaled = Initialisation(rectangular_scale=0.5), Initialisation(rectangular_scale=0.5, read_out_scale=2.0)
    assert changed(plain, scaled) == names("read-out weights")
    for name in names("read-out weights"):
        assert torch.allclose(start(scaled)[name], 4 * start(plain)[name])


def test_read_out_biases_have_a_distribution_and_a_scale_of_their_own() -> None:
    plain = Initialisation(bias="constant", bias_scale=0.5)
    scaled = Initialisation(bias="constant", bias_scale=0.5, read_out_bias_scale=-1.5)
    assert changed(plain, scaled) == names("read-out biases")
    assert all((start(scaled)[name] == -1.5).all() for name in names("read-out biases"))
    drawn = start(Initialisation(bias="constant", bias_scale=0.5, read_out_bias="normal"))
    for name in names("read-out biases"):
        assert len(set(drawn[name].tolist())) == 2
    zero = start(Initialisation(bias_scale=0.5, read_out_bias_scale=0.0))
    assert all((zero[name] == 0).all() for name in names("read-out biases"))


def test_gates_through_depth_and_time_have_biases_of_their_own() -> None:
    """C20: b^{fg,y} goes to gy alone, b^{fg,h} to gh; without the first both get the second."""
    both = start(Initialisation(gate_bias=2.0))
    apart = start(Initialisation(gate_bias=2.0, depth_gate_bias=5.0))
    for spec in STACK.parameters:
        if spec.category == "biases":
            blocks = dict(zip(spec.blocks, apart[spec.name].chunk(len(spec.blocks)), strict=True))
            assert {gate: set(block.tolist()) for gate, block in blocks.items()} == {
                "y": {0.0},
                "h": {0.0},
                "gy": {5.0},
                "gh": {2.0},
            }
            blocks = dict(zip(spec.blocks, both[spec.name].chunk(len(spec.blocks)), strict=True))
            assert set(blocks["gy"].tolist()) == set(blocks["gh"].tolist()) == {2.0}


def test_forget_gates_of_further_edges_have_a_bias_of_their_own() -> None:
    """With 1 and -1 both together let through as much as came in."""
    network = architecture("skip-3:lstm-edges", input_size=2, output_size=1, units=3)
    for edge_gate_bias, wanted in ((None, 1.0), (-1.0, -1.0)):
        member = Initialisation(gate_bias=1.0, edge_gate_bias=edge_gate_bias)
        (bias,) = initial_arrays(network, [member], torch.Generator().manual_seed(0))["h bias"]
        gates = dict(zip(network.gates(("h", 0)), bias.chunk(5), strict=True))
        assert {gate: set(block.tolist()) for gate, block in gates.items()} == {
            **{gate: {0.0} for gate in "gio"},
            "f0": {1.0},
            "f1": {wanted},
        }
        carried = sum(torch.sigmoid(gates[gate]) for gate in ("f0", "f1"))
    assert carried.tolist() == pytest.approx([1.0] * 3)


def test_bias_through_depth_is_for_cells_that_have_such_a_gate() -> None:
    lstm = architecture("lstm", input_size=2, output_size=1, units=3)
    arrays = [
        initial_arrays(lstm, [Initialisation(depth_gate_bias=bias)], torch.Generator().manual_seed(0))
        for bias in (None, 5.0)
    ]
    assert all(torch.equal(arrays[0][name], arrays[1][name]) for name in arrays[0])


def test_values_that_cannot_be_are_refused() -> None:
    with pytest.raises(ArchitectureError, match="read_out_bias is constant or normal, got 'uniform'"):
        Initialisation(read_out_bias="uniform")
    for name in ("read_out_scale", "read_out_bias_scale", "depth_gate_bias", "edge_gate_bias"):
        with pytest.raises(TrainingError, match=f"{name} must be a finite number, got inf"):
            Hyperparameters().changed(**{name: float("inf")})
        assert getattr(Hyperparameters().changed(**{name: 0.5}).initialisation, name) == 0.5
