"""Kernels in CUDA C++ compute what the reference does, on the CPU: `emulator` runs them where there is no GPU."""

from typing import Any, Literal

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rnnlab import CELLS, Architecture, Cell, EdgeSpec, Model, ModelError, NodeSpec, architecture, sigmoid, tanh
from rnnlab.engine.gpu import kernels, launch, program
from rnnlab.engine.gpu.choice import gpu_program, spread_reason
from rnnlab.engine.gpu.resident import Resident, Shape
from tests.engine.comparison import DifferenceError
from tests.engine.gpu.checks import (
    NOT_FINITE,
    TOLERANCES,
    BreakKernels,
    ChooseShape,
    check_backward_in_autocast,
    check_not_finite,
    compare,
)
from tests.engine.gpu.emulator import NEEDS, PROCESSORS, EmulatedFunction, EmulationError
from tests.engine.networks import (
    both_directions,
    by_graph,
    catalogue,
    cells_without_matrices,
    constant_cell,
    in_a_cycle_every_second_step,
    lagging_cell,
    numbers_in_turn,
    with_outputs_in_cycles,
    without_relu,
)
from tests.engine.strategies import architectures

pytestmark = NEEDS

SIZES = {"input_size": 3, "output_size": 2}
RESIDENT = ("sh:tanh", "sh:gru", "st:lstm", "skip-3:lstm", "skip-9:lstm-edges", "td:gru-cudnn", "mongia-d:lstm")
NETWORKS = catalogue(units=20)
IN_TURN = [labels[number % len(labels)] for number, labels in enumerate(by_graph(NETWORKS).values())]
OF_LONG_AGO = ("skip-3", "section45-4", "clockwork")  # have states of longer ago than a step, which clusters do not see
SPREAD = ("sh:gru", "td:lstm", "skip-3:lstm-edges", "mongia-d:tanh", "special-4:ugrnn", "stack-2:intersection")
MANY_ARE_NOT_RESIDENT = [HealthCheck.filter_too_much]
precisions = st.sampled_from(sorted(TOLERANCES))


def are_resident(network: Architecture, precision: str = "float32") -> bool:
    """Whether all components of a network keep their matrices on the chip."""
    made = gpu_program(network, None, precision, "population")
    return all(made.is_resident(number) for number, each in enumerate(made.plan.components) if not each.is_hoisted)


def check(network: Architecture, precision: str = "float32", path: str = "gpu-population", **numbers: Any) -> None:
    compare(network, device="cpu", precisions=[precision], paths=[path], **{"num_steps": 5, "population": 2} | numbers)


@pytest.mark.parametrize(("number", "label"), list(enumerate(IN_TURN)), ids=IN_TURN)
def test_every_graph_agrees(choose_shape: ChooseShape, number: int, label: str) -> None:
    """With one cell each; half of them shared by two programs, where they can be."""
    used = choose_shape(1 + number % 2)
    assert are_resident(NETWORKS[label])
    check(NETWORKS[label], **numbers_in_turn(number, (1, 2, 5, 7)))
    if number % 2 == 0 or not label.startswith(OF_LONG_AGO):
        assert {shape.num_programs for shape in used} == {1 + number % 2}


@pytest.mark.parametrize(("number", "graph"), list(enumerate(by_graph(NETWORKS))), ids=by_graph(NETWORKS))
def test_every_graph_agrees_in_bf16(choose_shape: ChooseShape, number: int, graph: str) -> None:
    """What is kept as bf16 and what as float32 differs by node."""
    choose_shape(1 + number % 2)
    smooth = [NETWORKS[label] for label in without_relu(by_graph(NETWORKS)[graph])]
    resident = [network for network in smooth if are_resident(network, "bf16")]
    check(resident[number % len(resident)], "bf16", num_steps=4)


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", RESIDENT)
def test_resident_nodes_agree(choose_shape: ChooseShape, name: str, precision: str) -> None:
    choose_shape(1)
    network = architecture(name, **SIZES, units=20)
    assert are_resident(network, precision)
    check(network, precision, batch_size=19)


@pytest.mark.parametrize("precision", ["float32", "tf32"])
@pytest.mark.parametrize("path", ["gpu-population", "gpu-spread"])
@pytest.mark.parametrize("label", NOT_FINITE)
def test_what_is_not_finite_stays_so(label: str, path: str, precision: str) -> None:
    check_not_finite(label, path, precision, "cpu")


