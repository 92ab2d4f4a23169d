"""What was compiled is kept on disk where it can be, and nothing broken that lies there is served for ever."""

import ctypes
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from rnnlab import ModelError
from rnnlab.engine.disk import cache_folder
from rnnlab.engine.gpu import compiled, cuda_driver
from rnnlab.engine.gpu.cuda_driver import CudaFunction, machine_code
from tests.engine.gpu.cuda_texts import has_nvrtc

SOURCE = "def kernel():\n    return 5\n"


class Compiler:
    """Stands for NVRTC: what it makes is of the text and a number."""

    def __init__(self) -> None:
        self.num_calls = 0

    def __call__(self, source: str, architecture: str) -> bytes:
        self.num_calls += 1
        return f"{source} {architecture} {self.num_calls}".encode()


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Compiler:
    found = Compiler()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cuda_driver, "_compile", found)
    monkeypatch.setattr(cuda_driver, "_nvrtc_version", lambda: (13, 0))
    monkeypatch.setattr(cuda_driver, "_known_architectures", lambda: (80, 90))
    return found


@pytest.fixture
def unwritable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file where the folder would be: permissions do not keep everybody out."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))


def kept() -> list[Path]:
    return [path for path in cache_folder().iterdir() if path.name != "__pycache__"]


def test_machine_code_is_made_once(compiler: Compiler) -> None:
    assert machine_code("a", "sm_90") == machine_code("a", "sm_90") == b"a sm_90 1"
    assert len(kept()) == 1


@pytest.mark.parametrize("what", ["text", "architecture", "options", "version"])
def test_machine_code_of_something_else_is_another(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    machine_code("a", "sm_90")
    if what == "options":
        monkeypatch.setattr(cuda_driver, "_OPTIONS", (b"--std=c++20",))
    if what == "version":
        monkeypatch.setattr(cuda_driver, "_nvrtc_version", lambda: (13, 1))
    machine_code("b" if what == "text" else "a", "sm_80" if what == "architecture" else "sm_90")
    assert compiler.num_calls == 2


@pytest.mark.parametrize("spoil", [lambda each: b"", lambda each: each[:-1], lambda each: b"garbage"])
def test_broken_machine_code_is_made_anew(compiler: Compiler, spoil) -> None:
    machine_code("a", "sm_90")
    (path,) = kept()
    path.write_bytes(spoil(path.read_bytes()))
    assert machine_code("a", "sm_90") == b"a sm_90 2"
    assert machine_code("a", "sm_90") == b"a sm_90 2"


def test_machine_code_needs_no_folder(compiler: Compiler, unwritable: None) -> None:
    assert machine_code("a", "sm_90") == b"a sm_90 1"
    assert not cache_folder().exists()


@pytest.mark.filterwarnings("error")
@pytest.mark.usefixtures("unwritable")
def test_texts_of_triton_need_no_folder() -> None:
    assert compiled.compiled.__wrapped__(SOURCE)() == 5


@pytest.mark.parametrize("content", ["", "def kernel(:", "def kernel():\n    return 6\n"])
def test_texts_of_triton_are_mended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled.compiled.__wrapped__(SOURCE)
    (path,) = kept()
    path.write_text(content)
    assert compiled.compiled.__wrapped__(SOURCE)() == 5
    assert path.read_text() == SOURCE


class Driver:
    """Stands for the GPU's driver, which loads what the compiler made, unless it is broken or no context is current."""

    def __init__(self, broken: bytes) -> None:
        self._broken = broken
        self._is_started = False
        self._current: int | None = None
        self.num_loaded = 0

    def cuInit(self, _: int) -> int:  # noqa: N802
        self._is_started = True
        return 0

    def cuDeviceGet(self, handle: Any, device: int) -> int:  # noqa: N802
        handle._obj.value = 10 + device
        return 0 if self._is_started else 3

    def cuDevicePrimaryCtxRetain(self, context: Any, handle: Any) -> int:  # noqa: N802
        context._obj.value = 10 * handle.value
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:  # noqa: N802
        self._current = context.value
        return 0

    def cuModuleLoadData(self, module: object, image: bytes) -> int:  # noqa: N802
        if self._current != 110:  # that of device 1
            return 201
        self.num_loaded += 1
        return 200 if self._broken in image else 0

    def cuModuleGetFunction(self, *_: object) -> int:  # noqa: N802
        return 0

    cuFuncSetAttribute = cuModuleGetFunction  # noqa: N815

    def cuStreamCreate(self, stream: Any, _: int) -> int:  # noqa: N802
        stream._obj.value = 5
        return 0 if self._current == 110 else 201

    def cuOccupancyMaxActiveClusters(self, found: Any, *_: object) -> int:  # noqa: N802
        found._obj.value = 15
        return 0 if self._current == 110 else 201

    def cuGetErrorString(self, code: int, text: object) -> int:  # noqa: N802
        message = {200: b"device kernel image is invalid", 201: b"invalid device context"}[code]
        ctypes.cast(text, ctypes.POINTER(ctypes.c_char_p))[0] = message  # type: ignore[arg-type]
        return 0


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Generator[Driver]:
    """A driver that takes kernels holding anything but `broken`, in a thread that has no context yet."""
    found = Driver(b"broken")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda stream, device: (stream, device))
    monkeypatch.setattr(cuda_driver, "_driver", lambda: found)
    cuda_driver._context.cache_clear()
    yield found
    cuda_driver._context.cache_clear()


@pytest.mark.usefixtures("compiler", "driver")
def test_machine_code_that_never_loads_is_an_error() -> None:
    with pytest.raises(ModelError, match="the GPU's driver cannot load a kernel: device kernel image is invalid"):
        CudaFunction("broken", 1, 0)


@pytest.mark.usefixtures("compiler")
def test_kernels_load_where_torch_has_not_computed_yet(driver: Driver) -> None:
    CudaFunction("a", 1, 0)
    assert driver.num_loaded == 1


@pytest.mark.usefixtures("compiler")
def test_clusters_are_counted_on_the_kernels_own_gpu(driver: Driver) -> None:
    made = CudaFunction("a", 1, 0)
    driver.cuCtxSetCurrent(ctypes.c_void_p(100))  # that of device 0
    assert made.most_clusters(8) == 15


@pytest.mark.usefixtures("driver")
def test_streams_are_made_where_torch_has_not_computed_yet() -> None:
    assert cuda_driver.new_stream(1) == (5, 1)


@pytest.mark.parametrize(
    ("capability", "wanted"), [((8, 0), "sm_80"), ((8, 9), "sm_86"), ((9, 0), "sm_90"), ((12, 1), "sm_120")]
)
def test_unknown_gpus_run_the_code_of_one_before_them(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], wanted: str
) -> None:
    monkeypatch.setattr(cuda_driver, "_known_architectures", lambda: (75, 80, 86, 90, 100, 120))
    assert cuda_driver.code_architecture(capability) == wanted


@pytest.mark.parametrize("capability", [(9, 0), (11, 0)])
def test_no_code_of_another_generation_is_taken(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]) -> None:
    monkeypatch.setattr(cuda_driver, "_known_architectures", lambda: (80, 86, 100))
    monkeypatch.setattr(cuda_driver, "_nvrtc_version", lambda: (11, 4))
    message = f"NVRTC 11.4 does not know GPUs of compute capability {capability[0]}.0: take a newer torch"
    with pytest.raises(ModelError, match=message):
        cuda_driver.code_architecture(capability)


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
def test_nvrtc_says_what_it_knows() -> None:
    assert cuda_driver.code_architecture((9, 0)) == "sm_90"
