"""Small networks, tasks and hyperparameters for the tests."""

from typing import Any

import torch

from rnnlab import AbstractTask, Architecture, Hyperparameters, Run, architecture, task
from rnnlab.training.feed import Feed, batch_seeds
from rnnlab.training.noise import Noise
from rnnlab.training.numbers import Layout, build_model
from rnnlab.training.optimisers import Coefficients
from rnnlab.training.state import TrainingState
from rnnlab.training.step import TrainingStep

CPU = torch.device("cpu")


def adding(length: int = 12) -> AbstractTask:
    return task("adding", length=length, num_evaluation=30, num_training=200)


def network(of: AbstractTask, name: str = "lstm", units: int = 6) -> Architecture:
    return architecture(name, input_size=of.input_size, output_size=of.output_size, units=units, encoding=of.encoding)


def quick(**values: Any) -> Hyperparameters:
    """Hyperparameters for a run of a moment."""
    return Hyperparameters().changed(**({"num_steps": 12, "evaluate_every": 5, "batch_size": 8} | values))


def mixed() -> list[Hyperparameters]:
    """Members that differ in everything that may differ."""
    return [
        quick(seed=1, optimiser="sgd", learning_rate=0.1, clip_norm=0.05, weight_noise=0.05, nonlinearity="tanh"),
        quick(seed=2, optimiser="momentum", learning_rate=0.01, l2=1e-2, dropout=0.4, nonlinearity="relu"),
        quick(
            seed=3, optimiser="rmsprop", learning_rate=1e-3, clip_value=0.01, square="orthogonal", nonlinearity="tanh"
        ),
        quick(seed=4, optimiser="adam", learning_rate=1e-2, num_steps=7, decay_factor=0.1, nonlinearity="relu"),
        quick(
            seed=1, learning_rate=0.03, momentum=0.5, bias="normal", bias_scale=0.5, gate_bias=1.0, nonlinearity="tanh"
        ),
    ]


def training_step(
    of: AbstractTask, members: list[Hyperparameters], name: str = "lstm", path: str = "auto"
) -> TrainingStep:
    """A step of a population at its beginning."""
    net = network(of, name)
    layout = Layout(net)
    coefficients = Coefficients.of(members, dtype=torch.float32, device="cpu")
    state = TrainingState.initial(layout.initial(members), members, coefficients)
    model = build_model(net, members, population=len(members), device="cpu", path=path, precision="float32")
    feed = Feed(of, members[0].batch_size or of.batch_size, batch_seeds(members, 0), CPU)
    return TrainingStep(model, layout, members, state, feed, Noise(members, 0, CPU))


def assert_same_member(one: Run, number: int, other: Run, other_number: int) -> None:
    """Bit for bit the same numbers, curves and scores."""
    assert one.members[number] == other.members[other_number]
    for name, array in one.model.arrays.items():
        assert torch.equal(array[number], other.model.arrays[name][other_number]), name


def assert_same_run(one: Run, other: Run) -> None:
    assert len(one.members) == len(other.members)
    for number in range(len(one.members)):
        assert_same_member(one, number, other, number)
