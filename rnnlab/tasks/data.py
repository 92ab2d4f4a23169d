"""Data files: found in the user's folders, verified by sha256, and returned as bytes. No torch, no downloads.

Commands call these, and print what they return (each prints itself, and has `to_json`):

    rnnlab data add PATH     add_folder(path) -> DataListing   what the folder holds; remembered for this user
    rnnlab data list         list_data() -> DataListing        what is there, what is missing, where it is published

A task that reads data calls `contents(data_set)`. With default arguments it knows its sizes, scores and chance levels
even without the files. Functions take `folders` and `data_sets` to use others than the user's.
"""

import gzip
import hashlib
import lzma
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rnnlab.errors import TaskError
from rnnlab.tasks.data_catalogue import DATA_SETS, DataFile, DataSet
from rnnlab.tasks.data_folders import VARIABLE, data_folders, remember_folder
from rnnlab.tasks.registry import TASKS

PACKINGS = ("", ".gz", ".xz", ".zip")


@dataclass(frozen=True)
class FileState:
    """Whether a file of a data set is present and correct; `problem` says in one line what is wrong with it."""

    file: DataFile
    state: Literal["present", "missing", "damaged"]
    path: Path | None = None
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The state as a JSON object."""
        path = None if self.path is None else str(self.path)
        known = {"file": self.file.path, "sha256": self.file.sha256}
        return known | {"state": self.state, "path": path, "problem": self.problem}


@dataclass(frozen=True)
class DataState:
    """The files of one data set."""

    data_set: DataSet
    files: tuple[FileState, ...]

    @property
    def is_complete(self) -> bool:
        """Whether all files are there and verified."""
        return all(file.state == "present" for file in self.files)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that read it by default."""
        return tuple(name for name, entry in TASKS.items() if entry.data_set == self.data_set.name)

    @property
    def is_missing(self) -> bool:
        """Whether none of its files is present."""
        return all(file.state == "missing" for file in self.files)

    def __str__(self) -> str:
        label = "there" if self.is_complete else "missing" if self.is_missing else "incomplete"
        lines = [f"{self.data_set.name:<20}{label:<12}{self.data_set.summary}"]
        if self.tasks:
            lines += [f"  tasks       {', '.join(self.tasks)}"]
        if not self.is_missing:
            lines += [f"  {_line(file)}" for file in self.files]
        else:
            lines += [f"  needs       {_paths(self.data_set.files)}"]
            if self.data_set.instead:
                lines += [f"  or          {_paths(self.data_set.instead)}"]
        lines += [f"  published   {self.data_set.published}", f"  terms       {self.data_set.terms}"]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The data set with its files' states as a JSON object."""
        about = {"name": self.data_set.name, "summary": self.data_set.summary, "is_complete": self.is_complete}
        origin = {"published": self.data_set.published, "terms": self.data_set.terms}
        return about | {"tasks": list(self.tasks), "files": [file.to_json() for file in self.files]} | origin


@dataclass(frozen=True)
class DataListing:
    """Data sets and the folders in which their files were looked for."""

    folders: tuple[Path, ...]
    data_sets: tuple[DataState, ...]

    def __str__(self) -> str:
        hint = "" if self.folders else f": `rnnlab data add FOLDER`, or set {VARIABLE}"
        if not all(state.is_complete for state in self.data_sets):
            hint += f"; files may be packed as {', '.join(PACKINGS[1:])}"
        return "\n\n".join([_looked_in(self.folders) + hint, *(str(state) for state in self.data_sets)])

    def to_json(self) -> dict[str, Any]:
        """Folders and data sets as a JSON object."""
        return {
            "folders": [str(folder) for folder in self.folders],
            "data_sets": [state.to_json() for state in self.data_sets],
        }


def list_data(data_sets: Iterable[DataSet] | None = None, folders: Sequence[Path] | None = None) -> DataListing:
    """Every data set: whether its files are there and verified, where they are published, and under which terms.

    Every file that is found is unpacked and hashed again.
    """
    looked_in = tuple(data_folders() if folders is None else folders)
    listed = DATA_SETS.values() if data_sets is None else data_sets
    return DataListing(looked_in, tuple(_data_state(data_set, looked_in) for data_set in listed))


def add_folder(path: str | Path, data_sets: Iterable[DataSet] | None = None) -> DataListing:
    """Remember a folder of data files for this user, and say which data sets it holds.

    Raises:
        TaskError: there is no such folder, none of the files is in it, or one of them is damaged; then nothing is
            remembered.
    """
    folder = Path(path).expanduser().absolute()
    if not folder.is_dir():
        raise TaskError(f"{path} is not a folder")
    found = [state for state in list_data(data_sets, (folder,)).data_sets if not state.is_missing]
    if not found:
        raise TaskError(f"{path} holds no file that rnnlab knows; `rnnlab data list` names them")
    problems = [file.problem for state in found for file in state.files if file.problem is not None]
    if problems:
        raise TaskError("; ".join(problems))
    remember_folder(folder)
    return DataListing((folder,), tuple(found))


