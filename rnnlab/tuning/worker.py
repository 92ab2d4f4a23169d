"""A worker: takes trials of a study, trains them as populations, records them; until none is left.

    while there is something to do:
        go on with a lot that was handed back or whose worker was lost     (`lots.py`)
        or claim a new one, of the arm that is furthest behind its budget  (`offers.py`; suggestions: `samplers.py`)
        train it, saving checkpoints and saying all the time that it is alive
        record its trials

A lot that leaves room on a GPU, because its arm has few trials, is trained side by side with others. A GPU that is full
is given as many networks again, of other arms: while some wait for memory, others compute.

Any number of workers may work on a study, in processes or machines of their own. They know nothing of each other but
what is in the store.
"""

import itertools
import os
import platform
import time
import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch

from rnnlab.engine.gpu.sharing import share_of_gpu
from rnnlab.errors import CheckpointError, TuningError
from rnnlab.integers import keep_integers
from rnnlab.training.events import Event, Started
from rnnlab.training.loop import own_stream, training
from rnnlab.training.pace import Pace
from rnnlab.training.room import is_out_of_memory
from rnnlab.training.run import Run
from rnnlab.training.words import usable_device
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.binding import Setting, bind, split, task_of
from rnnlab.tuning.checkpoints import (
    checkpoint_root,
    has_checkpoint,
    lot_folder,
    population_folder,
    remove_folder,
    study_folder,
)
from rnnlab.tuning.events import (
    LotClaimed,
    LotFinished,
    LotHandedBack,
    LotLost,
    LotTakenOver,
    Trained,
    TrialEnded,
    TuningEvent,
    Waiting,
    WorkEnded,
    WorkStarted,
)
from rnnlab.tuning.heart import Heart
from rnnlab.tuning.lots import GRACE, Lot, Lots
from rnnlab.tuning.offers import Offer, offers
from rnnlab.tuning.populations import chunks, device_capacity, memory_capacity, population_size
from rnnlab.tuning.samplers import AbstractSampler
from rnnlab.tuning.scoring import training_scores
from rnnlab.tuning.sittings import Sitting, write_sitting
from rnnlab.tuning.space import Point
from rnnlab.tuning.store import Store
from rnnlab.tuning.trials import Outcome, Trials, why_infeasible
from rnnlab.version import VERSION

