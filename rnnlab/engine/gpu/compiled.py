"""Text of Triton kernels made into functions: written to a file, for Triton reads a source from where it lies."""

import hashlib
import importlib.util
import os
from functools import lru_cache
from typing import Any, NamedTuple

from rnnlab.engine.disk import cache_folder


class Argument(NamedTuple):
    """An array that a kernel is given: what it is, and of which part, node or edge."""

    kind: str
    of: Any


class KernelText(NamedTuple):
    """A kernel as text, and the arrays it wants in the order of its arguments."""

    source: str
    arguments: tuple[Argument, ...]
    num_stages: int  # in Triton, how many steps of its product loops are on their way at a time
    num_warps: int  # of 32 threads each


@lru_cache(maxsize=512)
def compiled(source: str) -> Any:
    """The function `kernel` of a text; Triton compiles it when it is first launched, unless an earlier run has."""
    name = f"rnnlab_kernel_{hashlib.sha256(source.encode()).hexdigest()[:24]}"
    path = cache_folder() / f"{name}.py"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(source)
        partial.replace(path)  # whole or not at all, whoever else is writing
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel
