"""The figures of a report, drawn from numbers that were computed elsewhere: here they are only placed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

from rnnlab.report.chart import FONT, WIDTH, Frame, Legend, Style, fitted, frame_top, spaced_ticks, text_width
from rnnlab.report.curves import CurveBand
from rnnlab.report.history import History
from rnnlab.report.scales import Axis, axis, count_axis, near, tick_label, window
from rnnlab.report.svg import Markup, document, element, line, mark, polygon, polyline, text
from rnnlab.report.tables import Table
from rnnlab.studies.comparison import Comparison, Contender
from rnnlab.studies.importance import Importance
from rnnlab.studies.verdict import quantity, shown
from rnnlab.tasks.task import Score

SMALL_WIDTH = 400.0
Styles = Mapping[str, Style]


@dataclass(frozen=True)
class Figure:
    """A drawing with its words and its numbers.

    Args:
        heading: its heading.
        caption: what it shows.
        drawings: one SVG, or several side by side.
        table: the numbers behind it.
    """

    heading: str
    caption: str
    drawings: tuple[str, ...]
    table: Table


def figure_html(figure: Figure, class_: str = "") -> str:
    """A figure of a page: heading, drawings, caption, and a fold with the numbers."""
    drawings = "".join(figure.drawings)
    if len(figure.drawings) > 1:
        is_even = len(figure.drawings) in (2, 4)  # two beside each other, rather than three and a lonely one
        drawings = f'<div class="multiples{" even" if is_even else ""}">{drawings}</div>'
    numbers = f"<details><summary>The numbers</summary>{figure.table.to_html()}</details>" if figure.table.rows else ""
    words = f' class="{class_}"' if class_ else ""
    heading, caption = f"<h3>{escape(figure.heading)}</h3>", f"<figcaption>{escape(figure.caption)}</figcaption>"
    return f"<figure{words}>{heading}{drawings}{caption}{numbers}</figure>"


def narrow(figure: Figure) -> Figure:
    """A figure whose drawing, if it has only one, is no wider than two would be side by side."""
    if len(figure.drawings) != 1:
        return figure
    return replace(figure, drawings=(f'<div style="max-width: 520px">{figure.drawings[0]}</div>',))


def draw_curves(bands: Sequence[CurveBand], styles: Styles, score: Score) -> Markup:
    """Learning curves: for each architecture the median over seeds and the band of the middle half."""
    legend = Legend([(band.name, styles[band.name]) for band in bands])
    values = [value for band in bands for part in (band.low, band.middle, band.high) for value in part]
    frame = Frame(
        x=count_axis(0, max(band.steps[-1] for band in bands)),
        y=_axis_near_chance(values, score),
        x_title="training steps",
        y_title=f"{quantity(score)} on validation data",
        height=300 + legend.height,
        top=frame_top(legend),
    )
    parts = [*legend.parts(), *frame.parts()]
    for level in _chance(score):
        parts += frame.reference(level, "chance", beyond=f"chance: {shown(level)}")
    parts += [_band(frame, band, styles[band.name]) for band in bands]
    for band in bands:
        style = styles[band.name]
        points = [frame.at(step, value) for step, value in zip(band.steps, band.middle, strict=True)]
        parts.append(polyline(points, class_=style.stroke))
        parts.append(mark(style.number, points[-1], 4.0, class_=f"mark {style.ink}"))
    ends = "; ".join(f"{band.name} ends at {shown(band.middle[-1])}" for band in bands)
    return document(WIDTH, frame.height, "Learning curves", f"Median over seeds: {ends}.", parts)


def _band(frame: Frame, band: CurveBand, style: Style) -> Markup:
    there = [frame.at(step, value) for step, value in zip(band.steps, band.high, strict=True)]
    back = [frame.at(step, value) for step, value in zip(band.steps, band.low, strict=True)]
    return polygon((*there, *reversed(back)), class_=f"band {style.ink}")


_ROW, _AXIS_ROOM, _HEAD = 46.0, 48.0, 22.0


def draw_scores(comparison: Comparison, styles: Styles) -> str:
    """Every run's score as a mark, with the mean and its interval below: one row for each architecture."""
    ranked = [each for each in comparison.ranked if each.summary.num]
    values = [score for each in ranked for score in each.scores if score is not None]
    ends = [end for each in ranked if each.interval for end in (each.interval.low, each.interval.high)]
    values_shown = [*window(values, better=comparison.score.better), *ends]
    shown_axis = axis([*values_shown, *near(_chance(comparison.score), values_shown)])
    height = _HEAD + _ROW * len(ranked) + _AXIS_ROOM
    bottom = height - _AXIS_ROOM
    parts = list(_score_axis(shown_axis, bottom, comparison.score))
    for row, each in enumerate(ranked):
        parts += _score_row(each, styles[each.name], shown_axis, _HEAD + row * _ROW)
    words = "; ".join(f"{each.name} {shown(each.summary.mean)}" for each in ranked)
    return document(WIDTH, height, "Scores of all runs", f"Means, best first: {words}.", parts)


