"""Models from the files that `Model.save` writes."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch

from rnnlab.architecture.architecture import Architecture
from rnnlab.engine.model import Model
from rnnlab.errors import ModelError


def load_model(path: str | Path) -> Model:
    """The model in a safetensors file that `Model.save` wrote."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ModelError(f"cannot read a model from {path}: {error}") from error
    if metadata.get("format") != "rnnlab model 1":
        raise ModelError(f"{path} holds no rnnlab model: its metadata has format {metadata.get('format')!r}")
    model = _model_of(metadata, path)
    wanted = {name: tuple(value.shape) for name, value in model.arrays.items()}
    found = {name: tuple(value.shape) for name, value in tensors.items() if value.dtype.is_floating_point}
    if wanted != found:
        names = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        raise ModelError(f"{path}: arrays that do not fit the architecture: {', '.join(names)}")
    model = model.to(next(iter(tensors.values())).dtype)
    model.load_state_dict({f"arrays.{name}": value for name, value in tensors.items()})
    for name in _frozen(metadata, path):
        if name in model.arrays:
            model.arrays[name].requires_grad_(False)
    return model


def _frozen(metadata: Mapping[str, str], path: str | Path) -> list[str]:
    """The arrays that are not to be trained; files of older versions do not say."""
    try:
        names = json.loads(metadata.get("frozen", "[]"))
    except ValueError as error:
        raise ModelError(f"{path}: its metadata are incomplete or garbled: {error}") from error
    if not isinstance(names, list):
        raise ModelError(f"{path}: its metadata are garbled: frozen is a list of arrays, got {names!r}")
    return names


def _model_of(metadata: Mapping[str, str], path: str | Path) -> Model:
    """The model that a file's metadata describe, its numbers still to come."""
    try:
        read = {key: json.loads(metadata[key]) for key in ("architecture", "population", "nonlinearity")}
    except (KeyError, ValueError) as error:
        raise ModelError(f"{path}: its metadata are incomplete or garbled: {error}") from error
    population, nonlinearity = read["population"], read["nonlinearity"]
    if not (population is None or type(population) is int) or not (nonlinearity is None or type(nonlinearity) is list):
        raise ModelError(f"{path}: population {population!r} or nonlinearity {nonlinearity!r} makes no sense")
    return Model(
        Architecture.from_json(read["architecture"]),
        generator=torch.Generator().manual_seed(0),
        population=population,
        nonlinearity=nonlinearity,
    )
