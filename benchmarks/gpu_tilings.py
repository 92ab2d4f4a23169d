"""Microseconds a slot of spread kernels, for every tiling that fits: `python benchmarks/gpu_tilings.py FILE`.

What the cost model of `rnnlab/engine/gpu/spread.py` is fitted to, and held to by tests/engine/gpu/test_costs.py.
"""

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).parents[1]))

from rnnlab import architecture
from rnnlab.engine.gpu.program import GpuProgram, shared_memory
from rnnlab.engine.gpu.sharing import processors
from rnnlab.engine.model import Model

STEPS, INPUTS, OUTPUTS = 180, 27, 16
PASSES = ("forward", "backward")
CASES = (  # network, width, precision, batch
    ("sh:tanh", 256, "bf16", 64),
    ("sh:tanh", 1024, "bf16", 64),
    ("sh:lstm", 256, "bf16", 64),
    ("sh:lstm", 512, "bf16", 64),
    ("sh:lstm", 1024, "bf16", 64),
    ("sh:lstm", 2048, "bf16", 64),
    ("sh:gru", 256, "bf16", 64),
    ("sh:gru", 512, "bf16", 64),
    ("sh:gru", 2048, "bf16", 64),
    ("sh:lstm", 768, "bf16", 16),
    ("sh:lstm", 512, "float32", 64),
    ("stack-4:lstm", 256, "bf16", 64),
)


def rows(network: str, width: int, precision: str, batch: int) -> Iterator[dict[str, Any]]:
    """Every tiling of a network, one pass at a time, the other as it would be."""
    made = architecture(network, input_size=INPUTS, output_size=OUTPUTS, units=width)
    model = Model(made, generator=torch.Generator().manual_seed(0), precision=precision, path="gpu-spread").cuda()
    x, dy = (torch.randn(batch, STEPS, size, device="cuda") for size in (INPUTS, OUTPUTS))
    program, room = model._chosen_kernels(batch).program, processors(x.device)
    (number,) = (number for number, component in enumerate(program.plan.components) if not component.is_hoisted)
    usual = program.tilings(number, (1, batch), room)
    assert not isinstance(usual, str), usual
    named = {"network": network, "width": width, "precision": precision, "batch": batch}
    for sequences in (16, 32, 64):
        for units in (8, 16, 32, 64):
            for place, name in enumerate(PASSES):
                found = program.spread(number)._tiling(sequences, units, (1, batch), room, shared_memory(), place == 1)
                if found is not None:
                    both = (found, usual[1]) if place == 0 else (usual[0], found)
                    with mock.patch.object(GpuProgram, "tilings", lambda *_, both=both: both):
                        spent = kernel_microseconds(model, x, dy)[place] / STEPS
                    yield named | {"pass": name, "rows": sequences, "units": units, "microseconds": round(spent, 3)}


def kernel_microseconds(model: Model, x: torch.Tensor, dy: torch.Tensor) -> list[float]:
    """Of the forward and the backward kernel, the median of three."""
    for _ in range(2):
        model(x)[0].backward(dy)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(3):
            model(x)[0].backward(dy)
        torch.cuda.synchronize()
    spent = [event.device_time_total for event in profiler.events() or () if event.name == "kernel"]
    return [statistics.median(spent[place::2]) for place in range(2)]


def main() -> None:
    """Time all cases and write the file."""
    found = [row for case in CASES for row in rows(*case)]
    table = {
        "device": torch.cuda.get_device_name(),
        "versions": {"torch": torch.__version__},
        "sizes": {"steps": STEPS, "inputs": INPUTS, "outputs": OUTPUTS},
        "what": "microseconds a slot of spread kernels, median of three, for every way to cut a network up that fits",
        "rows": found,
    }
    Path(sys.argv[1]).write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
