"""Where the CPU path meets the world: threads, torch.compile, arrays that come and go, numbers that do not fit."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import pytest
import torch
from torch import nn

from rnnlab import Architecture, EdgeSpec, Model, ModelError, NodeSpec, State, architecture
from rnnlab.engine import pool as pools
from rnnlab.engine.model import _pool
from rnnlab.engine.native import runtime
from rnnlab.engine.native.products import MOST_SOURCES
from tests.engine.comparison import compare
from tests.engine.models import make, random

TEAM = """
import torch
from rnnlab import Model, architecture
from rnnlab.engine.native import runtime
runtime.LEAST_OF_A_THREAD = 1
torch.set_num_threads(4)
network = architecture("td:lstm", input_size=3, output_size=2, units=5)
x = torch.randn(20, 6, 3)
found = []
for path in ("cpu", "reference"):
    model = Model(network, generator=torch.Generator().manual_seed(0), path=path)
    model(x)[0].sum().backward()
    found.append([model(x)[0].detach(), *(value.grad for value in model.parameters())])
for one, other in zip(*found):
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
"""


@pytest.mark.parametrize("limit", [{"OMP_THREAD_LIMIT": "1"}, {"OMP_DYNAMIC": "true"}, {}], ids=str)
def test_team_may_be_smaller_than_asked_for(limit: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-c", TEAM], env=os.environ | limit, check=True)


@pytest.mark.parametrize(
    ("units", "population", "of_walks", "of_gradients"),
    # of a walk 10 steps of 16 sequences multiply (3 + units) * units forward, and units * units back; of gradients
    # the same numbers of rows as both
    [(8, 1, (1, 1), 1), (64, 1, (1, 1), 1), (192, 1, (3, 2), 3), (64, 64, (4, 4), 4)],
)
def test_small_networks_stay_on_one_thread(
    monkeypatch: pytest.MonkeyPatch, units: int, population: int, of_walks: tuple[int, int], of_gradients: int
) -> None:
    """A team waits for the last of its threads: it must be worth it."""
    teams: list[int] = []
    monkeypatch.setattr(runtime, "_together", lambda function, worker, run, threads: teams.append(threads))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(runtime, "LEAST_OF_A_THREAD", 2_000_000)
    model = Model(architecture("sh:tanh", input_size=3, output_size=2, units=units), population=population, seed=0)
    model(torch.ones(population, 16, 10, 3))[0].sum().backward()
    assert teams == [*of_walks, of_gradients]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch looks at it itself
def test_compiled_module_calls_the_model_as_it_is() -> None:
    model = make("td:lstm")
    whole = nn.Sequential(nn.Linear(3, 3), model)
    wanted = whole(x := random(2, 5, 3))[0]
    found = torch.compile(whole, backend="eager")(x)[0]
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_first_use_from_several_threads() -> None:
    network = architecture("td:gru", input_size=3, output_size=2, units=7)
    model = Model(network, generator=torch.Generator().manual_seed(0))
    x, found, start = random(2, 5, 3), [], threading.Barrier(4)

    def use() -> None:
        start.wait()
        found.extend(model(x)[0].detach() for _ in range(20))

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    assert all(torch.equal(each, found[0]) for each in found)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.zeros(1, 2, 2), r"'h->h\[1\]' must be float32 of shape \[1, 4, 4\], got float32 of shape \[1, 2, 2\]"),
        (torch.zeros(1, 4, 4, dtype=torch.float64), "got float64 of shape"),
        (torch.zeros(3, 4, 4), r"got float32 of shape \[3, 4, 4\]"),
    ],
)
def test_parameter_that_does_not_fit_is_refused(value: torch.Tensor, message: str) -> None:
    model = make("tanh")
    model.arrays["h->h[1]"] = nn.Parameter(value)
    with pytest.raises(ModelError, match=message):
        model(random(2, 5, 3))


def test_tokens_of_a_state_are_checked() -> None:
    made = architecture("sh:tanh", input_size=10, output_size=2, units=4, encoding="tokens")
    late = [EdgeSpec(**{**each.__dict__, "delay": 1}) if each.source[0] == "x" else each for each in made.edges]
    model = Model(Architecture(made.nodes, late), generator=torch.Generator().manual_seed(0))
    x = torch.zeros(2, 3, dtype=torch.long)
    _, state = model(x)
    for token, is_known in ((-1, True), (9, True), (10, False), (10**12, False), (-2, False)):
        given = State(state.step, {**state.values, ("x", ""): torch.full_like(state.values["x", ""], token)})
        if is_known:
            model(x, given)
        else:
            with pytest.raises(ModelError, match="tokens lie from 0 to 9"):
                model(x, given)


def test_second_backward_pass_names_the_way_out() -> None:
    y, _ = make()(random(2, 5, 3))
    y.sum().backward(retain_graph=True)
    with pytest.raises(ModelError, match="runs backward once: for retain_graph make the model with path='reference'"):
        y.sum().backward()


def test_node_of_many_edges_agrees() -> None:
    """More products into the same gates than one sum takes."""
    nodes = [NodeSpec(name="x", kind="input", units=2), NodeSpec(name="h", kind="hidden", units=3, cell="tanh")]
    edges = [EdgeSpec(source=("x", 0), target=("h", 0), delay=delay) for delay in range(MOST_SOURCES + 3)]
    edges += [EdgeSpec(source=("h", 0), target=("h", 0), delay=delay) for delay in range(1, MOST_SOURCES + 3)]
    nodes.append(NodeSpec(name="y", kind="output", units=1))
    edges.append(EdgeSpec(source=("h", 0), target=("y", 0), delay=0))
    compare(Architecture(nodes, edges), num_steps=40)


# ----------------------------------------------------------------------------------------------------- arrays in a pool


def waiting(model: Model) -> int:
    return sum(map(len, _pool(model.architecture, model.architecture.cells, model.nonlinearity).free.values()))


def test_arrays_are_used_again() -> None:
    model = make("lstm", units=11)  # a width of its own: models of one architecture share a pool
    with torch.no_grad():
        model(random(2, 5, 3))
    assert waiting(model) == 1
    y, _ = model(random(2, 5, 3))
    assert waiting(model) == 0
    y.sum().backward()
    assert waiting(model) == 1


def test_arrays_that_nobody_gives_back_go_at_once() -> None:
    """Without the collector of cycles, which does not know how large they are."""
    model = make("lstm", units=12)
    pool = _pool(model.architecture, model.architecture.cells, model.nonlinearity)
    model(random(2, 5, 3))[0].sum().backward()
    (arrays,) = next(iter(pool.free.values()))
    seen = weakref.ref(arrays)
    gc.disable()
    try:
        del arrays
        results = model(random(2, 5, 3))
        assert seen() is not None
        del results
        assert seen() is None
    finally:
        gc.enable()


def test_all_pools_together_hold_a_bounded_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = make("tanh"), make("tanh", units=40)
    with torch.no_grad():
        for steps in range(1, 30):
            for model in (small, large):
                model(random(2, steps, 3))
        sizes = [size for _, size in pools._waiting.values()]
        monkeypatch.setattr(pools, "MOST_BYTES", max(sizes))
        large(random(2, 17, 3))
        assert 0 < sum(size for _, size in pools._waiting.values()) <= max(sizes)
        before = waiting(small)
        monkeypatch.setattr(pools, "MOST_BYTES", 100)
        small(random(2, 31, 3))
        assert waiting(small) == before  # what is larger than all may be is not kept


def test_gradients_that_overflow_come_without_a_warning() -> None:
    """They are for the caller to see (C72); a warning of numpy's would come between the lines of a display."""
    network = architecture("sh:relu", input_size=1, output_size=1, units=2)
    model = Model(network, generator=torch.Generator().manual_seed(0), path="cpu")
    with torch.no_grad():
        for value in model.parameters():
            value.fill_(3.0)
        model.arrays["h->h[1]"].fill_(1e37)
    x = torch.ones(64, 1, 1)
    gradients = torch.autograd.grad(model(x)[0].sum(), list(model.parameters()), allow_unused=True)
    assert not all(value is None or value.isfinite().all() for value in gradients)
