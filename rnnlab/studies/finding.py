"""Specifications that a user means: a file, or the name of one that comes with rnnlab."""

from pathlib import Path

from rnnlab.errors import TuningError
from rnnlab.hints import hint
from rnnlab.studies.specification import StudySpec, load_spec

FOLDERS = tuple(Path(__file__).with_name(name) for name in ("specifications", "papers"))


def shipped_specs() -> dict[str, Path]:
    """The files of the specifications that come with rnnlab, by name.

    >>> "example" in shipped_specs()
    True
    """
    return {path.stem: path for folder in FOLDERS for path in _by_name(folder)}


def _by_name(folder: Path) -> list[Path]:
    """The specifications in a folder; `zhang-table2` comes before `zhang-table2-edges`, as its file would not."""
    return sorted(folder.glob("*.toml"), key=lambda path: path.stem)


def is_file(written: str | Path) -> bool:
    """Whether a file is meant, not a name."""
    return isinstance(written, Path) or Path(written).suffix in (".toml", ".json") or "/" in written


def find_spec(written: str | Path, *, scale: str | None = None) -> StudySpec:
    """The specification that a user means.

    Args:
        written: a TOML or JSON file, or the name of a specification that comes with rnnlab.
        scale: which of its scales; if omitted, its default.

    Raises:
        TuningError: there is none, or a key in it is wrong.

    >>> find_spec("example", scale="smoke").study
    'example-smoke'
    """
    if is_file(written):
        return load_spec(written, scale=scale)
    shipped = shipped_specs()
    if str(written) not in shipped:
        raise TuningError(f"no specification is named {str(written)!r}; {hint(written, shipped)}")
    return load_spec(shipped[str(written)], scale=scale)
