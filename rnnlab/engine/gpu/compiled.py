"""Kernels as text, and the text of Triton kernels made into functions.

`writer.py` and `cuda_writer.py` end in a `KernelText`. For CUDA C++, `cuda_driver.py` compiles it. For Triton, the text
is written to a file and imported here, because Triton reads the source of a function from its file.
"""

import atexit
import hashlib
import importlib.util
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from rnnlab.engine.disk import cache_folder, write_whole
from rnnlab.errors import ModelError
from rnnlab.graph.elements import NodeKey


class Argument(NamedTuple):
    """An array that a kernel takes: what kind it is, and which part, node or edge it belongs to."""

    kind: str
    of: Any


class KernelText(NamedTuple):
    """A kernel as text, and the arrays that it takes, in the order of its arguments."""

    source: str
    arguments: tuple[Argument, ...]
    num_stages: int  # of Triton's software pipeline: steps of a product loop whose loads are in flight
    num_warps: int  # of 32 threads each
    awaited: tuple[tuple[Argument, NodeKey], ...] = ()  # what programs wait for one another to write, and whose it is


@lru_cache(maxsize=512)
def compiled(source: str) -> Any:
    """The function `kernel` of a text; Triton compiles it at the first launch, or finds it in its cache on disk."""
    name = f"rnnlab_kernel_{hashlib.sha256(source.encode()).hexdigest()[:24]}"
    path = _file_of(source, f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def _file_of(source: str, name: str) -> Path:
    """A file that holds the text: in the cache folder, or if that is not writable, in one that this process deletes."""
    for folder in (cache_folder(), _own_folder()):
        path = folder / name
        try:
            if path.read_text() == source:
                return path
        except (OSError, UnicodeDecodeError):
            pass
        if write_whole(path, source.encode()):
            return path
    raise ModelError(f"neither {cache_folder()} nor {_own_folder()} can be written to: kernels have no place to be in")


@lru_cache(maxsize=1)
def _own_folder() -> Path:
    made = tempfile.TemporaryDirectory(prefix="rnnlab-")
    atexit.register(made.cleanup)
    return Path(made.name)