_LEFT, _SPAN = 22.0, WIDTH - 44.0  # half of a label at either end must fit


def _place(shown_axis: Axis, value: float) -> float:
    return _LEFT + shown_axis.share(value) * _SPAN


def _score_axis(shown_axis: Axis, bottom: float, score: Score) -> Iterator[Markup]:
    for tick in spaced_ticks(shown_axis, _SPAN):
        x = _place(shown_axis, tick)
        yield line((x, _HEAD), (x, bottom), class_="grid")
        yield text(tick_label(tick), (x, bottom + 8 + 0.9 * FONT), class_="tick", anchor="middle")
    for level in _chance(score):
        yield from _chance_line(shown_axis, bottom, level)
    yield line((_LEFT, bottom), (_LEFT + _SPAN, bottom), class_="axis")
    title = f"{quantity(score)} on test data, {score.better} is better"
    yield text(title, (_LEFT + _SPAN, bottom + 42), class_="title", anchor="end")


def _chance_line(shown_axis: Axis, bottom: float, level: float) -> Iterator[Markup]:
    """Where chance is; if it lies beyond the axis, on which side and what value it has."""
    x = _place(shown_axis, level)
    is_left = shown_axis.share(level) < 0.5
    words = "chance"
    if shown_axis.holds(level):
        yield line((x, _HEAD - 6), (x, bottom), class_="reference")
        x += 4 if is_left else -4
    else:
        words = f"← chance: {shown(level)}" if is_left else f"chance: {shown(level)} →"
    yield text(words, (x, 12.0), class_="note", anchor="start" if is_left else "end")


_JITTER = (0.0, 1.0, -1.0, 0.5, -0.5)  # neighbours must not hide each other


def _score_row(each: Contender, style: Style, shown_axis: Axis, top: float) -> Iterator[Markup]:
    middle = top + 26.0
    yield text(_bold(each.name, WIDTH), (2.0, top + 12.0), class_="name")
    for number, score in enumerate(score for score in each.scores if score is not None):
        at = (_place(shown_axis, score), middle + 3.5 * _JITTER[number % len(_JITTER)])
        yield mark(style.number, at, 3.6, class_=f"mark faint {style.ink}", label=f"{each.name}: {score:.6g}")
    mean = _place(shown_axis, each.summary.mean)
    if each.interval is not None:
        low, high = (_place(shown_axis, end) for end in (each.interval.low, each.interval.high))
        yield line((low, middle + 11), (high, middle + 11), class_=f"interval {style.ink}")
    yield line((mean, middle - 8), (mean, middle + 15), class_=f"mean {style.ink}")


def history_axis(histories: Sequence[History], score: Score) -> Axis:
    """One y axis for the tuning of all architectures, so that they can be compared."""
    values = [value for each in histories for value in each.values if value is not None]
    return _axis_near_chance(values, score, most_ticks=5)


