"""CUDA C++ made into functions at run time: NVRTC compiles the text, the driver loads and launches the machine code.

NVRTC comes with torch, so no compiler is needed on the machine. Machine code is kept on disk, by the text and the GPU's
architecture. `kernels.py` makes a `CudaFunction` of a kernel's text, and `launch.py` launches it.
"""

import ctypes
import hashlib
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import torch

from rnnlab.engine.disk import keep, kept
from rnnlab.errors import ModelError

_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_OPTIONS = (b"--std=c++17", b"--device-as-default-execution-space")
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: it does not wait for the default stream


class _LaunchConfig(ctypes.Structure):
    """The driver's CUlaunchConfig: grid, block, bytes of shared memory, stream, attributes and their number."""

    _fields_: ClassVar = [
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("num_attributes", ctypes.c_uint),
    ]


class CudaFunction:
    """The function `kernel` of a text, loaded on one GPU; it takes one struct of integers and pointers of 8 bytes."""

    def __init__(self, source: str, device: int, shared_bytes: int) -> None:
        image = machine_code(source, code_architecture(torch.cuda.get_device_capability(device)))
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        with torch.cuda.device(device):
            enter_device(device)
            _check(_driver().cuModuleLoadData(ctypes.byref(module), image), "load a kernel")
            _check(_driver().cuModuleGetFunction(ctypes.byref(self._function), module, b"kernel"), "find a kernel")
            wanted = _driver().cuFuncSetAttribute(self._function, _MAX_DYNAMIC_SHARED, ctypes.c_int(shared_bytes))
            _check(wanted, f"reserve {shared_bytes} bytes of shared memory")
        self._device, self._shared_bytes = device, shared_bytes

    def launch(self, grid: tuple[int, int, int], num_threads: int, arguments: Sequence[int], *, at_once: bool) -> None:
        """Launch a grid of programs (thread blocks) on the current stream.

        `at_once` is for programs that wait for one another: the launch then fails if they do not all fit on the GPU
        at the same time (a cooperative launch).
        """
        numbers = (ctypes.c_int64 * len(arguments))(*arguments)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(numbers))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        sizes = (*grid, num_threads, 1, 1, self._shared_bytes, stream, parameters)
        if at_once:
            code = _driver().cuLaunchCooperativeKernel(self._function, *sizes)
        else:
            code = _driver().cuLaunchKernel(self._function, *sizes, None)
        _check(code, f"launch a kernel of {grid[0] * grid[1] * grid[2]} programs")

    def most_clusters(self, num_programs: int) -> int:
        """How many clusters of `num_programs` programs (thread blocks) the GPU can run at once.

        They may be fewer than its multiprocessors (SMs) have room for: a cluster must lie within one part of the chip
        (a GPC), and these parts differ in size.
        """
        config, found = _LaunchConfig(num_programs, 1, 1, 32, 1, 1, self._shared_bytes, None, None, 0), ctypes.c_int()
        with torch.cuda.device(self._device):
            enter_device(self._device)
            asked = _driver().cuOccupancyMaxActiveClusters(ctypes.byref(found), self._function, ctypes.byref(config))
        _check(asked, f"say how many clusters of {num_programs} programs it runs at once")
        return found.value


def new_stream(device: int) -> torch.cuda.Stream:
    """A new stream, never destroyed, that torch hands to nobody else; its own streams are the same 32 in turn."""
    stream = ctypes.c_void_p()
    with torch.cuda.device(device):
        enter_device(device)
        _check(_driver().cuStreamCreate(ctypes.byref(stream), _NON_BLOCKING), "make a stream")
    return torch.cuda.ExternalStream(stream.value, device=device)


def enter_device(device: int) -> None:
    """Make a device's context current in this thread, where the driver's calls need one.

    A thread may have none: one in which torch has not computed yet, and that in which autograd runs backward.
    """
    _check(_driver().cuCtxSetCurrent(_context(device)), "enter its context")


