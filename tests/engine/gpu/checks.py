"""Checks of the gpu path against the reference: on which device, with which kernels, in which precisions."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from rnnlab import Architecture, Model, architecture
from rnnlab.engine.gpu.resident import Shape
from rnnlab.engine.state import State
from tests.engine.comparison import Case, Tolerance, Way, compare_ways, make_case, parameter

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
BreakKernels = Callable[[str, str], list[str]]  # the fixture `break_kernels`
ChooseShape = Callable[[int], list[Shape]]  # the fixture `choose_shape`
DEVICE = "cpu" if IS_INTERPRETED else "cuda"

TOLERANCES: Mapping[str, Tolerance] = {
    "float32": Tolerance(5e-5, 2e-6, "2e-7 a term, some hundred terms, and up to 65 steps that carry errors on"),
    "tf32": Tolerance(2e-2, 2e-3, "factors rounded to 11 bits, 5e-4 each, and up to 65 steps that carry errors on"),
    "bf16": Tolerance(8e-2, 2e-2, "factors rounded to 8 bits, 4e-3 each, and up to 65 steps that carry errors on"),
}


def compare(
    architecture: Architecture,
    *,
    device: str = DEVICE,
    precisions: Sequence[str] = ("float32",),
    paths: Sequence[str] | None = None,
    **numbers: Any,
) -> None:
    """Check that the gpu path computes what the reference does: outputs, final state, every gradient.

    Args:
        architecture: the network.
        device: where the fast path runs.
        precisions: how it multiplies.
        paths: which kernels run; left out, both kinds, those that spread a network if it can be.
        numbers: as `make_case` takes them.
    """
    case = make_case(architecture, **numbers)
    ways = {
        Way(path, torch.float32, device, precision): TOLERANCES[precision]
        for precision in precisions
        for path in paths or kinds(case, precision, device)
    }
    compare_ways(case, ways)


def kinds(case: Case, precision: str, device: str) -> tuple[str, ...]:
    """The paths of both kinds of kernels; only the one of populations if the network cannot be spread over the GPU."""
    from rnnlab.engine.gpu.choice import gpu_program, spread_reason

    program = gpu_program(case.architecture, case.nonlinearity, precision, "spread")
    num_members, num_sequences = next(iter(case.inputs.values())).shape[:2]
    found = spread_reason(program, (num_members, num_sequences), torch.device(device))
    return ("gpu-population",) if isinstance(found, str) else ("gpu-population", "gpu-spread")


NOT_FINITE = {"NaN": 0x7FFFFFFF, "infinity": 0x7F800000}  # as a GPU writes them


def check_not_finite(label: str, path: str, precision: str, device: str = DEVICE) -> None:
    """Check that a number that is not finite, in the state or a matrix, does what it does on the reference path.

    Infinite ones are in states only: with those of matrices kernels in CUDA C++ make NaN in float32.

    Args:
        label: of the number.
        path: which kernels run.
        precision: how they multiply.
        device: where.
    """
    number = torch.tensor(NOT_FINITE[label], dtype=torch.int32).view(torch.float32)
    # as many units as lie in memory: those beyond are NaN where zero meets infinity
    network = architecture("sh:tanh", input_size=3, output_size=2, units=16)
    x = torch.randn(3, 4, 3, generator=torch.Generator().manual_seed(1))
    found: list[list[torch.Tensor]] = []
    for each, where in (("reference", "cpu"), (path, device)):
        model = Model(network, generator=torch.Generator().manual_seed(0), path=each, precision=precision).to(where)
        _, state = model(x.to(where))
        values = {part: value.detach().clone() for part, value in state.values.items()}
        values["h", "h"][0, 0, 0, 5] = number
        with torch.no_grad():
            found.append([model(x.to(where), State(0, values))[0].cpu()])
            if label == "NaN":
                parameter(model, "h->h[1]")[0, 5, 7] = number
                found[-1].append(model(x.to(where), state)[0].cpu())
    for wanted, got in zip(*found, strict=True):
        assert bool(wanted.isnan().any()) == (label == "NaN")
        torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-3, equal_nan=True)


def check_backward_in_autocast(path: str, device: str = DEVICE) -> None:
    """Check that gradients have every digit that they have outside, though the backward pass runs inside of autocast.

    Args:
        path: which kernels run.
        device: where.
    """
    network = architecture("sh:gru", input_size=3, output_size=2, units=20)
    model = Model(network, generator=torch.Generator().manual_seed(0), path=path).to(device)
    x = torch.randn(3, 4, 3, generator=torch.Generator().manual_seed(1)).to(device).requires_grad_()
    found: list[list[torch.Tensor]] = []
    for is_inside in (False, True):
        y, _ = model(x)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=is_inside):
            found.append([*torch.autograd.grad(y.square().sum(), [*model.parameters(), x])])
    assert all(torch.equal(inside, outside) for outside, inside in zip(*found, strict=True))
