"""What `rnnlab study list` shows: studies in a store, and the specifications that come with rnnlab."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rnnlab.studies.finding import shipped_specs
from rnnlab.studies.specification import default_scale, read_document, scaled
from rnnlab.studies.status import StudyEntry, list_studies
from rnnlab.tuning.store import DEFAULT


@dataclass(frozen=True)
class SpecEntry:
    """A specification that comes with rnnlab.

    Args:
        name: for `rnnlab study run`.
        title: what it is about.
        scales: its scales, the default one first.
    """

    name: str
    title: str
    scales: tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    """Studies and specifications.

    Args:
        store: where the studies are.
        studies: what is there.
        specifications: what comes with rnnlab.
    """

    store: str
    studies: tuple[StudyEntry, ...]
    specifications: tuple[SpecEntry, ...]

    def __str__(self) -> str:
        studies = [(each.name, _progress(each), each.title) for each in self.studies]
        specs = [(each.name, " ".join(each.scales), each.title) for each in self.specifications]
        heading = f"studies in {self.store}:" if studies else f"no studies in {self.store}"
        return "\n".join([heading, *_lines(studies), "", "specifications for `rnnlab study run`:", *_lines(specs)])

    def to_json(self) -> dict[str, Any]:
        """All values."""
        return asdict(self)


def list_all(store: str | Path = DEFAULT) -> Listing:
    """The studies in a store, and the specifications that come with rnnlab."""
    specs = tuple(_entry(name, read_document(path)) for name, path in shipped_specs().items())
    return Listing(str(store), list_studies(store), specs)


def _entry(name: str, document: Mapping[str, Any]) -> SpecEntry:
    first = default_scale(document)
    names = [scale for scale in scaled(document) if scale is not None]
    return SpecEntry(name, document.get("title", ""), tuple(sorted(names, key=lambda scale: scale != first)))


def _progress(entry: StudyEntry) -> str:
    if entry.problem is not None:
        return f"cannot be read: {entry.problem}"
    arms = f"{entry.num_arms} arms" if entry.num_arms > 1 else "1 arm"
    trials = f"{entry.num_ended} of {entry.num_trials} trials"
    return f"{arms}, {entry.num_trials} trials, complete" if entry.is_complete else f"{arms}, {trials}"


def _lines(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(2)]
    return [f"  {row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}".rstrip() for row in rows]
