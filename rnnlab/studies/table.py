"""All trials of a study as one table."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args, get_type_hints

from rnnlab.engine.initialisation import Initialisation
from rnnlab.errors import TuningError
from rnnlab.hints import hint
from rnnlab.studies.records import ArmRecord, StudyRecord, load_record
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.binding import TASK
from rnnlab.tuning.store import DEFAULT, Store
from rnnlab.tuning.trials import Trial

if TYPE_CHECKING:
    from pandas import DataFrame, Series

FORMATS = ("csv", "json", "parquet")

COLUMNS: Mapping[str, str] = {
    "study": "string",
    "stage": "string",
    "arm": "string",
    "number": "Int64",
    "state": "string",
    "score": "string",
    "value": "float64",
    "task": "string",
    "architecture": "string",
    "cell": "string",
    "depth": "Int64",
    "num_parameters": "Int64",
    "seed": "Int64",
    "outcome": "string",
    "reason": "string",
    "num_steps": "Int64",
    "best_step": "Int64",
    "wall_seconds": "float64",
    "population": "Int64",
}
"""The columns that every table has, in this order, and their types in pandas.

After them come, where there are any: `label.NAME`, further labels of the arms; `point.NAME`, what was suggested;
`task.NAME`, arguments of the task; `hyperparameter.NAME`, all hyperparameters; `train.SCORE`, `validation.SCORE` and
`test.SCORE`; `run.NAME`, the circumstances.
"""

_GROUPS = ("label.", "point.", "task.", "hyperparameter.", "train.", "validation.", "test.", "run.")


def load_study(name: str | Path, store: Store | str | Path = DEFAULT) -> "DataFrame":
    """All trials of a study as a table, one per row.

    First come those of tuning (`stage` is "tuning"), then those of all finalists over seeds (`stage` is "seeds").

    Args:
        name: the name of the study, or a file with its record.
        store: where it is.

    Raises:
        TuningError: there is no such study, or file.
    """
    return study_table(load_record(name, store))


def study_table(record: StudyRecord) -> "DataFrame":
    """The trials of a record, one a row; the columns are those of `COLUMNS` and those that its trials add."""
    import pandas

    rows = [_row(record, arm, arm.arm, trial, "tuning") for arm in record.arms for trial in arm.trials]
    rows += [
        _row(record, arm, finalist.arm, trial, "seeds")
        for arm in record.arms
        for finalist in arm.finalists
        for trial in finalist.trials
    ]
    found = dict.fromkeys(key for row in rows for key in row)
    more = sorted((key for key in found if key not in COLUMNS), key=_group)
    columns = {key: [row.get(key) for row in rows] for key in (*COLUMNS, *more)}
    return pandas.DataFrame({key: _column(key, values) for key, values in columns.items()})


def write_table(table: "DataFrame", path: Path, kind: str) -> None:
    """Write a table to a file.

    Args:
        table: what to write.
        path: where to.
        kind: `csv`, `json` or `parquet`.

    Raises:
        TuningError: it cannot be written.
    """
    try:
        if kind == "parquet":
            table.to_parquet(path)
        else:
            path.write_text(table_text(table, kind))
    except OSError as error:
        raise TuningError(f"cannot write {path}: {error.strerror or error}") from error


def table_text(table: "DataFrame", kind: str) -> str:
    """A table as `csv`, or as `json`: a list of rows."""
    if kind == "csv":
        return table.to_csv(index=False)
    plain: Any = table.astype(object)
    rows = plain.where(table.notna(), None).to_dict("records")
    return json.dumps(rows, indent=1, allow_nan=False) + "\n"


def table_format(written: str | None, path: Path | None) -> str:
    """The format that a user means: the one that is named, or that of the file's name; csv where neither says.

    >>> table_format(None, Path("study.parquet")), table_format(None, None)
    ('parquet', 'csv')
    """
    wanted = written or (path.suffix.removeprefix(".") if path is not None else "csv")
    if wanted not in FORMATS:
        raise TuningError(f"{wanted!r} is not a format of a table: {hint(wanted, FORMATS)}")
    return wanted


def _row(record: StudyRecord, arm: ArmRecord, trained: Arm, trial: Trial, stage: str) -> dict[str, Any]:
    """A trial as a row; `trained` is what trained it: the arm, or a finalist, whose task has what was tuned of it."""
    tuned = {name.removeprefix(TASK) for each in arm.trials for name in each.arguments}
    own = {f"{TASK}{name}": value for name, value in asdict(cast(Any, trained.task)).items() if name in tuned}
    labels = {
        key if key in COLUMNS or key.startswith("task.") else f"label.{key}": value for key, value in arm.labels.items()
    }
    return {
        "study": record.name,
        "stage": stage,
        "score": arm.arm.score.name,
        **labels,
        **own,
        **trial.row(),
        **{f"hyperparameter.{name}": value for name, value in trial.hyperparameters.by_name().items()},
    }


def _group(key: str) -> int:
    return next(place for place, group in enumerate(_GROUPS) if key.startswith(group))


def _column(key: str, values: Sequence[Any]) -> "Series":
    """A column of one type, whatever happens to be in it; where there are several, texts."""
    import pandas

    kind = COLUMNS.get(key) or _declared(key) or _kind(values)
    if kind == "string":
        values = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pandas.Series(values, dtype=kind)


def _declared(key: str) -> str | None:
    """The type of a score or of a hyperparameter, also where no trial has one."""
    group, _, name = key.partition(".")
    if group in ("train", "validation", "test"):
        return "float64"
    if group != "hyperparameter":
        return None
    hint = (get_type_hints(Hyperparameters) | get_type_hints(Initialisation))[name]
    return next((_KINDS[kind] for kind in (hint, *get_args(hint)) if kind in _KINDS), None)


_KINDS = {bool: "boolean", int: "Int64", float: "float64", str: "string"}


def _kind(values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return "float64"
    return _KINDS.get(kinds.pop(), "string") if len(kinds) == 1 else "string"
