"""Text of Triton kernels made into functions: written to a file, for Triton reads a source from where it lies."""

import atexit
import hashlib
import importlib.util
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from rnnlab.engine.disk import cache_folder, write_whole
from rnnlab.errors import ModelError


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
    path = _file_of(source, f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def _file_of(source: str, name: str) -> Path:
    """A file that holds the text; where the folder cannot be written to, one that lasts as long as the process."""
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
