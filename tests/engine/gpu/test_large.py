"""Arrays of more than 2^31 numbers: a member at their end computes what it computes alone."""

from typing import Any

import pytest
import torch

from rnnlab import architecture
from rnnlab.engine.initialisation import Initialisation
from rnnlab.engine.model import Model

MEMBERS, BATCH, STEPS, UNITS = 132, 64, 1024, 256
GIGABYTES = 60

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_properties(0).total_memory < GIGABYTES * 1e9,
    reason=f"no GPU with {GIGABYTES} GB",
)


def trained(model: Model, x: torch.Tensor) -> list[torch.Tensor]:
    """Output and gradients of the last member."""
    y, _ = model(x)
    y[-1].square().mean().backward()
    return [y.detach()[-1], *(value.grad[-1] for value in model.parameters() if value.grad is not None)]


@pytest.mark.parametrize("name", ["sh:tanh", "td:tanh"])  # a resident node, and a component for the general kernels
def test_last_member_of_a_large_population_equals_itself_alone(name: str) -> None:
    assert MEMBERS * BATCH * STEPS * UNITS > 2**31
    network = architecture(name, input_size=3, output_size=2, units=UNITS)
    generator = torch.Generator().manual_seed(0)
    # td would be chaotic as it starts otherwise: a member alone is divided among programs in another way, and sums
    # whose terms come in another order differ by 1e-7, which a thousand steps would make 1
    options: Any = {"initialisation": Initialisation(square_scale=0.7), "precision": "bf16", "path": "gpu-population"}
    many = Model(network, generator=generator, population=MEMBERS, **options).cuda()
    alone = Model(network, generator=generator, population=1, **options).cuda()
    for name, value in alone.arrays.items():
        value.data.copy_(many.arrays[name].data[-1:])
    x = torch.randn(BATCH, STEPS, 3, device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    for found, wanted in zip(trained(many, x), trained(alone, x), strict=True):
        torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2 * wanted.abs().max().item())
