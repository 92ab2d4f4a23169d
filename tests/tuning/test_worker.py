"""What a worker does: which arm it goes on with, how many trials it takes, what it records (issue 7, 1, 4, 5)."""

import importlib.metadata
import math
import threading
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from rnnlab import CheckpointError, Hyperparameters, TrainingError, TuningError, evaluate, task, train
from rnnlab.engine.gpu import sharing
from rnnlab.training import pace
from rnnlab.training.checkpoints import CheckpointStore
from rnnlab.training.events import Finished, Saved, Started, Stepped
from rnnlab.training.pace import Pace
from rnnlab.tuning import lot_training, prepared, side_by_side, worker
from rnnlab.tuning.dimensions import Category, Float
from rnnlab.tuning.events import (
    LotClaimed,
    LotFinished,
    LotHandedBack,
    LotLost,
    Trained,
    TrialEnded,
    TuningEvent,
    Waiting,
    WorkEnded,
)
from rnnlab.tuning.heart import Heart
from rnnlab.tuning.lots import Lots
from rnnlab.tuning.observations import Observation
from rnnlab.tuning.plain_samplers import RandomSampler
from rnnlab.tuning.populations import chunks, lot_size, num_fitting, population_size
from rnnlab.tuning.samplers import SAMPLERS
from rnnlab.tuning.sittings import sittings
from rnnlab.tuning.space import SearchSpace
from rnnlab.tuning.store import LOTS, Store
from rnnlab.tuning.trials import Trial, Trials
from rnnlab.tuning.work import Work
from rnnlab.tuning.worker import work
from tests.tuning.small_studies import (
    STUDY,
    arm,
    assert_nothing_is_lost_or_doubled,
    assert_same_trials,
    result,
    trials_of,
)
from tests.tuning.store_contract import make_older


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "rnnlab.db")


def worked(store: Store, arms: list[Any], **how: Any) -> tuple[list[Trial], list[TuningEvent]]:
    """The trials and events of a study that one worker does."""
    events: list[TuningEvent] = []
    store.add_study(STUDY, arms)
    assert work(store, STUDY, arms, Work(report=events.append, **how))
    return trials_of(store, arms), events


def test_time_of_a_worker_is_written_down_once_it_has_worked(store: Store) -> None:
    one = arm(num_trials=3)
    _, events = worked(store, [one], population=3)
    work(store, STUDY, [one], Work())  # finds nothing to do
    (sitting,) = sittings(store, STUDY)
    (ended,) = (event for event in events if isinstance(event, WorkEnded))
    assert (sitting.study, sitting.device, sitting.num_trials) == (STUDY, "cpu", 3)
    assert sitting.seconds == ended.seconds > 0
    assert sitting.ended == pytest.approx(store.time(), abs=60)


def test_time_of_a_worker_that_comes_to_a_sudden_end_counts_until_it_was_last_heard_of(store: Store) -> None:
    class PowerCut(BaseException):
        pass

    def report(event: TuningEvent) -> None:
        if sittings(store, STUDY):
            raise PowerCut

    one = arm(num_trials=3, num_steps=1_000_000)
    store.add_study(STUDY, [one])
    with pytest.raises(PowerCut):
        work(store, STUDY, [one], Work(population=3, report=report, report_every=10, grace=0.6))
    (sitting,) = sittings(store, STUDY)
    assert (sitting.study, sitting.device, sitting.num_trials) == (STUDY, "cpu", 0)
    assert 0 < sitting.seconds < 60


def test_trial_is_what_training_alone_gives(store: Store) -> None:
    """Every value of the record, against a network trained by itself (C2)."""
    one = arm(num_trials=4)
    trials, _ = worked(store, [one], population=4)
    members = [one.hyperparameters.changed(**trial.point) for trial in trials]
    run = train(one.architecture, one.task, members, seed=one.seed)
    for trial, member in zip(trials, run.members, strict=True):
        assert trial.hyperparameters == member.hyperparameters
        assert (trial.outcome, trial.num_steps, trial.best_step) == (member.outcome, member.num_steps, member.best_step)
        assert (trial.seed, trial.num_parameters) == (3, one.architecture.num_parameters())
        if member.is_feasible:
            assert trial.value == member.validation["mse"]
            assert trial.scores["validation"] == member.validation
            assert trial.scores["test"] == member.test
            assert trial.curve["scores"]["mse"] == list(member.curve.scores["mse"])
            assert trial.curve["losses"] == list(member.curve.losses)
            assert 0 < trial.scores["train"]["mse"] != trial.value
        else:
            assert (trial.state, trial.value, trial.reason) == ("infeasible", None, member.reason)
            assert trial.scores["train"] == {}
    assert {trial.state for trial in trials} == {"complete", "infeasible"}


