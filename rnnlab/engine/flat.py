"""What an operation of torch's autograd takes and gives, a flat list of tensors, and the names of what is in it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rnnlab.engine.nodes import Part
from rnnlab.engine.plan import Plan
from rnnlab.engine.state import State
from rnnlab.errors import ModelError


class FlatNames(NamedTuple):
    """What the tensors are, in order: parameters, inputs, parts of a state."""

    parameters: tuple[str, ...]
    inputs: tuple[str, ...]
    parts: tuple[Part, ...]

    def split(self, tensors: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any], dict[Part, Any]]:
        """One thing for each tensor, by name."""
        first, second = len(self.parameters), len(self.parameters) + len(self.inputs)
        return (
            dict(zip(self.parameters, tensors[:first], strict=True)),
            dict(zip(self.inputs, tensors[first:second], strict=True)),
            dict(zip(self.parts, tensors[second:], strict=True)),
        )


def flattened(
    parameters: Mapping[str, Tensor], inputs: Mapping[str, Tensor], state: State | None
) -> tuple[FlatNames, tuple[Tensor, ...]]:
    """All tensors in one list."""
    values = state.values if state else {}
    names = FlatNames(tuple(parameters), tuple(inputs), tuple(values))
    return names, (*parameters.values(), *inputs.values(), *values.values())


def as_results(
    plan: Plan, outputs: Sequence[str], results: Sequence[Tensor], last_step: int
) -> tuple[dict[str, Tensor], State]:
    """What a pass gave in one list: outputs by name, and the state after the last step."""
    kept = [part for part, depth in plan.histories.items() if depth]
    return (
        dict(zip(outputs, results, strict=False)),
        State(last_step, dict(zip(kept, results[len(outputs) :], strict=True))),
    )


def arrived_gradients(
    outputs: Mapping[str, Any], final: Mapping[Part, Any], gradients: Sequence[Any]
) -> tuple[dict[str, Any], dict[Part, Any]]:
    """The gradients of outputs and of parts of the final state that are there at all, by name."""
    first = dict(zip(outputs, gradients, strict=False))
    second = dict(zip(final, gradients[len(outputs) :], strict=True))
    return (
        {name: gradient for name, gradient in first.items() if gradient is not None},
        {part: gradient for part, gradient in second.items() if gradient is not None},
    )


def taken(ctx: Any, path: str) -> Any:
    """What a forward pass left for the backward pass as `ctx.left`, which uses it up: gradients take its place.

    Raises:
        ModelError: gradients of gradients are asked for, or a second backward pass.
    """
    if torch.is_grad_enabled():  # create_graph
        raise ModelError(f"the {path} path has no gradients of gradients: make the model with path='reference'")
    _ = ctx.saved_tensors  # raises if a tensor was changed since
    if not hasattr(ctx, "left"):
        raise ModelError(f"the {path} path runs backward once: for retain_graph make the model with path='reference'")
    left = ctx.left
    del ctx.left
    return left
