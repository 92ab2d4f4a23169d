"""What was compiled, kept on disk for other processes. What cannot be read or written there is compiled again."""

import hashlib
import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """Where the text of kernels and what was made of it is kept; Triton keeps its own in a folder of its own."""
    root = os.environ.get("XDG_CACHE_HOME") or Path(os.path.expanduser("~")) / ".cache"
    return Path(root) / "rnnlab" / "kernels"


def kept(name: str) -> bytes | None:
    """What was kept under a name; None where there is nothing, or not the whole of it."""
    try:
        content = (cache_folder() / name).read_bytes()
    except OSError:
        return None
    digest, found = content[:32], content[32:]
    return found if hashlib.sha256(found).digest() == digest else None  # a machine may have stopped while it wrote


def keep(name: str, content: bytes) -> None:
    """Keep it for who asks for that name; where nothing can be written, nothing is kept, and only time is lost."""
    write_whole(cache_folder() / name, hashlib.sha256(content).digest() + content)


def write_whole(path: Path, content: bytes) -> bool:
    """Write a file that is there whole or not at all, whoever else is writing; whether that was possible."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:  # of threads each has its own
            partial = Path(folder) / path.name
            partial.write_bytes(content)
            partial.replace(path)
    except OSError:
        return False
    return True
