"""The plan of a network: which nodes run over all time steps at once, which slot by slot, and in which order.

A node outside all cycles is *hoisted*: it is one large product over all time steps. Nodes on cycles run slot by slot,
by the schedule of the graph that they form; products that come from elsewhere are hoisted. Which nodes run together is
the plan's *order*: `by component`, each strongly connected component after another, or as a `wavefront`, all components
and everything between them in one pattern of slots.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from rnnlab.architecture.architecture import Architecture, checked_architecture
from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.explanation import plan_lines, plan_to_json
from rnnlab.engine.groups import ORDERS, Order, groups
from rnnlab.errors import ArchitectureError
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.directions import reversed_in_time
from rnnlab.graph.elements import Edge, Node, NodeKey
from rnnlab.graph.schedule import Slots, slots, slots_formula

Moment = tuple[NodeKey, int]
"""A node at a time step, counted from the start of the sequence at hand."""


_LENGTHS_KEPT = 4  # of sequences; the moments of a long one take more memory than all the rest of a plan


@dataclass(frozen=True)
class Component:
    """Nodes that run together: one hoisted node, or one or more cycles and the nodes in and between them."""

    nodes: tuple[NodeKey, ...]
    schedule: Slots | None  # None for a hoisted node
    is_backward: bool  # whether time runs backward in it; its schedule is then that of mirrored time

    @property
    def is_hoisted(self) -> bool:
        """Whether it is one node that depends on no earlier value of itself."""
        return self.schedule is None

    def slot(self, key: NodeKey, steps: int) -> int:
        """The slot of a node of a cyclic component, so many steps after the first of the sequence.

        If time runs backward, the last step is the first. Counted this way, every sequence begins in slot 0, whatever
        the phase of its first step: moving all slots by one fraction does not change their order.
        """
        assert self.schedule is not None
        graph, per_step = self.schedule.graph, self.schedule.per_step
        number = graph.index[key[0], (-key[1] if self.is_backward else key[1]) % graph.period]
        return (self.schedule.numerators[number] + steps * per_step.numerator) // per_step.denominator


@dataclass(frozen=True, repr=False)
class Plan:
    """How an architecture runs; prints as text.

    Args:
        architecture: what runs.
        components: the nodes that run together; one component runs after another.
        order: `by component` or `wavefront`; `reason` says why, and what the other one would cost.
    """

    architecture: Architecture
    components: tuple[Component, ...]
    order: Order

    @cached_property
    def component_of(self) -> dict[NodeKey, int]:
        """The number of each node's component."""
        return {key: number for number, component in enumerate(self.components) for key in component.nodes}

    @property
    def recurrent(self) -> tuple[Component, ...]:
        """The components that run slot by slot."""
        return tuple(component for component in self.components if not component.is_hoisted)

    def is_internal(self, edge: EdgeSpec) -> bool:
        """Whether an edge joins nodes of one cyclic component, and so cannot be hoisted."""
        return self.component_of[edge.source] == self.component_of[edge.target]

    @cached_property
    def histories(self) -> dict[tuple[str, str], int]:
        """How many steps back each (name, part of state) is read, for those that are read from the past."""
        return self._farthest_reads(sign=1)

    @cached_property
    def lookaheads(self) -> dict[tuple[str, str], int]:
        """How many steps ahead each (name, part of state) is read."""
        return self._farthest_reads(sign=-1)

    def _farthest_reads(self, sign: int) -> dict[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = {}
        for edge in self.architecture.edges:
            for part in self.parts_read(edge):
                key = (edge.source[0], part)
                found[key] = max(found.get(key, 0), sign * edge.delay)
        return found

    def exists(self, name: str, part: str, step: int) -> bool:
        """Whether at that step a node of that name exists whose state has the part."""
        node = self.architecture.by_key.get((name, step % self.architecture.period))
        if node is None:
            return False
        return part in self.architecture.cell(node.key).state if node.kind == "hidden" else part == ""

    @property
    def can_stream(self) -> bool:
        """Whether a sequence may be cut and continued: nothing reads the future."""
        return not any(self.lookaheads.values())

    def parts_read(self, edge: EdgeSpec) -> set[str]:
        """The parts of its source's state that an edge reads: its port, and what it carries."""
        carried = self.architecture.cell(edge.target).carries if edge.carry else ()
        port = {edge.port or ""} if edge.transform == "identity" or self.architecture.has_matrix(edge) else set[str]()
        return {*port, *carried}

    def moments(self, component: Component, num_steps: int, first_step: int = 0) -> list[list[Moment]]:
        """The nodes of a component at all times of a sequence that starts at `first_step`, slot after slot."""
        key = (component.nodes, num_steps, first_step % self.architecture.period)
        found = self._moments.get(key)
        if found is None:
            found = self._moments[key] = _moments(self.architecture.period, component, *key[1:])
            while len(self._moments) > _LENGTHS_KEPT * len(self.components):
                self._moments.pop(next(iter(self._moments)), None)
        return found

    @cached_property
    def _moments(self) -> dict[tuple[tuple[NodeKey, ...], int, int], list[list[Moment]]]:
        """What `moments` has found of late: a training run asks for the same length again and again."""
        return {}

    def num_slots(self, num_steps: int) -> int:
        """How many sequential slots the cyclic components take, one after another."""
        return sum(len(self.moments(part, num_steps)) for part in self.recurrent)

    @property
    def slots_formula(self) -> str:
        """How many slots T steps take, all cyclic components one after another, such as `2·T`."""
        schedules = [part.schedule for part in self.recurrent if part.schedule is not None]
        if all(each.per_step.denominator == each.constant.denominator == 1 for each in schedules):
            return slots_formula(slots_per_step(self), sum((each.constant for each in schedules), Fraction(0)))
        return " + ".join(each.formula for each in schedules)

    @cached_property
    def reason(self) -> str:
        """Why the order is what it is, and what the other one would cost."""
        (other,) = (plan(self.architecture, order=order) for order in ORDERS if order != self.order)
        if other.components == self.components:
            return f"{'a ' if other.order == 'wavefront' else ''}{other.order} would be the same"
        if self.order == "wavefront":
            return f"few slots, {self.slots_formula}; by component takes {other.slots_formula}, with more hoisted"
        return f"as much as can be is hoisted, which suits a CPU; a wavefront would take {other.slots_formula} slots"

    def __repr__(self) -> str:
        slots = f"T steps in {self.slots_formula} slots" if self.recurrent else "nothing recurrent"
        return f"<Plan: {self.order}, {slots}, of {self.architecture!r}>"

    def __str__(self) -> str:
        return "\n".join(plan_lines(self))

    def to_json(self) -> dict[str, Any]:
        """The order, its reason, and for each component its nodes, slots and products, ready for `json.dumps`."""
        return plan_to_json(self)


def plan(architecture: Architecture, *, order: Order = "by component") -> Plan:
    """The plan of an architecture.

    Args:
        architecture: what is to run.
        order: `by component`, best on a CPU, runs one strongly connected component after another, each with the d_r of
            its own cycles, and hoists all products between them. `wavefront`, best for small networks on a GPU, runs
            all components in one pattern of slots with the d_r of the whole, so that T steps of a stack of L layers
            take T + L - 1 slots instead of T · L. Components that run forward in time never share a pattern with
            components that run backward; if there are both, the two directions take turns.

    Raises:
        ArchitectureError: there is no such order, or an output is absent at some steps.

    >>> from rnnlab.architecture.catalogue import architecture
    >>> network = architecture("stack-3", input_size=5, output_size=2, units=8)
    >>> plan(network).num_slots(100), plan(network, order="wavefront").num_slots(100)
    (300, 102)
    """
    if order not in ORDERS:
        raise ArchitectureError(f"order is one of {', '.join(ORDERS)}, got {order!r}")
    _check_outputs(checked_architecture(architecture, "plan"))
    graph = architecture.graph
    return Plan(architecture, tuple(_component(graph, nodes) for nodes in groups(graph, order)), order)


def _component(graph: CyclicGraph, nodes: tuple[NodeKey, ...]) -> Component:
    inside = set(nodes)
    edges = [Edge(*edge) for edge in graph.edges if edge.source in inside and edge.target in inside]
    if not edges:
        return Component(nodes, None, False)
    part = CyclicGraph(
        [Node(node.name, node.kind, node.phase) for node in graph.nodes if node.key in inside], edges, graph.period
    )
    is_backward = part.direction == "backward"
    return Component(nodes, slots(reversed_in_time(part) if is_backward else part), is_backward)


def _check_outputs(architecture: Architecture) -> None:
    """Every output must exist in every phase."""
    for node in architecture.nodes:
        if node.kind != "output":
            continue
        for phase in range(architecture.period):
            if (node.name, phase) not in architecture.by_key:
                missing = architecture.label((node.name, phase))
                raise ArchitectureError(f"output {node.name!r} has no node {missing}: a model needs it at every step")


def _moments(period: int, component: Component, num_steps: int, first_step: int) -> list[list[Moment]]:
    by_slot: dict[int, list[Moment]] = {}
    for key in component.nodes:
        for time in range((key[1] - first_step) % period, num_steps, period):
            steps = num_steps - 1 - time if component.is_backward else time
            by_slot.setdefault(component.slot(key, steps), []).append((key, time))
    return [by_slot[number] for number in sorted(by_slot)]


def slots_per_step(whole: Plan) -> Fraction:
    """How many slots a time step costs in the long run, all components one after another."""
    return sum((part.schedule.per_step for part in whole.components if part.schedule is not None), Fraction(0))
