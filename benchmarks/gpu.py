"""All checks and benchmarks of the GPU path in one go: `python benchmarks/gpu.py`.

Parts by name, all by default:
  checks       the fast path against the reference in float64; if one comparison is wrong nothing is timed
  errors       how far each precision is from float64, for short and long sequences
  populations  training steps of many small models against cuDNN, JAX and batched products
  single       training steps of one model against cuDNN, loops by hand and JAX
  flashrnn     the same against FlashRNN, which compiles for minutes
Each case is compared with float64 before it is timed: all of them at once, in processes of their own, while errors are
measured and JAX compiles, which are not timed. What was wrong or late is not timed either; of the rest one step at a
time has the GPU. The table goes to benchmarks/results/gpu-h200.json as it grows, rows that miss their goals and cases
that fail included, and `seconds` tells where the time goes.
"""

import argparse
import json
import operator
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "gpu-h200.json"
sys.path.insert(0, str(ROOT))

import gpu_checks  # noqa: E402
import gpu_errors  # noqa: E402
import gpu_models  # noqa: E402
import gpu_populations  # noqa: E402
import gpu_single  # noqa: E402
import gpu_sizes  # noqa: E402
from gpu_process import CaseProcess, Outcome, Row, Script, fresh_caches, in_parallel  # noqa: E402

PARTS = ("checks", "errors", "populations", "single", "flashrnn")
ALL_SECONDS, CHECK_SECONDS = 900.0, 400.0
CASE_SECONDS = 120.0  # for one population or race
COMPILE_SECONDS, JAX_SECONDS = 120.0, 200.0


class Table:
    """The results, written anew whenever something is added."""

    def __init__(self, path: Path) -> None:
        self._path, self._start = path, time.monotonic()
        self.content: dict[str, Any] = {"checked": False, "seconds": {}, "core_seconds": {}}

    @property
    def seconds_left(self) -> float:
        """Of those that the whole run may take."""
        return ALL_SECONDS - (time.monotonic() - self._start)

    @property
    def case_seconds(self) -> float:
        """How long the next case may take; one that comes too late is recorded as failed."""
        return max(0.0, min(CASE_SECONDS, self.seconds_left))

    def write(self) -> None:
        """Write what there is."""
        self.content["seconds"]["all"] = time.monotonic() - self._start
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self.content, indent=1) + "\n")

    def add(self, part: str, rows: Iterable[Row], show: Callable[[Row], str]) -> None:
        """Print and keep rows, with the seconds since the beginning."""
        for row in rows:
            print(f"{time.monotonic() - self._start:4.0f} s {show(row)}", flush=True)
            self.content.setdefault(part, []).append(row)
        self.write()

    def spend(self, part: str, seconds: dict[str, float]) -> None:
        """Count seconds of what a part consists of."""
        total = self.content["seconds"]
        for name, each in seconds.items():
            total[f"{part}: {name}"] = total.get(f"{part}: {name}", 0.0) + each

    def call(self, part: str, process: CaseProcess, function: Callable[..., Any], *arguments: Any) -> Outcome:
        """Run a case of a part in a process, and count the seconds of what it consists of."""
        start = time.monotonic()
        outcome = process.call(self.case_seconds, function, *arguments)
        rest = time.monotonic() - start - sum(outcome.seconds.values())
        self.spend(part, outcome.seconds | {"other": rest})
        return outcome

    def time(self, part: str, run: Callable[[], None]) -> None:
        """Run a part and note how long it takes, and the seconds on cores of all processes that ended in it."""
        start, used = time.monotonic(), _core_seconds()
        try:
            run()
        finally:
            seconds = time.monotonic() - start
            self.content["seconds"][part] = seconds
            self.content["core_seconds"][part] = _core_seconds() - used
            print(f"{part}: {seconds:.0f} s, {_core_seconds() - used:.0f} on cores", flush=True)
            self.write()


def _core_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system


