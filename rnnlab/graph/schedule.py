"""The slot schedule: which computations may run at once, and how few sequential slots T steps need.

`slot(v, t) = floor(phi(v) + t * d_r)`, where `phi(v)` is the largest sum of `1 - delay * d_r` over the edges of any
walk ending in v, at least 0. Every edge leads to a later slot, so all nodes of one slot are independent; the proof is
in docs/maths.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType

import numpy as np

from rnnlab.errors import GraphError
from rnnlab.graph.cycles import longest_cycle
from rnnlab.graph.cyclic import CyclicGraph, checked_graph
from rnnlab.graph.elements import NodeKey, checked_integer
from rnnlab.graph.walks import RatioCycle, longest_walks


@dataclass(frozen=True)
class Slots:
    """The schedule of a graph: a time step takes `per_step` (= d_r) slots, and node v runs `phi[v]` slots into it."""

    graph: CyclicGraph
    per_step: Fraction
    numerators: tuple[int, ...]  # by node, phi times the denominator of per_step

    @cached_property
    def phi(self) -> Mapping[NodeKey, Fraction]:
        """The offset of each node, by (name, phase)."""
        denominator = self.per_step.denominator
        numbers = self.graph.index.items()
        return MappingProxyType({key: Fraction(self.numerators[node], denominator) for key, node in numbers})

    @property
    def constant(self) -> Fraction:
        """The c of "T steps run in T * d_r + c slots" (the floor of it)."""
        return Fraction(max(self.numerators), self.per_step.denominator) - self.per_step + 1

    def slot(self, name: str, time: int) -> int:
        """The slot in which node `name` is computed for time step `time`."""
        key = (name, checked_integer(time, "time") % self.graph.period)
        if key not in self.graph.index:
            raise GraphError(f"node {name!r} is not computed at time {time}: the graph has no {self.graph.label(key)}")
        # integer arithmetic throughout: phi and d_r share a denominator
        numerator = self.numerators[self.graph.index[key]] + time * self.per_step.numerator
        return numerator // self.per_step.denominator

    def num_slots(self, num_steps: int) -> int:
        """How many sequential slots `num_steps` steps take: within a constant of the fewest possible."""
        if checked_integer(num_steps, "num_steps") < 1:
            raise GraphError(f"num_steps must be at least 1, got {num_steps}")
        last = (num_steps - 1) * self.per_step.numerator + max(self.numerators)
        return last // self.per_step.denominator + 1  # the smallest phi is 0: the first node of a longest walk has it

    @property
    def formula(self) -> str:
        """How many slots T steps take, such as `2·T + 2` or `⌊(2/3)·T + 8/3⌋`."""
        return slots_formula(self.per_step, self.constant)

    @property
    def summary(self) -> str:
        """The schedule in one line."""
        return f"T steps run in {self.formula} sequential slots"


def slots_formula(per_step: Fraction, constant: Fraction) -> str:
    """The floor of per_step · T + constant, written out."""
    rate = "T" if per_step == 1 else f"{show_fraction(per_step)}·T"
    rest = f" {'+' if constant > 0 else '-'} {abs(constant)}" if constant else ""
    is_whole = per_step.denominator == constant.denominator == 1
    return f"{rate}{rest}" if is_whole else f"⌊{rate}{rest}⌋"


def show_fraction(value: Fraction) -> str:
    """`3`, or `(3/2)` where it stands before another factor."""
    return str(value) if value.denominator == 1 else f"({value})"


def slots(graph: CyclicGraph) -> Slots:
    """The schedule of every node and time step of a forward graph.

    >>> from rnnlab.graph.catalogue import named_graph
    >>> schedule = slots(named_graph("td"))
    >>> [schedule.slot(name, 0) for name in ("x", "h1", "h2", "y")], schedule.slot("h1", 1), schedule.num_slots(10)
    ([0, 1, 2, 3], 3, 22)
    """
    return schedule(graph, longest_cycle(checked_graph(graph, "slots")))


def schedule(graph: CyclicGraph, longest: RatioCycle) -> Slots:
    """The schedule, where the longest cycle is known already."""
    anywhere = np.arange(graph.num_nodes)
    walks = longest_walks(graph.edge_list, longest.weights, longest.proof, anywhere)
    return Slots(graph, longest.ratio, tuple(walks.values.tolist()))
