"""Stacks with their layers side by side and one after another: `python benchmarks/gpu_relay.py`.

Each network's training step on every path that can run it. First all outputs and gradients are compared with float64,
as many at a time as there are cores, which compiles all kernels; then the GPU is left to one step at a time. What
the estimates of `rnnlab/engine/gpu/costs.py` are fitted to, and held to by tests/engine/gpu/test_path.py.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import gpu_timing
import torch
from gpu_models import Case, exact_copy, kernels_of, make_data, make_model
from gpu_process import Row, in_parallel

from rnnlab import ModelError
from rnnlab.engine.gpu.limits import most_clusters
from rnnlab.engine.gpu.resident import CLUSTERS

RESULTS = Path(__file__).parent / "results" / "gpu-relay-h200.json"
PATHS = ("gpu-relay", "gpu-population", "gpu-spread")
INPUTS, STEPS = 27, 180
COMPARE_SECONDS = 240.0  # at most, for all; half for one
NETWORKS = (  # network, width, sequences, precision
    *(("stack-4:lstm", width, 64, "bf16") for width in (64, 128, 256)),
    *((name, 256, 64, "bf16") for name in ("stack-2:lstm", "stack-4:gru", "stack-4:tanh", "stack-8:tanh")),
    ("stack-8:lstm", 128, 64, "bf16"),
    ("stack-2:lstm", 256, 128, "bf16"),
    ("stack-4:lstm", 256, 16, "bf16"),
    ("heads-12:lstm", 768, 16, "bf16"),  # layers of 64 units that do not see one another
    ("heads-2:lstm", 512, 64, "bf16"),
    *(("stack-4:lstm", 128, 64, precision) for precision in ("tf32", "float32")),
    ("stack-2:lstm", 64, 64, "bf16"),
    ("stack-2:gru", 128, 64, "bf16"),
    ("stack-3:tanh", 128, 32, "bf16"),
    ("stack-2:tanh", 256, 64, "float32"),
)


def cases() -> Iterator[Case]:
    """Every network on every path."""
    for network, width, batch, precision in NETWORKS:
        for path in PATHS:
            yield Case(network, width, INPUTS, batch, STEPS, precision, path=path)


def compared(case: Case) -> Row:
    """How far a training step is from float64, or why it cannot run; in a process of its own."""
    torch.set_num_threads(1)  # a process for each core does this at the same time
    model, (x, dy) = make_model(case), make_data(case)
    try:
        found = gpu_timing.trained_once(model, x, dy)
    except ModelError as obstacle:
        return {"cannot": str(obstacle)}
    wanted = gpu_timing.trained_once(exact_copy(model, None), x.double(), dy.double())
    error = gpu_timing.largest_error(found, wanted)
    gpu_timing.check_error(error, case.precision)
    return {"error": error}


def all_compared(chosen: list[Case]) -> dict[Case, Row]:
    """A row for every case; one that failed is not timed."""
    limits = {"seconds": COMPARE_SECONDS, "task_seconds": COMPARE_SECONDS / 2}
    outcomes = in_parallel(compared, [(case,) for case in chosen], is_spoilt=lambda _: False, **limits)
    rows = [outcome.result or {"failed": outcome.failure} for outcome in outcomes]
    return {case: case._asdict() | row for case, row in zip(chosen, rows, strict=True)}


def timed(case: Case) -> Row:
    """Milliseconds of a training step, the better of launched one by one and as a CUDA graph."""
    model = make_model(case)
    found = gpu_timing.timed(gpu_timing.training_step(model, *make_data(case)))
    return {"ms": found.best, "ms_eager": found.eager, "kernels": kernels_of(model, case)}


def profiled(case: Case) -> Row:
    """Microseconds that its kernels take for a time step, all layers together."""
    forward, backward = (
        spent / case.steps for spent in gpu_timing.kernel_microseconds(make_model(case), *make_data(case))
    )
    return {"us_a_step_forward": forward, "us_a_step_backward": backward}


def main() -> None:
    """Compare all, time all, then profile all, for a profiler slows what comes after it; write after each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the table goes")
    options = parser.parse_args()
    start, seconds = time.monotonic(), dict[str, float]()
    found = all_compared(list(cases()))
    seconds["compared"] = time.monotonic() - start
    clusters = {count: most_clusters(torch.device("cuda"), count) for count in CLUSTERS}
    table = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "most_clusters": clusters}
    table["seconds"] = seconds
    for name, measure in (("timed", timed), ("profiled", profiled)):
        start = time.monotonic()
        for case, row in found.items():
            if "error" in row:
                row |= measure(case)
            print(json.dumps(row), flush=True)
            seconds[name] = time.monotonic() - start
            options.output.write_text(json.dumps(table | {"rows": list(found.values())}, indent=1) + "\n")
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
