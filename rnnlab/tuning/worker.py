"""A worker: takes trials of a study, trains them as populations, records them; until none is left.

    while there is something to do:
        go on with a lot that was handed back or whose worker was lost     (`lots.py`)
        or claim a new one, of the arm that is furthest behind its budget  (`offers.py`; suggestions: `samplers.py`)
        train it, saving checkpoints and saying all the time that it is alive
        and record its trials                                              (`lot_training.py`)

On a GPU there may be room for several lots at once (`side_by_side.py`).

Any number of workers may work on a study, in processes or machines of their own. They know nothing of each other but
what is in the store.
"""

import time
from collections.abc import Sequence

from rnnlab.training.words import usable_device
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.checkpoints import checkpoint_root, remove_folder, study_folder
from rnnlab.tuning.circumstances import device_name, worker_name
from rnnlab.tuning.events import LotClaimed, LotTakenOver, Waiting, WorkEnded, WorkStarted, about
from rnnlab.tuning.heart import Heart
from rnnlab.tuning.lot_training import LotTrainer
from rnnlab.tuning.lots import Lot, Lots
from rnnlab.tuning.offers import Offer, offers
from rnnlab.tuning.prepared import prepared
from rnnlab.tuning.side_by_side import SideBySide
from rnnlab.tuning.sittings import Sitting, write_sitting
from rnnlab.tuning.store import Store
from rnnlab.tuning.work import Work

AHEAD = 100  # steps of every lot that are queued on a GPU while the next points of an arm are looked for


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
        self.name = worker_name()
        self._store, self._study, self._how = store, study, how
        self._lots = Lots(store, study, how.grace)
        self._device = usable_device(str(how.device))
        self._prepare(arms)
        self._root = checkpoint_root(store, how.checkpoints)
        self._trainer = LotTrainer(self._lots, how, worker=self.name, device=self._device, root=self._root)
        self._running = SideBySide(self._device)

    def _prepare(self, arms: Sequence[Arm]) -> None:
        """Get ready to train these arms."""
        population = self._how.population
        self._arms = {arm.name: prepared(self._store, self._study, arm, self._device, population) for arm in arms}

    def _learn_new_arms(self, lots: Sequence[Lot]) -> None:
        """Prepare the study's arms anew if a lot is of an arm that the study has gained since this worker began."""
        if any(lot.arm not in self._arms for lot in lots):
            self._prepare(self._store.arms(self._study))

    def work(self) -> bool:
        """Work until all trials have ended (True) or `stop` says so (False)."""
        started = time.perf_counter()
        self._tell_start()
        with Heart(lambda: self._write_sitting(time.perf_counter() - started), self._how.beat_every):
            is_complete = self._work()
        seconds = time.perf_counter() - started
        self._write_sitting(seconds)
        self._how.tell(
            WorkEnded(
                study=self._study, is_complete=is_complete, num_trials=self._trainer.num_recorded, seconds=seconds
            )
        )
        return is_complete

    def _work(self) -> bool:
        try:
            while not self._how.is_stopped():
                self._take_up()
                if not self._running.is_empty:
                    self._running.train_until_one_ends()
                elif self._wait_for_others():
                    remove_folder(study_folder(self._root, self._study))
                    return True
            while not self._running.is_empty:  # told to stop, each saves its state and is handed back
                self._running.train_until_one_ends()
            return False
        finally:
            self._running.close()

    def _write_sitting(self, seconds: float) -> bool:
        """Record how long this worker has worked so far, if it has begun any trials."""
        if self._trainer.num_begun:
            write_sitting(
                self._store,
                Sitting(
                    study=self._study,
                    worker=self.name,
                    device=device_name(self._device),
                    ended=self._store.time(),
                    seconds=seconds,
                    num_trials=self._trainer.num_recorded,
                ),
            )
        return True

    def _take_up(self) -> None:
        """Take up lots that were handed back or lost, and new ones, as long as there is room on the device."""
        while self._running.has_room:
            lot = self._taken_over() or self._claimed()
            if lot is None:
                return
            arm = self._arms[lot.arm]
            self._running.begin(arm, len(lot.points), self._trainer.train(lot, arm))

    def _taken_over(self) -> Lot | None:
        lot = self._lots.take_over(self.name)
        if lot is not None:
            self._learn_new_arms([lot])
            self._how.tell(LotTakenOver(was_lost=lot.was_lost, **about(lot)))
        return lot

    def _claimed(self) -> Lot | None:
        """A new lot of trials; None if every arm has its budget, or there is no room for the next lot."""
        while True:
            every = self._lots.all()
            self._learn_new_arms(every)
            offer = self._best_offer(every)
            if offer is None:
                return None
            arm = self._arms[offer.arm.name]
            if not self._running.has_room_for(arm, offer.count):
                return None
            # queued steps keep a GPU busy while the sampler works; if a lot ends meanwhile, there is more to learn from
            if offer.first and not self._running.is_empty and self._running.train_until_one_ends(AHEAD):
                if self._how.is_stopped():
                    return None
                continue
            started = time.perf_counter()
            lot = self._lots.claim(offer.arm.name, offer.earlier, arm.suggested(offer), self.name)
            if lot is not None:
                self._how.tell(LotClaimed(seconds=time.perf_counter() - started, **about(lot)))
                return lot

    def _best_offer(self, lots: Sequence[Lot]) -> Offer | None:
        """The offer of the arm that is furthest behind its budget.

        Arms whose samplers should see more scores first are passed over, unless this worker has nothing else to do.
        """
        sizes = {name: each.size for name, each in self._arms.items()}
        left = offers((each.arm for each in self._arms.values()), lots, sizes)
        ready = (each for each in left if not (self._arms[each.arm.name].sampler.learns and each.is_too_early))
        return next(ready, left[0] if left and self._running.is_empty else None)

    def _wait_for_others(self) -> bool:
        """Whether there is nothing to wait for; otherwise wait a moment."""
        unfinished = [lot for lot in self._lots.all() if not lot.is_finished]
        if not unfinished:
            return True
        self._how.tell(Waiting(study=self._study, num_lots=len(unfinished), grace=max(lot.grace for lot in unfinished)))
        time.sleep(min(1.0, self._how.beat_every))
        return False

    def _tell_start(self) -> None:
        self._how.tell(
            WorkStarted(
                study=self._study,
                worker=self.name,
                store=self._store.place,
                device=str(self._device),
                budgets={name: each.arm.num_trials for name, each in self._arms.items()},
                ended={name: each.trials.num_ended() for name, each in self._arms.items()},
            )
        )
