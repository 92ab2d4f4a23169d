"""The section of a report beside a paper: figures in its form, its numbers and ours, claims, deviations."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rnnlab.report.figures import Figure
from rnnlab.report.paper_claims import CheckedClaim, check_claims
from rnnlab.report.paper_forms import FORMS, PaperTable, Piece
from rnnlab.report.paper_tables import MARKS, paper_tables
from rnnlab.report.paper_values import Beside, beside
from rnnlab.studies.paper import CERTAINTIES, Paper, read_paper

if TYPE_CHECKING:
    from rnnlab.studies.records import StudyRecord


@dataclass(frozen=True, kw_only=True)
class PaperSection:
    """Everything a report shows of the paper whose experiment a study is.

    Args:
        source: which table or figure of which paper.
        pieces: figures and tables in the paper's form.
        numbers: the paper's numbers and ours.
        claims: the paper's claims and what the records say of them.
        deviations: how our protocol differs at this scale.
    """

    source: str
    pieces: tuple[Piece, ...]
    numbers: tuple[Beside, ...]
    claims: tuple[CheckedClaim, ...]
    deviations: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """All numbers, without drawings."""
        return {
            "source": self.source,
            "tables": {
                each.heading: [table.to_json() for table in each.tables]
                for each in self.pieces
                if isinstance(each, PaperTable)
            },
            "figures": {each.heading: each.table.to_json() for each in self.pieces if isinstance(each, Figure)},
            "numbers": [asdict(each) for each in self.numbers],
            "claims": [asdict(each) | {"outcome": each.outcome} for each in self.claims],
            "deviations": list(self.deviations),
        }


def paper_section(record: "StudyRecord") -> PaperSection | None:
    """What a report shows of a paper's experiment; None for a study that is none.

    Args:
        record: of the study, complete or not.
    """
    paper = read_paper(record.spec)
    if paper is None:
        return None
    found = beside(record, paper)
    pieces = [*FORMS[paper.form](record, paper), *_layout(paper, found)]
    return PaperSection(
        source=paper.source,
        pieces=tuple(pieces),
        numbers=found,
        claims=check_claims(record, paper),
        deviations=paper.deviations_at(None if record.spec is None else record.spec.scale),
    )


def _layout(paper: Paper, found: Sequence[Beside]) -> Iterator[PaperTable]:
    """The numbers in the layout of the paper's table, where it has one."""
    tables = paper_tables(found, paper.quoted)
    if tables:
        yield PaperTable("In the paper's layout", _layout_caption(paper), tuple(tables))


def _layout_caption(paper: Paper) -> str:
    units = " or ".join(dict.fromkeys(each.unit for each in paper.numbers if each.row))
    kinds = dict.fromkeys(each.certainty for each in (*paper.numbers, *paper.quoted) if each.certainty != "stated")
    marks = "".join(f" {MARKS[kind]}: {CERTAINTIES[kind]}." for kind in kinds)
    quoted = " A single number is one that the paper quotes from other work." if paper.quoted else ""
    return (
        f"Our result / the paper's, in {units}. The number after ± is half of our 95% interval over seeds. A dash (–) "
        f"means that this study has no score here: the network was not trained, or all runs diverged.{quoted}{marks}"
    )
