"""Every construction of the four papers, by name (Z11, Z30-Z39, P5-P10, M1-M5).

A name is a family's pattern with its capital words replaced by numbers: `skip-K` gives `skip-21`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rnnlab.errors import GraphError
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.elements import Edge, Kind, Node
from rnnlab.hints import hint

NamedEdge = tuple[str, str, int]


@dataclass(frozen=True)
class Family:
    """An entry of the catalogue: a construction, and the names under which it is shown."""

    pattern: str
    examples: tuple[str, ...]
    summary: str
    citation: str
    build: Callable[..., CyclicGraph]

    def match(self, name: str) -> list[int] | None:
        """The numbers in place of the pattern's capital letters in `name`; None if it belongs to another family."""
        found = re.fullmatch(re.sub(r"[A-Z]+", r"([0-9]{1,6})", self.pattern), name)
        return None if found is None else [int(number) for number in found.groups()]


def named_graph(name: str) -> CyclicGraph:
    """The graph of that name in the catalogue.

    >>> named_graph("fig1b-1") == named_graph("td")
    True
    """
    for family in CATALOGUE:
        if (numbers := family.match(name)) is not None:
            return family.build(*numbers)
        if name.lower() == family.pattern.lower() and re.search("[A-Z]", family.pattern):
            raise GraphError(
                f"{name!r} is a family: put numbers in place of its capital letters, as in {family.examples[0]!r}"
            )
    names = [example for family in CATALOGUE for example in family.examples]
    raise GraphError(f"no architecture is named {name!r}; {hint(name, names, '`rnnlab list` shows all')}")


def stack(num_layers: int) -> CyclicGraph:
    """Layers one above the other, each with its own recurrence (C19, P10, Z33, Z34)."""
    _at_least(1, num_layers, "the number of layers L")
    return _one_phase(_stack_edges(_layers("h", num_layers)))


def two_layers(*extra: NamedEdge) -> CyclicGraph:
    """A stack of two layers h1, h2 with extra edges."""
    return _one_phase(_stack_edges(["h1", "h2"]) + list(extra))


def skip(delay: int) -> CyclicGraph:
    """One layer that also reads its state of K steps ago (Z38): s = K."""
    _at_least(1, delay, "the skip K")
    return _one_phase([*_stack_edges(["h"]), ("h", "h", delay)])


def grid(feedforward_depth: int, recurrent_depth: int) -> CyclicGraph:
    """A network of the given (d_f, d_r) with s = 1 (Z37): a ring of d_r layers, entered late, under a stack."""
    _at_least(2, feedforward_depth, "the feedforward depth DF")
    _at_least(1, recurrent_depth, "the recurrent depth DR")
    ring = _layers("r", recurrent_depth)
    upper = [f"e{number}" for number in range(1, feedforward_depth - recurrent_depth)]
    entry = recurrent_depth - 1 - min(feedforward_depth - 2, recurrent_depth - 1)
    edges: list[NamedEdge] = [("x", ring[entry], 0), *_chain([*ring, *upper, "y"])]
    edges += [(layer, layer, 1) for layer in (*ring, *upper)]
    if recurrent_depth > 1:
        edges.append((ring[-1], ring[0], 1))
    return _one_phase(edges)


def section45(variant: int, delay: int) -> CyclicGraph:
    """The four architectures of section 4.5 (Z39): where a skip of length K starts and ends decides whether s grows."""
    _at_least(1, delay, "the skip K")
    extra: dict[int, list[NamedEdge]] = {
        1: [],
        2: [("h1", "h2", delay)],
        3: [("h2", "h1", delay)],
        4: [("h2", "h2", delay)],
    }
    if variant not in extra:
        raise GraphError(f"section45-V-K has variants V = 1 to 4, got {variant}")
    return two_layers(*extra[variant])


def deep_input() -> CyclicGraph:
    """A feature layer between input and recurrent layer (P5)."""
    return _one_phase([*_chain(["x", "f", "h", "y"]), ("h", "h", 1)])


def deep_output() -> CyclicGraph:
    """A layer between recurrent layer and output (P6, DO-RNN)."""
    return _one_phase([*_chain(["x", "h", "o", "y"]), ("h", "h", 1)])


def deep_transition(num_layers: int, *, shortcuts: bool = False, deep_output: bool = False) -> CyclicGraph:
    """L layers between one state and the next (P7, DT-RNN).

    With shortcuts (P8, DT(S)-RNN) the old state and the input enter every layer; with a deep output (P9, DOT-RNN) a
    layer follows the state.
    """
    _at_least(1, num_layers, "the number of transition layers L")
    layers = [*_layers("z", num_layers - 1, always_numbered=True), "h"]
    entered = layers if shortcuts else layers[:1]
    edges: list[NamedEdge] = [("x", layer, 0) for layer in entered]
    edges += [("h", layer, 1) for layer in entered]
    return _one_phase(edges + _chain([*layers, *(["o"] if deep_output else []), "y"]))


