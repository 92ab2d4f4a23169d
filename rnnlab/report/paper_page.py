"""The section of a paper's experiment as HTML and Markdown."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

from rnnlab.report.figures import Figure
from rnnlab.report.paper_claims import CheckedClaim
from rnnlab.report.paper_forms import PaperTable
from rnnlab.report.paper_section import paper_section

if TYPE_CHECKING:
    from rnnlab.studies.records import StudyRecord

HEADING = "Comparison with the paper"


def paper_html(record: "StudyRecord", figure_html: Callable[[Figure, str], str]) -> Iterator[str]:
    """The section of a page; nothing for a study that is of no paper.

    Args:
        record: of the study.
        figure_html: how the page writes a figure with a class.
    """
    section = paper_section(record)
    if section is None:
        return
    yield f"<h2>{HEADING}</h2>"
    yield f'<p class="quiet">{escape(section.source)}</p>'
    for piece in section.pieces:
        if isinstance(piece, PaperTable):
            yield f"<h3>{escape(piece.heading)}</h3>"
            yield "".join(table.to_html() for table in piece.tables)
            yield f'<p class="quiet">{escape(piece.caption)}</p>'
        else:
            yield figure_html(_narrow(piece), "wide")
    if section.claims:
        yield "<h3>The paper's claims, and our results</h3>"
        yield f"<ul>{''.join(f'<li>{_claim(each)}</li>' for each in section.claims)}</ul>"
        if _are_tested(section.claims):
            yield f'<p class="quiet">{escape(_ALONE)}</p>'
    yield "<h3>How this differs from the paper</h3>"
    yield f"<ul>{''.join(f'<li>{escape(each)}</li>' for each in section.deviations)}</ul>"


def _narrow(figure: Figure) -> Figure:
    """A single drawing no wider than two would be side by side."""
    if len(figure.drawings) != 1:
        return figure
    return replace(figure, drawings=(f'<div style="max-width: 520px">{figure.drawings[0]}</div>',))


_ALONE = (
    "Each of these comparisons is tested by itself. The verdicts in this report are stricter: they look for a winner "
    "among several networks, and correct p for the number of pairs."
)


def _are_tested(claims: Sequence[CheckedClaim]) -> bool:
    return any(check.p is not None for each in claims for check in each.checks)


def _claim(each: CheckedClaim) -> str:
    number = f'<span class="quiet">({each.claim.requirement})</span>'
    return f"{escape(each.claim.text)} {number}: <strong>{escape(each.outcome)}</strong>"


def paper_markdown(record: "StudyRecord") -> Iterator[str]:
    """The same without drawings."""
    section = paper_section(record)
    if section is None:
        return
    yield f"## {HEADING}"
    yield section.source
    for piece in section.pieces:
        yield f"### {piece.heading}"
        tables = piece.tables if isinstance(piece, PaperTable) else (piece.table,)
        yield from (table.to_markdown() for table in tables)
        yield piece.caption
    if section.claims:
        yield "### The paper's claims, and our results"
        yield "\n".join(
            f"- {each.claim.text} ({each.claim.requirement}): **{each.outcome}**" for each in section.claims
        )
        if _are_tested(section.claims):
            yield _ALONE
    yield "### How this differs from the paper"
    yield "\n".join(f"- {each}" for each in section.deviations)


def paper_json(record: "StudyRecord") -> dict[str, Any] | None:
    """All numbers of the section; None for a study that is of no paper."""
    section = paper_section(record)
    return None if section is None else section.to_json()
