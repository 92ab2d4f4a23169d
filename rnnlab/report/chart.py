"""The frame of a chart: two axes with ticks, units and a legend, and where values lie inside it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rnnlab.graph.geometry import Point
from rnnlab.graph.lettering import text_width as helvetica_width
from rnnlab.report.scales import Axis, tick_label
from rnnlab.report.svg import Markup, line, mark, polyline, text

WIDTH = 440.0
FONT = 13.0
NUM_COLOURS = 8
NUM_DASHES = 4

_TICK_ROOM, _TITLE_ROOM, _LEGEND_ROW = 8.0, 22.0, 20.0
_RIGHT = 18.0  # half of a label at the last tick must fit
_WIDEST_FONT = 1.18  # a page is shown in whatever font the reader's system has; Verdana and its kin are this wide


def text_width(text: str, size: float = FONT) -> float:
    """How wide a text may be in a reader's font."""
    return _WIDEST_FONT * helvetica_width(text, size)


def fitted(text: str, width: float, size: float = FONT) -> str:
    """A text, cut if it would be wider than the given width.

    >>> fitted("sh", 100.0), fitted("an architecture with a very long name", 100.0)
    ('sh', 'an architect…')
    """
    if text_width(text, size) <= width:
        return text
    while text and text_width(f"{text}…", size) > width:
        text = text[:-1]
    return f"{text.rstrip()}…"


@dataclass(frozen=True)
class Style:
    """The look of an architecture in all figures of a report: its own colour, mark and dash pattern.

    Args:
        number: its place in the study.
    """

    number: int

    @property
    def ink(self) -> str:
        """The class that has its colour."""
        return f"c{self.number % NUM_COLOURS}"

    @property
    def stroke(self) -> str:
        """The classes of its lines."""
        return f"line {self.ink} d{self.number % NUM_DASHES}"


@dataclass(frozen=True)
class Frame:
    """A chart's box and axes.

    Args:
        x, y: what the axes show.
        x_title, y_title: what that is, with its unit.
        height: of the whole drawing.
        top: how much of it the legend and the title of the y axis take.
        width: of the whole drawing.
    """

    x: Axis
    y: Axis
    x_title: str
    y_title: str
    height: float
    top: float
    width: float = WIDTH

    @property
    def left(self) -> float:
        """Where the box begins: right of the labels of the y axis."""
        return _TICK_ROOM + max(text_width(tick_label(tick)) for tick in self.y.ticks) + 2.0

    @property
    def right(self) -> float:
        """Where it ends."""
        return self.width - _RIGHT

    @property
    def bottom(self) -> float:
        """Where it stands: above the labels and the title of the x axis."""
        return self.height - 2 * _TITLE_ROOM

    def at(self, x: float, y: float) -> Point:
        """Where a pair of values lies."""
        return (
            self.left + self.x.share(x) * (self.right - self.left),
            self.bottom - self.y.share(y) * (self.bottom - self.top),
        )

    def parts(self) -> Iterator[Markup]:
        """Grid, ticks and titles."""
        for tick in self.y.ticks:
            x, y = self.at(self.x.low, tick)
            yield line((x, y), (self.right, y), class_="grid")
            yield text(tick_label(tick), (x - _TICK_ROOM, y + 0.35 * FONT), class_="tick", anchor="end")
        for tick in spaced_ticks(self.x, self.right - self.left):
            x, y = self.at(tick, self.y.low)
            yield line((x, y), (x, y + 4), class_="axis")
            yield text(tick_label(tick), (x, y + _TICK_ROOM + 0.9 * FONT), class_="tick", anchor="middle")
        yield line((self.left, self.bottom), (self.right, self.bottom), class_="axis")
        yield text(fitted(self.x_title, self.right), (self.right, self.height - 6), class_="title", anchor="end")
        yield text(fitted(self.y_title, self.width - 4.0), (2.0, self.top - 10), class_="title")

    def reference(self, value: float, label: str, beyond: str = "") -> Iterator[Markup]:
        """A horizontal line at a value that has a name, such as chance; beyond the axis, words at its edge."""
        _, y = self.at(self.x.low, value)
        if self.y.holds(value):
            yield line((self.left, y), (self.right, y), class_="reference")
            yield text(label, (self.right, y - 4), class_="note", anchor="end")
        elif beyond:
            is_above = value > self.y.high
            words = f"{beyond} {'↑' if is_above else '↓'}"
            yield text(words, (self.right, y + 0.9 * FONT if is_above else y - 4), class_="note", anchor="end")


def spaced_ticks(axis: Axis, length: float) -> tuple[float, ...]:
    """Those ticks of a horizontal axis whose labels do not touch: all, or every second, third, ..."""
    widest = max(text_width(tick_label(tick)) for tick in axis.ticks) + 12.0
    every = 1
    while len(axis.ticks[::every]) > 1 and len(axis.ticks[::every]) * widest > length + widest:
        every += 1
    return axis.ticks[::every]


@dataclass(frozen=True)
class Legend:
    """Which colour, mark and dash pattern belongs to whom, in as many rows as needed.

    Args:
        entries: names with their styles.
        width: of the drawing.
        has_lines: whether a piece of line is shown, or the mark alone.
    """

    entries: Sequence[tuple[str, Style]]
    width: float = WIDTH
    has_lines: bool = True

    @property
    def height(self) -> float:
        """How much room it takes."""
        return (max((row for row, _ in self._places()), default=0) + 1) * _LEGEND_ROW

    def parts(self) -> Iterator[Markup]:
        """Samples and names."""
        sample = self._sample
        for (name, style), (row, x) in zip(self.entries, self._places(), strict=True):
            y = row * _LEGEND_ROW + _LEGEND_ROW / 2
            if self.has_lines:
                yield polyline(((x, y), (x + sample, y)), class_=style.stroke)
            yield mark(style.number, (x + sample / 2, y), 4.0, class_=f"mark {style.ink}")
            yield text(self._shown(name), (x + sample + 5, y + 0.35 * FONT), class_="label")

    def _shown(self, name: str) -> str:
        return fitted(name, self.width - self._sample - 10)

    @property
    def _sample(self) -> float:
        return 26.0 if self.has_lines else 10.0

    def _places(self) -> list[tuple[int, float]]:
        """Row and left end of each entry."""
        found: list[tuple[int, float]] = []
        row, x = 0, 2.0
        for name, _ in self.entries:
            needed = self._sample + 5 + text_width(self._shown(name)) + 16
            if x > 2.0 and x + needed > self.width:
                row, x = row + 1, 2.0
            found.append((row, x))
            x += needed
        return found


def frame_top(legend: Legend | None) -> float:
    """Where the box of a chart begins: under its legend and the title of its y axis."""
    return (0.0 if legend is None else legend.height) + _TITLE_ROOM + 6.0
