"""What the command line gives, as values."""

from pathlib import Path

import pytest

from rnnlab import architecture, named_graph, save_architecture, save_graph, task
from rnnlab.errors import RnnlabError, TrainingError
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.training.words import members_from_words, network_for, usable_device


def test_words_are_the_fields_of_hyperparameters() -> None:
    words = ["optimiser=rmsprop", "learning_rate=1e-2", "num_steps=2e3", "gate_bias=1", "clip_value=none"]
    wanted = Hyperparameters(optimiser="rmsprop", learning_rate=0.01, num_steps=2000, seed=4)
    assert members_from_words(words, seed=4) == wanted.changed(gate_bias=1)


def test_population_has_seeds_one_after_another() -> None:
    members = members_from_words(["learning_rate=0.5"], population=3, seed=7)
    assert members == Hyperparameters(learning_rate=0.5, seed=7).with_seeds(3)
    assert members_from_words([], population=1) == (Hyperparameters(),)


def test_lists_are_one_value_for_each_member() -> None:
    members = members_from_words(["learning_rate=0.1,0.2", "gate_bias=0,1", "l2=0.5"])
    assert isinstance(members, tuple)
    found = [(member.learning_rate, member.initialisation.gate_bias, member.l2, member.seed) for member in members]
    assert found == [(0.1, 0, 0.5, 0), (0.2, 1, 0.5, 0)]
    members = members_from_words(["learning_rate=0.1,0.2"], population=2, seed=3)
    assert isinstance(members, tuple)
    assert [(member.learning_rate, member.seed) for member in members] == [(0.1, 3), (0.2, 4)]
    members = members_from_words(["seed=5,5"], population=2, seed=3)
    assert isinstance(members, tuple)
    assert [member.seed for member in members] == [5, 5]


@pytest.mark.parametrize(
    ("words", "population", "message"),
    [
        (["learning_rate"], None, "a hyperparameter is NAME=VALUE, got 'learning_rate'"),
        (["=3"], None, "a hyperparameter is NAME=VALUE, got '=3'"),
        (["l2="], None, "a hyperparameter is NAME=VALUE, got 'l2='"),
        (["l2=1", "l2=2"], None, "hyperparameter l2 is given twice"),
        (["learningrate=1"], None, "no hyperparameter is named 'learningrate'; did you mean 'learning_rate'"),
        (["learning_rate=-1"], None, "learning_rate must be a number above 0, got -1"),
        (["learning_rate=1,2", "l2=1,2,3"], None, "l2 has 3 values for a population of 2"),
        (["learning_rate=1,2"], 3, "learning_rate has 2 values for a population of 3"),
        ([], 0, "a population has at least 1 member, got 0"),
    ],
)
def test_wrong_words_are_refused(words, population: int | None, message: str) -> None:
    with pytest.raises(RnnlabError) as caught:
        members_from_words(words, population=population)
    assert message in str(caught.value)


def test_network_has_the_sizes_of_the_task(tmp_path: Path) -> None:
    adding, copying = task("adding"), task("copying")

    def widths(network) -> dict[str, int]:
        return {node.name: node.units for node in network.nodes}

    assert widths(network_for(adding, "lstm")) == {"x": 2, "h": 64, "y": 1}
    assert widths(network_for(adding, "td:gru", units=5)) == {"x": 2, "h1": 5, "h2": 5, "y": 1}
    assert network_for(adding, "lstm", parameters=5000).num_parameters() <= 5000
    network = network_for(copying, "sh")
    assert network.by_key["x", 0].encoding == "tokens"
    save_architecture(architecture("sh:gru", input_size=2, output_size=1, units=7), tmp_path / "own.json")
    save_graph(named_graph("sh"), tmp_path / "bare.json")
    assert widths(network_for(adding, str(tmp_path / "own.json"))) == {"x": 2, "h": 7, "y": 1}
    assert widths(network_for(adding, str(tmp_path / "bare.json"))) == {"x": 2, "h": 64, "y": 1}
    with pytest.raises(RnnlabError, match="gives widths itself"):
        network_for(adding, str(tmp_path / "own.json"), units=3)
    with pytest.raises(RnnlabError, match=r"has 2 units, 10 are needed"):
        network_for(copying, str(tmp_path / "own.json"))


def test_devices_that_are_not_here_are_refused() -> None:
    assert usable_device("cpu").type == "cpu"
    for name in ("gpu", "cpu0", ""):
        with pytest.raises(TrainingError, match="device is cpu, cuda or cuda:NUMBER"):
            usable_device(name)
    for name in ("cuda:99", "meta"):
        with pytest.raises(TrainingError, match=f"device {name} cannot be used here: .+") as caught:
            usable_device(name)
        assert "\n" not in str(caught.value)
