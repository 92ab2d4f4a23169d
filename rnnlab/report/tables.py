"""Tables as values, written as HTML, Markdown or plain text."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any


@dataclass(frozen=True)
class Table:
    """Rows under headings.

    Args:
        headings: of the columns.
        rows: as texts.
        emphasised: which rows stand out.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    emphasised: frozenset[int] = frozenset()

    def to_html(self, class_: str = "") -> str:
        """A table; on a narrow screen each row becomes a card, with its headings beside the values."""
        head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in self.headings)
        body = "".join(self._html_row(number, row) for number, row in enumerate(self.rows))
        words = f' class="{class_}"' if class_ else ""
        return f'<div class="scroll"><table{words}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'

    def _html_row(self, number: int, row: Sequence[str]) -> str:
        first, *rest = row
        cells = f'<th scope="row">{escape(first)}</th>' + "".join(
            f'<td data-label="{escape(heading)}">{escape(value)}</td>'
            for heading, value in zip(self.headings[1:], rest, strict=True)
        )
        return f'<tr class="emphasised">{cells}</tr>' if number in self.emphasised else f"<tr>{cells}</tr>"

    def to_markdown(self) -> str:
        """A table with pipes."""
        lines = [self.headings, tuple("---" for _ in self.headings), *self.rows]
        return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)

    def __str__(self) -> str:
        columns = list(zip(self.headings, *self.rows, strict=True))
        widths = [max(map(len, column)) for column in columns]
        return "\n".join(_text_line(line, widths) for line in (self.headings, *self.rows))

    def to_json(self) -> list[dict[str, Any]]:
        """A list of rows by heading."""
        return [dict(zip(self.headings, row, strict=True)) for row in self.rows]


def _text_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = [
        cell.ljust(width) if not place else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join((first, *rest)).rstrip()