def test_training_score_is_of_as_many_sequences_as_validation_has(store: Store) -> None:
    problem = task("adding", length=5, num_training=40, num_evaluation=40)
    one = arm(task=problem, num_trials=2, space=SearchSpace([Float("learning_rate", 1e-3, 1e-2)]))
    trials, _ = worked(store, [one], population=2)
    run = train(one.architecture, problem, [trial.hyperparameters for trial in trials], seed=one.seed)
    assert [trial.scores["train"]["mse"] for trial in trials] == evaluate(run.model, problem, "train", 4)["mse"]


def test_record_says_how_it_came_about(store: Store) -> None:
    trials, _ = worked(store, [arm(precision="bf16", path="reference")], population=4)
    for trial in trials:
        assert trial.run["path"].startswith("reference")
        # an arm's precision is that of GPUs
        assert (trial.run["device"], trial.run["precision"], trial.run["seed"]) == ("cpu", "float32", 3)
        assert trial.run["torch"] == torch.__version__
        assert trial.run["rnnlab"] == importlib.metadata.version("rnnlab")
        assert (trial.run["num_lost"], trial.run["num_resumed"], trial.population) == (0, 0, 4)
        assert trial.wall_seconds is not None
        assert 0 < trial.wall_seconds < 60
    row = trials[0].row()
    assert row["point.learning_rate"] == trials[0].point["learning_rate"]
    assert row["validation.mse"] == trials[0].scores["validation"]["mse"]


def test_no_number_that_json_lacks_is_written(store: Store) -> None:
    worked(store, [arm(space=SearchSpace([Float("learning_rate", 1e6, 1e9, "log")]), num_trials=4)], population=4)
    for trial in store.optuna.get_all_trials(store.study_id(STUDY, "gru")):
        assert trial.values is None
        assert all(word not in str(trial.user_attrs) for word in ("nan", "inf'", "Infinity"))


@pytest.mark.parametrize(("value", "words"), [(float("nan"), "was never a number"), (float("inf"), "is infinite")])
def test_score_that_is_no_number_is_infeasible(
    value: float, words: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On validation, with training losses that did not diverge."""
    kind = type(arm().task)
    original = kind.finish
    monkeypatch.setattr(kind, "finish", lambda task, tally: {"mse": original(task, tally)["mse"] * 0 + value})
    one = arm(space=SearchSpace([Float("learning_rate", 1e-3, 1e-2)]), num_trials=1)
    ((trial,), _) = worked(store, [one])
    assert (trial.state, trial.value, trial.outcome) == ("infeasible", None, "finished")
    assert trial.reason == f"its mse on validation {words}"
    assert trial.curve["scores"]["mse"] == [None, None, None]


def test_higher_scores_are_better_where_the_task_says_so(store: Store) -> None:
    """C41: capacity's mutual information; the sampler is told its negative."""
    problem = task("capacity", num_inputs=4, length=2)
    space = SearchSpace([Float("learning_rate", 1e-3, 1e-1, "log"), Float("task.samples_per_parameter", 0.1, 1, "log")])
    one = arm(task=problem, space=space, num_trials=6)
    trials, _ = worked(store, [one], population=3)
    assert store.optuna.get_study_directions(store.study_id(STUDY, "gru"))[0].name == "MAXIMIZE"
    observed = Trials(store, STUDY, one).observations(Lots(store, STUDY).all())
    assert [each.value for each in observed] == [-trial.value for trial in trials if trial.value is not None]
    assert [dict(each.point) for each in observed] == [dict(trial.point) for trial in trials]
    sizes = [trial.arguments["num_samples"] for trial in trials]
    assert len(set(sizes)) > 1
    assert all(
        trial.scores["validation"]["mutual_information"] <= size for trial, size in zip(trials, sizes, strict=True)
    )


class Recording(RandomSampler):
    """Keeps what it was asked."""

    asked: list[tuple[list[Observation], int]] = []  # noqa: RUF012

    def suggest(self, space: Any, observations: Any, count: int, *, generator: np.random.Generator) -> Any:
        self.asked.append((list(observations), count))
        return super().suggest(space, observations, count, generator=generator)


def test_sampler_is_told_everything_in_order_and_pending_trials_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SAMPLERS, "recording", Recording)
    monkeypatch.setattr(Recording, "asked", [])
    one = arm(sampler="recording", num_trials=12)
    store.add_study(STUDY, [one])
    points = [{"optimiser": "sgd", "learning_rate": 0.1, "gate_bias": float(number)} for number in range(2)]
    Lots(store, STUDY).claim("gru", [], points, "a worker far away")
    stop = iter(range(10**6))
    work(store, STUDY, [one], Work(population=5, stop=lambda: next(stop) > 40))
    (first, count), (second, _) = Recording.asked
    assert [(each.point, each.state) for each in first] == [(point, "pending") for point in points]
    assert count == 5
    assert [each.state for each in second[:2]] == ["pending", "pending"]
    assert len(second) == 7
    assert {each.state for each in second[2:]} <= {"complete", "infeasible"}
    trials = {trial.number: trial for trial in trials_of(store, [one])}
    assert [each.value for each in second[2:]] == [trials[number].value for number in range(2, 7)]


