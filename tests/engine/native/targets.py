"""Machines that code can be written for and run here: this one, and narrower ones that it can stand in for."""

import platform

from rnnlab.engine.native.target import Target, host

_FEATURES = host().features.split(",")


def runnable() -> dict[str, Target]:
    """By name; on other processors than those of the x86 family only the machine itself."""
    found = {"this machine": host()}
    if platform.machine() in ("x86_64", "AMD64"):
        found["four floats at once"] = Target(16, 6, "x86-64", "")
        if "+avx2" in _FEATURES and "+fma" in _FEATURES:
            found["eight floats at once"] = Target(32, 6, "x86-64-v3", "")
        if "+avx512f" in _FEATURES:
            found["sixteen floats at once"] = Target(64, 14, "x86-64-v4", "")
    return found


TARGETS = runnable()
