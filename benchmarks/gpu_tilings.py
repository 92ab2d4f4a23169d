"""Microseconds a slot of spread kernels, for every tiling that fits: `python benchmarks/gpu_tilings.py FILE`.

With `--paired` only programs in pairs are timed anew, and the file's other rows stay.

What the cost model of `rnnlab/engine/gpu/spread.py` is fitted to, and held to by tests/engine/gpu/test_costs.py.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from gpu_process import results_of
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).parents[1]))

from rnnlab import architecture
from rnnlab.engine.gpu.limits import shared_memory
from rnnlab.engine.gpu.program import GpuProgram
from rnnlab.engine.gpu.sharing import processors
from rnnlab.engine.gpu.spread import Tiling
from rnnlab.engine.model import Model

STEPS, INPUTS, OUTPUTS = 180, 27, 16
PASSES = ("forward", "backward")
NETWORKS = (  # network, width, precision, batch
    ("sh:tanh", 256, "bf16", 64),
    ("sh:tanh", 1024, "bf16", 64),
    ("sh:tanh", 2048, "bf16", 64),
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
    ("stack-4:lstm", 512, "bf16", 64),
)


class Case(NamedTuple):
    """A tiling of one pass of a network; the other pass is as it would be."""

    network: str
    width: int
    precision: str
    batch: int
    way: str
    rows: int
    units: int
    is_paired: bool


def model_of(network: str, width: int, precision: str, batch: int) -> tuple[Model, torch.Tensor, torch.Tensor]:
    """A model, inputs and gradients of outputs."""
    made = architecture(network, input_size=INPUTS, output_size=OUTPUTS, units=width)
    model = Model(made, generator=torch.Generator().manual_seed(0), precision=precision, path="gpu-spread").cuda()
    x, dy = (torch.randn(batch, STEPS, size, device="cuda") for size in (INPUTS, OUTPUTS))
    return model, x, dy


def tilings(case: Case, model: Model) -> tuple[Tiling, Tiling] | None:
    """Those of both passes, if the one that is asked for fits at once."""
    program, room = model._chosen_kernels(case.batch).program, processors(torch.device("cuda", 0))
    (number,) = (number for number, component in enumerate(program.plan.components) if not component.is_hoisted)
    usual = program.tilings(number, (1, case.batch), room)
    assert not isinstance(usual, str), usual
    is_backward = case.way == "backward"
    limits = (1, case.batch), room, shared_memory()
    found = program.spread(number)._tiling(
        case.rows, case.units, *limits, backward=is_backward, is_paired=case.is_paired
    )
    if found is None or found.num_turns > 1:
        return None
    return (usual[0], found) if is_backward else (found, usual[1])


def cases() -> Iterator[Case]:
    """All that may fit."""
    for network in NETWORKS:
        for sequences, units, way, is_paired in product((16, 32, 64), (8, 16, 32, 64), PASSES, (False, True)):
            if way == "backward" or not is_paired:
                yield Case(*network, way, sequences, units, is_paired)


def compiled(case: Case) -> bool:
    """Run it once, which compiles it, in a process of its own; whether it fits."""
    torch.set_num_threads(1)  # a process for each core does this at the same time
    model, x, dy = model_of(*case[:4])
    both = tilings(case, model)
    if both is None:
        return False
    with mock.patch.object(GpuProgram, "tilings", return_value=both):
        model(x[:, :2])[0].backward(dy[:, :2])
    torch.cuda.synchronize()
    return True


def timed(fitting: Sequence[Case]) -> Iterator[dict[str, Any]]:
    """Microseconds of each, one after another."""
    for network, same in groupby(fitting, lambda case: case[:4]):
        model, x, dy = model_of(*network)
        for case in same:
            both = tilings(case, model)
            with mock.patch.object(GpuProgram, "tilings", return_value=both):
                spent = kernel_microseconds(model, x, dy)[PASSES.index(case.way)] / STEPS
            names = ("network", "width", "precision", "batch", "pass", "rows", "units", "is_paired")
            named = dict(zip(names, case, strict=True))
            yield named | {"microseconds": round(spent, 3)}


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
    """Compile all, as many at a time as there are cores, time them and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="where the table goes")
    parser.add_argument("--paired", action="store_true", help="only pairs; other rows of the file stay")
    options = parser.parse_args()
    others = json.loads(options.file.read_text())["rows"] if options.paired else []
    every = [case for case in cases() if case.is_paired or not options.paired]
    fit = results_of(compiled, every)
    found = list(timed([case for case, fits in zip(every, fit, strict=True) if fits]))
    table = {
        "device": torch.cuda.get_device_name(),
        "versions": {"torch": torch.__version__},
        "sizes": {"steps": STEPS, "inputs": INPUTS, "outputs": OUTPUTS},
        "what": "microseconds a slot of spread kernels, median of three, for every way to cut a network up that fits",
        "rows": [row for row in others if not row["is_paired"]] + found,
    }
    options.file.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
