"""When runs are saved."""

from datetime import timedelta

import pytest

from rnnlab.errors import TrainingError
from rnnlab.training import pace
from rnnlab.training.pace import SHARE, Pace, saves


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


def test_saving_takes_a_small_part_of_the_time(clock: Clock) -> None:
    """Runs in turns, each of which takes a second to save: twenty of them would have no time for anything else."""
    together = Pace(timedelta(seconds=30))
    runs = [saves(together) for _ in range(20)]
    spent, began = 0.0, clock.now
    for step in range(20_000):
        for run in runs:
            clock.now += 0.01
            if run.is_due(step):
                clock.now += 1.0
                spent += 1.0
                run.took(1.0)
    assert 0.5 * SHARE < spent / (clock.now - began) < 1.1 * SHARE


def test_all_runs_are_saved_as_often(clock: Clock) -> None:
    together = Pace(timedelta(seconds=30))
    runs = [saves(together) for _ in range(3)]
    counts = [0] * len(runs)
    for step in range(10_000):
        for number, run in enumerate(runs):
            clock.now += 0.1
            if run.is_due(step):
                counts[number] += 1
                run.took(10.0 * number)
    assert min(counts) > 3
    assert max(counts) - min(counts) <= 1


def test_a_run_that_has_ended_no_longer_counts() -> None:
    together = Pace(timedelta(seconds=30))
    first, second = saves(together), saves(together)
    first.took(6.0)
    second.took(3.0)
    assert together.seconds == pytest.approx(9.0 / SHARE)
    del first
    assert together.seconds == pytest.approx(3.0 / SHARE)
    del second
    assert together.seconds == 30.0