def machine() -> dict[str, Any]:
    """Device and versions; runs in a process of its own, as everything that touches the GPU."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("torch finds no GPU")
    import triton  # pyright: ignore[reportMissingImports]

    versions = {"torch": torch.__version__, "triton": triton.__version__, "cudnn": torch.backends.cudnn.version()}
    return {
        "device": torch.cuda.get_device_name(),
        "versions": versions | {"cuda": torch.version.cuda, "driver": _driver()} | _packages("jax", "flashrnn"),
    }


def _driver() -> str:
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split("\n")[0]
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _packages(*names: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def run_checks(table: Table) -> None:
    """All comparisons that end in time."""
    found = gpu_checks.checks(CHECK_SECONDS)
    print(gpu_checks.show(found), flush=True)
    table.content |= {"checks": found, "checked": not found["wrong"] and not found["not_finished"]}
    table.write()
    if found["wrong"]:
        raise SystemExit("nothing is timed while results are wrong")


def timed_cases(parts: Iterable[str], races: list[gpu_single.Race]) -> list[tuple[gpu_models.Case, ...]]:
    """The cases of every population and race that the parts time; those of one differ in precision only."""
    found_in = {
        "populations": [gpu_populations.cases(population) for population in gpu_sizes.POPULATIONS],
        "single": [race.cases for race in races],
        "flashrnn": [race.cases for race in gpu_single.flashrnn_races()],
    }
    return [cases for part in parts for cases in found_in.get(part, [])]


def first_calls(parts: list[str], races: list[gpu_single.Race], table: Table) -> dict[gpu_models.Case, float]:
    """Compile the kernels of all cases, in parallel; the seconds of each first call."""
    cases = gpu_errors.all_cases() if "errors" in parts else []
    cases += [case for each in timed_cases(parts, races) for case in each]
    limits: Any = {"seconds": COMPILE_SECONDS, "task_seconds": COMPILE_SECONDS / 2, "is_spoilt": _has_failures}
    outcomes = in_parallel(gpu_models.first_call_seconds, [(case,) for case in cases], **limits)
    for case, outcome in zip(cases, outcomes, strict=True):
        if outcome.failure:
            print(f"first call FAILED {case}: {outcome.failure}", flush=True)
    found = {case: each.result for case, each in zip(cases, outcomes, strict=True) if each.failure is None}
    table.content["first_calls"] = {"cases": len(found), "longest_seconds": max(found.values(), default=None)}
    return found


def compare(parts: list[str], races: list[gpu_single.Race], table: Table) -> dict[gpu_models.Case, Row]:
    """Everything against float64, in parallel: errors of every length, and of each case that is timed its `error`.

    A case whose comparison was not right, or not there in time, has `failed` instead.
    """
    lengths = [(cell, steps) for cell in gpu_errors.CELLS for steps in gpu_errors.STEPS] if "errors" in parts else []
    groups = timed_cases(parts, races)
    # steps that all members take together: what takes longest comes first
    sizes: dict[tuple[Any, ...], int] = {(gpu_errors.rows, cell, steps): steps for cell, steps in lengths}
    sizes |= {(gpu_errors.compared, cases): cases[0].steps * (cases[0].members or 1) for cases in groups}
    tasks = sorted(sizes, key=lambda task: -sizes[task])
    seconds = table.case_seconds
    outcomes = in_parallel(operator.call, tasks, seconds=seconds, task_seconds=seconds, is_spoilt=_has_failures)
    found = dict(zip(tasks, outcomes, strict=True))
    for cell, steps in lengths:
        outcome = found[gpu_errors.rows, cell, steps]
        named = {"network": cell, "steps": steps, "kernels": "", "precision": ""}
        table.add("errors", outcome.result or [named | {"failed": outcome.failure}], gpu_errors.show)
    compared: dict[gpu_models.Case, Row] = {}
    for cases in groups:
        outcome = found[gpu_errors.compared, cases]
        compared |= zip(cases, outcome.result or [{"failed": outcome.failure}] * len(cases), strict=True)
    return compared


def run_jax(script: Script, table: Table) -> list[Row]:
    """What JAX has measured, once it has compiled."""
    found = script.rows(min(JAX_SECONDS, table.seconds_left))
    for row in found:
        table.spend("jax", row.get("seconds", {}))
        if "failed" in row:
            print(f"jax FAILED {row}", flush=True)
    table.content["jax"] = found
    return found


def run_populations(table: Table, process: CaseProcess, known: dict[gpu_models.Case, Row], jax: Iterable[Row]) -> None:
    """Every population."""
    others = {(row["network"], row["units"], row["members"], row["precision"]): row for row in jax if "network" in row}
    for population in gpu_sizes.POPULATIONS:
        outcome = table.call("populations", process, gpu_populations.rows, population, others, known)
        named = {"network": population[0], "units": population[1]}
        table.add("populations", outcome.result or [named | {"failed": outcome.failure}], gpu_populations.show)


def jax_races(jax: Iterable[Row]) -> dict[str, Row]:
    """JAX's rows of one model, by network, as a race takes them."""
    return {row["network"]: gpu_single.as_peer(row) for row in jax if "network" in row and row["members"] is None}


class Runners(NamedTuple):
    """The process that times, and one that profiles: what a profiler leaves behind would slow what is timed."""

    timing: CaseProcess
    profiling: CaseProcess

    def start(self) -> None:
        """Start both."""
        for process in self:
            process.start()

    def end(self) -> None:
        """End both."""
        for process in self:
            process.end()


def run_races(
    part: str,
    races: Iterable[gpu_single.Race],
    others: dict[str, Row],
    table: Table,
    runners: Runners,
    known: dict[gpu_models.Case, Row],
) -> None:
    """One race after another; `others` are the times of those who ran in processes of their own."""
    for race in races:
        right = [case for case in race.cases if "failed" not in known[case]]
        slots = table.call(part, runners.profiling, gpu_single.profiled, right)
        if slots.failure:
            print(f"profiler FAILED {race.name}: {slots.failure}", flush=True)
        ours = {case: known[case] | (slots.result or {}).get(case, {}) for case in race.cases}
        outcome = table.call(part, runners.timing, gpu_single.rows, race, others, ours)
        failed = gpu_single.named(race.cases[0]) | {"failed": outcome.failure}
        table.add("single", outcome.result or [failed], gpu_single.show)


