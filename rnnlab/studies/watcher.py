"""Events of a study, derived from its store: for work that is done elsewhere."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rnnlab.studies.repeats import repeats_name
from rnnlab.tuning.events import TrialEnded, TuningEvent, WorkEnded, WorkStarted
from rnnlab.tuning.store import Store
from rnnlab.tuning.trials import Trials

LEAST_SECONDS = 1.0
SHARE_OF_TIME = 0.1  # that looking may take: a large study is looked at less often


@dataclass
class _Stage:
    """What was seen of a study, or of its best settings over seeds."""

    started: float
    budgets: dict[str, int]
    seen: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    is_over: bool = False

    @property
    def num_ended(self) -> int:
        return sum(len(numbers) for numbers in self.seen.values())

    @property
    def is_complete(self) -> bool:
        return self.num_ended >= sum(self.budgets.values())


class Watcher:
    """Reports events as a worker would, from what is in the store.

    Args:
        store: where the study is.
        study: its name.
        worker: the name of the worker to report.
        report: called with everything that happened.
    """

    def __init__(
        self, store: Store, study: str, worker: str, report: Callable[[TuningEvent], None] | None = None
    ) -> None:
        self._store, self._worker, self._report = store, worker, report
        self._names = (study, repeats_name(study))
        self._stages: dict[str, _Stage] = {}

    def look(self) -> float:
        """Report what is new; returns in how many seconds to look again."""
        if self._report is None:
            return LEAST_SECONDS
        started, known = time.perf_counter(), self._store.study_names()
        for name in self._names:
            if name in known:
                self._look_at(name, self._report)
        return max(LEAST_SECONDS, (time.perf_counter() - started) / SHARE_OF_TIME)

    def finish(self) -> None:
        """Report that whatever is not complete was stopped."""
        for name, stage in self._stages.items():
            self._tell_end(name, stage)

    def _tell_end(self, name: str, stage: _Stage) -> None:
        if self._report is not None and not stage.is_over:
            stage.is_over, seconds = True, time.perf_counter() - stage.started
            self._report(
                WorkEnded(study=name, is_complete=stage.is_complete, num_trials=stage.num_ended, seconds=seconds)
            )

    def _look_at(self, name: str, report: Callable[[TuningEvent], None]) -> None:
        arms = self._store.arms(name)
        ended = {arm.name: [trial for trial in Trials(self._store, name, arm).all() if trial.has_ended] for arm in arms}
        budgets = {arm.name: arm.num_trials for arm in arms}
        if name not in self._stages or self._stages[name].budgets != budgets:  # more is trained over seeds than before
            stage = _Stage(time.perf_counter(), budgets)
            stage.seen = {arm: {trial.number for trial in trials} for arm, trials in ended.items()}
            self._stages[name] = stage
            counts = {arm: len(numbers) for arm, numbers in stage.seen.items()}
            place = self._store.place
            report(
                WorkStarted(
                    study=name, worker=self._worker, store=place, device=self._worker, budgets=budgets, ended=counts
                )
            )
        stage = self._stages[name]
        for arm, trials in ended.items():
            for trial in trials:
                if trial.number not in stage.seen[arm]:
                    stage.seen[arm].add(trial.number)
                    values: dict[str, Any] = {"state": trial.state, "value": trial.value, "reason": trial.reason}
                    report(TrialEnded(study=name, arm=arm, number=trial.number, **values))
        if stage.is_complete:
            self._tell_end(name, stage)