@pytest.mark.parametrize("path", ["gpu-population", "gpu-spread"])
def test_a_backward_pass_inside_of_autocast_loses_no_digit(path: str) -> None:
    check_backward_in_autocast(path, "cpu")


@settings(max_examples=10, suppress_health_check=MANY_ARE_NOT_RESIDENT)
@given(architectures(smooth=True), st.integers(1, 7), st.sampled_from([None, 1, 3]), precisions, st.integers(0, 999))
def test_random_networks_agree(
    network: Architecture, num_steps: int, population: int | None, precision: str, seed: int
) -> None:
    assume(are_resident(network, precision))
    check(network, precision, num_steps=num_steps, population=population, seed=seed)


@settings(max_examples=10)
@given(architectures(smooth=True), st.integers(1, 7), st.sampled_from([1, 3]), precisions, st.integers(0, 999))
def test_random_networks_agree_where_they_are_spread(
    network: Architecture, num_steps: int, population: int, precision: str, seed: int
) -> None:
    made = gpu_program(network, None, precision, "spread")
    assume(not isinstance(spread_reason(made, (population, 2), torch.device("cpu")), str))
    check(network, precision, "gpu-spread", num_steps=num_steps, population=population, batch_size=2, seed=seed)


@settings(max_examples=10, suppress_health_check=MANY_ARE_NOT_RESIDENT)
@given(architectures(can_stream=True, smooth=True), st.integers(1, 5), st.integers(1, 5), precisions)
def test_random_networks_continue_alike(network: Architecture, before: int, after: int, precision: str) -> None:
    assume(are_resident(network, precision))
    check(network, precision, num_steps=after, steps_before=before)


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("network", [with_outputs_in_cycles(), in_a_cycle_every_second_step()], ids=["same", "turns"])
def test_outputs_in_cycles_agree(network: Architecture, precision: str) -> None:
    """Sums of an output are float32 where products over all times make them, and factors where kernels do."""
    check(network, precision, "gpu-spread", num_steps=6, population=1)


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize(
    ("name", "num_programs"),
    [("sh:tanh", 4), ("sh:gru", 2), ("sh:lstm", 2), ("sh:ugrnn", 8), ("td:gru", 2), ("mongia-d:lstm", 2)],
)
def test_nodes_that_programs_share_agree(
    choose_shape: ChooseShape, name: str, num_programs: int, precision: str
) -> None:
    used = choose_shape(num_programs)
    check(architecture(name, **SIZES, units=16 * num_programs - 3), precision, population=1)
    assert used == [Shape(16, num_programs)] * 2


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", ["sh:tanh", "sh:lstm", "td:gru", "mongia-d:lstm"])
def test_shared_nodes_agree_whoever_is_ahead(
    monkeypatch: pytest.MonkeyPatch, choose_shape: ChooseShape, name: str, seed: int
) -> None:
    monkeypatch.setattr(EmulatedFunction, "seed", seed)
    used = choose_shape(2)
    check(architecture(name, **SIZES, units=30), population=1)
    assert set(used) == {Shape(16, 2)}


def test_a_program_that_is_ahead_overwrites_what_others_read(
    monkeypatch: pytest.MonkeyPatch, choose_shape: ChooseShape
) -> None:
    """The same network as below, shared nevertheless."""
    monkeypatch.setattr(Resident, "every_node_is_sent", True)
    monkeypatch.setattr(EmulatedFunction, "seed", 1)
    used = choose_shape(2)
    with pytest.raises(DifferenceError):
        check(two_nodes("identity"), num_steps=12)
    assert Shape(16, 2) in used


def test_a_node_that_nobody_would_send_is_not_shared(choose_shape: ChooseShape) -> None:
    """`b` is taken over as it is: without it programs would not hear of one another often enough."""
    for transform, expected in (("dense", 2), ("identity", 1)):
        used = choose_shape(2)
        check(two_nodes(transform), num_steps=6)
        assert {shape.num_programs for shape in used} == {expected}


