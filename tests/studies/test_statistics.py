"""Statistics against scipy, and against numbers worked out by hand (C72-C74)."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from rnnlab import RnnlabError
from rnnlab.report.protocol import GLOSSARY
from rnnlab.studies.statistics import (
    are_equivalent,
    difference_interval,
    explained_share,
    fails_less,
    holm,
    mean_interval,
    pairwise_tests,
    summary,
    tends_lower,
    welch,
)
from rnnlab.studies.welch_table import welch_table


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def sample(seed: int, num: int, scale: float = 1.0) -> list[float]:
    return (scale * generator(seed).lognormal(size=num)).tolist()


scores = st.lists(
    st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda value: round(value, 3)), min_size=2, max_size=9
)


def test_ranks_and_shares_are_tested_where_there_is_something_to_test() -> None:
    some, larger = [1.0, 2.0, None, 3.0], [value + 10 for value in sample(1, 20)]
    unpaired = {"are_paired": False}
    assert tends_lower(some, larger, **unpaired) == pytest.approx(2 / math.comb(23, 3))  # one way, or the other
    assert tends_lower(larger, some, **unpaired) == 1
    assert tends_lower([None], larger, **unpaired) is None
    assert fails_less([1.0] * 3, [None] * 3, **unpaired) == pytest.approx(2 / math.comb(6, 3))
    assert fails_less([None] * 3, [1.0] * 3, **unpaired) == 1
    assert fails_less(some, some, **unpaired) == 1
    assert fails_less([], some, **unpaired) is None


def test_ranks_of_few_scores_with_ties_are_counted_out() -> None:
    unpaired = {"are_paired": False}
    assert tends_lower([0.0] * 3, [1.0] * 3, **unpaired) == pytest.approx(2 / math.comb(6, 3))  # approximately 0.047
    assert tends_lower([0.0, None, 0.0], [1.0] * 30, **unpaired) == pytest.approx(2 / math.comb(32, 2))
    assert tends_lower([0.0, 1.0], [1.0, 2.0], **unpaired) == pytest.approx(2 * 2 / 6)  # either 1.0 may be the first's
    assert tends_lower([1.0] * 3, [0.0] * 3, **unpaired) == 1
    assert tends_lower([1.0] * 3, [1.0] * 4, **unpaired) == 1
    many, more = [0.0] * 20, [0.0] * 10 + [1.0] * 10
    approximate = 2 * stats.mannwhitneyu(many, more, alternative="less").pvalue
    assert tends_lower(many, more, **unpaired) == pytest.approx(approximate)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=5), st.lists(st.integers(0, 3), min_size=2, max_size=5))
def test_ranks_of_scores_with_ties_agree_with_permutations(first: list[int], second: list[int]) -> None:
    def below(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.sum(a[:, None] < b) + np.sum(a[:, None] == b) / 2)

    if len({*first, *second}) < len(first) + len(second):
        theirs = stats.permutation_test((first, second), below, alternative="greater", vectorized=False)
        assert tends_lower(first, second, are_paired=False) == pytest.approx(min(1.0, 2 * theirs.pvalue))


def test_pairs_tell_apart_what_varies_more_between_them() -> None:
    """Settings matter more than cells: a small difference is the same in every pair."""
    first = sample(1, 30)
    second = [value * 1.01 for value in first]
    assert tends_lower(first, second, are_paired=True) == pytest.approx(2 / 2**30, rel=1e-6)
    assert tends_lower(second, first, are_paired=True) == 1
    assert tends_lower(first, second, are_paired=False) == pytest.approx(stats.mannwhitneyu(first, second).pvalue)
    assert tends_lower(first, first, are_paired=True) == 1
    assert tends_lower([None, 1.0], [1.0, None], are_paired=True) is None
    assert fails_less([1.0, 1.0, None], [None, 1.0, None], are_paired=True) == 1
    assert fails_less([1.0] * 9, [None] * 9, are_paired=True) == 2 / 2**9


@pytest.mark.filterwarnings("ignore:Precision loss:RuntimeWarning")  # scipy's, where one sample does not vary
@given(scores, scores)
def test_welch_agrees_with_scipy(first: list[float], second: list[float]) -> None:
    ours = welch(first, second)
    assert ours is not None
    if len(set(first)) == len(set(second)) == 1:
        assert ours.p == float(first[0] == second[0])
        return
    theirs = stats.ttest_ind(first, second, equal_var=False)
    assert ours.t == pytest.approx(theirs.statistic, rel=1e-9, abs=1e-12)
    assert ours.degrees_of_freedom == pytest.approx(theirs.df, rel=1e-9)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-9, abs=1e-300)


def test_welch_agrees_with_scipy_to_the_last_digit_on_ordinary_losses() -> None:
    first, second = sample(0, 1000), sample(1, 800, 1.1)
    ours, theirs = welch(first, second), stats.ttest_ind(first, second, equal_var=False)
    assert (ours.t, ours.degrees_of_freedom, ours.p) == pytest.approx(
        (theirs.statistic, theirs.df, theirs.pvalue), rel=1e-14
    )


def test_welch_sign_says_which_mean_is_larger() -> None:
    """Negative where the second architecture's mean loss is larger (C74)."""
    assert welch([1.0, 2.0], [8.0, 9.0]).t < 0 < welch([8.0, 9.0], [1.0, 2.0]).t


