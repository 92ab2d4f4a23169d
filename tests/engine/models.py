"""Small models for the tests."""

import torch
from torch import Tensor

from rnnlab import Architecture, EdgeSpec, NodeSpec, architecture
from rnnlab.engine.initialisation import Initialisation
from rnnlab.engine.model import Model

SIZES = {"input_size": 3, "output_size": 2, "units": 4}
PATHS = ("reference", "cpu")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make(name: str = "sh:lstm", **options) -> Model:
    sizes = {key: options.pop(key, size) for key, size in SIZES.items()}
    encoding = options.pop("encoding", "values")
    network = architecture(name, encoding=encoding, **sizes)
    initialisation = Initialisation(bias="normal", bias_scale=0.3)
    return Model(network, **({"generator": seeded(), "initialisation": initialisation} | options))


def with_initial_state(model: Model) -> Model:
    """The same model, its initial state no longer zero."""
    for number, (name, value) in enumerate(model.arrays.items()):
        if " initial" in name:
            value.data.copy_(random(*value.shape, seed=number))
    return model


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed))


def two_inputs(*, tokens: bool = False) -> Architecture:
    """Inputs u and v, two and three wide, and two outputs y and z."""
    return Architecture(
        [
            NodeSpec(name="u", kind="input", units=2, encoding="tokens" if tokens else "values"),
            NodeSpec(name="v", kind="input", units=3),
            NodeSpec(name="h", kind="hidden", units=4, cell="gru"),
            NodeSpec(name="y", kind="output", units=1),
            NodeSpec(name="z", kind="output", units=2),
        ],
        [
            EdgeSpec(source=("u", 0), target=("h", 0), delay=0),
            EdgeSpec(source=("v", 0), target=("h", 0), delay=0),
            EdgeSpec(source=("h", 0), target=("h", 0), delay=1),
            EdgeSpec(source=("h", 0), target=("y", 0), delay=0),
            EdgeSpec(source=("h", 0), target=("z", 0), delay=0),
            EdgeSpec(source=("v", 0), target=("z", 0), delay=0),
        ],
    )


def gradients(model: Model) -> dict[str, Tensor]:
    return {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
