"""What was compiled is kept on disk: whole, for others, and never in anybody's way."""

import ctypes
from pathlib import Path

import pytest
from llvmlite import binding, ir

from rnnlab.engine.disk import cache_folder, keep, kept, write_whole
from rnnlab.engine.native import target
from rnnlab.engine.native.target import Library, host


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache_folder()


def test_what_is_kept_comes_back(folder: Path) -> None:
    assert kept("a.o") is None
    keep("a.o", b"first")
    keep("a.o", b"second")
    assert kept("a.o") == b"second"
    assert [each.name for each in folder.iterdir()] == ["a.o"]


@pytest.mark.parametrize(
    "spoil", [lambda each: each[:-1], lambda each: each + b"x", lambda each: b"", lambda each: each[:31]]
)
def test_what_is_damaged_counts_as_absent(folder: Path, spoil) -> None:
    keep("a.o", b"machine code")
    (folder / "a.o").write_bytes(spoil((folder / "a.o").read_bytes()))
    assert kept("a.o") is None


def test_where_nothing_can_be_written_nothing_is_kept(folder: Path) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("a file where the folder would be")
    keep("a.o", b"machine code")
    assert kept("a.o") is None
    assert run(text()) == 7


def test_no_home_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as where the user is not known
    assert cache_folder() == Path("~/.cache/rnnlab/kernels")


def test_nothing_partial_stays_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(path: Path, content: bytes) -> int:
        path.touch()
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    assert not write_whole(tmp_path / "folder" / "file", b"content")
    assert not list((tmp_path / "folder").iterdir())


def text(number: int = 7) -> str:
    """A module whose function writes a number."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.PointerType()]), "write")
    build = ir.IRBuilder(function.append_basic_block())
    build.store(ir.IntType(64)(number), function.args[0])
    build.ret_void()
    return str(module)


def run(source: str) -> int:
    found, library = ctypes.c_int64(), Library(source, host())
    library.function("write", ctypes.c_void_p)(ctypes.addressof(found))
    return found.value


def test_machine_code_of_another_process_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(text()) == 7
    monkeypatch.setattr(target, "_optimise", lambda module, machine: pytest.fail("it is compiled again"))
    assert run(text()) == 7
    with pytest.raises(pytest.fail.Exception, match="compiled again"):
        run(text(8))


def test_machine_code_is_of_its_text_machine_and_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = target._name("text", host())
    others = [target._name("other", host()), target._name("text", target.Target(16, 6, "generic", ""))]
    monkeypatch.setattr(binding, "llvm_version_info", (1, 0, 0))
    assert len({usual, *others, target._name("text", host())}) == 4


def test_damaged_machine_code_is_made_anew(folder: Path) -> None:
    assert run(text()) == 7
    (made,) = folder.iterdir()
    made.write_bytes(made.read_bytes()[:-8])
    assert run(text()) == 7
    assert kept(made.name) is not None