def test_samples_that_do_not_vary_are_equal_or_different() -> None:
    assert welch([1.0, 1.0], [1.0, 1.0]).p == 1.0
    assert welch([0.1] * 3, [0.1] * 10).p == 1.0  # whose means are not the same number when they are summed up
    assert welch([1.0, 1.0], [2.0, 2.0]).p == 0.0
    assert welch([1.0, 1.0], [2.0, 2.0]).t == -math.inf
    assert welch([1.0], [2.0, 2.0]) is None


def test_infeasible_runs_are_left_out_and_counted() -> None:
    with_holes, without = [3.0, None, 1.0, None, 2.0], [3.0, 1.0, 2.0]
    found = summary(with_holes)
    assert (found.num, found.num_infeasible, found.infeasible_share) == (3, 2, 0.4)
    assert (found.least, found.mean, found.median, found.most, found.deviation) == (1.0, 2.0, 2.0, 3.0, 1.0)
    assert found.relative_deviation == 0.5
    assert found.standard_error == pytest.approx(1 / math.sqrt(3))
    other = [5.0, 7.0, 6.5]
    assert welch(with_holes, other) == welch(without, other)
    assert mean_interval(with_holes, generator=generator()) == mean_interval(without, generator=generator())
    assert difference_interval(with_holes, other) == difference_interval(without, other)


@given(scores, scores, st.floats(0.01, 100.0))
def test_equivalence_is_two_one_sided_tests_of_scipy(first: list[float], second: list[float], margin: float) -> None:
    assume(np.std(first) > 1e-9 * max(1.0, np.max(np.abs(first))))
    assume(np.std(second) > 1e-9 * max(1.0, np.max(np.abs(second))))
    above = stats.ttest_ind(np.add(first, margin), second, equal_var=False, alternative="greater").pvalue
    below = stats.ttest_ind(np.subtract(first, margin), second, equal_var=False, alternative="less").pvalue
    assert are_equivalent(first, second, margin) == pytest.approx(max(above, below), rel=1e-6, abs=1e-12)
    assert are_equivalent(first, [1.0], margin) is None


@given(st.lists(st.floats(1.0, 1e6), min_size=3, max_size=9, unique=True), st.floats(-2.0, 2.0))
def test_a_power_law_explains_all_of_itself(sizes: list[float], power: float) -> None:
    assume(abs(power) > 0.01 and max(sizes) / min(sizes) > 1.01)
    assert explained_share(sizes, [size**power for size in sizes]) == pytest.approx(1.0)
    assert explained_share(sizes, [0.5] * len(sizes)) is None
    assert explained_share(sizes[:2], [1.0, 2.0]) is None
    assert explained_share([3.0, 3.0, 3.0], [1.0, 2.0, 3.0]) is None
    assert explained_share(sizes, [0.0, *range(1, len(sizes))]) is None


