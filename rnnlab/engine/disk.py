"""What was compiled, kept on disk for other processes. What cannot be read or written there is compiled again."""

import hashlib
import os
import tempfile
from contextlib import suppress
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
    """Keep it, whole or not at all, whoever else does the same; where nothing can be written, nothing is kept."""
    with suppress(OSError):
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=cache_folder(), delete=False) as file:
            partial = Path(file.name)
            try:
                file.write(hashlib.sha256(content).digest() + content)
                file.close()
                partial.replace(cache_folder() / name)
            finally:
                partial.unlink(missing_ok=True)
