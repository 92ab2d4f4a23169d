"""Random small architectures, valid by construction."""

from hypothesis import assume
from hypothesis import strategies as st

from rnnlab import Architecture, Edge, EdgeSpec, NodeSpec
from rnnlab.architecture.catalogue import tied_over_phases
from tests.graph.strategies import graphs

PLAIN = ("tanh", "relu", "irnn")
GATED = ("ugrnn", "gru", "gru-cudnn", "lstm", "lstm-edges", "mgu")


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    """Any cells, widths by name, skips, ties, tokens and zero initial states; some with negative delays."""
    graph = draw(graphs(max_nodes=5, max_edges=8))
    kinds = {node.key: node.kind for node in graph.nodes}
    renamed = {key: (f"{key[0]}_{kinds[key]}", key[1]) for key in kinds}  # a name must be of one kind in all phases
    edges = [
        Edge(renamed[edge.source], renamed[edge.target], edge.delay)
        for edge in graph.edges
        if kinds[edge.target] != "input"
    ]
    assume(any(edge.source == edge.target for edge in edges))  # dropping edges may have taken the last cycle
    names = sorted({name for name, _ in renamed.values()})
    units = {name: draw(st.integers(1, 3)) for name in names}
    phases = {name: [phase for other, phase in renamed.values() if other == name] for name in names}
    cells = {name: draw(st.sampled_from(_possible_cells(name, edges, phases[name]))) for name in names}
    nodes = [
        NodeSpec(
            name=name,
            kind=kinds[key],
            phase=phase,
            units=units[name],
            cell=cells[name] if kinds[key] == "hidden" else None,
            nonlinearity=draw(st.sampled_from([None, "tanh", "relu"])) if kinds[key] == "hidden" else None,
            encoding=draw(st.sampled_from(["values", "tokens"])) if kinds[key] == "input" else "values",
            initial=draw(st.sampled_from(["learned", "zero"])),
        )
        for key, (name, phase) in renamed.items()
    ]
    tokens = {node.key for node in nodes if node.encoding == "tokens"}
    specs = [EdgeSpec(source=edge.source, target=edge.target, delay=edge.delay) for edge in edges]
    specs += [
        EdgeSpec(source=edge.source, target=edge.target, delay=edge.delay, transform="identity")
        for edge in edges
        if units[edge.source[0]] == units[edge.target[0]] and edge.source not in tokens and draw(st.booleans())
    ]
    made = Architecture(nodes, specs, graph.period)
    return tied_over_phases(made) if draw(st.booleans()) else made


def _possible_cells(name: str, edges: list[Edge], phases: list[int]) -> list[str]:
    """A gated cell needs its own past at every phase; a +RNN node also needs one edge of delay 0."""
    into = [[edge for edge in edges if edge.target == (name, phase)] for phase in phases]
    if not all(any(edge.delay > 0 and edge.source[0] == name for edge in found) for found in into):
        return list(PLAIN)
    has_depth = all(sum(edge.delay == 0 for edge in found) == 1 for found in into)
    return [*PLAIN, *GATED, *(["intersection"] if has_depth else [])]
