"""Panels, boxes and matrices of the papers' figures as SVG: here numbers only get their places."""

from collections.abc import Iterator, Mapping, Sequence

from rnnlab.graph.geometry import Point
from rnnlab.report.chart import FONT, Frame, Legend, Style, frame_top, spaced_ticks, text_width
from rnnlab.report.figures import SMALL_WIDTH, Styles
from rnnlab.report.paper_collins import Box
from rnnlab.report.paper_panels import Panel, Series
from rnnlab.report.paper_values import Beside
from rnnlab.report.scales import Axis, axis, best_of, tick_label, window
from rnnlab.report.svg import Markup, document, element, line, mark, polygon, polyline, text
from rnnlab.studies.verdict import shown

_HEIGHT, _HEADING, _MOST_WORDS = 270.0, 22.0, 12


def styles_of(panels: Sequence[Panel]) -> dict[str, Style]:
    """A style for every name in some panels, in the order in which names come; theory has none of its own."""
    names = dict.fromkeys(each.name for panel in panels for each in panel.series if each.kind != "theory")
    return {name: Style(number) for number, name in enumerate(names)}


def draw_panel(panel: Panel, styles: Styles) -> Markup:
    """One chart: lines with bands or bars, dots, named levels."""
    names = dict.fromkeys(each.name for each in panel.series if each.kind != "theory")
    legend = Legend([(name, styles[name]) for name in names], SMALL_WIDTH, has_lines=False)
    heading = _HEADING if panel.title else 0.0
    across = [at for each in panel.series for at in each.x] + [at for at, _ in panel.uprights]
    x = axis(across, may_be_log=panel.may_be_log, most_ticks=5)
    frame = Frame(
        x=x,
        y=_y_axis(panel, may_be_log=x.is_log or not panel.has_equal_scales),
        x_title=panel.x_title,
        y_title=panel.y_title,
        height=_HEIGHT + heading + legend.height,
        top=heading + frame_top(legend),
        width=SMALL_WIDTH,
    )
    key = element("g", *legend.parts(), transform=f"translate(0,{heading:g})")
    parts = [text(panel.title, (2.0, 14.0), class_="name"), key, *frame.parts()]
    for value, label in panel.levels:
        parts += frame.reference(value, label)
    for value, label in panel.uprights:
        parts += _upright(frame, value, label)
    for each in panel.series:
        parts += _series(frame, each, styles)
    return document(SMALL_WIDTH, frame.height, panel.title or panel.y_title, _words(panel), parts)


def _y_axis(panel: Panel, *, may_be_log: bool) -> Axis:
    """An axis for everything that is shown, or for all of it that is not absurd."""
    dots = [value for each in panel.series if each.kind == "dots" for value in each.y]
    lines = [
        value
        for each in panel.series
        if each.kind != "dots"
        for part in (each.y, each.low, each.high)
        for value in part
    ]
    if panel.better is not None:
        # Where there are lines, dots are what lies behind them: their worst tenth does not set the scale.
        dots = best_of(dots, better=panel.better) if lines else window(dots, better=panel.better)
        lines = window(lines, better=panel.better)
    return axis([*dots, *lines, *(value for value, _ in panel.levels)], may_be_log=may_be_log, most_ticks=5)


def _upright(frame: Frame, value: float, label: str) -> Iterator[Markup]:
    x, _ = frame.at(value, frame.y.low)
    yield line((x, frame.top), (x, frame.bottom), class_="reference")
    is_left = frame.x.share(value) < 0.5
    at = (x + (4 if is_left else -4), frame.top + 0.9 * FONT)
    yield text(label, at, class_="note", anchor="start" if is_left else "end")


