"""Nothing is timed before it computes the same as its peer: outputs, and gradients of inputs and numbers."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from rnnlab.errors import BenchError

# of the largest value; a float32 sum over some 10,000 products (batch and steps) is exact to about 1e-6 of it
TOLERANCE = 1e-4

Results = Mapping[str, Tensor]


def results(module: nn.Module, x: Tensor, dy: Tensor) -> dict[str, Tensor]:
    """Output, gradient of the input, and gradients of all numbers by name, for `dy` the gradient of the output."""
    given = x.clone().requires_grad_()
    module.zero_grad(set_to_none=True)
    y, _ = module(given)
    y.backward(dy)
    assert given.grad is not None
    found = {"output": y.detach(), "gradient of x": given.grad}
    for name, value in module.named_parameters():
        if value.requires_grad:
            # a number that nothing reads, as the start of a phase that never comes first, has gradient 0
            gradient = torch.zeros_like(value) if value.grad is None else value.grad
            found[f"gradient of {name.removeprefix('arrays.')}"] = gradient.clone()
    module.zero_grad(set_to_none=True)
    return found


def member_results(found: Results, member: int) -> dict[str, Tensor]:
    """Of the results of a population those of one member, as it would have them alone."""
    return {
        name: value[member] if name in ("output", "gradient of x") else value[member : member + 1]
        for name, value in found.items()
    }


def by_time(*values: Tensor) -> tuple[Tensor, ...]:
    """[B, T, N] as [T, B, N] or back, or the same behind a population axis, contiguous."""
    return tuple(value.transpose(-3, -2).contiguous() for value in values)


def check_equal(what: str, found: Results, expected: Results, tolerance: float = TOLERANCE) -> None:
    """Raise where a tensor of `expected` is missing in `found` or differs by more than the tolerance of its size.

    Args:
        what: what is compared, for the error.
        found: what rnnlab computes.
        expected: what the peer computes in float64.
        tolerance: how much they may differ, as a share of the largest value.
    """
    for name, wanted in expected.items():
        if name not in found:
            raise BenchError(f"{what}: no {name} to compare; refused to time it")
        mine = found[name]
        if mine.shape != wanted.shape:
            shapes = f"{list(mine.shape)}, the peer's {list(wanted.shape)}"
            raise BenchError(f"{what}: {name} is {shapes}; refused to time it")
        error = _error(mine, wanted)
        if not error <= tolerance:  # NaN is no equality
            raise BenchError(
                f"{what}: {name} differs by {error:.1e} of its largest value (at most {tolerance:.0e}); "
                "refused to time it"
            )


def _error(found: Tensor, expected: Tensor) -> float:
    """The largest difference, as a share of the largest value."""
    return float((found.double() - expected.double()).abs().max()) / (float(expected.abs().max()) or 1.0)


def training_step(module: nn.Module, x: Tensor, dy: Tensor) -> Callable[[], Tensor]:
    """Forward, backward and all weight gradients, the input product included."""

    def step() -> Tensor:
        module.zero_grad(set_to_none=True)
        y, _ = module(x)
        y.backward(dy)
        return y

    return step
