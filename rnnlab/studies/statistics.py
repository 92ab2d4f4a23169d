"""Statistics of scores: summaries, tests of two samples, Holm's correction, intervals (C71-C74).

A run that diverged has no score, and is None here: it is left out of every number except the count of such runs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from rnnlab.errors import TuningError

CONFIDENCE = 0.95
NUM_RESAMPLES = 9_999
MOST_DIVISIONS = 20_000
"""Into so many pairs of groups at most, scores with ties are divided one by one: ten and ten have more."""

Scores = Sequence[float | None]


@dataclass(frozen=True)
class Interval:
    """The values between which something lies.

    Args:
        low, high: its ends.
        confidence: with what probability.
    """

    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Summary:
    """Runs in numbers, as in Collins et al.'s table App.1 (C73).

    Args:
        num: how many runs have a score; the others count only in `num_infeasible`.
        num_infeasible: how many have none.
        least, mean, median, most: of the scores; NaN where there are none.
        deviation: their standard deviation (of a sample, divided by num - 1); NaN where there are fewer than two.
    """

    num: int
    num_infeasible: int
    least: float
    mean: float
    median: float
    most: float
    deviation: float

    @property
    def standard_error(self) -> float:
        """How far the mean may be off; NaN where there are fewer than two scores."""
        return self.deviation / math.sqrt(self.num) if self.num else math.nan

    @property
    def infeasible_share(self) -> float:
        """The share of runs without a score; 0 where there are no runs."""
        total = self.num + self.num_infeasible
        return self.num_infeasible / total if total else 0.0

    @property
    def relative_deviation(self) -> float:
        """SD / mean."""
        return self.deviation / self.mean


def feasible(scores: Scores) -> np.ndarray:
    """The scores of runs that have one."""
    return np.array([score for score in scores if score is not None], dtype=float)


def summary(scores: Scores) -> Summary:
    """Summarise runs.

    >>> summary([1.0, 2.0, None, 6.0])
    Summary(num=3, num_infeasible=1, least=1.0, mean=3.0, median=2.0, most=6.0, deviation=2.6457513110645907)
    """
    found = feasible(scores)
    num = len(found)
    return Summary(
        num=num,
        num_infeasible=len(scores) - num,
        least=float(np.min(found)) if num else math.nan,
        mean=_mean(found) if num else math.nan,
        median=float(np.median(found)) if num else math.nan,
        most=float(np.max(found)) if num else math.nan,
        deviation=float(np.std(found, ddof=1)) if num > 1 else math.nan,
    )


@dataclass(frozen=True)
class Welch:
    """Welch's test of two samples.

    Args:
        t: the first mean minus the second, over the standard error of the difference; negative where the second mean is
            larger (C74).
        degrees_of_freedom: after Welch and Satterthwaite.
        p: how often chance alone would produce a difference at least this large.
    """

    t: float
    degrees_of_freedom: float
    p: float


def welch(first: Scores, second: Scores) -> Welch | None:
    """Test whether two samples have the same mean, without assuming that they vary equally; two-sided.

    Samples that do not vary at all are equal (p 1) or different (p 0), with as many degrees of freedom as Student's
    test would have.

    Returns:
        None where a sample has fewer than two scores.

    >>> welch([1.0, 2.0, 3.0], [2.0, 4.0, 9.0])
    Welch(t=-1.3887301496588274, degrees_of_freedom=2.3058823529411763, p=0.2838344049617087)
    """
    from scipy.special import stdtr

    a, b = feasible(first), feasible(second)
    if min(len(a), len(b)) < 2:
        return None
    difference, errors = _mean(a) - _mean(b), _squared_errors(a, b)
    if sum(errors) == 0:
        return _without_variance(difference, len(a) + len(b) - 2)
    t = difference / math.sqrt(sum(errors))
    parts = sum(error**2 / (len(each) - 1) for error, each in zip(errors, (a, b), strict=True))
    freedom = sum(errors) ** 2 / parts
    return Welch(t, freedom, float(2 * stdtr(freedom, -abs(t))))


def are_equivalent(first: Scores, second: Scores, margin: float) -> float | None:
    """p of the two one-sided tests of Welch: how likely means that differ by the margin or more come out so close.

    Returns:
        None where a sample has fewer than two scores.

    >>> are_equivalent([1.0, 1.1, 0.9, 1.0], [1.0, 1.1, 1.0, 1.0], 0.5) < 0.001
    True
    >>> are_equivalent([1.0, 1.1, 0.9, 1.0], [1.0, 1.1, 1.0, 1.0], 0.05) > 0.1
    True
    """
    from scipy.special import stdtr

    above, below = (welch([ours + moved for ours in feasible(first)], second) for moved in (margin, -margin))
    if above is None or below is None:
        return None
    return float(max(stdtr(above.degrees_of_freedom, -above.t), stdtr(below.degrees_of_freedom, below.t)))


def explained_share(sizes: Sequence[float], scores: Sequence[float]) -> float | None:
    """How much of the variance of scores' logarithms a power law of the sizes explains, from 0 to 1.

    Returns:
        None if it cannot be computed: with fewer than three scores, with equal scores, with equal sizes, or with scores
        that are not above 0 and so have no logarithm.

    >>> explained_share([1, 10, 100], [8.0, 4.0, 2.0]), explained_share([1, 1, 2], [8.0, 2.0, 4.0])
    (1.0, 0.0)
    """
    if len(scores) < 3 or min(scores) <= 0 or len(set(sizes)) < 2 or len(set(scores)) < 2:
        return None
    found = np.corrcoef(np.log(sizes), np.log(scores))[0, 1] ** 2
    return float(round(found, 12))


def _squared_errors(*samples: np.ndarray) -> list[float]:
    """The squared standard errors of means; exactly 0 for equal values, whose variance may be rounded."""
    return [float(np.var(each, ddof=1)) / len(each) if np.ptp(each) else 0.0 for each in samples]


def _mean(values: np.ndarray) -> float:
    """The mean; for equal values, whose sum may be rounded, exactly that value."""
    return float(np.mean(values)) if np.ptp(values) else float(values[0])


def _without_variance(difference: float, freedom: float) -> Welch:
    if difference == 0:
        return Welch(0.0, freedom, 1.0)
    return Welch(math.copysign(math.inf, difference), freedom, 0.0)


def tends_lower(first: Scores, second: Scores, *, are_paired: bool) -> float | None:
    """How often chance alone would put the first scores this far below the second ones, or above them: a test of ranks.

    Pairs are compared by Wilcoxon's test of their differences, other samples by Mann and Whitney's. If the first scores
    lie above the second ones, the result is 1.

    Args:
        first, second: the scores.
        are_paired: whether scores at the same place belong together; pairs with a missing score are left out.

    Returns:
        None where there is nothing to compare.

    >>> tends_lower([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, None, 7.0, 1e9], are_paired=False)
    0.02857142857142857
    >>> tends_lower([1.0, 2.0, None, 4.0, 5.0, 6.0], [1.1, 2.2, 3.0, 4.3, 5.4, 6.5], are_paired=True)
    0.0625
    """
    from scipy.stats import mannwhitneyu, wilcoxon

    if are_paired:
        both = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
        differences = np.array([a - b for a, b in both if a != b])
        if not both:
            return None
        result: Any = wilcoxon(differences, alternative="less") if len(differences) else None
        return 1.0 if result is None else min(1.0, 2 * float(result.pvalue))
    a, b = feasible(first), feasible(second)
    if not (len(a) and len(b)):
        return None
    has_ties = len({*a, *b}) < len(a) + len(b)
    if has_ties and math.comb(len(a) + len(b), len(a)) <= MOST_DIVISIONS:
        return min(1.0, 2 * _exact_p_of_ranks(a, b))
    return min(1.0, 2 * float(mannwhitneyu(a, b, alternative="less").pvalue))


def _exact_p_of_ranks(a: np.ndarray, b: np.ndarray) -> float:
    """The share of all divisions into groups of these sizes that give the first group ranks this low.

    For scores with ties scipy uses a normal approximation, which for three against three gives 0.05 instead of 0.1.
    """
    from scipy.stats import rankdata

    ranks = [round(2 * rank) for rank in rankdata([*a, *b])]  # doubled, those of ties are whole too
    sums = np.array([sum(some) for some in combinations(ranks, len(a))])
    return float(np.mean(sums <= sum(ranks[: len(a)])))


def fails_less(first: Scores, second: Scores, *, are_paired: bool) -> float | None:
    """How often chance alone would make the first runs fail this much less often than the second ones, or more often.

    Pairs are compared by McNemar's exact test, other samples by Fisher's; arguments and result are as in `tends_lower`.

    >>> fails_less([1.0] * 9 + [None], [1.0] * 2 + [None] * 8, are_paired=False)
    0.005477494641581329
    >>> fails_less([1.0] * 9 + [None], [1.0] * 3 + [None] * 7, are_paired=True)
    0.03125
    """
    from scipy.stats import binomtest, fisher_exact

    if not (first and second):
        return None
    if are_paired:
        differing = [a is None for a, b in zip(first, second, strict=True) if (a is None) != (b is None)]
        if not differing:
            return 1.0
        return min(1.0, 2 * float(binomtest(sum(differing), len(differing), alternative="less").pvalue))
    counts = [[each.num_infeasible, each.num] for each in (summary(first), summary(second))]
    result: Any = fisher_exact(counts, alternative="less")  # scipy leaves its type open
    return min(1.0, 2 * float(result.pvalue))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: p values, in the same order, corrected for the number of tests.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


@dataclass(frozen=True)
class PairTest:
    """A test of two of several samples.

    Args:
        first, second: their names.
        difference: the first mean minus the second; None where one of them has no score.
        interval: of the difference, after Welch, for this pair alone; None where a sample has fewer than two scores.
        welch: the test; None where a sample has fewer than two scores.
        adjusted_p: p after Holm's correction for all pairs.
    """

    first: str
    second: str
    difference: float | None
    interval: Interval | None
    welch: Welch | None
    adjusted_p: float | None

    def is_significant(self, level: float) -> bool:
        """Whether the samples differ, at a level such as 0.05."""
        return self.adjusted_p is not None and self.adjusted_p < level


def pairwise_tests(samples: Mapping[str, Scores]) -> tuple[PairTest, ...]:
    """Test all pairs of samples, in order, with Holm's correction for all of them together (C74).

    Args:
        samples: scores by name; None for a run without one.
    """
    pairs = list(combinations(samples, 2))
    tests = [welch(samples[first], samples[second]) for first, second in pairs]
    adjusted = iter(holm([test.p for test in tests if test is not None]))
    return tuple(
        PairTest(
            first,
            second,
            _difference(samples[first], samples[second]),
            difference_interval(samples[first], samples[second]),
            test,
            None if test is None else next(adjusted),
        )
        for (first, second), test in zip(pairs, tests, strict=True)
    )


def _difference(first: Scores, second: Scores) -> float | None:
    a, b = feasible(first), feasible(second)
    return _mean(a) - _mean(b) if len(a) and len(b) else None


def mean_interval(
    scores: Scores,
    *,
    generator: np.random.Generator,
    confidence: float = CONFIDENCE,
    num_resamples: int = NUM_RESAMPLES,
) -> Interval | None:
    """Where the mean of all possible runs lies: the bias-corrected and accelerated (BCa) bootstrap.

    It is too narrow for few runs: for normally distributed scores it contains the mean 72 times in 100 with three, 84
    times with five and 89 times with ten.

    Args:
        scores: those of some runs.
        generator: of the resamples.
        confidence: the probability to aim for.
        num_resamples: how many to draw.

    Returns:
        None where there are fewer than two scores.
    """
    found = feasible(scores)
    _check(confidence)
    if num_resamples < 100:
        raise TuningError(f"num_resamples must be at least 100, got {num_resamples!r}")
    if len(found) < 2:
        return None
    if np.ptp(found) == 0:
        return Interval(float(found[0]), float(found[0]), confidence)
    means = _resampled_means(found, num_resamples, generator)
    shares = _corrected(_shares(confidence), found, means)
    low, high = np.quantile(means, shares)
    return Interval(float(low), float(high), confidence)


def difference_interval(first: Scores, second: Scores, *, confidence: float = CONFIDENCE) -> Interval | None:
    """Where the difference of two means lies: Welch's interval, which excludes 0 exactly if `welch` gives a small p.

    Returns:
        None where a sample has fewer than two scores.

    >>> difference_interval([1.0, 2.0, 3.0], [2.0, 4.0, 9.0])
    Interval(low=-11.2..., high=5.2..., confidence=0.95)
    """
    from scipy.special import stdtrit

    _check(confidence)
    test = welch(first, second)
    if test is None:
        return None
    a, b = feasible(first), feasible(second)
    reach = float(stdtrit(test.degrees_of_freedom, (1 + confidence) / 2)) * math.sqrt(sum(_squared_errors(a, b)))
    difference = _mean(a) - _mean(b)
    return Interval(difference - reach, difference + reach, confidence)


def _check(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise TuningError(f"confidence is between 0 and 1, got {confidence!r}")


def _shares(confidence: float) -> np.ndarray:
    return np.array([(1 - confidence) / 2, (1 + confidence) / 2])


def _resampled_means(values: np.ndarray, num_resamples: int, generator: np.random.Generator) -> np.ndarray:
    return values[generator.integers(0, len(values), (num_resamples, len(values)))].mean(axis=1)


def _corrected(shares: np.ndarray, values: np.ndarray, means: np.ndarray) -> np.ndarray:
    """The shares that a BCa interval takes in place of plain percentiles (Efron 1987)."""
    from scipy.special import ndtr, ndtri

    mean = values.mean()
    below = (np.mean(means < mean) + np.mean(means <= mean)) / 2
    bias = ndtri(below)
    without = (values.sum() - values) / (len(values) - 1)  # the mean with each value left out
    away = without.mean() - without
    acceleration = np.sum(away**3) / (6 * np.sum(away**2) ** 1.5)
    shifted = bias + ndtri(shares)
    return ndtr(bias + shifted / (1 - acceleration * shifted))
