from collections.abc import Callable, Generator
from typing import Any

import pytest

from rnnlab.engine.gpu import program
from rnnlab.engine.gpu.choice import gpu_program
from tests.engine.gpu.checks import BreakKernels


@pytest.fixture
def new_programs() -> Generator[None]:
    """Kernels made before are forgotten, and those made here with them."""
    gpu_program.cache_clear()
    yield
    gpu_program.cache_clear()


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
            monkeypatch.setattr(program, name, broken(getattr(program, name)))
        return changed

    return change_all
