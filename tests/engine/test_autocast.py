"""Inside torch.autocast a model computes in the dtype of its parameters, takes what comes and returns that dtype."""

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from rnnlab.engine.model import Model
from rnnlab.engine.state import State
from tests.engine.models import PATHS, gradients, make, random

CASES = [*(("cpu", path) for path in PATHS), ("cuda", "reference")]


@pytest.fixture(params=CASES, ids="-".join)
def model(request: pytest.FixtureRequest) -> Model:
    device, path = request.param
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU: autocast on CUDA is not tested")
    return make("td:gru", path=path).to(device)


def device_of(model: Model) -> str:
    return next(model.parameters()).device.type


def autocast(model: Model) -> torch.autocast:
    return torch.autocast(device_of(model), dtype=torch.bfloat16)


def run(model: Model, x: Tensor, state: State | None = None, *, inside: bool) -> list[Tensor]:
    """Outputs, final state, and the gradients of a loss of both; backward runs outside autocast, as torch advises."""
    model.zero_grad()
    with autocast(model) if inside else nullcontext():
        y, new_state = model(x, state)
    results = [y, *new_state.values.values()]
    sum(value.pow(2).sum() for value in results).backward()
    found = [*results, *gradients(model).values()]
    assert {value.dtype for value in found} == {torch.float32}
    return found


def test_results_are_those_outside(model: Model) -> None:
    """Every digit of them: autocast changes nothing inside."""
    x = random(3, 5, 3).to(device_of(model))
    found, wanted = (run(model, x, inside=inside) for inside in (True, False))
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_input_of_lower_precision_is_taken(model: Model) -> None:
    """As it comes out of a layer before the model; gradients reach that layer in float32, and are right."""
    device = device_of(model)
    layer, x = nn.Linear(5, 3, device=device), random(3, 5, 5).to(device)
    with autocast(model):
        narrow = layer(x)
    assert narrow.dtype == torch.bfloat16
    found = run(model, narrow, inside=True)
    leaf = narrow.detach().float().requires_grad_()
    wanted = run(model, leaf, inside=False)
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))
    arriving = leaf.grad.sum(dim=(0, 1))
    torch.testing.assert_close(layer.bias.grad, arriving, rtol=0.02, atol=0.02)  # the layer's own sums are in bfloat16


def test_state_of_lower_precision_is_taken(model: Model) -> None:
    """As it comes out of a layer that turns something else into a first state."""
    x = random(3, 5, 3).to(device_of(model))
    _, state = model(x)
    narrow = State(state.step, {part: value.detach().bfloat16() for part, value in state.values.items()})
    wide = State(state.step, {part: value.float() for part, value in narrow.values.items()})
    found, wanted = run(model, x, narrow, inside=True), run(model, x, wide, inside=False)
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_layer_after_the_model_is_cast_as_ever(model: Model) -> None:
    layer = nn.Linear(2, 4, device=device_of(model))
    with autocast(model):
        z = layer(model(random(3, 5, 3).to(device_of(model)))[0])
    assert z.dtype == torch.bfloat16
    z.float().sum().backward()
    assert all(value.grad.dtype == torch.float32 for value in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_dtype_of_the_parameters_decides(dtype: torch.dtype) -> None:
    model = make().to(dtype)
    with autocast(model):
        y, state = model(random(3, 5, 3))
    assert {y.dtype, *(value.dtype for value in state.values.values())} == {dtype}
