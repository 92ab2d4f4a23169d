"""Microseconds a step of resident kernels in every shape, and of spread ones: `python benchmarks/gpu_shapes.py FILE`.

What the choice of kernels (`rnnlab/engine/gpu/costs.py`) and of shapes (`best_shape` of `launch.py`) is fitted to, and
held to by tests/engine/gpu/test_path.py.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest import mock

import torch
from gpu_process import results_of
from gpu_tilings import kernel_microseconds
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))

from rnnlab import Architecture, architecture
from rnnlab.engine.gpu import launch
from rnnlab.engine.gpu.choice import gpu_program
from rnnlab.engine.gpu.layout import SMALLEST
from rnnlab.engine.gpu.resident import Shape
from rnnlab.engine.model import Model

INPUTS, OUTPUTS = 27, 10
ONE = (1, 64, 180)  # members, sequences, time steps
CASES = (  # network, width, precision, sizes
    *((name, 256, "bf16", ONE) for name in ("sh:tanh", "sh:lstm", "sh:gru-cudnn", "sh:gru", "td:tanh", "dots-2:tanh")),
    *((name, 256, "bf16", ONE) for name in ("mongia-d:lstm", "skip-21:tanh")),
    *((name, 256, precision, ONE) for name in ("sh:tanh", "sh:lstm", "sh:gru") for precision in ("tf32", "float32")),
    *(("sh:lstm", 128, precision, ONE) for precision in ("tf32", "float32")),
    ("sh:lstm", 64, "bf16", (5, 50, 784)),
    ("sh:lstm", 128, "bf16", (9, 50, 400)),
    ("skip-9:lstm", 64, "bf16", (5, 50, 784)),
    ("skip-9:tanh", 64, "bf16", (4, 50, 784)),
    ("sh:tanh", 90, "bf16", (4, 50, 784)),
    ("skip-9:lstm-edges", 64, "bf16", (12, 50, 784)),
    ("skip-30:lstm", 90, "bf16", (9, 50, 400)),
    ("sh:gru", 64, "bf16", (10, 50, 400)),
    ("sh:lstm", 256, "bf16", (132, 64, 175)),
    ("sh:tanh", 256, "bf16", (132, 64, 175)),
    ("sh:lstm", 118, "bf16", (132, 64, 175)),
    ("sh:tanh", 64, "bf16", (500, 50, 784)),
)
MOST_SPREAD = 20  # members

Measured = TypeVar("Measured")


class Case(NamedTuple):
    """A network in one shape, or spread."""

    network: str
    units: int
    precision: str
    sizes: tuple[int, int, int]
    shape: Shape | None

    @property
    def architecture(self) -> Architecture:
        """Of the network."""
        return architecture(self.network, input_size=INPUTS, output_size=OUTPUTS, units=self.units)


def cases() -> Iterator[Case]:
    """Every network in every shape; one member in those of few sequences, for the GPU has room for all."""
    for name, units, precision, sizes in CASES:
        case = Case(name, units, precision, sizes, None)
        shapes = shapes_of(case.architecture, precision)
        yield from (case._replace(shape=shape) for shape in shapes if sizes[0] > 1 or shape.rows == SMALLEST)
        if sizes[0] <= MOST_SPREAD:
            yield case


def shapes_of(network: Architecture, precision: str) -> tuple[Shape, ...]:
    """How its only component that is not hoisted may be cut up."""
    made = gpu_program(network, None, precision, "population")
    (number,) = (number for number, component in enumerate(made.plan.components) if not component.is_hoisted)
    return made.shapes(number)


def run(case: Case, num_steps: int, measure: Callable[[Model, Tensor, Tensor], Measured]) -> Measured:
    """What a measure says of a network in its shape."""
    members, batch, _ = case.sizes
    options: dict[str, Any] = {"generator": torch.Generator().manual_seed(0), "precision": case.precision}
    options["path"] = "gpu-population" if case.shape else "gpu-spread"
    model = Model(case.architecture, population=members, **options).cuda()
    x, dy = (torch.randn(members, batch, num_steps, size, device="cuda") for size in (INPUTS, OUTPUTS))
    shaped = mock.patch.object(launch, "best_shape", return_value=case.shape) if case.shape else nullcontext()
    with shaped:
        return measure(model, x, dy)


def compiled(case: Case) -> None:
    """Run it for two steps, which compiles it, in a process of its own."""
    torch.set_num_threads(1)  # a process for each core does this at the same time

    def step(model: Model, x: Tensor, dy: Tensor) -> None:
        model(x)[0].backward(dy)
        torch.cuda.synchronize()

    run(case, 2, step)


def timed(case: Case) -> dict[str, Any]:
    """Microseconds of a time step, forward and backward."""
    members, batch, steps = case.sizes
    forward, backward = (round(spent / steps, 3) for spent in run(case, steps, kernel_microseconds))
    print(case, forward, backward, flush=True)
    named = {"network": case.network, "units": case.units, "precision": case.precision}
    named |= {"members": members, "batch": batch, "shape": case.shape and list(case.shape)}
    return named | {"forward": forward, "backward": backward}


def main() -> None:
    """Compile all, as many at a time as there are cores, time them and write the file."""
    chosen = list(cases())
    results_of(compiled, chosen)
    table = {
        "device": torch.cuda.get_device_name(),
        "versions": {"torch": torch.__version__},
        "what": "microseconds a time step of resident kernels, rows and programs of each shape, and of spread kernels",
        "rows": [timed(case) for case in chosen],
    }
    Path(sys.argv[1]).write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
