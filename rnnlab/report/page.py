"""A report as one HTML file that needs nothing else: no network, no scripts, no fonts of its own."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from rnnlab.errors import GraphError
from rnnlab.graph.drawing import draw
from rnnlab.report.chart import Style
from rnnlab.report.figures import (
    Figure,
    all_diverged,
    draw_curves,
    draw_history,
    draw_importances,
    draw_scores,
    figure_html,
    history_axis,
    narrow,
)
from rnnlab.report.numbers import Part
from rnnlab.report.paper_page import paper_html
from rnnlab.report.protocol import GLOSSARY, protocol, repeat_command, settings, spaces
from rnnlab.report.results import (
    NO_SETTING,
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
from rnnlab.report.tables import Table
from rnnlab.report.words import (
    architecture_words,
    curve_caption,
    history_caption,
    importance_caption,
    measures_words,
    part_title,
    report_title,
    score_caption,
    subtitle,
    verdicts_in_short,
)
from rnnlab.studies.importance import FEWEST

if TYPE_CHECKING:
    from rnnlab.studies.records import ArmRecord, StudyRecord


def html_page(record: "StudyRecord", parts: tuple[Part, ...], *, is_brief: bool = False) -> str:
    """The whole page; a brief one leaves out the figures of the individual comparisons."""
    title = report_title(record, parts)
    body = "\n".join(
        (
            f"<h1>{escape(title)}</h1>",
            f'<p class="quiet">{escape(subtitle(record))}</p>',
            _verdict(parts[0]) if len(parts) == 1 else _verdicts(parts),
            *paper_html(record, figure_html),
            *(_part(parts[0], "h2", is_brief) if len(parts) == 1 else _each(parts, is_brief)),
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


def _each(parts: Sequence[Part], is_brief: bool) -> Iterator[str]:
    """The comparisons of a study that contains several, each under its own heading."""
    for number, part in enumerate(parts, start=1):
        yield f'<h2 id="comparison-{number}">{escape(part_title(part))}</h2>'
        yield _verdict(part)
        yield from _part(part, "h3", is_brief)


def _part(part: Part, heading: str, is_brief: bool) -> Iterator[str]:
    styles = {each.name: Style(number) for number, each in enumerate(part.comparison.contenders)}
    yield f"<{heading}>Results</{heading}>"
    yield f'<p class="quiet">{escape(score_words(part.comparison))}</p>'
    yield result_table(part.comparison).to_html("cards")
    if not is_brief:
        yield f'<div class="figures wide">{"".join(figure_html(each) for each in _run_figures(part, styles))}</div>'
        yield f"<{heading}>The architectures</{heading}>"
        yield f'<div class="gallery">{"".join(_picture(each, styles[each.arm.name]) for each in part.records)}</div>'
    if any(each.welch for each in part.comparison.tests):
        yield f"<{heading}>Are the differences significant?</{heading}>"
        yield f'<p class="quiet">{escape(_PAIRS)}</p>'
        yield pair_table(part.comparison).to_html("cards words")
    yield f"<{heading}>Tuning</{heading}>"
    if not is_brief:
        yield "".join(figure_html(narrow(each), "wide") for each in _tuning_figures(part, styles))
    yield "<h3>The best setting of each architecture</h3>"
    settings_found = setting_table(part)
    yield settings_found.to_html() if settings_found.rows else f'<p class="quiet">{NO_SETTING}</p>'
    yield f"<{heading}>Protocol</{heading}>"
    yield _definitions(protocol(part))
    yield "".join(
        f"<details><summary>Search space of {escape(names)}</summary><pre>{escape(text)}</pre></details>"
        for names, text in spaces(part).items()
    )


_PAIRS = (
    "For each pair of architectures: the difference between their means, with its 95% interval and Welch's test for "
    "this pair alone, and p corrected for the number of pairs. A difference counts as significant if the corrected p "
    "is below 0.05."
)


def _verdict(part: Part) -> str:
    verdict = part.comparison.verdict
    details = "".join(f"<p>{escape(line)}</p>" for line in verdict.details)
    return f'<section class="verdict"><p class="sentence">{escape(verdict.sentence)}</p>{details}</section>'


def _verdicts(parts: Sequence[Part]) -> str:
    """The verdicts of several comparisons: how many each architecture wins, then one line for each comparison."""
    lines = "".join(
        f'<li><a href="#comparison-{number}">{escape(part_title(part))}</a>: '
        f"{escape(part.comparison.verdict.sentence)}</li>"
        for number, part in enumerate(parts, start=1)
    )
    is_open = " open" if len(parts) <= _MOST_OPEN else ""
    return (
        f'<section class="verdict"><p class="sentence">{escape(verdicts_in_short(parts))}</p>'
        f"<details{is_open}><summary>Each comparison</summary><ul>{lines}</ul></details></section>"
    )


_MOST_OPEN = 6  # verdicts that a page shows without being asked


def _run_figures(part: Part, styles: dict[str, Style]) -> Iterator[Figure]:
    comparison = part.comparison
    if any(each.summary.num for each in comparison.contenders):
        drawing = draw_scores(comparison, styles)
        yield Figure("Scores of all runs", score_caption(part), (drawing,), score_numbers(comparison))
    if part.bands:
        drawing = draw_curves(part.bands, styles, comparison.score)
        yield Figure("Learning curves", curve_caption(part), (drawing,), curve_numbers(part.bands))


def _tuning_figures(part: Part, styles: dict[str, Style]) -> Iterator[Figure]:
    score, histories = part.comparison.score, [each for each in part.histories if each.values]
    if histories and all(each.is_empty for each in histories):
        count = sum(len(each.values) for each in histories)
        yield Figure("The course of tuning", f"Not shown: {all_diverged(count)}.", (), Table((), ()))
    elif histories:
        y = history_axis(histories, score)
        drawings = tuple(draw_history(each, y, styles[each.name], score) for each in histories)
        yield Figure("The course of tuning", history_caption(part), drawings, history_numbers(tuple(histories)))
    found = {name: shares for name, shares in part.importances.items() if shares}
    drawings = tuple(draw_importances(name, shares, styles[name]) for name, shares in found.items())
    caption = importance_caption(part) if found else f"Not shown: this takes at least {FEWEST} complete trials."
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
    yield "<h2>How to repeat this study</h2>"
    yield f'<pre class="wrapped">{escape(repeat_command(record))}</pre>'
    yield (
        "<details><summary>The whole specification</summary>"
        f"<pre>{escape(settings(record))}</pre></details>"
        "<details><summary>All hyperparameters of the best settings</summary>"
        f"{''.join(_hyperparameters(each) for each in record.arms)}</details>"
    )
    yield "<h2>Glossary</h2>"
    yield _definitions(GLOSSARY)


def _hyperparameters(record: "ArmRecord") -> str:
    found = "There is none: no trial is complete." if record.chosen is None else str(record.chosen.hyperparameters)
    return f'<h3>{escape(record.arm.name)}</h3><pre class="wrapped">{escape(found)}</pre>'


def _definitions(rows: tuple[tuple[str, str], ...]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(word)}</dt><dd>{escape(text)}</dd>" for word, text in rows) + "</dl>"
