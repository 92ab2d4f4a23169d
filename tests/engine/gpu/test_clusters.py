"""Clusters of two, four and eight programs that share a network, on a GPU that has them; `test_emulated` runs two."""

import pytest
import torch

from rnnlab import architecture
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
