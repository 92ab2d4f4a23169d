"""The gpu path computes what the reference does: outputs, final state and every gradient.

On a machine with a GPU the kernels run there; without one Triton's interpreter runs them where it is installed and
asked for (TRITON_INTERPRET=1, as `make test` does), and otherwise the tests are skipped. The interpreter runs the
general kernels only: the others are in CUDA C++ (test_cuda_texts compiles, test_emulated runs them).
"""

from importlib.util import find_spec

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnlab import CELLS, Architecture, architecture
from rnnlab.engine.gpu.backward import FEW_TOKENS
from rnnlab.engine.gpu.compiled import compiled
from rnnlab.engine.gpu.formulas import EXACT_FUNCTIONS
from rnnlab.engine.model import Model
from tests.engine.comparison import DifferenceError
from tests.engine.gpu.checks import (
    DEVICE,
    IS_INTERPRETED,
    NOT_FINITE,
    TOLERANCES,
    BreakKernels,
    check_backward_in_autocast,
    check_not_finite,
    compare,
)
from tests.engine.networks import both_directions, by_graph, catalogue, numbers_in_turn, own_cell, without_relu
from tests.engine.strategies import architectures

pytestmark = [
    pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed"),
    pytest.mark.skipif(
        not IS_INTERPRETED and not torch.cuda.is_available(),
        reason="no GPU; TRITON_INTERPRET=1 runs the kernels in Triton's interpreter",
    ),
    # Triton 3.6's interpreter takes arrays of one number for numbers
    pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning"),
]

SIZES = {"input_size": 3, "output_size": 2}
SMOOTH = ("sh:tanh", "sh:lstm", "td:gru", "sh:gru", "sh:mgu", "skip-3:ugrnn", "st:gru-cudnn", "mongia-d:lstm")
CONTINUED = ("td:lstm", "skip-3:gru", "mongia-d:lstm", "special-4:ugrnn", "section45-2-3:lstm-edges", "sh:tanh")
NETWORKS = catalogue(units=5)
IN_TURN = [labels[number % len(labels)] for number, labels in enumerate(by_graph(NETWORKS).values())]
# the interpreter is slow: every graph with one cell only, short sequences, few random networks
CHOSEN = IN_TURN if IS_INTERPRETED else list(NETWORKS)
TURNS = (1, 2, 5) if IS_INTERPRETED else (1, 63, 4, 65)
some_examples = settings(max_examples=15) if IS_INTERPRETED else settings()


def test_one_cell_for_each_graph_leaves_none_out() -> None:
    assert {label.partition(":")[2] for label in IN_TURN} == set(CELLS)


@pytest.mark.parametrize(("number", "label"), list(enumerate(CHOSEN)), ids=CHOSEN)
def test_catalogue_agrees(number: int, label: str) -> None:
    compare(NETWORKS[label], **numbers_in_turn(number, TURNS))


@pytest.mark.parametrize(("number", "graph"), list(enumerate(by_graph(NETWORKS))), ids=by_graph(NETWORKS))
def test_every_graph_agrees_in_bf16(number: int, graph: str) -> None:
    """What is kept as bf16 and what as float32 differs by node."""
    smooth = without_relu(by_graph(NETWORKS)[graph])
    compare(NETWORKS[smooth[number % len(smooth)]], num_steps=4, population=3, precisions=["bf16"])


@pytest.mark.parametrize("units", [1, 16, 17, 70])
@pytest.mark.parametrize("cell", CELLS)
def test_odd_widths_and_batches_agree(cell: str, units: int) -> None:
    network = architecture("st", cell, **SIZES, units=units)
    compare(network, num_steps=3, population=2, batch_size=19 if units == 17 else 3)


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", SMOOTH)
def test_precisions_agree(name: str, precision: str) -> None:
    """Without relu, whose slope jumps where rounding errors reach; a narrow and a wide network."""
    for units in (20,) if IS_INTERPRETED else (20, 150):
        network = architecture(name, **SIZES, units=units)
        compare(network, num_steps=6, population=3, batch_size=19, precisions=[precision])


@pytest.mark.parametrize("name", CONTINUED)
@pytest.mark.parametrize(("steps_before", "num_steps"), [(1, 5), (2, 1), (7, 5)])
def test_continued_sequences_agree(name: str, steps_before: int, num_steps: int) -> None:
    network = architecture(name, **SIZES, units=3)
    compare(network, num_steps=num_steps, steps_before=steps_before, population=3)


