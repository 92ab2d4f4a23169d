"""The machine at hand: how wide its vectors are, and how a module becomes functions that run on it."""

import ctypes
import hashlib
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import llvmlite
from llvmlite import binding

from rnnlab.engine.disk import keep, kept

_lock = Lock()


@dataclass(frozen=True)
class Target:
    """What the code is written for."""

    vector_bytes: int
    tile_rows: int  # rows of a product kept in registers, two vectors each, besides what is being multiplied
    cpu: str
    features: str


class Library:
    """Compiled functions; they live as long as it does."""

    def __init__(self, text: str, target: Target) -> None:
        module = binding.parse_assembly(text)
        machine = _machine(target)
        name = _name(text, target)
        found = kept(name)
        if found is None:
            module.verify()
            _optimise(module, machine)
        # the engine frees its machine: no two may share one
        self._engine: Any = binding.create_mcjit_compiler(module, machine)
        self._engine.set_object_cache(lambda _, made: keep(name, made), lambda _: found)
        self._engine.finalize_object()
        self._addresses: dict[str, int] = {}

    def address(self, name: str) -> int:
        """Where a function starts."""
        if name not in self._addresses:
            self._addresses[name] = self._engine.get_function_address(name)
        return self._addresses[name]

    def function(self, name: str, *arguments: Any) -> Any:
        """A function as Python calls it; the interpreter lock is free while it runs."""
        return ctypes.CFUNCTYPE(None, *arguments)(self.address(name))


@cache
def host() -> Target:
    """This machine."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features()
    return _target(features, binding.get_host_cpu_name(), features.flatten())


def _target(features: Any, cpu: str, flags: str) -> Target:
    if features.get("avx512f"):  # 32 registers of 64 bytes
        return Target(64, 14, cpu, flags)
    if features.get("avx2"):  # 16 registers of 32 bytes
        return Target(32, 6, cpu, flags)
    if features.get("neon"):  # 32 registers of 16 bytes
        return Target(16, 12, cpu, flags)
    return Target(16, 6, cpu, flags)


def _machine(target: Target) -> Any:
    triple = binding.Target.from_default_triple()
    return triple.create_target_machine(cpu=target.cpu, features=target.features, opt=3)


def _optimise(module: Any, machine: Any) -> None:
    options = binding.create_pipeline_tuning_options(speed_level=2)
    # the vectors are written out by hand: widening them further only costs time
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def _name(text: str, target: Target) -> str:
    """Of what is kept on disk: by all that machine code depends on."""
    depends_on = f"{llvmlite.__version__} {binding.llvm_version_info} {target}\n{text}"
    return f"rnnlab_native_{hashlib.sha256(depends_on.encode()).hexdigest()[:24]}.o"


def compiled(text: str, target: Target) -> Library:
    """The functions of a module; equal modules are compiled once."""
    with _lock:  # LLVM compiles one at a time, and so do we
        return _compiled(text, target)


@cache
def _compiled(text: str, target: Target) -> Library:
    return Library(text, target)
