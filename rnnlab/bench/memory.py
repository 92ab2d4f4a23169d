"""The peak memory of a training step, over what the process holds before it.

Measured in a process of its own for each side: build the network, run a tiny step so that all code is loaded, then set
the system's high-water mark of resident memory back to what is held now (writing 5 to /proc/self/clear_refs), run three
steps and read the mark (VmHWM). Where there is no /proc, the mark cannot be set back; the peak of the process's life
(getrusage) then serves, which a start that needed more than the steps hides.

    python -m rnnlab.bench.memory ours lstm 64 175 300 256
"""

import ctypes
import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from rnnlab.errors import BenchError

Shape = tuple[int, int, int, int]

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
_NUM_STEPS = 3


def peak_megabytes(side: str, cell: str, shape: Shape) -> float:
    """The peak of a training step in a new process, which has this one's environment and cores.

    Args:
        side: `ours` or `torch`.
        cell: tanh, gru or lstm.
        shape: B, T, I, H.
    """
    command = [sys.executable, "-m", "rnnlab.bench.memory", side, cell, *map(str, shape)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if run.returncode:
        raise BenchError(f"no memory measured for {side} {cell} {shape}: the process broke down")
    return float(run.stdout)


def rise_of_peak(step: Callable[[], object]) -> float:
    """How many megabytes more than now the process holds at most while `step` runs three times."""
    gc.collect()
    _release_free_memory()
    before = _start_mark()
    for _ in range(_NUM_STEPS):
        step()
    return max(0, _mark() - before) / 1024


def _release_free_memory() -> None:
    """Hand memory that is free, but kept for later, back to the system; a step would use it unseen."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):  # not glibc
        return


def _start_mark() -> int:
    """Set the high-water mark back where the system can; returns what it is now, in kilobytes."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return _mark()
    return _status("VmRSS")


def _mark() -> int:
    if _STATUS.exists():
        return _status("VmHWM")
    import resource  # Windows has neither

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


def _status(key: str) -> int:
    (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith(f"{key}:"))
    return int(line.split()[1])


def main(side: str, cell: str, shape: Shape) -> None:
    """Measure one side and print it."""
    import torch

    from rnnlab.bench.equality import training_step
    from rnnlab.bench.torch_peers import make_layer
    from rnnlab.engine.conversion import from_torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    batch, steps, inputs, units = shape
    module: torch.nn.Module = make_layer(cell, inputs, units)
    if side == "ours":
        module = from_torch(module)

    def step_of(batch: int, steps: int) -> Callable[[], object]:
        axes = (batch, steps) if side == "ours" else (steps, batch)
        return training_step(module, torch.randn(*axes, inputs), torch.randn(*axes, units))

    step_of(1, 2)()
    print(rise_of_peak(step_of(batch, steps)))


if __name__ == "__main__":
    side, cell, *sizes = sys.argv[1:]
    batch, steps, inputs, units = map(int, sizes)
    main(side, cell, (batch, steps, inputs, units))