def _series(frame: Frame, each: Series, styles: Styles) -> Iterator[Markup]:
    points = [frame.at(x, y) for x, y in zip(each.x, each.y, strict=True)]
    if each.kind == "theory":
        yield element("path", d=_path(points), class_="reference", fill="none")
        at = points[len(points) // 3]
        yield text(each.name, (at[0] + 8, at[1] - 4), class_="note")
        return
    style = styles[each.name]
    if each.kind == "dots":
        few = len(points) <= 40
        yield from (mark(style.number, at, 3.4 if few else 1.8, class_=f"mark faint {style.ink}") for at in points)
        return
    if each.low:
        yield from _spread(frame, each, style)
    stroke = f"line {style.ink} d1" if each.kind == "dashed" else f"line {style.ink}"
    yield polyline(points, class_=stroke)
    marked = points if len(points) <= 12 else points[-1:]
    yield from (mark(style.number, at, 3.6, class_=f"mark {style.ink}") for at in marked)


def _path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:.2f},{y:.2f}" for x, y in points)


def _spread(frame: Frame, each: Series, style: Style) -> Iterator[Markup]:
    low = [frame.at(x, y) for x, y in zip(each.x, each.low, strict=True)]
    high = [frame.at(x, y) for x, y in zip(each.x, each.high, strict=True)]
    if each.has_bars:
        yield from (line(one, other, class_=f"line {style.ink}") for one, other in zip(low, high, strict=True))
    else:
        yield polygon((*high, *reversed(low)), class_=f"band {style.ink}")


def _words(panel: Panel) -> str:
    """The ends of the lines, for those who cannot see them."""
    lines = [each for each in panel.series if each.kind in ("line", "dashed")][:_MOST_WORDS]
    ends = "; ".join(f"{each.name} from {shown(each.y[0])} to {shown(each.y[-1])}" for each in lines)
    return f"{panel.y_title} against {panel.x_title}. {ends}.".replace(". .", ".")


_ROW = 34.0


def draw_boxes(title: str, found: Sequence[Box], styles: Styles, y_title: str) -> Markup:
    """Boxes with whiskers, one row for each cell, and how many runs diverged."""
    shown_axis = axis([value for box in found for value in (box.low, box.quartile, box.high)], most_ticks=5)
    left = 16.0 + max(text_width(box.name) for box in found)
    right, top = SMALL_WIDTH - 70.0, 40.0
    bottom = top + _ROW * len(found)
    places = _Places(shown_axis, left, right)
    parts = [
        text(title, (2.0, 14.0), class_="name"),
        text("diverged", (SMALL_WIDTH, 32.0), class_="tick", anchor="end"),
    ]
    for tick in spaced_ticks(shown_axis, right - left):
        at = places(tick)
        parts.append(line((at, top), (at, bottom), class_="grid"))
        parts.append(text(tick_label(tick), (at, bottom + 8 + 0.9 * FONT), class_="tick", anchor="middle"))
    for row, box in enumerate(found):
        parts += _box(box, styles[box.name], places, top + _ROW * (row + 0.5))
    parts.append(text(y_title, (SMALL_WIDTH, bottom + 42), class_="title", anchor="end"))
    words = "; ".join(f"{box.name} median {shown(box.median)}, {box.num_infeasible} diverged" for box in found)
    return document(SMALL_WIDTH, bottom + 50, title, f"{words}.", parts)


class _Places:
    """Where values lie on a horizontal axis."""

    def __init__(self, shown_axis: Axis, left: float, right: float) -> None:
        self._axis, self._left, self._right = shown_axis, left, right

    def __call__(self, value: float) -> float:
        return self._left + self._axis.share(value) * (self._right - self._left)


def _box(box: Box, style: Style, places: _Places, middle: float) -> Iterator[Markup]:
    low, first, median, third, high = map(places, (box.low, box.quartile, box.median, box.upper_quartile, box.high))
    yield text(box.name, (2.0, middle + 0.35 * FONT), class_="label")
    yield line((low, middle), (high, middle), class_=f"line {style.ink}")
    corners = ((first, middle - 9), (third, middle - 9), (third, middle + 9), (first, middle + 9), (first, middle - 9))
    yield polygon(corners, class_=f"band {style.ink}")
    yield polyline(corners, class_=f"line {style.ink}")
    yield line((median, middle - 9), (median, middle + 9), class_="mean")
    for value in box.outliers:
        yield mark(0, (places(value), middle), 1.8, class_=f"mark faint {style.ink}")
    share = box.num_infeasible / (box.num + box.num_infeasible)
    yield text(f"{100 * share:.1f}%", (SMALL_WIDTH, middle + 0.35 * FONT), class_="tick", anchor="end")


