"""A plan in words for people, and in JSON for programs."""

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rnnlab.engine.products import Product, node_products, products_to_json, show_products, slot_products
from rnnlab.graph.elements import NodeKey

if TYPE_CHECKING:
    from rnnlab.engine.plan import Component, Plan

WIDTH = 12  # of the first column


def labelled(label: str, text: str) -> str:
    """A line of two columns."""
    return f"{label:<{WIDTH}}{text}"


def plan_lines(plan: "Plan") -> list[str]:
    """The order and its reason, and what each component does; hoisted nodes that follow one another share a line."""
    lines = [labelled("order", f"{plan.order}: {plan.reason}")]
    for role, found in groupby(plan.components, key=lambda component: _role(plan, component)):
        components = list(found)
        if role == "recurrent":
            lines += [line for component in components for line in _recurrent_lines(plan, component)]
            continue
        keys = [key for component in components for key in component.nodes]
        work = f": {_hoisted_work(plan, keys)}" if role == "hoisted" else ""
        lines.append(labelled(role, f"{_names(plan, keys)}{work}"))
    return lines


def _role(plan: "Plan", component: "Component") -> str:
    if not component.is_hoisted:
        return "recurrent"
    return "input" if plan.architecture.by_key[component.nodes[0]].kind == "input" else "hoisted"


def _names(plan: "Plan", keys: Iterable[NodeKey]) -> str:
    return ", ".join(map(plan.architecture.label, keys))


def _recurrent_lines(plan: "Plan", component: "Component") -> list[str]:
    assert component.schedule is not None
    way = ", backward in time" if component.is_backward else ""
    lines = [labelled("recurrent", f"{_names(plan, component.nodes)}: {component.schedule.summary}{way}")]
    kinds = slot_products(plan, component)
    for kind, count in kinds.items():
        which = f"{count} slot{'s' * (count > 1)} of {sum(kinds.values())}" if len(kinds) > 1 else "each slot"
        lines.append(labelled("", f"{which}: {kind}"))
    return [*lines, labelled("", f"hoisted: {_hoisted_work(plan, component.nodes)}")]


def _hoisted_work(plan: "Plan", keys: Iterable[NodeKey]) -> str:
    products, gathered = _hoisted_products(plan, keys)
    parts = [show_products(products)] if products else []
    parts += [f"rows of {', '.join(sorted(set(map(str, gathered))))} by token"] if gathered else []
    return f"{' and '.join(parts)} over all steps" if parts else "nothing"


def _hoisted_products(plan: "Plan", keys: Iterable[NodeKey]) -> tuple[list[Product], list[Product]]:
    """Products over all steps, and matrices whose rows tokens choose."""
    found = [node_products(plan, key) for key in keys]
    return [each for node in found for each in node.hoisted], [each for node in found for each in node.gathered]


def plan_to_json(plan: "Plan") -> dict[str, Any]:
    """The order, its reason and the components, ready for `json.dumps`."""
    components = [_component_to_json(plan, component) for component in plan.components]
    return {"order": plan.order, "reason": plan.reason, "slots": plan.slots_formula, "components": components}


def _component_to_json(plan: "Plan", component: "Component") -> dict[str, Any]:
    products, gathered = _hoisted_products(plan, component.nodes)
    found: dict[str, Any] = {
        "role": _role(plan, component),
        "nodes": [plan.architecture.label(key) for key in component.nodes],
        "hoisted_products": products_to_json(products),
        "token_rows": products_to_json(gathered),
    }
    if component.schedule is None:
        return found
    kinds = [
        {"count": count, "products": products_to_json(kind.first), "second_products": products_to_json(kind.second)}
        for kind, count in slot_products(plan, component).items()
    ]
    return found | {
        "is_backward": component.is_backward,
        "slots": component.schedule.formula,
        "slots_per_step": str(component.schedule.per_step),
        "slot_kinds": kinds,
    }