SAVE_EVERY = timedelta(seconds=30)  # by default: small networks train no longer than it takes to save them a few times
MOST_GRACE = 10_000_000  # seconds, a third of a year
BEATS = 6  # heartbeats within the grace: some may be late when the store is busy
# how many times over a GPU is filled; 33 tiny networks took 0.59 ms a step among 132, 0.45 among 264, 0.51 among 528
CROWD = 2
AHEAD = 100  # steps of every lot that are queued on a GPU while the next points of an arm are looked for

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""Something that is done step by step."""

_ENDED = object()


@dataclass(frozen=True, kw_only=True)
class Work:
    """How a worker works.

    Args:
        device: where it trains.
        population: how many networks at once; by default as many as suits the device.
        checkpoints: where populations are saved; by default beside a SQLite file, or in the current folder.
        save_every: after how many steps they are; by default every half a minute, or more rarely where that would take
            about a twentieth of the time.
        report: called with everything that happens (`events.py`).
        report_every: after how many steps training says how it stands.
        stop: asked before every lot and after every step; once it says yes, trials are saved, handed back, and the
            worker ends.
        grace: for how many seconds it may be silent before others go on with its trials.
    """

    device: torch.device | str = "cpu"
    population: int | None = None
    checkpoints: str | Path | None = None
    save_every: int | None = None
    report: Callable[[TuningEvent], None] | None = None
    report_every: int = 100
    stop: Callable[[], bool] | None = None
    grace: float = GRACE

    def __post_init__(self) -> None:
        keep_integers(self, TuningError, report_every=1)
        if self.save_every is not None:
            keep_integers(self, TuningError, save_every=1)
        if not self.grace > 0:
            raise TuningError(f"grace must be above 0 seconds, got {self.grace!r}")
        if self.grace > MOST_GRACE:
            raise TuningError(f"grace must be at most {MOST_GRACE:,} seconds, got {self.grace!r}")


def work(store: Store, study: str, arms: Sequence[Arm], how: Work | None = None) -> bool:
    """Work on a study until all its trials have ended, or somebody says stop.

    Args:
        store: where it is; it was added there.
        study: its name.
        arms: those of the study.
        how: everything about the worker itself.

    Returns:
        Whether all trials have ended.

    Raises:
        TuningError: the store cannot be used, or trials do not fit into the device's memory; what was being trained is
            handed back.
    """
    store.require_same_tasks(study, arms)
    return Worker(store, study, arms, how or Work()).work()


class Worker:
    """One worker; see `work`."""

    def __init__(self, store: Store, study: str, arms: Sequence[Arm], how: Work) -> None:
        self.name = f"{platform.node()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._store, self._study, self._how = store, study, how
        self._lots = Lots(store, study, how.grace)
        self._device = usable_device(str(how.device))
        self._device_name = _name_of(self._device)
        self._prepare(arms)
        self._root = checkpoint_root(store, how.checkpoints)
        self._report = how.report or _nothing
        self._pace = Pace(SAVE_EVERY)
        self._num_begun = self._num_recorded = 0
        self._running: list[_Running] = []

    def _prepare(self, arms: Sequence[Arm]) -> None:
        """Get ready to train these arms."""
        self._arms = {arm.name: arm for arm in arms}
        self._trials = {arm.name: Trials(self._store, self._study, arm) for arm in arms}
        self._samplers: dict[str, AbstractSampler] = {arm.name: arm.new_sampler() for arm in arms}
        self._sizes = {arm.name: population_size(arm, self._device, self._how.population) for arm in arms}
        self._capacities = {arm.name: device_capacity(arm, self._device) for arm in arms}
        self._memories = {arm.name: memory_capacity(arm, self._device) for arm in arms}

    def _learn_new_arms(self, lots: Sequence[Lot]) -> None:
        """Prepare the study's arms anew if a lot is of an arm that the study has gained since this worker began."""
        if any(lot.arm not in self._arms for lot in lots):
            self._prepare(self._store.arms(self._study))

    def work(self) -> bool:
        """Work until all trials have ended (True) or `stop` says so (False)."""
        started = time.perf_counter()
        self._tell_start()
        with Heart(lambda: self._write_sitting(time.perf_counter() - started), self._how.grace / BEATS):
            is_complete = self._work()
        seconds = time.perf_counter() - started
        self._write_sitting(seconds)
        self._report(
            WorkEnded(study=self._study, is_complete=is_complete, num_trials=self._num_recorded, seconds=seconds)
        )
        return is_complete

    def _work(self) -> bool:
        try:
            while not self._is_stopped():
                self._take_up()
                if self._running:
                    self._train_until_one_ends()
                elif self._wait_for_others():
                    remove_folder(study_folder(self._root, self._study))
                    return True
            while self._running:  # told to stop, each saves its state and is handed back
                self._train_until_one_ends()
            return False
        finally:
            for each in self._running:
                each.steps.close()

    def _write_sitting(self, seconds: float) -> bool:
        """Record how long this worker has worked so far, if it has begun any trials."""
        if self._num_begun:
            write_sitting(
                self._store,
                Sitting(
                    study=self._study,
                    worker=self.name,
                    device=self._device_name,
                    ended=self._store.time(),
                    seconds=seconds,
                    num_trials=self._num_recorded,
                ),
            )
        return True

    def _take_up(self) -> None:
        """Take up lots that were handed back or lost, and new ones, as long as there is room on the device."""
        while not self._running or (has_room_for_others(self._device) and sum(self._used()) < CROWD):
            lot = self._taken_over() or self._claimed()
            if lot is None:
                return
            steps = self._train_lot(lot)
            next(steps)  # starts the lot's heartbeat: the first steps of other lots may take longer than its grace
            self._running.append(_Running(lot, steps, own_stream(self._device)))

    def _used(self) -> list[float]:
        """The share of the device that each lot in training fills."""
        return [len(each.lot.points) / self._capacities[each.lot.arm] for each in self._running]

    def _has_room_for(self, offer: Offer) -> bool:
        """Whether the networks of an offer may be trained beside those in training."""
        held = sum(len(each.lot.points) / self._memories[each.lot.arm] for each in self._running)
        is_held = held + offer.count / self._memories[offer.arm.name] <= 1
        used = sum(self._used()) + offer.count / self._capacities[offer.arm.name]
        return not self._running or (is_held and used <= CROWD)

    def _train_until_one_ends(self, num_steps: int | None = None) -> bool:
        """Train each lot by a step in turn (on a GPU they overlap); whether one ended within `num_steps` rounds."""
        used = self._used()
        shares = [part / sum(used) for part in used]
        for _ in itertools.count() if num_steps is None else range(num_steps):
            for each, share in zip(self._running, shares, strict=True):
                with each.stream, share_of_gpu(share):
                    if next(each.steps, _ENDED) is _ENDED:
                        self._running.remove(each)
                        return True
        return False

    def _is_stopped(self) -> bool:
        return self._how.stop is not None and self._how.stop()

    def _taken_over(self) -> Lot | None:
        lot = self._lots.take_over(self.name)
        if lot is not None:
            self._learn_new_arms([lot])
            self._report(LotTakenOver(was_lost=lot.was_lost, **_described(lot)))
        return lot

    def _claimed(self) -> Lot | None:
        """A new lot of trials; None if every arm has its budget, or there is no room for the next lot."""
        while True:
            every = self._lots.all()
            self._learn_new_arms(every)
            offer = self._best_offer(every)
            if offer is None or not self._has_room_for(offer):
                return None
            # queued steps keep a GPU busy while the sampler works; if a lot ends meanwhile, there is more to learn from
            if offer.first and self._running and self._train_until_one_ends(AHEAD):
                if self._is_stopped():
                    return None
                continue
            started = time.perf_counter()
            lot = self._lots.claim(offer.arm.name, offer.earlier, self._suggested(offer), self.name)
            if lot is not None:
                self._report(LotClaimed(seconds=time.perf_counter() - started, **_described(lot)))
                return lot

    def _suggested(self, offer: Offer) -> Sequence[Point]:
        arm = offer.arm
        points = self._samplers[arm.name].suggest(
            arm.space,
            self._trials[arm.name].observations(offer.earlier),
            offer.count,
            generator=arm.generator(offer.first),
        )
        if not points:
            raise TuningError(f"sampler {arm.sampler} has no points left for arm {arm.name} after {offer.first} trials")
        for point in points:
            arm.space.check(point)
        return points

    def _best_offer(self, lots: Sequence[Lot]) -> Offer | None:
        """The offer of the arm that is furthest behind its budget.

        Arms whose samplers should see more scores first are passed over, unless this worker has nothing else to do.
        """
        left = offers(self._arms.values(), lots, self._sizes)
        ready = (each for each in left if not (self._samplers[each.arm.name].learns and each.is_too_early))
        return next(ready, left[0] if left and not self._running else None)

    def _wait_for_others(self) -> bool:
        """Whether there is nothing to wait for; otherwise wait a moment."""
        unfinished = [lot for lot in self._lots.all() if not lot.is_finished]
        if not unfinished:
            return True
        self._report(Waiting(study=self._study, num_lots=len(unfinished), grace=max(lot.grace for lot in unfinished)))
        time.sleep(min(1.0, self._how.grace / BEATS))
        return False

    def _train_lot(self, lot: Lot) -> Steps[None]:
        """Train and record all trials of a lot; whatever happens, it is finished, handed back, or another worker's."""
        is_finished = False
        heart = Heart(lambda: self._lots.beat(lot), self._how.grace / BEATS)
        try:
            with heart:
                settings = self._make_trials(lot)
                yield
                if not self._is_stopped():
                    is_finished = (yield from self._train_populations(lot, settings, heart)) and self._lots.finish(lot)
        except (CheckpointError, TuningError):
            if self._lots.beat(lot):
                raise
            # another worker has the lot, and may have cleared its folders away
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise TuningError(self._too_large(lot)) from error
        finally:
            if is_finished:
                remove_folder(lot_folder(self._root, lot))
                self._report(LotFinished(**_described(lot)))
            else:
                kind = LotHandedBack if self._lots.hand_back(lot) else LotLost
                self._report(kind(**_described(lot)))

    def _too_large(self, lot: Lot) -> str:
        size = self._sizes[lot.arm]
        remedy = f"give a population below {size}" if size > 1 else "make the network, batch_size or sequences smaller"
        return f"{len(lot.points)} trials of {lot.arm} do not fit into the memory of {self._device}: {remedy}"

    def _make_trials(self, lot: Lot) -> list[Setting]:
        """Make the trials of a lot in the store; returns their settings."""
        arm = self._arms[lot.arm]
        settings = [bind(point, arm.hyperparameters, arm.architecture, arm.task) for point in lot.points]
        self._trials[lot.arm].make(lot, settings)
        return settings

    def _train_populations(self, lot: Lot, settings: Sequence[Setting], heart: Heart) -> Steps[bool]:
        """Train and record a lot's trials, population by population; whether all of them ended."""
        arm, trials = self._arms[lot.arm], self._trials[lot.arm]
        self._num_begun += len(lot.points)
        ended = trials.ended(lot) if lot.generation else {}
        before, begun = lot.seconds, time.perf_counter()
        for group in split(settings, arm.task):
            for places in chunks(group, self._sizes[arm.name]):
                numbers = [lot.first + place for place in places]
                if all(number in ended for number in numbers):
                    before -= ended[numbers[0]].wall_seconds or 0.0
                    continue
                trained = yield from self._train(lot, places, [settings[place] for place in places], heart)
                if not trained.run.is_complete or not self._lots.beat(lot):
                    return False
                seconds = before + time.perf_counter() - begun
                self._record(lot, trained, numbers, seconds)
                before, begun = 0.0, time.perf_counter()
        return True

    def _train(self, lot: Lot, places: Sequence[int], settings: Sequence[Setting], heart: Heart) -> Steps["_Trained"]:
        arm = self._arms[lot.arm]
        task = task_of(settings, arm.task)
        name = f"{self._device.type}-{places[0]}-{places[-1]}-{len(places)}"
        folder = population_folder(self._root, lot, name)
        numbers, paths = [lot.first + place for place in places], ["unknown"]

        def told(event: Event) -> None:
            if isinstance(event, Started):
                paths.append(event.path)
            self._report(Trained(members=numbers, event=event, **_described(lot)))

        members = [setting.hyperparameters for setting in settings]
        run = yield from training(
            arm.architecture,
            task,
            members,
            seed=arm.seed,
            device=self._device,
            path=arm.path,
            precision=arm.precision,
            report=told,
            report_every=self._how.report_every,
            checkpoint=folder,
            save_every=self._how.save_every or self._pace,
            resume=has_checkpoint(folder),
            stop=lambda: self._is_stopped() or heart.is_lost,
        )
        if not run.is_complete:
            return _Trained(run, [], paths[-1])
        return _Trained(run, training_scores(run.model, task, members[0].batch_size or task.batch_size), paths[-1])

    def _record(self, lot: Lot, trained: "_Trained", numbers: Sequence[int], seconds: float) -> None:
        arm = self._arms[lot.arm]
        circumstances = self._circumstances(lot, arm, trained.path)
        outcomes = {
            number: Outcome(
                member=member,
                training=training if member.validation else {},
                wall_seconds=seconds,
                population=len(numbers),
                run=circumstances,
            )
            for number, member, training in zip(numbers, trained.run.members, trained.training, strict=True)
        }
        self._trials[lot.arm].record(outcomes)
        self._num_recorded += len(outcomes)
        for number, outcome in outcomes.items():
            self._tell_trial(arm, number, outcome)

    def _circumstances(self, lot: Lot, arm: Arm, path: str) -> dict[str, Any]:
        return {
            "path": path,
            "device": self._device_name,
            "precision": arm.precision if path.startswith("gpu") else "float32",  # others do not ask for one
            "seed": arm.seed,
            "rnnlab": VERSION,
            "torch": torch.__version__,
            "worker": self.name,
            "num_lost": lot.num_lost,
            "num_resumed": lot.generation,
        }

    def _tell_start(self) -> None:
        ended = {name: trials.num_ended() for name, trials in self._trials.items()}
        self._report(
            WorkStarted(
                study=self._study,
                worker=self.name,
                store=self._store.place,
                device=str(self._device),
                budgets={name: arm.num_trials for name, arm in self._arms.items()},
                ended=ended,
            )
        )

    def _tell_trial(self, arm: Arm, number: int, outcome: Outcome) -> None:
        reason = why_infeasible(outcome.member, arm.score.name)
        self._report(
            TrialEnded(
                study=self._study,
                arm=arm.name,
                number=number,
                state="complete" if reason is None else "infeasible",
                value=outcome.member.validation[arm.score.name] if reason is None else None,
                reason=reason,
            )
        )


@dataclass(frozen=True, eq=False)
class _Running:
    """A lot in training: what is left to do, step by step, and where a GPU does it."""

    lot: Lot
    steps: Steps[None]
    stream: AbstractContextManager[Any]


def _name_of(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def has_room_for_others(device: torch.device) -> bool:
    """Whether populations that leave room gain from being trained at once: on a CPU they would only take turns."""
    return device.type == "cuda"


@dataclass(frozen=True)
class _Trained:
    """A population that was trained: its run, its scores on training data, and the engine's path."""

    run: Run
    training: list[dict[str, float]]
    path: str


def _described(lot: Lot) -> dict[str, Any]:
    return {
        "study": lot.study,
        "arm": lot.arm,
        "lot": lot.number,
        "first": lot.first,
        "num_trials": len(lot.points),
    }


def _nothing(event: TuningEvent) -> None:
    """Nobody listens."""
