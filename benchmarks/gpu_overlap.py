"""Whether kernels of several streams overlap, by how they are launched: `python benchmarks/gpu_overlap.py`.

Populations of one GPU train side by side, each on a stream. A kernel here does nothing but wait, in as many programs as
a spread lot of wide networks has, each with a multiprocessor's whole shared memory. Streams whose kernels run at once
take as long as one; those that wait for one another take as many times as long as there are streams.

    plain        as any kernel
    cooperative  all programs at once, or none: what spread kernels need, whose programs wait for one another
    clusters     eight programs at once, or none of them: enough where no more of them wait for one another
"""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from rnnlab.engine.gpu.cuda_driver import CudaFunction, new_stream

RESULTS = Path(__file__).parent / "results" / "gpu-overlap-h200.json"
PROGRAMS, CLUSTER, THREADS, SHARED_BYTES = 24, 8, 256, 200_000
CYCLES = 1_000_000  # about half a millisecond, long beside a launch
STREAMS, ROUNDS = (1, 2, 4, 5, 8), 20  # 132 multiprocessors have room for five
WAITING = """
struct Arguments { long long cycles; };
extern "C" __global__ void __launch_bounds__(256) %s kernel(const Arguments a) {
  const long long end = clock64() + a.cycles;
  while (clock64() < end) {
  }
}
"""
Launch = Callable[[], None]


def launches() -> dict[str, Launch]:
    """The three ways."""
    alone, clustered = (
        CudaFunction(WAITING % words, 0, SHARED_BYTES) for words in ("", f"__cluster_dims__({CLUSTER}, 1, 1)")
    )
    grid = (PROGRAMS, 1, 1)
    return {
        "plain": lambda: alone.launch(grid, THREADS, [CYCLES], at_once=False),
        "cooperative": lambda: alone.launch(grid, THREADS, [CYCLES], at_once=True),
        "clusters": lambda: clustered.launch(grid, THREADS, [CYCLES], at_once=False),
    }


def rounds(launch: Launch, num_streams: int, *, is_graph: bool) -> Callable[[], None]:
    """What launches a kernel on each stream."""
    streams = [new_stream(0) for _ in range(num_streams)]
    graphs = [_recorded(launch, stream) for stream in streams] if is_graph else []

    def run() -> None:
        for number, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                graphs[number].replay() if is_graph else launch()

    return run


def _recorded(launch: Launch, stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        launch()
    return graph


def milliseconds(run: Callable[[], None]) -> float:
    """Of a round, the host waiting for each."""
    run()
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(ROUNDS):
        run()
        torch.cuda.synchronize()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / ROUNDS


def rows() -> Iterator[dict[str, Any]]:
    """Every way, one by one and as a graph."""
    for name, launch in launches().items():
        for is_graph in (False, True):
            found = {count: milliseconds(rounds(launch, count, is_graph=is_graph)) for count in STREAMS}
            yield {"launch": name, "graph": is_graph, "milliseconds": found}


def main() -> None:
    """Time, print a row at a time, write them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the table goes")
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    for row in rows():
        times = "  ".join(f"{count} streams {each:.2f} ms" for count, each in row["milliseconds"].items())
        print(f"{row['launch']:<12}{'graph ' if row['graph'] else 'eager '} {times}", flush=True)
        found.append(row)
    machine = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "programs": PROGRAMS}
    options.output.write_text(json.dumps(machine | {"rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
