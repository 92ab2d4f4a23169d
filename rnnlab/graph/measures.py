"""The three measures of Zhang et al. (Z17-Z27), exact, each with the cycle or path that attains it.

    recurrent depth            d_r = max over cycles of length / delay
    feedforward depth          d_f = max over input-output paths of length - delay * d_r
    recurrent skip coefficient s   = max over cycles of delay / length

The general case (no assumption on the graph but definition 2.1, and time running forward): docs/maths.md.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from rnnlab.graph.cycles import farthest_cycle, longest_cycle
from rnnlab.graph.cyclic import CyclicGraph, checked_graph
from rnnlab.graph.elements import KINDS, Edge
from rnnlab.graph.schedule import Slots, schedule
from rnnlab.graph.walks import RatioCycle, longest_walks

Walk = tuple[Edge, ...]


@dataclass(frozen=True)
class Witnesses:
    """The walk that attains each measure, as edges in order."""

    recurrent_depth: Walk
    feedforward_depth: Walk | None  # None where no input reaches an output
    recurrent_skip_coefficient: Walk


@dataclass(frozen=True, repr=False)
class Measures:
    """The three measures of a network, with their witnesses and the schedule; prints as a table."""

    graph: CyclicGraph
    recurrent_depth: Fraction
    feedforward_depth: Fraction | None
    recurrent_skip_coefficient: Fraction
    witnesses: Witnesses
    slots: Slots

    def to_json(self) -> dict[str, Any]:
        """Exact numbers as strings such as "3/2"; keys of `phi` are `name`, or `name@phase` where there are phases."""
        phi = self.slots.phi.items()
        return {
            "period": self.graph.period,
            "recurrent_depth": str(self.recurrent_depth),
            "feedforward_depth": None if self.feedforward_depth is None else str(self.feedforward_depth),
            "recurrent_skip_coefficient": str(self.recurrent_skip_coefficient),
            "witnesses": {
                "recurrent_depth": _walk_to_json(self.witnesses.recurrent_depth),
                "feedforward_depth": _walk_to_json(self.witnesses.feedforward_depth),
                "recurrent_skip_coefficient": _walk_to_json(self.witnesses.recurrent_skip_coefficient),
            },
            "slots": {
                "per_step": str(self.slots.per_step),
                "phi": {self.graph.label(key): str(value) for key, value in phi},
            },
        }

    def __repr__(self) -> str:
        numbers = f"d_r {self.recurrent_depth}, d_f {self.feedforward_depth}, s {self.recurrent_skip_coefficient}"
        return f"<Measures: {numbers} of {self.graph!r}>"

    def __str__(self) -> str:
        show = self.graph.show_walk
        path = self.witnesses.feedforward_depth
        depth = "none" if self.feedforward_depth is None else str(self.feedforward_depth)
        rows = (
            ("recurrent depth", "d_r", str(self.recurrent_depth), f"cycle {show(self.witnesses.recurrent_depth)}"),
            ("feedforward depth", "d_f", depth, f"path {show(path)}" if path else "no input reaches an output"),
            (
                "recurrent skip coefficient",
                "s",
                str(self.recurrent_skip_coefficient),
                f"cycle {show(self.witnesses.recurrent_skip_coefficient)}",
            ),
        )
        width = max(len(value) for _, _, value, _ in rows)
        lines = [f"{name:<27} {symbol:<3} = {value:<{width}}   {proof}" for name, symbol, value, proof in rows]
        return "\n".join((*lines, f"{'period':<27} m   = {self.graph.period}", self.slots.summary))


def measure(graph: CyclicGraph) -> Measures:
    """All three measures of a forward graph, with witnesses and schedule.

    Raises:
        GraphError: some cycle runs backward in time; `directions` splits such a network (Z16).

    Cost: O(m + n log n) per round of policy iteration, about 100 rounds in all; 2 s for a million edges.

    >>> from rnnlab.graph.catalogue import named_graph
    >>> measures = measure(named_graph("fig1a"))
    >>> [str(m) for m in (measures.recurrent_depth, measures.feedforward_depth, measures.recurrent_skip_coefficient)]
    ['3/2', '7/2', '2']
    """
    checked_graph(graph, "measure")
    longest = longest_cycle(graph)
    path = _deepest_path(graph, longest)
    shortest = farthest_cycle(graph)
    witnesses = Witnesses(
        recurrent_depth=_edges(graph, longest.cycle),
        feedforward_depth=None if path is None else _edges(graph, path),
        recurrent_skip_coefficient=_edges(graph, shortest.cycle),
    )
    return Measures(
        graph=graph,
        recurrent_depth=longest.ratio,
        feedforward_depth=None if path is None else len(path) - sum(graph.delays[path].tolist()) * longest.ratio,
        recurrent_skip_coefficient=shortest.ratio,
        witnesses=witnesses,
        slots=schedule(graph, longest),
    )


def recurrent_depth(graph: CyclicGraph) -> Fraction:
    """d_r: how many nonlinear transformations each time step adds in the long run (definition 3.1)."""
    return longest_cycle(checked_graph(graph, "recurrent_depth")).ratio


def feedforward_depth(graph: CyclicGraph) -> Fraction | None:
    """d_f: how deep the path from input to output is beyond d_r (definition 3.2); None without such a path."""
    return measure(checked_graph(graph, "feedforward_depth")).feedforward_depth


def recurrent_skip_coefficient(graph: CyclicGraph) -> Fraction:
    """s: how many time steps one transformation can cross in the long run (definition 3.3)."""
    return farthest_cycle(checked_graph(graph, "recurrent_skip_coefficient")).ratio


def _deepest_path(graph: CyclicGraph, longest: RatioCycle) -> list[int] | None:
    """The input-output path of largest length - delay * d_r, or None where there is no such path."""
    inputs, outputs = (graph.kinds == KINDS.index(kind) for kind in ("input", "output"))
    walks = longest_walks(graph.edge_list, longest.weights, longest.proof, np.flatnonzero(inputs))
    reached = np.flatnonzero(outputs & walks.reached)
    if not reached.size:
        return None
    return walks.to(int(reached[np.argmax(walks.values[reached])]), graph.edge_list)


def _edges(graph: CyclicGraph, walk: list[int]) -> Walk:
    return tuple(graph.edge(number) for number in walk)


def _walk_to_json(walk: Walk | None) -> list[dict[str, Any]] | None:
    return None if walk is None else [edge.to_json() for edge in walk]
