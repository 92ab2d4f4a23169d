"""Trials: what is stored about each in Optuna's tables, and how it is read back.

A trial is made running, with its point and all that is known before training. At its end come, at once, scores,
outcome, learning curve, circumstances and its state: `complete`, with the watched validation score as value,
or `infeasible` (C72), which is `PRUNED` to Optuna, without a value. Optuna numbers trials in the order in which workers
make them; the number that counts is the place in the arm, `number`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optuna.trial import FrozenTrial, TrialState, create_trial

from rnnlab.errors import TuningError
from rnnlab.json_values import json_value
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.training.run import Member
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.binding import Setting
from rnnlab.tuning.lots import Lot
from rnnlab.tuning.observations import Observation
from rnnlab.tuning.optuna_tables import TrialRow, add_trials, end_trials, read_rows
from rnnlab.tuning.space import Point
from rnnlab.tuning.store import Store

STATES = {TrialState.RUNNING: "running", TrialState.COMPLETE: "complete", TrialState.PRUNED: "infeasible"}
"""What Optuna's states mean; a trial of another state is none of ours, or was made twice."""

MOST_INTERMEDIATE = 20  # enough for plots; the whole curve is in the record

_RESULT = ("outcome", "reason", "num_steps", "best_step", "wall_seconds", "population")

