"""The fast path computes what the reference does: outputs, final state and every gradient."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rnnlab import CELLS, Architecture, ArchitectureError, Cell, EdgeSpec, NodeSpec, architecture, tanh
from rnnlab.engine.model import Model
from rnnlab.engine.native import runtime
from tests.engine.comparison import (
    REFERENCE,
    TOLERANCES,
    Case,
    DifferenceError,
    Results,
    Tolerance,
    Way,
    build,
    check_equal,
    compare,
    make_case,
    parameter,
    poisoned_memory,
    random_loss,
    run,
    usual_sizes,
)
from tests.engine.networks import (
    MIXED,
    catalogue,
    cells_without_matrices,
    constant_cell,
    lagging_cell,
    numbers_in_turn,
    own_cell,
)
from tests.engine.strategies import architectures

NUM_STEPS = (1, 63, 65)
TURNS = (1, 63, 4, 1, 65, 4)  # the reference takes its time over long sequences
SIZES = {"input_size": 3, "output_size": 2}
NETWORKS = catalogue(units=5)


@pytest.mark.parametrize("label", NETWORKS)
def test_two_steps_agree(label: str) -> None:
    compare(NETWORKS[label], num_steps=2)


@pytest.mark.parametrize(("number", "label"), list(enumerate(NETWORKS)), ids=NETWORKS)
def test_other_lengths_and_populations_agree(number: int, label: str) -> None:
    compare(NETWORKS[label], **numbers_in_turn(number, TURNS))


@pytest.mark.parametrize("num_steps", NUM_STEPS)
@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_agrees_at_every_length(cell: str, num_steps: int) -> None:
    is_uneven = not CELLS[cell].edge_gates  # the state that lstm-edges passes upwards must be of one width
    compare(architecture("st", cell, **SIZES, units={"h1": 3, "h2": 7} if is_uneven else 3), num_steps=num_steps)


@pytest.mark.parametrize("population", [None, 1, 3])
@pytest.mark.parametrize("cell", CELLS)
def test_populations_agree(cell: str, population: int | None) -> None:
    network = architecture("td", cell, **SIZES, units=4)
    compare(network, num_steps=5, population=population)
    compare(network, num_steps=5, population=population, nonlinearity=MIXED[: population or 1])


@pytest.mark.parametrize("units", [1, 2, 3, 8, 17])
@pytest.mark.parametrize("cell", ["tanh", "gru", "lstm"])
def test_odd_widths_agree(cell: str, units: int) -> None:
    compare(architecture("bu", cell, input_size=1, output_size=1, units=units), num_steps=3, batch_size=1)


@pytest.mark.parametrize(
    "name", ["td:lstm", "skip-3:gru", "mongia-d:lstm", "special-4:ugrnn", "section45-2-3:lstm-edges"]
)
@pytest.mark.parametrize("steps_before", [1, 2, 7])
@pytest.mark.parametrize("num_steps", [1, 5])
def test_continued_sequences_agree(name: str, steps_before: int, num_steps: int) -> None:
    compare(architecture(name, **SIZES, units=3), num_steps=num_steps, steps_before=steps_before, population=3)


@pytest.mark.parametrize("loss", [("outputs",), ("state",)])
@pytest.mark.parametrize("name", ["sh:lstm", "mongia-c:tanh", "stack-3:intersection"])
def test_losses_of_outputs_or_of_the_state_alone_agree(name: str, loss: tuple[str, ...]) -> None:
    compare(architecture(name, **SIZES, units=3), num_steps=4, loss=loss)


@pytest.mark.parametrize("name", ["sh:lstm", "deep-input:tanh", "mongia-c:gru", "hierarchical:tanh"])
def test_tokens_agree(name: str) -> None:
    compare(architecture(name, input_size=11, output_size=2, units=3, encoding="tokens"), num_steps=5, population=3)


@pytest.mark.parametrize("name", ["sh:tanh", "td:lstm-edges", "special-4:ugrnn"])
def test_zero_initial_states_agree(name: str) -> None:
    compare(architecture(name, **SIZES, units=3, initial="zero"), num_steps=3)


@pytest.mark.parametrize(("population", "batch_size"), [(None, 5), (3, 2), (None, 1)])
@pytest.mark.parametrize("name", ["sh:lstm", "td:gru", "dots-2:tanh", "st:intersection", "mongia-d:lstm"])
def test_several_threads_and_parts_of_a_batch_agree(
    monkeypatch, name: str, population: int | None, batch_size: int
) -> None:
    """Members and rows of the batch shared out: to four threads, two rows at a time."""
    monkeypatch.setattr(runtime, "MOST_ROWS", 2)
    monkeypatch.setattr(runtime, "LEAST_OF_A_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    compare(architecture(name, **SIZES, units=3), num_steps=5, population=population, batch_size=batch_size)


@pytest.mark.parametrize("name", ["sh:gru", "sh:lstm", "td:tanh"])
def test_wide_networks_and_large_batches_agree(name: str) -> None:
    """Rows long enough to be copied apart, more rows than a tile, more than run together."""
    compare(architecture(name, **SIZES, units=259), num_steps=2, batch_size=17)
    compare(architecture(name, **SIZES, units=33), num_steps=2, batch_size=runtime.MOST_ROWS + 3)


def test_many_rows_at_once_agree() -> None:
    """All times of a small batch are more rows than a sum of products takes at once."""
    compare(architecture("st:tanh", **SIZES, units=257), num_steps=65, batch_size=5, dtypes=[torch.float32])


@given(architectures(), st.integers(1, 7), st.sampled_from([None, 1, 3]), st.integers(0, 999))
def test_random_networks_agree(network: Architecture, num_steps: int, population: int | None, seed: int) -> None:
    compare(network, num_steps=num_steps, population=population, seed=seed, dtypes=[torch.float64])


@given(architectures(smooth=True), st.integers(1, 7), st.integers(0, 999))
def test_random_networks_agree_in_float32(network: Architecture, num_steps: int, seed: int) -> None:
    compare(network, num_steps=num_steps, seed=seed, dtypes=[torch.float32])


@given(architectures(can_stream=True), st.integers(1, 5), st.integers(1, 5), st.integers(0, 999))
def test_random_networks_continue_alike(network: Architecture, before: int, after: int, seed: int) -> None:
    compare(network, num_steps=after, steps_before=before, seed=seed, dtypes=[torch.float64])


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("path", ["reference", "cpu"])
@pytest.mark.parametrize("cut", [1, 3, 4])
@pytest.mark.parametrize(
    "name", ["sh:lstm", "td:gru", "skip-3:tanh", "mongia-d:lstm", "special-4:relu", "clockwork:lstm", "st:intersection"]
)
def test_two_halves_equal_the_whole(name: str, cut: int, path: str, dtype: torch.dtype) -> None:
    case = make_case(architecture(name, **SIZES, units=3), num_steps=8)
    check_equal(in_parts(case, path, dtype, [cut]), in_parts(case, path, dtype, []), TOLERANCES[dtype], f"cut {cut}")


@given(architectures(can_stream=True), st.lists(st.integers(1, 6), max_size=3, unique=True), st.integers(0, 999))
def test_random_networks_can_be_cut_anywhere(network: Architecture, cuts: list[int], seed: int) -> None:
    case = make_case(network, num_steps=7, seed=seed)
    parts, whole = (in_parts(case, "cpu", torch.float64, sorted(found)) for found in (cuts, []))
    check_equal(parts, whole, TOLERANCES[torch.float64], f"cuts {cuts}")


def in_parts(case: Case, path: str, dtype: torch.dtype, cuts: list[int]) -> Results:
    """A case run piece by piece, gradients through the states between them included."""
    model: Model = build(case, Way(path, dtype))
    inputs = {
        name: value[0].to(dtype).requires_grad_() if value.dtype.is_floating_point else value[0]
        for name, value in case.inputs.items()
    }
    num_steps = next(iter(inputs.values())).shape[1]
    state, outputs = None, []
    with poisoned_memory():
        for start, stop in zip([0, *cuts], [*cuts, num_steps], strict=True):
            y, state = model({name: value[:, start:stop] for name, value in inputs.items()}, state)
            outputs.append(y)
        assert state is not None
        assert state.step == num_steps % case.architecture.period
        results = {"outputs": torch.cat(outputs, dim=1)}
        results |= {f"state {name} {part}": value for (name, part), value in state.values.items()}
        random_loss(list(results.values()), case.weights).backward()
    for spec in case.architecture.parameters:
        gradient = parameter(model, spec.name).grad
        results[f"gradient of {spec.name}"] = torch.zeros(spec.shape)[None] if gradient is None else gradient
    for name, value in inputs.items():
        if value.requires_grad:
            results[f"gradient of input {name}"] = torch.zeros_like(value) if value.grad is None else value.grad
    return {name: value.detach() for name, value in results.items()}


def test_a_cell_of_ones_own_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten lines declare a cell, and both paths run it."""
    monkeypatch.setitem(CELLS, "own", own_cell())
    for name in ("sh", "td", "skip-3", "mongia-d"):
        compare(architecture(name, "own", **SIZES, units=3), num_steps=6, population=3)


