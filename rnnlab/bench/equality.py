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


def check_equal(what: str, found: Results, expected: Results) -> None:
    """Raise where a tensor of `expected` is missing in `found` or differs by more than the tolerance of its size."""
    for name, wanted in expected.items():
        if name not in found:
            raise BenchError(f"{what}: no {name} to compare; refused to time it")
        mine, wanted = found[name].double(), wanted.double()
        if mine.shape != wanted.shape:
            raise BenchError(
                f"{what}: {name} is {list(mine.shape)}, the peer's {list(wanted.shape)}; refused to time it"
            )
        largest = float(wanted.abs().max())
        error = float((mine - wanted).abs().max()) / (largest or 1.0)
        if not error <= TOLERANCE:  # NaN is no equality
            raise BenchError(
                f"{what}: {name} differs by {error:.1e} of its largest value (at most {TOLERANCE:.0e}); "
                "refused to time it"
            )


def training_step(module: nn.Module, x: Tensor, dy: Tensor) -> Callable[[], Tensor]:
    """Forward, backward and all weight gradients, the input product included."""

    def step() -> Tensor:
        module.zero_grad(set_to_none=True)
        y, _ = module(x)
        y.backward(dy)
        return y

    return step
