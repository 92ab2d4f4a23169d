"""Axes as numbers: which part of the values to show, on which scale, with which ticks."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LEAST_DECADES = 1.2  # values that span less are easier to read on a linear scale
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Axis:
    """What an axis shows.

    Args:
        low, high: its ends.
        is_log: whether equal ratios, rather than equal differences, have equal lengths.
        ticks: the values with a mark.
    """

    low: float
    high: float
    is_log: bool
    ticks: tuple[float, ...]

    def share(self, value: float) -> float:
        """How far along the axis a value lies, from 0 to 1; values beyond its ends lie at the ends."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.is_log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return (at - low) / (high - low)

    def holds(self, value: float) -> bool:
        """Whether a value lies between the ends."""
        return self.low <= value <= self.high


def count_axis(first: int, last: int, *, most_ticks: int = 6) -> Axis:
    """An axis for counted things, such as steps or trials, that ends exactly at their range.

    >>> count_axis(1, 32)
    Axis(low=1, high=32, is_log=False, ticks=(10.0, 20.0, 30.0))
    >>> count_axis(1, 3).ticks
    (1.0, 2.0, 3.0)
    """
    wide = _linear_axis(first, max(last, first + 1), most_ticks)
    ticks = tuple(tick for tick in wide.ticks if first <= tick <= last and tick.is_integer())
    return Axis(first, max(last, first + 1), False, ticks or (float(first),))


def axis(values: Iterable[float], *, may_be_log: bool = True, most_ticks: int = 6) -> Axis:
    """An axis for some values: logarithmic where they are positive and far apart.

    >>> axis([0.0, 9.7])
    Axis(low=0.0, high=10.0, is_log=False, ticks=(0.0, 2.0, 4.0, 6.0, 8.0, 10.0))
    >>> axis([0.003, 0.5])
    Axis(low=0.002, high=0.5, is_log=True, ticks=(0.01, 0.1))
    """
    found = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(found), max(found)
    if may_be_log and low > 0 and math.log10(high / low) > LEAST_DECADES:
        return _log_axis(low, high, most_ticks)
    return _linear_axis(low, high, most_ticks)


def _linear_axis(low: float, high: float, most_ticks: int) -> Axis:
    if low == high:
        room = abs(low) / 10 or 1.0
        low, high = low - room, high + room
    step = _nice_step((high - low) / (most_ticks - 1))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(float(f"{number * step:.12g}") for number in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], False, ticks)


def _nice_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, ... that is no smaller."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _log_axis(low: float, high: float, most_ticks: int) -> Axis:
    """Ends at 1, 2 or 5 times a power of ten; ticks at the powers, at some of them where there are many.

    >>> _log_axis(0.003, 0.05, 5)
    Axis(low=0.002, high=0.05, is_log=True, ticks=(0.002, 0.005, 0.01, 0.02, 0.05))
    """
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    ends = [float(f"{factor}e{power}") for power in powers for factor in (1, 2, 5)]
    first = max(end for end in ends if end <= low * (1 + 1e-9))
    last = min(end for end in ends if end >= high * (1 - 1e-9))
    inside = [float(f"1e{power}") for power in powers if first <= float(f"1e{power}") <= last]
    if len(inside) < 2:  # a single label would not say how wide the axis is
        inside = [end for end in ends if first <= end <= last]
    return Axis(first, last, True, tuple(inside[:: math.ceil(len(inside) / most_ticks)]))


def window(values: Sequence[float], *, better: str, share: float = 0.9) -> list[float]:
    """The values that an axis should cover: of the worst tenth, none that lies far beyond all others.

    A few trials with absurd losses would squeeze everything else into a line. They are drawn at the edge.

    >>> window([0.1, 0.2, 0.3, 0.4, 1e9], better="lower")
    [0.1, 0.2, 0.3, 0.4]
    """
    bulk = best_of(values, better=better, share=share)
    if len(bulk) < 2:
        return bulk
    sign = _sign(better)
    limit = sign * bulk[-1] + _room([sign * value for value in bulk])
    kept = (value for value in values if math.isfinite(value) and sign * value <= limit)
    return sorted(kept, key=lambda value: sign * value)


def near(levels: Iterable[float], values: Sequence[float], *, most_widths: float = 4.0) -> list[float]:
    """The levels that an axis, linear or logarithmic, can show without squeezing the values into a line.

    >>> near([10.2], [3.3, 3.4, 3.5]), near([0.1], [0.6, 0.9]), near([1.0], [1e-5, 1e-3]), near([10.2], [3.3])
    ([], [0.1], [1.0], [10.2])
    """
    return [level for level in levels if _is_near(level, values, most_widths)]


def _is_near(level: float, values: Sequence[float], most_widths: float) -> bool:
    low, high = min(values, default=level), max(values, default=level)
    room = most_widths * (high - low)
    if low == high or low - room <= level <= high + room:  # a single value cannot be pressed any further
        return True
    return min(level, low) > 0 and (low / high) ** most_widths <= level / low <= (high / low) ** (most_widths + 1)


def best_of(values: Sequence[float], *, better: str, share: float = 0.9) -> list[float]:
    """The best share of values, from the best on; of fewer than ten all but the worst, of one or two all.

    >>> best_of([0.3, 0.1, 0.2, 5.0], better="lower")
    [0.1, 0.2, 0.3]
    """
    sign = _sign(better)
    ordered = sorted((value for value in values if math.isfinite(value)), key=lambda value: sign * value)
    if len(ordered) < 3:
        return ordered
    return ordered[: max(2, math.ceil(share * len(ordered) - 1e-9) if len(ordered) > 9 else len(ordered) - 1)]


def _sign(better: str) -> float:
    return 1.0 if better == "lower" else -1.0


def _room(bulk: Sequence[float]) -> float:
    """How far beyond the bulk a value may lie: as far as it is wide, or a factor of ten where all are positive."""
    width = bulk[-1] - bulk[0]
    return max(width, 9 * bulk[-1]) if bulk[0] > 0 else width


def tick_label(value: float) -> str:
    """A tick in words: plain where that is short, else as a power of ten; thousands as k.

    >>> [tick_label(value) for value in (0.0, 0.05, 1.0, 1e-5, 2000.0, 1e6, 1e9, 2.5)]
    ['0', '0.05', '1', '10⁻⁵', '2k', '1M', '10⁹', '2.5']
    """
    if value == 0:
        return "0"
    size = abs(value)
    if size < 1e-3 or size >= 1e8:
        power = math.floor(math.log10(size) + 1e-12)
        factor = f"{value / 10.0**power:.3g}"
        return ("" if factor == "1" else f"{factor}·") + "10" + str(power).translate(_SUPERSCRIPTS)
    for unit, suffix in ((1e6, "M"), (1e3, "k")):
        if size >= unit:
            return f"{value / unit:.6g}{suffix}"
    return f"{value:.6g}"
