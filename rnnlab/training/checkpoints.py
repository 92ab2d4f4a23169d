"""Checkpoints: all that a run needs to go on, in one file that is either whole or not there.

A folder holds one checkpoint, `checkpoint.safetensors`: the tensors, and in its metadata a format, a record of
everything else as JSON, and a description of the run it belongs to. A new one is written in a folder of its own beside
it, forced to the disk, and only then takes its place, so that a process that is killed, or a disk that is full, leaves
the last whole checkpoint as it was.

    store = CheckpointStore(folder, run={"architecture": ..., "task": ..., "hyperparameters": ...})
    store.require_empty()                  # a new run; or, to go on with an old one:
    checkpoint = store.load()
    store.save(tensors, record)            # as often as wanted
"""

import json
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rnnlab.errors import CheckpointError

FORMAT = "rnnlab checkpoint 3"
FILE = "checkpoint.safetensors"
PARTIAL = "partial"  # a folder, for one that is being written
NEW = "new.safetensors"
MOST_DIFFERENCES = 3


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What was saved: tensors on the CPU by name, and everything else as JSON."""

    tensors: dict[str, Tensor]
    record: dict[str, Any]


class CheckpointStore:
    """One run's checkpoint in a folder.

    Args:
        folder: where it lies; made at the first `save`.
        run: what the run is, as JSON: only a checkpoint of the same is loaded.
    """

    def __init__(self, folder: str | Path, run: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        self._run = json.loads(json.dumps(run))  # as it comes back from the file: lists for tuples

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is one, of whichever run."""
        try:
            return self.path.exists()
        except OSError as error:
            raise CheckpointError(f"cannot read {self.folder}: {error.strerror}") from error

    def require_empty(self) -> None:
        """Refuse a folder that holds a checkpoint, which a new run would overwrite, or that cannot be written to."""
        if self.has_checkpoint:
            raise CheckpointError(f"{self.folder} holds a checkpoint already: resume it, or choose another folder")
        self._require_writable()

    def _require_writable(self) -> None:
        """Say now, not after hours of training, that nothing can be saved here."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.folder) as own:  # another process may be saving here
                (Path(own) / NEW).write_bytes(b"")
        except OSError as error:
            raise CheckpointError(f"cannot write to {self.folder}: {error.strerror}") from error

    @contextmanager
    def held(self) -> Generator[None]:
        """Inside, no other process trains in the folder; the lock goes with the process, however that ends.

        Raises:
            CheckpointError: another one does.
        """
        import fcntl  # not on Windows

        folder = os.open(self.folder, os.O_RDONLY)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                message = f"another process trains in {self.folder}: wait for it, or choose another folder"
                raise CheckpointError(message) from error
            yield
        finally:
            os.close(folder)

    def save(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Put a new checkpoint in the place of the last.

        Args:
            tensors: by name, on any device.
            record: the rest, ready for `json.dumps`.

        Raises:
            CheckpointError: it cannot be written; the last checkpoint is as it was.
        """
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        # clones: two names for the same memory, or parts of one, cannot be written as they are
        on_host = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
        texts = {"run": json.dumps(self._run), "record": json.dumps(record)}
        metadata = {"format": FORMAT, **texts, "checksum": _checksum(on_host, *texts.values())}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with _own_folder(self.folder / PARTIAL) as partial:
                new = partial / NEW
                new.touch()
                # the mode of the user's other files: safetensors lets nobody else read the files it makes
                mode = new.stat().st_mode
                save_file(on_host, new, metadata)
                new.chmod(mode)
                _flush(new)
                os.replace(new, self.path)
            with suppress(OSError):  # without, an older one may come back; Windows and some network drives cannot do it
                _flush(self.folder)
        except (OSError, SafetensorError) as error:
            kept = "; the last one is as it was" if _is_there(self.path) else ""
            raise CheckpointError(f"cannot save a checkpoint in {self.folder}: {_reason(error)}{kept}") from error

    def load(self) -> Checkpoint:
        """The checkpoint of this run, to go on from.

        Raises:
            CheckpointError: there is none, it cannot be read, is damaged, of another version or of another run; or the
                next one could not be saved here.
        """
        if not self.has_checkpoint:
            raise CheckpointError(f"no checkpoint to resume in {self.folder}: leave out resume to start a new run")
        tensors, metadata = _read(self.path)
        if metadata.get("format") != FORMAT:
            raise CheckpointError(
                f"{self.path} has format {metadata.get('format')!r}, this version of rnnlab reads {FORMAT!r}: "
                "resume it with the version that wrote it"
            )
        if metadata.get("checksum") != _checksum(tensors, metadata.get("run", ""), metadata.get("record", "")):
            raise CheckpointError(f"{self.path} is damaged: its content does not match its checksum")
        self._check_run(json.loads(metadata["run"]))
        self._require_writable()
        return Checkpoint(tensors, json.loads(metadata["record"]))

    def _check_run(self, found: Any) -> None:
        differing = list(_differences(found, self._run))
        if differing:
            shown = "; ".join(differing[:MOST_DIFFERENCES])
            more = f"; and {len(differing) - MOST_DIFFERENCES} more" if len(differing) > MOST_DIFFERENCES else ""
            raise CheckpointError(f"{self.path} belongs to another run: {shown}{more}")


def _checksum(tensors: Mapping[str, Tensor], *texts: str) -> str:
    """A number that changes with any bit of the content."""
    found = 0
    for text in texts:
        found = zlib.crc32(text.encode(), found)
    for name, tensor in sorted(tensors.items()):
        found = zlib.crc32(f"{name} {tensor.dtype} {list(tensor.shape)}".encode(), found)
        found = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, found)
    return f"crc32 {found:08x}"


@contextmanager
def _own_folder(folder: Path) -> Generator[Path]:
    """A folder for what may not come to its end, gone afterwards; what a killed process left there goes first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _flush(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk and not on its way there."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(error: Exception) -> str:
    """Why a file could not be written, as the system says it: safetensors gives the number in its text.

    >>> _reason(OSError(28, "No space left on device")), _reason(Exception("I/O error: No space (os error 28)"))
    ('No space left on device', 'No space left on device')
    """
    if isinstance(error, OSError):
        return str(error.strerror)
    found = re.search(r"\(os error (\d+)\)", str(error))
    return os.strerror(int(found[1])) if found else str(error)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except SafetensorError as error:
        raise CheckpointError(f"{path} is damaged or no checkpoint: {error}") from error
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error


def _differences(found: Any, wanted: Any, place: str = "") -> Iterator[str]:
    """What differs between two JSON values, and where.

    >>> list(_differences({"task": {"length": 200}, "seed": 1}, {"task": {"length": 100}, "seed": 1}))
    ['task.length is 200 there, 100 here']
    """
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in dict.fromkeys((*found, *wanted)):
            inner = f"{place}.{key}" if place else str(key)
            yield from _differences(found.get(key), wanted.get(key), inner)
    elif isinstance(found, list) and isinstance(wanted, list):
        if len(found) != len(wanted):
            yield f"{place} has {len(found)} entries there, {len(wanted)} here"
            return
        for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
            yield from _differences(one, other, f"{place}[{number}]")
    elif found != wanted:
        yield f"{place} is {_short(found)} there, {_short(wanted)} here"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