def alternating(period: int, *, has_skip: bool) -> CyclicGraph:
    """A layer whose matrix changes from step to step with the given period (M2-M5).

    With the skip, the state of the last phase is added to itself one period later.
    """
    _at_least(1, period, "the period K")
    nodes, edges = _columns([["x", "h", "y"]] * period)
    edges += [Edge(("h", i), ("h", (i + 1) % period), 1) for i in range(period)]
    if has_skip:
        edges.append(Edge(("h", period - 1), ("h", period - 1), period))
    return CyclicGraph(nodes, edges, period)


def clockwork(periods: Sequence[int] = (1, 2, 4)) -> CyclicGraph:
    """Modules that run every 1, 2, 4 steps and read the latest states of themselves and of slower ones (Z11)."""
    slowest = max(periods)
    nodes: list[Node] = []
    edges: list[Edge] = []
    for time in range(slowest):
        nodes += [Node("x", "input", time), Node("y", "output", time)]
        for number, own in enumerate(periods, start=1):
            latest = time - time % own
            edges.append(_edge(f"h{number}", latest, "y", time, slowest))
            if latest != time:
                continue
            nodes.append(Node(f"h{number}", "hidden", time))
            edges.append(_edge("x", time, f"h{number}", time, slowest))
            for other, theirs in enumerate(periods, start=1):
                if theirs >= own:
                    last = time - 1 - (time - 1) % theirs
                    edges.append(_edge(f"h{other}", last, f"h{number}", time, slowest))
    return CyclicGraph(nodes, edges, slowest)


def hierarchical() -> CyclicGraph:
    """A fast layer at every step and a slow one above it at every second (Z11): the output reads both."""
    nodes, edges = _columns([["x", "h1", "y"]] * 2)
    nodes.append(Node("h2", "hidden", 0))
    edges += [_edge("h1", 0, "h1", 1, 2), _edge("h1", 1, "h1", 2, 2), _edge("h2", 0, "h2", 2, 2)]
    edges += [_edge("h1", 0, "h2", 0, 2), _edge("h2", 0, "y", 0, 2), _edge("h2", 0, "y", 1, 2)]
    return CyclicGraph(nodes, edges, 2)


def figure_1a() -> CyclicGraph:
    """Figure 1(a) of Zhang et al. as reconstructed (Z29, Z30): d_r = 3/2, d_f = 7/2, s = 2, period 2."""
    nodes, edges = _columns([["1", "2", "3", "4"], ["5", "6", "7", "8"]])
    edges += [_edge("3", 0, "6", 1, 2), _edge("7", 1, "3", 2, 2), _edge("3", 0, "3", 2, 2)]
    return CyclicGraph(nodes, edges, 2)


def figure_1b(number: int) -> CyclicGraph:
    """The five further examples of figure 1(b), as reconstructed (Z32)."""
    builders: dict[int, Callable[[], CyclicGraph]] = {
        1: lambda: two_layers(("h2", "h1", 1)),
        2: _uneven_columns,
        3: lambda: stack(4),
        4: lambda: skip(2),
        5: lambda: two_layers(("h2", "h1", 3)),
    }
    if number not in builders:
        raise GraphError(f"figure 1(b) has examples 1 to 5, got {number}")
    return builders[number]()


def _uneven_columns() -> CyclicGraph:
    nodes, edges = _columns([["x", "h", "y"], ["x", "a", "b", "y"]])
    return CyclicGraph(nodes, [*edges, _edge("h", 0, "a", 1, 2), _edge("b", 1, "h", 2, 2)], 2)


def _at_least(least: int, value: int, what: str) -> None:
    if value < least:
        raise GraphError(f"{what} must be at least {least}, got {value}")


def _layers(letter: str, number: int, *, always_numbered: bool = False) -> list[str]:
    return [letter] if number == 1 and not always_numbered else [f"{letter}{layer}" for layer in range(1, number + 1)]


def _chain(names: Sequence[str]) -> list[NamedEdge]:
    return [(lower, upper, 0) for lower, upper in pairwise(names)]


def _stack_edges(layers: Sequence[str]) -> list[NamedEdge]:
    return [*_chain(["x", *layers, "y"]), *((layer, layer, 1) for layer in layers)]


def _one_phase(edges: Sequence[NamedEdge]) -> CyclicGraph:
    """A graph of period 1 in which x is the input, y the output and all else hidden."""
    kinds: dict[str, Kind] = {"x": "input", "y": "output"}
    names = dict.fromkeys(end for source, target, _ in edges for end in (source, target))
    return CyclicGraph([Node(name, kinds.get(name, "hidden")) for name in names], list(edges))


def _columns(columns: Sequence[Sequence[str]]) -> tuple[list[Node], list[Edge]]:
    """One phase a column: its first name an input, its last an output, a chain of delay 0 through all of them."""
    nodes: list[Node] = []
    edges: list[Edge] = []
    for phase, (bottom, *hidden, top) in enumerate(columns):
        nodes += [
            Node(bottom, "input", phase),
            *(Node(name, "hidden", phase) for name in hidden),
            Node(top, "output", phase),
        ]
        edges += [Edge((lower, phase), (upper, phase), 0) for lower, upper, _ in _chain([bottom, *hidden, top])]
    return nodes, edges


