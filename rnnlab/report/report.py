"""A report: what a study says, for people to read (HTML, Markdown) and for programs (JSON)."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rnnlab.errors import TuningError
from rnnlab.report.markdown import markdown_page
from rnnlab.report.numbers import Part, parts_of
from rnnlab.report.page import html_page
from rnnlab.report.paper_page import paper_json
from rnnlab.report.protocol import protocol, repeat_command
from rnnlab.report.results import result_table
from rnnlab.report.words import architecture_words, part_title, report_title, task_summary, verdicts_in_short
from rnnlab.studies.comparison import Comparison
from rnnlab.studies.records import StudyRecord, load_record
from rnnlab.training.writable import check_writable
from rnnlab.tuning.store import DEFAULT


@dataclass(frozen=True, repr=False)
class Report:
    """Everything a report shows.

    Args:
        record: the record of the study.
        parts: the numbers, one part for each comparison in the study.
        is_brief: whether its page leaves out the figures of the individual comparisons.
        path: where it was written; None if it was not.
    """

    record: StudyRecord
    parts: tuple[Part, ...]
    is_brief: bool = False
    path: Path | None = None

    @property
    def comparison(self) -> Comparison:
        """The comparison, if the study contains only one.

        Raises:
            TuningError: the study contains several, for example one for each task.
        """
        if len(self.parts) != 1:
            raise TuningError(f"study {self.record.name} contains {len(self.parts)} comparisons: see `parts`")
        return self.parts[0].comparison

    @property
    def is_complete(self) -> bool:
        """Whether the study is complete."""
        return self.record.is_complete

    def __repr__(self) -> str:
        contents = f"{len(self.parts)} comparison{'' if len(self.parts) == 1 else 's'}"
        left = "" if self.is_complete else ", unfinished"
        written = "" if self.path is None else f", written to {self.path}"
        return f"<Report: {self.record.name}, {contents}{left}{written}>"

    def __str__(self) -> str:
        if not self.is_complete:
            return str(self.record)
        in_short = (verdicts_in_short(self.parts),) if len(self.parts) > 1 else ()
        written = () if self.path is None else (f"report: {self.path}",)
        return "\n\n".join((*(_shown_part(part) for part in self.parts), *in_short, *written))

    def to_html(self) -> str:
        """The report as one HTML page that needs no other file."""
        return html_page(self.record, self.parts, is_brief=self.is_brief)

    def to_markdown(self) -> str:
        """The words and tables as Markdown."""
        return markdown_page(self.record, self.parts)

    def to_json(self) -> dict[str, Any]:
        """All numbers, with the specification and the command that repeats the study."""
        return {
            "title": report_title(self.record, self.parts),
            "study": self.record.name,
            "is_complete": self.record.is_complete,
            "command": repeat_command(self.record),
            "specification": None if self.record.spec is None else self.record.spec.to_json(),
            "paper": paper_json(self.record),
            "parts": [
                {"title": part_title(part)} | part.to_json() | {"protocol": dict(protocol(part))} for part in self.parts
            ],
        }

    def save(self, path: str | Path) -> "Report":
        """Write the report in the format of the path's suffix, .html, .md or .json; returns it with that path.

        Raises:
            TuningError: the path has another suffix, or the file cannot be written.
        """
        write = FORMS[check_form(path)]
        try:
            Path(path).write_text(write(self), encoding="utf-8", newline="\n")
        except OSError as error:
            raise TuningError(f"cannot write {path}: {error.strerror}") from error
        return replace(self, path=Path(path))


def _shown_part(part: Part) -> str:
    """For a terminal: the architectures, the task in a few words, the table and the verdict."""
    width = max(len(each.arm.name) for each in part.records)
    known = "\n".join(f"  {each.arm.name:<{width}}  {architecture_words(each)}" for each in part.records)
    comparison = part.comparison
    table = f"{result_table(comparison)}\n{_legend(comparison)}"
    summary = task_summary(part.records[0].arm.task)
    task = f"task: {summary}\n" if summary else ""
    return f"{part_title(part)}\n{task}{known}\n\n{table}\n\n{comparison.verdict}"


def _legend(comparison: Comparison) -> str:
    return (
        "d_r: recurrent depth; d_f: feedforward depth; s: recurrent skip coefficient (see `rnnlab measure NAME`)\n"
        f"{comparison.score.name}: mean over {comparison.sample} on test data; "
        "best trial: in tuning, on validation data; infeasible: training diverged"
    )


FORMS = {
    ".html": Report.to_html,
    ".md": Report.to_markdown,
    ".json": lambda report: json.dumps(report.to_json(), indent=1, allow_nan=False) + "\n",
}


def check_form(path: str | Path) -> str:
    """The suffix of a report's path, checked to be one of FORMS."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMS:
        raise TuningError(f"a report is written as {', '.join(FORMS)}, got {Path(path).name!r}")
    return suffix


def report_path(output: str | Path, study: str) -> Path:
    """The file meant by a path: itself, or in a folder an HTML file named after the study."""
    path = Path(output)
    if path.is_dir():
        return path / f"{study}.html"
    check_form(path)
    return path


def write_report(
    study: str | Path, output: str | Path = ".", *, store: str | Path = DEFAULT, brief: bool = False
) -> Report:
    """Write the report of a study from a store, or from a file with its record.

    Args:
        study: the name of the study, or a file that `StudyRecord.save` wrote.
        output: a .html, .md or .json file, or a folder, in which an HTML file is named after the study.
        store: where the study is.
        brief: whether an HTML page leaves out the figures of the individual comparisons, of which a study may contain
            dozens; verdicts, tables and the figures beside a paper's stay.

    Raises:
        TuningError: there is no such study, or the file cannot be written.
    """
    record = load_record(study, store)
    path = report_path(output, record.name)
    check_writable(path, TuningError)
    return make_report(record, brief=brief).save(path)


def make_report(record: StudyRecord, *, brief: bool = False) -> Report:
    """Compute everything that the report of a study shows.

    Args:
        record: the record of the study, from `load_record`.
        brief: as in `write_report`.
    """
    return Report(record, parts_of(record), brief)