@pytest.mark.parametrize("num_tokens", [11, FEW_TOKENS + 1], ids=["few", "many"])
@pytest.mark.parametrize("name", ["sh:lstm", "deep-input:tanh", "mongia-c:gru", "stack-2:intersection"])
def test_tokens_agree(name: str, num_tokens: int) -> None:
    network = architecture(name, input_size=num_tokens, output_size=2, units=3, encoding="tokens")
    compare(network, num_steps=5, population=3)


@pytest.mark.parametrize("cell", ["tanh", "mgu"])
def test_states_before_and_after_a_sequence_are_told_apart(cell: str) -> None:
    """What a layer that reads the future sees after the end are zeros, what a late read-out sees its initial state."""
    compare(both_directions(cell, units=3, read_out_delay=2), num_steps=5, population=3)


@some_examples
@given(architectures(smooth=True), st.integers(1, 7), st.sampled_from([None, 1, 3]), st.integers(0, 999))
def test_random_networks_agree(network: Architecture, num_steps: int, population: int | None, seed: int) -> None:
    compare(network, num_steps=num_steps, population=population, seed=seed)


@some_examples
@given(architectures(can_stream=True, smooth=True), st.integers(1, 5), st.integers(1, 5), st.integers(0, 999))
def test_random_networks_continue_alike(network: Architecture, before: int, after: int, seed: int) -> None:
    compare(network, num_steps=after, steps_before=before, seed=seed)


def test_a_cell_of_ones_own_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CELLS, "own", own_cell())
    for name in ("sh", "td", "mongia-d"):
        compare(architecture(name, "own", **SIZES, units=3), num_steps=6, population=3)


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize(
    ("name", "changes", "shows_in"),
    [
        ("sh:lstm", {"sigmoid(": "tanh("}, "outputs"),  # gates with another nonlinearity
        # a state of another time: in Triton, and in CUDA C++
        ("td:tanh", {"time + 0": "time + 1", "+ now + top": "+ before + top"}, "outputs"),
        ("sh:tanh", {"tanh_slope(": "tanh("}, "gradient of"),  # another derivative
        ("td:gru", {"tanh_slope(": "tanh("}, "gradient of"),
    ],
)
def test_a_broken_kernel_fails(
    break_kernels: BreakKernels, name: str, changes: dict[str, str], shows_in: str, precision: str
) -> None:
    network = architecture(name, **SIZES, units=3)
    changed = [break_kernels(old, new) for old, new in changes.items()]
    with pytest.raises(DifferenceError, match=f"gpu-population {precision}, {shows_in}"):
        compare(network, num_steps=4, precisions=[precision], paths=["gpu-population"])
    assert any(changed)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # numpy's products
@pytest.mark.parametrize("label", NOT_FINITE)
def test_what_is_not_finite_stays_so(label: str) -> None:
    """In float32, whose products are made of several; what Triton's interpreter makes of tf32 is numpy's."""
    check_not_finite(label, "gpu-population", "float32")


def test_a_backward_pass_inside_of_autocast_loses_no_digit() -> None:
    check_backward_in_autocast("gpu-population")


TANH = f"""
import triton
import triton.language as tl
{EXACT_FUNCTIONS}

@triton.jit
def kernel(x, y, COUNT: tl.constexpr):
    places = tl.arange(0, COUNT)
    tl.store(y + places, tanh(tl.load(x + places)))
"""


def test_tanh_has_all_digits_of_small_numbers() -> None:
    """The smallest float32 numbers that are normal, up to those whose tanh is 1, and both signs of each."""
    sizes = torch.logspace(-37, 1.5, 2047, dtype=torch.float64).float()
    x = torch.cat((torch.zeros(2), sizes, -sizes)).to(DEVICE)
    y = torch.full_like(x, torch.nan)
    compiled(TANH)[(1,)](x, y, COUNT=len(x))
    torch.testing.assert_close(y.cpu().double(), x.cpu().double().tanh(), rtol=4e-7, atol=0)


def test_a_shared_input_is_held_once_and_agrees() -> None:
    """One x for all members, its gradient the sum over them."""
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
