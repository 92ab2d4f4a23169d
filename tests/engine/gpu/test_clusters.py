"""Clusters of programs that share a network, and pairs of spread programs, on a GPU that has them.

`test_emulated` and `test_pairs` run some of them without one.
"""

from typing import Any

import pytest
import torch

from rnnlab import architecture
from rnnlab.engine.gpu import launch, spread
from rnnlab.engine.gpu.resident import Shape
from rnnlab.engine.gpu.spread import SpreadComponent, Tiling
from tests.engine.gpu.checks import TOLERANCES, ChooseShape, compare
from tests.engine.networks import without_relu

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0), reason="no GPU that has clusters"
)
NETWORKS = ("sh:tanh", "sh:gru", "st:lstm", "td:gru", "mongia-d:lstm", "stack-2:intersection")


@pytest.mark.parametrize("num_programs", [2, 4, 8])
@pytest.mark.parametrize(
    ("name", "precision"),
    [(name, each) for each in TOLERANCES for name in (NETWORKS if each == "float32" else without_relu(NETWORKS))],
)
def test_networks_that_programs_share_agree(
    choose_shape: ChooseShape, new_programs: None, name: str, precision: str, num_programs: int
) -> None:
    used = choose_shape(num_programs)
    network = architecture(name, input_size=3, output_size=2, units=16 * num_programs - 3)
    compare(network, precisions=[precision], paths=["gpu-population"], num_steps=9, population=3, batch_size=19)
    assert {shape.num_programs for shape in used} == {num_programs}


@pytest.mark.parametrize(
    ("shape", "precision"), [(Shape(32, 2), "float32"), (Shape(64, 4), "bf16"), (Shape(32, 8), "tf32")]
)
@pytest.mark.parametrize("name", ["sh:gru", "sh:lstm"])
def test_groups_of_warps_keep_their_own_pace(
    monkeypatch: pytest.MonkeyPatch, new_programs: None, name: str, shape: Shape, precision: str
) -> None:
    monkeypatch.setattr(launch, "best_shape", lambda *_: shape)
    network = architecture(name, input_size=3, output_size=2, units=16 * shape.num_programs)
    compare(network, precisions=[precision], paths=["gpu-population"], num_steps=40, population=2, batch_size=67)


@pytest.mark.parametrize(
    ("name", "units", "precision"),
    [
        ("sh:lstm", 250, "bf16"),
        ("sh:lstm", 64, "float32"),
        ("sh:gru", 256, "tf32"),
        ("stack-2:lstm", 128, "float32"),
        ("skip-3:lstm", 128, "bf16"),
        ("st:lstm", 1024, "float32"),  # matrices are streamed
    ],
)
def test_pairs_agree(
    monkeypatch: pytest.MonkeyPatch, new_programs: None, name: str, units: int, precision: str
) -> None:
    chosen: list[Tiling | None] = []
    choose = SpreadComponent.tiling

    def tiling(self: SpreadComponent, *limits: Any, **options: Any) -> Tiling | None:
        found = choose(self, *limits, **options)
        chosen.extend([found] if options["backward"] else [])
        return found

    monkeypatch.setattr(spread, "_PAIR", -100.0)
    monkeypatch.setattr(SpreadComponent, "tiling", tiling)
    network = architecture(name, input_size=3, output_size=2, units=units)
    compare(network, precisions=[precision], paths=["gpu-spread"], num_steps=5, population=1, batch_size=19)
    assert chosen
    assert all(each is not None and each.is_paired for each in chosen)
