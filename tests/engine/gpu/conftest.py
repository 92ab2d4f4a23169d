from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from rnnlab.engine.gpu import arrays, choice, kernels, launch, memory_bound, program, relay
from rnnlab.engine.gpu.choice import gpu_program
from rnnlab.engine.gpu.resident import Shape
from rnnlab.engine.gpu.sharing import Processors
from tests.engine.gpu.checks import IS_INTERPRETED, BreakKernels, ChooseShape
from tests.engine.gpu.emulator import PROCESSORS, EmulatedFunction


@pytest.fixture(autouse=IS_INTERPRETED, scope="session")
def interpreted_bf16() -> Generator[None]:
    """Triton's interpreter holds bf16 numbers as the 16 bits that they are, and would multiply those bits."""
    from triton.language import bfloat16
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    def numbers(of: Any) -> Any:
        return (of.data.astype(np.uint32) << 16).view(np.float32) if of.dtype.scalar == bfloat16 else of.data

    def dot(builder: Any, left: Any, right: Any, sums: Any, *_: Any) -> Any:
        assert left.dtype.scalar == right.dtype.scalar, f"a product of {left.dtype} and {right.dtype}"
        product = np.matmul(numbers(left), numbers(right), dtype=sums.data.dtype)
        return TensorHandle(product + sums.data, sums.dtype.scalar)

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(InterpreterBuilder, "create_dot", dot)
        yield


@pytest.fixture
def new_programs() -> Generator[None]:
    """Kernels made before are forgotten, and those made here with them."""
    gpu_program.cache_clear()
    yield
    gpu_program.cache_clear()


@pytest.fixture
def choose_shape(monkeypatch: pytest.MonkeyPatch) -> ChooseShape:
    """A function that says how many programs share a node; it returns a list of the shapes that were then used."""

    def choose(num_programs: int) -> list[Shape]:
        used: list[Shape] = []

        def best_shape(shapes: Sequence[Shape], *_: object) -> Shape:
            found = [shape for shape in shapes if shape.num_programs == num_programs] or shapes
            used.append(found[-1])
            return used[-1]

        monkeypatch.setattr(launch, "best_shape", best_shape)
        return used

    return choose


@pytest.fixture
def break_kernels(monkeypatch: pytest.MonkeyPatch, new_programs: None) -> BreakKernels:
    """A function that changes the text of kernels before it is compiled; it returns a list of texts that did change."""

    def change_all(old: str, new: str) -> list[str]:
        changed: list[str] = []
        gpu_program.cache_clear()

        def broken(make: Callable[..., Any]) -> Callable[..., Any]:
            def make_broken(source: str, *rest: Any) -> Any:
                head, start, body = source.partition(" kernel(")  # what stands above is common to all kernels
                assert start
                if old in body:
                    changed.append(body)
                return make(f"{head}{start}{body.replace(old, new)}", *rest)

            return make_broken

        for name in ("compiled", "CudaFunction"):
            monkeypatch.setattr(kernels, name, broken(getattr(kernels, name)))
        return changed

    return change_all


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch, new_programs: None) -> None:
    """The CPU stands for a GPU of few multiprocessors, which runs kernels in CUDA C++."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # or a model on the CPU would take the CPU's path
    for module in (program, kernels, choice, relay, memory_bound):
        monkeypatch.setattr(module, "is_interpreted", lambda: False)
    for module in (arrays, choice):
        monkeypatch.setattr(module, "processors", lambda _: Processors(PROCESSORS, PROCESSORS))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
    monkeypatch.setattr(kernels, "CudaFunction", EmulatedFunction)
