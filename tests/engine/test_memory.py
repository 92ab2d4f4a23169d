"""The arithmetic of memory on worked examples, and how it grows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnlab import CELLS, Architecture, Cell, architecture, sigmoid, tanh
from rnnlab.engine.cpu_backward import Backward
from rnnlab.engine.groups import ORDERS
from rnnlab.engine.memory import Memory, training_memory
from rnnlab.engine.plan import plan
from tests.engine.models import make, random
from tests.engine.strategies import architectures
from tests.engine.test_reference import bidirectional, worked_example_1, worked_example_2

SIZES = {"input_size": 3, "output_size": 2, "units": 4}


def numbers(network: Architecture, **sizes: int) -> Memory:
    """Memory in numbers, not in bytes."""
    return training_memory(plan(network), **sizes, num_bytes=1)


def test_lstm_by_hand() -> None:
    """B 2, T 10. x: 10 steps of 3; h and c: one step before, 10 of 4 each; y: 10 of 2. Four gates of 4."""
    found = numbers(architecture("sh:lstm", **SIZES), batch=2, steps=10)
    once, state = 2 * 10 * (3 + 2), 2 * 2 * 11 * 4  # nobody else reads y: its gradient takes its place
    parameters = 3 * 16 + 4 * 16 + 16 + 2 * 4 + 4 * 2 + 2
    assert found == Memory(once + state, state, 2 * 10 * 16, 0, 0, 2 * parameters)
    assert found.total == once + 2 * state + 320 + 2 * parameters


def test_gate_that_becomes_the_state_has_no_array_of_its_own() -> None:
    """A plain layer overwrites its gate; where a skip adds to the state, both are kept."""
    assert numbers(architecture("sh:tanh", **SIZES), batch=1, steps=10).gates == 0
    assert numbers(architecture("mongia-b:tanh", **SIZES), batch=1, steps=10).gates == 0
    assert numbers(architecture("mongia-c:tanh", **SIZES), batch=1, steps=11).gates == 5 * 4  # skips lead to phase 1


def test_gates_of_a_cell_of_ones_own_are_kept_where_its_formula_asks_for_them(monkeypatch) -> None:
    plain = Cell("plain", gates=("c",), update=lambda gates, carried: {"h": sigmoid(gates.c)}, carries=())
    twice = Cell("twice", gates=("c",), update=lambda gates, carried: {"h": tanh(gates.c) * gates.c}, carries=())
    lagging = Cell(
        "lagging",
        gates=("c",),
        update=lambda gates, carried: {"h": tanh(gates.c), "last": carried.h},
        state=("h", "last"),
        ports=("h", "last"),
        carries=("h",),
    )
    found: list[int] = []
    for cell in (plain, twice, lagging):
        monkeypatch.setitem(CELLS, cell.name, cell)
        found.append(numbers(architecture("sh", cell.name, **SIZES), batch=1, steps=10).gates)
    assert found == [0, 10 * 4, 0]


def test_gru_keeps_what_its_second_product_multiplies() -> None:
    found = numbers(architecture("sh:gru", **SIZES), batch=2, steps=10)
    assert (found.gates, found.second_products) == (2 * 10 * 12, 2 * 10 * 4)


def test_worked_example_1_by_hand() -> None:
    """Two phases of an LSTM of width 4 with a skip of two steps, T 5: three steps of phase 0, two of phase 1."""
    found = numbers(worked_example_1(), batch=1, steps=5)
    state = (2 + 5) * 4 + (1 + 5) * 4  # h two steps back, c one
    assert found == Memory(5 * (3 + 2) + state, state, (3 + 2) * 16, 0, 0, 2 * 234)


def test_worked_example_2_by_hand() -> None:
    """A +RNN stack: h and y of a and b, of which h is read one step back; one projection of the input to width 4."""
    found = numbers(worked_example_2(), batch=1, steps=5)
    state = 2 * (6 * 4 + 5 * 4)
    assert found == Memory(5 * (5 + 2) + state, state, 2 * 5 * 16, 0, 2 * 5 * 4, 2 * 330)


def test_reads_of_the_future_take_rows_too() -> None:
    found = numbers(bidirectional(), batch=1, steps=5)
    assert found.values == 5 * 3 + 6 * 4 + 6 * 4 + 5 * 8


def test_tokens_take_eight_bytes_and_have_no_gradient() -> None:
    network = architecture("sh:tanh", input_size=1000, output_size=2, units=4, encoding="tokens")
    found = training_memory(plan(network), batch=2, steps=10, num_bytes=4)
    state = 2 * 11 * 4 * 4
    assert (found.values, found.value_gradients) == (2 * 10 * 8 + state + 2 * 10 * 2 * 4, state)


def test_phases_share_an_array_of_values() -> None:
    """Slow modules of a clockwork, of periods 1, 2 and 4, are computed at a part of the steps, and kept at all."""
    found = numbers(architecture("clockwork:ugrnn", **SIZES), batch=1, steps=8)
    assert found.gates == (8 + 4 + 2) * 2 * 4
    assert found.value_gradients == (8 + 1) * 4 + (8 + 2) * 4 + (8 + 4) * 4


@given(architectures(), st.integers(1, 9), st.integers(1, 4), st.integers(1, 3))
def test_memory_grows_with_members_sequences_and_bytes(
    network: Architecture, steps: int, batch: int, members: int
) -> None:
    one = training_memory(plan(network), batch=1, steps=steps)
    several = training_memory(plan(network), batch=batch, steps=steps, population=members)
    assert several[:-1] == tuple(members * batch * size for size in one[:-1])
    assert several.parameters_and_gradients == members * one.parameters_and_gradients
    assert one.parameters_and_gradients == 2 * 4 * network.num_parameters()
    twice = training_memory(plan(network), batch=1, steps=steps, num_bytes=8)
    assert twice[1:] == tuple(2 * size for size in one[1:])


@given(architectures(), st.integers(1, 9))
def test_memory_grows_by_the_same_for_each_period(network: Architecture, steps: int) -> None:
    """What is kept before and after a sequence does not grow with it."""
    sizes = [numbers(network, batch=1, steps=steps + laps * network.period).total for laps in range(3)]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] > 0


@pytest.mark.parametrize("name", ["st:gru", "stack-3:intersection"])
def test_order_changes_nothing(name: str) -> None:
    found = {training_memory(plan(architecture(name, **SIZES), order=order), batch=2, steps=7) for order in ORDERS}
    assert len(found) == 1


# ---------------------------------------------------------------------------------------------------- and as measured


@pytest.mark.parametrize("population", [None, 3])
@pytest.mark.parametrize(
    "name",
    ["sh:tanh", "td:lstm", "st:gru", "stack-3:intersection", "mongia-d:gru-cudnn", "clockwork:mgu", "dots-2:lstm"],
)
def test_memory_is_what_the_cpu_path_keeps(name: str, population: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The arrays of a training step, added up after its backward pass."""
    kept: dict[str, int] = {}
    run = Backward.run

    def watched(way_back: Backward, *arguments: Any) -> Any:
        found = run(way_back, *arguments)
        arrays, codes = way_back.arrays, way_back.arrays.program.codes
        own = {part: each for part, each in way_back.dvalues.items() if each is not arrays.values[part]}
        kept["values"], kept["value_gradients"] = num_bytes(arrays.values), num_bytes(own)
        kept["gates"] = num_bytes({key: each for key, each in arrays.gates.items() if not codes[key].gate_is_state})
        kept["second_products"] = num_bytes(arrays.resets)
        kept["projections"] = num_bytes(arrays.projected) + num_bytes(way_back.dprojected)
        return found

    monkeypatch.setattr(Backward, "run", watched)
    model = make(name, population=population, path="cpu")
    x = random(4, 9, 3) if population is None else random(population, 4, 9, 3)
    model(x)[0].sum().backward()
    parameters = 2 * sum(value.nbytes for value in model.parameters())
    wanted = training_memory(model.plan, population=population or 1, batch=4, steps=9)
    assert wanted._asdict() == kept | {"parameters_and_gradients": parameters}


def num_bytes(arrays: Mapping[Any, np.ndarray]) -> int:
    return sum(array.nbytes for array in arrays.values())
