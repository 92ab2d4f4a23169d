"""Text of Triton kernels made into functions: written to a file, for Triton reads a source from where it lies."""

import atexit
import hashlib
import importlib.util
import os
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

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


def cache_folder() -> Path:
    """Where the text of kernels is kept; Triton keeps what it compiles in a folder of its own."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "rnnlab" / "kernels"


def write_whole(path: Path, content: bytes) -> bool:
    """Write a file that is there whole or not at all, whoever else is writing; whether that was possible.

    Nothing is said where it was not: all works, and only takes longer when it is wanted again.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:  # of threads each has its own
            partial = Path(folder) / path.name
            partial.write_bytes(content)
            partial.replace(path)
    except OSError:
        return False
    return True


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