def run_flashrnn(
    table: Table, runners: Runners, known: dict[gpu_models.Case, Row], scripts: dict[int, list[Script]]
) -> None:
    """Every race against FlashRNN, which has compiled meanwhile."""
    races = gpu_single.flashrnn_races()
    names = [race.cases[0].network for race in races]
    start = time.monotonic()
    others = {name: fastest_flashrnn(scripts[gpu_single.num_heads(name)], table) for name in names}
    table.spend("flashrnn", {"its own steps": time.monotonic() - start})
    run_races("flashrnn", races, others, table, runners, known)


def fastest_flashrnn(scripts: list[Script], table: Table) -> Row:
    """What the fastest of FlashRNN's backends needs; the last race still has to be run in the time that is left."""
    found = [row for script in scripts for row in script.rows(table.seconds_left - 20)]
    refused = "; ".join(row["failed"] for row in found if "failed" in row)
    measured = [row for row in found if "failed" not in row]
    if not measured:
        return {"failed": refused}
    every = {row["peer_setting"]: row["peer_ms"] for row in measured}
    return min(measured, key=lambda row: row["peer_ms"]) | {"peer_note": refused, "peer_all_ms": every}


def _has_failures(result: Any) -> bool:
    """Whether something failed that the process may have run itself; JAX and FlashRNN have their own."""
    rows = result if isinstance(result, list) else []
    return any("failed" in row and row.get("peer") not in ("jax", "flashrnn") for row in rows)


def main() -> None:
    """Parse, run the parts in order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one or more of {', '.join(PARTS)}; all by default")
    parser.add_argument("--without-checks", action="store_true", help="time without making the checks first")
    parser.add_argument("--only", action="append", metavar="RACE", help="of `single` only this race, as 'sh:lstm 2048'")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the table goes")
    options = parser.parse_args()
    if unknown := sorted(set(options.parts) - set(PARTS)):
        parser.error(f"no part is called {', '.join(unknown)}; there are {', '.join(PARTS)}")
    parts = [part for part in PARTS if part in (options.parts or PARTS)]
    races = [race for race in gpu_single.races() if race.name in (options.only or [race.name])]
    if unknown := sorted(set(options.only or ()) - {race.name for race in races}):
        parser.error(f"no race is called {', '.join(unknown)}")
    if options.without_checks and "checks" in parts:
        parts.remove("checks")
    table = Table(options.output)
    process = CaseProcess(_has_failures)
    found = process.call(CASE_SECONDS, machine)
    process.end()
    if found.failure:
        raise SystemExit(found.failure)
    table.content = found.result | table.content
    run_parts(parts, races, table)


def run_parts(parts: list[str], races: list[gpu_single.Race], table: Table) -> None:
    """The chosen parts: first what may run at the same time, then what is timed, one after another."""
    runners = Runners(CaseProcess(_has_failures), CaseProcess(_has_failures))
    has_jax = {"populations": True, "single": any(race.peers == "by hand" for race in races)}
    raced = [part for part, runs in has_jax.items() if runs and part in parts]
    scripts: list[Script] = []
    try:
        if "checks" in parts:
            table.time("checks", lambda: run_checks(table))
        if parts == ["checks"]:
            return
        with fresh_caches():
            compiled: dict[gpu_models.Case, float] = {}
            table.time("first calls", lambda: compiled.update(first_calls(parts, races, table)))
            jax = Script("gpu_jax.py", *raced) if raced else None
            scripts += [jax] if jax else []
            compared: dict[gpu_models.Case, Row] = {}
            table.time("comparisons", lambda: compared.update(compare(parts, races, table)))
            known = {case: {"first_call_seconds": compiled.get(case)} | row for case, row in compared.items()}
            if set(parts) & {"populations", "single", "flashrnn"}:
                runners.start()
            others: list[Row] = []
            if jax:
                table.time("jax", lambda: others.extend(run_jax(jax, table)))
            flashrnn = start_flashrnn() if "flashrnn" in parts else {}  # would slow JAX's compilers, not what is timed
            scripts += [script for each in flashrnn.values() for script in each]
            if "populations" in parts:
                table.time("populations", lambda: run_populations(table, runners.timing, known, others))
            if "single" in parts:
                table.time("single", lambda: run_races("single", races, jax_races(others), table, runners, known))
            if "flashrnn" in parts:
                table.time("flashrnn", lambda: run_flashrnn(table, runners, known, flashrnn))
    finally:
        runners.end()
        for script in scripts:
            script.end()


def start_flashrnn() -> dict[int, list[Script]]:
    """Have FlashRNN compile, a process for each of its backends, by the number of heads."""
    return {
        heads: [Script("gpu_flashrnn.py", str(heads), backend) for backend in backends]
        for heads, backends in gpu_sizes.FLASHRNN_BACKENDS.items()
    }


if __name__ == "__main__":
    main()
