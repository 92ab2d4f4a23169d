"""Runs the reference and fast paths on the same numbers, and raises where they differ.

The CPU path is imported only where it is used: a machine with a GPU need not have its compiler.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from rnnlab import Architecture
from rnnlab.engine.model import Model, array_name
from rnnlab.engine.state import State

Results = dict[str, Tensor]
"""Everything a run produces: outputs, final state and gradients, each under a name that an error can show."""


class Tolerance(NamedTuple):
    """How far an array may be from the reference: `relative` times its largest number, or `absolute`."""

    relative: float
    absolute: float
    reason: str


TOLERANCES: Mapping[torch.dtype, Tolerance] = {
    # measured over the whole catalogue: 3e-14 and 7e-6 of the largest number
    torch.float64: Tolerance(
        1e-12,
        1e-14,
        "sums in another order: 1e-16 a term, some hundred terms, and up to 65 steps that carry errors on",
    ),
    torch.float32: Tolerance(
        5e-5,
        1e-6,
        "against float64, so rounding itself counts: 6e-8 a term, some hundred terms, and up to 65 steps",
    ),
}


class DifferenceError(AssertionError):
    """A result that is not what the reference says; the message names it."""


class Way(NamedTuple):
    """How a model is run: on which path, in which dtype, where, and how the gpu path multiplies."""

    path: str
    dtype: torch.dtype
    device: str = "cpu"
    precision: str = "float32"

    def __str__(self) -> str:
        return f"{self.path} {self.precision if self.path.startswith('gpu') else self.dtype}"


REFERENCE = Way("reference", torch.float64)


class Case(NamedTuple):
    """The numbers of a comparison, all of them float32 numbers, whatever their dtype, on the CPU."""

    architecture: Architecture
    parameters: dict[str, Tensor]
    inputs: dict[str, Tensor]
    population: int | None
    nonlinearity: tuple[str, ...] | None
    weights: int  # seed of the weights of the loss
    loss: tuple[str, ...]  # what the loss depends on: outputs, state
    state: State | None


def compare(architecture: Architecture, *, dtypes: Sequence[torch.dtype] = tuple(TOLERANCES), **numbers: Any) -> None:
    """Check that the CPU path computes what the reference does: outputs, final state, every gradient.

    Args:
        architecture: the network.
        dtypes: of the fast path; the reference always runs in float64.
        numbers: as `make_case` takes them.

    Raises:
        DifferenceError: naming the first result that differs.
    """
    compare_ways(make_case(architecture, **numbers), {Way("cpu", dtype): TOLERANCES[dtype] for dtype in dtypes})


def compare_ways(case: Case, ways: Mapping[Way, Tolerance]) -> None:
    """Check that each of some ways to run a case gives what the reference does; raises as `compare`."""
    wanted = run(case, REFERENCE)
    for way, tolerance in ways.items():
        found = run_poisoned(case, way)
        try:
            check_equal(found, wanted, tolerance, str(way))
        except DifferenceError:  # or a sum that happens to cancel: its terms have errors of their own size, not of its
            check_equal(found, wanted, tolerance, str(way), usual_sizes(case))
            for number in (1, 2):  # then nothing is wrong under losses that do not make it cancel
                other = case._replace(weights=case.weights + number)
                check_equal(run_poisoned(other, way), run(other, REFERENCE), tolerance, str(way))


def make_case(
    architecture: Architecture,
    *,
    num_steps: int,
    population: int | None = None,
    batch_size: int = 2,
    nonlinearity: Sequence[str] | None = None,
    steps_before: int = 0,
    loss: tuple[str, ...] = ("outputs", "state"),
    seed: int = 0,
) -> Case:
    """Random numbers for an architecture; matrices shrink what they multiply, so that errors do not grow with time.

    Args:
        architecture: the network.
        num_steps: T.
        population: P, or None for a single network.
        batch_size: B.
        nonlinearity: one for each member, in place of what the cells say.
        steps_before: how many steps came before; their state is passed in and its gradient compared.
        loss: what the loss depends on.
        seed: of all random numbers.
    """
    generator = torch.Generator().manual_seed(seed)
    num_members = population or 1
    parameters: dict[str, Tensor] = {}
    for spec in architecture.parameters:
        shrinks = 0.5 if nonlinearity is not None and "relu" in nonlinearity else 0.7  # nothing bounds what relu gives
        scale = shrinks / spec.shape[0] ** 0.5 if len(spec.shape) == 2 else 0.4
        parameters[spec.name] = scale * torch.randn(num_members, *spec.shape, generator=generator)
    whole = random_inputs(architecture, num_members, batch_size, steps_before + num_steps, generator)
    case = Case(
        architecture,
        parameters,
        {name: value[:, :, steps_before:] for name, value in whole.items()},
        population,
        None if nonlinearity is None else tuple(nonlinearity),
        seed + 1,
        loss,
        None,
    )
    if steps_before:
        before = {name: value[:, :, :steps_before] for name, value in whole.items()}
        with torch.no_grad():
            _, state = build(case, Way("reference", torch.float32))(_as_model_wants(before, population))
        case = case._replace(state=state)
    return case


def random_inputs(
    architecture: Architecture, num_members: int, batch_size: int, num_steps: int, generator: torch.Generator
) -> dict[str, Tensor]:
    """For each input by name numbers [P, B, T, N], or tokens [P, B, T]."""
    inputs: dict[str, Tensor] = {}
    for node in architecture.nodes:
        if node.kind == "input" and node.name not in inputs:
            shape = (num_members, batch_size, num_steps)
            if node.encoding == "tokens":
                inputs[node.name] = torch.randint(node.units, shape, generator=generator)
            else:
                inputs[node.name] = torch.randn(*shape, node.units, generator=generator)
    return inputs


def build(case: Case, way: Way) -> Model:
    """A model with the parameters of a case."""
    model = Model(
        case.architecture,
        generator=torch.Generator().manual_seed(0),
        population=case.population,
        nonlinearity=case.nonlinearity,
        path=way.path,
        precision=way.precision,
    ).to(way.device, way.dtype)
    with torch.no_grad():
        for name, value in case.parameters.items():
            parameter(model, name).copy_(value)
    return model


def parameter(model: Model, name: str) -> Tensor:
    """A parameter by its name in the architecture."""
    return model.arrays[array_name(name)]


def run(case: Case, way: Way) -> Results:
    """Forward and backward of a case."""
    model = build(case, way)
    inputs = {name: _leaf(value, way) for name, value in case.inputs.items()}
    state = case.state
    if state is not None:
        state = State(state.step, {part: _leaf(value, way) for part, value in state.values.items()})
    y, new_state = model(_as_model_wants(inputs, case.population), state)
    results = {"outputs": y, **_named("state", new_state.values)}
    seen = [value for name, value in results.items() if name.split(" ")[0] in case.loss]
    random_loss(seen, case.weights).backward()
    # what nothing depends on has no gradient in the one path, and may have zeros in the other
    for spec in case.architecture.parameters:
        results[f"gradient of {spec.name}"] = _gradient(parameter(model, spec.name))
    results |= _named("gradient of input", {name: _gradient(x) for name, x in inputs.items() if x.requires_grad})
    if state is not None:
        given = {part: _gradient(value) for part, value in state.values.items() if value.requires_grad}
        results |= _named("gradient of state", given)
    return {name: value.detach().cpu() for name, value in results.items()}


def run_poisoned(case: Case, way: Way) -> Results:
    """The same with memory that holds NaN until it is written to."""
    with poisoned_memory():
        return run_on_cpu_path(case, way) if way.path == "cpu" else run(case, way)


def run_on_cpu_path(case: Case, way: Way) -> Results:
    """The same where two things of the CPU path could hide an error: arrays that it keeps, and its small batches."""
    from rnnlab.engine import cpu_pass

    # a small batch has its outer products made for all times at once; every second comparison goes without
    few_rows = 0 if (way.dtype == torch.float64) == (case.weights % 2 == 1) else cpu_pass.FEW_ROWS
    with mock.patch.object(cpu_pass, "FEW_ROWS", few_rows):
        leave_nan_behind(case, way)
        return run(case, way)


def leave_nan_behind(case: Case, way: Way) -> None:
    """Run the case with NaN for every parameter: arrays that a path keeps and uses again then hold NaN as well."""
    poisoned = {name: torch.full_like(value, torch.nan) for name, value in case.parameters.items()}
    with np.errstate(all="ignore"):
        run(case._replace(parameters=poisoned), way)


def random_loss(values: Sequence[Tensor], seed: int) -> Tensor:
    """The sum of all numbers, each with a random weight of its own, so that no two gradients cancel by chance."""
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randn(value.shape, generator=generator).to(value) for value in values]
    return torch.stack([(value * weight).sum() for value, weight in zip(values, weights, strict=True)]).sum()


def usual_sizes(case: Case) -> Mapping[str, float]:
    """The largest number of each result under some other losses: few of them make the same gradient cancel."""
    others = [run(case._replace(weights=case.weights + number), REFERENCE) for number in range(1, 5)]
    return {name: max(each[name].abs().max().item() for each in others) for name, x in others[0].items() if x.numel()}


def check_equal(
    found: Results, wanted: Results, tolerance: Tolerance, where: str, sizes: Mapping[str, float] = MappingProxyType({})
) -> None:
    """Raise for the first result that differs by more than the tolerance, is not finite, or has another shape.

    Args:
        found: what a fast path gave.
        wanted: what the reference gave.
        tolerance: relative to the largest number of each result.
        where: for the error.
        sizes: largest numbers that count where they are larger than those of `wanted`.
    """
    if found.keys() != wanted.keys():
        raise DifferenceError(f"{where}: {sorted(found.keys() ^ wanted.keys())} are in one of the two only")
    for name, value in found.items():
        if value.shape != wanted[name].shape:
            raise DifferenceError(f"{where}, {name}: shape {list(value.shape)}, not {list(wanted[name].shape)}")
        if not value.numel():
            continue
        expected = wanted[name].double()
        error = (value.double() - expected).abs().max().item()
        size = max(expected.abs().max().item(), sizes.get(name, 0.0))
        allowed = tolerance.absolute + tolerance.relative * size
        if not error <= allowed:  # NaN is not
            raise DifferenceError(f"{where}, {name}: off by {error:.3g}, allowed is {allowed:.3g} ({tolerance.reason})")


@contextmanager
def poisoned_memory() -> Generator[None]:
    """New arrays that nobody has written to hold NaN, or for integers a number that is no index."""
    numpy_names, torch_names = ("empty", "empty_like"), ("empty", "empty_like", "empty_strided")
    patches = [mock.patch.object(np, name, _poisoned_array(getattr(np, name))) for name in numpy_names]
    patches += [mock.patch.object(torch, name, _poisoned_tensor(getattr(torch, name))) for name in torch_names]
    patches.append(mock.patch.object(Tensor, "new_empty", _poisoned_tensor(Tensor.new_empty)))
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in reversed(patches):
            patch.stop()


def _poisoned_array(make: Callable[..., Any]) -> Callable[..., Any]:
    def poisoned(*arguments: Any, **options: Any) -> Any:
        array = make(*arguments, **options)
        if array.dtype.kind in "fiu":
            array.fill(np.nan if array.dtype.kind == "f" else np.iinfo(array.dtype).max)
        return array

    return poisoned


def _poisoned_tensor(make: Callable[..., Any]) -> Callable[..., Any]:
    def poisoned(*arguments: Any, **options: Any) -> Any:
        tensor = make(*arguments, **options)
        if tensor.dtype != torch.bool:
            with torch.no_grad():
                tensor.fill_(torch.nan if tensor.dtype.is_floating_point else torch.iinfo(tensor.dtype).max)
        return tensor

    return poisoned


def _as_model_wants(inputs: Mapping[str, Tensor], population: int | None) -> dict[str, Tensor]:
    return {name: value[0] if population is None else value for name, value in inputs.items()}


def _named(what: str, values: Mapping[Any, Tensor]) -> Results:
    return {f"{what} {' '.join(key) if isinstance(key, tuple) else key}": value for key, value in values.items()}


def _leaf(value: Tensor, way: Way) -> Tensor:
    """A tensor of its own, which gathers a gradient if it is not of integers."""
    if not value.dtype.is_floating_point:
        return value.to(way.device, copy=True)
    return value.detach().to(way.device, way.dtype, copy=True).requires_grad_()


def _gradient(tensor: Tensor) -> Tensor:
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