def _edge(source: str, source_time: int, target: str, target_time: int, period: int) -> Edge:
    """The edge between two moments of the unfolded graph."""
    return Edge((source, source_time % period), (target, target_time % period), target_time - source_time)


CATALOGUE: tuple[Family, ...] = (
    Family("sh", ("sh",), "one recurrent layer", "Zhang et al. figure 2(a) [Z33]", lambda: stack(1)),
    Family("st", ("st",), "two stacked layers", "Zhang et al. figure 2(a) [Z34]", lambda: stack(2)),
    Family(
        "bu",
        ("bu",),
        "two layers and a bottom-up edge of delay 1",
        "Zhang et al. figure 2(a) [Z35]",
        lambda: two_layers(("h1", "h2", 1)),
    ),
    Family(
        "td",
        ("td",),
        "two layers and a top-down edge of delay 1",
        "Zhang et al. figure 2(a) [Z36]",
        lambda: two_layers(("h2", "h1", 1)),
    ),
    Family("skip-K", ("skip-2", "skip-3"), "one layer and a skip of K steps", "Zhang et al. section 4.4 [Z38]", skip),
    Family(
        "grid-DF-DR",
        tuple(f"grid-{df}-{dr}" for df in (2, 3, 4) for dr in (1, 2, 3)),
        "feedforward depth DF and recurrent depth DR",
        "Zhang et al. figure 2(b) [Z37]",
        grid,
    ),
    Family(
        "section45-V-K",
        tuple(f"section45-{variant}-3" for variant in (1, 2, 3, 4)),
        "two layers; variant V of a skip of K steps",
        "Zhang et al. section 4.5 [Z39]",
        section45,
    ),
    Family("stack-L", ("stack-3",), "L stacked layers", "Collins et al. [C19]", stack),
    Family("deep-input", ("deep-input",), "a feature layer below the recurrent one", "Pascanu et al. [P5]", deep_input),
    Family("do", ("do",), "deep output: a layer above the recurrent one", "Pascanu et al., DO-RNN [P6]", deep_output),
    Family("dt-L", ("dt-2", "dt-3"), "deep transition of L layers", "Pascanu et al., DT-RNN [P7]", deep_transition),
    Family(
        "dts-L",
        ("dts-2", "dts-3"),
        "deep transition of L layers with shortcuts",
        "Pascanu et al., DT(S)-RNN [P8]",
        lambda num_layers: deep_transition(num_layers, shortcuts=True),
    ),
    Family(
        "dot-L",
        ("dot-2",),
        "deep output and deep transition of L layers",
        "Pascanu et al., DOT-RNN [P9]",
        lambda num_layers: deep_transition(num_layers, deep_output=True),
    ),
    Family(
        "dots-L",
        ("dots-2",),
        "deep output and deep transition of L layers with shortcuts",
        "Pascanu et al., DOT(S)-RNN [P9]",
        lambda num_layers: deep_transition(num_layers, shortcuts=True, deep_output=True),
    ),
    Family("srnn-L", ("srnn-2",), "L stacked layers", "Pascanu et al., sRNN [P10]", stack),
    Family("mongia-a", ("mongia-a",), "one matrix, no skip", "Mongia, version A [M1]", lambda: stack(1)),
    Family(
        "mongia-b",
        ("mongia-b",),
        "two alternating matrices",
        "Mongia, version B [M2]",
        lambda: alternating(2, has_skip=False),
    ),
    Family(
        "mongia-c",
        ("mongia-c",),
        "a skip at every second step, one matrix",
        "Mongia, version C [M3]",
        lambda: alternating(2, has_skip=True),
    ),
    Family(
        "mongia-d",
        ("mongia-d",),
        "a skip at every second step, two matrices",
        "Mongia, version D [M4]",
        lambda: alternating(2, has_skip=True),
    ),
    Family(
        "special-K",
        ("special-4",),
        "K matrices and a skip at every K-th step",
        "Mongia, special version [M5]",
        lambda k: alternating(k, has_skip=True),
    ),
    Family("clockwork", ("clockwork",), "modules that run every 1, 2 and 4 steps", "Koutník et al. [Z11]", clockwork),
    Family(
        "hierarchical", ("hierarchical",), "a slow layer above a fast one", "El Hihi and Bengio [Z11]", hierarchical
    ),
    Family("fig1a", ("fig1a",), "the worked example, reconstructed", "Zhang et al. figure 1(a) [Z29, Z30]", figure_1a),
    Family(
        "fig1b-N",
        tuple(f"fig1b-{number}" for number in range(1, 6)),
        "example N of five, reconstructed",
        "Zhang et al. figure 1(b) [Z32]",
        figure_1b,
    ),
)
