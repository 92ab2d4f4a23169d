"""Plans: which nodes run over all time steps at once, which step by step, and that all is written before it is read."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnlab import Architecture, ArchitectureError, architecture
from rnnlab.engine.groups import ORDERS, Order
from rnnlab.engine.plan import Plan, plan, slots_per_step
from tests.engine.strategies import architectures
from tests.engine.test_reference import bidirectional, worked_example_1, worked_example_2

SIZES = {"input_size": 3, "output_size": 2, "units": 4}


def test_moments_of_the_last_lengths_alone_are_kept() -> None:
    """A user whose sequences all differ in length would otherwise keep every one's."""
    made = plan(architecture("st:gru", input_size=2, output_size=2, units=3))
    (first, *_) = made.recurrent
    for num_steps in range(1, 100):
        made.num_slots(num_steps)
    assert len(made._moments) < 20
    assert made.moments(first, 99) is made.moments(first, 99)
    assert len(made.moments(first, 5)) == 5


def names(found: Plan) -> list[tuple[str, str]]:
    """Each component in order: whether it is hoisted, and its nodes."""
    return [
        (
            "hoisted" if part.is_hoisted else "recurrent",
            " ".join(found.architecture.label(key) for key in part.nodes),
        )
        for part in found.components
    ]


@pytest.mark.parametrize(
    ("name", "components"),
    [
        ("sh", [("hoisted", "x"), ("recurrent", "h"), ("hoisted", "y")]),
        ("st", [("hoisted", "x"), ("recurrent", "h1"), ("recurrent", "h2"), ("hoisted", "y")]),
        ("td", [("hoisted", "x"), ("recurrent", "h1 h2"), ("hoisted", "y")]),
        ("deep-input", [("hoisted", "x"), ("hoisted", "f"), ("recurrent", "h"), ("hoisted", "y")]),
        ("dots-2", [("hoisted", "x"), ("recurrent", "h z1"), ("hoisted", "o"), ("hoisted", "y")]),
        ("section45-3-3", [("hoisted", "x"), ("recurrent", "h1 h2"), ("hoisted", "y")]),
    ],
)
@pytest.mark.parametrize("cell", ["tanh", "lstm"])
def test_components_are_those_of_the_graph(name: str, components: list[tuple[str, str]], cell: str) -> None:
    assert [(kind, set(nodes.split())) for kind, nodes in names(plan(architecture(name, cell, **SIZES)))] == [
        (kind, set(nodes.split())) for kind, nodes in components
    ]


def test_bidirectional_network_has_a_component_for_each_direction() -> None:
    found = plan(bidirectional())
    ways = {part.nodes[0][0]: part.is_backward for part in found.components if not part.is_hoisted}
    assert ways == {"f": False, "b": True}
    forward, backward = (part for part in found.components if not part.is_hoisted)
    if forward.is_backward:
        forward, backward = backward, forward
    assert [slot[0][1] for slot in found.moments(forward, 4)] == [0, 1, 2, 3]
    assert [slot[0][1] for slot in found.moments(backward, 4)] == [3, 2, 1, 0]
    assert not found.can_stream
    assert found.num_slots(10) == 20


@pytest.mark.parametrize("num_steps", [1, 2, 7, 10])
def test_worked_examples_take_their_slots(num_steps: int) -> None:
    """Example 1 has one component that takes T slots; example 2, layer by layer, takes T for each."""
    assert plan(worked_example_1()).num_slots(num_steps) == num_steps
    assert plan(worked_example_2()).num_slots(num_steps) == 2 * num_steps
    assert slots_per_step(plan(worked_example_1())) == 1
    assert slots_per_step(plan(worked_example_2())) == 2
    wavefront = plan(worked_example_2(), order="wavefront")
    assert wavefront.num_slots(num_steps) == num_steps + 1
    assert slots_per_step(wavefront) == 1


@pytest.mark.parametrize(
    ("name", "per_step", "of_ten_steps"),
    [("sh", 1, 10), ("td", 2, 20), ("st", 2, 20), ("grid-4-3", 3, 30), ("mongia-d", 1, 10), ("skip-3", 1, 10)],
)
def test_slots_follow_recurrent_depth(name: str, per_step: int, of_ten_steps: int) -> None:
    found = plan(architecture(name, **SIZES))
    assert slots_per_step(found) == Fraction(per_step)
    assert found.num_slots(10) == of_ten_steps


