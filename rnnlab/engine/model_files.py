"""Models in safetensors files, with all that they are beside their numbers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from rnnlab.architecture.architecture import Architecture
from rnnlab.architecture.cells import BUILT_IN, CELLS, fingerprint
from rnnlab.engine.model import Model
from rnnlab.errors import ModelError

_FORMAT = 2
_KEY = "rnnlab model"  # one text for all: safetensors writes several in any order


def save_model(model: Model, path: str | Path) -> None:
    """Write a model; a file of the same model is the same, byte for byte."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    about = {
        "format": _FORMAT,
        "architecture": model.architecture.to_json(),
        "population": model.population,
        "nonlinearity": model.nonlinearity,
        "frozen": [name for name, value in model.arrays.items() if not value.requires_grad],
        "cells": {cell.name: fingerprint(cell) for cell in model.architecture.cells if cell.name not in BUILT_IN},
    }
    tensors = {name: value.detach().contiguous() for name, value in model.arrays.items()}
    place = Path(path)
    was_there = place.exists()
    try:
        place.touch()
        mode = place.stat().st_mode  # that of the user's other files: safetensors lets nobody else read those it makes
        save_file(tensors, str(path), {_KEY: json.dumps(about)})
        place.chmod(mode)
    except (OSError, SafetensorError) as error:
        if not was_there and place.is_file():
            place.unlink()  # nothing half-written stays
        raise ModelError(f"cannot write {path}: {error}") from error


def load_model(path: str | Path) -> Model:
    """The model in a safetensors file that `Model.save` wrote.

    Cells of your own must be registered before, and compute what they did: a file holds no code.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ModelError(f"cannot read a model from {path}: {error}") from error
    about = _about(metadata, path)
    model = _model_of(about, path)
    wanted = {name: tuple(value.shape) for name, value in model.arrays.items()}
    found = {name: tuple(value.shape) for name, value in tensors.items() if value.dtype.is_floating_point}
    if wanted != found:
        names = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        raise ModelError(f"{path}: arrays that do not fit the architecture: {', '.join(names)}")
    model = model.to(next(iter(tensors.values())).dtype)
    model.load_state_dict({f"arrays.{name}": value for name, value in tensors.items()})
    for name in about["frozen"]:
        if name in model.arrays:
            model.arrays[name].requires_grad_(False)
    return model


def _about(metadata: Mapping[str, str], path: str | Path) -> dict[str, Any]:
    """What a file says of its model, complete and of the right types."""
    if _KEY not in metadata:
        raise ModelError(f"{path} holds no rnnlab model: its metadata has no {_KEY!r}")
    try:
        about = json.loads(metadata[_KEY])
    except ValueError as error:
        raise ModelError(f"{path}: its metadata are garbled: {error}") from error
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        kind = about.get("format") if isinstance(about, dict) else about
        raise ModelError(f"{path} has format {kind!r}, this version of rnnlab reads {_FORMAT}")
    if missing := [
        key for key in ("architecture", "population", "nonlinearity", "frozen", "cells") if key not in about
    ]:
        raise ModelError(f"{path}: its metadata lack {', '.join(missing)}")
    population, nonlinearity = about["population"], about["nonlinearity"]
    if not (population is None or type(population) is int) or not (nonlinearity is None or type(nonlinearity) is list):
        raise ModelError(f"{path}: population {population!r} or nonlinearity {nonlinearity!r} makes no sense")
    if type(about["frozen"]) is not list or type(about["cells"]) is not dict:
        raise ModelError(f"{path}: its metadata are garbled: frozen is a list of arrays, cells a table")
    return about


def _model_of(about: dict[str, Any], path: str | Path) -> Model:
    """The model that a file describes, its numbers still to come."""
    for name, digest in about["cells"].items():
        if name not in CELLS:
            raise ModelError(f"{path} has a cell of your own, {name!r}: register it before you load the model")
        if fingerprint(CELLS[name]) != digest:
            raise ModelError(f"{path}: the cell {name!r} that is registered computes something else than the file's")
    return Model(
        Architecture.from_json(about["architecture"]),
        generator=torch.Generator().manual_seed(0),
        population=about["population"],
        nonlinearity=about["nonlinearity"],
    )
