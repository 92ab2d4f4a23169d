"""The progress of studies: results so far, active workers, time left."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rnnlab.errors import RnnlabError
from rnnlab.studies.repeats import repeats_name
from rnnlab.studies.specification import SEEDS
from rnnlab.studies.stored import is_there, opened, read_spec
from rnnlab.training.progress import duration
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.lots import Lot, Lots
from rnnlab.tuning.standing import ArmStanding, arm_standing, standing
from rnnlab.tuning.store import DEFAULT, Store
from rnnlab.tuning.trials import Trial, Trials
from rnnlab.tuning.tune import best_trials


@dataclass(frozen=True)
class WorkerStanding:
    """A worker that has trials of a study.

    Args:
        name: machine, process, and a word that distinguishes it from others.
        arm: what it trains.
        num_trials: how many at once.
        silent_seconds: how many seconds ago it last reported that it is alive.
    """

    name: str
    arm: str
    num_trials: int
    silent_seconds: float


@dataclass(frozen=True, kw_only=True)
class StudyStatus:
    """The progress of a study.

    Args:
        name: the name of the study.
        store: where it is.
        arms: the progress of tuning, arm by arm.
        seeds: the progress of the runs over seeds, the best setting of each arm first; empty before tuning is complete,
            or if there are no such runs.
        num_seeds: how many seeds are planned.
        num_finalists: how many settings, of all arms together, are trained over these seeds.
        workers: the workers that are alive.
        lost: workers that have been silent for longer than their grace; others take over their trials.
        seconds_left: an estimate from the trials that have ended; None before the first has, 0 once all have.
    """

    name: str
    store: str
    arms: tuple[ArmStanding, ...]
    seeds: tuple[ArmStanding, ...]
    num_seeds: int
    num_finalists: int
    workers: tuple[WorkerStanding, ...]
    lost: tuple[WorkerStanding, ...]
    seconds_left: float | None

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do."""
        return _is_done(self.arms) and _is_done(self.seeds) and len(self.seeds) >= self.num_finalists

    def __str__(self) -> str:
        lines = [f"study {self.name} in {self.store}: {self._state()}", *_table(self.arms, "trials")]
        if self.seeds:
            lines += ["", "best settings over seeds:", *_table(self.seeds, "seeds")]
        lines += [f"worker {each.name}: {each.num_trials} trials of {each.arm}" for each in self.workers]
        lines += [f"lost worker {each.name}: silent for {duration(each.silent_seconds)}" for each in self.lost]
        return "\n".join(lines)

    def _state(self) -> str:
        if self.is_complete:
            return "complete"
        everything = (*self.arms, *self.seeds)
        done, budget = (sum(getattr(arm, name) for arm in everything) for name in ("num_ended", "budget"))
        left = "" if self.seconds_left is None else f", about {duration(self.seconds_left)} left"
        num = len(self.workers)
        who = f"{num} worker{'' if num == 1 else 's'} active" if num else "no worker active"
        return f"{done} of {budget} trials{left}, {who}"

    def to_json(self) -> dict[str, Any]:
        """All values."""
        return asdict(self) | {"is_complete": self.is_complete}


@dataclass(frozen=True)
class StudyEntry:
    """A study in a store.

    Args:
        name: of the study.
        title: what it is about.
        num_arms: how many arms it has.
        num_ended, num_trials: how many trials have ended, of how many, those over seeds included once they are decided.
        is_complete: whether nothing is left to do.
        problem: why only its name is known, if it cannot be read.
    """

    name: str
    title: str
    num_arms: int
    num_ended: int
    num_trials: int
    is_complete: bool
    problem: str | None = None


def study_status(name: str, store: Store | str | Path = DEFAULT) -> StudyStatus:
    """The progress of a study.

    Args:
        name: the name of the study.
        store: where it is.

    Raises:
        TuningError: there is no such study, or the store cannot be used.
    """
    with opened(store) as place:
        return _status(name, place)


def list_studies(store: Store | str | Path = DEFAULT) -> tuple[StudyEntry, ...]:
    """The studies in a store, by name; none if the store does not exist yet."""
    if not isinstance(store, Store) and not is_there(store):
        return ()
    with opened(store) as place:
        names = place.study_names()
        return tuple(_entry(name, place) for name in names if not _is_second(name, names))


