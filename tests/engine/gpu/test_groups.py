"""Warps of the same sequences form a group in kernels of resident nodes: in the emulator each keeps its own pace."""

from typing import Any

import pytest

from rnnlab import Architecture, architecture
from rnnlab.engine.gpu import launch
from rnnlab.engine.gpu.choice import gpu_program
from rnnlab.engine.gpu.resident import Shape
from tests.engine.comparison import DifferenceError
from tests.engine.gpu.checks import BreakKernels, compare
from tests.engine.gpu.emulator import NEEDS, EmulatedFunction, EmulationError

pytestmark = NEEDS
SIZES = {"input_size": 3, "output_size": 2}


def check(network: Architecture, precision: str, **numbers: Any) -> None:
    compare(network, device="cpu", precisions=[precision], paths=["gpu-population"], **numbers)


@pytest.mark.parametrize(
    ("name", "precision", "shape", "num_groups"),
    [
        ("sh:gru", "bf16", Shape(64), (2, 2)),  # two stages a moment
        ("skip-3:lstm", "float32", Shape(32), (2, 2)),  # states that come back from memory
        ("td:lstm", "tf32", Shape(64, 2), (2, 2)),  # each group has its counters
        ("sh:gru", "tf32", Shape(32, 2), (2, 2)),  # gates are sent, not sums
    ],
)
def test_groups_of_warps_keep_their_own_pace(
    monkeypatch: pytest.MonkeyPatch,
    break_kernels: BreakKernels,
    name: str,
    precision: str,
    shape: Shape,
    num_groups: tuple[int, int],
) -> None:
    """Those of different rows share nothing but matrices; a group that waits for nobody, or for another's, is wrong."""
    monkeypatch.setattr(launch, "best_shape", lambda *_: shape)
    network = architecture(name, **SIZES, units=40)
    made = gpu_program(network, None, precision, "population")
    resident = made.resident(next(number for number, each in enumerate(made.plan.components) if not each.is_hoisted))
    passes = (resident.warps(shape, made.arithmetic, backward=backward) for backward in (False, True))
    assert tuple(resident.num_groups(warps) for warps in passes) == num_groups
    numbers: Any = {"population": 1, "batch_size": 67, "num_steps": 6}
    for seed in (0, 1, 2):
        monkeypatch.setattr(EmulatedFunction, "seed", seed)
        check(network, precision, **numbers)
    old, new = ("own_group() * 16", "0") if shape.num_programs > 1 else ("meet_group();", "")
    changed = break_kernels(old, new)
    with pytest.raises((DifferenceError, EmulationError)):
        check(network, precision, **numbers)
    assert changed


def test_warps_are_tall_where_their_threads_then_keep_the_matrices() -> None:
    """In the forward pass of clusters, and where there would be too many otherwise."""

    def row_tiles(name: str, precision: str, shape: Shape) -> tuple[int, int]:
        made = gpu_program(architecture(name, **SIZES, units=256), None, precision, "population")
        resident = made.resident(1)
        forward, back = (resident.warps(shape, made.arithmetic, backward=backward) for backward in (False, True))
        return forward.row_tiles, back.row_tiles

    assert row_tiles("sh:lstm", "bf16", Shape(32, 4)) == (2, 1)
    assert row_tiles("sh:lstm", "bf16", Shape(16, 4)) == (1, 1)
    assert row_tiles("sh:lstm", "bf16", Shape(32, 8)) == (1, 1)  # eight warps have the registers
    assert row_tiles("sh:lstm", "tf32", Shape(32, 4)) == (1, 1)  # no threads have
    assert row_tiles("sh:tanh", "float32", Shape(32, 2)) == (2, 2)  # 32 warps would be too many


@pytest.mark.parametrize("seed", [0, 1])
def test_tall_warps_keep_matrices_in_registers(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(EmulatedFunction, "seed", seed)
    monkeypatch.setattr(launch, "best_shape", lambda *_: Shape(32, 4))
    check(architecture("sh:lstm", **SIZES, units=250), "bf16", population=1, batch_size=35, num_steps=3)
