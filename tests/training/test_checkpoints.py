"""The store of checkpoints: whole or not there, whatever happens while it is written."""

import errno
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from rnnlab.errors import CheckpointError
from rnnlab.training import checkpoints
from rnnlab.training.checkpoints import FILE, NEW, PARTIAL, CheckpointStore

RUN = {"architecture": {"nodes": ["x", "h"]}, "task": {"name": "adding", "length": 100}, "seed": 0}
RECORD = {"step": 7, "scores": [0.5, float("inf")], "note": "ä"}


def some_tensors(seed: int = 0, size: int = 100) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "weights": torch.randn(3, size, generator=generator),
        "exact": torch.randn((), generator=generator, dtype=torch.float64),
        "generator": generator.get_state(),
        "is_alive": torch.tensor([True, False, True]),
        "empty": torch.empty(0, 4),
    }


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    found = CheckpointStore(tmp_path / "run", RUN)
    found.save(some_tensors(), RECORD)
    return found


def check_intact(store: CheckpointStore) -> None:
    """The checkpoint is the one of the fixture, and nothing lies beside it."""
    found = store.load()
    assert found.record == RECORD
    assert found.tensors.keys() == some_tensors().keys()
    assert all(torch.equal(found.tensors[name], tensor) for name, tensor in some_tensors().items())
    assert [path.name for path in store.folder.iterdir()] == [FILE]


def test_what_is_saved_comes_back_bit_for_bit(store: CheckpointStore) -> None:
    check_intact(store)
    dtypes = {name: tensor.dtype for name, tensor in store.load().tensors.items()}
    assert dtypes == {name: tensor.dtype for name, tensor in some_tensors().items()}


def test_new_checkpoint_takes_the_place_of_the_last(store: CheckpointStore) -> None:
    store.save(some_tensors(1), {"step": 8})
    assert store.load().record == {"step": 8}
    assert torch.equal(store.load().tensors["weights"], some_tensors(1)["weights"])
    assert [path.name for path in store.folder.iterdir()] == [FILE]


def test_tensors_that_share_memory_are_saved_apart(store: CheckpointStore) -> None:
    whole = torch.arange(6.0)
    store.save({"a": whole, "b": whole, "part": whole[1:3], "turned": whole.view(2, 3).T}, {})
    found = store.load().tensors
    assert torch.equal(found["b"], whole)
    assert torch.equal(found["part"], whole[1:3])
    assert torch.equal(found["turned"], whole.view(2, 3).T)


