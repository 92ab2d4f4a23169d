"""When runs are saved."""

from datetime import timedelta
from pathlib import Path

import pytest

from rnnlab import Hyperparameters, TrainingError, architecture, task, train
from rnnlab.training import pace
from rnnlab.training.pace import MOST_SECONDS, SHARE, Pace, saves


class Clock:
    """Time that passes only when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pace, "time", clock)
    return clock


def test_steps_are_counted() -> None:
    assert [step for step in range(1, 13) if saves(5).is_due(step)] == [5, 10]
    with pytest.raises(TrainingError, match="save_every must be an integer of at least 1, got 0"):
        saves(0)


def test_time_counts_from_the_first_step_after_a_save(clock: Clock) -> None:
    run = saves(timedelta(seconds=30))
    assert not run.is_due(1)
    clock.now += 29.9
    assert not run.is_due(2)
    clock.now += 0.1
    assert run.is_due(3)
    assert run.is_due(4)  # until it is saved
    run.took(0.01)
    clock.now += 100.0  # somebody else's turn
    assert not run.is_due(5)
    clock.now += 30.0
    assert run.is_due(6)


def spent_in_saves(clock: Clock, together: Pace, num_steps: list[int], seconds: float) -> float:
    """The share of time that goes into saves of batches of runs that take turns, each save of so many seconds."""
    spent, began = 0.0, clock.now
    for count in num_steps:
        runs = [saves(together) for _ in range(20)]
        for step in range(count):
            for run in runs:
                clock.now += 0.01
                if run.is_due(step):
                    clock.now += seconds
                    spent += seconds
                    run.took(seconds)
    return spent / (clock.now - began)


@pytest.mark.parametrize("num_steps", [[20_000], [300] * 40])
def test_saving_takes_a_small_part_of_the_time(clock: Clock, num_steps: list[int]) -> None:
    """Of long runs and of short ones, each of which takes a second to save: every half a minute, they would do little
    else."""
    assert spent_in_saves(clock, Pace(timedelta(seconds=30)), num_steps, 1.0) < 1.1 * SHARE


def test_long_runs_are_saved_nevertheless(clock: Clock) -> None:
    assert spent_in_saves(clock, Pace(timedelta(seconds=30)), [20_000], 1.0) > 0.5 * SHARE


def test_all_runs_are_saved_as_often(clock: Clock) -> None:
    together = Pace(timedelta(seconds=30))
    runs = [saves(together) for _ in range(3)]
    counts = [0] * len(runs)
    for step in range(10_000):
        for number, run in enumerate(runs):
            clock.now += 0.1
            if run.is_due(step):
                counts[number] += 1
                run.took(2.0 * number)
    assert min(counts) > 3
    assert max(counts) - min(counts) <= 1


def test_runs_that_are_left_count() -> None:
    together = Pace(timedelta(seconds=30))
    first, second = saves(together), saves(together)
    first.took(3.0)
    assert together.seconds == pytest.approx(2 * 3.0 / SHARE)
    second.took(5.0)
    assert together.seconds == pytest.approx(2 * 4.0 / SHARE)
    del first
    assert together.seconds == pytest.approx(4.0 / SHARE)
    del second
    assert together.seconds == 30.0


def test_no_save_keeps_others_waiting_for_ever() -> None:
    together = Pace(timedelta(seconds=30))
    run = saves(together)
    run.took(3600.0)
    assert together.seconds == MOST_SECONDS
    rare = Pace(timedelta(hours=1))
    saves(rare).took(3600.0)
    assert rare.seconds == 3600.0


def test_a_run_says_how_long_its_saves_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    monkeypatch.setattr(Pace, "record_cost", lambda self, seconds: told.append(seconds))
    problem = task("adding", length=5, num_evaluation=10)
    net = architecture("sh:tanh", input_size=2, output_size=1, units=3)
    members = Hyperparameters(num_steps=4, evaluate_every=4)
    train(net, problem, members, checkpoint=tmp_path, save_every=timedelta(microseconds=1))
    assert len(told) == 2  # with the first step after a save its time begins
    assert min(told) > 0