class Wrong(RandomSampler):
    """Suggests what it is told to."""

    points: tuple[Any, ...] = ()

    def suggest(self, space: Any, observations: Any, count: int, *, generator: np.random.Generator) -> Any:
        return self.points


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ((), "sampler wrong has no points left for arm gru after 0 trials"),
        (({"optimiser": "sgd", "learning_rate": 1e9, "gate_bias": 1.0},), "learning_rate must be in"),
        (({"optimiser": "sgd"},), "the point has no learning_rate"),
    ],
)
def test_sampler_that_suggests_nonsense_is_one_clear_error(
    points: tuple[Any, ...], words: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SAMPLERS, "wrong", Wrong)
    monkeypatch.setattr(Wrong, "points", points)
    one = arm(sampler="wrong")
    store.add_study(STUDY, [one])
    with pytest.raises(TuningError, match=words):
        work(store, STUDY, [one])
    assert Lots(store, STUDY).all() == []


@pytest.mark.parametrize(("milliseconds", "expected"), [(30_000, [20]), (0.001, [*range(2, 21, 2), 20])])
def test_checkpoints_are_written_now_and_then_and_at_the_end(
    milliseconds: float, expected: list[int], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lot_training, "SAVE_EVERY", timedelta(milliseconds=milliseconds))
    monkeypatch.setattr(pace, "SHARE", math.inf)
    _, events = worked(store, [arm(num_trials=2, num_steps=20)], population=2)
    saved = [event.event.step for event in events if isinstance(event, Trained) and isinstance(event.event, Saved)]
    assert saved == expected


def test_arms_advance_together_by_their_shares_of_the_budget(store: Store) -> None:
    arms = [arm("a", num_trials=12), arm("b", num_trials=4), arm("c", num_trials=8)]
    _, events = worked(store, arms, population=4)
    claims = [(event.arm, event.first, event.num_trials) for event in events if isinstance(event, LotClaimed)]
    assert claims == [("a", 0, 4), ("b", 0, 4), ("c", 0, 4), ("a", 4, 4), ("c", 4, 4), ("a", 8, 4)]


def test_suggestions_depend_on_seed_and_number_alone(store: Store, tmp_path: Path) -> None:
    trials, _ = worked(store, [arm("a"), arm("b"), arm("c", seed=4)], population=4)
    points = {name: [trial.point for trial in trials if trial.arm == name] for name in "abc"}
    assert points["a"] == points["b"]
    assert points["a"] != points["c"]
    assert {trial.seed for trial in trials if trial.arm == "a"} == {3}  # C10


def test_seed_may_be_a_dimension(store: Store) -> None:
    """C73: the same hyperparameters again and again, from other initial weights."""
    one = arm(space=SearchSpace([Category("seed", tuple(range(6)))]), sampler="grid", num_trials=6)
    trials, _ = worked(store, [one], population=6)
    assert [trial.seed for trial in trials] == list(range(6))
    assert len({trial.value for trial in trials}) == 6


