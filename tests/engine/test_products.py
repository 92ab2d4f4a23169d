"""The products of a plan: how many a slot does, of which sizes, and which are hoisted."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given

from rnnlab import Architecture, EdgeSpec, NodeSpec, architecture
from rnnlab.engine.groups import ORDERS, Order
from rnnlab.engine.plan import Plan, plan
from rnnlab.engine.products import Product, SlotProducts, node_products, products_to_json, show_products, slot_products
from tests.engine.strategies import architectures
from tests.engine.test_reference import bidirectional

SIZES = {"input_size": 3, "output_size": 2, "units": 5}


def kinds(network: Architecture, order: Order = "by component") -> list[str]:
    """The slots of the only cyclic component in words, with how many of a kind there are in a lap."""
    found = plan(network, order=order)
    (component,) = found.recurrent
    return [f"{count}: {kind}" for kind, count in slot_products(found, component).items()]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("sh:tanh", ["1: 1 product of 5x5"]),
        ("sh:lstm", ["1: 1 product of 5x20"]),
        # r and u, then c, whose product waits for r
        ("sh:gru", ["1: 1 product of 5x10, then 1 product of 5x5"]),
        # the edge that carries state feeds r, u and n, but not c
        ("sh:gru-cudnn", ["1: 1 product of 5x15"]),
        # h1 reads itself (r and u first, then c) and h2 (all three); so does h2
        ("td:gru", ["2: 2 products (1 of 5x10, 1 of 5x15), then 1 product of 5x5"]),
        ("skip-3:tanh", ["1: 2 products of 5x5"]),
        ("mongia-d:lstm", ["2: 1 product of 5x20"]),  # the skip adds without a product
    ],
)
def test_slots_multiply_what_the_cells_say(name: str, wanted: list[str]) -> None:
    assert kinds(architecture(name, **SIZES)) == wanted


def test_wavefront_multiplies_for_all_layers_in_a_slot() -> None:
    network = architecture("stack-3:lstm", **SIZES)
    assert kinds(network, "wavefront") == ["1: 5 products of 5x20"]


def test_skip_alone_multiplies_for_several_steps_at_once() -> None:
    made = architecture("skip-3:tanh", **SIZES)
    network = Architecture(made.nodes, [edge for edge in made.edges if edge.delay != 1])
    assert kinds(network) == ["1: 1 product of 5x5 for 3 steps at once"]


def plus_rnn_stack(*, encoding: str = "values") -> Architecture:
    """Two +RNN layers of different width, so that the depth input of either is projected."""
    return architecture(
        "stack-2:intersection", input_size=3, output_size=2, units={"h1": 5, "h2": 7}, encoding=encoding
    )


def test_projected_depth_input_is_a_product_before_the_product() -> None:
    (first, second), hoisted = plan(plus_rnn_stack()).recurrent, plan(plus_rnn_stack())
    assert list(slot_products(hoisted, first)) == [SlotProducts((Product(5, 20, 1),), ())]
    assert list(slot_products(hoisted, second)) == [SlotProducts((Product(7, 28, 1),), ())]
    assert node_products(hoisted, ("h1", 0)).hoisted == (Product(3, 5), Product(5, 20))
    assert kinds(plus_rnn_stack(), "wavefront") == ["1: 4 products (1 of 5x7, 1 of 5x20, 2 of 7x28)"]


def test_tokens_take_rows_and_no_product() -> None:
    found = plan(architecture("sh:lstm", **SIZES, encoding="tokens"))
    assert node_products(found, ("h", 0)) == ((), (Product(3, 20),), (Product(5, 20),), ())
    assert "hoisted: rows of 3x20 by token over all steps" in str(found)
    projected = node_products(plan(plus_rnn_stack(encoding="tokens")), ("h1", 0))
    assert projected == ((Product(5, 20),), (Product(3, 5),), (Product(5, 20),), ())


def gru_that_carries_from_elsewhere() -> Architecture:
    """h carries the state of `a` and reads its own past, which its reset gate thus depends on."""
    return Architecture(
        [
            NodeSpec(name="x", kind="input", units=3),
            NodeSpec(name="a", kind="hidden", units=5, cell="tanh"),
            NodeSpec(name="h", kind="hidden", units=5, cell="gru"),
            NodeSpec(name="y", kind="output", units=2),
        ],
        [
            EdgeSpec(source=("x", 0), target=("a", 0), delay=0),
            EdgeSpec(source=("a", 0), target=("h", 0), delay=1, carry=True),
            EdgeSpec(source=("h", 0), target=("h", 0), delay=1, carry=False),
            EdgeSpec(source=("h", 0), target=("y", 0), delay=0),
        ],
    )


def test_second_product_stays_in_the_slot_where_its_edge_comes_from_elsewhere() -> None:
    network = gru_that_carries_from_elsewhere()
    assert kinds(network) == ["1: 1 product of 5x15, then 1 product of 5x5"]
    assert node_products(plan(network), ("h", 0)).hoisted == (Product(5, 10),)


def test_hoisted_node_does_all_its_products_over_all_steps() -> None:
    made = gru_that_carries_from_elsewhere()
    edges = [edge for edge in made.edges if edge.source != ("h", 0) or edge.target != ("h", 0)]
    loop = EdgeSpec(source=("a", 0), target=("a", 0), delay=1)
    found = plan(Architecture(made.nodes, [*edges, loop]))
    assert node_products(found, ("h", 0)).hoisted == (Product(5, 10), Product(5, 5))


def test_network_without_inputs_to_its_cycle_says_so() -> None:
    made = architecture("sh", **SIZES)
    found = plan(Architecture(made.nodes, [edge for edge in made.edges if edge.source[0] != "x"]))
    assert "hoisted: nothing" in str(found)


@pytest.mark.parametrize("order", ORDERS)
@given(network=architectures())
def test_slots_of_a_long_sequence_repeat_the_kinds(order: Order, network: Architecture) -> None:
    """Far from its ends, a sequence's slots are the kinds, as often as they say."""
    found = plan(network, order=order)
    for component in found.recurrent:
        kinds = slot_products(found, component)
        lap, warm_up = sum(kinds.values()), max(component.schedule.numerators) + 10
        num_steps = int(Fraction(2 * warm_up + lap) / component.schedule.per_step) + 1
        # a length that begins, for backward components too, at phase 0
        slots = found.moments(component, num_steps, (1 - num_steps) if component.is_backward else 0)
        middle = slots[warm_up : warm_up + lap]
        seen = Counter(slot_work(found, Counter(key for key, _ in slot)) for slot in middle)
        assert seen == Counter(kinds)