@lru_cache(maxsize=16)
def _context(device: int) -> ctypes.c_void_p:
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    _check(_driver().cuInit(0), "start")
    _check(_driver().cuDeviceGet(ctypes.byref(handle), device), f"find device {device}")
    _check(_driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), handle), f"open device {device}")
    return context


def code_architecture(capability: tuple[int, int]) -> str:
    """The newest architecture known to NVRTC, such as `sm_90`, whose code a GPU of this compute capability runs."""
    major, minor = capability
    known = [number for number in _known_architectures() if number // 10 == major and number % 10 <= minor]
    if not known:
        version = ".".join(map(str, _nvrtc_version()))
        raise ModelError(
            f"NVRTC {version} does not know GPUs of compute capability {major}.{minor}: take a newer torch"
        )
    return f"sm_{max(known)}"


@lru_cache(maxsize=16)
def code_obstacle(capability: tuple[int, int]) -> str | None:
    """Why kernels cannot be compiled for a GPU of this compute capability, or None if they can."""
    try:
        code_architecture(capability)
    except ModelError as error:
        return str(error)
    return None


def machine_code(source: str, architecture: str) -> bytes:
    """The machine code (cubin) of a text for an architecture such as `sm_90`: from disk, or else from NVRTC."""
    key = hashlib.sha256(f"{architecture}\n{_nvrtc_version()}\n{_OPTIONS}\n{source}".encode()).hexdigest()[:24]
    name = f"rnnlab_kernel_{key}.cubin"
    image = kept(name)
    if image is None:
        image = _compile(source, architecture)
        keep(name, image)
    return image


def _compile(source: str, architecture: str) -> bytes:
    library, program = _nvrtc(), ctypes.c_void_p()
    created = library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"rnnlab.cu", 0, None, None)
    assert created == 0, created
    options = [f"--gpu-architecture={architecture}".encode(), *_OPTIONS]
    failed = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    if failed:
        raise ModelError(f"NVRTC cannot compile a kernel for {architecture}:\n{_text_of(program, 'ProgramLog')}")
    image = _bytes_of(program, "CUBIN")
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return image


def _bytes_of(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(_nvrtc(), f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    found = ctypes.create_string_buffer(size.value)
    getattr(_nvrtc(), f"nvrtcGet{what}")(program, found)
    return found.raw


def _text_of(program: ctypes.c_void_p, what: str) -> str:
    return _bytes_of(program, what).rstrip(b"\0").decode(errors="replace")


@lru_cache(maxsize=1)
def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


@lru_cache(maxsize=1)
def _nvrtc() -> Any:
    for name in _nvrtc_names():
        try:
            # NVRTC looks for its builtins by name only, so they are loaded first
            for builtins in Path(name).parent.glob("libnvrtc-builtins.so.*"):
                ctypes.CDLL(str(builtins))
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise ModelError("NVRTC, which torch's CUDA builds bring along, is not to be found")


def _nvrtc_names() -> list[str]:
    """The names to try for NVRTC: on the loader's path, then in the packages that torch depends on."""
    major = (torch.version.cuda or "13").partition(".")[0]
    packages = [Path(folder) / "nvidia" for folder in sys.path if folder]
    found = [path for package in packages for path in sorted(package.glob(f"*/lib/libnvrtc.so.{major}"))]
    return [f"libnvrtc.so.{major}", *map(str, found)]


@lru_cache(maxsize=1)
def _nvrtc_version() -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _nvrtc().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


@lru_cache(maxsize=1)
def _known_architectures() -> tuple[int, ...]:
    count = ctypes.c_int()
    _nvrtc().nvrtcGetNumSupportedArchs(ctypes.byref(count))
    found = (ctypes.c_int * count.value)()
    _nvrtc().nvrtcGetSupportedArchs(found)
    return tuple(found)


def _check(code: int, what: str) -> None:
    if code:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(code, ctypes.byref(text))
        reason = text.value.decode() if text.value else f"error {code}"
        raise ModelError(f"the GPU's driver cannot {what}: {reason}")
