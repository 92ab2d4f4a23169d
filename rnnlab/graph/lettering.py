"""How wide text is, without a font at hand, and how a name is made to fit its node."""

import unicodedata
from typing import Literal, NamedTuple

from rnnlab.graph.geometry import Box, Outline, Point

Anchor = Literal["start", "middle", "end"]

_CAP_HEIGHT = 0.72  # of the font size, in Helvetica and its kin
_SMALLEST = 7.0
_ELLIPSIS = "…"

# widths in Helvetica, in thousandths of the font size
_WIDTHS = {
    **dict.fromkeys("ijl|'", 225),
    **dict.fromkeys(" .,:;!/\\ft[]I", 280),
    **dict.fromkeys('r()-{}`"*', 345),
    **dict.fromkeys("ckszvxyJ^", 500),
    **dict.fromkeys("ABEKPSVXY&", 670),
    **dict.fromkeys("CDHNRUw", 722),
    **dict.fromkeys("GOQ", 778),
    **dict.fromkeys("Mm", 833),
    **dict.fromkeys("W@%", 960),
    "…": 1000,
}
_ORDINARY = 560


class Text(NamedTuple):
    """A line of text in its place."""

    text: str
    anchor_point: Point  # on the middle line of its capitals
    size: float
    anchor: Anchor = "middle"
    colour: str = "#1a1a1a"
    is_formula: bool = False  # begins with a symbol such as `d_r`, set in italics with its index lowered

    @property
    def box(self) -> Box:
        """The box round the capitals."""
        width, height = text_width(self.text, self.size), self.size * _CAP_HEIGHT
        x, y = self.anchor_point
        left = x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor]
        return Box(left, y - height / 2, left + width, y + height / 2)

    @property
    def baseline(self) -> float:
        """The y of the line on which the letters stand."""
        return self.anchor_point[1] + self.size * _CAP_HEIGHT / 2

    @property
    def formula_parts(self) -> tuple[str, str, str]:
        """Symbol, index and the rest of a formula: `d`, `r` and ` = 3/2`."""
        name, _, rest = self.text.partition(" ")
        symbol, _, index = name.partition("_")
        return symbol, index, f" {rest}"

    def moved(self, dx: float, dy: float) -> "Text":
        """The same text elsewhere."""
        return self._replace(anchor_point=(self.anchor_point[0] + dx, self.anchor_point[1] + dy))


def text_width(text: str, size: float) -> float:
    """The width of `text` in pixels, as a common sans-serif font sets it.

    >>> text_width("h1", 10.0)
    11.2
    """
    return sum(_character_width(character) for character in text) * size / 1000


def fitted_name(name: str, outline: Outline, size: float) -> Text:
    """The name as it fits inside its node: in the given size, else smaller, else cut."""
    while text_width(name, size) > _room(outline, size) and size > _SMALLEST:
        size = max(_SMALLEST, size - 0.5)
    shown, kept = name, len(name)
    while text_width(shown, size) > _room(outline, size) and kept > 2:
        kept -= 1  # cut from the middle: names that begin alike often differ at the end
        shown = name[: kept - kept // 2].rstrip() + _ELLIPSIS + name[len(name) - kept // 2 :].lstrip()
    return Text(shown, outline.centre, size)


def _room(outline: Outline, size: float) -> float:
    """The width free for text of that size half way up a shape, less a margin."""
    half_height = size * _CAP_HEIGHT / 2
    if outline.kind == "hidden":
        return 2 * (outline.radius**2 - half_height**2) ** 0.5 - 5.0
    if outline.kind == "input":
        return 2 * outline.radius - 5.0
    return 2 * (outline.radius - half_height) - 5.0


def _character_width(character: str) -> int:
    if character in _WIDTHS:
        return _WIDTHS[character]
    if unicodedata.combining(character):
        return 0
    return 1000 if unicodedata.east_asian_width(character) in "WF" else _ORDINARY
