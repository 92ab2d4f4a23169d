"""Races run in processes of their own, which report what happens as lines of JSON; and where that was.

How many threads numpy, torch and JAX have is settled when they are loaded, and which cores they may use before that; so
each number of threads is a process of its own, kept to as many cores.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rnnlab.bench.rows import Row
from rnnlab.errors import BenchError

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Benchmark:
    """What was measured, where, and with which versions."""

    machine: str
    versions: dict[str, str]
    rows: tuple[Row, ...]

    def to_json(self) -> dict[str, Any]:
        """Speed and memory apart, as the results file holds them."""
        speed = [row.to_json() for row in self.rows if row.unit != "mb"]
        memory = [row.to_json() for row in self.rows if row.unit == "mb"]
        found = {"machine": self.machine, "versions": self.versions, "rows": speed}
        return found | ({"memory": memory} if memory else {})

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


def reports(module: str, threads: int, *arguments: str) -> Iterator[Row | Progress]:
    """What a module, run in a process with so many threads, reports with `report_lines`."""
    command = [sys.executable, "-m", module, str(threads), *arguments]
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


def report_lines(events: Iterable[Row | Progress]) -> None:
    """Print what happens, a line of JSON for each event."""
    for event in events:
        print(json.dumps(["row" if isinstance(event, Row) else "progress", asdict(event)]), flush=True)


def check_threads(counts: Iterable[int]) -> None:
    """Refuse more threads than there are cores."""
    available = len(cores())
    for count in counts:
        if not 1 <= count <= available:
            raise BenchError(f"threads must lie from 1 to {available}, the cores of this machine; got {count}")


def keep_to_cores(threads: int) -> None:
    """Let this process use as many cores as it has threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores()[-threads:])  # the first core serves most interrupts


def cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def machine() -> str:
    """The processor and its cores."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = (line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    return f"{next(names, platform.processor() or platform.machine())}, {len(cores())} cores"


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Python's version, and those of packages that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
