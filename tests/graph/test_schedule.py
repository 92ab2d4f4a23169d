"""The slot schedule: every edge leads to a later slot, and no schedule is shorter by more than a constant."""

from fractions import Fraction

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnlab import CyclicGraph, GraphError, measure, named_graph, slots, unfold
from tests.graph import oracle
from tests.graph.strategies import graphs


@given(graphs())
def test_offsets_equal_brute_force(graph: CyclicGraph) -> None:
    schedule = slots(graph)
    assert schedule.phi == oracle.phi(graph)
    assert min(schedule.phi.values()) == 0
    assert schedule == measure(graph).slots


@given(graphs(), st.integers(-20, 20))
def test_every_edge_leads_to_a_later_slot(graph: CyclicGraph, start: int) -> None:
    schedule = slots(graph)
    for (source, t), (target, u) in unfold(graph, start, start + 20).edges:
        assert schedule.slot(target, u) >= schedule.slot(source, t) + 1


@given(graphs(), st.sampled_from([1, 2, 7, 40]))
def test_slots_are_within_a_constant_of_the_longest_path(graph: CyclicGraph, num_steps: int) -> None:
    window = unfold(graph, 0, num_steps)
    dag = networkx.DiGraph(list(window.edges))
    longest = networkx.dag_longest_path_length(dag) if window.edges else 0
    measures = measure(graph)
    num_slots = measures.slots.num_slots(num_steps)
    used = {measures.slots.slot(name, time) for name, time in window.nodes}
    assert all(0 <= slot < num_slots for slot in used)
    # below: nodes on one path need one slot each; above: laps of the critical cycle that fit into the window
    cycle = measures.witnesses.recurrent_depth
    reach = sum(abs(edge.delay) for edge in cycle) + graph.period
    constant = max(measures.slots.phi.values()) + reach * measures.recurrent_depth + len(cycle) + 1
    assert longest + 1 <= num_slots <= longest + constant


@given(graphs(), st.integers(1, 60))
def test_number_of_slots_is_the_formula_that_is_printed(graph: CyclicGraph, num_steps: int) -> None:
    schedule = slots(graph)
    phi = schedule.phi.values()
    formula = ((num_steps - 1) * schedule.per_step + max(phi)) // 1 - min(phi) // 1 + 1
    assert schedule.num_slots(num_steps) == formula
    assert schedule.num_slots(num_steps) == (num_steps * schedule.per_step + schedule.constant) // 1


def test_pattern_repeats_with_period_and_denominator() -> None:
    schedule = slots(named_graph("fig1a"))
    assert schedule.per_step == Fraction(3, 2)
    assert [schedule.slot("3", t) for t in (0, 2, 4)] == [2, 5, 8]
    assert [schedule.slot("6", t) for t in (1, 3, 5)] == [3, 6, 9]


def test_skip_alone_runs_several_steps_at_once() -> None:
    """A network whose only recurrence skips 4 steps (d_r = 1/4) runs 4 steps a slot."""
    graph = CyclicGraph([("h",)], [("h", "h", 4)])
    assert [slots(graph).slot("h", t) for t in range(9)] == [0, 0, 0, 0, 1, 1, 1, 1, 2]
    assert slots(graph).summary == "T steps run in ⌊(1/4)·T + 3/4⌋ sequential slots"


def test_stack_takes_one_slot_a_step_and_one_a_layer() -> None:
    assert slots(named_graph("stack-8")).num_slots(100) == 100 + 8 + 1
    assert slots(named_graph("stack-8")).summary == "T steps run in T + 9 sequential slots"
    assert slots(named_graph("td")).summary == "T steps run in 2·T + 2 sequential slots"


def test_wrong_questions_are_refused() -> None:
    schedule = slots(named_graph("hierarchical"))
    with pytest.raises(GraphError, match="not computed at time 3: the graph has no h2@1"):
        schedule.slot("h2", 3)
    with pytest.raises(GraphError, match="num_steps must be at least 1"):
        schedule.num_slots(0)