@contextmanager
def limited_file_size(limit: int) -> Iterator[None]:
    """Writing beyond the limit fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_file_that_grows_too_large_leaves_the_last_one(store: CheckpointStore) -> None:
    with limited_file_size(10_000), pytest.raises(CheckpointError, match="File too large; the last one is as it was"):
        store.save(some_tensors(1, size=10_000), {"step": 8})
    check_intact(store)


def test_full_disk_leaves_the_last_one(store: CheckpointStore, monkeypatch) -> None:
    def full(descriptor: int) -> None:
        assert not stat.S_ISDIR(os.fstat(descriptor).st_mode)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoints.os, "fsync", full)  # where a file system that delays writing says so
    with pytest.raises(CheckpointError, match="No space left on device; the last one is as it was"):
        store.save(some_tensors(1), {"step": 8})
    monkeypatch.undo()
    check_intact(store)


def test_really_full_disk_leaves_the_last_one(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        small = CheckpointStore(tmp_path / "run", RUN)
        small.save(some_tensors(), RECORD)
        with pytest.raises(CheckpointError, match="No space left on device; the last one is as it was"):
            small.save(some_tensors(1, size=100_000), {"step": 8})
        check_intact(small)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@contextmanager
def without_rights(folder: Path, mode: int) -> Iterator[None]:
    """Nobody in particular, who finds a folder that only its owner may use beyond `mode`."""
    before, is_root = folder.stat().st_mode, os.geteuid() == 0
    parents = [parent for parent in folder.parents if is_root and parent.stat().st_uid == 0 and parent != Path("/")]
    modes = {parent: parent.stat().st_mode for parent in parents}
    for parent in parents:
        parent.chmod(modes[parent] | 0o055)
    folder.chmod(mode)
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        for path, old in {**modes, folder: before}.items():
            path.chmod(old)


def test_folder_that_cannot_be_written_leaves_the_last_one(store: CheckpointStore) -> None:
    with without_rights(store.folder, 0o555):
        with pytest.raises(CheckpointError, match=r"cannot save .*run: Permission denied; the last one is as it was"):
            store.save(some_tensors(1), {"step": 8})
        with pytest.raises(CheckpointError, match=r"cannot write to .*other: Permission denied"):
            CheckpointStore(store.folder / "other", RUN).require_empty()
        with pytest.raises(CheckpointError, match=r"cannot write to .*run: Permission denied"):
            store.load()  # to go on for hours, and then not to be able to save
    check_intact(store)


def test_folder_that_cannot_be_read_is_said(store: CheckpointStore) -> None:
    with without_rights(store.folder, 0o000):
        with pytest.raises(CheckpointError, match=r"cannot read .*run: Permission denied"):
            store.load()
        with pytest.raises(CheckpointError, match=r"cannot save .*run: Permission denied$"):
            store.save(some_tensors(1), {"step": 8})
    check_intact(store)


def test_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"cannot write to .*file: File exists"):
        CheckpointStore(tmp_path / "file", RUN).require_empty()
    with pytest.raises(CheckpointError, match=r"cannot save .*file: File exists"):
        CheckpointStore(tmp_path / "file", RUN).save(some_tensors(), RECORD)


def test_new_run_does_not_overwrite_an_old_one(store: CheckpointStore) -> None:
    with pytest.raises(CheckpointError, match="holds a checkpoint already: resume it, or choose another folder"):
        store.require_empty()
    CheckpointStore(store.folder / "empty", RUN).require_empty()
    assert not list((store.folder / "empty").iterdir())


def test_nothing_to_resume_is_said(tmp_path: Path) -> None:
    (tmp_path / PARTIAL).mkdir()
    (tmp_path / PARTIAL / NEW).write_bytes(b"begun")
    with pytest.raises(CheckpointError, match="no checkpoint to resume in"):
        CheckpointStore(tmp_path, RUN).load()


def test_others_may_read_it_as_they_may_other_files(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, RUN)
    before = os.umask(0o027)
    try:
        store.save(some_tensors(), RECORD)
    finally:
        os.umask(before)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o640


def test_what_a_killed_process_left_is_cleared_away(store: CheckpointStore) -> None:
    (store.folder / PARTIAL).mkdir()
    (store.folder / PARTIAL / ".tmp123").write_bytes(b"begun")
    store.save(some_tensors(), RECORD)
    assert [path.name for path in store.folder.iterdir()] == [FILE]


@pytest.mark.parametrize("kept", [0, 4, 500, -1])
def test_truncated_file_is_refused(store: CheckpointStore, kept: int) -> None:
    store.path.write_bytes(store.path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match="is damaged or no checkpoint"):
        store.load()


def test_any_changed_bit_is_found(store: CheckpointStore) -> None:
    content = store.path.read_bytes()
    places = [content.index(b'\\"step\\"') + 12, content.index(b"adding"), content.index(b"weights"), -3]
    for place in (*places, len(content) // 2):
        changed = bytearray(content)
        changed[place] ^= 1
        store.path.write_bytes(changed)
        with pytest.raises(CheckpointError, match="damaged"):
            store.load()


def test_other_version_is_refused(store: CheckpointStore, monkeypatch) -> None:
    monkeypatch.setattr(checkpoints, "FORMAT", "rnnlab checkpoint 4")
    with pytest.raises(CheckpointError, match="has format 'rnnlab checkpoint 3', this version of rnnlab reads"):
        store.load()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": {"name": "adding", "length": 200}}, "task.length is 100 there, 200 here"),
        ({"seed": 1}, "seed is 0 there, 1 here"),
        ({"architecture": {"nodes": ["x", "z"]}}, 'architecture.nodes[1] is "h" there, "z" here'),
        ({"architecture": {"nodes": ["x"]}}, "architecture.nodes has 2 entries there, 1 here"),
        ({"optimiser": "adam"}, 'optimiser is null there, "adam" here'),
        ({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}, "c is null there, 3 here; and 2 more"),
    ],
)
def test_checkpoint_of_another_run_is_refused(store: CheckpointStore, change, message: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        CheckpointStore(store.folder, RUN | change).load()
    assert f"{store.path} belongs to another run: " in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_tuples_of_a_run_are_the_lists_of_its_file(store: CheckpointStore) -> None:
    assert CheckpointStore(store.folder, RUN | {"architecture": {"nodes": ("x", "h")}}).load().record == RECORD


@pytest.mark.parametrize(("written", "changed"), [(b"[3,100]", b"[100,3]"), (b'"F32"', b'"I32"')])
def test_other_shapes_and_types_of_the_same_bytes_are_found(store: CheckpointStore, written, changed) -> None:
    content = store.path.read_bytes()
    assert written in content
    store.path.write_bytes(content.replace(written, changed, 1))
    with pytest.raises(CheckpointError, match="does not match its checksum"):
        store.load()


WRITER = """
import sys, torch
from rnnlab.training.checkpoints import CheckpointStore
store, step = CheckpointStore(sys.argv[1], {}), 0
while True:
    step += 1
    store.save({"filled": torch.full((400, 1000), step)}, {"step": step})
    print(step, flush=True)
"""


def test_process_that_is_killed_while_it_saves_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    for number in range(4):
        store = CheckpointStore(tmp_path / str(number), {})
        command = [sys.executable, "-c", WRITER, str(store.folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            told = [process.stdout.readline() for _ in range(1 + number)]
            time.sleep(0.005 * number)
            process.send_signal(signal.SIGKILL)
            said = int([*told, *process.stdout.read().split()][-1])
        found = store.load()
        assert found.record["step"] in (said, said + 1)  # saved, but not yet told
        assert (found.tensors["filled"] == found.record["step"]).all()


def test_metadata_are_plain_json(store: CheckpointStore) -> None:
    length = int.from_bytes(store.path.read_bytes()[:8], "little")
    header = json.loads(store.path.read_bytes()[8 : 8 + length])["__metadata__"]
    assert header["format"] == "rnnlab checkpoint 3"
    assert json.loads(header["run"]) == RUN