def test_network_with_skips_alone_runs_several_steps_at_once() -> None:
    """A recurrence of delay 3 and nothing else: three time steps a slot."""
    made = architecture("skip-3:tanh", **SIZES)
    found = plan(Architecture(made.nodes, [edge for edge in made.edges if edge.delay != 1]))
    (part,) = [part for part in found.components if not part.is_hoisted]
    assert slots_per_step(found) == Fraction(1, 3)
    assert [sorted(time for _, time in slot) for slot in found.moments(part, 7)] == [[0, 1, 2], [3, 4, 5], [6]]


@pytest.mark.parametrize("order", ORDERS)
@given(network=architectures(), num_steps=st.integers(1, 9), first=st.integers(0, 5))
def test_everything_is_written_once_and_before_it_is_read(
    order: Order, network: Architecture, num_steps: int, first: int
) -> None:
    found = plan(network, order=order)
    written: set[tuple[str, int]] = set()
    for part in found.components:
        for slot in all_moments(found, part, num_steps, first):
            for key, time in slot:
                assert (first + time) % network.period == key[1]
                for edge in network.incoming(key):
                    source_time = time - edge.delay
                    if 0 <= source_time < num_steps:
                        assert (edge.source[0], source_time) in written, (str(edge), time)
            # nodes of one slot run at once: none may read another of them
            new = {(key[0], time) for key, time in slot}
            assert not new & written
            written |= new
    wanted = {
        (node.name, time)
        for node in network.nodes
        for time in range(num_steps)
        if (first + time) % network.period == node.phase
    }
    assert written == wanted


def all_moments(found: Plan, part, num_steps: int, first: int) -> list:
    """The slots of a component; a hoisted node takes one."""
    if not part.is_hoisted:
        return found.moments(part, num_steps, first)
    ((name, phase),) = part.nodes
    period = found.architecture.period
    return [[((name, phase), time) for time in range((phase - first) % period, num_steps, period)]]


@pytest.mark.parametrize("order", ORDERS)
@given(network=architectures(), num_steps=st.integers(1, 20), first=st.integers(0, 5))
def test_components_take_no_more_slots_than_their_formula_says(
    order: Order, network: Architecture, num_steps: int, first: int
) -> None:
    """Whatever the phase in which a sequence begins, and in whichever direction time runs."""
    found = plan(network, order=order)
    for part in found.recurrent:
        assert len(found.moments(part, num_steps, first)) <= part.schedule.num_slots(num_steps)


def test_backward_component_begins_a_slot_with_the_last_step() -> None:
    """A recurrence of two steps runs two steps a slot, from the end."""
    made = bidirectional()
    found = plan(Architecture(made.nodes, [replace(edge, delay=2 * edge.delay) for edge in made.edges]))
    (part,) = [part for part in found.recurrent if part.is_backward]
    times = [[sorted(time for _, time in slot) for slot in found.moments(part, num)] for num in (2, 3, 4)]
    assert times == [[[0, 1]], [[1, 2], [0]], [[2, 3], [0, 1]]]


@given(architectures())
def test_components_divide_the_nodes(network: Architecture) -> None:
    found = plan(network)
    assert sorted(key for part in found.components for key in part.nodes) == sorted(node.key for node in network.nodes)
    assert all(
        part.is_hoisted == (len(part.nodes) == 1 and not loops(network, part.nodes[0])) for part in found.components
    )
    for edge in network.edges:
        source, target = found.component_of[edge.source], found.component_of[edge.target]
        assert source <= target
        assert found.is_internal(edge) == (source == target)


def loops(network: Architecture, key: tuple[str, int]) -> bool:
    return any(edge.source == edge.target == key for edge in network.edges)


