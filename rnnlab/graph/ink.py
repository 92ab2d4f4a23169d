"""A drawing in strokes and areas, in the order in which they are laid on: what every file format can show."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from rnnlab.graph.drawing import Drawing, EdgeMark, NodeMark
from rnnlab.graph.geometry import Bezier, Box, Point
from rnnlab.graph.highlights import Role
from rnnlab.graph.lettering import Text

ROLE_COLOURS: Mapping[Role, str] = {"longest": "#d1262b", "input_output": "#e3a008", "shortest": "#2166c4"}
EDGE_COLOUR = "#707070"
STUB_COLOUR = "#a3a3a3"
DASHES = (3.0, 2.6)  # drawn and left out, in pixels

_EDGE_WIDTH = 1.25
_HIGHLIGHT_WIDTH = 2.3
_STRIPE_GAP = 2.9  # between the middles of parallel highlights
_HEAD_LENGTH = 8.5
_HEAD_WIDTH = 6.6


class Stroke(NamedTuple):
    """A line along one or more curves that join."""

    curves: tuple[Bezier, ...]
    colour: str
    width: float
    is_dashed: bool = False


class Area(NamedTuple):
    """A filled polygon."""

    points: tuple[Point, ...]
    colour: str


class Plate(NamedTuple):
    """A white ground that keeps lines away from text."""

    box: Box


Ink = Stroke | Area | Plate | NodeMark | Text


def inks(drawing: Drawing) -> Iterator[Ink]:
    """Everything in the picture, back to front: plain edges, highlighted ones, nodes, labels, legend."""
    for edge in sorted(drawing.edges, key=lambda edge: (len(edge.roles) > 0, edge.part == "whole")):
        yield from _edge_inks(edge)
    yield from drawing.nodes
    for delay in drawing.delays:
        yield Plate(delay.label.box.grown(2.0))
    yield from (delay.label for delay in drawing.delays)
    yield from drawing.texts
    for key in drawing.keys:
        if key.sample is not None:
            yield Stroke((_segment(*key.sample),), ROLE_COLOURS[key.role], _HIGHLIGHT_WIDTH + 0.5)
        yield key.label


def _edge_inks(mark: EdgeMark) -> Iterator[Ink]:
    if mark.part == "leaving":
        yield Stroke((mark.curve,), STUB_COLOUR, _EDGE_WIDTH, is_dashed=True)
        return
    shaft = mark.curve.part(0.0, mark.curve.time_at(_HEAD_LENGTH - 1.0, backward=True))
    if mark.part == "arriving":
        yield Stroke((shaft,), STUB_COLOUR, _EDGE_WIDTH, is_dashed=True)
        yield from _head(shaft.end, mark.curve.end, [STUB_COLOUR], _HEAD_WIDTH)
    elif not mark.roles:
        yield Stroke((shaft,), EDGE_COLOUR, _EDGE_WIDTH)
        yield from _head(shaft.end, mark.curve.end, [EDGE_COLOUR], _HEAD_WIDTH)
    else:
        colours = [ROLE_COLOURS[role] for role in mark.roles]
        for number, colour in enumerate(colours):
            offset = ((len(colours) - 1) / 2 - number) * _STRIPE_GAP
            yield Stroke(shaft.beside(offset), colour, _HIGHLIGHT_WIDTH)
        yield from _head(shaft.end, mark.curve.end, colours, _HEAD_WIDTH + 1.4 + _STRIPE_GAP * (len(colours) - 1))


def _head(neck: Point, tip: Point, colours: list[str], width: float) -> Iterator[Area]:
    """An arrow head from `neck` to `tip`, split lengthwise between its colours, the first on the left of travel."""
    along = np.array(tip) - np.array(neck)
    along /= max(float(np.hypot(*along)), 1e-9)
    base = np.array(tip) - _HEAD_LENGTH * along
    aside = np.array([along[1], -along[0]])
    cuts = np.linspace(width / 2, -width / 2, len(colours) + 1)
    corners = [_point(base + cut * aside) for cut in cuts]
    for number, colour in enumerate(colours):
        yield Area((tip, corners[number], corners[number + 1]), colour)


def _segment(start: Point, end: Point) -> Bezier:
    (x0, y0), (x1, y1) = start, end
    return Bezier(start, ((2 * x0 + x1) / 3, (2 * y0 + y1) / 3), ((x0 + 2 * x1) / 3, (y0 + 2 * y1) / 3), end)


def _point(array: np.ndarray) -> Point:
    x, y = array.tolist()
    return (x, y)
