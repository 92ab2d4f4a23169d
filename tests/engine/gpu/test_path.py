"""Which path and which kernels run and why, as far as it shows without a GPU."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rnnlab import Architecture, EdgeSpec, ModelError, NodeSpec, architecture
from rnnlab.engine.gpu import choice, program
from rnnlab.engine.gpu.choice import Choice, choose
from rnnlab.engine.model import Model
from tests.engine.gpu.checks import IS_INTERPRETED
from tests.engine.gpu.cuda_texts import GPUS
from tests.engine.networks import both_directions

NETWORK = architecture("sh:tanh", input_size=3, output_size=2, units=4)
LARGE = architecture("sh:lstm", input_size=3, output_size=2, units=512)
Chosen = Callable[..., Choice]
TIMINGS = Path(__file__).parents[3] / "benchmarks" / "results" / "gpu-lots-h200.json"


def make(**options) -> Model:
    return Model(NETWORK, generator=torch.Generator().manual_seed(0), **options)


# --------------------------------------------------------------------------------------------------------------- paths


def test_precision_is_one_of_three() -> None:
    with pytest.raises(ModelError, match="precision is one of float32, tf32, bf16, got 'fp8'"):
        make(precision="fp8")


@pytest.mark.skipif(IS_INTERPRETED, reason="Triton's interpreter runs the gpu path on the CPU")
@pytest.mark.parametrize("path", ["gpu", "gpu-population", "gpu-spread"])
def test_gpu_path_refuses_the_cpu(path: str) -> None:
    with pytest.raises(ModelError, match="the gpu path runs float32 on CUDA devices"):
        make(path=path)(torch.zeros(1, 2, 3))


def test_gpu_path_refuses_float64() -> None:
    with pytest.raises(ModelError, match="the gpu path runs float32 on CUDA devices"):
        make(path="gpu").double()(torch.zeros(1, 2, 3))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_gpu_path_is_chosen_and_explained() -> None:
    assert "gpu: float32 on a GPU; precision bf16" in make(precision="bf16").cuda().explain()
    assert "a program for each member, asked for" in make(path="gpu-population").cuda().explain()
    assert "spread over multiprocessors: forward over" in make(path="gpu-spread").cuda().explain()
    assert "reference: no fast path for float64 on cuda yet" in make().cuda().double().explain()


# ------------------------------------------------------------------------------------------------------------- kernels


@pytest.fixture
def choose_on_h200(monkeypatch: pytest.MonkeyPatch, new_programs: None) -> Chosen:
    """The choice as on a GPU that need not be there."""
    gpu = GPUS["H200"]
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
    monkeypatch.setattr(choice, "processors", lambda device: gpu.num_processors)
    monkeypatch.setattr(program, "shared_memory", lambda: gpu.shared_bytes)

    def chosen(network: Architecture, kernels: str, members: int, batch: int, precision: str = "bf16") -> Choice:
        return choose(network, None, precision, kernels, (members, batch), torch.device("cuda"))

    return chosen


def test_kernels_asked_for_are_taken(choose_on_h200: Chosen) -> None:
    population = choose_on_h200(LARGE, "population", 1, 64)
    assert not population.program.is_spread
    assert population.reason == "a program for each member, asked for"
    assert choose_on_h200(LARGE, "spread", 1, 64).program.is_spread


def test_one_large_network_is_spread_and_a_population_is_not(choose_on_h200: Chosen) -> None:
    assert choose_on_h200(LARGE, "auto", 1, 64).program.is_spread
    population = choose_on_h200(NETWORK, "auto", 500, 64)
    assert not population.program.is_spread
    assert "does not fit into 132 multiprocessors at once" in population.reason


def timed() -> dict[tuple[str, int, int], dict[str, float]]:
    """Whole training steps on an H200, by network, units and members: milliseconds by kernels."""
    found: dict[tuple[str, int, int], dict[str, float]] = {}
    for row in json.loads(TIMINGS.read_text())["alone"]:
        found.setdefault((row["network"], row["units"], row["members"]), {})[row["kernels"]] = row["ms"]
    return {case: times for case, times in found.items() if len(times) == 2}


def test_networks_were_timed_on_both_kinds_of_kernels() -> None:
    faster = [min(times, key=times.__getitem__) for times in timed().values()]
    assert (faster.count("population"), faster.count("spread")) == (6, 3)


@pytest.mark.parametrize("case", timed(), ids=str)
def test_what_was_faster_is_chosen(choose_on_h200: Chosen, case: tuple[str, int, int]) -> None:
    (name, units, members), times = case, timed()[case]
    network = architecture(name, input_size=1, output_size=10, units=units)
    is_spread = choose_on_h200(network, "auto", members, 50).program.is_spread
    assert is_spread is (times["spread"] < times["population"])


def test_a_cell_of_two_products_and_other_precisions_were_not_timed(choose_on_h200: Chosen) -> None:
    assert choose_on_h200(
        architecture("sh:gru", input_size=1, output_size=10, units=32), "auto", 4, 50
    ).program.is_spread
    assert choose_on_h200(NETWORK, "auto", 4, 50, "tf32").program.is_spread


def test_a_population_leaves_room_for_others_where_that_costs_little(choose_on_h200: Chosen) -> None:
    network = architecture("skip-9:lstm", input_size=1, output_size=10, units=64)
    one, twelve = (choose_on_h200(network, "spread", members, 50).reason for members in (1, 12))
    assert twelve.count("over 48, 64 units of 16 sequences") == 2  # not over 96, which is hardly faster
    assert one.count("over 16, 16 units of 16 sequences") == 2


def test_reason_says_how_a_network_is_cut_up(choose_on_h200: Chosen) -> None:
    found = choose_on_h200(LARGE, "spread", 1, 64)
    (number,) = (number for number, each in enumerate(found.program.plan.components) if not each.is_hoisted)
    tilings = found.program.tilings(number, (1, 64), 132)
    assert not isinstance(tilings, str)
    assert found.reason.startswith("spread over multiprocessors: forward over ")
    for name, tiling in zip(("forward", "backward"), tilings, strict=True):
        cut = f"{name} over {tiling.num_programs}, {tiling.units} units of {tiling.rows} sequences each"
        assert f"{cut}, matrices in shared memory, about {tiling.microseconds:.1f} us a slot" in found.reason


def test_both_directions_are_cut_up_apart(choose_on_h200: Chosen) -> None:
    reason = choose_on_h200(both_directions("gru", units=64), "spread", 1, 8).reason
    assert reason.count("forward over") == reason.count("backward over") == 2


def test_too_many_members_cannot_be_spread(choose_on_h200: Chosen) -> None:
    message = "the network cannot be spread over the GPU: it does not fit into 132 multiprocessors at once"
    with pytest.raises(ModelError, match=message):
        choose_on_h200(NETWORK, "spread", 133, 2)


def test_an_old_gpu_spreads_nothing(choose_on_h200: Chosen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (7, 5))
    assert "compute capability 8.0 or more" in choose_on_h200(LARGE, "auto", 1, 64).reason
    with pytest.raises(ModelError, match="cannot be spread over the GPU: its kernels need a GPU of compute capability"):
        choose_on_h200(LARGE, "spread", 1, 64)


def test_the_interpreter_spreads_nothing(choose_on_h200: Chosen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert not choose_on_h200(LARGE, "auto", 1, 64).program.is_spread
    with pytest.raises(ModelError, match="cannot be spread over the GPU: Triton's interpreter"):
        choose_on_h200(LARGE, "spread", 1, 64)


def test_a_projection_inside_a_cycle_cannot_be_spread(choose_on_h200: Chosen) -> None:
    """Of two +RNN layers in a ring the wider takes the narrower's state through a matrix."""
    nodes = [
        NodeSpec(name="x", kind="input", units=3),
        NodeSpec(name="a", kind="hidden", units=4, cell="intersection"),
        NodeSpec(name="b", kind="hidden", units=6, cell="intersection"),
        NodeSpec(name="y", kind="output", units=2),
    ]
    pairs = [("x", "a", 0), ("a", "a", 1), ("a", "b", 0), ("b", "b", 1), ("b", "a", 1), ("b", "y", 0)]
    edges = [EdgeSpec(source=(source, 0), target=(target, 0), delay=delay) for source, target, delay in pairs]
    network = Architecture(nodes, edges)
    with pytest.raises(ModelError, match="cannot be spread over the GPU: a depth input inside of a cycle is projected"):
        choose_on_h200(network, "spread", 1, 2)
    found = choose_on_h200(network, "auto", 1, 2)
    assert not found.program.is_spread
    assert found.reason == "a program for each member: a depth input inside of a cycle is projected"
