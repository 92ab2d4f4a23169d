"""The output of the last step alone is that of the whole sequence, gradients included.

On a GPU it follows from the final state where that holds all it needs; Triton's interpreter stands in for one where it
is asked for, as `make test` does.
"""

from importlib.util import find_spec

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from rnnlab import Architecture, CyclicGraph, Model, ModelError, architecture, from_torch
from rnnlab.engine.cpu_pass import FEW_ROWS
from rnnlab.engine.model import _pool
from rnnlab.engine.plan import plan
from rnnlab.engine.read_out import read_outs
from tests.engine.gpu.checks import DEVICE, IS_INTERPRETED
from tests.engine.networks import MIXED, catalogue
from tests.engine.strategies import architectures

NETWORKS = catalogue(units=3)
HAS_GPU = find_spec("triton") is not None and (IS_INTERPRETED or torch.cuda.is_available())
PATHS = ("gpu",) if HAS_GPU else ("reference", "cpu")
SOME = list(NETWORKS)[:: 24 if IS_INTERPRETED else 3]


def results(
    network: Architecture, num_steps: int, num_sequences: int, *, path: str, only_last: bool, steps_before: int
) -> list[torch.Tensor]:
    """The last output, the state, and all gradients of a loss of both."""
    generator = torch.Generator().manual_seed(0)
    device = DEVICE if path == "gpu" else "cpu"
    dtype = torch.float32 if path == "gpu" else torch.float64
    model = Model(network, generator=generator, population=3, nonlinearity=MIXED, path=path)
    with torch.no_grad():  # biases and initial states start at zero
        for array in model.arrays.values():
            array.add_(torch.randn(array.shape, generator=generator) * 0.3)
    model = model.to(device, dtype)
    size = (3, num_sequences)
    inputs = {
        node.name: torch.randint(node.units, (*size, steps_before + num_steps), generator=generator)
        if node.encoding == "tokens"
        else torch.randn(*size, steps_before + num_steps, node.units, generator=generator)
        for node in network.nodes
        if node.kind == "input"
    }
    inputs = {name: value.to(device, dtype if value.is_floating_point() else None) for name, value in inputs.items()}
    state = model({name: value[:, :, :steps_before] for name, value in inputs.items()})[1] if steps_before else None
    given = {name: value[:, :, steps_before:].clone() for name, value in inputs.items()}
    floats = [value.requires_grad_() for value in given.values() if value.is_floating_point()]
    y, after = model(given, state, only_last=only_last)
    assert y.shape[2] == (1 if only_last else num_steps)
    parts = [value for value in after.values.values() if value.is_floating_point()]
    loss = y[:, :, -1].square().sum() + sum((value.cos().sum() for value in parts), start=y.new_zeros(()))
    loss.backward()
    gradients = [
        each.grad if each.grad is not None else torch.zeros_like(each) for each in (*model.parameters(), *floats)
    ]
    return [value.detach().cpu().double() for value in (y[:, :, -1], *parts, *gradients)]


def check(network: Architecture, num_steps: int, steps_before: int = 0, num_sequences: int = 2) -> None:
    """Every path that runs here against all outputs by the reference in float64."""
    wanted = results(network, num_steps, num_sequences, path="reference", only_last=False, steps_before=steps_before)
    for path in PATHS:
        found = results(network, num_steps, num_sequences, path=path, only_last=True, steps_before=steps_before)
        tolerance = {"rtol": 2e-4, "atol": 2e-5} if path == "gpu" else {"rtol": 1e-9, "atol": 1e-9}
        torch.testing.assert_close(found, wanted, **tolerance)


@pytest.mark.parametrize("label", SOME)
def test_catalogue_agrees(label: str) -> None:
    check(NETWORKS[label], 5, 2)


@settings(max_examples=5 if IS_INTERPRETED else 50)
@given(architectures(smooth=True, can_stream=True), st.integers(1, 6), st.sampled_from([2, FEW_ROWS]))
def test_random_networks_agree(network: Architecture, num_steps: int, num_sequences: int) -> None:
    check(network, num_steps, num_sequences=num_sequences)


@pytest.mark.parametrize("num_sequences", [2, FEW_ROWS])
@pytest.mark.parametrize(("to_h", "num_computed"), [(None, 1), (1, 5)])
def test_cpu_computes_earlier_outputs_only_for_nodes_that_read_them(
    to_h: int | None, num_computed: int, num_sequences: int
) -> None:
    edges = [("x", "h", 0), ("h", "h", 1), ("h", "y", 0), *([("y", "h", to_h)] if to_h else [])]
    graph = CyclicGraph([("x", "input"), ("h",), ("y", "output")], edges)
    model = Model(architecture(graph, input_size=2, output_size=1, units=3), seed=0, path="cpu")
    model(torch.randn(num_sequences, 5, 2), only_last=True)[0].sum().backward()
    pool = _pool(model.architecture, model.architecture.cells, model.nonlinearity)
    (arrays,) = next(iter(pool.free.values()))
    assert arrays.forward_pass is not None
    lists, _, times = arrays.forward_pass.work.moments.T
    assert times[lists == list(arrays.program.codes).index(("y", 0))].sum() == num_computed


def test_what_follows_from_the_final_state() -> None:
    found = {
        name: read_outs(plan(architecture(name, input_size=2, output_size=3, units=4))) for name in ("td:lstm", "do")
    }
    assert found["do"] is None  # its output layer is read by nobody later
    (only,) = found["td:lstm"] or ()
    assert (only.name, only.terms, only.bias) == ("y", ((("h2", "h"), "h2->y[0]"),), "y bias")


def test_outputs_that_are_the_state_itself_follow_from_it() -> None:
    network = from_torch(nn.LSTM(2, 3)).architecture
    (only,) = read_outs(plan(network)) or ()
    assert only.terms == ((("h0", "h"), None),)
    check(network, 5, 2)


def test_a_state_can_be_continued_after() -> None:
    network = architecture("mongia-d:lstm", input_size=2, output_size=1, units=3)
    model = Model(network, generator=torch.Generator().manual_seed(0))
    x = torch.randn(2, 5, 2)
    whole, _ = model(x)
    _, state = model(x[:, :3], only_last=True)
    torch.testing.assert_close(model(x[:, 3:], state)[0], whole[:, 3:])


def test_sequences_of_different_lengths_are_refused() -> None:
    model = Model(
        architecture("tanh", input_size=2, output_size=1, units=3), generator=torch.Generator().manual_seed(0)
    )
    with pytest.raises(ModelError, match="leave out only_last"):
        model(torch.randn(2, 5, 2), lengths=torch.tensor([3, 5]), only_last=True)
