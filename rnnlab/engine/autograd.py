"""The fast CPU path as one operation of torch's autograd."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rnnlab.engine.cpu_arrays import CpuArrays, Shape
from rnnlab.engine.cpu_backward import backward
from rnnlab.engine.cpu_forward import forward
from rnnlab.engine.flat import FlatNames, arrived_gradients, as_results, flattened, taken
from rnnlab.engine.nodes import output_names
from rnnlab.engine.pool import Pool
from rnnlab.engine.state import State
from rnnlab.errors import ModelError


def run_cpu(
    pool: Pool,
    parameters: Mapping[str, Tensor],
    inputs: Mapping[str, Tensor],
    state: State | None,
    *,
    keep_all: bool = False,
) -> tuple[dict[str, Tensor], State]:
    """Outputs by name, [P, B, T, N], and the final state; arguments as those of `run_reference`."""
    _check(pool, parameters, inputs)
    names, tensors = flattened(parameters, inputs, state)
    first_step = state.step or 0 if state else 0
    keeps = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    options = _Options(first_step, keep_all, keeps)
    results: Sequence[Tensor] = _CpuFunction.apply(pool, names, options, *tensors)  # type: ignore[assignment]
    return as_results(
        pool.program.plan,
        output_names(pool.program.architecture),
        results,
        first_step + next(iter(inputs.values())).shape[2],
    )


class _Options(NamedTuple):
    first_step: int
    keep_all: bool
    keeps_arrays: bool  # whether a backward pass may come


_BEFORE = 3  # arguments of the function before its tensors


class _CpuFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pool: Pool, names: FlatNames, options: _Options, *tensors: Tensor) -> tuple[Tensor, ...]:
        parameters, inputs, parts = names.split([tensor.detach().numpy() for tensor in tensors])
        state = {part: _time_first(value) for part, value in parts.items()} if names.parts else None
        arrays = pool.take(_shape(pool, parameters, inputs, state is not None, options.first_step))
        contiguous = {name: np.ascontiguousarray(value) for name, value in parameters.items()}
        arrays.load(contiguous, {name: _time_first(value) for name, value in inputs.items()}, state)
        forward(arrays)
        outputs = [*arrays.outputs().values(), *arrays.final_state(keep_all=options.keep_all).values()]
        results = tuple(torch.from_numpy(_time_first(value).copy()) for value in outputs)
        if options.keeps_arrays:
            ctx.left, ctx.pool, ctx.names = arrays, pool, names
            ctx.save_for_backward(*tensors)  # so that torch notices if one is changed in place
            ctx.set_materialize_grads(False)
        else:
            pool.give(arrays)
        ctx.mark_non_differentiable(*(result for result in results if not result.dtype.is_floating_point))
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        arrays: CpuArrays = taken(ctx, "cpu")
        names: FlatNames = ctx.names
        outputs, final = arrays.outputs(), arrays.final_state()
        arrived = [None if gradient is None else _time_first(gradient.numpy()) for gradient in gradients]
        doutputs, dfinal = arrived_gradients(outputs, final, arrived)
        _, inputs, parts = names.split(ctx.needs_input_grad[_BEFORE:])
        # the state may hold values of an input, too
        wanted = [name for name, is_needed in inputs.items() if is_needed or parts.get((name, ""))]
        dparameters, way_back = backward(arrays, doutputs, dfinal, frozenset(wanted))
        dinputs, dstate = way_back.input_gradients(), way_back.state_gradients()
        results = (
            *[None] * _BEFORE,
            *(_tensor(dparameters.get(name)) for name in names.parameters),
            *(_tensor(dinputs.get(name), swap=True) for name in names.inputs),
            *(_tensor(dstate.get(part), swap=True) for part in names.parts),
        )
        ctx.pool.give(arrays)
        return results


def _check(pool: Pool, parameters: Mapping[str, Tensor], inputs: Mapping[str, Tensor]) -> None:
    """Refuse arrays of wrong shape or type, beyond whose end the machine code would read."""
    members = len(next(iter(inputs.values())))
    dtype = next(iter(parameters.values())).dtype
    for name, shape in pool.program.shapes.items():
        value = parameters[name]
        if value.shape != (members, *shape) or value.dtype != dtype:
            found = f"{value.dtype} of shape {list(value.shape)}"
            raise ModelError(
                f"{name!r} must be {dtype} of shape {[members, *shape]}, got {found}".replace("torch.", "")
            )


def _shape(
    pool: Pool, parameters: Mapping[str, Any], inputs: Mapping[str, Any], has_state: bool, first_step: int
) -> Shape:
    members, batch, steps = next(iter(inputs.values())).shape[:3]
    dtype = next(iter(parameters.values())).dtype.name
    # a state holds what came before for each member
    is_shared = members > 1 and not has_state
    shared = frozenset(name for name, value in inputs.items() if is_shared and value.strides[0] == 0)
    return Shape(members, steps, batch, dtype, first_step % pool.program.architecture.period, shared)


def _time_first(array: Any) -> Any:
    """[P, B, T, ...] as [P, T, B, ...], and back."""
    return array.swapaxes(1, 2)


def _tensor(array: Any, *, swap: bool = False) -> Tensor | None:
    if array is None:
        return None
    # a copy where it is a view of an array that will be used again
    return torch.from_numpy(_time_first(array).copy() if swap else array)