def test_summary_of_nothing_has_no_numbers() -> None:
    found = summary([None, None])
    assert (found.num, found.num_infeasible) == (0, 2)
    assert all(map(math.isnan, (found.mean, found.median, found.least, found.most, found.deviation)))
    assert summary([]).infeasible_share == 0.0
    assert math.isnan(summary([1.0]).deviation)
    assert math.isnan(summary([]).standard_error)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_agrees_with_its_definition(p_values: list[float]) -> None:
    """The k-th smallest of m values times m - k, never below the ones before, never above 1."""
    adjusted = holm(p_values)
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    for rank, place in enumerate(order):
        expected = max(min(1.0, (len(p_values) - k) * p_values[order[k]]) for k in range(rank + 1))
        assert adjusted[place] == expected


def test_holm_rejects_what_stepping_down_rejects() -> None:
    """0.01 <= 0.05 / 4, 0.015 <= 0.05 / 3, 0.03 > 0.05 / 2: the first two are rejected, and no others."""
    assert [p < 0.05 for p in holm([0.03, 0.01, 0.04, 0.015])] == [False, True, False, True]


@pytest.mark.parametrize("num", [2, 3, 10, 40])
def test_mean_interval_is_scipys_bca(num: int) -> None:
    values = sample(num, num)
    ours = mean_interval(values, generator=generator())
    theirs = stats.bootstrap((np.array(values),), np.mean, method="BCa", rng=generator(), vectorized=True)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval), rel=1e-12)
    other = mean_interval(values, generator=generator(), confidence=0.8, num_resamples=500)
    theirs = stats.bootstrap((np.array(values),), np.mean, confidence_level=0.8, n_resamples=500, rng=generator())
    assert (other.low, other.high) == pytest.approx(tuple(theirs.confidence_interval), rel=1e-12)


@pytest.mark.filterwarnings("ignore:Precision loss:RuntimeWarning")  # scipy's, where one sample does not vary
@given(scores, scores)
def test_difference_interval_is_scipys_and_agrees_with_p(first: list[float], second: list[float]) -> None:
    ours, p = difference_interval(first, second), welch(first, second).p
    assert (ours.low <= 0 <= ours.high) == (p >= 0.05)
    if len(set(first)) == len(set(second)) == 1:
        assert (ours.low, ours.high) == (first[0] - second[0],) * 2
        return
    for confidence in (0.95, 0.8):
        ours = difference_interval(first, second, confidence=confidence)
        theirs = stats.ttest_ind(first, second, equal_var=False).confidence_interval(confidence)
        assert (ours.low, ours.high) == pytest.approx(tuple(theirs), rel=1e-9, abs=1e-9)


def test_intervals_hold_the_true_mean_about_as_often_as_they_say() -> None:
    """95 of 100 for samples of 20; the bootstrap of so few is known to hold it a little less often."""
    draw, true = generator(5), math.exp(0.125)
    found = [mean_interval(draw.lognormal(sigma=0.5, size=20), generator=draw, num_resamples=500) for _ in range(300)]
    assert 0.88 < np.mean([each.low <= true <= each.high for each in found]) < 0.98


@pytest.mark.parametrize(
    ("num", "words"), [(3, "72 of 100 cases with three runs"), (5, "84 with five"), (10, "89 with ten")]
)
def test_intervals_of_few_runs_are_too_narrow_by_as_much_as_reports_say(num: int, words: str) -> None:
    draw = generator(7)
    found = [mean_interval(draw.normal(size=num), generator=draw, num_resamples=1000) for _ in range(6000)]
    share = 100 * np.mean([each.low <= 0.0 <= each.high for each in found])
    assert share == pytest.approx(int(words.split()[0]), abs=1)
    assert words in dict(GLOSSARY)["95% interval"]
    page = (Path(__file__).parents[2] / "docs" / "reproduction.md").read_text()
    assert "about 84 times in 100" in " ".join(page.split())


