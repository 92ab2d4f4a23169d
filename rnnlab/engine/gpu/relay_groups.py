"""Which components of a network may run side by side on the GPU, as legs of a relay."""

from collections import Counter
from collections.abc import Mapping

from rnnlab.engine.gpu.layout import padded
from rnnlab.engine.gpu.resident import LOOKS, taken_over
from rnnlab.engine.nodes import NodeCode, Product
from rnnlab.engine.plan import Plan
from rnnlab.graph.elements import NodeKey

MOST_HANDED = LOOKS // 2  # edges into a leg, and out of it


def relay_groups(plan: Plan, codes: Mapping[NodeKey, NodeCode]) -> tuple[tuple[int, ...], ...]:
    """The components, by their numbers, of each group that runs at once; those that run alone are left out.

    Groups are neighbours in the order of the plan, all of one width. What one hands to another is a state of the same
    step, which the other multiplies; so layers of both directions may be in a group, but not if one reads the other.

    Args:
        plan: of the network.
        codes: its nodes.
    """
    if plan.architecture.period > 1:
        return ()
    groups: list[list[int]] = [[]]
    for number, component in enumerate(plan.components):
        if component.is_hoisted or not all(key in codes for key in component.nodes):
            groups.append([])
        elif groups[-1] and _may_join(number, groups[-1], plan, codes):
            groups[-1].append(number)
        else:
            groups.append([number])
    return tuple(tuple(group) for group in groups if len(group) > 1)


def _may_join(number: int, group: list[int], plan: Plan, codes: Mapping[NodeKey, NodeCode]) -> bool:
    own = [codes[key] for key in plan.components[number].nodes]
    others = {key for each in group for key in plan.components[each].nodes}
    handed = [(code, each) for code in own for each in code.external if each.edge.source in others]
    passed_on = Counter(
        plan.component_of[each.edge.source]
        for code in codes.values()
        if plan.component_of[code.key] in (*group, number)
        for each in code.external
    )
    return (
        len({padded(codes[key].units) for key in (own[0].key, *others)}) == 1
        and not any(edge.source in others for code in own for edge in taken_over(code).values())
        and all(_can_be_handed(each, code, plan) for code, each in handed)
        and max([len(handed), *(passed_on[each] for each in group)]) <= MOST_HANDED
    )


def _can_be_handed(product: Product, reader: NodeCode, plan: Plan) -> bool:
    """Whether a state of another leg can be multiplied as it comes."""
    edge = product.edge
    goes_forward = not any(plan.components[plan.component_of[key]].is_backward for key in (edge.source, edge.target))
    is_plain = edge.delay == 0 and not product.has_projection
    return goes_forward and is_plain and any(each.pairs for each in reader.internal)
