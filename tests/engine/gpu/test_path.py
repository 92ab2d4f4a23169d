"""Which path and which kernels run and why, as far as it shows without a GPU."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rnnlab import CELLS, Architecture, Cell, EdgeSpec, ModelError, NodeSpec, architecture, tanh
from rnnlab.engine import model
from rnnlab.engine.gpu import choice, limits, program, relay
from rnnlab.engine.gpu.choice import Choice, choose
from rnnlab.engine.gpu.costs import microseconds_alone
from rnnlab.engine.gpu.cudnn import CudnnNetwork
from rnnlab.engine.gpu.launch import best_shape
from rnnlab.engine.gpu.program import GpuProgram
from rnnlab.engine.gpu.resident import Shape
from rnnlab.engine.gpu.sharing import Processors
from rnnlab.engine.model import Model
from tests.engine.gpu.checks import IS_INTERPRETED
from tests.engine.gpu.cuda_texts import GPUS
from tests.engine.networks import both_directions, heads

NETWORK = architecture("sh:tanh", input_size=3, output_size=2, units=4)
LARGE = architecture("sh:lstm", input_size=3, output_size=2, units=512)
Chosen = Callable[..., Choice]
RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
TIMINGS = json.loads((RESULTS / "gpu-shapes-h200.json").read_text())["rows"]
RELAYS = json.loads((RESULTS / "gpu-relay-h200.json").read_text())


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


def test_missing_triton_is_said_to_be_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A float32 network on a GPU then runs slowly, which nobody should have to guess."""
    monkeypatch.setattr(model, "has_triton", lambda: False)
    monkeypatch.setattr(model, "is_interpreted", lambda: True)  # the CPU stands for a GPU
    network = make(path="gpu")
    with pytest.raises(ModelError, match=r"Triton, which makes its kernels, is not installed \(pip install triton\)"):
        network(torch.zeros(1, 2, 3))
    monkeypatch.setattr(Model, "_any_array", property(lambda self: torch.empty(1, device="meta")))
    assert "reference: Triton, which makes its kernels, is not installed" in make().explain()


def test_a_cell_in_place_of_another_has_a_program_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Architectures that have it are equal to those that had the other."""
    cells = [Cell("m", gates=("c",), update=lambda g, c, f=factor: {"h": tanh(f * g.c)}) for factor in (1, 2)]  # pyright: ignore[reportArgumentType]
    found: list[program.GpuProgram] = []
    for cell in (cells[0], cells[1], cells[0]):
        monkeypatch.setitem(CELLS, "m", cell)
        network = architecture("sh:m", input_size=3, output_size=2, units=4)
        found.append(choice._kept({}, network, None, "float32", "population"))
    assert found[0] is found[2]
    assert found[0] is not found[1]


def test_gpu_path_refuses_float64() -> None:
    with pytest.raises(ModelError, match="the gpu path runs float32 on CUDA devices"):
        make(path="gpu").double()(torch.zeros(1, 2, 3))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_gpu_path_is_chosen_and_explained() -> None:
    assert "gpu: float32 on a GPU; precision bf16" in make(precision="bf16").cuda().explain()
    assert "a program for each member and 16 sequences" in make(path="gpu-population").cuda().explain()
    assert "spread over multiprocessors: forward over" in make(path="gpu-spread").cuda().explain()
    assert "reference: no fast path for float64 on cuda yet" in make().cuda().double().explain()


# ------------------------------------------------------------------------------------------------------------- kernels


@pytest.fixture
def choose_on_h200(monkeypatch: pytest.MonkeyPatch, new_programs: None) -> Chosen:
    """The choice as on a GPU that need not be there."""
    gpu = GPUS["H200"]
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
    monkeypatch.setattr(choice, "processors", lambda device: Processors(gpu.num_processors, gpu.num_processors))
    for module in (program, choice, relay):
        monkeypatch.setattr(module, "shared_memory", lambda: gpu.shared_bytes)
        monkeypatch.setattr(module, "cluster_size", lambda: gpu.cluster_size)
    monkeypatch.setattr(relay, "most_clusters", lambda device, count: RELAYS["most_clusters"][str(count)])

    def chosen(network: Architecture, kernels: str, members: int, batch: int, precision: str = "bf16") -> Choice:
        return choose(network, None, precision, kernels, (members, batch), torch.device("cuda"), programs={})

    return chosen


def test_kernels_asked_for_are_taken(choose_on_h200: Chosen) -> None:
    population = choose_on_h200(LARGE, "population", 1, 64)
    assert population.program.kernels == "population"
    assert population.reason == "a program for each member, asked for"
    assert choose_on_h200(LARGE, "spread", 1, 64).program.kernels == "spread"


def test_kernels_that_cannot_be_compiled_are_not_chosen(
    choose_on_h200: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But Triton's, which has a compiler of its own."""
    reason = "NVRTC, which torch's CUDA builds bring along, is not to be found"
    monkeypatch.setattr(limits, "code_obstacle", lambda capability: reason)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for kernels, wanted in (("auto", f"a program for each member: {reason}"), ("population", "asked for")):
        found = choose_on_h200(LARGE, kernels, 1, 64)
        assert found.program.kernels != "spread"
        assert not any(found.program.shapes(number) for number in range(len(found.program.plan.components)))
        assert found.reason.endswith(wanted)
    with pytest.raises(ModelError, match=f"the network cannot be spread over the GPU: {reason}"):
        choose_on_h200(LARGE, "spread", 1, 64)