def test_events_tell_the_work_in_order(store: Store) -> None:
    trials, events = worked(store, [arm(num_trials=4)], population=4, report_every=10)
    kinds = [type(event).__name__ for event in events if not isinstance(event, Trained)]
    assert kinds == ["WorkStarted", "LotClaimed", *["TrialEnded"] * 4, "LotFinished", "WorkEnded"]
    inner = [event for event in events if isinstance(event, Trained)]
    assert [event.event.step for event in inner if isinstance(event.event, Stepped)] == [10, 20, 30]
    assert inner[0].members == [0, 1, 2, 3]
    assert inner[0].to_json()["training"]["event"] == "Started"
    ended = [event for event in events if isinstance(event, TrialEnded)]
    assert [(event.state, event.value) for event in ended] == [(trial.state, trial.value) for trial in trials]
    last = events[-1]
    assert isinstance(last, WorkEnded)
    assert (last.is_complete, last.num_trials) == (True, 4)


def test_finished_study_has_nothing_left_to_do(store: Store, tmp_path: Path) -> None:
    trials, _ = worked(store, [arm()], population=4)
    again, events = worked(store, [arm()], population=4)
    assert again == trials
    assert not any(isinstance(event, LotClaimed) for event in events)
    assert not Path(f"{store.place}.checkpoints").exists()


def test_points_that_cannot_be_trained_together_are_one_lot(store: Store) -> None:
    space = SearchSpace([Category("batch_size", (2, 4, 8)), Float("learning_rate", 1e-3, 1e-2)])
    trials, events = worked(store, [arm(space=space, num_trials=9)], population=9)
    assert sum(isinstance(event, LotFinished) for event in events) == 1
    assert sum(isinstance(event, Trained) and isinstance(event.event, Finished) for event in events) == 3
    assert {trial.population for trial in trials} < set(range(1, 9))
    for size in (2, 4, 8):
        same = [trial for trial in trials if trial.hyperparameters.batch_size == size]
        assert {trial.population for trial in same} == {len(same)}
        alone = train(arm().architecture, arm().task, [same[0].hyperparameters], seed=3).members[0]
        assert same[0].value == alone.validation["mse"]


def test_lot_that_is_too_large_for_this_worker_is_trained_in_pieces(store: Store, tmp_path: Path) -> None:
    one = arm(num_trials=9)
    store.add_study(STUDY, [one])
    assert not work(store, STUDY, [one], Work(population=9, stop=iter([False, False, True, True]).__next__))
    assert work(store, STUDY, [one], Work(population=4))
    trials = trials_of(store, [one])
    assert [trial.population for trial in trials] == [3] * 9
    other = Store(tmp_path / "other.db")
    whole, _ = worked(other, [one], population=9)
    assert [result(trial) | {"population": 9} for trial in trials] == [result(trial) for trial in whole]


def few_trials() -> list[Any]:
    """Arms of which three fill a device that holds six networks, one that fills it alone, and one more."""
    short = {"num_trials": 2, "num_steps": 20}
    few = [arm("one", **short), arm("two", cell="tanh", **short), arm("three", **short)]
    return [*few, arm("four", num_trials=6), arm("five", **short)]


