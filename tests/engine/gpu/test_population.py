"""The gpu path computes what the reference does: outputs, final state and every gradient.

On a machine with a GPU the kernels run there; without one Triton's interpreter runs them where it is installed and
asked for (TRITON_INTERPRET=1), and otherwise the tests are skipped.
"""

import os
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rnnlab import CATALOGUE, CELLS, Architecture, ArchitectureError, Cell, architecture, relu, sigmoid, tanh
from tests.engine.gpu.checks import TOLERANCES, DifferenceError, compare
from tests.engine.strategies import architectures

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if IS_INTERPRETED else "cuda"
pytestmark = [
    pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed"),
    pytest.mark.skipif(
        not IS_INTERPRETED and not torch.cuda.is_available(),
        reason="no GPU; TRITON_INTERPRET=1 runs the kernels in Triton's interpreter",
    ),
    pytest.mark.skipif(
        IS_INTERPRETED and tuple(map(int, np.__version__.split(".")[:2])) >= (2, 4),
        reason="Triton's interpreter takes arrays of one number for numbers, which numpy 2.4 refuses",
    ),
    pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning"),  # the same, before 2.4
]

MIXED = ("tanh", "relu", "tanh")
SIZES = {"input_size": 3, "output_size": 2}
SMOOTH = ("sh:tanh", "sh:lstm", "td:gru", "sh:gru", "sh:mgu", "skip-3:ugrnn", "st:gru-cudnn", "mongia-d:lstm")
CONTINUED = ("td:lstm", "skip-3:gru", "mongia-d:lstm", "special-4:ugrnn", "section45-2-3:lstm-edges", "sh:tanh")
TURNS = (1, 2, 5) if IS_INTERPRETED else (1, 63, 4, 65)


def catalogue() -> dict[str, Architecture]:
    """Every network of the catalogue with every cell that it takes, those that are the same once."""
    found: dict[Architecture, str] = {}
    for name in (name for family in CATALOGUE for name in family.examples):
        if name == "fig1a":  # its outputs take turns, which a model refuses
            continue
        for cell in CELLS:
            try:
                made = architecture(name, cell, **SIZES, units=5)
            except ArchitectureError:  # a cell that this graph cannot hold; tests of the catalogue say which
                continue
            found.setdefault(made, f"{name}:{cell}")
    return {label: made for made, label in found.items()}


NETWORKS = catalogue()


@pytest.mark.parametrize(("number", "label"), list(enumerate(NETWORKS)), ids=NETWORKS)
def test_catalogue_agrees(number: int, label: str) -> None:
    """T in turn, every second pair with a population whose members differ in their nonlinearity."""
    is_population = number % 4 < 2
    compare(
        NETWORKS[label],
        device=DEVICE,
        num_steps=TURNS[number % len(TURNS)],
        population=3 if is_population else None,
        nonlinearity=MIXED if is_population else None,
        batch_size=3 if number % 5 else 1,
    )


@pytest.mark.parametrize("units", [1, 16, 17, 70])
@pytest.mark.parametrize("cell", CELLS)
def test_odd_widths_and_batches_agree(cell: str, units: int) -> None:
    network = architecture("st", cell, **SIZES, units=units)
    compare(network, device=DEVICE, num_steps=3, population=2, batch_size=19 if units == 17 else 3)


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", SMOOTH)
def test_precisions_agree(name: str, precision: str) -> None:
    if IS_INTERPRETED and precision == "bf16":
        pytest.skip("Triton's interpreter multiplies the bits of bf16 numbers")
    """Without relu, whose slope jumps where rounding errors reach; one width on the chip, one streamed."""
    for units in (20,) if IS_INTERPRETED else (20, 150):
        network = architecture(name, **SIZES, units=units)
        compare(network, device=DEVICE, num_steps=6, population=3, batch_size=19, precisions=[precision])


@pytest.mark.parametrize("name", CONTINUED)
@pytest.mark.parametrize(("steps_before", "num_steps"), [(1, 5), (2, 1), (7, 5)])
def test_continued_sequences_agree(name: str, steps_before: int, num_steps: int) -> None:
    network = architecture(name, **SIZES, units=3)
    compare(network, device=DEVICE, num_steps=num_steps, steps_before=steps_before, population=3)


@pytest.mark.parametrize("name", ["sh:lstm", "deep-input:tanh", "mongia-c:gru", "stack-2:intersection"])
def test_tokens_agree(name: str) -> None:
    network = architecture(name, input_size=11, output_size=2, units=3, encoding="tokens")
    compare(network, device=DEVICE, num_steps=5, population=3)


@given(architectures(smooth=True), st.integers(1, 7), st.sampled_from([None, 1, 3]), st.integers(0, 999))
def test_random_networks_agree(network: Architecture, num_steps: int, population: int | None, seed: int) -> None:
    compare(network, device=DEVICE, num_steps=num_steps, population=population, seed=seed)


@given(architectures(can_stream=True, smooth=True), st.integers(1, 5), st.integers(1, 5), st.integers(0, 999))
def test_random_networks_continue_alike(network: Architecture, before: int, after: int, seed: int) -> None:
    compare(network, device=DEVICE, num_steps=after, steps_before=before, seed=seed)


def test_a_cell_of_ones_own_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    def update(gates, carried):
        keep = sigmoid(gates.k + 2 * carried.m)
        memory = keep * carried.m - relu(gates.v) * (1 - keep) + 0.5
        return {"h": tanh(memory * gates.k) + gates.v, "m": memory}

    cell = Cell("own", gates=("k", "v", "unused"), update=update, state=("h", "m"), carries=("m",), gate_bias=("k",))
    monkeypatch.setitem(CELLS, "own", cell)
    for name in ("sh", "td", "mongia-d"):
        compare(architecture(name, "own", **SIZES, units=3), device=DEVICE, num_steps=6, population=3)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("sh:lstm", "sigmoid(", "tanh("),  # a gate with another nonlinearity
        ("sh:tanh", "time + 0", "time + 1"),  # a state of another time
        ("td:gru", " + i0", " - i0"),  # a sign
    ],
)
def test_a_broken_kernel_fails(monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str) -> None:
    import rnnlab.engine.gpu.program as program
    from rnnlab.engine import model

    compiled = program.compiled
    changed = []

    def broken(source: str):
        body = source.index("def kernel")
        changed.append(old in source[body:])
        return compiled(source[:body] + source[body:].replace(old, new))

    model._gpu_program.cache_clear()
    monkeypatch.setattr(program, "compiled", broken)
    network = architecture(name, **SIZES, units=3)
    for precision in ("float32", "tf32") if IS_INTERPRETED else TOLERANCES:
        with pytest.raises(DifferenceError):
            compare(network, device=DEVICE, num_steps=4, precisions=[precision])
    assert any(changed)
    model._gpu_program.cache_clear()


def test_a_shared_input_is_held_once_and_agrees() -> None:
    """One x for all members, its gradient the sum over them."""
    from rnnlab.engine.model import Model

    network = architecture("sh:gru", **SIZES, units=4)
    found = []
    x = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(1))
    for path, device in (("reference", "cpu"), ("gpu", DEVICE)):
        model = Model(network, generator=torch.Generator().manual_seed(0), population=3, path=path).to(device)
        given = x.to(device, copy=True).requires_grad_()
        y, _ = model(given)
        y.square().sum().backward()
        assert given.grad is not None
        found.append((y.detach().cpu(), given.grad.cpu()))
    for wanted, got in zip(*found, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
