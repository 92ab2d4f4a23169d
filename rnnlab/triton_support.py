"""Whether kernels of Triton can run here, for all that has some."""

import os
from functools import cache
from importlib.util import find_spec


@cache
def has_triton() -> bool:
    """Whether Triton is installed; torch's CUDA builds for Linux bring it along."""
    return find_spec("triton") is not None


def is_interpreted() -> bool:
    """Whether Triton's interpreter replaces the GPU: kernels then run on the CPU, slowly, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"
