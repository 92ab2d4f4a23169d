"""How fast the three measures are: against digraphx on a graph it can take, and alone up to a million edges.

    python benchmarks/measures.py

Runs on one core, after the tests of the measures have passed, and writes benchmarks/results/measures.json.
"""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from rnnlab import CyclicGraph, Measures, measure
from rnnlab.graph.cycles import farthest_cycle, longest_cycle

ROOT = Path(__file__).parents[1]
SIZES = (10_000, 100_000, 1_000_000)
SEEDS = range(5)


def random_arrays(num_edges: int, seed: int) -> dict[str, Any]:
    """A fifth as many nodes as edges, delays 0 to 5; edges of delay 0 follow a random order of the nodes."""
    rng = np.random.default_rng(seed)
    num_nodes = num_edges // 5
    sources, targets = rng.integers(0, num_nodes, (2, num_edges))
    delays = rng.integers(0, 6, num_edges)
    order = rng.permutation(num_nodes)
    against = (delays == 0) & (order[sources] > order[targets])
    sources[against], targets[against] = targets[against], sources[against]
    delays[(delays == 0) & (sources == targets)] = 1
    nodes = np.arange(num_nodes)
    return {
        "sources": sources,
        "targets": targets,
        "delays": delays,
        "num_nodes": num_nodes,
        "inputs": nodes[: num_nodes // 10],
        "outputs": nodes[-num_nodes // 10 :],
    }


def seconds(action: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The median time of `repeats` runs, and what the last one returned."""
    times: list[float] = []
    result = None
    for _ in range(repeats):
        start = time.perf_counter()
        result = action()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def whole_job(arrays: dict[str, Any]) -> Measures:
    """What a user waits for: building, validating, measuring, with witnesses and schedule."""
    return measure(CyclicGraph.from_arrays(**arrays))


def race(num_edges: int = 10_000) -> list[dict[str, Any]]:
    """Both cycle ratios of one graph, by digraphx (exact and in floats) and by rnnlab."""
    from digraphx.min_cycle_ratio import MinCycleRatioSolver

    arrays = random_arrays(num_edges, seed=0)
    # digraphx takes no parallel edges: all race on the graph without them
    pairs = np.unique(np.stack([arrays["sources"], arrays["targets"]]), axis=1, return_index=True)[1]
    arrays |= {key: arrays[key][pairs] for key in ("sources", "targets", "delays")}
    graph = CyclicGraph.from_arrays(**arrays)

    def adjacency(sign: int) -> dict[int, dict[int, dict[str, int]]]:
        adjacent: dict[int, dict[int, dict[str, int]]] = {node: {} for node in range(arrays["num_nodes"])}
        for source, target, delay in zip(arrays["sources"], arrays["targets"], arrays["delays"], strict=True):
            adjacent[int(source)][int(target)] = {"cost": sign * int(delay), "time": 1}
        return adjacent

    adjacent = {sign: adjacency(sign) for sign in (1, -1)}  # built beforehand: only its search is timed

    def digraphx(number: type, sign: int) -> Any:
        return MinCycleRatioSolver(adjacent[sign]).run({node: number(0) for node in adjacent[sign]}, number(6))[0]

    rows = []
    for name, both in (
        ("digraphx, exact", lambda: (1 / digraphx(Fraction, 1), -digraphx(Fraction, -1))),
        ("digraphx, floats", lambda: (1 / digraphx(float, 1), -digraphx(float, -1))),
        ("rnnlab, both cycle ratios", lambda: (longest_cycle(graph).ratio, farthest_cycle(graph).ratio)),
        ("rnnlab, the whole job", lambda: whole_job(arrays)),
    ):
        took, result = seconds(both, repeats=3 if name.startswith("digraphx") else 25)
        ratios = (result.recurrent_depth, result.recurrent_skip_coefficient) if name.endswith("job") else result
        rows.append({"name": name, "seconds": took, "ratios": [str(ratio) for ratio in ratios]})
        print(f"{name:<28} {took * 1e3:10.1f} ms   d_r, s = {', '.join(rows[-1]['ratios'])}", flush=True)
    assert rows[0]["ratios"] == rows[2]["ratios"] == rows[3]["ratios"], "the exact answers differ"
    return rows


def scaling() -> list[dict[str, Any]]:
    """The whole job on random graphs of growing size, over several seeds."""
    rows = []
    for num_edges in SIZES:
        graphs = [random_arrays(num_edges, seed) for seed in SEEDS]
        times = [seconds(partial(whole_job, arrays), max(1, 100_000 // num_edges))[0] for arrays in graphs]
        took = statistics.median(times)
        rows.append({"num_edges": num_edges, "num_nodes": num_edges // 5, "seconds": took, "all_seconds": times})
        print(f"{num_edges:>9} edges {took:8.3f} s   {took / num_edges * 1e6:6.2f} µs an edge", flush=True)
    return rows


def peak_memory() -> float:
    """Peak memory in bytes of a fresh process that does the whole job on a million edges, arrays included."""
    code = "import measures; measures.whole_job(measures.random_arrays(1_000_000, 0)); print(measures.own_peak())"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    )
    return float(run.stdout)


def own_peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    tests = [sys.executable, "-m", "pytest", "-q", "tests/graph/test_measures.py", "tests/graph/test_walks.py"]
    if subprocess.run(tests, cwd=ROOT, capture_output=True, check=False).returncode:
        sys.exit("the tests of the measures fail: nothing is timed")
    results = {
        "machine": f"{processor()}, one core",
        "versions": {"python": platform.python_version()}
        | {package: version(package) for package in ("rnnlab", "numpy", "digraphx")},
        "race": race(),
        "scaling": scaling(),
        "peak_memory_bytes": peak_memory(),
    }
    exact, _, _, ours = (row["seconds"] for row in results["race"])
    smallest, largest = (row["seconds"] / row["num_edges"] for row in (results["scaling"][0], results["scaling"][-1]))
    results["times_faster_than_digraphx"] = exact / ours
    results["growth_of_cost_an_edge"] = largest / smallest
    print(f"the whole job is {exact / ours:.0f} times faster than digraphx on both ratios alone")
    print(f"cost an edge grows {largest / smallest:.2f} times from {SIZES[0]} to {SIZES[-1]} edges")
    print(f"peak memory at a million edges: {results['peak_memory_bytes'] / 1e9:.2f} GB")
    path = ROOT / "benchmarks" / "results" / "measures.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
