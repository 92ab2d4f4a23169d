"""What every store must do: each claim is tested on a SQLite file and on a PostgreSQL server (issue 7, 1 and 5)."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.orm import Session

from rnnlab import TuningError
from rnnlab.tuning import trials as trials_module
from rnnlab.tuning.checkpoints import checkpoint_root
from rnnlab.tuning.events import LotHandedBack, LotTakenOver, Trained, TuningEvent
from rnnlab.tuning.lots import Lot, Lots
from rnnlab.tuning.optuna_tables import add_trials
from rnnlab.tuning.store import LOTS, STUDIES, VERSIONS, Store
from rnnlab.tuning.trials import Trials
from rnnlab.tuning.work import Work
from rnnlab.tuning.worker import work
from tests.tuning.small_studies import (
    GRACE,
    STUDY,
    arm,
    assert_nothing_is_lost_or_doubled,
    assert_same_trials,
    ended_at_last,
    is_writable,
    put_to_sleep,
    start_worker,
    trials_of,
    undisturbed,
    wait_until,
)

POINTS = ({"optimiser": "sgd", "learning_rate": 0.1, "gate_bias": 1.0},) * 3


def claimed(lots: Lots, owner: str = "me") -> Lot:
    earlier = lots.all()
    lot = lots.claim("gru", earlier, POINTS, owner)
    assert lot is not None
    return lot


def make_older(store: Store, seconds: float) -> None:
    """All lots as if that much more time had passed."""
    older = {"claimed": LOTS.c.claimed - seconds, "heartbeat": LOTS.c.heartbeat - seconds}
    with store.transaction() as connection:
        connection.execute(LOTS.update().values(**older))


def at_once(count: int, action: Callable[[int], Any]) -> list[Any]:
    """What threads find that do the same at the same moment."""
    barrier, found = threading.Barrier(count), [None] * count

    def act(number: int) -> None:
        barrier.wait()
        found[number] = action(number)

    threads = [threading.Thread(target=act, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


class StoreContract:
    """The tests; a subclass gives a fixture `place`."""

    def test_study_comes_back_as_it_was_made(self, place: str) -> None:
        arms = (arm("a", units=3), arm("b", cell="lstm", num_trials=5))
        store = Store(place)
        store.add_study(STUDY, arms)
        store.add_study("another", [arm()])
        again = Store(place)
        assert again.study_names() == [STUDY, "another"]
        assert again.arms(STUDY) == arms
        names = {study.study_name: study for study in optuna.get_all_study_summaries(again.optuna)}
        assert set(names) == {f"{STUDY}/a", f"{STUDY}/b", "another/gru"}
        assert names[f"{STUDY}/a"].user_attrs["arm"] == arms[0].to_json()
        assert names[f"{STUDY}/a"].direction == optuna.study.StudyDirection.MINIMIZE

    def test_study_that_is_not_there_is_named(self, place: str) -> None:
        store = Store(place)
        store.add_study("first", [arm()])
        with pytest.raises(TuningError, match="has no study 'frist'; there are: first"):
            store.arms("frist")

    def test_study_of_the_same_name_must_be_the_same(self, place: str) -> None:
        store = Store(place)
        store.add_study(STUDY, [arm(num_trials=12)])
        store.add_study(STUDY, [arm(num_trials=12)])
        store.add_study(STUDY, [arm(num_trials=20)])
        assert [each.num_trials for each in store.arms(STUDY)] == [20]
        with pytest.raises(TuningError, match="arm gru differs in hyperparameters and seed; choose another name"):
            store.add_study(STUDY, [arm(num_trials=20, seed=4)])
        with pytest.raises(TuningError, match="its arms are gru, not lstm"):
            store.add_study(STUDY, [arm("lstm")])
        with pytest.raises(TuningError, match="has 20 trials, which cannot become 19"):
            store.add_study(STUDY, [arm(num_trials=19)])
        assert [each.num_trials for each in store.arms(STUDY)] == [20]

    def test_study_gains_arms_at_its_end_where_it_may(self, place: str) -> None:
        store = Store(place)
        first, second = arm(num_trials=12), arm("second")
        store.add_study(STUDY, [first], may_gain_arms=True)
        with pytest.raises(TuningError, match="its arms are gru, not gru, second; choose another name"):
            store.add_study(STUDY, [first, second])
        with pytest.raises(TuningError, match="its arms are gru, not second, gru"):
            store.add_study(STUDY, [second, first], may_gain_arms=True)
        with pytest.raises(TuningError, match="it has gru too, and arms can be added but not left out"):
            store.add_study(STUDY, [second], may_gain_arms=True)
        with pytest.raises(TuningError, match="arm gru differs in hyperparameters and seed"):
            store.add_study(STUDY, [arm(num_trials=12, seed=4), second], may_gain_arms=True)
        assert store.arms(STUDY) == (first,)
        grown = (arm(num_trials=20), second)
        store.add_study(STUDY, grown, may_gain_arms=True)
        assert store.arms(STUDY) == grown
        assert Trials(store, STUDY, second).all() == []
        with pytest.raises(TuningError, match="it has second too, and arms can be added but not left out"):
            store.add_study(STUDY, [grown[0]], may_gain_arms=True)

    def test_store_of_another_version_is_refused(self, place: str) -> None:
        store = Store(place)
        with store.transaction() as connection:
            connection.execute(VERSIONS.update().values(version=99))
        with pytest.raises(TuningError, match=r"has version 99, this rnnlab reads version 1: use the rnnlab that made"):
            Store(place)

    def test_processes_may_make_a_store_at_once(self, place: str) -> None:
        stores = at_once(6, lambda _: Store(place))
        assert all(isinstance(store, Store) for store in stores)
        at_once(6, lambda number: stores[number].add_study(STUDY, [arm()]))
        assert Store(place).study_names() == [STUDY]

    def test_what_fails_halfway_changes_nothing(self, place: str) -> None:
        store = Store(place)
        store.add_study(STUDY, [arm()])
        with pytest.raises(RuntimeError, match="halfway"):
            _forget_studies(store)
        assert store.study_names() == [STUDY]

    def test_next_lot_is_claimed_once(self, place: str) -> None:
        store = Store(place)
        stores = [Store(place) for _ in range(6)]
        lots = at_once(6, lambda number: Lots(stores[number], STUDY).claim("gru", [], POINTS, str(number)))
        assert sum(lot is not None for lot in lots) == 1
        (only,) = Lots(store, STUDY).all()
        assert only == next(lot for lot in lots if lot is not None)
        second = claimed(Lots(store, STUDY))
        assert (second.number, second.first, list(second.numbers)) == (1, 3, [3, 4, 5])

    def test_lot_is_taken_over_once_and_only_after_the_grace(self, place: str) -> None:
        stores = [Store(place) for _ in range(6)]
        lots = Lots(stores[0], STUDY)
        lot = claimed(lots)
        assert lots.take_over("other") is None
        make_older(stores[0], 100)
        assert lots.beat(lot)
        assert lots.take_over("other") is None
        make_older(stores[0], 100)
        found = at_once(6, lambda number: Lots(stores[number], STUDY).take_over(str(number)))
        (taken,) = [each for each in found if each is not None]
        assert (taken.points, taken.generation, taken.num_lost, taken.was_lost) == (POINTS, 1, 1, True)
        assert taken.seconds == pytest.approx(100, abs=30)  # from the claim to the last beat
        assert not lots.beat(lot)
        assert not lots.hand_back(lot)
        assert not lots.finish(lot)
        assert lots.beat(taken)

    def test_owner_says_itself_how_long_it_may_be_silent(self, place: str) -> None:
        store = Store(place)
        lot = claimed(Lots(store, STUDY, grace=1000))
        hasty = Lots(store, STUDY, grace=1)
        make_older(store, 500)
        assert hasty.take_over("hasty") is None
        make_older(store, 501)
        taken = hasty.take_over("hasty")
        assert taken is not None
        assert (lot.grace, taken.grace) == (1000, 1)

    def test_lot_handed_back_is_taken_at_once(self, place: str) -> None:
        lots = Lots(Store(place), STUDY)
        lot = claimed(lots)
        assert lots.hand_back(lot)
        assert not lots.hand_back(lot)
        taken = lots.take_over("other")
        assert taken is not None
        assert (taken.generation, taken.num_lost, taken.was_lost, taken.owner) == (1, 0, False, "other")
        assert lots.take_over("third") is None

    def test_lot_that_went_through_other_hands_is_not_the_one_that_was_read(self, place: str) -> None:
        lots = Lots(Store(place), STUDY)
        assert lots.hand_back(claimed(lots))
        (read,) = lots.all()
        taken = lots.take_over("other")
        assert taken is not None
        assert lots.hand_back(taken)
        (now,) = lots.all()
        assert (now.owner, read.owner) == (None, None)
        assert not lots.finish(read)

    def test_finished_lot_is_nobodys(self, place: str) -> None:
        store = Store(place)
        lots = Lots(store, STUDY)
        lot = claimed(lots)
        assert lots.finish(lot)
        make_older(store, 1000)
        assert lots.take_over("other") is None
        assert not lots.beat(lot)
        assert [(each.is_finished, each.owner) for each in lots.all()] == [(True, None)]

    def test_lots_of_another_study_are_left_alone(self, place: str) -> None:
        store = Store(place)
        lots = Lots(store, STUDY)
        lots.hand_back(claimed(lots))
        assert Lots(store, "another").take_over("other") is None
        assert Lots(store, "another").all() == []

    def test_stopped_worker_hands_back_and_the_next_goes_on_at_its_step(self, place: str, tmp_path: Path) -> None:
        arms = [arm(num_trials=8)]
        store = Store(place)
        store.add_study(STUDY, arms)
        events: list[TuningEvent] = []
        steps = iter(range(10**6))
        how = Work(population=4, checkpoints=tmp_path / "c", report=events.append, save_every=1000)
        assert not work(store, STUDY, arms, replace(how, stop=lambda: next(steps) > 45))
        handed = [event for event in events if isinstance(event, LotHandedBack)]
        assert [(event.lot, event.first, event.num_trials) for event in handed] == [(1, 4, 4)]
        assert sum(trial.has_ended for trial in trials_of(store, arms)) == 4
        events.clear()
        assert work(store, STUDY, arms, how)
        assert isinstance(events[1], LotTakenOver)
        assert not events[1].was_lost
        first = next(event for event in events if isinstance(event, Trained))
        assert first.event.step > 0, "it began anew"
        trials = trials_of(store, arms)
        assert_same_trials(trials, undisturbed(tmp_path, arms, population=4))
        assert [trial.run["num_resumed"] for trial in trials] == [0] * 4 + [1] * 4
        assert {trial.run["num_lost"] for trial in trials} == {0}

    def test_killed_workers_lose_and_double_nothing(self, place: str, tmp_path: Path) -> None:
        arms = [arm(num_trials=12), arm("lstm", cell="lstm")]
        store, folder = Store(place), tmp_path / "c"
        store.add_study(STUDY, arms)
        seed = random.randrange(10**6)
        print("seed of the moments:", seed)
        chance = random.Random(seed)
        workers = [start_worker(place, folder, slowness=0.005) for _ in range(3)]
        with ended_at_last(workers):
            wait_until(lambda: trials_of(store, arms))
            for number in range(4):
                time.sleep(chance.uniform(0, 0.4))
                workers[number].kill()
                workers.append(start_worker(place, folder, slowness=0.005))
            for worker in workers[4:]:
                worker.join(60)
                assert worker.exitcode == 0
        assert_nothing_is_lost_or_doubled(store, arms)
        trials = trials_of(store, arms)
        assert_same_trials(trials, undisturbed(tmp_path, arms, population=4))
        assert not folder.exists() or not any(folder.rglob("*.safetensors"))

    def test_lost_population_goes_on_from_its_checkpoint(self, place: str, tmp_path: Path) -> None:
        arms = [arm(num_trials=4, num_steps=200)]
        store, folder = Store(place), tmp_path / "c"
        store.add_study(STUDY, arms)
        worker = start_worker(place, folder, slowness=0.02, save_every=5)
        with ended_at_last([worker]):
            wait_until(lambda: any(folder.rglob("checkpoint.safetensors")))
            worker.kill()
            worker.join()
        events: list[TuningEvent] = []
        assert work(store, STUDY, arms, Work(population=4, checkpoints=folder, grace=GRACE, report=events.append))
        over = [event for event in events if isinstance(event, LotTakenOver)]
        assert [event.was_lost for event in over] == [True]
        begun = next(event.event for event in events if isinstance(event, Trained))
        assert 0 < begun.step < 200
        trials = trials_of(store, arms)
        assert_same_trials(trials, undisturbed(tmp_path, arms, population=4))
        assert {(trial.run["num_lost"], trial.run["num_resumed"]) for trial in trials} == {(1, 1)}

    def test_worker_that_was_only_asleep_does_no_harm(self, place: str, tmp_path: Path) -> None:
        arms = [arm(num_trials=4, num_steps=100)]
        store, folder = Store(place), tmp_path / "c"
        store.add_study(STUDY, arms)
        sleeper = start_worker(place, folder, slowness=0.02, save_every=5)
        with ended_at_last([sleeper]):
            wait_until(lambda: any(folder.rglob("checkpoint.safetensors")))
            put_to_sleep(sleeper, place)
            assert work(store, STUDY, arms, Work(population=4, checkpoints=folder, grace=GRACE))
            trials = trials_of(store, arms)
            os.kill(sleeper.pid, signal.SIGCONT)
            sleeper.join(60)
            assert sleeper.exitcode == 0
        assert trials_of(store, arms) == trials
        assert_nothing_is_lost_or_doubled(store, arms)

    def test_who_writes_keeps_others_from_writing_until_it_ends(self, place: str) -> None:
        """So a worker can only be put to sleep between its writes."""
        store = Store(place)
        claimed(Lots(store, STUDY))
        with store.transaction() as connection:
            connection.execute(LOTS.update().values(number=LOTS.c.number))
            assert not is_writable(place)
        assert is_writable(place)

    def test_trial_made_twice_counts_once(self, place: str, tmp_path: Path) -> None:
        """By a worker that was believed dead, at the very moment when another made it."""
        arms = [arm(num_trials=4)]
        store = Store(place)
        store.add_study(STUDY, arms)

        def twice(session: Session, study_id: int, templates: Sequence[FrozenTrial]) -> None:
            add_trials(session, study_id, [each for template in templates for each in (template, template)])

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trials_module, "add_trials", twice)
            assert work(store, STUDY, arms, Work(population=4, checkpoints=tmp_path / "c"))
        assert_same_trials(trials_of(store, arms), undisturbed(tmp_path, arms, population=4))
        states = [trial.state.name for trial in store.optuna.get_all_trials(store.study_id(STUDY, "gru"))]
        assert states[1::2] == ["FAIL"] * 4
        assert set(states[::2]) <= {"COMPLETE", "PRUNED"}

    def test_trial_that_somebody_took_away_is_missed_and_made_again(self, place: str, tmp_path: Path) -> None:
        arms = [arm(num_trials=4)]
        store = Store(place)
        store.add_study(STUDY, arms)
        how = Work(population=4, checkpoints=tmp_path / "c")

        def take_away(event: TuningEvent) -> None:
            trials = store.optuna.get_all_trials(store.study_id(STUDY, "gru"), states=[TrialState.RUNNING])
            if isinstance(event, Trained) and len(trials) == 4:
                store.optuna.set_trial_state_values(trials[1]._trial_id, TrialState.FAIL)

        with pytest.raises(TuningError, match=r"gru: trials \[1\] are no longer in the store; run again"):
            work(store, STUDY, arms, replace(how, report=take_away))
        assert work(store, STUDY, arms, how)
        assert_same_trials(trials_of(store, arms), undisturbed(tmp_path, arms, population=4))

    def test_store_has_a_clock(self, place: str) -> None:
        store = Store(place)
        before = store.time()
        lot = claimed(Lots(store, STUDY))
        assert before <= lot.claimed <= lot.heartbeat <= store.time()
        assert abs(before - time.time()) < 60

    def test_worker_killed_at_every_stage_leaves_something_to_go_on_with(self, place: str, tmp_path: Path) -> None:
        """Before and after trials are written, and ended, as long as that counts: all trials of a lot do, or none."""
        arms = [arm(num_trials=4)]
        store = Store(place)
        store.add_study(STUDY, arms)
        stages = [("add_trials", "before", 0), ("add_trials", "after", 0)]
        stages += [("end_trials", "before", 4), ("end_trials", "after", 4)]
        for function, moment, num_trials in stages:
            with pytest.MonkeyPatch.context() as patch:
                _die(patch, function, moment)
                with pytest.raises(Death):
                    work(store, STUDY, arms, Work(population=4, checkpoints=tmp_path / "c", grace=0.01))
            assert len(trials_of(store, arms)) == num_trials
        assert not any(trial.has_ended for trial in trials_of(store, arms))
        assert work(store, STUDY, arms, Work(population=4, checkpoints=tmp_path / "c", grace=0.01))
        assert_nothing_is_lost_or_doubled(store, arms)
        assert_same_trials(trials_of(store, arms), undisturbed(tmp_path, arms, population=4))

    def test_checkpoints_have_a_place(self, place: str, tmp_path: Path) -> None:
        store = Store(place)
        assert checkpoint_root(store, tmp_path) == tmp_path
        beside = Path("rnnlab.checkpoints") if store.is_server else Path(f"{place}.checkpoints")
        assert checkpoint_root(store, None) == beside


def _forget_studies(store: Store) -> None:
    with store.transaction() as connection:
        connection.execute(STUDIES.delete())
        raise RuntimeError("halfway")


class Death(BaseException):
    """The end of a process, as far as the store can see: nothing is handed back."""


def _die(patch: pytest.MonkeyPatch, function: str, moment: str) -> None:
    original = getattr(trials_module, function)

    def dying(*words: Any) -> Any:
        if moment == "after":  # everything is written, but nothing counts yet
            original(*words)
        raise Death

    patch.setattr(trials_module, function, dying)
    patch.setattr(Lots, "hand_back", lambda lots, lot: False)