def test_cudnn_is_named_where_it_is_faster_and_taken_where_it_is_asked_for(choose_on_h200: Chosen) -> None:
    """With 2048 units ours were faster (benchmarks/results/gpu-h200.json)."""

    def chosen(name: str, units: int, kernels: str = "auto", **options: Any) -> Choice:
        network = architecture(name, input_size=27, output_size=10, units=units)
        return choose_on_h200(network, kernels, 1, 64, **options)

    for name in ("sh:lstm", "sh:gru-cudnn"):
        assert re.search(r"; cuDNN would take about \d+\.\d, with states in bf16", chosen(name, 4096).reason)
        assert isinstance(chosen(name, 4096, "cudnn").program, CudnnNetwork)
    for ours in (chosen("sh:lstm", 2048), chosen("sh:tanh", 4096), chosen("sh:lstm", 4096, precision="tf32")):
        assert "cuDNN" not in ours.reason


def test_one_large_network_is_spread_and_a_population_is_not(choose_on_h200: Chosen) -> None:
    assert choose_on_h200(LARGE, "auto", 1, 64).program.kernels == "spread"
    population = choose_on_h200(NETWORK, "auto", 500, 64)
    assert population.program.kernels != "spread"
    assert "turns if it were spread" in population.reason


Timed = tuple[str, int, str, int, int]
"""Network, units, precision, members, batch."""


def timed() -> dict[Timed, dict[Shape | None, float]]:
    """Microseconds of a time step on an H200, both passes, by shape; those of spread kernels by None."""
    found: dict[Timed, dict[Shape | None, float]] = {}
    for row in TIMINGS:
        case = (row["network"], row["units"], row["precision"], row["members"], row["batch"])
        found.setdefault(case, {})[row["shape"] and Shape(*row["shape"])] = row["forward"] + row["backward"]
    return {case: times for case, times in found.items() if len(times) > 1}


def test_networks_were_timed_on_both_kinds_of_kernels() -> None:
    best = [min(times, key=times.__getitem__) for times in timed().values() if None in times]
    assert (best.count(None), len(best)) == (8, 23)


@pytest.mark.parametrize("case", timed(), ids=str)
def test_what_was_fast_is_chosen(choose_on_h200: Chosen, case: Timed) -> None:
    """Or what took hardly longer, and fits on the GPU at once."""
    (name, units, precision, members, batch), times = case, timed()[case]
    network = architecture(name, input_size=27, output_size=10, units=units)
    chosen = choose_on_h200(network, "auto", members, batch, precision).program
    (number,) = (number for number, each in enumerate(chosen.plan.components) if not each.is_hoisted)
    shape = None
    if chosen.kernels != "spread":
        shape = best_shape(chosen.shapes(number), chosen.resident(number), (members, batch), 132)
    at_once = [spent for each, spent in times.items() if each is None or each.num_in_all(members, batch) <= 132]
    assert times[shape] <= 1.15 * min(at_once or times.values())


Stack = tuple[str, int, str, int]
"""Network, units of all its heads or of a layer, precision, sequences."""


def timed_stacks() -> dict[Stack, dict[str, float]]:
    """Microseconds of a time step of all layers on an H200, both passes, by path."""
    found: dict[Stack, dict[str, float]] = {}
    for row in RELAYS["rows"]:
        case = (row["network"], row["units"], row["precision"], row["batch"])
        found.setdefault(case, {})[row["path"]] = row["us_a_step_forward"] + row["us_a_step_backward"]
    return found


