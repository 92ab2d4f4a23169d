"""What surrounds the graph in a picture: heading, columns, legend, and a description in words."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.drawing import DelayMark, Drawing, EdgeMark, KeyMark, NodeMark
from rnnlab.graph.geometry import Box, bounding_box
from rnnlab.graph.highlights import ROLES, Role
from rnnlab.graph.lettering import Text, text_width
from rnnlab.graph.measures import Measures
from rnnlab.graph.unfolding import UnfoldedEdge

_TITLE_SIZE = 14.0
_COLUMN_SIZE = 11.0
_COLUMN_COLOUR = "#6b6b6b"
_KEY_SIZE = 12.5
_SAMPLE = 20.0  # length of a line in the legend
_SAMPLE_GAP = 6.0
_KEY_GAP = 18.0
_MARGIN = 12.0


class Scene(NamedTuple):
    """The graph itself, before frame, heading and legend."""

    nodes: tuple[NodeMark, ...]
    edges: tuple[EdgeMark, ...]
    delays: tuple[DelayMark, ...]
    columns: tuple[tuple[float, str], ...]  # what stands under the columns, at which x


class Entry(NamedTuple):
    """A line of the legend."""

    role: Role
    text: str
    has_line: bool  # whether something of its colour is in the picture

    @property
    def width(self) -> float:
        """The width of the entry, in pixels."""
        return text_width(self.text, _KEY_SIZE) + (_SAMPLE + _SAMPLE_GAP if self.has_line else 0.0)


def legend(measures: Measures | None, highlights: Mapping[Role, Sequence[object]]) -> list[Entry]:
    """The three measures, each with its colour; empty if nothing is measured."""
    if measures is None:
        return []
    depth = measures.feedforward_depth
    texts: Mapping[Role, str] = {
        "longest": f"d_r = {measures.recurrent_depth}",
        "input_output": f"d_f = {'none' if depth is None else depth}",
        "shortest": f"s = {measures.recurrent_skip_coefficient}",
    }
    return [Entry(role, texts[role], bool(highlights[role])) for role in ROLES]


def framed(scene: Scene, entries: Sequence[Entry], title: str | None, words: str) -> Drawing:
    """The scene moved into a frame that contains it, with what goes above and below."""
    inner = _bounds(scene)
    legend_width = sum(entry.width for entry in entries) + _KEY_GAP * max(0, len(entries) - 1)
    title_width = text_width(title, _TITLE_SIZE) if title else 0.0
    width = round(max(inner.right - inner.left, legend_width, title_width) + 2 * _MARGIN)
    dx = width / 2 - (inner.left + inner.right) / 2
    dy = _MARGIN + (_TITLE_SIZE + _MARGIN if title else 0.0) - inner.top
    heading = (Text(title, (width / 2, _MARGIN + _TITLE_SIZE / 2), _TITLE_SIZE),) if title else ()
    columns = _column_texts(scene.columns, dx, inner.bottom + dy + 14.0)
    bottom = inner.bottom + dy + (14.0 + _COLUMN_SIZE / 2 if columns else 0.0)
    legend_y = bottom + 24.0
    return Drawing(
        width=width,
        height=round((legend_y + _KEY_SIZE / 2 if entries else bottom) + _MARGIN),
        title=title or words.partition(".")[0],
        description=words,
        nodes=tuple(_moved_node(node, dx, dy) for node in scene.nodes),
        edges=tuple(edge._replace(curve=edge.curve.moved(dx, dy)) for edge in scene.edges),
        delays=tuple(delay._replace(label=delay.label.moved(dx, dy)) for delay in scene.delays),
        texts=heading + columns,
        keys=_key_marks(entries, (width - legend_width) / 2, legend_y),
    )


def folded_words(graph: CyclicGraph, measures: Measures | None) -> str:
    """The folded picture in words."""
    parts = [f"Cyclic graph of period {graph.period} with {graph.num_nodes} nodes", _edge_words(graph)]
    if measures is not None:
        witnesses = measures.witnesses
        parts.append(f"Cycle of recurrent depth, red: {graph.show_walk(witnesses.recurrent_depth)}")
        if witnesses.feedforward_depth:
            parts.append(f"Path of feedforward depth, yellow: {graph.show_walk(witnesses.feedforward_depth)}")
        skip = graph.show_walk(witnesses.recurrent_skip_coefficient)
        parts.append(f"Cycle of recurrent skip coefficient, blue: {skip}")
    return ". ".join(parts) + "."


def unfolded_words(graph: CyclicGraph, highlights: Mapping[Role, Sequence[UnfoldedEdge]], num_steps: int) -> str:
    """The unfolded picture in words."""
    names: Mapping[Role, str] = {
        "longest": "Longest path, red",
        "input_output": "Input-output path, yellow",
        "shortest": "Shortest path, blue",
    }
    parts = [f"Unfolded graph of period {graph.period} at times 0 to {num_steps - 1}", _edge_words(graph)]
    for role, path in highlights.items():
        if path:
            moments = [path[0].source, *(edge.target for edge in path)]
            shown = " -> ".join(f"{name}({time})" for name, time in moments)
            parts.append(f"{names[role]}, {len(path)} edges: {shown}")
    return ". ".join(parts) + "."


def _edge_words(graph: CyclicGraph) -> str:
    return "Edges with delays: " + "; ".join(graph.show_walk([edge]) for edge in graph.edges)


def _bounds(scene: Scene) -> Box:
    """The box of the graph, as wide as the texts under its columns, since a column may have no nodes."""
    boxes = [node.outline.box for node in scene.nodes] + [delay.label.box for delay in scene.delays]
    boxes += [text.box for text in _column_texts(scene.columns, 0.0, 0.0)]
    return bounding_box([edge.curve for edge in scene.edges], boxes)


def _moved_node(node: NodeMark, dx: float, dy: float) -> NodeMark:
    x, y = node.outline.centre
    return node._replace(outline=node.outline._replace(centre=(x + dx, y + dy)), label=node.label.moved(dx, dy))


def _column_texts(columns: Sequence[tuple[float, str]], dx: float, y: float) -> tuple[Text, ...]:
    return tuple(Text(text, (x + dx, y), _COLUMN_SIZE, colour=_COLUMN_COLOUR) for x, text in columns)


def _key_marks(entries: Sequence[Entry], x: float, y: float) -> tuple[KeyMark, ...]:
    marks: list[KeyMark] = []
    for entry in entries:
        right = x + entry.width
        sample = ((x, y), (x + _SAMPLE, y)) if entry.has_line else None
        text_x = right - text_width(entry.text, _KEY_SIZE)
        label = Text(entry.text, (text_x, y), _KEY_SIZE, anchor="start", is_formula=True)
        marks.append(KeyMark(entry.role, sample, label))
        x = right + _KEY_GAP
    return tuple(marks)
