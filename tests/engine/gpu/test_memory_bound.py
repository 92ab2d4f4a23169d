"""What `memory_bound.py` writes is what torch's operations give, at all sizes and however arrays lie in memory.

On a machine with a GPU kernels do it; without one torch's operations, or Triton's interpreter where it is asked for, as
`make test` does.
"""

import pytest
import torch
from torch import Tensor

from rnnlab import Model, architecture
from rnnlab.engine.gpu import hoisted, memory_bound
from rnnlab.engine.gpu.memory_bound import MOST_COLUMNS, can_read_out, put_padded, read_out, turned
from tests.engine.gpu.checks import IS_INTERPRETED

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def some(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(DEVICE, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 16, 16), (3, 64, 192), (2, 144, 80), (5, 1, 300)])
def test_matrices_are_turned(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    matrices = some(*shape, dtype=dtype)
    found = turned(matrices)
    assert found.is_contiguous()
    assert torch.equal(found, matrices.mT)


def test_matrices_that_lie_apart_are_turned() -> None:
    matrices = some(3, 40, 32)[:, :24]
    assert torch.equal(turned(matrices), matrices.mT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("units", [1, 16, 27, MOST_COLUMNS, 100])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (1, 2, 0, 3), (0, 1, 3, 2)])
def test_gradients_are_put_in_their_place(units: int, order: tuple[int, ...], dtype: torch.dtype) -> None:
    """However they lie in memory; the padding becomes zeros."""
    sizes = (2, 21, 9, units)
    gradient = some(*(sizes[axis] for axis in order)).permute([order.index(axis) for axis in range(4)])
    assert gradient.shape == sizes
    width = -(-units // 16) * 16
    found = torch.full((2, 23, 9, width), torch.nan, dtype=dtype, device=DEVICE)[:, 1:22]
    put_padded(found, gradient)
    off = 2**-7 if IS_INTERPRETED and dtype == torch.bfloat16 else 0.0  # the interpreter cuts off where GPUs round
    torch.testing.assert_close(found[..., :units], gradient.to(dtype), rtol=off, atol=0.0)
    assert not found[..., units:].any()


def test_one_gradient_for_all_is_put_in_its_place() -> None:
    found = torch.full((2, 5, 3, 16), torch.nan, device=DEVICE)
    put_padded(found, torch.ones((), device=DEVICE).expand(2, 5, 3, 10))
    assert torch.equal(found.sum(-1), torch.full((2, 5, 3), 10.0, device=DEVICE))


@pytest.mark.skipif(IS_INTERPRETED, reason="the interpreter would take minutes")
@pytest.mark.parametrize("sizes", [(1, 2, 600_000, 5), (70_000, 1, 2, 5)])
def test_gradients_of_many_sequences_and_members_are_put_in_their_place(sizes: tuple[int, ...]) -> None:
    """More than the later axes of a grid have room for."""
    gradient = some(*sizes)
    found = torch.full((*sizes[:3], 16), torch.nan, device=DEVICE)
    put_padded(found, gradient)
    assert torch.equal(found[..., :5], gradient)
    assert not found[..., 5:].any()
    assert torch.equal(turned(gradient.view(-1, 2, 5)[:70_000]), gradient.view(-1, 2, 5)[:70_000].mT)


@pytest.mark.parametrize(("depth", "width"), [(16, 16), (48, 48), (96, 32), (256, 64)])
@pytest.mark.parametrize("members", [1, 3])
def test_read_outs_are_products_and_a_bias(members: int, depth: int, width: int) -> None:
    """Of states one step after the first, which are not the beginning of an array."""
    states = some(members, 12, 13, depth, dtype=torch.bfloat16)[:, 1:]
    matrix, bias = some(members, depth, width, dtype=torch.bfloat16), some(members, width)
    assert can_read_out(states, width)
    found = torch.full((members, 11, 13, width), torch.nan, device=DEVICE)
    read_out(states, matrix, bias, found)
    wanted = torch.einsum("ptbk,pkn->ptbn", states.double(), matrix.double()) + bias.double()[:, None, None]
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5 * depth)


def test_states_that_all_members_share_are_read_out() -> None:
    states = some(1, 5, 7, 32, dtype=torch.bfloat16).expand(3, -1, -1, -1)
    matrix, bias = some(3, 32, 16, dtype=torch.bfloat16), some(3, 16)
    found = torch.empty(3, 5, 7, 16, device=DEVICE)
    read_out(states, matrix, bias, found)
    wanted = torch.einsum("ptbk,pkn->ptbn", states.double(), matrix.double()) + bias.double()[:, None, None]
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("label", "output_size", "precision", "is_used"),
    [
        ("sh:lstm", 5, "bf16", True),
        ("sh:lstm", 5, "float32", False),  # torch multiplies
        ("sh:lstm", MOST_COLUMNS + 1, "bf16", False),
        ("mongia-d:tanh", 5, "bf16", None),
    ],
)
@pytest.mark.usefixtures("emulated")
@pytest.mark.skipif(DEVICE == "cuda", reason="test_population and test_spread run them on a GPU")
def test_narrow_read_outs_take_one_pass(
    monkeypatch: pytest.MonkeyPatch, label: str, output_size: int, precision: str, is_used: bool | None
) -> None:
    network = architecture(label, input_size=3, output_size=output_size, units=12)
    used: list[Tensor] = []

    def noted(*arrays: Tensor) -> None:
        used.append(arrays[0])
        memory_bound.read_out(*arrays)

    monkeypatch.setattr(hoisted, "read_out", noted)
    model = Model(network, generator=torch.Generator().manual_seed(0), path="gpu-population", precision=precision)
    exact = Model(network, generator=torch.Generator().manual_seed(0), path="reference").double()
    x = some(2, 6, 3)
    torch.testing.assert_close(model(x)[0].double(), exact(x.double())[0], rtol=2e-2, atol=2e-2)
    has_one = len([edge for edge in network.edges if edge.target[0] == "y"]) == 1
    assert bool(used) == (has_one if is_used is None else is_used)
