"""A report as one HTML file that needs nothing else: no network, no scripts, no fonts of its own."""

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from rnnlab.errors import GraphError
from rnnlab.graph.drawing import draw
from rnnlab.report.chart import Style
from rnnlab.report.figures import (
    Figure,
    draw_curves,
    draw_history,
    draw_importances,
    draw_scores,
    figure_html,
    history_axis,
)
from rnnlab.report.numbers import Part
from rnnlab.report.paper_page import paper_html
from rnnlab.report.protocol import GLOSSARY, protocol, repeat_command, settings, spaces
from rnnlab.report.results import (
    curve_numbers,
    history_numbers,
    importance_numbers,
    pair_table,
    result_table,
    score_numbers,
    score_words,
    setting_table,
)
from rnnlab.report.style import style_sheet
from rnnlab.report.words import (
    architecture_words,
    curve_caption,
    history_caption,
    importance_caption,
    measures_words,
    part_title,
    report_title,
    score_caption,
)
from rnnlab.studies.importance import FEWEST

if TYPE_CHECKING:
    from rnnlab.studies.records import ArmRecord, StudyRecord


def html_page(record: "StudyRecord", parts: tuple[Part, ...]) -> str:
    """The whole page."""
    title = report_title(record, parts)
    body = "\n".join(
        (
            f"<h1>{escape(title)}</h1>",
            f'<p class="quiet">{escape(_subtitle(record))}</p>',
            *paper_html(record, figure_html),
            *(piece for part in parts for piece in _part(part, has_heading=len(parts) > 1)),
            *_ending(record),
        )
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'  # without it browsers ask for one
        f"<title>{escape(title)}</title>\n<style>{style_sheet()}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _subtitle(record: "StudyRecord") -> str:
    tasks = ", ".join(dict.fromkeys(str(each.arm.task) for each in record.arms))
    state = "" if record.is_complete else "; not complete yet"
    return f"rnnlab study {record.name}: {tasks}{state}"


def _part(part: Part, *, has_heading: bool) -> Iterator[str]:
    styles = {each.name: Style(number) for number, each in enumerate(part.comparison.contenders)}
    if has_heading:
        yield f"<h2>{escape(part_title(part))}</h2>"
    yield _verdict(part)
    yield "<h2>Results</h2>"
    yield f'<p class="quiet">{escape(score_words(part.comparison))}</p>'
    yield result_table(part.comparison).to_html("cards")
    yield f'<div class="figures wide">{"".join(figure_html(each) for each in _run_figures(part, styles))}</div>'
    yield "<h2>The architectures</h2>"
    yield f'<div class="gallery">{"".join(_picture(each, styles[each.arm.name]) for each in part.records)}</div>'
    if part.comparison.tests:
        yield "<h2>Are the differences real?</h2>"
        yield f'<p class="quiet">{escape(_PAIRS)}</p>'
        yield pair_table(part.comparison).to_html("cards words")
    yield "<h2>Tuning</h2>"
    yield "".join(figure_html(each, "wide") for each in _tuning_figures(part, styles))
    yield "<h3>The best setting of each architecture</h3>"
    yield setting_table(part).to_html()
    yield "<h2>Protocol</h2>"
    yield _definitions(protocol(part))
    yield "".join(
        f"<details><summary>Search space of {escape(names)}</summary><pre>{escape(text)}</pre></details>"
        for names, text in spaces(part).items()
    )


_PAIRS = (
    "Each pair of architectures: the difference of their means, the interval in which it lies, Welch's test, and p "
    "corrected for the number of pairs. A difference counts if the corrected p is below 0.05."
)


def _verdict(part: Part) -> str:
    verdict = part.comparison.verdict
    details = "".join(f"<p>{escape(line)}</p>" for line in verdict.details)
    return f'<section class="verdict"><p class="sentence">{escape(verdict.sentence)}</p>{details}</section>'


def _run_figures(part: Part, styles: dict[str, Style]) -> Iterator[Figure]:
    comparison = part.comparison
    if any(each.summary.num for each in comparison.contenders):
        drawing = draw_scores(comparison, styles)
        yield Figure("Scores of all runs", score_caption(part), (drawing,), score_numbers(comparison))
    if part.bands:
        drawing = draw_curves(part.bands, styles, comparison.score)
        yield Figure("How they learn", curve_caption(part), (drawing,), curve_numbers(part.bands))


def _tuning_figures(part: Part, styles: dict[str, Style]) -> Iterator[Figure]:
    score, histories = part.comparison.score, [each for each in part.histories if each.values]
    if histories:
        y = history_axis(histories, score)
        drawings = tuple(draw_history(each, y, styles[each.name], score) for each in histories)
        yield Figure("The course of tuning", history_caption(part), drawings, history_numbers(tuple(histories)))
    found = {name: shares for name, shares in part.importances.items() if shares}
    drawings = tuple(draw_importances(name, shares, styles[name]) for name, shares in found.items())
    caption = importance_caption(part) if found else f"Not shown: it takes {FEWEST} complete trials."
    yield Figure("Which hyperparameters mattered", caption, drawings, importance_numbers(part))


def _picture(record: "ArmRecord", style: Style) -> str:
    try:
        drawing = draw(record.arm.architecture.graph).to_svg()
    except GraphError as error:
        drawing = f"<p>{escape(str(error))}</p>"
    heading = f'<h3><span class="key {style.ink}"></span>{escape(record.arm.name)}</h3>'
    caption = f"{architecture_words(record)}: {measures_words(record)}"
    return f'<figure class="picture">{heading}{drawing}<figcaption>{escape(caption)}</figcaption></figure>'


def _ending(record: "StudyRecord") -> Iterator[str]:
    yield "<h2>Repeat it</h2>"
    yield f'<pre class="wrapped">{escape(repeat_command(record))}</pre>'
    yield (
        "<details><summary>Every setting</summary>"
        f"<pre>{escape(settings(record))}</pre></details>"
        "<details><summary>Every hyperparameter of every best setting</summary>"
        f"{''.join(_hyperparameters(each) for each in record.arms)}</details>"
    )
    yield "<h2>Words</h2>"
    yield _definitions(GLOSSARY)


def _hyperparameters(record: "ArmRecord") -> str:
    found = "no trial is complete" if record.best is None else str(record.best.hyperparameters)
    return f'<h3>{escape(record.arm.name)}</h3><pre class="wrapped">{escape(found)}</pre>'


def _definitions(rows: tuple[tuple[str, str], ...]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(word)}</dt><dd>{escape(text)}</dd>" for word, text in rows) + "</dl>"