def draw_history(history: History, y: Axis, style: Style, score: Score) -> str:
    """Tuning of one architecture: a mark for every trial, lines for the best and the median so far (C70)."""
    count = len(history.values)
    frame = Frame(
        x=count_axis(1, count),
        y=y,
        x_title="trial",
        y_title=f"{history.name}: {quantity(score)}",
        height=230.0,
        top=frame_top(None),
        width=SMALL_WIDTH,
    )
    parts = list(frame.parts())
    if history.is_empty:
        middle = ((frame.left + frame.right) / 2, (frame.top + frame.bottom) / 2)
        parts.append(text(all_diverged(count), middle, class_="note", anchor="middle"))
    for level in _chance(score):
        parts += frame.reference(level, "chance")
    for number, value in enumerate(history.values, start=1):
        if value is not None:
            label = f"trial {number}: {value:.6g}"
            parts.append(
                mark(style.number, frame.at(number, value), 2.6, class_=f"mark faint {style.ink}", label=label)
            )
        else:
            x, y_low = frame.at(number, y.low)
            parts.append(line((x, y_low), (x, y_low - 7), class_="diverged"))
    for values, kind in ((history.median, "median"), (history.best, "best")):
        points = [frame.at(number, value) for number, value in enumerate(values, start=1) if value is not None]
        parts += [polyline(points, class_=f"{kind} {style.ink}")] if points else []
    best = next((value for value in reversed(history.best) if value is not None), None)
    found = "none has a score" if best is None else f"best {shown(best)}"
    words = f"{count} trials of {history.name}, {found}, {history.num_infeasible} diverged."
    return document(SMALL_WIDTH, frame.height, f"Tuning of {history.name}", words, parts)


def all_diverged(count: int) -> str:
    """What to say instead of a drawing.

    >>> all_diverged(1), all_diverged(3)
    ('the only trial diverged', 'all 3 trials diverged')
    """
    return "the only trial diverged" if count == 1 else f"all {count} trials diverged"


_BAR_ROW, _MOST_BARS = 22.0, 8


def draw_importances(name: str, found: Sequence[Importance], style: Style) -> str:
    """The most important hyperparameters of one architecture as bars."""
    shares = found[:_MOST_BARS]
    height = 26.0 + _BAR_ROW * len(shares)
    left = min(SMALL_WIDTH / 2, max(text_width(each.name) for each in shares) + 10.0)
    right = SMALL_WIDTH - 48.0
    parts = [text(_bold(name, SMALL_WIDTH), (2.0, 14.0), class_="name")]
    for row, each in enumerate(shares):
        y = 26.0 + row * _BAR_ROW
        width = each.share * (right - left)
        parts.append(text(fitted(each.name, left - 10), (left - 8, y + 14), class_="tick", anchor="end"))
        parts.append(
            element("rect", x=left, y=y + 3, width=max(width, 1.0), height=_BAR_ROW - 8, class_=f"bar {style.ink}")
        )
        parts.append(text(f"{100 * each.share:.0f}%", (left + width + 5, y + 14), class_="tick"))
    words = ", ".join(f"{each.name} {100 * each.share:.0f}%" for each in shares)
    return document(SMALL_WIDTH, height, f"What mattered for {name}", f"Shares of importance: {words}.", parts)


def _bold(name: str, width: float) -> str:
    """A name, cut to fit when set in bold, which is wider."""
    return fitted(name, 0.88 * width)


def _axis_near_chance(values: Sequence[float], score: Score, most_ticks: int = 6) -> Axis:
    """An axis of scores that includes chance, unless that would leave the scores less than half of it."""
    kept = window(values, better=score.better)
    return axis([*kept, *near(_chance(score), kept, most_widths=1.0)], most_ticks=most_ticks)


def _chance(score: Score) -> list[float]:
    return [] if isinstance(score.chance, tuple) else [score.chance]