def draw_beside(title: str, found: Sequence[Beside]) -> Markup:
    """One row for each number of a paper's row: our mean as a mark, the paper's an upright line."""
    values = [each.number.value for each in found]
    ours = [each.measured for each in found if each.measured is not None]
    ends = [end for each in ours if each.interval for end in (each.interval.low, each.interval.high)]
    shown_axis = axis([*values, *(each.value for each in ours), *ends], most_ticks=5)
    left = 16.0 + max(text_width(each.number.column) for each in found)
    top, bottom = 30.0, 30.0 + _ROW * len(found)
    places = _Places(shown_axis, left, SMALL_WIDTH - 22.0)
    parts = [text(title, (2.0, 14.0), class_="name")]
    for tick in spaced_ticks(shown_axis, SMALL_WIDTH - 22.0 - left):
        at = places(tick)
        parts.append(line((at, top), (at, bottom), class_="grid"))
        parts.append(text(tick_label(tick), (at, bottom + 8 + 0.9 * FONT), class_="tick", anchor="middle"))
    for row, each in enumerate(found):
        parts += _beside(each, places, top + _ROW * (row + 0.5))
    parts.append(text(found[0].number.unit, (SMALL_WIDTH - 22.0, bottom + 42), class_="title", anchor="end"))
    words = "; ".join(f"{each.number.column}: {_both(each)}" for each in found)
    return document(SMALL_WIDTH, bottom + 50, title, f"{words}.", parts)


def _beside(each: Beside, places: _Places, middle: float) -> Iterator[Markup]:
    yield text(each.number.column, (2.0, middle + 0.35 * FONT), class_="label")
    paper = places(each.number.value)
    yield line((paper, middle - 11), (paper, middle + 11), class_="mean")
    if each.measured is None:
        return
    if each.measured.interval is not None:
        low, high = (places(end) for end in (each.measured.interval.low, each.measured.interval.high))
        yield line((low, middle), (high, middle), class_="interval c0")
    yield mark(0, (places(each.measured.value), middle), 4.6, class_="mark c0", label=_both(each))


def _both(each: Beside) -> str:
    ours = "not run" if each.measured is None else shown(each.measured.value)
    return f"ours {ours}, the paper's {each.number.value:g}"


_SIDE = 50.0


def draw_matrix(matrix: Mapping[str, Mapping[str, float]], title: str) -> Markup:
    """A square of numbers, darker where they are larger."""
    names = list(matrix)
    left, top = 12.0 + max(text_width(name) for name in names), 44.0
    largest = max(value for row in matrix.values() for value in row.values())
    parts = [text(title, (2.0, 14.0), class_="name")]
    for place, name in enumerate(names):
        parts.append(text(name, (left + _SIDE * (place + 0.5), top - 8), class_="tick", anchor="middle"))
        parts.append(text(name, (left - 8, top + _SIDE * (place + 0.5) + 0.35 * FONT), class_="tick", anchor="end"))
    for down, row in enumerate(names):
        for across, column in enumerate(names):
            value, at = matrix[row][column], (left + _SIDE * across, top + _SIDE * down)
            shade = f"opacity:{0.05 + 0.4 * value / largest:.2f}"
            parts.append(
                element("rect", x=at[0], y=at[1], width=_SIDE - 2, height=_SIDE - 2, class_="bar c0", style=shade)
            )
            at = (at[0] + _SIDE / 2 - 1, at[1] + _SIDE / 2 + 0.3 * FONT)
            parts.append(text(f"{value:.2f}", at, class_="label", anchor="middle"))
    words = "; ".join(f"{row} to {column} {matrix[row][column]:.2f}" for row in names for column in names)
    width = max(SMALL_WIDTH, left + _SIDE * len(names))
    return document(width, top + _SIDE * len(names) + 6, title, f"Multipliers: {words}.", parts)
