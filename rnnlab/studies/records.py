"""Records: everything that came of a study, read from its store or from a file, for tables, statistics and reports."""

import gzip
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rnnlab.errors import RnnlabError, TuningError
from rnnlab.studies.curves import thinned
from rnnlab.studies.repeats import finalists_of, repeats_name
from rnnlab.studies.specification import StudySpec
from rnnlab.studies.stored import opened, read_spec
from rnnlab.tasks.task import Score
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.binding import bind
from rnnlab.tuning.sittings import Sitting, sittings
from rnnlab.tuning.store import DEFAULT, Store
from rnnlab.tuning.trials import PLAIN, Trial, Trials
from rnnlab.tuning.tune import best_trial, best_trials

VERSION = 1
MOST_POINTS = 200


@dataclass(frozen=True, kw_only=True)
class Finalist:
    """One of an arm's best settings, trained over seeds.

    Args:
        arm: the arm that trains it.
        trials: its runs by number; each has its own `seed`.
    """

    arm: Arm
    trials: tuple[Trial, ...]

    @property
    def is_complete(self) -> bool:
        """Whether the runs of all seeds have ended."""
        return _num_ended(self.trials) >= self.arm.num_trials

    @property
    def rank(self) -> tuple[int, float]:
        """The lower, the better: how many seeds diverged, then the mean of the others on validation."""
        values = [trial.value for trial in self.trials if trial.value is not None]
        mean = sum(values) / len(values) if values else 0.0
        return _num_ended(self.trials) - len(values), -mean if self.arm.is_maximised else mean