def slot_work(found: Plan, times: Counter) -> tuple:
    """First and second products of a slot that computes each node at so many times."""
    work = [(node_products(found, key), num_steps) for key, num_steps in times.items()]
    return tuple(
        tuple(sorted(Product(each.rows, each.columns, num_steps) for node, num_steps in work for each in part(node)))
        for part in (lambda node: node.first, lambda node: node.second)
    )


@given(architectures())
def test_every_dense_edge_is_multiplied_once(network: Architecture) -> None:
    """Whatever the order: the matrices of a node are the same numbers, in its slot or hoisted."""
    sizes = [
        {
            node.key: sum(each.rows * each.columns for part in node_products(found, node.key) for each in part)
            for node in network.nodes
        }
        for found in (plan(network, order=order) for order in ORDERS)
    ]
    assert sizes[0] == sizes[1]
    for node in network.nodes:
        edges = [edge for edge in network.incoming(node.key) if edge.transform == "dense"]
        specs = [spec for edge in edges for spec in network._edge_parameters(edge)]
        assert sizes[0][node.key] == sum(spec.size for spec in specs if len(spec.shape) == 2)


def test_products_are_shown_by_size() -> None:
    small, large = Product(2, 3), Product(4, 5)
    assert show_products([]) == "no product"
    assert show_products([small]) == "1 product of 2x3"
    assert show_products([small, small]) == "2 products of 2x3"
    assert show_products([large, small, large]) == "3 products (1 of 2x3, 2 of 4x5)"
    assert products_to_json([large, small, large])[1] == {"rows": 4, "columns": 5, "num_steps": None, "count": 2}


def test_backward_components_have_kinds_too() -> None:
    found = plan(bidirectional("lstm"))
    assert [list(slot_products(found, part)) for part in found.recurrent] == [
        [SlotProducts((Product(4, 16, 1),), ())]
    ] * 2
