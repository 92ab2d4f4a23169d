"""Times of training steps, side by side: the sides take turns, so that all of them see the same noise."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Side = Callable[[int], list[float]]
"""Runs so many steps and returns the seconds that each took; a step starts when the one before is finished."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How often to measure.

    Args:
        rounds: how many turns each side gets.
        turn_seconds: how long a turn should last; short steps are repeated within it.
        most_seconds: how long all turns of a side may last; slow steps get fewer turns, but three if `rounds` does.
    """

    rounds: int = 7
    turn_seconds: float = 0.1
    most_seconds: float = 20.0

    def num_rounds(self, slowest: float) -> int:
        """How many turns each side gets where the slowest takes that many seconds a step."""
        longest_turn = max(self.turn_seconds, slowest) + slowest  # the first step of a turn is not counted
        return max(min(3, self.rounds), min(self.rounds, int(self.most_seconds / longest_turn)))

    def steps_a_turn(self, seconds: float) -> int:
        """How many steps of that many seconds make a turn."""
        return max(1, min(50, round(self.turn_seconds / seconds)))


FULL_EFFORT = Effort()
QUICK_EFFORT = Effort(rounds=2, turn_seconds=0.005)


def local(step: Callable[[], object]) -> Side:
    """A step of this process as a side."""
    return lambda count: [_seconds(step) for _ in range(count)]


def _seconds(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def medians(sides: Mapping[str, Side], effort: Effort) -> dict[str, float]:
    """The median milliseconds of a step of each side.

    After a warm-up the sides take turns; every round another one begins, and the first step of a turn, which finds the
    caches full of another side's numbers, is not counted. The garbage collector rests meanwhile.

    >>> found = medians({"fast": lambda n: [0.001] * n, "slow": lambda n: [0.002] * n}, QUICK_EFFORT)
    >>> found == {"fast": 1.0, "slow": 2.0}
    True
    """
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        return {name: statistics.median(seconds) * 1e3 for name, seconds in _in_turns(sides, effort).items()}
    finally:
        if was_enabled:
            gc.enable()


def _in_turns(sides: Mapping[str, Side], effort: Effort) -> dict[str, list[float]]:
    for side in sides.values():
        side(1)
    first = {name: min(side(2)) for name, side in sides.items()}
    found: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for number in range(effort.num_rounds(max(first.values()))):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            found[name] += sides[name](1 + effort.steps_a_turn(first[name]))[1:]
    return found
