"""The threads of torch: the loop over time runs on the same team, so that no two teams wait for one core."""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from threadpoolctl import threadpool_info


class OpenMP(NamedTuple):
    """Torch's OpenMP runtime, as far as it is needed; without one there is one thread."""

    parallel: Any  # parallel(function, argument, threads, 0)
    thread_number: int  # address of the function that says which thread of the team is calling
    num_threads: int  # address of the function that says how many are in the team: fewer than asked for, maybe
    most_threads: int


@cache
def openmp() -> OpenMP:
    """The runtime that torch has loaded."""
    torch.get_num_threads()
    paths = [found["filepath"] for found in threadpool_info() if found["user_api"] == "openmp"]
    for path in sorted(paths, key=lambda path: Path(torch.__file__).parent not in Path(path).parents):
        library = ctypes.CDLL(path)
        if hasattr(library, "GOMP_parallel"):
            start = library.GOMP_parallel
            start.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
            start.restype = None
            own, all_of_them = (
                ctypes.cast(function, ctypes.c_void_p).value or 0
                for function in (library.omp_get_thread_num, library.omp_get_num_threads)
            )
            return OpenMP(start, own, all_of_them, 2**16)
    return OpenMP(None, 0, 0, 1)
