"""A report as Markdown: the same words and tables, without drawings."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rnnlab.report.numbers import Part
from rnnlab.report.paper_page import paper_markdown
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
from rnnlab.report.words import (
    architecture_words,
    measures_words,
    part_title,
    report_title,
    subtitle,
    verdicts_in_short,
)

if TYPE_CHECKING:
    from rnnlab.studies.records import StudyRecord


def markdown_page(record: "StudyRecord", parts: tuple[Part, ...]) -> str:
    """The whole page."""
    pieces = [f"# {report_title(record, parts)}", subtitle(record)]
    pieces += _verdict(parts[0]) if len(parts) == 1 else _verdicts(parts)
    pieces += paper_markdown(record)
    if len(parts) == 1:
        pieces += _part(parts[0], "##")
    else:
        pieces += [
            piece for part in parts for piece in (f"## {part_title(part)}", *_verdict(part), *_part(part, "###"))
        ]
    pieces += [
        "## How to repeat this study",
        f"```sh\n{repeat_command(record)}\n```",
        f"```json\n{settings(record)}\n```",
    ]
    pieces += ["## Glossary", *(f"- **{word}**: {text}" for word, text in GLOSSARY)]
    return "\n\n".join(pieces) + "\n"


def _verdict(part: Part) -> Iterator[str]:
    yield f"**{part.comparison.verdict.sentence}**"
    yield from part.comparison.verdict.details


def _verdicts(parts: Sequence[Part]) -> Iterator[str]:
    yield f"**{verdicts_in_short(parts)}**"
    yield "\n".join(f"- {part_title(part)}: {part.comparison.verdict.sentence}" for part in parts)


def _part(part: Part, heading: str) -> Iterator[str]:
    comparison = part.comparison
    yield f"{heading} Results"
    yield score_words(comparison)
    yield result_table(comparison).to_markdown()
    yield "\n".join(
        f"- **{record.arm.name}**, {architecture_words(record)}: {measures_words(record)}" for record in part.records
    )
    if any(each.welch for each in comparison.tests):
        yield f"{heading} Are the differences significant?"
        yield pair_table(comparison).to_markdown()
    yield f"{heading} Scores of all runs"
    yield score_numbers(comparison).to_markdown()
    if part.bands:
        yield f"{heading} Learning curves"
        yield curve_numbers(part.bands).to_markdown()
    yield f"{heading} Tuning"
    yield history_numbers(part.histories).to_markdown()
    if any(part.importances.values()):
        yield importance_numbers(part).to_markdown()
    settings_found = setting_table(part)
    yield settings_found.to_markdown() if settings_found.rows else NO_SETTING
    yield f"{heading} Protocol"
    yield "\n".join(f"- **{word}**: {text}" for word, text in protocol(part))
    for names, text in spaces(part).items():
        yield f"Search space of {names}:\n\n```text\n{text}\n```"
