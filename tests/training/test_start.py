"""Training that begins with a trained model."""

from pathlib import Path

import pytest
import torch

from rnnlab import CheckpointError, Model, TrainingError, architecture, train
from rnnlab.cli import main
from rnnlab.training.numbers import Layout
from tests.training.small import adding, assert_same_run, mixed, network, quick


def test_start_with_the_numbers_that_would_be_drawn_changes_nothing() -> None:
    problem, members = adding(), mixed()
    net = network(problem)
    layout = Layout(net)
    start = Model(net, seed=0, population=len(members), nonlinearity=[str(member.nonlinearity) for member in members])
    layout.spread(layout.initial(members), [start.arrays[spec.name] for spec in layout.specs])
    before = {name: value.clone() for name, value in start.state_dict().items()}
    assert_same_run(train(net, problem, members, start=start), train(net, problem, members))
    assert all(torch.equal(value, before[name]) for name, value in start.state_dict().items())


def test_member_of_a_population_is_trained_on() -> None:
    """A step so small that it changes nothing leaves the numbers of the start."""
    problem = adding()
    net = network(problem)
    several = train(net, problem, quick().with_seeds(3)).model
    still = quick(optimiser="sgd", learning_rate=1e-30)
    alone = several.member(1)
    for given in (alone, alone.double()):
        run = train(net, problem, still, start=given)
        for name, value in run.model.arrays.items():
            assert torch.equal(value, several.arrays[name][1:2]), name
    both = train(net, problem, [still, still], start=alone).model
    assert torch.equal(both.arrays["y bias"], several.arrays["y bias"][[1, 1]])


def test_resumed_run_has_its_start(tmp_path: Path) -> None:
    problem = adding()
    net = network(problem)
    start, other = Model(net, seed=1), Model(net, seed=2)
    train(net, problem, quick(), start=start, checkpoint=tmp_path, stop=lambda: True)
    for another in (other, None):
        with pytest.raises(CheckpointError, match="belongs to another run: start is"):
            train(net, problem, quick(), start=another, checkpoint=tmp_path, resume=True)
    resumed = train(net, problem, quick(), start=start, checkpoint=tmp_path, resume=True)
    assert_same_run(resumed, train(net, problem, quick(), start=start))


def test_start_that_does_not_fit_is_refused() -> None:
    problem = adding()
    net = network(problem)
    frozen = Model(net, seed=0)
    frozen.arrays["y bias"].requires_grad_(False)
    for start, message in (
        ("model.safetensors", "start is a model to begin with, got 'model.safetensors'"),
        (
            Model(network(problem, "gru"), seed=0),
            "start is a model of .*, gru, .*, not of the architecture, .*, lstm, ",
        ),
        (Model(net, seed=0, population=3), "start has 3 members, the population 2"),
        (Model(net, seed=0, nonlinearity="relu"), "nonlinearity relu, hyperparameters say that of its cells"),
        (frozen, "start has frozen arrays, which train would change: y bias"),
    ):
        with pytest.raises(TrainingError, match=message):
            train(net, problem, quick().with_seeds(2), start=start)  # pyright: ignore[reportArgumentType]


def test_command_starts_with_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first, second = str(tmp_path / "first.safetensors"), str(tmp_path / "second.safetensors")
    words = ["--task", "adding", "--length", "6", "--num-evaluation", "40", "--units", "5", "--steps", "4"]
    assert main(["train", "gru", *words, "-o", first]) == 0
    assert main(["train", "gru", *words, "--start", first, "-o", second, "-p", "optimiser=sgd"]) == 0
    capsys.readouterr()
    assert main(["train", "lstm", *words, "--start", first]) == 2
    assert capsys.readouterr().err.startswith("rnnlab: start is a model of <Architecture: ")
    assert main(["train", "gru", *words, "--start", "nowhere.safetensors"]) == 2
    assert capsys.readouterr().err.startswith("rnnlab: cannot read a model from nowhere.safetensors: ")


def test_start_of_another_size_is_refused() -> None:
    problem = adding()
    with pytest.raises(TrainingError, match="not of the architecture"):
        train(
            network(problem),
            problem,
            quick(),
            start=Model(architecture("lstm", input_size=2, output_size=1, units=9), seed=0),
        )
