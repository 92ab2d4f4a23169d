"""Models in files: as they were, or refused with the reason; nothing half-loaded."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rnnlab.engine.model_files import load_model
from rnnlab.errors import ModelError, RnnlabError
from tests.engine.models import make, random


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


def saved(tmp_path: Path) -> tuple[Path, dict[str, Tensor], dict[str, str]]:
    """A saved model, its arrays and its metadata."""
    path = tmp_path / "model.safetensors"
    model = make()
    model.save(path)
    metadata = {
        "format": "rnnlab model 1",
        "architecture": json.dumps(model.architecture.to_json()),
        "population": "null",
        "nonlinearity": "null",
    }
    return path, load_file(path), metadata


def test_metadata_of_the_tests_is_that_of_save(tmp_path: Path) -> None:
    path, tensors, metadata = saved(tmp_path)
    save_file(tensors, path, metadata)
    assert load_model(path).architecture == make().architecture


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
    path, tensors, metadata = saved(tmp_path)
    wrong: Mapping[str, dict[str, Tensor]] = {
        "h bias": tensors | {"h bias": tensors["h bias"][:, :-1].contiguous()},
        "y bias": {name: value for name, value in tensors.items() if name != "y bias"},
        "more": tensors | {"more": torch.zeros(1)},
    }
    for name, arrays in wrong.items():
        save_file(arrays, path, metadata)
        with pytest.raises(ModelError, match=f"do not fit the architecture: {name}$"):
            load_model(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("architecture", None),
        ("architecture", "{"),
        ("architecture", "{}"),
        ("population", None),
        ("population", '"many"'),
        ("population", "0"),
        ("nonlinearity", '["sigmoid"]'),
        ("nonlinearity", "3"),
    ],
)
def test_metadata_that_makes_no_sense_is_refused(tmp_path: Path, key: str, value: str | None) -> None:
    path, tensors, metadata = saved(tmp_path)
    changed = {name: text for name, text in (metadata | {key: value}).items() if text is not None}
    save_file(tensors, path, changed)
    with pytest.raises(RnnlabError):
        load_model(path)


def test_arrays_of_integers_are_refused(tmp_path: Path) -> None:
    path, tensors, metadata = saved(tmp_path)
    save_file({name: value.long() for name, value in tensors.items()}, path, metadata)
    with pytest.raises(ModelError):
        load_model(path)


def test_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "model.safetensors"
    with pytest.raises(ModelError, match=rf"^cannot write {re.escape(str(path))}: "):
        make().save(path)
