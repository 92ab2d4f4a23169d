"""Writes a drawing as SVG, without any library: readable text, no scripts, no fonts of its own."""

from collections.abc import Iterator
from html import escape

from rnnlab.graph.drawing import BORDER, Drawing, NodeMark
from rnnlab.graph.geometry import Bezier, Point
from rnnlab.graph.ink import DASHES, Area, Ink, Plate, Stroke, inks
from rnnlab.graph.lettering import Text

_FONTS = "Helvetica, Arial, 'Liberation Sans', sans-serif"


def svg_document(drawing: Drawing) -> str:
    """The whole document; white behind the picture keeps it readable on a dark page."""
    width, height = _number(drawing.width), _number(drawing.height)
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="{_FONTS}">',
        f"<title>{escape(drawing.title)}</title>",
        f"<desc>{escape(drawing.description)}</desc>",
        f'<rect class="ground" width="{width}" height="{height}" fill="#ffffff"/>',
        *(line for ink in inks(drawing) for line in _element(ink)),
        "</svg>",
    )
    return "\n".join(lines) + "\n"


def _element(ink: Ink) -> Iterator[str]:
    match ink:
        case Stroke():
            dashes = f' stroke-dasharray="{" ".join(map(_number, DASHES))}"' if ink.is_dashed else ""
            look = f'fill="none" stroke="{ink.colour}" stroke-width="{_number(ink.width)}"{dashes}'
            yield f'<path d="{_path(ink.curves)}" {look}/>'
        case Area():
            yield f'<path d="M{"L".join(map(_point, ink.points))}Z" fill="{ink.colour}"/>'
        case Plate():
            left, top, right, bottom = ink.box
            size = f'width="{_number(right - left)}" height="{_number(bottom - top)}"'
            yield f'<rect class="plate" x="{_number(left)}" y="{_number(top)}" {size} rx="3" fill="#ffffff"/>'
        case NodeMark():
            yield f'<g class="{ink.outline.kind}"><title>{escape(ink.name)}</title>'
            yield _shape(ink)
            yield from _element(ink.label)
            yield "</g>"
        case Text():
            yield _text(ink)


def _shape(node: NodeMark) -> str:
    (x, y), r = node.outline.centre, node.outline.radius
    look = f'fill="#ffffff" stroke="#1a1a1a" stroke-width="{BORDER}"'
    if node.outline.kind == "hidden":
        return f'<circle cx="{_number(x)}" cy="{_number(y)}" r="{_number(r)}" {look}/>'
    if node.outline.kind == "input":
        side = _number(2 * r)
        return f'<rect x="{_number(x - r)}" y="{_number(y - r)}" width="{side}" height="{side}" {look}/>'
    corners = " ".join(map(_point, ((x, y - r), (x + r, y), (x, y + r), (x - r, y))))
    return f'<polygon points="{corners}" {look}/>'


def _text(text: Text) -> str:
    x = _number(text.anchor_point[0])
    place = f'x="{x}" y="{_number(text.baseline)}" font-size="{_number(text.size)}" text-anchor="{text.anchor}"'
    content = _formula(text) if text.is_formula else escape(text.text)
    return f'<text {place} fill="{text.colour}">{content}</text>'


def _formula(text: Text) -> str:
    """`d_r = 3/2` with an italic symbol and a lowered index."""
    symbol, index, rest = map(escape, text.formula_parts)
    drop, small, space = (_number(text.size * part) for part in (0.25, 0.75, 0.28))
    # a space at the beginning of a piece of text is dropped by some viewers: a shift stands in for it
    rest, shift = rest.lstrip(), f'dx="{space}"'
    if not index:
        return f'<tspan font-style="italic">{symbol}</tspan><tspan {shift}>{rest}</tspan>'
    lowered = f'<tspan font-size="{small}" dy="{drop}">{index}</tspan><tspan {shift} dy="-{drop}">{rest}</tspan>'
    return f'<tspan font-style="italic">{symbol}</tspan>{lowered}'


def _path(curves: tuple[Bezier, ...]) -> str:
    pieces = (f"C{_point(curve.first)} {_point(curve.second)} {_point(curve.end)}" for curve in curves)
    return f"M{_point(curves[0].start)}{''.join(pieces)}"


def _point(point: Point) -> str:
    return f"{_number(point[0])},{_number(point[1])}"


def _number(value: float) -> str:
    """Two decimals at most: a hundredth of a pixel."""
    shown = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if shown == "-0" else shown