def _is_second(name: str, names: Sequence[str]) -> bool:
    return name.endswith(SEEDS) and name.removesuffix(SEEDS) in names


def _entry(name: str, store: Store) -> StudyEntry:
    try:
        status, stored = _status(name, store), read_spec(store, name)
    except RnnlabError as error:
        problem = str(error).removeprefix(f"study {name!r} cannot be read: ")
        return StudyEntry(name, "", 0, 0, 0, is_complete=False, problem=problem)
    everything = (*status.arms, *status.seeds)
    return StudyEntry(
        name,
        stored.spec.title if stored else "",
        len(status.arms),
        sum(arm.num_ended for arm in everything),
        sum(arm.budget for arm in everything),
        status.is_complete,
    )


def _status(name: str, store: Store) -> StudyStatus:
    second = repeats_name(name)
    tuned = [(arm, Trials(store, name, arm).all()) for arm in store.arms(name)]
    arms = tuple(arm_standing(arm, trials) for arm, trials in tuned)
    seeds = standing(store, second) if second in store.study_names() else ()
    stored, now = read_spec(store, name), store.time()
    lots = {study: Lots(store, study).all() for study in ((name, second) if seeds else (name,))}
    owned = [lot for found in lots.values() for lot in found if lot.owner is not None]
    alive = tuple(_worker(lot, now) for lot in owned if now - lot.heartbeat <= lot.grace)
    num_seeds = stored.spec.seeds if stored else 0
    wanted = stored.spec.finalists if stored and num_seeds else 0
    num_finalists = sum(_num_finalists(arm, trials, wanted) for arm, trials in tuned)
    left = _seconds_left(arms, lots[name], now)
    if seeds:
        left = _added(left, _seconds_left(seeds, lots[second], now))
    if left is not None:
        left += _seconds_a_trial(lots[name]) * num_seeds * max(0, num_finalists - len(seeds))
    return StudyStatus(
        name=name,
        store=store.place,
        arms=arms,
        seeds=seeds,
        num_seeds=num_seeds,
        num_finalists=num_finalists,
        workers=alive,
        lost=tuple(_worker(lot, now) for lot in owned if now - lot.heartbeat > lot.grace),
        seconds_left=None if left is None else left / max(1, len(alive)),
    )


def _worker(lot: Lot, now: float) -> WorkerStanding:
    return WorkerStanding(lot.owner or "", lot.arm, len(lot.points), max(0.0, now - lot.heartbeat))


def _num_finalists(arm: Arm, trials: Sequence[Trial], wanted: int) -> int:
    """How many settings of an arm are trained over seeds, as far as can be known before its tuning is complete."""
    if sum(trial.has_ended for trial in trials) < arm.num_trials:
        return min(wanted, arm.num_trials)
    return len(best_trials(trials, wanted, is_maximised=arm.is_maximised))


def _is_done(arms: Sequence[ArmStanding]) -> bool:
    return all(arm.num_ended >= arm.budget for arm in arms)


def _seconds_a_trial(lots: Sequence[Lot]) -> float:
    """How long one worker had to work for a trial, on average over finished lots; 0 where there are none."""
    finished = [lot for lot in lots if lot.is_finished]
    return sum(lot.seconds for lot in finished) / max(1, sum(len(lot.points) for lot in finished))


def _seconds_left(arms: Sequence[ArmStanding], lots: Sequence[Lot], now: float) -> float | None:
    """How long one worker would have to work on, with each arm's own seconds a trial where they are known."""
    if _is_done(arms):
        return 0.0
    if not any(lot.is_finished for lot in lots):
        return None
    seconds = 0.0
    for arm in arms:
        own = [lot for lot in lots if lot.arm == arm.arm]
        each = _seconds_a_trial(own if any(lot.is_finished for lot in own) else lots)
        under_way = sum(lot.seconds + now - lot.claimed for lot in own if not lot.is_finished and lot.owner is not None)
        seconds += max(0.0, each * max(0, arm.budget - arm.num_ended) - under_way)
    return seconds


def _added(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _table(arms: Sequence[ArmStanding], unit: str) -> list[str]:
    """A line for each arm, under headings."""
    rows = [("arm", unit, "infeasible", "best")]
    for arm in arms:
        best = "" if arm.best is None else f"{arm.score} {arm.best:.6g}"
        rows.append((arm.arm, f"{arm.num_ended} of {arm.budget}", str(arm.num_infeasible or ""), best))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
