"""The dense products of a plan: how many each slot does, of which sizes, and which are hoisted."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from rnnlab.graph.elements import NodeKey

if TYPE_CHECKING:
    from rnnlab.engine.plan import Component, Plan


class Product(NamedTuple):
    """A product with a matrix of so many rows and columns."""

    rows: int
    columns: int
    num_steps: int | None = None  # how many time steps share it: None for all of the sequence

    def __str__(self) -> str:
        at_once = f" for {self.num_steps} steps at once" if self.num_steps not in (None, 1) else ""
        return f"{self.rows}x{self.columns}{at_once}"


class NodeProducts(NamedTuple):
    """What a node multiplies."""

    hoisted: tuple[Product, ...]  # over all time steps
    gathered: tuple[Product, ...]  # also over all steps, of tokens: rows of the matrix, taken without a product
    first: tuple[Product, ...]  # in its slot
    second: tuple[Product, ...]  # in its slot, after a gate that the first ones feed


class SlotProducts(NamedTuple):
    """What one slot multiplies, sorted."""

    first: tuple[Product, ...]
    second: tuple[Product, ...]

    def __str__(self) -> str:
        if not self.second:
            return show_products(self.first)
        return f"{show_products(self.first)}, then {show_products(self.second)}"


def node_products(plan: "Plan", key: NodeKey) -> NodeProducts:
    """The products of all dense edges into a node.

    The matrix of an edge has a column for each unit of each gate that it feeds. Gates that wait for a reset gate get
    theirs in a second product, which is part of the slot even where the edge comes from elsewhere: the reset gate does
    not. A projected depth input is a product before the product.
    """
    architecture = plan.architecture
    units = architecture.by_key[key].units
    is_hidden = architecture.by_key[key].kind == "hidden"
    found: dict[str, list[Product]] = {field: [] for field in NodeProducts._fields}
    second = "hoisted" if plan.components[plan.component_of[key]].is_hoisted else "second"
    for edge in architecture.incoming(key):
        if edge.transform != "dense":
            continue
        source = architecture.by_key[edge.source]
        first = "first" if plan.is_internal(edge) else "hoisted"
        of_source = "gathered" if source.encoding == "tokens" else first
        if architecture.has_projection(edge):
            found[of_source].append(Product(source.units, units))
            rows, of_source = units, first
        else:
            rows = source.units
        num_gates = len(architecture.edge_gates(edge))
        num_late = len(architecture.cell(key).reset_gates) if is_hidden and edge.carry else 0
        if num_gates > num_late:
            found[of_source].append(Product(rows, (num_gates - num_late) * units))
        if num_late:
            found[second].append(Product(rows, num_late * units))
    return NodeProducts(**{field: tuple(products) for field, products in found.items()})


def slot_products(plan: "Plan", component: "Component") -> dict[SlotProducts, int]:
    """What the slots of a cyclic component multiply in the long run: each kind, and how many of them in a lap.

    The pattern repeats after lcm(period, denominator of d_r) steps, a lap. A node that a slot computes for several
    steps does one product for all of them. The first and the last slots of a sequence may do less.
    """
    assert component.schedule is not None
    period, per_step = plan.architecture.period, component.schedule.per_step
    lap = math.lcm(period, per_step.denominator)
    num_slots = int(lap * per_step)
    num_times: dict[int, Counter[NodeKey]] = defaultdict(Counter)
    for name, phase in component.nodes:
        for steps in range((-phase if component.is_backward else phase) % period, lap, period):
            num_times[component.slot((name, phase), steps) % num_slots][name, phase] += 1
    work = {key: node_products(plan, key) for key in component.nodes}
    kinds = (
        SlotProducts(
            tuple(sorted(each._replace(num_steps=times) for key, times in slot.items() for each in work[key].first)),
            tuple(sorted(each._replace(num_steps=times) for key, times in slot.items() for each in work[key].second)),
        )
        for slot in num_times.values()
    )
    return dict(Counter(kinds).most_common())


def show_products(products: Iterable[Product]) -> str:
    """Products counted by size: `2 products of 64x256`, `3 products (2 of 64x128, 1 of 64x192)`."""
    counted = Counter(products)
    if len(counted) > 1:
        sizes = ", ".join(f"{count} of {product}" for product, count in sorted(counted.items()))
        return f"{counted.total()} products ({sizes})"
    for product, count in counted.items():
        return f"{count} {'product' if count == 1 else 'products'} of {product}"
    return "no product"


def products_to_json(products: Iterable[Product]) -> list[dict[str, Any]]:
    """Products counted by size; `num_steps` is how many time steps share one, null for all of the sequence."""
    return [product._asdict() | {"count": count} for product, count in sorted(Counter(products).items())]
