"""`rnnlab bench cpu`: training steps on the CPU against the peers, in a process for each number of threads.

A step is forward, backward and all weight gradients, the input product included, in float32. How many threads numpy,
torch and JAX have is settled when they are loaded, and which cores they may use before that; so each number of threads
is a process of its own, kept to as many cores.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rnnlab.bench.rows import Row
from rnnlab.errors import BenchError

PACKAGES = ("rnnlab", "numpy", "torch", "jax", "torchrecurrent")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Benchmark:
    """What was measured, where, and with which versions."""

    machine: str
    versions: dict[str, str]
    rows: tuple[Row, ...]

    def to_json(self) -> dict[str, Any]:
        """Times and memory apart, as the results file holds them."""
        times, memory = ([row.to_json() for row in self.rows if row.unit == unit] for unit in ("ms", "mb"))
        return {"machine": self.machine, "versions": self.versions, "rows": times, "memory": memory}

    def check(self) -> None:
        """Raise where a side was not timed because it computes something else."""
        if refused := [row.note for row in self.rows if row.is_refused]:
            raise BenchError(f"not all was timed: {'; '.join(refused)}")


@dataclass(frozen=True)
class Progress:
    """The case that begins: its place among all of them."""

    case: str
    number: int
    total: int


def bench_cpu(
    *,
    threads: Sequence[int] | None = None,
    quick: bool = False,
    tell: Callable[[Row | Progress], None] = lambda event: None,
) -> Benchmark:
    """Race training steps against torch.nn, JAX, torchrecurrent and loops written by hand.

    Args:
        threads: how many threads both sides have, one run for each; 1 and, where there are two cores, 2.
        quick: small shapes and few repeats, to see that all works; the numbers mean little.
        tell: called with every row, and with every case as it begins.

    Raises:
        BenchError: more threads than cores, or a run broke down.
    """
    cores = _cores()
    counts = tuple(threads or (1, 2)[: len(cores)])
    for count in counts:
        if not 1 <= count <= len(cores):
            raise BenchError(f"threads must lie from 1 to {len(cores)}, the cores of this machine; got {count}")
    rows: list[Row] = []
    for number, count in enumerate(counts):
        for event in _run(count, quick=quick):
            if isinstance(event, Row):
                rows.append(event)
                tell(event)
            else:
                tell(Progress(event.case, number * event.total + event.number, len(counts) * event.total))
    return Benchmark(_machine(len(cores)), _versions(), tuple(rows))


def _run(threads: int, *, quick: bool) -> Iterator[Row | Progress]:
    """What the process for one number of threads reports."""
    command = [sys.executable, "-m", "rnnlab.bench.cpu", str(threads), *(["quick"] if quick else [])]
    settings = os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=settings) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                kind, fields = json.loads(line)
                yield Row(**fields) if kind == "row" else Progress(**fields)
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise BenchError(f"the run with {threads} threads broke down; what it wrote stands above")


def run_cases(threads: int, *, quick: bool) -> Iterator[Row | Progress]:
    """Run every case in this process, which is kept to as many cores as it has threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, _cores()[-threads:])  # the first core serves most interrupts
    import torch

    from rnnlab.bench.cpu_cases import FULL, SMALL, Ground, cases
    from rnnlab.bench.jax_peers import JaxPeer

    torch.set_num_threads(threads)
    sizes = SMALL if quick else FULL
    found = cases(sizes)
    with JaxPeer(threads) if find_spec("jax") else nullcontext() as jax:
        for number, case in enumerate(found):
            yield Progress(case.name, number, len(found))
            yield from case.rows(Ground(threads, jax, sizes.effort))


def _cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _machine(num_cores: int) -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = (line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    return f"{next(names, platform.processor() or platform.machine())}, {num_cores} cores"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def main(threads: int, *, quick: bool) -> None:
    """Print what happens, a line of JSON for each event."""
    for event in run_cases(threads, quick=quick):
        print(json.dumps(["row" if isinstance(event, Row) else "progress", asdict(event)]), flush=True)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), quick="quick" in sys.argv[2:])
    except KeyboardInterrupt:
        sys.exit(130)
