"""Elements of SVG as text: shapes, lines and lettering whose colours the page decides by class."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from rnnlab.graph.geometry import Point

SHAPES = ("circle", "square", "diamond", "triangle", "cross", "down")
"""The marks of architectures, in order: told apart without colours."""


class Markup(str):
    """Text that is SVG already; all other text is escaped."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: Any) -> Markup:
    """An element; `class_` is written `class`, underscores in names are hyphens.

    >>> element("text", "a < b", x=1.5, class_="tick", text_anchor="end")
    '<text x="1.5" class="tick" text-anchor="end">a &lt; b</text>'
    """
    words = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"' for name, value in attributes.items() if value != ""
    )
    inner = "".join(child if isinstance(child, Markup) else escape(child, quote=False) for child in children)
    return Markup(f"<{tag}{words}>{inner}</{tag}>" if children else f"<{tag}{words}/>")


def text(content: str, at: Point, *, class_: str = "", anchor: str = "start") -> Markup:
    """A line of text; `at` is on its base line."""
    return element("text", content or " ", x=at[0], y=at[1], class_=class_, text_anchor=anchor)


def line(start: Point, end: Point, *, class_: str) -> Markup:
    """A straight line."""
    return element("line", x1=start[0], y1=start[1], x2=end[0], y2=end[1], class_=class_)


def polyline(points: Sequence[Point], *, class_: str) -> Markup:
    """Straight pieces from point to point."""
    return element("path", d=f"M{'L'.join(map(_point, points))}", class_=class_)


def polygon(points: Iterable[Point], *, class_: str) -> Markup:
    """A closed area."""
    return element("path", d=f"M{'L'.join(map(_point, points))}Z", class_=class_)


def mark(number: int, at: Point, size: float, *, class_: str, label: str = "") -> Markup:
    """The mark of an architecture; pointing at it shows the label."""
    (x, y), r = at, size
    note = (element("title", label),) if label else ()
    corners: dict[str, tuple[Point, ...]] = {
        "square": ((x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)),
        "diamond": ((x, y - 1.3 * r), (x + 1.3 * r, y), (x, y + 1.3 * r), (x - 1.3 * r, y)),
        "triangle": ((x, y - 1.2 * r), (x + 1.2 * r, y + r), (x - 1.2 * r, y + r)),
        "down": ((x, y + 1.2 * r), (x + 1.2 * r, y - r), (x - 1.2 * r, y - r)),
        "cross": _cross(x, y, 1.3 * r, 0.45 * r),
    }
    shape = SHAPES[number % len(SHAPES)]
    if shape == "circle":
        return element("circle", *note, cx=x, cy=y, r=r, class_=class_)
    return element("path", *note, d=f"M{'L'.join(map(_point, corners[shape]))}Z", class_=class_)


def document(width: float, height: float, title: str, description: str, parts: Iterable[Markup]) -> Markup:
    """A drawing for a page: as wide as there is room, with its content in words for those who cannot see it."""
    words = (element("title", title), element("desc", description))
    return element("svg", *words, *parts, viewBox=f"0 0 {_number(width)} {_number(height)}", role="img", class_="chart")


def _cross(x: float, y: float, r: float, w: float) -> tuple[Point, ...]:
    inner = ((w, w), (r, w), (r, -w), (w, -w), (w, -r), (-w, -r), (-w, -w), (-r, -w), (-r, w), (-w, w), (-w, r), (w, r))
    return tuple((x + dx, y + dy) for dx, dy in inner)


def _point(point: Point) -> str:
    return f"{_number(point[0])},{_number(point[1])}"


def _value(value: Any) -> str:
    return _number(value) if isinstance(value, float | int) else escape(str(value))


def _number(value: float) -> str:
    """Two decimals at most: a hundredth of a pixel."""
    shown = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if shown == "-0" else shown
