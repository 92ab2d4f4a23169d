"""Whether a file can be written, asked before hours of work."""

from pathlib import Path

from rnnlab.errors import RnnlabError


def check_writable(path: Path, error: type[RnnlabError]) -> None:
    """Raise an error of that kind where a folder is not there, or the file cannot be written; nothing stays behind."""
    if not path.parent.is_dir():
        raise error(f"cannot write {path}: there is no folder {path.parent}")
    is_new = not path.exists()
    try:
        with path.open("ab"):
            pass
        if is_new:
            path.unlink()
    except OSError as reason:
        raise error(f"cannot write {path}: {reason.strerror}") from reason