def test_programs_do_not_share_nodes_all_of_whose_gates_are_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would exchange nothing before products with other nodes' matrices, and not wait for one another."""
    late = Cell(
        "late",
        gates=("c",),
        update=lambda gates, carried: {"h": tanh(gates.c)},
        reset=lambda gates, carried: 0.5 * carried.h,
        reset_gates=("c",),
    )
    monkeypatch.setitem(CELLS, "late", late)
    found = {}
    for cell in ("late", "gru", "mgu"):
        made = gpu_program(architecture("td", cell, **SIZES, units=32), None, "float32", "population")
        (number,) = (number for number, each in enumerate(made.plan.components) if not each.is_hoisted)
        found[cell] = {shape.num_programs for shape in made.shapes(number)}
    assert found == {"late": {1}, "gru": {1, 2}, "mgu": {1, 2}}
    check(architecture("td", "late", **SIZES, units=32), num_steps=6, population=1)


def two_nodes(transform: Literal["dense", "identity"]) -> Architecture:
    """In a ring, one edge of which may add the state as it is."""
    nodes = [
        NodeSpec(name="x", kind="input", units=3),
        NodeSpec(name="a", kind="hidden", units=32, cell="tanh"),
        NodeSpec(name="b", kind="hidden", units=32, cell="tanh"),
        NodeSpec(name="y", kind="output", units=2),
    ]
    pairs = [("x", "a", 0), ("a", "a", 1), ("a", "b", 1), ("b", "y", 0)]
    edges = [EdgeSpec(source=(source, 0), target=(target, 0), delay=delay) for source, target, delay in pairs]
    return Architecture(nodes, [*edges, EdgeSpec(source=("b", 0), target=("a", 0), delay=1, transform=transform)])


@pytest.mark.parametrize(("steps_before", "num_steps"), [(1, 5), (4, 1)])
def test_sequences_of_shared_nodes_continue(choose_shape: ChooseShape, steps_before: int, num_steps: int) -> None:
    used = choose_shape(2)
    check(architecture("sh:lstm", **SIZES, units=30), num_steps=num_steps, steps_before=steps_before, population=1)
    assert set(used) == {Shape(16, 2)}


@pytest.mark.parametrize("num_steps", [1, 2, 3, 11])
@pytest.mark.parametrize("name", ["skip-3:lstm", "skip-9:lstm-edges", "sh:gru"])
def test_sequences_shorter_and_longer_than_a_delay_agree(name: str, num_steps: int) -> None:
    check(architecture(name, **SIZES, units=5), num_steps=num_steps)


@pytest.mark.parametrize("name", ["skip-3:lstm", "skip-9:lstm-edges", "sh:lstm"])
@pytest.mark.parametrize(("steps_before", "num_steps"), [(1, 5), (4, 1), (12, 3)])
def test_continued_sequences_agree(name: str, steps_before: int, num_steps: int) -> None:
    check(architecture(name, **SIZES, units=5), num_steps=num_steps, steps_before=steps_before)


