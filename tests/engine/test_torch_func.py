"""Models inside torch.func: the reference path runs there, the fast paths say that they do not."""

import pytest
import torch
from torch.func import functional_call, grad, vmap

from rnnlab import ModelError
from tests.engine.models import make, random

NAME = "td:gru"


def test_vmap_over_models_equals_a_population() -> None:
    """What users ask torch.nn for: one call for many models."""
    population = make(NAME, population=3, path="reference")
    single = make(NAME, path="reference")
    x = random(2, 5, 3)
    stacked = {name: value.detach()[:, None] for name, value in population.named_parameters()}
    found = vmap(lambda parameters: functional_call(single, parameters, (x,))[0])(stacked)
    torch.testing.assert_close(found, population(x)[0])


def test_vmap_over_sequences_of_different_lengths() -> None:
    model, x, lengths = make(NAME, path="reference"), random(3, 5, 3), torch.tensor([2, 5, 1])
    found = vmap(lambda one, length: model(one[None], lengths=length[None])[0][0])(x, lengths)
    torch.testing.assert_close(found, model(x, lengths=lengths)[0])


def test_gradients_of_torch_func_equal_autograd() -> None:
    model = make(NAME, path="reference")
    x = random(2, 5, 3)
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    found = grad(lambda given: functional_call(model, given, (x,))[0].square().sum())(parameters)
    model(x)[0].square().sum().backward()
    for name, value in model.named_parameters():
        torch.testing.assert_close(found[name], value.grad)


@pytest.mark.parametrize("path", ["auto", "cpu"])
def test_fast_path_says_what_to_use_instead(path: str) -> None:
    model, x = make(NAME, path=path), random(2, 5, 3)
    stacked = {name: value.detach()[None] for name, value in model.named_parameters()}
    with pytest.raises(ModelError, match=r"cpu path does not run inside torch\.func: make the model with path='ref"):
        vmap(lambda parameters: functional_call(model, parameters, (x,))[0])(stacked)
