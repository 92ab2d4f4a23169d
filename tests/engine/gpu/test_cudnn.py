"""cuDNN runs the networks that it has as the reference does; without a GPU torch's own layers stand for it."""

from typing import Any

import pytest
import torch
from torch import nn

from rnnlab import Architecture, EdgeSpec, Model, ModelError, NodeSpec, architecture, from_torch
from rnnlab.engine.gpu import choice, cudnn
from rnnlab.engine.gpu.cudnn import CudnnNetwork, cudnn_network
from tests.engine.comparison import DifferenceError
from tests.engine.gpu.checks import compare

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES: dict[str, Any] = {"input_size": 3, "output_size": 2, "units": 5}
CELLS = ("tanh", "relu", "irnn", "lstm", "gru-cudnn")
TO_CUDNN: dict[str, Any] = {"device": DEVICE, "paths": ["gpu-cudnn"]}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # or a model on the CPU would take the CPU's path


@pytest.fixture
def in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nothing is hidden by rounding."""
    monkeypatch.setattr(cudnn, "_DTYPE", torch.float32)
    monkeypatch.setattr(choice, "cudnn_layers", lambda network, nonlinearity, *_, **__: cudnn_network(network, nonlinearity))  # fmt: skip # noqa: E501


@pytest.mark.skipif(DEVICE == "cuda", reason="cuDNN uses tf32 for float32")
@pytest.mark.parametrize("initial", ["zero", "learned"])
@pytest.mark.parametrize("graph", ["sh", "stack-2", "stack-3"])
@pytest.mark.parametrize("cell", CELLS)
def test_layers_are_those_of_the_reference(cell: str, graph: str, initial: Any, in_float32: None) -> None:
    network = architecture(graph, cell, **SIZES, initial=initial)
    for numbers in ({"num_steps": 1}, {"num_steps": 7}, {"num_steps": 4, "steps_before": 3}):
        compare(network, **TO_CUDNN, precisions=["float32"], **numbers)


@pytest.mark.parametrize("cell", ["tanh", "lstm", "gru-cudnn"])  # slopes of relu jump: rounding decides on them
def test_layers_agree_in_bf16(cell: str) -> None:
    compare(architecture("stack-2", cell, **SIZES), **TO_CUDNN, precisions=["bf16"], num_steps=9, steps_before=2)


@pytest.mark.skipif(DEVICE == "cuda", reason="cuDNN uses tf32 for float32")
def test_nonlinearity_of_a_model_is_that_of_its_layers(in_float32: None) -> None:
    network = architecture("sh", "tanh", **SIZES)
    compare(network, **TO_CUDNN, precisions=["float32"], num_steps=5, nonlinearity=["relu"])


def test_gates_in_another_order_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = cudnn._weights
    monkeypatch.setattr(cudnn, "_weights", lambda *given: [each.flip(0) for each in weights(*given)])
    with pytest.raises(DifferenceError):
        compare(architecture("sh", "lstm", **SIZES), **TO_CUDNN, precisions=["bf16"], num_steps=5)


@pytest.mark.skipif(DEVICE == "cuda", reason="cuDNN uses tf32 for float32")
@pytest.mark.parametrize("module", [nn.RNN(3, 5), nn.LSTM(3, 5, num_layers=2), nn.GRU(3, 5, num_layers=2)], ids=str)
def test_modules_of_torch_are_networks_of_cudnn(module: Any, in_float32: None) -> None:
    """Their outputs are the states themselves."""
    network = from_torch(module).architecture
    assert isinstance(cudnn_network(network, None), CudnnNetwork)
    compare(network, **TO_CUDNN, precisions=["float32"], num_steps=6, steps_before=2)


@pytest.mark.skipif(DEVICE == "cuda", reason="cuDNN uses tf32 for float32")
def test_layers_that_branch_share_and_are_not_read(in_float32: None) -> None:
    def layer(name: str, below: str, **shared: str) -> list[EdgeSpec]:
        inner = shared.get("inner")
        return [
            EdgeSpec(source=(below, 0), target=(name, 0), delay=0),
            EdgeSpec(source=(name, 0), target=(name, 0), delay=1, weights=inner),
        ]

    hidden: Any = {"kind": "hidden", "units": 4, "cell": "lstm"}
    nodes = [NodeSpec(name="x", kind="input", units=3), NodeSpec(name="a", **hidden, bias="one")]
    nodes += [NodeSpec(name="b", **hidden, bias="one"), NodeSpec(name="c", **hidden), NodeSpec(name="d", **hidden)]
    nodes += [NodeSpec(name="y", kind="output", units=2), NodeSpec(name="z", kind="output", units=4)]
    edges = layer("a", "x", inner="tied") + layer("b", "x", inner="tied") + layer("c", "a") + layer("d", "c")
    edges += [EdgeSpec(source=(each, 0), target=("y", 0), delay=0) for each in ("a", "b")]
    edges += [EdgeSpec(source=("c", 0), target=("z", 0), delay=0, transform="identity")]
    compare(Architecture(nodes, edges), **TO_CUDNN, precisions=["float32"], num_steps=5, steps_before=1)


def test_outputs_of_the_last_step_alone() -> None:
    network, generator = architecture("sh", "lstm", **SIZES), torch.Generator().manual_seed(0)
    model = Model(network, generator=generator, path="gpu-cudnn", precision="bf16").to(DEVICE)
    x = torch.randn(4, 6, 3, device=DEVICE)
    torch.testing.assert_close(model(x, only_last=True)[0], model(x)[0][:, -1:], rtol=0.02, atol=0.02)


@pytest.mark.parametrize("name", ["td:lstm", "sh:gru", "skip-3:tanh", "sh:lstm-edges", "clockwork:tanh"])
def test_other_networks_it_does_not_have(name: str) -> None:
    assert isinstance(cudnn_network(architecture(name, **SIZES), None), str)


def test_what_it_cannot_run_is_refused() -> None:
    network = architecture("sh", "lstm", **SIZES)
    x = torch.randn(2, 4, 3, device=DEVICE)

    def run(message: str, *, lengths: bool = False, **options: Any) -> None:
        made: dict[str, Any] = {"path": "gpu-cudnn", "precision": "bf16", "generator": torch.Generator()} | options
        model = Model(network, **made).to(DEVICE)
        with pytest.raises(ModelError, match=message):
            model(x, lengths=torch.tensor([2, 4], device=DEVICE) if lengths else None)

    run("precision='bf16' only", precision="tf32")
    run("this is a population", population=2)
    run("leave out lengths", lengths=True)