def test_a_cell_whose_first_part_is_not_its_gate_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CELLS, "lagging", lagging_cell())
    compare(architecture("sh", "lagging", **SIZES, units=3), num_steps=6, population=3)


@pytest.mark.parametrize("batch_size", [2, 20])
@pytest.mark.parametrize("name", cells_without_matrices())
def test_a_cell_whose_edges_need_no_matrix_agrees(monkeypatch: pytest.MonkeyPatch, name: str, batch_size: int) -> None:
    monkeypatch.setitem(CELLS, name, cells_without_matrices()[name])
    for graph in ("sh", "td", "mongia-d"):
        network = architecture(graph, name, **SIZES, units=3)
        assert all(spec.size for spec in network.parameters)
        compare(network, num_steps=5, batch_size=batch_size, population=3)
        compare(network, num_steps=4, batch_size=batch_size, steps_before=2)


def test_a_cell_that_takes_anothers_place_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same name and with the same gates: an architecture with it equals one with the old cell."""
    for factor in (1, 2):
        cell = Cell("m", gates=("c",), update=lambda g, c, f=factor: {"h": tanh(f * g.c)}, carries=[])  # pyright: ignore[reportArgumentType]
        monkeypatch.setitem(CELLS, "m", cell)
        compare(architecture("sh:m", **SIZES, units=3), num_steps=3)


@pytest.mark.parametrize("batch_size", [2, 20])
def test_numbers_in_formulas_agree(monkeypatch: pytest.MonkeyPatch, batch_size: int) -> None:
    monkeypatch.setitem(CELLS, "constant", constant_cell())
    for nonlinearity in (None, MIXED):
        network = architecture("st:constant", **SIZES, units=3)
        compare(network, num_steps=3, population=3, nonlinearity=nonlinearity, batch_size=batch_size)


def test_a_node_without_readers_agrees() -> None:
    """A hidden layer that reaches no output still has a state, and through it gradients."""
    made = architecture("st:gru", **SIZES, units=3)
    edges = [edge for edge in made.edges if edge.source != ("h2", 0) or edge.target != ("y", 0)]
    edges.append(replace(edges[0], source=("h1", 0), target=("y", 0), delay=0, carry=None, role=None, port=None))
    compare(Architecture(made.nodes, edges), num_steps=4)


# ----------------------------------------------------------------------------------------------------------- odd phases


def two_phases(*edges: EdgeSpec, encoding: str = "values", **hidden: dict) -> Architecture:
    """An input, hidden nodes as given (`a0` is a at phase 0), and an output at both phases."""
    nodes = [
        NodeSpec(name="x", kind="input", units=2, phase=0, encoding=encoding),
        *(
            NodeSpec(name=key[0], kind="hidden", phase=int(key[1]), **({"units": 2} | each))
            for key, each in hidden.items()
        ),
        *(NodeSpec(name="y", kind="output", units=1, phase=phase) for phase in (0, 1)),
    ]
    return Architecture(nodes, edges, 2)


def edge(source: str, target: str, delay: int, **options) -> EdgeSpec:
    return EdgeSpec(source=(source[0], int(source[1])), target=(target[0], int(target[1])), delay=delay, **options)


def test_short_sequence_keeps_phases_that_nothing_reads() -> None:
    network = two_phases(edge("a0", "a0", 2), edge("a0", "a1", 1), a0={"cell": "tanh"}, a1={"cell": "tanh"})
    compare(network, num_steps=1)


def test_tokens_read_from_the_past_agree() -> None:
    made = architecture("sh:tanh", **SIZES, units=3, encoding="tokens")
    late = [replace(each, delay=1) if each.source[0] == "x" else each for each in made.edges]
    compare(Architecture(made.nodes, late), num_steps=3)


def test_tokens_of_one_phase_read_from_the_past_agree() -> None:
    network = two_phases(edge("a0", "a0", 2), edge("x0", "y1", 1), encoding="tokens", a0={"cell": "tanh"})
    compare(network, num_steps=3)
    compare(network, num_steps=1, steps_before=1)


def test_gradient_of_a_state_ends_where_the_node_is_absent() -> None:
    compare(architecture("clockwork:ugrnn", **SIZES, units=3), num_steps=1, steps_before=2)


def test_gradient_of_an_input_ends_where_it_is_absent() -> None:
    compare(two_phases(edge("a0", "a0", 2), edge("x0", "y1", 1), a0={"cell": "tanh"}), num_steps=4)


def test_phases_with_different_state_agree() -> None:
    network = two_phases(
        *(edge("a0", "a0", 2), edge("a0", "a1", 1), edge("a0", "y0", 0), edge("a1", "y1", 0)),
        a0={"cell": "lstm"},
        a1={"cell": "tanh"},
    )
    compare(network, num_steps=4)


def test_phases_of_different_width_are_refused() -> None:
    with pytest.raises(ArchitectureError, match="'a' must be one kind and equally wide in all phases"):
        two_phases(
            *(edge("a0", "a1", 1), edge("a1", "a0", 1), edge("a1", "y1", 0)),
            a0={"cell": "tanh", "units": 2},
            a1={"cell": "tanh", "units": 3},
        )


def test_intersection_takes_tokens_as_its_depth_input() -> None:
    network = architecture("stack-2:intersection", input_size=7, output_size=2, units=3, encoding="tokens")
    compare(network, num_steps=4)


def test_identity_edge_from_tokens_is_refused() -> None:
    with pytest.raises(ArchitectureError, match="tokens"):
        two_phases(
            edge("a0", "a0", 2), edge("x0", "a0", 0, transform="identity"), encoding="tokens", a0={"cell": "tanh"}
        )


def test_sum_that_cancels_is_judged_by_what_it_usually_is() -> None:
    case = make_case(architecture("sh", "tanh", **SIZES, units=1), num_steps=5)
    cases = [case._replace(weights=seed) for seed in range(50)]
    name = "gradient of h bias"
    cancelled = min(cases, key=lambda each: run(each, REFERENCE)[name].abs().item())
    wanted, sizes = run(cancelled, REFERENCE), usual_sizes(cancelled)
    assert wanted[name].abs().item() < 0.1 * sizes[name]
    tolerance = Tolerance(0.1, 0.0, "a test")
    almost, wrong = ({**wanted, name: wanted[name] + error * sizes[name]} for error in (0.09, 0.11))
    check_equal(almost, wanted, tolerance, "almost", sizes)
    for found, known in ((almost, {}), (wrong, sizes)):
        with pytest.raises(DifferenceError, match="h bias"):
            check_equal(found, wanted, tolerance, "wrong", known)
