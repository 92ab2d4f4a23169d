"""Hyperparameters as a value: checked, printed, saved, changed."""

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from rnnlab import Hyperparameters, Initialisation, TrainingError, load_hyperparameters
from rnnlab.training.hyperparameters import check_shared

WRONG = {
    "seed": (-1, 1.5, True),
    "batch_seed": (-1, 1.5, True),
    "nonlinearity": ("sigmoid", 1),
    "initialisation": ("glorot",),
    "optimiser": ("sdg", None),
    "learning_rate": (0, -1, float("nan"), float("inf"), "0.1", None, True),
    "decay_factor": (0, 1.1),
    "inverse_decay_steps": (0, -3),
    "inverse_decay_start": (-1, 0.5),
    "plateau_factor": (0, 2),
    "plateau_patience": (0,),
    "least_improvement": (-0.1, 1),
    "lowest_learning_rate": (-1e-9,),
    "momentum": (-0.1, 1),
    "second_momentum": (-0.1, 1),
    "epsilon": (-1e-9,),
    "clip_norm": (0, -1),
    "clip_value": (0, -1),
    "l2": (-1e-9,),
    "weight_noise": (-1,),
    "dropout": (-0.1, 1),
    "restart": (-0.1, 1.1),
    "batch_size": (0, 1.5),
    "truncation": (0,),
    "num_steps": (0, 1e3, None),
    "evaluate_every": (0,),
    "patience": (0,),
    "explosion": (1, 0, float("inf")),
}
# at their borders where these are allowed: appendix A of Collins et al. lies inside
RIGHT = {
    "optimiser": "momentum",
    "nonlinearity": "relu",
    "learning_rate": 1e-4,
    "decay_factor": 1e-3,
    "momentum": 0.9991,
    "clip_value": 100.0,
    "clip_norm": 1.0,
    "l2": 1e-3,
    "weight_noise": 0.075,
    "dropout": 0.5,
    "restart": 1.0,
    "inverse_decay_steps": 2330.0,
    "inverse_decay_start": 0,
    "plateau_factor": 0.5,
    "lowest_learning_rate": 5e-7,
    "least_improvement": 0.0002,
    "truncation": 80,
    "num_steps": 20_000_000,
    "patience": 1,
    "square": "orthogonal",
    "square_scale": 0.01,
    "rectangular_scale": 2.0,
    "bias": "normal",
    "bias_scale": -2.0,
    "gate_bias": 6.0,
}


def test_every_field_has_wrong_values_here() -> None:
    assert set(WRONG) == {field.name for field in fields(Hyperparameters)}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_wrong_value_is_refused_with_its_name(name: str, value: object) -> None:
    with pytest.raises(TrainingError, match=name):
        Hyperparameters(**{name: value})


@pytest.mark.parametrize("name", ["square_scale", "rectangular_scale", "bias_scale", "gate_bias"])
@pytest.mark.parametrize("value", ["much", float("nan"), float("inf"), None])
def test_wrong_scale_is_refused_with_its_name(name: str, value: object) -> None:
    with pytest.raises(TrainingError, match=f"{name} must be a finite number, got"):
        Hyperparameters().changed(**{name: value})


def test_values_of_the_papers_are_taken_and_come_back_from_a_file(tmp_path: Path) -> None:
    chosen = Hyperparameters().changed(**RIGHT)
    for name, value in RIGHT.items():
        assert getattr(chosen if hasattr(chosen, name) else chosen.initialisation, name) == value
    chosen.save(tmp_path / "chosen.json")
    assert load_hyperparameters(tmp_path / "chosen.json") == chosen
    assert json.loads((tmp_path / "chosen.json").read_text())["initialisation"]["gate_bias"] == 6.0


def test_numbers_of_numpy_are_taken_for_what_they_are(tmp_path: Path) -> None:
    given = Hyperparameters(seed=np.int64(3), learning_rate=np.float32(0.5), batch_size=np.uint8(7)).changed(  # pyright: ignore[reportArgumentType]
        gate_bias=np.int32(2), num_steps=np.int16(5)
    )
    assert given == Hyperparameters(seed=3, learning_rate=0.5, batch_size=7).changed(gate_bias=2, num_steps=5)
    given.save(tmp_path / "given.json")
    assert load_hyperparameters(tmp_path / "given.json") == given
    with pytest.raises(TrainingError, match=r"seed must be an integer of at least 0, got 3\.5"):
        Hyperparameters(seed=np.float64(3.5))  # pyright: ignore[reportArgumentType]


def test_printing_shows_what_was_changed_and_only_that() -> None:
    assert str(Hyperparameters()) == "defaults"
    assert str(Hyperparameters(learning_rate=10**30, num_steps=7)) == "learning_rate=1e+30 num_steps=7"
    assert str(Hyperparameters().changed(**RIGHT)) == " ".join(
        f"{name}={RIGHT[name]}"
        for name in [field.name for kind in (Hyperparameters, Initialisation) for field in fields(kind)]
        if name in RIGHT and RIGHT[name] != 0
    )


def test_unknown_name_is_refused_with_a_hint() -> None:
    with pytest.raises(TrainingError, match="'lerning_rate'; did you mean 'learning_rate'"):
        Hyperparameters().changed(lerning_rate=0.1)
    with pytest.raises(TrainingError, match=r"no hyperparameter is named 'zzz'; there are .*square_scale"):
        Hyperparameters.from_json({"initialisation": {"zzz": 1}})
    with pytest.raises(TrainingError, match="initialisation is a mapping"):
        Hyperparameters.from_json({"initialisation": 3})


def test_initialisation_is_given_by_its_fields() -> None:
    with pytest.raises(TrainingError, match=r"initialisation is given by its fields: bias, .*square_scale; got 'x'"):
        Hyperparameters().changed(initialisation="x")
    with pytest.raises(TrainingError, match="no hyperparameter is named 'initialisatio'") as refused:
        Hyperparameters().changed(initialisatio="x")
    assert "'initialisation'" not in str(refused.value)


@pytest.mark.parametrize("content", ["{", "[1]", '{"dropout": 2}'])
def test_wrong_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "wrong.json").write_text(content)
    with pytest.raises(TrainingError):
        load_hyperparameters(tmp_path / "wrong.json")


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"cannot read hyperparameters from .*nowhere\.json"):
        load_hyperparameters(tmp_path / "nowhere.json")


@pytest.mark.parametrize("name", ["batch_size", "truncation", "evaluate_every"])
def test_population_shares_what_its_batches_depend_on(name: str) -> None:
    with pytest.raises(TrainingError, match=f"{name} is the same for all members"):
        check_shared([Hyperparameters(**{name: 5}), Hyperparameters(**{name: 6})])
    check_shared([Hyperparameters(num_steps=5, patience=1), Hyperparameters(num_steps=6)])
