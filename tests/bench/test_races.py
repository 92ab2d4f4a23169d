"""Races: who takes part, who is refused, who takes turns, and what stands in the table."""

import gc
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rnnlab.bench.cpu import Benchmark
from rnnlab.bench.race import Contender, race
from rnnlab.bench.rows import Row
from rnnlab.bench.timing import QUICK_EFFORT, Effort, local, medians
from rnnlab.errors import BenchError

FAST = Row(case="tanh (1, 2, 3, 4)", peer="torch.nn.RNN", threads=1, goal=1.2, ours=2.0, theirs=3.0)


def test_ratio_of_times_is_how_many_times_as_fast() -> None:
    assert (FAST.ratio, FAST.is_reached) == (1.5, True)
    slow = replace(FAST, ours=3.0, theirs=2.0)
    assert (slow.ratio, slow.is_reached) == (pytest.approx(2 / 3), False)
    assert replace(FAST, theirs=2.4).is_reached  # just as fast as it should be


def test_ratio_of_memory_is_how_many_times_as_much() -> None:
    row = replace(FAST, unit="mb", goal=1.5)
    assert (row.ratio, row.is_reached) == (pytest.approx(2 / 3), True)
    assert replace(row, ours=9.0).is_reached is False
    assert replace(row, ours=4.5).is_reached is True
    assert replace(row, theirs=0.0).is_reached is False
    assert replace(row, ours=0.0, theirs=0.0).is_reached is True


def test_row_in_the_file_and_on_the_screen() -> None:
    assert FAST.to_json() == {
        "case": "tanh (1, 2, 3, 4)",
        "peer": "torch.nn.RNN",
        "threads": 1,
        "ours_ms": 2.0,
        "peer_ms": 3.0,
        "ratio": 1.5,
        "goal": 1.2,
        "reached": True,
    }
    assert str(FAST).split()[-7:] == ["2.00", "3.00", "ms", "1.50", ">=", "1.2", "reached"]
    assert str(replace(FAST, unit="mb", goal=0.5)).split()[-7:] == ["2.00", "3.00", "MB", "0.67", "<=", "0.5", "missed"]


def test_row_without_numbers_says_why() -> None:
    row = replace(FAST, ours=None, theirs=None, note="jax is not installed")
    assert str(row).endswith("jax is not installed")
    shown = row.to_json()
    assert (shown["ratio"], shown["reached"], shown["note"]) == (None, None, "jax is not installed")


def test_times_and_memory_stand_apart_in_the_file() -> None:
    shown = Benchmark("a machine", {"python": "3"}, (FAST, replace(FAST, unit="mb"))).to_json()
    assert [len(shown["rows"]), len(shown["memory"])] == [1, 1]
    assert shown["memory"][0]["ours_mb"] == 2.0


def test_sides_take_turns_and_another_one_begins_each_round() -> None:
    turns: list[str] = []

    def side(name: str, seconds: float):
        def run(count: int) -> list[float]:
            turns.append(name)
            return [100.0, *[seconds] * (count - 1)] if count > 2 else [seconds] * count  # a turn begins badly

        return run

    effort = Effort(rounds=3, turn_seconds=0.01)
    found = medians({"a": side("a", 0.001), "b": side("b", 0.002), "c": side("c", 0.003)}, effort)
    assert found == pytest.approx({"a": 1.0, "b": 2.0, "c": 3.0})
    assert "".join(turns) == "abc" + "abc" + "abc" + "bca" + "cab"


@pytest.mark.parametrize(("seconds", "rounds"), [(1e-6, 7), (0.1, 7), (2.0, 5), (60.0, 3)])
def test_slow_steps_get_fewer_turns_but_three(seconds: float, rounds: int) -> None:
    assert Effort().num_rounds(seconds) == rounds
    assert QUICK_EFFORT.num_rounds(seconds) == QUICK_EFFORT.rounds == 2


def test_collector_rests_while_a_race_lasts_and_only_then() -> None:
    seen: list[bool] = []
    assert gc.isenabled()
    medians({"": local(lambda: seen.append(gc.isenabled()))}, QUICK_EFFORT)
    assert set(seen) == {False}
    with pytest.raises(ZeroDivisionError):
        medians({"": local(lambda: 1 / 0)}, QUICK_EFFORT)
    assert gc.isenabled()


def never(count: int) -> list[float]:
    raise AssertionError("this side must not be timed")


def test_race_refuses_to_time_a_path_whose_outputs_differ() -> None:
    def differs():
        raise BenchError("outputs differ")

    refused = Contender(peer="a", goal=1.0, prepare=differs)
    (row,) = race("case", 1, never, [refused], QUICK_EFFORT)
    assert (row.ours, row.theirs, row.note, row.is_refused) == (None, None, "outputs differ", True)
    with pytest.raises(BenchError, match="outputs differ"):
        Benchmark("a machine", {}, (FAST, row)).check()

    sound = Contender(peer="b", goal=1.0, prepare=lambda: lambda count: [0.002] * count)
    first, second = race("case", 1, lambda count: [0.001] * count, [refused, sound], QUICK_EFFORT)
    assert first == row
    assert (second.peer, second.ratio) == ("b", 2.0)


def test_race_names_a_peer_that_is_not_installed() -> None:
    absent = Contender(peer="a", goal=1.0, prepare=lambda: never, package="no_such_package")
    (row,) = race("case", 1, never, [absent], QUICK_EFFORT)
    assert "no_such_package is not installed" in row.note
    assert row.is_reached is None
    Benchmark("a machine", {}, (row,)).check()


def test_clock_is_read_around_the_step_alone(monkeypatch) -> None:
    clock = iter([0.0, 3.0, 10.0, 11.0])
    monkeypatch.setattr("rnnlab.bench.timing.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert local(lambda: None)(2) == [3.0, 1.0]
