"""The arithmetic of memory on worked examples, and how it grows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnlab import Architecture, architecture
from rnnlab.engine.groups import ORDERS
from rnnlab.engine.memory import Memory, training_memory
from rnnlab.engine.plan import plan
from tests.engine.strategies import architectures
from tests.engine.test_reference import bidirectional, worked_example_1, worked_example_2

SIZES = {"input_size": 3, "output_size": 2, "units": 4}


def numbers(network: Architecture, **sizes: int) -> Memory:
    """Memory in numbers, not in bytes."""
    return training_memory(plan(network), **sizes, num_bytes=1)


def test_lstm_by_hand() -> None:
    """B 2, T 10. x: 10 steps of 3; h and c: one step before, 10 of 4 each; y: 10 of 2. Four gates of 4."""
    found = numbers(architecture("sh:lstm", **SIZES), batch=2, steps=10)
    values = 2 * (10 * 3 + 2 * 11 * 4 + 10 * 2)
    parameters = 3 * 16 + 4 * 16 + 16 + 2 * 4 + 4 * 2 + 2
    assert found == Memory(values, values, 2 * 10 * 16, 0, 0, 2 * parameters)
    assert found.total == 2 * values + 320 + 2 * parameters


def test_gru_keeps_what_its_second_product_multiplies() -> None:
    found = numbers(architecture("sh:gru", **SIZES), batch=2, steps=10)
    assert (found.gates, found.second_products) == (2 * 10 * 12, 2 * 10 * 4)


def test_worked_example_1_by_hand() -> None:
    """Two phases of an LSTM of width 4 with a skip of two steps, T 5: three steps of phase 0, two of phase 1."""
    found = numbers(worked_example_1(), batch=1, steps=5)
    values = 5 * 3 + (2 + 5) * 4 + (1 + 5) * 4 + 5 * 2  # x, h two steps back, c one, y
    assert found == Memory(values, values, (3 + 2) * 16, 0, 0, 2 * 234)


def test_worked_example_2_by_hand() -> None:
    """A +RNN stack: h and y of a and b, of which h is read one step back; one projection of the input to width 4."""
    found = numbers(worked_example_2(), batch=1, steps=5)
    values = 5 * 5 + 2 * (6 * 4 + 5 * 4) + 5 * 2
    assert found == Memory(values, values, 2 * 5 * 16, 0, 2 * 5 * 4, 2 * 330)


def test_reads_of_the_future_take_rows_too() -> None:
    found = numbers(bidirectional(), batch=1, steps=5)
    assert found.values == 5 * 3 + 6 * 4 + 6 * 4 + 5 * 8


def test_tokens_take_eight_bytes_and_have_no_gradient() -> None:
    network = architecture("sh:tanh", input_size=1000, output_size=2, units=4, encoding="tokens")
    found = training_memory(plan(network), batch=2, steps=10, num_bytes=4)
    state = 2 * (11 * 4 + 10 * 2) * 4
    assert (found.values, found.value_gradients) == (2 * 10 * 8 + state, state)


def test_phases_of_different_state_share_their_arrays() -> None:
    """Slow modules of a clockwork are computed at a part of the steps, and kept at all."""
    found = numbers(architecture("clockwork:tanh", **SIZES), batch=1, steps=8)
    assert found.gates == (8 + 4 + 2) * 4  # periods 1, 2 and 4


@given(architectures(), st.integers(1, 9), st.integers(1, 4), st.integers(1, 3))
def test_memory_grows_with_members_sequences_and_bytes(
    network: Architecture, steps: int, batch: int, members: int
) -> None:
    one = training_memory(plan(network), batch=1, steps=steps)
    several = training_memory(plan(network), batch=batch, steps=steps, population=members)
    assert several[:-1] == tuple(members * batch * size for size in one[:-1])
    assert several.parameters_and_gradients == members * one.parameters_and_gradients
    assert one.parameters_and_gradients == 2 * 4 * network.num_parameters()
    assert training_memory(plan(network), batch=1, steps=steps, num_bytes=8).gates == 2 * one.gates


@given(architectures(), st.integers(1, 9))
def test_memory_grows_by_the_same_for_each_period(network: Architecture, steps: int) -> None:
    """What is kept before and after a sequence does not grow with it."""
    sizes = [numbers(network, batch=1, steps=steps + laps * network.period).total for laps in range(3)]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] > 0


@pytest.mark.parametrize("name", ["st:gru", "stack-3:intersection"])
def test_order_changes_nothing(name: str) -> None:
    found = {training_memory(plan(architecture(name, **SIZES), order=order), batch=2, steps=7) for order in ORDERS}
    assert len(found) == 1
