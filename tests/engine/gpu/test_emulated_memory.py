"""Whose memory the GPU path reads and hands out, and how long it lives; in the emulator, where there is no GPU."""

import copy
import gc
import weakref
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from rnnlab import Architecture, EdgeSpec, Model, NodeSpec, architecture
from rnnlab.engine.gpu import program
from rnnlab.engine.gpu.autograd import run_gpu
from rnnlab.engine.gpu.choice import gpu_program
from rnnlab.training.numbers import Layout, arrays_of
from tests.engine.gpu.emulator import NEEDS, EmulatedFunction

pytestmark = NEEDS

SIZES = {"input_size": 3, "output_size": 2}


def test_parameters_may_be_cut_from_a_larger_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU reads pieces of 16 bytes where they begin at 16 bytes only."""
    network = architecture("sh:tanh", input_size=16, output_size=16, units=16)
    model = Model(network, generator=torch.Generator().manual_seed(0), path="gpu-population")
    flat = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    torch.nn.utils.vector_to_parameters(torch.cat((flat[:1], flat))[1:], model.parameters())
    assert any(array.data_ptr() % 16 for array in model.parameters())
    given: list[int] = []
    launch_kernel = EmulatedFunction.launch

    def watched(function: EmulatedFunction, grid: Any, num_threads: int, arguments: Sequence[int], **how: Any) -> None:
        given.extend(arguments[:-4])  # but for T, B, the first step and member
        launch_kernel(function, grid, num_threads, arguments, **how)

    monkeypatch.setattr(EmulatedFunction, "launch", watched)
    y, _ = model(torch.randn(5, 4, 16))
    y.sum().backward()
    assert given
    assert not [pointer for pointer in given if pointer % 16]


@pytest.mark.parametrize(("path", "units"), [("gpu-population", 13), ("gpu-population", 16), ("gpu-spread", 13)])
def test_numbers_may_be_views_of_one_matrix(path: str, units: int) -> None:
    """As training lends them: rows of members that lie far apart, at any address. Matrices are padded or not."""
    network = architecture("sh:gru", **SIZES, units=units)
    own, lent = (Model(network, generator=torch.Generator().manual_seed(0), population=2, path=path) for _ in range(2))
    layout = Layout(network)
    layout.lend(layout.gather([array.detach() for array in arrays_of(own)]), arrays_of(lent))
    assert not all(array.is_contiguous() for array in arrays_of(lent))
    x = torch.randn(2, 4, 5, 3, generator=torch.Generator().manual_seed(1))
    found = []
    for model in (own, lent):
        y, _ = model(x)
        y.square().sum().backward()
        found.append([y, *(array.grad for array in arrays_of(model))])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def outputs_that_read_outputs(*edges: tuple[str, str, int]) -> Architecture:
    """A layer h that x drives, and outputs y and z; 13 units are wide enough for outputs not to be copied."""
    nodes = [NodeSpec(name="x", kind="input", units=3), NodeSpec(name="h", kind="hidden", units=13, cell="tanh")]
    outputs = [NodeSpec(name=name, kind="output", units=13) for name in ("y", "z")]
    every = [("x", "h", 0), ("h", "h", 1), ("h", "y", 0), *edges]
    return Architecture(nodes + outputs, [EdgeSpec(source=(a, 0), target=(b, 0), delay=delay) for a, b, delay in every])


BELONGING = {
    "one output": (architecture("sh:gru", input_size=3, output_size=13, units=13), {"y"}),
    "a narrow output": (architecture("sh:gru", input_size=3, output_size=2, units=13), {"y"}),
    "above a layer": (architecture("do:tanh", input_size=3, output_size=13, units=13), {"y"}),
    "two": (outputs_that_read_outputs(("h", "z", 0)), {"y", "z"}),
    "one reads the other": (outputs_that_read_outputs(("y", "z", 0)), {"z"}),
    "one reads the other's past": (outputs_that_read_outputs(("y", "z", 2), ("h", "z", 0)), {"z"}),
    "period 2": (architecture("mongia-d:lstm", input_size=3, output_size=13, units=13), set[str]()),
}


@pytest.mark.parametrize("label", BELONGING)
def test_outputs_belong_to_who_asked_for_them(label: str) -> None:
    """The backward pass neither changes them, though some lie where it works, nor minds if they were changed."""
    network, unread = BELONGING[label]
    made = gpu_program(network, None, "float32", "population")
    assert made.unread == unread
    model = Model(network, generator=torch.Generator().manual_seed(0), population=2, path="gpu-population")
    inputs = {"x": torch.randn(2, 4, 5, 3, generator=torch.Generator().manual_seed(1))}
    found = []
    for is_changed in (False, True):
        parameters = {name: array.detach().clone().requires_grad_() for name, array in model.arrays.items()}
        outputs, _ = run_gpu(made, parameters, inputs, None)
        before = {name: value.detach().clone() for name, value in outputs.items()}
        if is_changed:
            for value in outputs.values():
                value.detach().fill_(torch.nan)
        torch.autograd.backward(list(outputs.values()), [torch.ones_like(value) for value in outputs.values()])
        assert is_changed or all(torch.equal(outputs[name], value) for name, value in before.items())
        found.append([array.grad for array in parameters.values() if array.grad is not None])
    assert found[0]
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    assert all(value.untyped_storage().nbytes() < 1.4 * 4 * value.numel() for value in outputs.values())


def test_an_output_may_be_changed_in_place() -> None:
    """Though it is not a tensor of its own, and torch has the change in its gradient."""
    model = Model(BELONGING["one output"][0], generator=torch.Generator().manual_seed(0), path="gpu-population")
    x = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(1))
    found = []
    for factor in (1, 2):
        model.zero_grad()
        y, _ = model(x)
        y.mul_(factor).sum().backward()
        found.append([array.grad / factor for array in arrays_of(model) if array.grad is not None])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_programs_live_as_long_as_a_model_that_used_them() -> None:
    """Recorded CUDA graphs read their tensors, whatever other architectures have run since."""
    model = Model(
        architecture("sh:tanh", **SIZES, units=5),
        generator=torch.Generator().manual_seed(0),
        population=2,
        nonlinearity=["tanh", "relu"],
        path="gpu-population",
    )
    read: list[weakref.ref[torch.Tensor]] = []
    with pytest.MonkeyPatch.context() as patches:
        is_relu = program.GpuProgram.is_relu

        def watched(*arguments: Any) -> torch.Tensor:
            found = is_relu(*arguments)
            read.append(weakref.ref(found))
            return found

        patches.setattr(program.GpuProgram, "is_relu", watched)
        for _ in range(2):
            model(torch.zeros(2, 1, 3, 3))
            for units in range(10, 11 + gpu_program.cache_info().maxsize):
                gpu_program(architecture("sh:tanh", **SIZES, units=units), None, "float32", "population")
    gc.collect()
    assert read[0]() is not None
    assert all(each() is read[0]() for each in read)
    copy.deepcopy(model)
    del model
    gc.collect()
    assert read[0]() is None