PLAIN = ("number", "state", "value", *_RESULT, "seed", "num_parameters")
"""The fields of a trial that are one value each, without its arm."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One point of a search space, and the result of training with it.

    Args:
        arm, number: which trial.
        state: `running`, `complete` or `infeasible`.
        point: the point that was suggested.
        hyperparameters: all hyperparameters, tuned or not.
        arguments: the task's arguments that the point decided.
        seed: the seed of the initial weights.
        num_parameters: the number of parameters of the network.
        value: the watched score on validation; None unless complete.
        scores: by split (`train`, `validation`, `test`) and name, with the parameters that were best on validation.
        outcome: how training ended, as in `Member`; None while it runs.
        reason: why it is infeasible, if it is.
        num_steps: how many steps it was trained, or the step that diverged.
        best_step: after how many steps it was best on validation.
        wall_seconds: how long its population was trained, including time on lost and interrupted workers.
        population: how many members were trained together.
        run: engine path, device, precision, versions, worker, and how often its worker was lost.
        curve: steps, scores on validation and training losses over time.
    """

    arm: str
    number: int
    state: str
    point: Point
    hyperparameters: Hyperparameters
    arguments: Mapping[str, Any]
    seed: int
    num_parameters: int
    value: float | None
    scores: Mapping[str, Mapping[str, float]]
    outcome: str | None
    reason: str | None
    num_steps: int | None
    best_step: int | None
    wall_seconds: float | None
    population: int | None
    run: Mapping[str, Any]
    curve: Mapping[str, Any]

    @property
    def has_ended(self) -> bool:
        """Whether it has a result."""
        return self.state != "running"

    def row(self) -> dict[str, Any]:
        """Everything but the curve as one flat row of a table: `point.NAME`, `validation.SCORE`, `run.path`."""
        return {
            **{name: getattr(self, name) for name in ("arm", *PLAIN)},
            **{f"point.{name}": value for name, value in self.point.items()},
            **{f"task.{name}": value for name, value in self.arguments.items()},
            **{f"{split}.{name}": value for split, scores in self.scores.items() for name, value in scores.items()},
            **{f"run.{name}": value for name, value in self.run.items()},
        }


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What is recorded about the end of a trial.

    Args:
        member: how it fared.
        training: its scores on the training split.
        wall_seconds, population, run: as in `Trial`.
    """

    member: Member
    training: Mapping[str, float]
    wall_seconds: float
    population: int
    run: Mapping[str, Any]


class Trials:
    """The trials of an arm in the store.

    Args:
        store: where they are.
        study: of which study.
        arm: which arm.
    """

    def __init__(self, store: Store, study: str, arm: Arm) -> None:
        self._store, self._arm = store, arm
        self._study_id = store.study_id(study, arm.name)

    def all(self) -> list[Trial]:
        """Every trial, by number."""
        return [self._trial(frozen) for _, frozen in sorted(self._frozen().items())]

    def make(self, lot: Lot, settings: Sequence[Setting]) -> None:
        """Make those trials of a lot that do not exist yet; all of them, or none."""
        known = self._rows() if lot.generation else {}
        templates = [
            self._template(lot, number, point, setting)
            for number, point, setting in zip(lot.numbers, lot.points, settings, strict=True)
            if number not in known
        ]
        with self._store.session() as session:
            add_trials(session, self._study_id, templates)

    def restore(self, lot: Lot, trials: Sequence[Trial]) -> None:
        """Store the trials of a lot as they were in another store; those that have not ended, as running."""
        templates = [
            self._template(
                lot,
                trial.number,
                trial.point,
                Setting(trial.hyperparameters, trial.arguments),
                self._end_of(trial) if trial.has_ended else None,
            )
            for trial in trials
        ]
        with self._store.session() as session:
            add_trials(session, self._study_id, templates)

    def num_ended(self) -> int:
        """How many trials have a result."""
        return sum(row.state != TrialState.RUNNING for row in self._rows().values())

    def ended(self, lot: Lot) -> dict[int, Trial]:
        """Those trials of a lot that have a result, by number."""
        return {trial.number: trial for trial in self.all() if trial.number in lot.numbers and trial.has_ended}

    def record(self, outcomes: Mapping[int, Outcome]) -> None:
        """Record the ends of trials by their numbers, all or none; a trial that has already ended is left as it is."""
        rows = self._all_rows()
        first = {row.attribute: row.trial_id for row in reversed(rows)}
        if missing := sorted(outcomes.keys() - first.keys()):
            raise TuningError(
                f"{self._arm.name}: trials {missing} are no longer in the store; run again to train them anew"
            )
        ends = {
            row.trial_id: self._end(outcomes[row.attribute]) if row.trial_id == first[row.attribute] else _FAILED
            for row in rows
            if row.attribute in outcomes
        }
        with self._store.session() as session:
            end_trials(session, ends)

    def observations(self, lots: Sequence[Lot]) -> list[Observation]:
        """The observations of all points that were given out, in order, with values to be minimised."""
        known = self._rows()
        sign = -1.0 if self._arm.is_maximised else 1.0
        found: list[Observation] = []
        for lot in lots:
            for number, point in zip(lot.numbers, lot.points, strict=True):
                row = known.get(number)
                if row is None or row.state == TrialState.RUNNING:
                    found.append(Observation(point, state="pending"))
                elif row.value is None:
                    found.append(Observation(point, state="infeasible"))
                else:
                    found.append(Observation(point, sign * row.value))
        return found

    def _rows(self) -> dict[int, TrialRow]:
        """The rows of trials by number.

        Of two with the same number the earlier one counts: a worker that was believed dead may have made the other.
        """
        return {row.attribute: row for row in reversed(self._all_rows())}

    def _all_rows(self) -> list[TrialRow]:
        with self._store.session() as session:
            return [row for row in read_rows(session, self._study_id, "number") if row.state in STATES]

    def _frozen(self) -> dict[int, FrozenTrial]:
        """The same as Optuna has them."""
        with self._store.errors():
            every = self._store.optuna.get_all_trials(self._study_id, deepcopy=False, states=tuple(STATES))
        return {trial.user_attrs["number"]: trial for trial in reversed(every)}

    def _template(
        self, lot: Lot, number: int, point: Point, setting: Setting, end: FrozenTrial | None = None
    ) -> FrozenTrial:
        """A trial that begins, or that has ended elsewhere."""
        distributions = self._arm.space.distributions()
        attributes = {
            "number": number,
            "lot": lot.number,
            "seed": setting.hyperparameters.seed,
            "hyperparameters": setting.hyperparameters.to_json(),
            "arguments": dict(setting.arguments),
            "num_parameters": self._arm.architecture.num_parameters(),
        }
        return create_trial(
            params=dict(point),
            distributions={name: distributions[name] for name in point},
            user_attrs=attributes | (end.user_attrs if end else {}),
            state=end.state if end else TrialState.RUNNING,
            value=end.value if end else None,
            intermediate_values=end.intermediate_values if end else None,
        )

    def _end_of(self, trial: Trial) -> FrozenTrial:
        """The end of a trial that was read."""
        attributes = {
            "scores": {split: dict(scores) for split, scores in trial.scores.items()},
            "result": {name: getattr(trial, name) for name in _RESULT},
            "run": dict(trial.run),
            "curve": dict(trial.curve),
        }
        scores = trial.curve["scores"].get(self._arm.score.name, ())
        values = [math.nan if value is None else value for value in scores]
        return _ended(attributes, trial.value, trial.curve["steps"], values)

    def _end(self, outcome: Outcome) -> FrozenTrial:
        """The end of a trial that was trained."""
        member, score = outcome.member, self._arm.score.name
        reason = why_infeasible(member, score)
        value = member.validation[score] if reason is None else None
        return _ended(_attributes(outcome, reason), value, member.curve.steps, member.curve.scores.get(score, ()))

    def _trial(self, frozen: FrozenTrial) -> Trial:
        found = frozen.user_attrs
        result = found.get("result", {}) if frozen.state != TrialState.RUNNING else {}
        has_value = frozen.state == TrialState.COMPLETE
        return Trial(
            arm=self._arm.name,
            number=found["number"],
            state=STATES[frozen.state],
            point={each.name: frozen.params[each.name] for each in self._arm.space if each.name in frozen.params},
            hyperparameters=Hyperparameters.from_json(found["hyperparameters"]),
            arguments=found["arguments"],
            seed=found["seed"],
            num_parameters=found["num_parameters"],
            value=frozen.value if has_value else None,
            scores=found.get("scores", {}) if result else {},
            **{name: result.get(name) for name in _RESULT},
            run=found.get("run", {}) if result else {},
            curve=found.get("curve", {}) if result else {},
        )


_FAILED = create_trial(state=TrialState.FAIL)


def why_infeasible(member: Member, score: str) -> str | None:
    """Why a member has no value to tune for; None if it has one."""
    if not member.is_feasible:
        return member.reason
    value = member.validation.get(score)
    if value is None:
        return f"its {score} on validation was never a number"
    return None if math.isfinite(value) else f"its {score} on validation is infinite"


def _ended(
    attributes: dict[str, Any], value: float | None, steps: Sequence[int], scores: Sequence[float]
) -> FrozenTrial:
    """A template of an end; without a value it is infeasible."""
    if value is None:
        return create_trial(state=TrialState.PRUNED, user_attrs=attributes)
    thinned = dict(_thinned(steps, scores))
    return create_trial(state=TrialState.COMPLETE, value=value, intermediate_values=thinned, user_attrs=attributes)


def _attributes(outcome: Outcome, reason: str | None) -> dict[str, Any]:
    member = outcome.member
    scores = {"train": outcome.training, "validation": member.validation, "test": member.test}
    values = (member.outcome, reason, member.num_steps, member.best_step, outcome.wall_seconds, outcome.population)
    return json_value(
        {
            "scores": scores,
            "result": dict(zip(_RESULT, values, strict=True)),
            "run": outcome.run,
            "curve": member.curve,
        }
    )


def _thinned(steps: Sequence[int], values: Sequence[float]) -> list[tuple[int, float]]:
    """Some of the values, evenly spaced and with the last one, less those that are not finite.

    >>> _thinned(range(100), range(100))[-2:]
    [(94, 94), (99, 99)]
    """
    every = math.ceil(len(steps) / MOST_INTERMEDIATE)
    pairs = list(zip(steps, values, strict=True))[::-1][:: every or 1][::-1]
    return [(step, value) for step, value in pairs if math.isfinite(value)]
