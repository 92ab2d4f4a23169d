"""From events to what people and programs see of a study (issue 7, 4)."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from rnnlab.training.events import Started, Stepped
from rnnlab.tuning.events import LotFinished, LotTakenOver, Trained, TrialEnded, Waiting, WorkEnded, WorkStarted
from rnnlab.tuning.live import MOST_ROWS, LiveDisplay
from rnnlab.tuning.lost import WorkerLost
from rnnlab.tuning.progress import PlainLines, Tracker
from rnnlab.tuning.standing import standing
from rnnlab.tuning.store import Store
from rnnlab.tuning.work import Work
from rnnlab.tuning.worker import work
from tests.training.test_progress import Clock
from tests.tuning.small_studies import STUDY, arm

LOT = {"study": STUDY, "arm": "gru", "lot": 1, "first": 4, "num_trials": 4}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a study of two arms, of which the first has four of its eight trials."""
    place = tmp_path_factory.mktemp("progress") / "rnnlab.db"
    store = Store(place)
    arms = [arm(num_trials=8), arm("other", num_trials=8)]
    store.add_study(STUDY, arms)
    store.add_study("one", [arm(num_trials=8)])
    left = iter(range(31))
    work(store, STUDY, arms, Work(population=4, stop=lambda: next(left, None) is None))
    store.close()
    return place


def begun(study: str = STUDY, worker: str = "m:1:a") -> WorkStarted:
    return WorkStarted(study=study, worker=worker, store="rnnlab.db", device="cpu", budgets={}, ended={})


def ended(number: int, value: float | None, arm: str = "gru", study: str = STUDY) -> TrialEnded:
    state = "complete" if value is not None else "infeasible"
    return TrialEnded(study=study, arm=arm, number=number, state=state, value=value, reason=None)


def trained(step: int) -> list[Trained]:
    start = Started(
        step=0,
        architecture="",
        task="",
        population=4,
        num_parameters=1,
        num_steps=100,
        path="cpu",
        score="mse",
        better="lower",
    )
    now = Stepped(step=step, losses=[], learning_rates=[], num_active=4)
    return [Trained(members=[4, 5, 6, 7], event=event, **LOT) for event in (start, now)]


def test_tracker_goes_on_from_what_is_in_the_store(place: Path) -> None:
    tracker = Tracker(place)
    tracker(begun())
    before = standing(Store(place), STUDY)
    assert tuple(tracker.arms.values()) == before
    assert (tracker.num_ended, tracker.num_trials) == (4, 16)
    assert tracker.title() == f"study {STUDY} in rnnlab.db: 2 arms, 16 trials; 4 have ended"
    for event in (ended(4, -1.0), ended(5, None), ended(6, 3.0)):
        tracker(event)
    now = tracker.arms["gru"]
    assert (now.num_ended, now.best, now.best_trial) == (7, -1.0, 4)
    assert now.num_infeasible == before[0].num_infeasible + 1


def test_tracker_sees_arms_that_a_study_has_gained(tmp_path: Path) -> None:
    store, tracker = Store(tmp_path / "rnnlab.db"), Tracker(tmp_path / "rnnlab.db")
    store.add_study(STUDY, [arm(num_trials=8)])
    tracker(begun())
    arms = [arm(num_trials=8), arm("other", num_trials=3), arm("third", num_trials=2)]
    store.add_study(STUDY, arms[:2], may_gain_arms=True)
    tracker(replace(begun(), budgets={"gru": 8, "other": 3}))
    assert tracker.num_trials == 11
    store.add_study(STUDY, arms, may_gain_arms=True)
    tracker(ended(0, 1.0, "third"))  # of a worker that has learned of it
    assert (tracker.num_trials, tracker.num_ended, tracker.arms["third"].best) == (13, 1, 1.0)


def test_time_left_follows_from_the_trials_of_this_run(place: Path) -> None:
    clock = Clock()
    tracker = Tracker(place, clock)
    tracker(begun())
    clock.now += 10
    assert tracker.seconds_left is None
    tracker(ended(4, 0.5))
    tracker(ended(5, 0.5))
    assert tracker.seconds_left == pytest.approx((16 - 6) / (2 / 10))
    for event in trained(50):
        tracker(event)
    assert tracker.under_way() == "4 in training, 50%"
    assert tracker.seconds_left == pytest.approx((16 - 6 - 2) / (4 / 10))
    tracker(LotFinished(**LOT))
    assert tracker.under_way() == ""


def test_budget_that_has_grown_is_seen(place: Path) -> None:
    tracker = Tracker(place)
    tracker(begun())
    before = tracker.num_trials
    tracker(replace(begun(), budgets={"gru": 20, "other": 8}))
    assert (before, tracker.num_trials) == (16, 28)


