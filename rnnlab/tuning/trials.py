"""Trials: what is written down of each in Optuna's tables, and how it is read back.

A trial is made in one go, running, with its point and all that is known before training. At its end come scores,
outcome, learning curve and circumstances, and then its state: `complete`, with the watched validation score as value,
or `infeasible` (C72), which is `PRUNED` to Optuna, without a value. Optuna numbers trials in the order in which workers
make them; the number that counts is the place in the arm, `number`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState, create_trial

from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.training.run import Member
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.binding import Setting
from rnnlab.tuning.lots import Lot
from rnnlab.tuning.observations import Observation
from rnnlab.tuning.space import Point
from rnnlab.tuning.store import Store

STATES = {TrialState.RUNNING: "running", TrialState.COMPLETE: "complete", TrialState.PRUNED: "infeasible"}
"""What Optuna's states mean; a trial of another state is none of ours, or was made twice."""

MOST_INTERMEDIATE = 20  # each is a transaction of its own; the whole curve is in the record


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One point and what came of it.

    Args:
        arm, number: which trial.
        state: `running`, `complete` or `infeasible`.
        point: what was suggested.
        hyperparameters: all of them.
        arguments: those of the task that the point decided.
        seed: of the initial numbers.
        num_parameters: of the network.
        value: the watched score on validation; None unless complete.
        scores: by split (`train`, `validation`, `test`) and name, with the numbers that were best on validation.
        outcome: how training ended, as in `Member`; None while it runs.
        reason: why it is infeasible.
        num_steps: how many steps it was trained, or the step that diverged.
        best_step: after how many steps it was best on validation.
        wall_seconds: how long its population was trained, the time of lost and interrupted workers included.
        population: how many members were trained together.
        run: engine path, device, precision, versions, worker, how often its worker was lost.
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
        plain = ("arm", "number", "state", "value", "outcome", "reason", "num_steps", "best_step", "wall_seconds")
        return {
            **{name: getattr(self, name) for name in (*plain, "population", "seed", "num_parameters")},
            **{f"point.{name}": value for name, value in self.point.items()},
            **{f"task.{name}": value for name, value in self.arguments.items()},
            **{f"{split}.{name}": value for split, scores in self.scores.items() for name, value in scores.items()},
            **{f"run.{name}": value for name, value in self.run.items()},
        }


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a trial's end is written down with.

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
        """Make the trials of a lot, those that are not there."""
        known = self._frozen() if lot.generation else {}
        for number, point, setting in zip(lot.numbers, lot.points, settings, strict=True):
            if number not in known:
                with self._store.errors():
                    self._store.optuna.create_new_trial(self._study_id, self._template(lot, number, point, setting))

    def restore(self, lot: Lot, trials: Sequence[Trial]) -> None:
        """Write down the trials of a lot as they were in another store; those that have not ended, as running."""
        for trial in trials:
            setting = Setting(trial.hyperparameters, trial.arguments)
            made = self._template(lot, trial.number, trial.point, setting, trial if trial.has_ended else None)
            with self._store.errors():
                self._store.optuna.create_new_trial(self._study_id, made)

    def ended(self, lot: Lot) -> dict[int, Trial]:
        """Those trials of a lot that have a result, by number."""
        return {trial.number: trial for trial in self.all() if trial.number in lot.numbers and trial.has_ended}

    def record(self, outcomes: Mapping[int, Outcome]) -> None:
        """Write down the ends of trials by their numbers; one that has ended already is left as it is."""
        trials = self._all_frozen()
        known = self._frozen(trials)
        for number, outcome in outcomes.items():
            self._end(known[number], lambda trial_id, outcome=outcome: self._write(trial_id, outcome))
        for trial in trials:
            number = trial.user_attrs["number"]
            if number in outcomes and trial.number != known[number].number:
                self._end(trial, lambda trial_id: self._store.optuna.set_trial_state_values(trial_id, TrialState.FAIL))

    def _end(self, trial: FrozenTrial, write: Callable[[int], object]) -> None:
        storage = self._store.optuna
        with self._store.errors(), suppress(UpdateFinishedTrialError):
            write(storage.get_trial_id_from_study_id_trial_number(self._study_id, trial.number))

    def observations(self, lots: Sequence[Lot]) -> list[Observation]:
        """What is known of all points that were given out, in order, to be minimised."""
        known = {trial.number: trial for trial in self.all()}
        sign = -1.0 if self._arm.is_maximised else 1.0
        found: list[Observation] = []
        for lot in lots:
            for number, point in zip(lot.numbers, lot.points, strict=True):
                trial = known.get(number)
                if trial is None or not trial.has_ended:
                    found.append(Observation(point, state="pending"))
                elif trial.value is None:
                    found.append(Observation(point, state="infeasible"))
                else:
                    found.append(Observation(point, sign * trial.value))
        return found

    def _all_frozen(self) -> list[FrozenTrial]:
        with self._store.errors():
            return self._store.optuna.get_all_trials(self._study_id, deepcopy=False, states=tuple(STATES))

    def _frozen(self, trials: Sequence[FrozenTrial] | None = None) -> dict[int, FrozenTrial]:
        """Optuna's trials by our numbers. Of two with one number the earlier counts: a worker that was believed dead
        may have made the other one."""
        found: dict[int, FrozenTrial] = {}
        for trial in self._all_frozen() if trials is None else trials:
            found.setdefault(trial.user_attrs["number"], trial)
        return found

    def _template(
        self, lot: Lot, number: int, point: Point, setting: Setting, ended: Trial | None = None
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
        end: dict[str, Any] = {"state": TrialState.RUNNING} if ended is None else self._end_of(ended)
        return create_trial(
            params=dict(point),
            distributions={name: distributions[name] for name in point},
            user_attrs=attributes | end.pop("user_attrs", {}),
            **end,
        )

    def _end_of(self, trial: Trial) -> dict[str, Any]:
        """What `_write` writes, of a trial that was read."""
        attributes = {
            "scores": {split: dict(scores) for split, scores in trial.scores.items()},
            "result": {name: getattr(trial, name) for name in _RESULT},
            "run": dict(trial.run),
            "curve": dict(trial.curve),
        }
        if trial.state == "infeasible":
            return {"state": TrialState.PRUNED, "user_attrs": attributes}
        scores = [math.nan if value is None else value for value in trial.curve["scores"][self._arm.score.name]]
        return {
            "state": TrialState.COMPLETE,
            "value": trial.value,
            "intermediate_values": dict(_thinned(trial.curve["steps"], scores)),
            "user_attrs": attributes,
        }

    def _write(self, trial_id: int, outcome: Outcome) -> None:
        """Everything, and the state last: a trial that has a state has a whole record."""
        optuna, member, score = self._store.optuna, outcome.member, self._arm.score.name
        reason = why_infeasible(member, score)
        for key, value in _attributes(outcome, reason).items():
            optuna.set_trial_user_attr(trial_id, key, value)
        if reason is not None:
            optuna.set_trial_state_values(trial_id, TrialState.PRUNED)
            return
        for step, value in _thinned(member.curve.steps, member.curve.scores[score]):
            optuna.set_trial_intermediate_value(trial_id, step, value)
        optuna.set_trial_state_values(trial_id, TrialState.COMPLETE, [member.validation[score]])

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


_RESULT = ("outcome", "reason", "num_steps", "best_step", "wall_seconds", "population")


def why_infeasible(member: Member, score: str) -> str | None:
    """Why a member has no value to tune for; None if it has one."""
    if not member.is_feasible:
        return member.reason
    value = member.validation.get(score)
    if value is None:
        return f"its {score} on validation was never a number"
    return None if math.isfinite(value) else f"its {score} on validation is infinite"


def _attributes(outcome: Outcome, reason: str | None) -> dict[str, Any]:
    member = outcome.member
    scores = {"train": outcome.training, "validation": member.validation, "test": member.test}
    values = (member.outcome, reason, member.num_steps, member.best_step, outcome.wall_seconds, outcome.population)
    found = {
        "scores": {split: dict(found) for split, found in scores.items()},
        "result": dict(zip(_RESULT, values, strict=True)),
        "run": dict(outcome.run),
        "curve": asdict(member.curve),
    }
    return {name: _finite(value) for name, value in found.items()}


def _finite(value: Any) -> Any:
    """A JSON value with None for every number that JSON does not have."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _thinned(steps: Sequence[int], values: Sequence[float]) -> list[tuple[int, float]]:
    """Some of the values, evenly, the last among them; none that is no number.

    >>> _thinned(range(100), range(100))[-2:]
    [(94, 94), (99, 99)]
    """
    every = math.ceil(len(steps) / MOST_INTERMEDIATE)
    pairs = list(zip(steps, values, strict=True))[::-1][:: every or 1][::-1]
    return [(step, value) for step, value in pairs if math.isfinite(value)]
