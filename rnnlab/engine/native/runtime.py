"""The compiled loop as Python calls it, and how its work is divided among threads.

Sequences of a batch never interact, nor do members: a thread takes some rows of one member through all moments.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from llvmlite import ir
from numpy.typing import NDArray

from rnnlab.engine.native.code import Kind
from rnnlab.engine.native.openmp import openmp
from rnnlab.engine.native.products import DEPTH, ROWS, WIDTH, gradient_scratch_size
from rnnlab.engine.native.target import Library, Target, compiled
from rnnlab.engine.native.walk import BLOCK, write_loop

MOST_ROWS = 128  # of a batch that run together: more would not fit into the cache
# multiplications that are worth a further thread, about 40 us: if other processes use the cores, a team waits until its
# last thread has got one, and a step of a small network took twenty times as long
LEAST_OF_A_THREAD = 2_000_000


class Runtime(NamedTuple):
    """The compiled loop for one dtype."""

    walk: Any  # walk(run, thread, threads)
    walk_worker: int  # the same as a function of `run` alone, for a team of threads
    gradients: Any  # gradients(run, thread, threads)
    gradients_worker: int
    pack: Any  # pack(matrices, bytes from matrix to matrix, row to row, column to column, packed, ..., sizes)
    lanes: int
    library: Library  # where they live


class Work(NamedTuple):
    """The work to do: lists of operations, and moments that refer to them."""

    moments: NDArray[np.int64]  # [number, MOMENT]
    operations: NDArray[np.int64]  # [number, OPERATION]
    starts: NDArray[np.int64]  # where each list begins in `operations`; one more for the end
    scratch_width: int  # the most numbers that an operation copies of a row
    times: int  # the most times at once
    multiplications: int  # for each row of a member's batch


@cache
def runtime(dtype: str, target: Target) -> Runtime:
    """The loop, compiled once."""
    kind = Kind(dtype, target)
    module = ir.Module()
    write_loop(module, kind)
    library = compiled(str(module), target)
    number, place = ctypes.c_int64, ctypes.c_void_p
    return Runtime(
        *(library.function("walk", place, number, number), library.address("walk_worker")),
        *(library.function("all_gradients", place, number, number), library.address("gradients_worker")),
        library.function("pack", place, number, number, number, place, number, number, number, number),
        kind.lanes,
        library,
    )


def perform(work: Work, loop: Runtime, members: int, batch: int, dtype: Any, threads: int) -> None:
    """Do all the work, on at most that many threads."""
    threads = _worth(work.multiplications * batch * members, threads)
    chunks = -(-batch // MOST_ROWS) if work.times == 1 else 1
    if work.times == 1 and members < threads:
        chunks = max(chunks, min(batch, -(-threads // members)))
    threads = min(threads, members * chunks)
    rows = -(-batch // chunks)
    each = min(BLOCK, rows * work.times) * work.scratch_width
    scratch = np.empty((threads, each), dtype)
    run = [
        *(openmp().thread_number, openmp().num_threads, address(scratch), each * scratch.itemsize),
        *(address(work.moments), len(work.moments), address(work.operations), address(work.starts)),
        *(batch, members, chunks),
    ]
    _together(loop.walk, loop.walk_worker, run, threads)


def matrix_gradients(jobs: NDArray[np.int64], loop: Runtime, dtype: Any, threads: int) -> None:
    """Gradients of matrices, [number, JOB]; `products` says what a job is."""
    threads = _worth(int(jobs[:, ROWS : WIDTH + 1].prod(axis=1).sum()), threads)
    deepest = int(jobs[:, DEPTH].max())
    scratch = np.empty((threads, gradient_scratch_size(deepest, loop.lanes)), dtype)
    run = [
        *(openmp().thread_number, openmp().num_threads, address(scratch), scratch[0].nbytes),
        *(address(jobs), len(jobs)),
    ]
    _together(loop.gradients, loop.gradients_worker, run, threads)


def _worth(multiplications: int, threads: int) -> int:
    """How many of the available threads an amount of work is worth."""
    return min(threads, openmp().most_threads, max(1, multiplications // LEAST_OF_A_THREAD))


def _together(function: Any, worker: int, run: Sequence[int], threads: int) -> None:
    given = np.array(run, np.int64)
    if threads == 1:
        function(address(given), 0, 1)
    else:
        openmp().parallel(worker, address(given), threads, 0)


def address(array: NDArray[Any]) -> int:
    """The address of an array."""
    return array.__array_interface__["data"][0]


def default_threads() -> int:
    """As many threads as torch uses."""
    return torch.get_num_threads()
