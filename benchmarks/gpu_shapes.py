"""Microseconds a step of resident kernels in every shape, and of spread ones: `python benchmarks/gpu_shapes.py FILE`.

What the choice of kernels (`rnnlab/engine/gpu/costs.py`) and of shapes (`best_shape` of `launch.py`) is fitted to, and
held to by tests/engine/gpu/test_path.py.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from gpu_tilings import kernel_microseconds

sys.path.insert(0, str(Path(__file__).parents[1]))

from rnnlab import Architecture, architecture
from rnnlab.engine.gpu import launch
from rnnlab.engine.gpu.choice import gpu_program
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


def rows(network: str, width: int, precision: str, sizes: tuple[int, int, int]) -> Iterator[dict[str, Any]]:
    """Every shape of a network."""
    members, batch = sizes[:2]
    named = {"network": network, "units": width, "precision": precision, "members": members, "batch": batch}
    made = architecture(network, input_size=INPUTS, output_size=OUTPUTS, units=width)
    for shape in shapes_of(made, precision):
        with mock.patch.object(launch, "best_shape", lambda *_, shape=shape: shape):
            yield named | {"shape": list(shape)} | timed(made, precision, "gpu-population", sizes)
    if members <= MOST_SPREAD:
        yield named | {"shape": None} | timed(made, precision, "gpu-spread", sizes)


def shapes_of(network: Architecture, precision: str) -> tuple[Shape, ...]:
    """How its only component that is not hoisted may be cut up."""
    made = gpu_program(network, None, precision, is_spread=False)
    (number,) = (number for number, component in enumerate(made.plan.components) if not component.is_hoisted)
    return made.shapes(number)


def timed(network: Architecture, precision: str, path: str, sizes: tuple[int, int, int]) -> dict[str, float]:
    """Microseconds of a time step, forward and backward."""
    members, batch, steps = sizes
    seeded = torch.Generator().manual_seed(0)
    model = Model(network, population=members, generator=seeded, precision=precision, path=path).cuda()
    x, dy = (torch.randn(members, batch, steps, size, device="cuda") for size in (INPUTS, OUTPUTS))
    forward, backward = (round(spent / steps, 3) for spent in kernel_microseconds(model, x, dy))
    print(network, precision, path, sizes, forward, backward, flush=True)
    return {"forward": forward, "backward": backward}


def main() -> None:
    """Time all cases and write the file."""
    table = {
        "device": torch.cuda.get_device_name(),
        "versions": {"torch": torch.__version__},
        "what": "microseconds a time step of resident kernels, rows and programs of each shape, and of spread kernels",
        "rows": [row for case in CASES for row in rows(*case)],
    }
    Path(sys.argv[1]).write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