def contents(data_set: DataSet, folders: Sequence[Path] | None = None) -> dict[str, bytes]:
    """The verified contents of a data set's files by their names without folders, unpacked.

    Raises:
        TaskError: a file is missing or damaged; the line says which, and what to do.
    """
    looked_in = tuple(data_folders() if folders is None else folders)
    files = _files(data_set, looked_in)
    found = {file: _find(file, looked_in) for file in files}
    if missing := [file.path for file, path in found.items() if path is None]:
        instead = f" (or {_paths(data_set.instead)})" if data_set.instead else ""
        raise TaskError(
            f"data set {data_set.name}: {', '.join(missing)}{instead} missing ({_looked_in(looked_in)}); published: "
            f"{data_set.published}; get it, then `rnnlab data add FOLDER` or set {VARIABLE}"
        )
    return {_name(file): verified_content(file, path) for file, path in found.items() if path is not None}


def verified_content(file: DataFile, path: Path) -> bytes:
    """The unpacked content of a file, once its size and sha256 are verified.

    Raises:
        TaskError: it cannot be read or unpacked, or is not the file that rnnlab knows.
    """
    try:
        content = _unpacked(path, file.num_bytes + 1)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, zipfile.BadZipFile, RuntimeError) as error:
        raise TaskError(f"{path} is damaged and cannot be unpacked ({error}); copy it again") from error
    except OSError as error:
        raise TaskError(f"cannot read {path}: {error.strerror}") from error
    if len(content) != file.num_bytes:
        size = f"{len(content):,}" if len(content) < file.num_bytes else f"more than {file.num_bytes:,}"
        raise TaskError(f"{path} is damaged: it holds {size} bytes, not {file.num_bytes:,}; copy it again")
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.sha256:
        raise TaskError(
            f"{path} is not the file that rnnlab knows: sha256 {digest}, expected {file.sha256}; copy it again"
        )
    return content


def _data_state(data_set: DataSet, folders: Sequence[Path]) -> DataState:
    return DataState(data_set, tuple(_file_state(file, folders) for file in _files(data_set, folders)))


def _file_state(file: DataFile, folders: Sequence[Path]) -> FileState:
    path = _find(file, folders)
    if path is None:
        return FileState(file, "missing")
    try:
        verified_content(file, path)
    except TaskError as error:
        return FileState(file, "damaged", path, str(error))
    return FileState(file, "present", path)


def _files(data_set: DataSet, folders: Sequence[Path]) -> tuple[DataFile, ...]:
    """The files to read: those that can replace the others, if they are present and none of the first choice is."""
    if data_set.instead and not any(_find(file, folders) for file in data_set.files):
        others = data_set.instead
        return others if all(_find(file, folders) for file in others) else data_set.files
    return data_set.files


def _find(file: DataFile, folders: Sequence[Path]) -> Path | None:
    """The first path that is a file, packed or not."""
    for folder in folders:
        for place in file.places:
            for packing in PACKINGS:
                if (path := folder / f"{place}{packing}").is_file():
                    return path
    return None


def _unpacked(path: Path, limit: int) -> bytes:
    """At most `limit` bytes of what is packed in a file, so that no file fills the memory."""
    if path.suffix == ".zip":
        return _unzipped(path, limit)
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opener(path, "rb") as stream:
        return stream.read(limit)


def _unzipped(path: Path, limit: int) -> bytes:
    with zipfile.ZipFile(path) as archive:
        if path.stem not in archive.namelist():
            raise zipfile.BadZipFile(f"it holds no {path.stem}")
        with archive.open(path.stem) as stream:
            return stream.read(limit)


def _paths(files: Sequence[DataFile]) -> str:
    return ", ".join(file.path for file in files)


def _name(file: DataFile) -> str:
    return file.path.rpartition("/")[2]


def _looked_in(folders: Sequence[Path]) -> str:
    if not folders:
        return "no data folder is known"
    shown = [str(folder) if folder.is_dir() else f"{folder} (not there now)" for folder in folders]
    return f"looked in {', '.join(shown)}"


def _line(file: FileState) -> str:
    if file.problem is not None:
        return f"{file.state:<12}{file.problem}"
    return f"{file.state:<12}{file.path or file.file.path}"
