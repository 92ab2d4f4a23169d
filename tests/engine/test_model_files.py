"""Models in files: as they were, or refused with the reason; nothing half-loaded."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rnnlab import CELLS, Cell, Model, architecture, tanh
from rnnlab.engine.model_files import load_model
from rnnlab.errors import ModelError, RnnlabError
from tests.engine.models import make, random

MISSING = object()


@pytest.mark.parametrize("population", [None, 3])
@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.float64,
    ],
)
def test_saved_model_loads_as_it_was(tmp_path: Path, population: int | None, dtype: torch.dtype) -> None:
    nonlinearity = ("tanh", "relu", "tanh")[: population or 1]
    model = make("td:gru", population=population, nonlinearity=nonlinearity).to(dtype)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(1 / 3)  # no float32 number
    model.save(tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors")
    assert loaded.architecture == model.architecture
    assert (loaded.population, loaded.nonlinearity) == (model.population, model.nonlinearity)
    for name, value in model.state_dict().items():
        assert loaded.state_dict()[name].dtype == dtype
        assert torch.equal(loaded.state_dict()[name], value), name
    x = random(2, 5, 3).to(dtype)
    assert torch.equal(loaded(x)[0], model(x)[0])


def saved(tmp_path: Path) -> tuple[Path, dict[str, Tensor], dict[str, Any]]:
    """A saved model, its arrays and what the file says of it."""
    path = tmp_path / "model.safetensors"
    model = make()
    model.save(path)
    about = {
        "format": 2,
        "architecture": model.architecture.to_json(),
        "population": None,
        "nonlinearity": None,
        "frozen": [],
        "cells": {},
    }
    return path, load_file(path), about


def written(about: Mapping[str, Any]) -> dict[str, str]:
    """As it stands in a file."""
    return {"rnnlab model": json.dumps(about)}


def test_metadata_of_the_tests_is_that_of_save(tmp_path: Path) -> None:
    path, tensors, about = saved(tmp_path)
    save_file(tensors, path, written(about))
    assert load_model(path).architecture == make().architecture


def test_files_of_one_model_are_the_same_and_others_may_read_them(tmp_path: Path) -> None:
    """safetensors alone writes metadata in any order, and files that only their owner may read."""
    files = [saved(tmp_path)[0].read_bytes() for _ in range(4)]
    assert len(set(files)) == 1
    plain = tmp_path / "plain"
    plain.touch()
    assert (tmp_path / "model.safetensors").stat().st_mode == plain.stat().st_mode


def test_own_cells_must_be_registered_and_compute_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "own.safetensors"

    def own(keep: float, summary: str = "") -> Cell:
        def update(g, c):
            return {"h": keep * c.h + (1 - keep) * tanh(g.c)}

        return Cell("own", gates=("c",), update=update, summary=summary)

    monkeypatch.setitem(CELLS, "own", own(0.5))
    Model(architecture("sh:own", input_size=2, output_size=1, units=3), seed=0).save(path)
    monkeypatch.setitem(CELLS, "own", own(0.5, "the same in other words"))
    assert load_model(path).architecture.cells[0].name == "own"
    monkeypatch.setitem(CELLS, "own", own(0.9))
    with pytest.raises(ModelError, match="the cell 'own' that is registered computes something else"):
        load_model(path)
    monkeypatch.delitem(CELLS, "own")
    with pytest.raises(ModelError, match="has a cell of your own, 'own': register it before you load the model"):
        load_model(path)


@pytest.mark.parametrize("size", [0, 3, 100, -1])
def test_truncated_file_is_refused(tmp_path: Path, size: int) -> None:
    path, _, _ = saved(tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ModelError, match="cannot read a model"):
        load_model(path)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot read a model"):
        load_model(tmp_path / "missing.safetensors")
    text = tmp_path / "text.safetensors"
    text.write_text("a text that is no model, and long enough to hold a header")
    with pytest.raises(ModelError, match="cannot read a model"):
        load_model(text)
    save_file({"w": torch.zeros(2)}, text, {"format": "pt"})
    with pytest.raises(ModelError, match="holds no rnnlab model"):
        load_model(text)


def test_arrays_that_do_not_fit_are_named(tmp_path: Path) -> None:
    path, tensors, about = saved(tmp_path)
    wrong: Mapping[str, dict[str, Tensor]] = {
        "h bias": tensors | {"h bias": tensors["h bias"][:, :-1].contiguous()},
        "y bias": {name: value for name, value in tensors.items() if name != "y bias"},
        "more": tensors | {"more": torch.zeros(1)},
    }
    for name, arrays in wrong.items():
        save_file(arrays, path, written(about))
        with pytest.raises(ModelError, match=f"do not fit the architecture: {name}$"):
            load_model(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", 1),
        ("architecture", MISSING),
        ("architecture", "{"),
        ("architecture", {}),
        ("population", MISSING),
        ("population", "many"),
        ("population", 0),
        ("nonlinearity", ["sigmoid"]),
        ("nonlinearity", 3),
        ("frozen", "x"),
        ("cells", ["tanh"]),
    ],
)
def test_metadata_that_makes_no_sense_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    path, tensors, about = saved(tmp_path)
    changed = {name: each for name, each in (about | {key: value}).items() if each is not MISSING}
    save_file(tensors, path, written(changed))
    with pytest.raises(RnnlabError):
        load_model(path)


def test_arrays_of_integers_are_refused(tmp_path: Path) -> None:
    path, tensors, about = saved(tmp_path)
    save_file({name: value.long() for name, value in tensors.items()}, path, written(about))
    with pytest.raises(ModelError):
        load_model(path)


def test_nothing_half_written_stays_and_an_older_file_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    path, *_ = saved(tmp_path)
    before = path.read_bytes()
    monkeypatch.setattr("safetensors.torch.save_file", full)
    for place in (path, tmp_path / "new.safetensors"):
        with pytest.raises(ModelError, match="No space left on device"):
            make().save(place)
    assert path.read_bytes() == before
    assert not (tmp_path / "new.safetensors").exists()


def test_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "model.safetensors"
    with pytest.raises(ModelError, match=rf"^cannot write {re.escape(str(path))}: "):
        make().save(path)
