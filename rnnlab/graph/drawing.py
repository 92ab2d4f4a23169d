"""Pictures of graphs after figure 1 of Zhang et al.: inputs squares, hidden nodes circles, outputs diamonds (Z31).

`draw` computes a `Drawing`, in which everything has its place and colour; `svg` and `mpl` write it to files.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from rnnlab.errors import GraphError
from rnnlab.graph.cyclic import CyclicGraph, checked_graph
from rnnlab.graph.elements import Edge, checked_integer
from rnnlab.graph.geometry import Bezier, Outline, Point
from rnnlab.graph.highlights import Role
from rnnlab.graph.lettering import Text
from rnnlab.graph.measures import measure

MOST_COLUMNS, MOST_NODES, MOST_EDGES = 100, 600, 150
BORDER = 1.3  # width of a node's border, in pixels; edges end at its outside


class NodeMark(NamedTuple):
    """A node, or in the unfolded picture one of its copies."""

    name: str
    column: int  # its phase, or in the unfolded picture its time
    outline: Outline
    label: Text  # the name, cut where the node is too small for it


class EdgeMark(NamedTuple):
    """An edge, or in the unfolded picture one of its copies, from border to border."""

    edge: Edge
    column: int  # the source's phase, or in the unfolded picture its time
    curve: Bezier
    roles: tuple[Role, ...]
    part: Literal["whole", "leaving", "arriving"]  # only an end is drawn where the other lies outside the window


class DelayMark(NamedTuple):
    """The number on an edge of the folded picture."""

    edge: Edge
    label: Text


class KeyMark(NamedTuple):
    """An entry of the legend: a measure and, where something of its colour is drawn, a sample of the line."""

    role: Role
    sample: tuple[Point, Point] | None
    label: Text


@dataclass(frozen=True, repr=False)
class Drawing:
    """A picture of a graph: every shape, curve and text with its place in pixels, y down. Notebooks display it."""

    width: float
    height: float
    title: str
    description: str  # the same in words
    nodes: tuple[NodeMark, ...]
    edges: tuple[EdgeMark, ...]
    delays: tuple[DelayMark, ...]
    texts: tuple[Text, ...]  # the heading and what stands under the columns
    keys: tuple[KeyMark, ...]

    def to_svg(self) -> str:
        """The picture as an SVG document, the same bytes for the same graph."""
        from rnnlab.graph.svg import svg_document

        return svg_document(self)

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def save(self, path: str | Path) -> None:
        """Write the picture in the format of the path's suffix: .svg, or with matplotlib .png or .pdf."""
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix == ".svg":
            path.write_text(self.to_svg(), encoding="utf-8", newline="\n")
        elif suffix in (".png", ".pdf"):
            from rnnlab.graph.mpl import save_figure

            save_figure(self, path)
        else:
            raise GraphError(f"a drawing is saved as .svg, .png or .pdf, got {path.name!r}")

    def __repr__(self) -> str:
        title = self.title.removesuffix(f" with {len(self.nodes)} nodes")  # the default title ends with it
        return f"<Drawing: {title}, {len(self.nodes)} nodes, {len(self.edges)} edges>"


def _check_size(graph: CyclicGraph, num_columns: int) -> None:
    """Refuse pictures that nobody could read, or that would take minutes to lay out."""
    num_nodes = graph.num_nodes * -(-num_columns // graph.period)
    for count, most, what in (
        (num_columns, MOST_COLUMNS, "columns"),
        (num_nodes, MOST_NODES, "nodes"),
        (graph.num_edges, MOST_EDGES, "edges of the folded graph"),
    ):
        if count > most:
            raise GraphError(f"a drawing shows at most {most} {what}, this one would have {count}")


def draw(graph: CyclicGraph, *, unfold: int | None = None, highlight: bool = True, title: str | None = None) -> Drawing:
    """A picture of the graph, folded with its delays on the edges, or unfolded over time.

    Args:
        graph: what to draw.
        unfold: how many time steps of the unfolded graph to show; None for the folded graph.
        highlight: whether to show what attains the measures: the longest path red, the longest input-output path
            yellow, the shortest path blue. A network with cycles that run backward has no measures and no highlights.
        title: a heading.

    >>> from rnnlab.graph.catalogue import named_graph
    >>> drawing = draw(named_graph("fig1a"))
    >>> len(drawing.nodes), len(drawing.edges), [key.label.text for key in drawing.keys]
    (8, 9, ['d_r = 3/2', 'd_f = 7/2', 's = 2'])
    """
    # imported here because it builds on `Drawing`
    from rnnlab.graph.composition import compose_folded, compose_unfolded

    checked_graph(graph, "draw")
    if unfold is not None and checked_integer(unfold, "unfold") < 1:
        raise GraphError(f"an unfolded drawing needs at least 1 time step, got {unfold}")
    _check_size(graph, graph.period if unfold is None else unfold)
    measures = measure(graph) if highlight and graph.direction == "forward" else None
    if unfold is None:
        return compose_folded(graph, measures, title)
    return compose_unfolded(graph, measures, title, num_steps=unfold)