def test_interval_of_equal_scores_is_a_point_and_of_one_there_is_none() -> None:
    found = mean_interval([0.5, 0.5, None], generator=generator())
    assert (found.low, found.high) == (0.5, 0.5)
    assert mean_interval([0.5, None], generator=generator()) is None
    assert difference_interval([0.5, None], [1.0, 2.0]) is None


@pytest.mark.parametrize("wrong", [{"confidence": 1.0}, {"confidence": 0.0}, {"num_resamples": 3}])
def test_intervals_refuse_what_makes_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(RnnlabError, match=next(iter(wrong))):
        mean_interval([1.0, 2.0], generator=generator(), **wrong)


@pytest.mark.parametrize("confidence", [0.0, 1.0])
def test_intervals_of_differences_refuse_what_makes_no_sense(confidence: float) -> None:
    with pytest.raises(RnnlabError, match="confidence is between 0 and 1"):
        difference_interval([1.0, 2.0], [3.0, 4.0], confidence=confidence)


def test_randomness_is_the_generators() -> None:
    values = sample(1, 10)
    assert mean_interval(values, generator=generator(1)) == mean_interval(values, generator=generator(1))
    assert mean_interval(values, generator=generator(1)) != mean_interval(values, generator=generator(2))


def test_pairwise_tests_correct_for_all_pairs_that_can_be_tested() -> None:
    samples = {"a": [1.0, 1.1, 1.2], "b": [3.0, 3.1, 3.3], "c": [1.05, 1.2, 1.1], "d": [2.0, None, None]}
    found = pairwise_tests(samples)
    assert [(test.first, test.second) for test in found] == [
        *(("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")),
    ]
    tested = [test for test in found if test.welch is not None]
    assert [(test.first, test.second) for test in tested] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [test.adjusted_p for test in tested] == holm([test.welch.p for test in tested])
    assert [test.is_significant(0.05) for test in found] == [True, False, False, True, False, False]
    assert found[0].difference == pytest.approx(1.1 - 9.4 / 3)
    assert found[0].interval.low < found[0].difference < found[0].interval.high < 0
    assert found[2].difference == pytest.approx(-0.9)
    assert found[2].interval is None


def test_table_of_two_depths_has_the_papers_form() -> None:
    """All pairs in alphabetical order, t, df and p for each depth, and +RNN at depth 8 only (C18, C74)."""
    losses = {name: sample(seed, 60, 1 + seed / 4) for seed, name in enumerate(("GRU", "IRNN", "LSTM", "RNN", "UGRNN"))}
    deep = losses | {"+RNN": sample(9, 80, 0.5)}
    table = welch_table({"1 layer": losses, "8 layers": deep})
    assert len(table.rows) == 15
    assert [(row.first, row.second) for row in table.rows][:6] == [
        *(("+RNN", "GRU"), ("+RNN", "IRNN"), ("+RNN", "LSTM"), ("+RNN", "RNN"), ("+RNN", "UGRNN"), ("GRU", "IRNN")),
    ]
    assert [row.tests[0] is None for row in table.rows] == [True] * 5 + [False] * 10
    gru, irnn = table.rows[5].tests[0], welch(losses["GRU"], losses["IRNN"])
    assert gru == irnn
    lines = str(table).splitlines()
    assert lines[0].split() == ["1", "layer", "8", "layers"]
    assert lines[1].split() == ["t", "df", "p"] * 2
    assert lines[2].split()[:6] == ["+RNN", "vs", "GRU", "-", "-", "-"]
    assert lines[7].split()[3:5] == [f"{irnn.t:.3g}", f"{irnn.degrees_of_freedom:.3g}"]
    assert table.to_json()["rows"][5]["tests"][0]["t"] == irnn.t
