"""All numbers of a report, computed from the records of a study."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rnnlab.report.curves import CurveBand, curve_band
from rnnlab.report.history import History, tuning_history
from rnnlab.studies.comparison import Comparison, compare_arms, groups
from rnnlab.studies.importance import Importance, importances

if TYPE_CHECKING:
    from rnnlab.studies.records import ArmRecord, StudyRecord


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a report shows about architectures that are compared with each other.

    Args:
        records: of their arms.
        comparison: scores, measures, tests and verdict.
        bands: learning curves over seeds, for those that have any.
        histories: the course of tuning.
        importances: the importance of hyperparameters, by architecture; None if there are too few trials.
    """

    records: tuple["ArmRecord", ...]
    comparison: Comparison
    bands: tuple[CurveBand, ...]
    histories: tuple[History, ...]
    importances: dict[str, tuple[Importance, ...] | None]

    def to_json(self) -> dict[str, Any]:
        """All numbers."""
        return {
            "comparison": self.comparison.to_json(),
            "learning_curves": [asdict(band) for band in self.bands],
            "tuning": [asdict(history) for history in self.histories],
            "importances": {
                name: None if found is None else {each.name: each.share for each in found}
                for name, found in self.importances.items()
            },
            "best_settings": {record.arm.name: _setting(record) for record in self.records},
        }


def parts_of(record: "StudyRecord") -> tuple[Part, ...]:
    """The parts of a report, one for each comparison in a study."""
    return tuple(_part(record.name, group) for group in groups(record.arms))


def _part(study: str, records: Sequence["ArmRecord"]) -> Part:
    comparison = compare_arms(study, records)
    score = comparison.score.name
    bands = [curve_band(each.arm.name, each.repeats, score) for each in records]
    return Part(
        records=tuple(records),
        comparison=comparison,
        bands=tuple(band for band in bands if band is not None),
        histories=tuple(
            tuning_history(each.arm.name, each.trials, is_maximised=each.arm.is_maximised) for each in records
        ),
        importances={each.arm.name: importances(each.arm, each.trials) for each in records},
    )


def _setting(record: "ArmRecord") -> dict[str, Any] | None:
    return None if record.chosen is None else dict(record.chosen.point)