def test_workers_are_counted(place: Path) -> None:
    tracker = Tracker(place)
    for name in ("m:1:a", "m:2:b", "m:3:c"):
        tracker(begun(worker=name))
    assert tracker.num_workers == 3
    tracker(WorkerLost(study=STUDY, process=1, status=-9, num_left=2))
    assert tracker.num_workers == 2


def test_slow_worker_does_not_bring_the_last_study_back(place: Path) -> None:
    """Several workers tell of what they do; one may still be at what the others have left."""
    tracker = Tracker(place)
    tracker(begun("one"))
    tracker(begun())
    for event in (begun("one"), ended(0, 0.5, study="one")):
        tracker(event)
    tracker(WorkEnded(study="one", is_complete=True, num_trials=0, seconds=1.0))
    assert tracker.started == begun()
    assert (tracker.num_ended, tracker.num_workers) == (4, 1)


def test_trial_counts_once(place: Path) -> None:
    """Though it was in the store already, or was told twice."""
    tracker = Tracker(place)
    tracker(begun())
    for event in (ended(0, -9.0), ended(4, 0.5), ended(4, 0.5)):
        tracker(event)
    assert tracker.num_ended == 5
    assert tracker.arms["gru"].best != -9.0


def test_plain_lines_say_the_beginning_now_and_then_and_the_end(place: Path) -> None:
    clock, stream = Clock(), io.StringIO()
    tell = PlainLines(stream, place, clock)
    tell(begun("one"))
    tell(begun("one", "m:2:b"))
    clock.now += 5
    tell(ended(0, 0.25, study="one"))
    clock.now += 5
    tell(ended(1, None, study="one"))
    tell(LotTakenOver(was_lost=True, **LOT))
    tell(WorkerLost(study="one", process=7, status=-9, num_left=1))
    clock.now += 20
    tell(Waiting(study="one", num_lots=1, grace=60.0))
    tell(Waiting(study="one", num_lots=1, grace=60.0))
    for number in range(2, 8):
        tell(ended(number, 0.5, study="one"))
    tell(WorkEnded(study="one", is_complete=True, num_trials=8, seconds=75.0))
    assert stream.getvalue().splitlines() == [
        "study one in rnnlab.db: 8 trials",
        "2 of 8 trials; 1 infeasible; best mse 0.25; 30 s left",
        "goes on with 4 trials of gru, whose worker was lost",
        "worker 7 is gone (status -9); 1 left",
        "2 of 8 trials; 1 infeasible; best mse 0.25; waits for trials that other workers have (1 min, if killed)",
        "8 of 8 trials have ended, the last after 1 min 15 s",
    ]


def drawn(display: LiveDisplay) -> list[str]:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    with console.capture() as capture:
        console.print(display.render())
    return [line.rstrip() for line in capture.get().splitlines()]


def test_live_display_shows_every_arm(place: Path) -> None:
    clock = Clock()
    display = LiveDisplay(place, console=Console(file=io.StringIO()), clock=clock)
    assert drawn(display) == ["preparing ..."]
    display(begun())
    display(begun(worker="m:2:b"))
    clock.now += 10
    display(ended(4, 0.001))
    display(ended(5, None))
    lines = drawn(display)
    assert lines[0] == f"study {STUDY} in rnnlab.db: 2 arms, 16 trials; 6 have ended"
    assert lines[2].split() == ["arm", "trials", "infeasible", "best"]
    assert lines[3].split()[:4] == ["gru", "6", "of", "8"]
    assert lines[3].split()[-2:] == ["mse", "0.001"]
    assert lines[4].split() == ["other", "0", "of", "8"]
    assert lines[5] == "2 workers; 50 s left"
    display(Waiting(study=STUDY, num_lots=1, grace=60.0))
    assert drawn(display)[5] == "2 workers; waits for trials that other workers have (1 min, if killed)"


def test_live_display_of_many_arms_fits_on_a_screen(tmp_path: Path) -> None:
    store = Store(tmp_path / "many.db")
    store.add_study("many", [arm(f"arm {number}", num_trials=2) for number in range(MOST_ROWS + 5)])
    display = LiveDisplay(tmp_path / "many.db", console=Console(file=io.StringIO()))
    display(begun("many"))
    for number in (0, 1):
        display(ended(number, 0.5, arm="arm 0", study="many"))
    lines = drawn(display)
    assert len(lines) == 3 + MOST_ROWS + 1
    assert lines[-1].startswith("5 more arms")
    assert not any(line.startswith("arm 0 ") for line in lines)  # it is done
