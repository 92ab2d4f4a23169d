"""Kernels in CUDA C++ on the CPU: a C++ compiler makes them, with the machine's own instructions in plain C++."""

import ctypes
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import pytest
import torch

from rnnlab.engine.disk import cache_folder
from rnnlab.engine.gpu.cuda_writer import library_text

COMPILER = shutil.which("g++")
PROCESSORS = 8
NEEDS = [  # marks of tests that run here
    pytest.mark.usefixtures("emulated"),
    pytest.mark.skipif(COMPILER is None, reason="g++ is not installed"),
    pytest.mark.skipif(
        torch.cuda.is_available(), reason="there is a GPU: test_population and test_spread run them there"
    ),
    pytest.mark.skipif(sys.platform != "linux", reason="fibers are Linux's"),
]
OPTIONS = ("-std=c++17", "-O1", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE", "-w", "-fPIC")
_RUN = """
static Arguments arguments;

extern "C" const char *run(const i64 *numbers, const int *grid, int cluster, int num_threads, int shared_bytes,
                           bool at_once, u32 seed, int rounds) {
  arguments = *(const Arguments *)numbers;
  what_is_wrong = nullptr, chance = seed, most_rounds = rounds;
  gridDim = {grid[0], grid[1], grid[2]}, cluster_size = cluster;
  body = [] { kernel(arguments); };
  std::vector<std::unique_ptr<Program>> programs;
  for (int z = 0; z < grid[2]; ++z)
    for (int y = 0; y < grid[1]; ++y) {
      for (int x = 0; x < grid[0]; ++x) add_program(programs, {x, y, z}, num_threads, shared_bytes);
      if (at_once) continue;
      run_programs(programs);
      programs.clear();
    }
  run_programs(programs);
  return what_is_wrong;
}
"""


class EmulationError(Exception):
    """A kernel did what no GPU would bear, or waits for ever."""


class EmulatedFunction:
    """Stands in for `CudaFunction`: the function `kernel` of a text, whose arrays lie in the CPU's memory.

    With a seed it is chance which warps run, and what is sent arrives at once; with 0 all run in turn, and it is late.
    All clusters may run at once though none has asked for that: those of a relay do where there is room for them.
    """

    seed = 0
    runs_all = False
    most_rounds = 4_000_000  # of all warps, before it is clear that they wait in vain

    def __init__(self, source: str, device: int, shared_bytes: int) -> None:
        self._library, self._shared_bytes = _library(source), shared_bytes
        found = re.search(r"__cluster_dims__\((\d+),", source)
        self._cluster_size = int(found[1]) if found else 1

    def launch(self, grid: tuple[int, int, int], num_threads: int, arguments: Sequence[int], *, at_once: bool) -> None:
        """Run a grid of programs, one cluster after another, or all at once where they wait for one another."""
        numbers = (ctypes.c_int64 * len(arguments))(*arguments)
        assert grid[0] % self._cluster_size == 0, f"{grid[0]} programs in clusters of {self._cluster_size}"
        sizes = ((ctypes.c_int * 3)(*grid), self._cluster_size, num_threads, self._shared_bytes)
        wrong: bytes | None = self._library.run(
            numbers, *sizes, ctypes.c_bool(at_once or self.runs_all), ctypes.c_uint32(self.seed), self.most_rounds
        )
        if wrong is not None:
            raise EmulationError(wrong.decode())


@lru_cache(maxsize=64)
def _library(source: str) -> ctypes.CDLL:
    instructions = library_text("instructions.cu")
    assert source.startswith(instructions)
    kernel = source.removeprefix(instructions)
    assert "asm" not in kernel  # nothing but those instructions is the machine's
    text = f'#include "{_header()}"\n{kernel}{_RUN}'
    path = _path(text, ".so")
    if not path.exists():
        _compile(text, path, "-shared")
    library = ctypes.CDLL(str(path))
    library.run.restype = ctypes.c_char_p
    return library


@lru_cache(maxsize=1)
def _header() -> Path:
    """The emulated instructions, which the compiler has read beforehand: a third of what a kernel takes it."""
    text = (Path(__file__).parent / "emulated_instructions.cpp").read_text()
    made = _path(text, ".h.gch")
    written = made.with_suffix("")
    if not made.exists():
        with _new(written) as file:
            file.write_text(text)
        _compile(text, made, "-x", "c++-header")
    return written


def _path(text: str, suffix: str) -> Path:
    return cache_folder() / f"rnnlab_emulated_{hashlib.sha256((text + str(OPTIONS)).encode()).hexdigest()[:24]}{suffix}"


def _compile(text: str, path: Path, *how: str) -> None:
    with _new(path) as made:
        written = made.with_name("kernel.cpp")
        written.write_text(text)
        command = [str(COMPILER), *OPTIONS, *how, "-o", str(made), str(written)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:3000]


@contextmanager
def _new(path: Path) -> Generator[Path]:
    """Where to write a file that is to be there whole or not at all, whoever else does the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        yield made
        made.replace(path)