def test_gates_that_only_a_second_product_reads_are_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other product of such a node makes its warps wait for one another."""
    cell = Cell(
        "late",
        gates=("c", "u"),
        update=lambda gates, carried: {"h": tanh(gates.c)},
        reset=lambda gates, carried: sigmoid(gates.u) * carried.h,
        reset_gates=("c",),
        other_gates=("u",),
    )
    monkeypatch.setitem(CELLS, "late", cell)
    check(architecture("sh", "late", **SIZES, units=40), num_steps=7, population=1, batch_size=19)


@pytest.mark.parametrize(("rows", "num_programs"), [(32, 2), (64, 2), (64, 4)])
@pytest.mark.parametrize("name", ["sh:tanh", "td:gru", "sh:lstm"])
def test_programs_of_more_sequences_share_nodes_too(
    monkeypatch: pytest.MonkeyPatch, name: str, rows: int, num_programs: int
) -> None:
    shape = Shape(rows, num_programs)
    monkeypatch.setattr(launch, "best_shape", lambda *_: shape)
    check(architecture(name, **SIZES, units=60), "bf16", population=1, batch_size=67)


def test_many_sequences_take_several_programs() -> None:
    """32 and the rest; several warps, which share the rows."""
    check(architecture("skip-3:lstm", **SIZES, units=70), "bf16", population=8, batch_size=67, num_steps=4)


def test_nodes_that_fit_for_fewer_sequences_take_fewer() -> None:
    network = architecture("skip-3:lstm", **SIZES, units=90)
    made = gpu_program(network, None, "bf16", "population")
    (number,) = (number for number, each in enumerate(made.plan.components) if not each.is_hoisted)
    assert made.shapes(number) == (Shape(32), Shape(16))
    check(network, "bf16", population=8, batch_size=35, num_steps=4)


@pytest.mark.parametrize("cell", ["tanh", "lstm"])
def test_layers_that_read_the_future_agree(cell: str) -> None:
    check(both_directions(cell, units=5, read_out_delay=2))


@pytest.mark.parametrize("path", ["gpu-population", "gpu-spread"])
@pytest.mark.parametrize("name", ["sh:tanh", "st:lstm", "skip-3:gru"])
def test_gradients_of_the_last_states_of_different_lengths_agree(name: str, path: str) -> None:
    network = architecture(name, **SIZES, units=12)
    x, lengths = torch.randn(3, 5, 3, generator=torch.Generator().manual_seed(1)), torch.tensor([5, 2, 3])
    found: list[list[torch.Tensor]] = []
    for each, dtype in (("reference", torch.float64), (path, torch.float32)):
        model = Model(network, generator=torch.Generator().manual_seed(0), path=each).to(dtype)
        y, state = model(x.to(dtype), lengths=lengths)
        loss = y.square().sum() + sum(value.square().sum() for value in state.values.values())
        found.append([*torch.autograd.grad(loss, list(model.parameters()))])
    for wanted, gradient in zip(*found, strict=True):
        torch.testing.assert_close(gradient.double(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("path", ["gpu-population", "gpu-spread"])
def test_a_cell_whose_first_part_is_not_its_gate_agrees(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setitem(CELLS, "lagging", lagging_cell())
    check(architecture("sh", "lagging", **SIZES, units=5), path=path, population=1)


@pytest.mark.parametrize("path", ["gpu-population", "gpu-spread"])
@pytest.mark.parametrize("name", cells_without_matrices())
def test_a_cell_whose_edges_need_no_matrix_agrees(monkeypatch: pytest.MonkeyPatch, name: str, path: str) -> None:
    monkeypatch.setitem(CELLS, name, cells_without_matrices()[name])
    for graph, precision in (("sh", "float32"), ("td", "bf16")):
        check(architecture(graph, name, **SIZES, units=5), precision, path, population=1)


@pytest.mark.parametrize("path", ["gpu-population", "gpu-spread"])
def test_numbers_in_formulas_agree(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setitem(CELLS, "constant", constant_cell())
    check(architecture("sh", "constant", **SIZES, units=5), path=path, nonlinearity=("tanh", "relu"))


def test_a_batch_whose_addresses_are_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program.GpuProgram, "most_row_bytes", 2**30)
    with pytest.raises(ModelError, match="2 sequences at once are too many for kernels of this width: give at most 1"):
        check(architecture("sh:lstm", **SIZES, units=5), batch_size=2)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"population": 3}, "3 members are too many for a GPU: give at most 2 at a time"),
        ({"batch_size": 33}, "33 sequences at once are too many, 16 in each program: give at most 32"),
    ],
)
def test_more_programs_than_a_grid_has_are_refused(
    monkeypatch: pytest.MonkeyPatch, choose_shape: ChooseShape, sizes: dict[str, int], message: str
) -> None:
    monkeypatch.setattr(launch, "MOST_PROGRAMS", 2)
    choose_shape(1)
    network = architecture("sh:lstm", **SIZES, units=5)
    check(network, population=2, batch_size=32)
    with pytest.raises(ModelError, match=message):
        check(network, **{"population": 2, "batch_size": 2, **sizes})


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", SPREAD)
def test_spread_networks_agree(name: str, precision: str) -> None:
    check(architecture(name, **SIZES, units=12), precision, "gpu-spread", population=1, batch_size=3)


@pytest.mark.parametrize("name", ["sh:gru", "stack-2:ugrnn", "stack-3:intersection"])
def test_states_that_are_carried_are_left_for_products_too(break_kernels: BreakKernels, name: str) -> None:
    """Those of their own matrices' gradients, and of the layer above."""
    network = architecture(name, **SIZES, units=12)
    check(network, "bf16")
    changed = break_kernels(
        "if (is_live(m, half)) store_vector((Half *)(a.factor", "if (false) store_vector((Half *)(a.factor"
    )
    with pytest.raises(DifferenceError):
        check(network, "bf16")
    assert changed


