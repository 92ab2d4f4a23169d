"""The plan of a network: which nodes run over all time steps at once, which step by step, and in which order.

The nodes fall into strongly connected components. A node on no cycle is *hoisted*: one large product over all time
steps. The nodes of a cyclic component run slot by slot, by the schedule of the component's own graph; products that
come from other components are hoisted. Components follow one another so that each finds what it reads.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import networkx

from rnnlab.architecture.architecture import Architecture
from rnnlab.architecture.specs import EdgeSpec
from rnnlab.errors import ArchitectureError
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.directions import reversed_in_time
from rnnlab.graph.elements import Edge, Node, NodeKey
from rnnlab.graph.schedule import Slots, slots

Moment = tuple[NodeKey, int]
"""A node at a time step, counted from the start of the sequence at hand."""


@dataclass(frozen=True)
class Component:
    """Nodes that run together: one hoisted node, or a cycle and all that hangs in it."""

    nodes: tuple[NodeKey, ...]
    schedule: Slots | None  # None for a hoisted node
    is_backward: bool  # whether time runs backward in it; its schedule is then that of mirrored time

    @property
    def is_hoisted(self) -> bool:
        """Whether it is one node that depends on no earlier value of itself."""
        return self.schedule is None

    def slot(self, name: str, time: int) -> int:
        """The slot of a node of a cyclic component at a time."""
        assert self.schedule is not None
        return self.schedule.slot(name, -time if self.is_backward else time)


@dataclass(frozen=True)
class Plan:
    """How an architecture runs: its components in order."""

    architecture: Architecture
    components: tuple[Component, ...]

    @cached_property
    def component_of(self) -> dict[NodeKey, int]:
        """The number of each node's component."""
        return {key: number for number, component in enumerate(self.components) for key in component.nodes}

    def is_internal(self, edge: EdgeSpec) -> bool:
        """Whether an edge joins nodes of one cyclic component, and so cannot be hoisted."""
        return self.component_of[edge.source] == self.component_of[edge.target]

    @cached_property
    def histories(self) -> dict[tuple[str, str], int]:
        """How many steps back each (name, part of state) is read, where it is."""
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
        """Whether at that step there is a node of that name whose state has the part."""
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
        return {edge.port or "", *carried}

    def moments(self, component: Component, num_steps: int, first_step: int = 0) -> list[list[Moment]]:
        """The nodes of a component at all times of a sequence that starts at `first_step`, slot after slot."""
        key = (component.nodes, num_steps, first_step % self.architecture.period)
        if key not in self._moments:
            self._moments[key] = _moments(self.architecture.period, component, *key[1:])
        return self._moments[key]

    @cached_property
    def _moments(self) -> dict[tuple[tuple[NodeKey, ...], int, int], list[list[Moment]]]:
        """What `moments` has found so far: a training run asks for the same length again and again."""
        return {}

    def num_slots(self, num_steps: int) -> int:
        """How many sequential slots the cyclic components take, one after another."""
        return sum(len(self.moments(part, num_steps)) for part in self.components if not part.is_hoisted)

    def __str__(self) -> str:
        label = self.architecture.label
        lines: list[str] = []
        for component in self.components:
            names = ", ".join(label(key) for key in component.nodes)
            if component.schedule is None:
                lines.append(f"hoisted   {names}: one product over all steps")
            else:
                way = ", backward in time" if component.is_backward else ""
                lines.append(f"recurrent {names}: {component.schedule.summary}{way}")
        return "\n".join(lines)


def plan(architecture: Architecture) -> Plan:
    """The plan of an architecture, component by component."""
    _check_outputs(architecture)
    graph = architecture.graph
    connected = graph.to_networkx()
    condensed = networkx.condensation(networkx.DiGraph(connected))
    loops = {edge.source for edge in graph.edges if edge.source == edge.target}
    components: list[Component] = []
    for number in networkx.lexicographical_topological_sort(
        condensed, key=lambda n: min(_numbers(graph, condensed, n))
    ):
        members: tuple[NodeKey, ...] = tuple(sorted(condensed.nodes[number]["members"], key=graph.index.__getitem__))
        is_cyclic = len(members) > 1 or not loops.isdisjoint(members)
        components.append(_component(graph, members) if is_cyclic else Component(members, None, False))
    return Plan(architecture, tuple(components))


def _numbers(graph: CyclicGraph, condensed: "networkx.DiGraph[int]", number: int) -> Iterable[int]:
    return (graph.index[key] for key in condensed.nodes[number]["members"])


def _component(graph: CyclicGraph, members: tuple[NodeKey, ...]) -> Component:
    inside = set(members)
    part = CyclicGraph(
        [Node(node.name, node.kind, node.phase) for node in graph.nodes if node.key in inside],
        [Edge(*edge) for edge in graph.edges if edge.source in inside and edge.target in inside],
        graph.period,
    )
    is_backward = part.direction == "backward"
    return Component(members, slots(reversed_in_time(part) if is_backward else part), is_backward)


def _check_outputs(architecture: Architecture) -> None:
    """Every output must exist in every phase, and so must something to feed the network."""
    for node in architecture.nodes:
        if node.kind != "output":
            continue
        for phase in range(architecture.period):
            if (node.name, phase) not in architecture.by_key:
                missing = architecture.label((node.name, phase))
                raise ArchitectureError(f"output {node.name!r} has no node {missing}: a model needs it at every step")


def _moments(period: int, component: Component, num_steps: int, first_step: int) -> list[list[Moment]]:
    by_slot: dict[int, list[Moment]] = {}
    for name, phase in component.nodes:
        for time in range((phase - first_step) % period, num_steps, period):
            by_slot.setdefault(component.slot(name, first_step + time), []).append(((name, phase), time))
    return [by_slot[number] for number in sorted(by_slot)]


def slots_per_step(whole: Plan) -> Fraction:
    """How many slots a time step costs in the long run, all components one after another."""
    return sum((part.schedule.per_step for part in whole.components if part.schedule is not None), Fraction(0))
