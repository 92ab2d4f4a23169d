"""The section of a paper's experiment as HTML and Markdown."""

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from rnnlab.report.figures import Figure, narrow
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
            yield figure_html(narrow(piece), "wide")
    if section.claims:
        yield "<h3>The paper's claims, and our results</h3>"
        yield f'<p class="quiet">{escape(_CODES)}</p>'
        yield f"<ul>{''.join(f'<li>{_claim(each)}</li>' for each in section.claims)}</ul>"
        yield from (f'<p class="quiet">{escape(each)}</p>' for each in _how_tested(section.claims))
    yield "<h3>How this differs from the paper</h3>"
    yield f"<ul>{''.join(f'<li>{escape(each)}</li>' for each in section.deviations)}</ul>"


_CODES = "The claims are in our words. Codes such as Z77 number the elements of the papers in rnnlab's docs/papers.md."

_ALONE = (
    "Each of these comparisons is tested by itself. The verdicts in this report are stricter: they look for a winner "
    "among several networks, and correct p for the number of pairs."
)


_UNTESTED = (
    "Where no test is named, “holds” only compares the measured values, with each other or with a range: they come "
    "from single runs, or there is no test for them."
)


def _how_tested(claims: Sequence[CheckedClaim]) -> Iterator[str]:
    """What a reader must know of the tests behind the claims."""
    are_tested = {check.p is not None for each in claims for check in each.checks}
    if True in are_tested:
        yield _ALONE
    if False in are_tested:
        yield _UNTESTED


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
        yield _CODES
        yield "\n".join(
            f"- {each.claim.text} ({each.claim.requirement}): **{each.outcome}**" for each in section.claims
        )
        yield from _how_tested(section.claims)
    yield "### How this differs from the paper"
    yield "\n".join(f"- {each}" for each in section.deviations)


def paper_json(record: "StudyRecord") -> dict[str, Any] | None:
    """All numbers of the section; None for a study that is of no paper."""
    section = paper_section(record)
    return None if section is None else section.to_json()
