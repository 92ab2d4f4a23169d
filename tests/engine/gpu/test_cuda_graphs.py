"""Training steps recorded as CUDA graphs compute what they do without."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from rnnlab import architecture
from rnnlab.engine.model import Model
from tests.engine.networks import MIXED

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

PATHS = ("gpu-population", "gpu-spread")
NETWORKS = ("sh:lstm", "td:gru", "mongia-d:tanh", "stack-3:intersection")


def make(name: str, path: str, population: int | None = None, nonlinearity: tuple[str, ...] | None = None) -> Model:
    network = architecture(name, input_size=3, output_size=2, units=40)
    generator = torch.Generator().manual_seed(0)
    return Model(network, generator=generator, population=population, nonlinearity=nonlinearity, path=path).cuda()


def batches(count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(5, 7, 3, generator=generator).cuda() for _ in range(count)]


def gradients(model: Any, x: Tensor) -> list[Tensor]:
    """Outputs and all gradients of a step."""
    leaves = [x.clone().requires_grad_(), *model.parameters()]
    y, _ = model(leaves[0])
    y.square().sum().backward()
    found = [y.detach().clone()]
    for leaf in leaves:  # a graph writes to the same place again; what nothing depends on may have no gradient
        found.append(torch.zeros_like(leaf) if leaf.grad is None else leaf.grad.clone())
        leaf.grad = None
    return found


# nodes that add up gradients are torch's, made on the stream that it recorded on
@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream does not match")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", NETWORKS)
def test_graphed_callables_agree(name: str, path: str) -> None:
    """Other numbers than those that were recorded, and the first ones again."""
    model, first, *others = make(name, path), *batches(3)
    wanted = [gradients(model, x) for x in (*others, first)]
    sample = (first.clone().requires_grad_(),)
    graphed = torch.cuda.make_graphed_callables(model, sample, allow_unused_input=True)
    for x, expected in zip((*others, first), wanted, strict=True):
        for found, each in zip(gradients(graphed, x), expected, strict=True):
            torch.testing.assert_close(found, each, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("name", "population", "nonlinearity"),
    [*((name, None, None) for name in NETWORKS), ("sh:tanh", 3, None), ("sh:gru", 3, MIXED), ("td:lstm", 3, MIXED)],
)
def test_recorded_training_agrees(
    name: str, population: int | None, nonlinearity: tuple[str, ...] | None, path: str
) -> None:
    """Five steps of gradient descent, all of each in one graph, end at the same parameters."""
    xs = batches(5)
    plain, recorded = (make(name, path, population, nonlinearity) for _ in range(2))
    for x in xs:
        descend(plain, x)
    place = xs[0].clone()
    step = record(lambda: descend(recorded, place), recorded)
    for x in xs:
        place.copy_(x)
        step()
    for (key, wanted), found in zip(plain.named_parameters(), recorded.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6, msg=lambda text, key=key: f"{key}: {text}")
    start = make(name, path, population, nonlinearity)
    assert any(not torch.equal(old, new) for old, new in zip(start.parameters(), plain.parameters(), strict=True))


def descend(model: Model, x: Tensor) -> None:
    """A step of gradient descent."""
    y, _ = model(x)
    y.square().mean().backward()
    with torch.no_grad():
        for each in model.parameters():
            if each.grad is not None:
                each -= 0.1 * each.grad
                each.grad = None


def record(step: Callable[[], None], model: Model) -> Callable[[], None]:
    """A step as a graph; running it before, which compiles the kernels, leaves the model as it was."""
    start = [each.detach().clone() for each in model.parameters()]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    with torch.no_grad():
        for each, old in zip(model.parameters(), start, strict=True):
            each.copy_(old)
    return graph.replay
