"""torch.nn's own layers, and models with the same numbers.

Time is torch's first axis here: batch_first copies inputs and outputs, up to a tenth of a step.
"""

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from rnnlab.bench.equality import by_time, check_equal, member_results, results, training_step
from rnnlab.bench.timing import Side, local
from rnnlab.engine.conversion import from_torch
from rnnlab.engine.model import Model

LAYERS: dict[str, type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]] = {"tanh": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
"""The layer of each cell that torch has."""

Layer = nn.RNN | nn.GRU | nn.LSTM


def make_layer(cell: str, input_size: int, units: int, *, seed: int = 0) -> Layer:
    """A layer with numbers drawn from a seed."""
    with torch.random.fork_rng(devices=[]):  # torch's modules take no generator
        torch.manual_seed(seed)
        return LAYERS[cell](input_size, units)


def make_population(layers: Sequence[Layer]) -> Model:
    """One model of as many members as there are layers, with their numbers."""
    alone = [from_torch(each) for each in layers]
    several = Model(alone[0].architecture, generator=torch.Generator().manual_seed(0), population=len(layers))
    with torch.no_grad():
        for name, value in several.arrays.items():
            value.copy_(torch.cat([one.arrays[name] for one in alone]))
            value.requires_grad_(alone[0].arrays[name].requires_grad)
    return several


def layer_side(case: str, model: Model, layer: Layer, x: Tensor, dy: Tensor) -> Side:
    """The steps of a layer, after the model was found equal to it; x is [B, T, N], dy [B, T, M]."""
    check_equal(case, results(model, x, dy), exact_results(layer, x, dy))
    return local(training_step(layer, *by_time(x, dy)))


def members_side(case: str, several: Model, layers: Sequence[Layer], x: Tensor, dy: Tensor) -> Side:
    """The steps of layers one after another, after each member was found equal to itself alone and to its layer."""
    found = results(several, x, dy)
    for member, layer in enumerate(layers):
        own, what = member_results(found, member), f"{case}, member {member}"
        check_equal(f"{what} against itself alone", own, results(from_torch(layer), x[member], dy[member]))
        check_equal(what, own, exact_results(layer, x[member], dy[member]))
    steps = [training_step(layer, *by_time(x[member], dy[member])) for member, layer in enumerate(layers)]
    return local(lambda: [step() for step in steps])


def exact_results(layer: Layer, x: Tensor, dy: Tensor) -> dict[str, Tensor]:
    """What a layer computes in float64, under the names and in the shapes of a model's; x is [B, T, N]."""
    exact = deepcopy(layer).double()
    found = results(exact, *by_time(x.double(), dy.double()))
    outer, inner = by_time(found["output"], found["gradient of x"])
    arrays = from_torch(_with_gradients_as_numbers(exact, found)).arrays
    gradients = {f"gradient of {name}": value.detach() for name, value in arrays.items() if value.requires_grad}
    return {"output": outer, "gradient of x": inner} | gradients


def _with_gradients_as_numbers(layer: Layer, found: dict[str, Tensor]) -> Layer:
    """The layer with its gradients in place of its numbers, so that `from_torch` puts them in a model's order.

    `from_torch` adds up torch's two biases. Their gradients are equal, and the sum's gradient is one of them, not both;
    a GRU's candidate alone keeps both apart.
    """
    holder = deepcopy(layer)
    with torch.no_grad():
        for name, value in holder.named_parameters():
            value.copy_(found[f"gradient of {name}"])
        kept = 2 * layer.hidden_size if isinstance(layer, nn.GRU) else None
        dict(holder.named_parameters())["bias_hh_l0"][:kept] = 0.0
    return holder
