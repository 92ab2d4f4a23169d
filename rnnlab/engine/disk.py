"""Compiled code, kept on disk for other processes. Whatever cannot be read or written there is compiled again."""

import hashlib
import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """The folder for the text of kernels and their compiled form; Triton has a folder of its own."""
    root = os.environ.get("XDG_CACHE_HOME") or Path(os.path.expanduser("~")) / ".cache"
    return Path(root) / "rnnlab" / "kernels"


def kept(name: str) -> bytes | None:
    """The content kept under a name; None if there is none, or it is incomplete."""
    try:
        content = (cache_folder() / name).read_bytes()
    except OSError:
        return None
    digest, found = content[:32], content[32:]
    return found if hashlib.sha256(found).digest() == digest else None  # a machine may have stopped while it wrote


def keep(name: str, content: bytes) -> None:
    """Keep content under a name; if nothing can be written, nothing is kept, and only time is lost."""
    write_whole(cache_folder() / name, hashlib.sha256(content).digest() + content)


def write_whole(path: Path, content: bytes) -> bool:
    """Write a file completely or not at all, whoever else is writing it; returns whether that succeeded."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:  # of threads each has its own
            partial = Path(folder) / path.name
            partial.write_bytes(content)
            partial.replace(path)
    except OSError:
        return False
    return True