def test_histories_and_lookaheads_are_the_longest_reads() -> None:
    skip = plan(architecture("skip-3:lstm", **SIZES))
    assert {part: depth for part, depth in skip.histories.items() if depth} == {("h", "h"): 3, ("h", "c"): 1}
    assert skip.can_stream
    both = plan(bidirectional())
    assert both.lookaheads["b", "h"] == 1
    assert both.histories["f", "h"] == 1
    stack = plan(worked_example_2())
    assert {part for part, depth in stack.histories.items() if depth} == {("a", "h"), ("b", "h")}


def test_plan_prints_what_runs_how() -> None:
    assert str(plan(architecture("td", **SIZES))).splitlines() == [
        "order       by component: a wavefront would be the same",
        "input       x",
        "recurrent   h1, h2: T steps run in 2·T sequential slots",
        "            each slot: 2 products of 4x4",
        "            hoisted: 1 product of 3x4 over all steps",
        "hoisted     y: 1 product of 4x2 over all steps",
    ]
    text = str(plan(bidirectional()))
    assert "recurrent   b: T steps run in T sequential slots, backward in time" in text
    assert "h@0, h@1" in str(plan(worked_example_1()))


def test_plan_prints_its_order_and_why() -> None:
    network = architecture("st:gru", **SIZES)
    assert str(plan(network)).splitlines()[0] == (
        "order       by component: as much as can be is hoisted, which suits a CPU; a wavefront would take T + 1 slots"
    )
    assert str(plan(network, order="wavefront")).splitlines() == [
        "order       wavefront: few slots, T + 1; by component takes 2·T, with more hoisted",
        "input       x",
        "recurrent   h1, h2: T steps run in T + 1 sequential slots",
        "            each slot: 3 products (2 of 4x8, 1 of 4x12), then 2 products of 4x4",
        "            hoisted: 1 product of 3x12 over all steps",
        "hoisted     y: 1 product of 4x2 over all steps",
    ]
    assert plan(worked_example_1(), order="wavefront").reason == "by component would be the same"


def test_slots_that_differ_have_a_line_for_each_kind() -> None:
    lines = str(plan(architecture("hierarchical", **SIZES), order="wavefront")).splitlines()
    assert [line.strip() for line in lines if "of 2:" in line] == [
        "1 slot of 2: 1 product of 4x4",
        "1 slot of 2: 3 products of 4x4",
    ]


def test_formula_of_all_slots_adds_up_the_components() -> None:
    assert plan(architecture("stack-3", **SIZES)).slots_formula == "3·T"
    assert plan(architecture("stack-3", **SIZES), order="wavefront").slots_formula == "T + 2"
    assert plan(architecture("hierarchical", **SIZES)).slots_formula == "T + ⌊(1/2)·T + 1/2⌋"


def test_plan_in_json_says_what_the_text_says() -> None:
    found = json.loads(json.dumps(plan(architecture("st:gru", **SIZES)).to_json()))
    assert (found["order"], found["slots"]) == ("by component", "2·T")
    assert "wavefront would take T + 1" in found["reason"]
    assert [(part["role"], part["nodes"]) for part in found["components"]] == [
        *(("input", ["x"]), ("recurrent", ["h1"]), ("recurrent", ["h2"]), ("hoisted", ["y"])),
    ]
    assert found["components"][1] == {
        "role": "recurrent",
        "nodes": ["h1"],
        "hoisted_products": [{"rows": 3, "columns": 12, "num_steps": None, "count": 1}],
        "token_rows": [],
        "is_backward": False,
        "slots": "T",
        "slots_per_step": "1",
        "slot_kinds": [
            {
                "count": 1,
                "products": [{"rows": 4, "columns": 8, "num_steps": 1, "count": 1}],
                "second_products": [{"rows": 4, "columns": 4, "num_steps": 1, "count": 1}],
            }
        ],
    }


def test_unknown_order_is_named() -> None:
    with pytest.raises(ArchitectureError, match="order is one of by component, wavefront, got 'layers'"):
        plan(architecture("sh", **SIZES), order="layers")  # type: ignore[arg-type]


def test_output_absent_at_a_phase_is_named() -> None:
    with pytest.raises(ArchitectureError, match="output '4' has no node 4@1: a model needs it at every step"):
        plan(architecture("fig1a", **SIZES))