def test_lots_that_leave_room_run_side_by_side(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arms = few_trials()
    alone, events = worked(Store(tmp_path / "alone.db"), arms, population=6)
    assert _most_at_once(events) == 1
    monkeypatch.setattr(side_by_side, "has_room_for_others", lambda device: True)
    monkeypatch.setattr(prepared, "device_capacity", lambda arm, device: 6)
    together, events = worked(store, arms, population=6)
    assert_same_trials(together, alone)
    claimed = [event.arm for event in events if isinstance(event, LotClaimed)]
    assert (claimed, _most_at_once(events)) == (["one", "two", "three", "four", "five"], 4)


@pytest.mark.parametrize(("memory", "at_once"), [(14, 5), (8, 3)])
def test_a_device_is_filled_twice_if_its_memory_allows(
    store: Store, monkeypatch: pytest.MonkeyPatch, memory: int, at_once: int
) -> None:
    monkeypatch.setattr(side_by_side, "has_room_for_others", lambda device: True)
    monkeypatch.setattr(prepared, "device_capacity", lambda arm, device: 7)
    monkeypatch.setattr(prepared, "memory_capacity", lambda arm, device: memory)
    _, events = worked(store, few_trials(), population=6)
    assert _most_at_once(events) == at_once


@pytest.mark.parametrize(("sampler", "at_once"), [("tpe", 1), ("random", 4)])
def test_lots_of_one_arm_wait_for_scores_if_its_sampler_learns(
    store: Store, monkeypatch: pytest.MonkeyPatch, sampler: str, at_once: int
) -> None:
    monkeypatch.setattr(side_by_side, "has_room_for_others", lambda device: True)
    monkeypatch.setattr(prepared, "device_capacity", lambda arm, device: 6)
    monkeypatch.setattr(worker, "AHEAD", 1)
    _, events = worked(store, [arm("one", num_trials=12, num_steps=20, sampler=sampler)], population=3)
    assert _most_at_once(events) == at_once


def test_workers_side_by_side_leave_a_sampler_time_to_learn(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second has room for all that is left, and takes as much as it needs to have something to do."""
    monkeypatch.setattr(side_by_side, "has_room_for_others", lambda device: True)
    monkeypatch.setattr(prepared, "device_capacity", lambda arm, device: 100)
    monkeypatch.setattr(worker, "AHEAD", 0)  # so that each takes all that it takes before it trains
    arms = [arm(name, num_trials=9, num_steps=20, sampler="tpe") for name in ("one", "two")]
    store.add_study(STUDY, arms)
    taken: dict[str, int] = {}

    def second(event: TuningEvent) -> None:
        if isinstance(event, Trained | Waiting):
            taken.setdefault("by both", len(Lots(store, STUDY).all()))

    def first(event: TuningEvent) -> None:
        if isinstance(event, Trained) and not taken:
            taken["by the first"] = len(Lots(store, STUDY).all())
            work(store, STUDY, arms, Work(population=3, report=second, stop=lambda: "by both" in taken))

    assert work(store, STUDY, arms, Work(population=3, report=first))
    assert taken == {"by the first": 2, "by both": 3}
    assert_nothing_is_lost_or_doubled(store, arms)


def test_lots_side_by_side_share_the_multiprocessors(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them fills twice as much of the device; when it has ended, the other has all of it."""
    seen: dict[str, list[int]] = {"one": [], "two": []}

    def look(event: TuningEvent) -> None:
        if isinstance(event, Trained):
            seen[event.arm].append(sharing.processors(torch.device("cpu")).own)

    monkeypatch.setattr(sharing, "_all_processors", lambda device: 60)
    monkeypatch.setattr(side_by_side, "has_room_for_others", lambda device: True)
    monkeypatch.setattr(prepared, "device_capacity", lambda arm, device: {"one": 6, "two": 12}[arm.name])
    arms = [arm("one", num_trials=2, num_steps=20), arm("two", num_trials=2, num_steps=40)]
    store.add_study(STUDY, arms)
    assert work(store, STUDY, arms, Work(population=6, report=look, report_every=1))
    assert set(seen["one"]) == {40}
    assert set(seen["two"]) == {20, 60}
    assert sharing.processors(torch.device("cpu")) == (60, 60)


def test_small_populations_leave_room_whatever_the_arm_has_left(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "has_room_for_others", lambda device: True)
    monkeypatch.setattr(prepared, "device_capacity", lambda arm, device: 6)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    many = [arm("one", num_trials=6, num_steps=20, population=2), arm("two", num_trials=6, num_steps=20, population=3)]
    _, events = worked(store, many)
    sizes = [event.num_trials for event in events if isinstance(event, LotClaimed)]
    assert sorted(sizes) == [2, 2, 2, 3, 3]
    assert _most_at_once(events) == 2


def test_a_device_is_given_work_before_the_next_points_are_looked_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "has_room_for_others", lambda device: True)
    monkeypatch.setattr(prepared, "device_capacity", lambda arm, device: 4)
    monkeypatch.setattr(worker, "AHEAD", 7)
    one = arm("one", num_trials=4, num_steps=5, population=2, sampler="tpe")
    arms = [one, arm("two", num_trials=2, num_steps=40)]
    store.add_study(STUDY, arms)
    events: list[TuningEvent] = []
    assert work(store, STUDY, arms, Work(population=2, report=events.append, report_every=1))

    def place(kind: type[TuningEvent], name: str, lot: int) -> int:
        found = [isinstance(event, kind) and (event.arm, event.lot) == (name, lot) for event in events]
        return found.index(True)

    between = events[place(LotFinished, "one", 0) : place(LotClaimed, "one", 1)]
    assert sum(isinstance(each, Trained) and isinstance(each.event, Stepped) for each in between) == 7


def _most_at_once(events: list[TuningEvent]) -> int:
    found = [0]
    for event in events:
        found.append(found[-1] + isinstance(event, LotClaimed) - isinstance(event, LotFinished))
    return max(found)


def test_all_that_run_side_by_side_are_saved_when_told_to_stop(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = few_trials()
    alone, _ = worked(Store(tmp_path / "alone.db"), arms, population=6)
    monkeypatch.setattr(side_by_side, "has_room_for_others", lambda device: True)
    monkeypatch.setattr(prepared, "device_capacity", lambda arm, device: 6)
    store.add_study(STUDY, arms)
    events: list[TuningEvent] = []

    def stop() -> bool:
        return sum(isinstance(event, Trained) for event in events) > 12

    assert not work(store, STUDY, arms, Work(population=6, report=events.append, report_every=2, stop=stop))
    handed = [event.arm for event in events if isinstance(event, LotHandedBack)]
    saved = [event.arm for event in events if isinstance(event, Trained) and isinstance(event.event, Saved)]
    assert sorted(handed) == sorted(saved) == ["four", "one", "three", "two"]
    assert work(store, STUDY, arms, Work(population=6))
    assert_same_trials(trials_of(store, arms), alone)


def test_lots_that_have_not_begun_when_told_to_stop_do_not_begin(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their first steps may take long, for kernels are compiled."""
    arms = few_trials()
    monkeypatch.setattr(side_by_side, "has_room_for_others", lambda device: True)
    monkeypatch.setattr(prepared, "device_capacity", lambda arm, device: 6)
    store.add_study(STUDY, arms)
    events: list[TuningEvent] = []

    def stop() -> bool:
        return any(isinstance(event, Trained) for event in events)

    assert not work(store, STUDY, arms, Work(population=6, report=events.append, stop=stop))
    begun = [event.arm for event in events if isinstance(event, Trained) and isinstance(event.event, Started)]
    handed = [event.arm for event in events if isinstance(event, LotHandedBack)]
    assert len(begun) == 1
    assert sorted(handed) == ["four", "one", "three", "two"]
    assert work(store, STUDY, arms, Work(population=6))


def test_all_that_run_side_by_side_share_a_pace(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Pace] = []

    class Recorded(Pace):
        def of_a_run(self) -> Any:
            made.append(self)
            return super().of_a_run()

    monkeypatch.setattr(lot_training, "Pace", Recorded)
    monkeypatch.setattr(side_by_side, "has_room_for_others", lambda device: True)
    monkeypatch.setattr(prepared, "device_capacity", lambda arm, device: 6)
    worked(store, few_trials(), population=6)
    assert len(made) == 5
    assert len(set(map(id, made))) == 1


def test_a_record_can_be_gone_on_with_whoever_stopped_before_a_lot_began(store: Store, tmp_path: Path) -> None:
    """Somebody takes the first lot, somebody else the second and ends it; the first is handed back as it was."""
    one = arm(num_trials=8)
    store.add_study(STUDY, [one])
    first: list[bool] = []

    def told(event: TuningEvent) -> None:
        if isinstance(event, LotClaimed) and event.first == 0:
            first.append(True)

    def stop() -> bool:
        if not first:
            return False
        if len(first) == 1:
            first.append(True)
            assert not work(store, STUDY, [one], Work(population=4, stop=lambda: len(trials_of(store, [one])) > 4))
        return True

    assert not work(store, STUDY, [one], Work(population=4, report=told, stop=stop))
    numbers = [trial.number for trial in trials_of(store, [one])]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) == 8


def test_lots_are_alive_before_they_begin_and_handed_back_if_they_never_do(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = few_trials()
    monkeypatch.setattr(side_by_side, "has_room_for_others", lambda device: True)
    monkeypatch.setattr(prepared, "device_capacity", lambda arm, device: 6)
    store.add_study(STUDY, arms)

    def told(event: TuningEvent) -> None:
        if isinstance(event, Trained):
            hearts = [thread for thread in threading.enumerate() if thread.name == "rnnlab heartbeat"]
            assert len(hearts) == 4 + 1  # of all lots, and of the worker's time
            raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        work(store, STUDY, arms, Work(population=6, report=told))
    assert [lot.owner for lot in Lots(store, STUDY).all()] == [None] * 4


def test_worker_learns_of_arms_that_its_study_has_gained(store: Store) -> None:
    """Somebody else has made one, has its first lot, and hands it back."""
    arms = [arm("one", num_trials=2), arm("two", num_trials=4)]
    store.add_study(STUDY, arms[:1])
    events: list[TuningEvent] = []

    def told(event: TuningEvent) -> None:
        if isinstance(event, LotClaimed) and len(store.arms(STUDY)) == 1:
            store.add_study(STUDY, arms, may_gain_arms=True)
            assert not work(store, STUDY, arms, Work(population=2, stop=lambda: bool(Lots(store, STUDY).all()[1:])))
        events.append(event)

    assert work(store, STUDY, arms[:1], Work(population=2, report=told))
    assert [(each.arm, each.number) for each in trials_of(store, arms)] == [
        *(("one", 0), ("one", 1)),
        *(("two", number) for number in range(4)),
    ]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
    ],
    ids=["gpu", "cpu", "python"],
)
def test_too_little_memory_is_one_clear_error_and_loses_nothing(
    error: Exception, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = arm(num_trials=4)
    store.add_study(STUDY, [one])

    def full(*words: Any, **options: Any) -> Any:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(lot_training, "training", full)
        events: list[TuningEvent] = []
        with pytest.raises(TuningError, match="4 trials of gru do not fit into the memory of cpu: give a population b"):
            work(store, STUDY, [one], Work(population=4, report=events.append))
    assert isinstance(events[-1], LotHandedBack)
    assert work(store, STUDY, [one], Work(population=4))
    assert [trial.number for trial in trials_of(store, [one])] == [0, 1, 2, 3]


def test_checkpoint_folder_that_cannot_be_written_is_one_clear_error(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    one = arm(num_trials=4)
    store.add_study(STUDY, [one])
    with pytest.raises(CheckpointError, match="cannot write to"):
        work(store, STUDY, [one], Work(population=4, checkpoints=tmp_path / "file"))
    assert work(store, STUDY, [one], Work(population=4))


@pytest.mark.parametrize(("num_steps", "grace"), [(100_000, 1.0), (30, 600.0)], ids=["by its heart", "at the end"])
def test_worker_whose_lot_was_taken_over_learns_it_and_records_nothing(
    num_steps: int, grace: float, store: Store
) -> None:
    one, events = arm(num_trials=2, num_steps=num_steps), list[TuningEvent]()
    store.add_study(STUDY, [one])

    def told(event: TuningEvent) -> None:
        events.append(event)
        if isinstance(event, Trained) and event.event.step == 20:
            with store.transaction() as connection:
                connection.execute(LOTS.update().values(owner="other", generation=1))

    how = Work(population=2, report=told, report_every=10, grace=grace, stop=lambda: isinstance(events[-1], LotLost))
    assert not work(store, STUDY, [one], how)
    assert max(event.event.step for event in events if isinstance(event, Trained)) < 100_000
    assert not any(trial.has_ended for trial in trials_of(store, [one]))
    assert [lot.owner for lot in Lots(store, STUDY).all()] == ["other"]


@pytest.mark.parametrize(
    "place", [(CheckpointStore, "save"), (lot_training, "population_folder")], ids=["save", "folder"]
)
@pytest.mark.parametrize("is_taken_over", [True, False])
def test_folder_that_vanishes_is_no_error_if_another_worker_has_the_lot(
    is_taken_over: bool, place: tuple[Any, str], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It slept while it saved, or looked for a checkpoint, and the other has ended the lot and cleared all away."""
    one, events = arm(num_trials=2), list[TuningEvent]()
    store.add_study(STUDY, [one])

    error = CheckpointError if place[1] == "save" else TuningError

    def vanish(*given: Any) -> None:
        if is_taken_over:
            with store.transaction() as connection:
                connection.execute(LOTS.update().values(owner="other", generation=1))
        raise error("No such file or directory")

    monkeypatch.setattr(*place, vanish)
    how = Work(population=2, save_every=5, report=events.append, stop=lambda: isinstance(events[-1], LotLost))
    if is_taken_over:
        assert not work(store, STUDY, [one], how)
        assert isinstance(events[-2], LotLost)
        assert [lot.owner for lot in Lots(store, STUDY).all()] == ["other"]
    else:
        with pytest.raises(error, match="No such file"):
            work(store, STUDY, [one], how)
        assert [lot.owner for lot in Lots(store, STUDY).all()] == [None]


def test_heart_learns_that_its_lot_is_another_workers(store: Store) -> None:
    lots = Lots(store, STUDY)
    lot = lots.claim("gru", [], [{"l2": 0.1}], "me")
    assert lot is not None
    with Heart(lambda: lots.beat(lot), 0.01) as heart:
        heart._end.wait(0.1)  # pyright: ignore[reportPrivateUsage]
        assert not heart.is_lost
    make_older(store, 100)
    assert lots.take_over("other") is not None
    with Heart(lambda: lots.beat(lot), 0.01) as heart:
        heart._thread.join(5)  # pyright: ignore[reportPrivateUsage]
        assert heart.is_lost


def test_heart_goes_on_when_the_store_is_out_of_reach_for_a_while(store: Store) -> None:
    answers: Any = iter([TuningError("locked"), TuningError("locked"), True, True])

    def beat() -> bool:
        answer = next(answers, False)
        if isinstance(answer, TuningError):
            raise answer
        return answer

    with Heart(beat, 0.001) as heart:
        heart._thread.join(5)  # pyright: ignore[reportPrivateUsage]
    assert heart.is_lost
    assert next(answers, None) is None


@pytest.mark.parametrize("num_trials", [1, 5, 63, 64, 65, 100, 128, 130, 1000])
@pytest.mark.parametrize("population", [1, 8, 64, 132])
def test_lots_are_as_few_as_can_be_and_none_is_tiny(num_trials: int, population: int) -> None:
    sizes, left = [], num_trials
    while left:
        sizes.append(lot_size(left, population))
        left -= sizes[-1]
    assert sum(sizes) == num_trials
    assert len(sizes) == -(-num_trials // population)
    assert max(sizes) <= population
    assert max(sizes) - min(sizes) <= 1
    assert [place for chunk in chunks(list(range(num_trials)), population) for place in chunk] == list(
        range(num_trials)
    )


def test_population_fits_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    one = arm()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert population_size(one, "cpu") == 24
    assert population_size(one, "cpu", 7) == 7
    assert [population_size(arm(population=size), "cpu") for size in (5, 100)] == [5, 24]
    gpu = SimpleNamespace(multi_processor_count=132, total_memory=140 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    assert population_size(one, "cuda") == 132
    gpu.total_memory = 10 * 2**20
    long = arm(task=task("adding", length=400), units=32)
    small = population_size(long, "cuda")
    assert small == num_fitting(long.architecture, 4, 400, 0.6 * gpu.total_memory)
    assert 1 <= small < 132
    with pytest.raises(TuningError, match="population must be an integer of at least 1, got 0"):
        population_size(one, "cpu", 0)


def test_worker_refuses_what_it_cannot_do() -> None:
    with pytest.raises(TuningError, match="save_every must be an integer of at least 1, got 0"):
        Work(save_every=0)
    with pytest.raises(TuningError, match="grace must be above 0"):
        Work(grace=0)


def test_device_that_is_not_there_is_one_clear_error(store: Store) -> None:
    store.add_study(STUDY, [arm()])
    with pytest.raises(TrainingError, match="device is cpu, cuda or cuda:NUMBER, got 'gpu'"):
        work(store, STUDY, [arm()], Work(device="gpu"))


def test_arm_refuses_what_does_not_fit() -> None:
    with pytest.raises(TuningError, match="num_trials must be an integer of at least 1, got 0"):
        arm(num_trials=0)
    with pytest.raises(TuningError, match="seed must be an integer of at least 0, got -1"):
        arm(seed=-1)
    with pytest.raises(TuningError, match="no sampler is named 'pg'"):
        arm(sampler="pg")
    with pytest.raises(TuningError, match="the grid has 4 points, not 5"):
        arm(sampler="grid", space=SearchSpace([Category("l2", (0.0, 0.1, 0.2, 0.3))]), num_trials=5)
    with pytest.raises(TuningError, match="the name of an arm is a text without slashes"):
        arm("a/b")
    with pytest.raises(TuningError, match=r"arm gru cannot be trained: .*inputs of width 10"):
        type(arm())(**(vars(arm()) | {"task": task("copying", delay=3)}))


def test_arm_comes_back_from_json_also_with_a_task_of_ones_own(tmp_path: Path) -> None:
    assert type(arm()).from_json(arm().to_json()) == arm()
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom rnnlab.tasks.adding import Adding\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Mine(Adding):\n    extra: int = 1\n"
    )
    one = arm(task=task(str(file), extra=5))
    again = type(one).from_json(one.to_json())
    assert again.task.to_json() == one.task.to_json()
    assert again.to_json()["task"]["name"] == str(file)


def test_hyperparameters_not_tuned_are_the_arms(store: Store) -> None:
    trials, _ = worked(store, [arm(num_trials=2)], population=2)
    base = arm().hyperparameters
    assert isinstance(base, Hyperparameters)
    assert {(trial.hyperparameters.batch_size, trial.hyperparameters.evaluate_every) for trial in trials} == {(4, 10)}
    assert_same_trials(trials, trials)