@pytest.mark.parametrize("name", ["sh:gru", "st:tanh"])
def test_members_of_spread_networks_take_turns(break_kernels: BreakKernels, name: str) -> None:
    network = architecture(name, **SIZES, units=12)
    turns: dict[str, Any] = {"path": "gpu-spread", "population": PROCESSORS + 3, "batch_size": 3}
    check(network, **turns)
    changed = break_kernels("(int)a.first_team + ", "")
    with pytest.raises(DifferenceError):
        check(network, **turns)
    assert changed


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("sh:gru", "team % num_blocks", "blockIdx.y"),
        ("st:tanh", "team % num_blocks", "blockIdx.y"),
    ],
)
def test_sequences_of_spread_networks_take_turns(break_kernels: BreakKernels, name: str, old: str, new: str) -> None:
    """Of three members fifteen blocks of sequences, of which at most eight run at once: turns end within members."""
    network = architecture(name, **SIZES, units=12)
    turns: dict[str, Any] = {"path": "gpu-spread", "population": 3, "batch_size": 64 * 4 + 5, "num_steps": 3}
    check(network, **turns)
    changed = break_kernels(old, new)
    with pytest.raises(DifferenceError):
        check(network, **turns)
    assert changed


@pytest.mark.parametrize(
    ("name", "precision", "shared_bytes"),
    [
        ("sh:lstm", "bf16", 49_152),
        ("sh:lstm", "float32", 57_344),
        ("td:gru", "tf32", 122_880),
        ("st:lstm", "bf16", 57_344),
    ],
)
def test_warps_that_share_the_rows_agree(
    monkeypatch: pytest.MonkeyPatch, break_kernels: BreakKernels, name: str, precision: str, shared_bytes: int
) -> None:
    """As where there is no room for the sums of all rows beside the matrices; the last rows are of no sequence."""
    for module in (program, kernels):
        monkeypatch.setattr(module, "shared_memory", lambda: shared_bytes)
    network = architecture(name, **SIZES, units=60)
    check(network, precision, "gpu-spread", population=1, batch_size=67, num_steps=3)
    changed = break_kernels(", own_row);", ", 0);")  # the first half of the rows twice
    with pytest.raises(DifferenceError):
        check(network, precision, "gpu-spread", population=1, batch_size=67, num_steps=3)
    assert len([text for text in changed if "const int part = warp % 4" in text]) == 2  # forward and backward


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("sh:lstm", "sigmoid(", "tanh("),
        ("sh:gru", "tanh_slope(", "tanh("),
        ("skip-3:lstm", "await_groups<0>();", ""),  # reads what is still on its way
        ("skip-3:lstm", "meet_group();", ""),  # and what others have not written yet
        ("skip-3:lstm", "time + 2 < T", "time + 2 < T - 1"),  # one moment too few
        ("skip-3:lstm-edges", "+= number(late0", "-= number(late0"),
    ],
)
def test_a_broken_kernel_fails(break_kernels: BreakKernels, name: str, old: str, new: str) -> None:
    network = architecture(name, **SIZES, units=40)
    changed = break_kernels(old, new)
    with pytest.raises(DifferenceError):
        check(network, num_steps=7, batch_size=19)
    assert changed


@pytest.mark.parametrize(
    ("name", "old", "new", "seed"),
    [
        ("sh:lstm", "await_bytes(", "(void)(", 0),  # what other programs have not sent yet
        ("sh:lstm", "turn / 2 % 2", "0", 0),  # what they sent two steps ago
        ("sh:gru", "turn % 2 * 8", "0", 0),  # one counter for two
        ("sh:lstm", "add_parts(now0, shared", "add_parts(now0, shared + 512", 0),  # those of another thread
        ("sh:gru", "unit / 8 * TILE,", "unit / 8 % 2 * TILE,", 0),  # in the place of other units
        ("td:gru", "% 3 * ", "% 2 * ", 1),  # late gates are overwritten by who is an exchange ahead
    ],
)
def test_a_broken_kernel_of_a_cluster_fails(
    monkeypatch: pytest.MonkeyPatch,
    break_kernels: BreakKernels,
    choose_shape: ChooseShape,
    name: str,
    old: str,
    new: str,
    seed: int,
) -> None:
    monkeypatch.setattr(EmulatedFunction, "seed", seed)
    used = choose_shape(2)
    changed = break_kernels(old, new)
    with pytest.raises((DifferenceError, EmulationError)):
        check(architecture(name, **SIZES, units=30), num_steps=7, population=1)
    assert changed
    assert set(used) == {Shape(16, 2)}
