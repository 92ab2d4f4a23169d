"""Stacks with their layers side by side and one after another: `python benchmarks/gpu_relay.py`.

Each network's training step on every path that can run it, after its outputs and gradients were compared with float64.
What `choice.py` needs to know before it may choose relays unasked.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpu_timing
import torch
from gpu_models import Case, exact_copy, kernels_of, make_data, make_model

from rnnlab import ModelError

RESULTS = Path(__file__).parent / "results" / "gpu-relay-h200.json"
PATHS = ("gpu-relay", "gpu-population", "gpu-spread")
INPUTS, STEPS = 27, 180
NETWORKS = (  # network, width, sequences, precision
    *(("stack-4:lstm", width, 64, "bf16") for width in (64, 128, 256)),
    *((name, 256, 64, "bf16") for name in ("stack-2:lstm", "stack-4:gru", "stack-4:tanh", "stack-8:tanh")),
    ("stack-8:lstm", 128, 64, "bf16"),
    ("stack-2:lstm", 256, 128, "bf16"),
    ("stack-4:lstm", 256, 16, "bf16"),
    ("heads-12:lstm", 768, 16, "bf16"),  # layers of 64 units that do not see one another
    ("heads-2:lstm", 512, 64, "bf16"),
    *(("stack-4:lstm", 128, 64, precision) for precision in ("tf32", "float32")),
)


def cases() -> Iterator[Case]:
    """Every network on every path."""
    for network, width, batch, precision in NETWORKS:
        for path in PATHS:
            yield Case(network, width, INPUTS, batch, STEPS, precision, path=path)


def timed(case: Case) -> dict[str, Any]:
    """Milliseconds of a training step, the better of launched one by one and as a CUDA graph; or why it cannot run."""
    model, (x, dy) = make_model(case), make_data(case)
    wanted = gpu_timing.trained_once(exact_copy(model, None), x.double(), dy.double())
    try:
        error = gpu_timing.largest_error(gpu_timing.trained_once(model, x, dy), wanted)
    except ModelError as obstacle:
        return {"cannot": str(obstacle)}
    gpu_timing.check_error(error, case.precision)
    found = gpu_timing.timed(gpu_timing.training_step(model, x, dy))
    return {"error": error, "ms": found.best, "ms_eager": found.eager, "kernels": kernels_of(model, case)}


def profiled(case: Case) -> dict[str, Any]:
    """Microseconds that its kernels take for a time step, all layers together."""
    forward, backward = (
        spent / case.steps for spent in gpu_timing.kernel_microseconds(make_model(case), *make_data(case))
    )
    return {"us_a_step_forward": forward, "us_a_step_backward": backward}


def main() -> None:
    """Time all, then profile all, for a profiler slows what comes after it; print and write row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the table goes")
    options = parser.parse_args()
    machine = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    found: dict[Case, dict[str, Any]] = {}
    for measure in (timed, profiled):
        for case in cases():
            if "cannot" not in found.get(case, {}):
                found[case] = found.get(case, case._asdict()) | measure(case)
                print(json.dumps(found[case]), flush=True)
                options.output.write_text(json.dumps(machine | {"rows": list(found.values())}, indent=1) + "\n")


if __name__ == "__main__":
    main()