@dataclass(frozen=True, kw_only=True)
class ArmRecord:
    """The results of an arm.

    Args:
        arm: what was tuned.
        labels: its place in the study: `task`, `architecture`, `cell`, `depth`, `parameters`, ..., as far as the
            specification gives them.
        trials: the trials of tuning, by number.
        finalists: its best settings, the best of tuning first, which are trained over seeds; none before tuning is
            complete, or if no trial is.
    """

    arm: Arm
    labels: Mapping[str, Any]
    trials: tuple[Trial, ...]
    finalists: tuple[Finalist, ...] = ()

    @property
    def best(self) -> Trial | None:
        """The best trial of tuning, by its score on validation; None if no trial is complete."""
        return best_trial(self.trials, is_maximised=self.arm.is_maximised)

    @property
    def chosen(self) -> Trial | None:
        """The trial of tuning whose setting is the arm's result: that of `repeated`, or `best` if that is None."""
        place = 0 if self._winner is None else self.finalists.index(self._winner)
        return next(iter(self.best_trials(place + 1)[place:]), None)

    def best_trials(self, count: int) -> tuple[Trial, ...]:
        """The best trials of tuning at `count` different points, the best first; fewer if there are no more."""
        return best_trials(self.trials, count, is_maximised=self.arm.is_maximised)

    @property
    def _winner(self) -> Finalist | None:
        """The best of the finalists whose seeds have all ended; while none has, the first one."""
        ended = [each for each in self.finalists if each.is_complete]
        return min(ended, key=lambda each: each.rank) if ended else next(iter(self.finalists), None)

    @property
    def repeated(self) -> Arm | None:
        """The arm that trains the best finalist, judged by its scores on validation; None if there are no finalists."""
        return None if self._winner is None else self._winner.arm

    @property
    def repeats(self) -> tuple[Trial, ...]:
        """The trials of `repeated`, by number; each has its own `seed`."""
        return () if self._winner is None else self._winner.trials

    @property
    def trials_over_seeds(self) -> tuple[Trial, ...]:
        """The trials of all finalists."""
        return tuple(trial for each in self.finalists for trial in each.trials)

    @property
    def all_trials(self) -> tuple[Trial, ...]:
        """The trials of tuning and of all finalists."""
        return (*self.trials, *self.trials_over_seeds)

    @property
    def is_complete(self) -> bool:
        """Whether all its trials have ended, including those over seeds."""
        return _num_ended(self.trials) >= self.arm.num_trials and all(each.is_complete for each in self.finalists)

    def to_json(self, max_points: int = MOST_POINTS) -> dict[str, Any]:
        """All values, curves thinned to so many points; `from_json` makes the record again."""
        runs: list[Mapping[str, Any]] = []
        for trial in self.all_trials:
            if trial.run not in runs:
                runs.append(trial.run)
        return {
            "arm": self.arm.to_json(),
            "score": asdict(self.arm.score),
            "labels": dict(self.labels),
            "runs": [dict(run) for run in runs],
            "trials": [_trial_json(trial, runs, max_points) for trial in self.trials],
            "finalists": [
                {
                    "arm": each.arm.to_json(),
                    "trials": [_trial_json(trial, runs, max_points) for trial in each.trials],
                }
                for each in self.finalists
            ],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "ArmRecord":
        """What `to_json` gave."""
        runs, score = values["runs"], {"known_score": _score(values["score"])}
        arm = Arm.from_json(values["arm"] | score)
        again = [(Arm.from_json(each["arm"] | score), each["trials"]) for each in _finalists_json(values)]
        return cls(
            arm=arm,
            labels=values["labels"],
            trials=tuple(_trial(row, arm, runs) for row in values["trials"]),
            finalists=tuple(
                Finalist(arm=one, trials=tuple(_trial(row, one, runs) for row in rows)) for one, rows in again
            ),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class StudyRecord:
    """The results of a study.

    Args:
        name: the name of the study.
        store: where it is, or was.
        spec: its specification; None if it was made by `tune`.
        arms: the results of each arm.
        sittings: when workers worked on it, and for how long, including the runs over seeds.
    """

    name: str
    store: str
    spec: StudySpec | None
    arms: tuple[ArmRecord, ...]
    sittings: tuple[Sitting, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether all trials have ended, including those of the best settings over all seeds."""
        wanted = 0 if self.spec is None or not self.spec.seeds else self.spec.finalists
        return all(each.is_complete and len(each.finalists) >= len(each.best_trials(wanted)) for each in self.arms)

    def __repr__(self) -> str:
        arms = f"{len(self.arms)} arm{'s' if len(self.arms) > 1 else ''}"
        trials = sum(len(each.all_trials) for each in self.arms)
        left = "" if self.is_complete else ", unfinished"
        return f"<StudyRecord: {self.name}, {arms}, {trials} trials{left}>"

    def __str__(self) -> str:
        lines = [f"study {self.name}"]
        width = max(len(each.arm.name) for each in self.arms)
        for each in self.arms:
            lines.append(f"  {each.arm.name:<{width}}  {_summary(each)}")
        return "\n".join(lines)

    def to_json(self, max_points: int = MOST_POINTS) -> dict[str, Any]:
        """All values, curves thinned to so many points; `from_json` makes the record again."""
        return {
            "record": VERSION,
            "name": self.name,
            "store": self.store,
            "spec": None if self.spec is None else self.spec.to_json(),
            "sittings": [each.to_json() for each in self.sittings],
            "arms": [each.to_json(max_points) for each in self.arms],
        }

    @classmethod
    def from_json(cls, values: Any) -> "StudyRecord":
        """What `to_json` gave."""
        if not isinstance(values, Mapping) or "record" not in values:
            raise TuningError("it holds no record of a study")
        if values["record"] != VERSION:
            raise TuningError(f"it is a record of version {values['record']}, this rnnlab reads version {VERSION}")
        spec = None if values["spec"] is None else StudySpec.from_json(values["spec"])
        arms = tuple(ArmRecord.from_json(each) for each in values["arms"])
        found = tuple(Sitting(**each) for each in values["sittings"])
        return cls(name=values["name"], store=values["store"], spec=spec, arms=arms, sittings=found)

    def save(self, path: str | Path, *, max_points: int = MOST_POINTS) -> None:
        """Write a JSON file, whole or not at all; one whose name ends in .gz is compressed.

        Raises:
            TuningError: the file cannot be written, or its name has another ending, under which it could not be read
                again.
        """
        if not is_record_file(path):
            raise TuningError(f"a record is a .json or .json.gz file, got {path}")
        text = json.dumps(self.to_json(max_points), separators=(",", ":"), allow_nan=False) + "\n"
        content = gzip.compress(text.encode(), mtime=0) if Path(path).suffix == ".gz" else text.encode()
        partial = Path(f"{path}.partial")
        try:
            partial.write_bytes(content)
            os.replace(partial, path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise TuningError(f"cannot write {path}: {error.strerror}") from error


def load_record(name: str | Path, store: Store | str | Path = DEFAULT) -> StudyRecord:
    """All results of a study.

    Args:
        name: the name of the study, or a file that `StudyRecord.save` wrote (any name that ends in .json or .json.gz).
        store: where it is.

    Raises:
        TuningError: there is no such study, or file.
    """
    if is_record_file(name):
        return _from_file(Path(name))
    with opened(store) as place:
        return _from_store(str(name), place)


def is_record_file(name: str | Path) -> bool:
    """Whether that is the name of a file, not of a study."""
    return str(name).endswith((".json", ".json.gz"))


def _from_file(path: Path) -> StudyRecord:
    try:
        content = path.read_bytes()
        text = gzip.decompress(content) if path.suffix == ".gz" else content
        values = json.loads(text, parse_constant=_refuse_constant)
        return StudyRecord.from_json(_with_files_beside(values, path.parent))
    except (EOFError, zlib.error) as error:
        raise TuningError(f"cannot read a record from {path}: it is damaged or cut short") from error
    except KeyError as error:
        raise TuningError(f"cannot read a record from {path}: it lacks {error}") from error
    except (OSError, ValueError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise TuningError(f"cannot read a record from {path}: {reason}") from error


def _with_files_beside(values: Any, folder: Path) -> Any:
    """A record whose tasks' files, where they have gone, are taken from beside it."""
    if not isinstance(values, Mapping) or "arms" not in values:
        return values
    for row in values["arms"]:
        for arm in (row["arm"], *(each["arm"] for each in _finalists_json(row))):
            place = Path(arm["task"]["name"])
            if place.suffix == ".py" and not place.exists() and (folder / place.name).exists():
                arm["task"]["name"] = str(folder / place.name)
    return values


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"it has a {text}, which no record has")


def _from_store(name: str, store: Store) -> StudyRecord:
    arms, stored = store.arms(name), read_spec(store, name)
    there = {arm.name: arm for arm in _repeated(name, store)}
    found = tuple(
        ArmRecord(
            arm=arm,
            labels=stored.labels[arm.name] if stored else {"task": arm.task.name, "architecture": arm.name},
            trials=tuple(Trials(store, name, arm).all()),
            finalists=tuple(
                Finalist(arm=each, trials=tuple(Trials(store, repeats_name(name), each).all()))
                for each in finalists_of(arm, there)
            ),
        )
        for arm in arms
    )
    return StudyRecord(
        name=name,
        store=store.place,
        spec=stored.spec if stored else None,
        arms=found,
        sittings=sittings(store, name) + sittings(store, repeats_name(name)),
    )


def _repeated(name: str, store: Store) -> tuple[Arm, ...]:
    seeds = repeats_name(name)
    return store.arms(seeds) if seeds in store.study_names() else ()


def _finalists_json(values: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The finalists in a file; older files have one, under two keys."""
    if "finalists" in values:
        return values["finalists"]
    return [] if values["repeated"] is None else [{"arm": values["repeated"], "trials": values["repeats"]}]


def _score(values: Mapping[str, Any]) -> Score:
    """A score as JSON gives it back: with lists for tuples."""
    found: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in values.items()}
    return Score(**found)


def _num_ended(trials: Sequence[Trial]) -> int:
    return sum(trial.has_ended for trial in trials)


def _trial_json(trial: Trial, runs: Sequence[Mapping[str, Any]], max_points: int) -> dict[str, Any]:
    """A trial without what follows from its arm and its point."""
    return {
        **{name: getattr(trial, name) for name in PLAIN},
        "point": dict(trial.point),
        "scores": {split: dict(scores) for split, scores in trial.scores.items()},
        "run": runs.index(trial.run),
        "curve": thinned(trial.curve, max_points),
    }


def _trial(row: Mapping[str, Any], arm: Arm, runs: Sequence[Mapping[str, Any]]) -> Trial:
    if row["state"] == "complete" and (isinstance(row["value"], bool) or not isinstance(row["value"], int | float)):
        raise TuningError(f"trial {row['number']} of {arm.name} has no value but {row['value']!r}")
    try:
        arm.space.check(row["point"])
        setting = bind(row["point"], arm.hyperparameters, arm.architecture, arm.task)
    except RnnlabError as error:
        raise TuningError(f"trial {row['number']} of {arm.name} is not of its space: {error}") from error
    return Trial(
        arm=arm.name,
        hyperparameters=setting.hyperparameters,
        arguments=setting.arguments,
        **{name: row[name] for name in (*PLAIN, "point", "scores", "curve")},
        run=runs[row["run"]],
    )


def _summary(record: ArmRecord) -> str:
    """How an arm stands, in a few words."""
    states = [trial.state for trial in record.trials]
    parts = [f"{_num_ended(record.trials)} of {record.arm.num_trials} trials"]
    if num_infeasible := states.count("infeasible"):
        parts.append(f"{num_infeasible} infeasible")
    if record.best is not None:
        parts.append(f"best {record.arm.score.name} {record.best.value:.6g}")
    if record.finalists:
        budget = sum(each.arm.num_trials for each in record.finalists)
        settings = f" of {len(record.finalists)} settings" if len(record.finalists) > 1 else ""
        parts.append(f"{_num_ended(record.trials_over_seeds)} of {budget} seeds{settings}")
        parts += _result(record)
    return ", ".join(parts)


def _result(record: ArmRecord) -> list[str]:
    """What came of the best setting on test data, once all its seeds have ended."""
    name = record.arm.score.name
    scores = [trial.scores.get("test", {}).get(name) for trial in record.repeats if trial.state == "complete"]
    found = [score for score in scores if score is not None]
    if not found or not all(trial.has_ended for trial in record.repeats):
        return []
    return [f"mean {sum(found) / len(found):.6g} on test data"]
