"""Flat lists of tensors, as operations of torch's autograd take and return them, and the names of what is in them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rnnlab.engine.nodes import Part
from rnnlab.engine.plan import Plan
from rnnlab.engine.state import State
from rnnlab.errors import ModelError


class FlatNames(NamedTuple):
    """The order of the tensors: parameters, inputs, parts of a state."""

    parameters: tuple[str, ...]
    inputs: tuple[str, ...]
    parts: tuple[Part, ...]

    def split(self, tensors: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any], dict[Part, Any]]:
        """One value for each tensor, by name."""
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
    """The results of a pass by name: outputs, and the state after the last step."""
    kept = [part for part, depth in plan.histories.items() if depth]
    return (
        dict(zip(outputs, results, strict=False)),
        State(last_step, dict(zip(kept, results[len(outputs) :], strict=True))),
    )


def arrived_gradients(
    outputs: Mapping[str, Any], final: Mapping[Part, Any], gradients: Sequence[Any]
) -> tuple[dict[str, Any], dict[Part, Any]]:
    """The gradients that exist, of outputs and of parts of the final state, by name."""
    first = dict(zip(outputs, gradients, strict=False))
    second = dict(zip(final, gradients[len(outputs) :], strict=True))
    return (
        {name: gradient for name, gradient in first.items() if gradient is not None},
        {part: gradient for part, gradient in second.items() if gradient is not None},
    )


def taken(ctx: Any, path: str) -> Any:
    """What a forward pass left in `ctx.left` for the backward pass, which overwrites it with gradients.

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