def network_of(name: str, units: int) -> Architecture:
    """As those that were timed."""
    count = int(name.removeprefix("heads-").partition(":")[0]) if name.startswith("heads") else 0
    if not count:
        return architecture(name, input_size=27, output_size=10, units=units)
    return heads(count, name.partition(":")[2], units // count)


@pytest.mark.parametrize("case", timed_stacks(), ids=str)
def test_layers_run_side_by_side_where_that_was_fast(choose_on_h200: Chosen, case: Stack) -> None:
    (name, units, precision, batch), times = case, timed_stacks()[case]
    found = choose_on_h200(network_of(name, units), "auto", 1, batch, precision).program
    path = f"gpu-{found.kernels}"
    assert times[path] <= 1.08 * min(times.values())


def test_relays_take_about_what_was_estimated(choose_on_h200: Chosen) -> None:
    """Those with legs of 32 sequences apart, which are few."""
    ratios: dict[bool, list[float]] = {False: [], True: []}
    for (name, units, precision, batch), times in timed_stacks().items():
        made = choose_on_h200(network_of(name, units), "relay", 1, batch, precision).program
        assert isinstance(made, GpuProgram)
        cut = relay.relay_cut(made, (1, batch), 132, torch.device("cuda"))
        assert not isinstance(cut, str), cut
        estimate = microseconds_alone(made, (1, batch), 132, cut)
        assert estimate is not None
        ratios[any(shape.rows > 16 for legs in cut for shape in legs)].append(estimate / times["gpu-relay"])
    assert {are_tall: len(found) for are_tall, found in ratios.items()} == {False: 15, True: 3}
    for found in ratios.values():
        assert sum(abs(ratio - 1) for ratio in found) / len(found) < 0.1


def test_reason_says_that_layers_run_side_by_side(choose_on_h200: Chosen) -> None:
    network = architecture("stack-4:lstm", input_size=27, output_size=10, units=128)
    one, many = (choose_on_h200(network, "auto", members, 64) for members in (1, 132))
    assert one.reason.startswith("4 layers side by side, clusters of 4 programs for 16 sequences each: about ")
    assert one.reason.endswith("if it were spread")
    assert not many.program.relays  # there is no room for all layers of all members at once
    deep = choose_on_h200(architecture("stack-8:tanh", input_size=27, output_size=10, units=256), "auto", 1, 64)
    assert re.search(r"; about \d\.\d us a step and back, and \d\.\d by 8 layers side by side, clusters", deep.reason)


def test_what_nobody_timed_is_spread(choose_on_h200: Chosen) -> None:
    """A second product, or another precision, of matrices that do not fit on the chip."""
    wide = architecture("sh:gru", input_size=1, output_size=10, units=512)
    assert choose_on_h200(wide, "auto", 4, 50).program.kernels == "spread"
    assert choose_on_h200(LARGE, "auto", 1, 50, "tf32").program.kernels == "spread"


def test_more_members_than_run_at_once_have_larger_programs(choose_on_h200: Chosen) -> None:
    """Of more sequences, which fewer programs share: with several gates 32 at most."""

    def shape(name: str, units: int, members: int) -> Shape:
        network = architecture(name, input_size=27, output_size=10, units=units)
        made = choose_on_h200(network, "population", members, 64).program
        (number,) = (number for number, each in enumerate(made.plan.components) if not each.is_hoisted)
        return best_shape(made.shapes(number), made.resident(number), (members, 64), 132)

    assert [shape("sh:tanh", 256, members) for members in (1, 4, 33, 132)] == [(16, 8), (16, 8), (16, 1), (64, 1)]
    assert [shape("sh:lstm", 118, members) for members in (1, 4, 33, 132)] == [(16, 8), (16, 8), (16, 1), (32, 1)]
    assert [shape("sh:lstm", 256, members) for members in (1, 4, 16, 132)] == [(16, 8), (16, 8), (32, 4), (32, 4)]
    assert shape("sh:tanh", 32, 1) == (16, 1)  # too small to be shared


def test_a_population_leaves_room_for_others_where_that_costs_little(choose_on_h200: Chosen) -> None:
    network = architecture("sh:tanh", input_size=1, output_size=10, units=64)
    one, six = (choose_on_h200(network, "spread", members, 50).reason for members in (1, 6))
    assert six.count("over 48, 32 units of 16 sequences") == 2  # not over 96, which is hardly faster
    assert one.count("over 32, 8 units of 16 sequences") == 2


def test_reason_says_how_members_are_cut_up(choose_on_h200: Chosen) -> None:
    network = architecture("sh:lstm", input_size=3, output_size=2, units=256)
    one, many = (choose_on_h200(network, "auto", members, 64).reason for members in (1, 132))
    assert one.startswith("a cluster of 8 programs for each member and 16 sequences, matrices in shared memory: about ")
    assert many.startswith(
        "a cluster of 4 programs for each member and 32 sequences, matrices in shared memory: it would"
    )
    small = choose_on_h200(NETWORK, "population", 3, 5).reason
    assert small == "a program for each member and 16 sequences, matrices in shared memory, asked for"


def test_reason_says_how_a_network_is_cut_up(choose_on_h200: Chosen) -> None:
    found = choose_on_h200(LARGE, "spread", 1, 64)
    (number,) = (number for number, each in enumerate(found.program.plan.components) if not each.is_hoisted)
    tilings = found.program.tilings(number, (1, 64), Processors(132, 132))
    assert not isinstance(tilings, str)
    assert found.reason.startswith("spread over multiprocessors: forward over ")
    for name, tiling in zip(("forward", "backward"), tilings, strict=True):
        pairs = " in pairs" if tiling.is_paired else ""
        cut = f"{name} over {tiling.num_programs}{pairs}, {tiling.units} units of {tiling.rows} sequences each"
        assert f"{cut}, matrices in shared memory, about {tiling.microseconds:.1f} us a slot" in found.reason


def test_both_directions_are_cut_up_apart(choose_on_h200: Chosen) -> None:
    reason = choose_on_h200(both_directions("gru", units=64), "spread", 1, 8).reason
    assert reason.count("forward over") == reason.count("backward over") == 2


def test_members_that_do_not_fit_at_once_take_turns(choose_on_h200: Chosen) -> None:
    assert "over 67 in 2 turns" in choose_on_h200(NETWORK, "spread", 133, 2).reason


def test_sequences_that_do_not_fit_at_once_take_turns(choose_on_h200: Chosen) -> None:
    assert "over 67 in 2 turns" in choose_on_h200(NETWORK, "spread", 1, 64 * 133).reason


@pytest.mark.parametrize(
    ("name", "units", "sizes", "own", "precision"),
    [
        ("skip-3:lstm", 320, (2, 200), 132, "float32"),
        ("sh:tanh", 724, (16, 128), 33, "float32"),
    ],
)
def test_no_more_turns_are_taken_than_pay(
    choose_on_h200: Chosen,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    units: int,
    sizes: tuple[int, int],
    own: int,
    precision: str,
) -> None:
    """Fewer programs in more turns, nearly as fast, would fill the GPU for longer, and be more turns than are taken."""
    monkeypatch.setattr(choice, "processors", lambda device: Processors(own, 132))
    network = architecture(name, input_size=10, output_size=10, units=units)
    assert choose_on_h200(network, "auto", *sizes, precision).program.kernels == "spread"


def test_one_network_that_fits_at_once_takes_no_turns(choose_on_h200: Chosen) -> None:
    network = architecture("st:tanh", input_size=10, output_size=10, units=320)
    assert "turns" not in choose_on_h200(network, "spread", 1, 512, "float32").reason


def test_networks_wider_than_the_gpu_cannot_be_spread(choose_on_h200: Chosen) -> None:
    network = architecture("sh:tanh", input_size=3, output_size=2, units=64 * 132 + 1)
    message = "the network cannot be spread over the GPU: it does not fit into 132 multiprocessors at once"
    with pytest.raises(ModelError, match=message):
        choose_on_h200(network, "spread", 1, 1)


@pytest.mark.parametrize("name", ["sh:tanh", "skip-40:tanh", "sh:lstm"])
@pytest.mark.parametrize("members", [2, 10])
def test_wide_networks_are_spread_beside_others_too(
    choose_on_h200: Chosen, monkeypatch: pytest.MonkeyPatch, name: str, members: int
) -> None:
    """A program for each member would take a hundred microseconds and more a step."""
    network = architecture(name, input_size=10, output_size=10, units=512)
    alone = choose_on_h200(network, "auto", members, 50)
    monkeypatch.setattr(choice, "processors", lambda device: Processors(19, 132))
    shared = choose_on_h200(network, "auto", members, 50)
    assert alone.program.kernels == "spread"
    assert shared.program.kernels == "spread"
    assert microseconds(shared) > microseconds(alone)  # more of its share


def microseconds(found: Choice) -> float:
    return sum(map(float, re.findall(r"about ([0-9.]+) us a slot", found.reason)))


def test_an_old_gpu_spreads_nothing(choose_on_h200: Chosen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (7, 5))
    assert "compute capability 8.0 or more" in choose_on_h200(LARGE, "auto", 1, 64).reason
    with pytest.raises(ModelError, match="cannot be spread over the GPU: its kernels need a GPU of compute capability"):
        choose_on_h200(LARGE, "spread", 1, 64)


def test_the_interpreter_spreads_nothing(choose_on_h200: Chosen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert choose_on_h200(LARGE, "auto", 1, 64).program.kernels != "spread"
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
    assert found.program.kernels != "spread"
    assert found.reason == "a program for each member: a depth input inside of a cycle is projected"
