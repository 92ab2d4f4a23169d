"""The peers compute what the models compute, and a planted difference is seen."""

import pytest
import torch

from rnnlab import Model, architecture, from_torch
from rnnlab.bench import jax_peers, loops, torch_peers, torchrecurrent_peers
from rnnlab.bench.equality import check_equal, results
from rnnlab.bench.memory import rise_of_peak
from rnnlab.errors import BenchError


def data(*sizes: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*sizes, generator=generator), torch.randn(*sizes[:-1], width, generator=generator)


@pytest.fixture(autouse=True)
def one_thread():
    """Torch's threads wait for each other after every operation: minutes, where the machine is busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def jax_peer():
    pytest.importorskip("jax", reason="jax is not installed (pip install rnnlab[bench])")
    with jax_peers.JaxPeer(1) as peer:
        yield peer


@pytest.mark.parametrize("steps", [1, 2, 45])
@pytest.mark.parametrize("name", list(loops.LOOPS))
def test_loops_equal_models(name: str, steps: int) -> None:
    network = architecture(name, input_size=5, output_size=3, units=7)
    model = Model(network, generator=torch.Generator().manual_seed(0))
    assert loops.loop_side(name, model, name, *data(4, steps, 5, width=3))(1)


@pytest.mark.parametrize("name", list(loops.LOOPS))
def test_loop_with_one_number_changed_is_refused(name: str) -> None:
    network = architecture(name, input_size=5, output_size=3, units=7)
    model = Model(network, generator=torch.Generator().manual_seed(0))
    x, dy = data(4, 30, 5, width=3)
    found, arrays = results(model, x, dy), dict(model.arrays.items())
    read = [key for key in arrays if key not in ("h@0 initial h", "h@0 initial c")]  # phase 0 has no step before it
    for key in read:
        loop = loops.Loop(name, arrays)
        loop.arrays[key].data.flatten()[0] += 0.1
        with pytest.raises(BenchError, match="refused to time"):
            check_equal(name, found, loops.exact_results(loop, x, dy))


@pytest.mark.parametrize("cell", list(torch_peers.LAYERS))
def test_torch_layers_equal_models(cell: str) -> None:
    layer = torch_peers.make_layer(cell, 5, 7)
    x, dy = data(4, 11, 5, width=7)
    expected = torch_peers.exact_results(layer, x, dy)
    assert len(expected) == 5  # output, input, two matrices, bias
    assert torch_peers.layer_side(cell, from_torch(layer), layer, x, dy)(1)
    with torch.no_grad():
        layer.weight_hh_l0[0, 0] += 0.1
    with pytest.raises(BenchError, match=r"output differs by .* refused to time"):
        torch_peers.layer_side(cell, from_torch(torch_peers.make_layer(cell, 5, 7)), layer, x, dy)


@pytest.mark.parametrize("cell", list(torch_peers.LAYERS))
def test_members_of_a_population_equal_themselves_alone(cell: str) -> None:
    layers = [torch_peers.make_layer(cell, 5, 7, seed=member) for member in range(3)]
    several = torch_peers.make_population(layers)
    x, dy = data(3, 4, 11, 5, width=7)
    assert torch_peers.members_side(cell, several, layers, x, dy)(1)
    with torch.no_grad():
        several.arrays["h0->h0[1]"][2, 0, 0] += 0.1
    with pytest.raises(BenchError, match="member 2 against itself alone: output differs"):
        torch_peers.members_side(cell, several, layers, x, dy)


@pytest.mark.parametrize("cell", list(torchrecurrent_peers.CELLS))
def test_torchrecurrent_layers_equal_models(cell: str) -> None:
    pytest.importorskip("torchrecurrent", reason="torchrecurrent is not installed (pip install rnnlab[bench])")
    model = torchrecurrent_peers.make_model(cell, 5, 7)
    x, dy = data(4, 11, 5, width=7)
    assert torchrecurrent_peers.layer_side(cell, model, cell, x, dy)(1)
    layer = torchrecurrent_peers.make_layer(model, cell)
    with torch.no_grad():
        model.arrays["h bias"][0, -1] += 0.1
    with pytest.raises(BenchError, match="refused to time"):
        check_equal(cell, results(model, x, dy), torchrecurrent_peers.exact_results(layer, x, dy))


@pytest.mark.parametrize("cell", list(torch_peers.LAYERS))
def test_jax_equals_torch_alone_and_as_a_population(cell: str, jax_peer) -> None:
    layers = [torch_peers.make_layer(cell, 5, 7, seed=member) for member in range(3)]
    x, dy = data(3, 4, 11, 5, width=7)
    for given in (layers[:1], x[0], dy[0]), (layers, x, dy):
        side = jax_peer.side(cell, cell, *given)
        assert len(side(4)) == 4
        assert all(seconds > 0 for seconds in side(2))


def test_jax_that_computes_something_else_is_refused(jax_peer, monkeypatch) -> None:
    layer = torch_peers.make_layer("gru", 5, 7)
    numbers = jax_peers._numbers
    monkeypatch.setattr(jax_peers, "_numbers", lambda layer: numbers(layer) | {"bn": torch.ones(7)})
    with pytest.raises(BenchError, match=r"output differs by .* refused to time"):
        jax_peer.side("gru", "gru", [layer], *data(4, 11, 5, width=7))


def test_broken_worker_is_named() -> None:
    pytest.importorskip("jax", reason="jax is not installed (pip install rnnlab[bench])")
    with jax_peers.JaxPeer(1) as peer:
        peer._process.kill()
        with pytest.raises(BenchError, match="broke down"):
            peer.side("tanh", "tanh", [torch_peers.make_layer("tanh", 5, 7)], *data(4, 11, 5, width=7))


def test_missing_or_misshapen_or_nan_results_are_refused() -> None:
    expected = {"output": torch.ones(2, 3)}
    with pytest.raises(BenchError, match="no output to compare"):
        check_equal("case", {}, expected)
    with pytest.raises(BenchError, match=r"output is \[2\], the peer's \[2, 3\]"):
        check_equal("case", {"output": torch.ones(2)}, expected)
    with pytest.raises(BenchError, match="output differs by nan"):
        check_equal("case", {"output": torch.full((2, 3), torch.nan)}, expected)
    check_equal("case", {"output": torch.ones(2, 3) + 1e-6}, expected)


def test_difference_beyond_the_tolerance_is_refused() -> None:
    expected, found = {"output": torch.ones(2, 3)}, {"output": torch.ones(2, 3) - 5e-3}
    check_equal("case", found, expected, 6e-3)
    with pytest.raises(BenchError, match=r"differs by 5.0e-03 of its largest value \(at most 4e-03\); refused to time"):
        check_equal("case", found, expected, 4e-3)


def test_rise_of_the_peak_sees_what_a_step_holds_for_a_moment() -> None:
    megabytes = rise_of_peak(lambda: bytearray(b"1") * (64 << 20))
    assert 60 < megabytes < 80
    assert rise_of_peak(lambda: None) < 10
