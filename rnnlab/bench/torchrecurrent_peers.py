"""UGRNN and MGU of torchrecurrent 0.2.5, and models of the same networks.

Its layers cannot be scripted (torch.jit refuses their annotations), so they run as they are.
"""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from rnnlab.architecture.architecture import Architecture
from rnnlab.architecture.specs import EdgeSpec, NodeSpec
from rnnlab.bench.equality import by_time, check_equal, results, training_step
from rnnlab.bench.timing import Side, local
from rnnlab.engine.model import Model

CELLS = {"ugrnn": "UGRNN", "mgu": "MGU"}
"""What torchrecurrent calls each cell; its gates stand in the same order as rnnlab's."""


def make_model(cell: str, input_size: int, units: int) -> Model:
    """A model whose output is its state, which starts at zero, as in torchrecurrent's layers."""
    nodes = [
        NodeSpec(name="x", kind="input", units=input_size),
        NodeSpec(name="h", kind="hidden", units=units, cell=cell, initial="zero"),
        NodeSpec(name="y", kind="output", units=units),
    ]
    edges = [
        EdgeSpec(source=("x", 0), target=("h", 0), delay=0),
        EdgeSpec(source=("h", 0), target=("h", 0), delay=1),
        EdgeSpec(source=("h", 0), target=("y", 0), delay=0, transform="identity"),
    ]
    model = Model(Architecture(nodes, edges), generator=torch.Generator().manual_seed(0))
    model.arrays["y bias"].detach().zero_()
    model.arrays["y bias"].requires_grad_(False)
    return model


def layer_side(case: str, model: Model, cell: str, x: Tensor, dy: Tensor) -> Side:
    """The steps of torchrecurrent's layer, after the model was found equal to it; x is [B, T, N], dy [B, T, M]."""
    layer = make_layer(model, cell)
    check_equal(case, results(model, x, dy), exact_results(layer, x, dy))
    return local(training_step(layer, *by_time(x, dy)))


def make_layer(model: Model, cell: str) -> Any:
    """Torchrecurrent's layer with the numbers of a model; time is its first axis."""
    import torchrecurrent  # pyright: ignore[reportMissingImports]

    outer, inner, bias = (model.arrays[name].detach()[0] for name in ("x->h[0]", "h->h[1]", "h bias"))
    layer = getattr(torchrecurrent, CELLS[cell])(len(outer), len(inner))
    with torch.no_grad():
        layer.cells[0].weight_ih.copy_(outer.T)
        layer.cells[0].weight_hh.copy_(inner.T)
        layer.cells[0].bias_ih.copy_(bias)
        layer.cells[0].bias_hh.zero_()
    return layer


def exact_results(layer: Any, x: Tensor, dy: Tensor) -> dict[str, Tensor]:
    """What a layer computes in float64, under the names and in the shapes of a model's; x is [B, T, N]."""
    found = results(deepcopy(layer).double(), *by_time(x.double(), dy.double()))
    y, gradient = by_time(found["output"], found["gradient of x"])
    outer, inner, bias = (found[f"gradient of cells.0.{name}"] for name in ("weight_ih", "weight_hh", "bias_ih"))
    arrays = {"x->h[0]": outer.T, "h->h[1]": inner.T, "h bias": bias}
    return {"output": y, "gradient of x": gradient} | {
        f"gradient of {name}": value[None] for name, value in arrays.items()
    }
