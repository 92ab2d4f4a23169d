"""The GPU path as one operation of torch's autograd: the entry that `Model` calls for every batch.

Before this, `choice.py` has chosen a `GpuProgram`. Here a call becomes a `GpuArrays` (`arrays.py`), which `launch.py`
fills in the forward pass and `backward.py` takes back.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from rnnlab.engine.flat import FlatNames, arrived_gradients, as_results, flattened, taken
from rnnlab.engine.gpu.arrays import GpuArrays
from rnnlab.engine.gpu.backward import GpuBackward
from rnnlab.engine.gpu.cuda_driver import enter_device
from rnnlab.engine.gpu.launch import forward
from rnnlab.engine.gpu.program import GpuProgram
from rnnlab.engine.state import State


def run_gpu(
    program: GpuProgram,
    parameters: Mapping[str, Tensor],
    inputs: Mapping[str, Tensor],
    state: State | None,
    *,
    keep_all: bool = False,
) -> tuple[dict[str, Tensor], State]:
    """Outputs by name, [P, B, T, N], and the final state; arguments as those of `run_reference`."""
    names, tensors = flattened(parameters, inputs, state)
    first_step = state.step or 0 if state else 0
    results: Sequence[Tensor] = _GpuFunction.apply(program, names, first_step, keep_all, *tensors)  # type: ignore[assignment]
    return as_results(program.plan, program.outputs, results, first_step + next(iter(inputs.values())).shape[2])


class _GpuFunction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, program: GpuProgram, names: FlatNames, first_step: int, keep_all: bool, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        parameters, inputs, parts = names.split([tensor.detach() for tensor in tensors])
        state = {part: _time_first(value) for part, value in parts.items()} if names.parts else None
        by_time = {key: _time_first(value) for key, value in inputs.items()}
        with _on(tensors[0].device):
            run = GpuArrays(program, parameters, by_time, state, first_step)
            forward(run)
        final = run.final_state(keep_all=keep_all).values()
        results = (
            *(
                _owned(run.give_away(name)) if name in program.unread else _copied(run.outputs()[name])
                for name in program.outputs
            ),
            *(_copied(value) for value in final),
        )
        if any(ctx.needs_input_grad):
            ctx.left, ctx.names = run, names
            ctx.save_for_backward(*tensors)  # torch then raises an error if one is changed in place
            ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(result for result in results if not result.dtype.is_floating_point))
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        run: GpuArrays = taken(ctx, "gpu")
        names: FlatNames = ctx.names
        outputs, final = run.outputs(), run.final_state()
        arrived = [None if gradient is None else _time_first(gradient) for gradient in gradients]
        first = 4 + len(names.parameters)
        with_inputs = any(ctx.needs_input_grad[first : first + len(names.inputs)])
        with _on(run.device):
            doutputs, dfinal = arrived_gradients(outputs, final, arrived)
            way_back = GpuBackward(run, with_inputs=with_inputs)
            dparameters = way_back.backward(doutputs, dfinal)
            dinputs = way_back.input_gradients() if with_inputs else {}
            dstate = way_back.state_gradients() if names.parts else {}
        return (
            *(None, None, None, None),
            *(dparameters.get(name) for name in names.parameters),
            *(_time_first(dinputs[name]) if name in dinputs else None for name in names.inputs),
            *(_time_first(dstate[part]) if part in dstate else None for part in names.parts),
        )


@contextmanager
def _on(device: torch.device) -> Generator[None]:
    """Inside, kernels are launched on that device, and autocast is off.

    Autocast would change the dtype of torch's own products. The model switches it off for the forward pass only, so a
    backward pass may still start inside of it.
    """
    with torch.autocast(device.type, enabled=False):
        if device.type != "cuda":  # for Triton's interpreter, on the CPU
            yield
            return
        with torch.cuda.device(device):
            enter_device(device.index or 0)
            yield


def _time_first(array: Tensor) -> Tensor:
    """[P, B, T, ...] as [P, T, B, ...], and back."""
    return array.transpose(1, 2)


def _owned(value: Tensor) -> Tensor:
    """An array that the backward pass does not need, made a result of its own; copied if much of it is padding."""
    if 4 * value.shape[3] < 3 * value.stride(2):
        return _copied(value)
    found = _time_first(value)
    made = torch.empty(0, dtype=found.dtype, device=found.device)  # a view could not be changed in place
    return made.set_(found.untyped_storage(), found.storage_offset(), found.shape, found.stride())


def _copied(value: Tensor) -> Tensor:
    """A copy without padding, in float32 unless it is integers: the backward pass may read the original."""
    found = _time_first(value)
    dtype = torch.float32 if found.dtype.is_floating_point else found.dtype
    return torch.empty(found.shape, dtype=dtype, device=found.device).copy_(found)
