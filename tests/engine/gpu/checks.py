"""Runs the reference in float64 and the gpu path on the same numbers, and raises where they differ.

Imports nothing of the CPU path, whose compiler a machine with a GPU need not have.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor

from rnnlab import Architecture
from rnnlab.engine.model import Model
from rnnlab.engine.state import State

Results = dict[str, Tensor]
"""Outputs, final state and gradients, each under a name that an error can show."""


class Tolerance(NamedTuple):
    """How far an array may be from the reference: `relative` times its largest number, or `absolute`."""

    relative: float
    absolute: float
    reason: str


TOLERANCES: Mapping[str, Tolerance] = {
    "float32": Tolerance(1e-4, 2e-6, "2e-7 a term, some hundred terms, and up to 65 steps that carry errors on"),
    "tf32": Tolerance(2e-2, 2e-3, "factors rounded to 11 bits, 5e-4 each, and up to 65 steps that carry errors on"),
    "bf16": Tolerance(8e-2, 2e-2, "factors rounded to 8 bits, 4e-3 each, and up to 65 steps that carry errors on"),
}


class DifferenceError(AssertionError):
    """A result that is not what the reference says; the message names it."""


class Case(NamedTuple):
    """The numbers of a comparison, all of them float32 numbers, on the CPU."""

    architecture: Architecture
    parameters: dict[str, Tensor]
    inputs: dict[str, Tensor]
    population: int | None
    nonlinearity: tuple[str, ...] | None
    seed: int
    state: State | None


def compare(
    architecture: Architecture,
    *,
    device: str,
    num_steps: int,
    population: int | None = None,
    batch_size: int = 2,
    nonlinearity: Sequence[str] | None = None,
    steps_before: int = 0,
    precisions: Sequence[str] = ("float32",),
    paths: Sequence[str] | None = None,
    seed: int = 0,
) -> None:
    """Check that the gpu path computes what the reference does: outputs, final state, every gradient.

    On a GPU both kinds of kernels are checked: those of populations, and those that spread a network, if it can be.
    """
    case = make_case(architecture, num_steps, population, batch_size, nonlinearity, steps_before, seed)
    wanted = run(case, "reference", torch.float64, "cpu", "float32")
    for path in paths or (("gpu-population", "gpu") if device == "cuda" else ("gpu-population",)):
        for precision in precisions:
            with poisoned_memory():
                found = run(case, path, torch.float32, device, precision)
            check_equal(found, wanted, TOLERANCES[precision], f"{path} {precision}")


def make_case(
    architecture: Architecture,
    num_steps: int,
    population: int | None,
    batch_size: int,
    nonlinearity: Sequence[str] | None,
    steps_before: int,
    seed: int,
) -> Case:
    """Random numbers for an architecture; matrices shrink what they multiply, so that errors do not grow with time."""
    generator = torch.Generator().manual_seed(seed)
    members = population or 1
    parameters: dict[str, Tensor] = {}
    for spec in architecture.parameters:
        scale = 0.7 / spec.shape[0] ** 0.5 if len(spec.shape) == 2 else 0.4
        parameters[spec.name] = scale * torch.randn(members, *spec.shape, generator=generator)
    whole: dict[str, Tensor] = {}
    for node in architecture.nodes:
        if node.kind == "input" and node.name not in whole:
            shape = (members, batch_size, steps_before + num_steps)
            if node.encoding == "tokens":
                whole[node.name] = torch.randint(node.units, shape, generator=generator)
            else:
                whole[node.name] = torch.randn(*shape, node.units, generator=generator)
    case = Case(
        architecture,
        parameters,
        {name: value[:, :, steps_before:] for name, value in whole.items()},
        population,
        None if nonlinearity is None else tuple(nonlinearity),
        seed,
        None,
    )
    if steps_before:
        before = {name: value[:, :, :steps_before] for name, value in whole.items()}
        with torch.no_grad():
            model = build(case, "reference", torch.float32, "cpu", "float32")
            case = case._replace(state=model(_as_model_wants(before, population))[1])
    return case


def build(case: Case, path: str, dtype: torch.dtype, device: str, precision: str) -> Model:
    """A model with the parameters of a case."""
    model = Model(
        case.architecture,
        generator=torch.Generator().manual_seed(0),
        population=case.population,
        nonlinearity=case.nonlinearity,
        path=path,
        precision=precision,
    ).to(device, dtype)
    with torch.no_grad():
        for spec in case.architecture.parameters:
            parameter(model, spec.name).copy_(case.parameters[spec.name])
    return model


def parameter(model: Model, name: str) -> Tensor:
    """A parameter by its name in the architecture."""
    return model.arrays[name.replace(".", "\N{ONE DOT LEADER}")]


def run(case: Case, path: str, dtype: torch.dtype, device: str, precision: str) -> Results:
    """Forward and backward of a case on one path."""
    model = build(case, path, dtype, device, precision)
    inputs = {name: _leaf(value, dtype, device) for name, value in case.inputs.items()}
    state = case.state
    if state is not None:
        state = State(state.step, {part: _leaf(value, dtype, device) for part, value in state.values.items()})
    y, new_state = model(_as_model_wants(inputs, case.population), state)
    results = {"outputs": y, **_named("state", new_state.values)}
    _random_loss(list(results.values()), case.seed + 1).backward()
    for spec in case.architecture.parameters:
        results[f"gradient of {spec.name}"] = _gradient(parameter(model, spec.name))
    results |= _named("gradient of input", {name: _gradient(x) for name, x in inputs.items() if x.requires_grad})
    if state is not None:
        given = {part: _gradient(value) for part, value in state.values.items() if value.requires_grad}
        results |= _named("gradient of state", given)
    return {name: value.detach().cpu() for name, value in results.items()}


def _random_loss(values: Sequence[Tensor], seed: int) -> Tensor:
    """The sum of all numbers, each with a random weight of its own, so that no two gradients cancel by chance."""
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randn(value.shape, generator=generator).to(value) for value in values]
    return torch.stack([(value * weight).sum() for value, weight in zip(values, weights, strict=True)]).sum()


def check_equal(found: Results, wanted: Results, tolerance: Tolerance, where: str) -> None:
    """Raise for the first result that differs by more than the tolerance, is not finite, or has another shape."""
    if found.keys() != wanted.keys():
        raise DifferenceError(f"{where}: {sorted(found.keys() ^ wanted.keys())} are in one of the two only")
    for name, value in found.items():
        if value.shape != wanted[name].shape:
            raise DifferenceError(f"{where}, {name}: shape {list(value.shape)}, not {list(wanted[name].shape)}")
        if not value.numel():
            continue
        expected = wanted[name].double()
        error = (value.double() - expected).abs().max().item()
        allowed = tolerance.absolute + tolerance.relative * expected.abs().max().item()
        if not error <= allowed:  # NaN is not
            raise DifferenceError(f"{where}, {name}: off by {error:.3g}, allowed is {allowed:.3g} ({tolerance.reason})")


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """New tensors that nobody has written to hold NaN."""
    with (
        mock.patch.object(torch, "empty", _poisoned(torch.empty)),
        mock.patch.object(torch, "empty_like", _poisoned(torch.empty_like)),
    ):
        yield


def _poisoned(make: Callable[..., Any]) -> Callable[..., Any]:
    def poisoned(*arguments: Any, **options: Any) -> Any:
        tensor = make(*arguments, **options)
        return tensor.fill_(torch.nan) if tensor.dtype.is_floating_point else tensor

    return poisoned


def _as_model_wants(inputs: Mapping[str, Tensor], population: int | None) -> dict[str, Tensor]:
    return {name: value[0] if population is None else value for name, value in inputs.items()}


def _named(what: str, values: Mapping[Any, Tensor]) -> Results:
    return {f"{what} {' '.join(key) if isinstance(key, tuple) else key}": value for key, value in values.items()}


def _leaf(value: Tensor, dtype: torch.dtype, device: str) -> Tensor:
    """A tensor of its own, which gathers a gradient if it is not of integers."""
    if not value.dtype.is_floating_point:
        return value.clone().to(device)
    return value.detach().to(device, dtype, copy=True).requires_grad_()


def _gradient(tensor: Tensor) -> Tensor:
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
