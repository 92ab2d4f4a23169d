"""The verdict of a comparison, in sentences that need no statistics to understand."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from rnnlab.studies.statistics import PairTest, Summary
from rnnlab.tasks.task import Score

MOST_NAMES = 6
"""How many names a sentence may list."""

DIGITS, MOST_DIGITS = 3, 5
"""Of a number in words."""

LEARNED = 0.05  # the share of the way from chance to the best score that counts as having learned anything


@dataclass(frozen=True)
class Verdict:
    """The conclusion of a comparison.

    Args:
        winner: the architecture that is significantly better than all others; None if there is none.
        leaders: the architecture with the best mean and those that do not differ significantly from it, best first.
        sentence: the conclusion in one sentence.
        details: further sentences: how certain it is, which architectures cannot be judged, and which have learned
            nothing.
    """

    winner: str | None
    leaders: tuple[str, ...]
    sentence: str
    details: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((self.sentence, *self.details))


def judge(
    score: Score,
    own: Mapping[str, Score],
    summaries: Mapping[str, Summary],
    tests: Sequence[PairTest],
    level: float,
    sample: str,
) -> Verdict:
    """Judge architectures by tests of all pairs.

    Args:
        score: what is compared, and whether lower or higher values are better.
        own: the same for each architecture, with the best value of its own variant of the task.
        summaries: the runs of each architecture.
        tests: Welch's tests of all pairs, corrected.
        level: how small a corrected p value must be.
        sample: whether the runs differ in their `seeds`, or are the `trials` of tuning.
    """
    sign = -1 if score.better == "higher" else 1
    judged = sorted(
        (name for name, each in summaries.items() if each.num > 1), key=lambda name: sign * summaries[name].mean
    )
    case = _Case(score, own, summaries, {frozenset((test.first, test.second)): test for test in tests}, level, sample)
    if not judged:
        return Verdict(None, (), case.nobody_judged(), tuple(case.runs()))
    others = [name for name in judged[1:] if not case.differ(judged[0], name)]
    leaders = (judged[0], *others)
    beaten = [name for name in judged if name not in leaders]
    if case.idle(judged) == judged:
        return Verdict(None, leaders, case.nobody_learned(judged), (case.means(judged), *case.runs()))
    winner = judged[0] if beaten and not others else None
    details = tuple(case.details(judged, leaders, beaten))
    return Verdict(winner, leaders, case.sentence(judged, leaders, beaten), details)


def without_seeds(score: Score, best: Mapping[str, float | None]) -> Verdict:
    """The verdict on trials that a sampler chose: each depends on earlier ones, so no test is made of them.

    Args:
        score: what is compared.
        best: the best trial of each architecture on validation; None if none has a score.
    """
    sign = -1 if score.better == "higher" else 1
    known = {name: value for name, value in best.items() if value is not None}
    ranked = sorted(known, key=lambda name: sign * known[name])
    sentence = (
        "No verdict without runs over several seeds: the trials of tuning were not drawn at random, "
        "so no statistical test applies to them."
    )
    shares = ", ".join(f"{name} {shown(known[name])}" for name in ranked)
    details = (
        (f"Best trials, {quantity(score)} on validation data: {shares}; {score.better} is better.",) if ranked else ()
    )
    return Verdict(None, (), sentence, details)


@dataclass(frozen=True)
class _Case:
    """The facts of a comparison, and how to put them into words."""

    score: Score
    own: Mapping[str, Score]
    summaries: Mapping[str, Summary]
    tests: Mapping[frozenset[str], PairTest]
    level: float
    sample: str

    def differ(self, first: str, second: str) -> bool:
        return self.tests[frozenset((first, second))].is_significant(self.level)

    def p(self, first: str, second: str) -> float:
        return self.tests[frozenset((first, second))].adjusted_p or 0.0

    def mean(self, name: str) -> str:
        return shown(self.summaries[name].mean, self.summaries[name].standard_error)

    def average(self, name: str) -> str:
        return f"{self.mean(name)} on average over {self.summaries[name].num} {self.sample}"

    def sentence(self, judged: Sequence[str], leaders: Sequence[str], beaten: Sequence[str]) -> str:
        if len(self.summaries) == 1:
            return f"Nothing to compare {judged[0]} with: its {quantity(self.score)} is {self.average(judged[0])}."
        if len(judged) == 1:
            return f"No comparison: {judged[0]} is the only architecture with two or more runs that did not diverge."
        if len(leaders) == 1:
            best = judged[0]
            return f"{best} is best: its {quantity(self.score)} is {self.average(best)}{self.gap(best, judged[1])}."
        if not self.significant(judged):
            names = "the two" if len(judged) == 2 else f"the {len(judged)} architectures"
            return (
                f"No significant difference between {names}: chance alone, that is, variation between {self.sample}, "
                "could explain why their averages differ."
            )
        better = f"and is significantly better than {listed(beaten, 'others')}, " if beaten else ""
        extreme = "highest" if self.score.better == "higher" else "lowest"
        return (
            f"No clear winner: {leaders[0]} has the {extreme} average {quantity(self.score)}, {self.mean(leaders[0])}, "
            f"{better}but its lead over {listed(leaders[1:], 'others')} is not significant."
        )

    def significant(self, judged: Sequence[str]) -> list[tuple[str, str]]:
        """Pairs that differ, the better one first."""
        return [(one, other) for one, other in combinations(judged, 2) if self.differ(one, other)]

    def gap(self, best: str, other: str) -> str:
        """How far the next best is behind, in words that suit the size of the gap."""
        ours, theirs = self.summaries[best].mean, self.summaries[other].mean
        if self.score.better == "lower" and theirs >= 2 * ours > 0:
            ratio = shown_ratio(theirs / ours)
            return f"; that of {other}, the next best, is {ratio} times as large ({self.mean(other)})"
        if self.score.better == "higher":
            gap = f"{shown(ours - theirs)} above"
        else:
            gap = f"{shown(theirs - ours)} below" if ours <= 0 else f"{100 * (1 - ours / theirs):.2g}% below"
        return f", {gap} that of {other}, the next best ({self.mean(other)})"

    def details(self, judged: Sequence[str], leaders: Sequence[str], beaten: Sequence[str]) -> list[str]:
        found: list[str] = []
        if beaten:
            found.append(self.sureness(leaders, beaten))
        elif len(judged) > 1:
            found.append(self.means(judged))
        if len(leaders) > 1 and beaten:
            found.append(self.means(judged))
        return [*found, *self.other_pairs(judged[1:]), *self.runs(), *self.some_learned_nothing(judged)]

    def other_pairs(self, judged: Sequence[str]) -> list[str]:
        """Which of the other architectures are better than which; if there are many such pairs, only their number."""
        pairs = self.significant(judged)
        if pairs and len(judged) >= MOST_NAMES:
            return [
                f"Among the others, {len(pairs)} pairs differ significantly; the report has the tests of all pairs."
            ]
        return [
            f"{name} is significantly better than {listed([worse for better, worse in pairs if better == name])}."
            for name in dict.fromkeys(better for better, _ in pairs)
        ]

    def sureness(self, leaders: Sequence[str], beaten: Sequence[str]) -> str:
        worst = max(self.p(leaders[0], name) for name in beaten)
        odds = "fewer than 1 of 1000" if worst < 0.001 else f"about 1 of {max(2, round(1 / worst))}"
        who = beaten[0] if len(beaten) == 1 else f"one of {listed(beaten, 'others')}"
        num_tests = sum(test.welch is not None for test in self.tests.values())
        corrected = f", corrected for {num_tests} pairs" if num_tests > 1 else ""
        return (
            f"How certain: if {who} were really as good as {leaders[0]}, chance alone would produce such a difference "
            f"in {odds} comparisons (Welch's t-test{corrected})."
        )

    def means(self, judged: Sequence[str]) -> str:
        shares = ", ".join(f"{name} {self.mean(name)}" for name in judged)
        return f"Average {quantity(self.score)}: {shares}; {self.score.better} is better."

    def runs(self) -> list[str]:
        """How many runs the verdict is based on, and which of them diverged."""
        totals = {each.num + each.num_infeasible for each in self.summaries.values()}
        low, high = min(totals), max(totals)
        unit = self.sample.removesuffix("s") if low == high == 1 else self.sample
        found = [f"Runs of each architecture: {low if low == high else f'{low} to {high}'} {unit}."]
        lost = [name for name, each in self.summaries.items() if each.num_infeasible and not each.num]
        if len(lost) > 1:
            found.append(f"All runs of {listed(lost)} diverged, so they cannot be judged.")
        for name, each in self.summaries.items():
            if high and not each.num + each.num_infeasible:
                found.append(f"{name} has no runs, so it cannot be judged.")
            if each.num_infeasible and not (name in lost and len(lost) > 1):
                runs = "run of" if each.num_infeasible == 1 else "runs of"
                end = "so it cannot be judged" if each.num < 2 else f"so it is judged by the other {each.num}"
                found.append(f"{each.num_infeasible} {runs} {name} diverged, {end}.")
        return found

    def idle(self, judged: Sequence[str]) -> list[str]:
        """Which architectures have learned nothing; none for trials of tuning, whose average cannot tell."""
        if self.sample == "trials":
            return []
        return [name for name in judged if not has_learned(self.own[name], self.summaries[name].mean)]

    def nobody_judged(self) -> str:
        if any(each.num_infeasible for each in self.summaries.values()):
            return "No verdict: no architecture has two or more runs that did not diverge."
        return "No verdict: no architecture has more than one run, and a single run proves nothing."

    def nobody_learned(self, judged: Sequence[str]) -> str:
        is_alone = len(judged) == 1
        who = f"{judged[0]} has not" if is_alone else "None of them has"
        what = "its average is not clearly" if is_alone else "none of their averages is clearly"
        return (
            f"{who} learned the task: {what} better than chance ({self.chance()}). "
            "This comparison therefore says little about the architectures. Train longer, tune more, or make the task "
            "easier."
        )

    def some_learned_nothing(self, judged: Sequence[str]) -> list[str]:
        idle = self.idle(judged)
        if not idle or len(idle) == len(judged):
            return []
        return [
            f"{listed(idle, 'of them')} {'is' if len(idle) == 1 else 'are'} not clearly better than chance "
            f"({self.chance()})."
        ]

    def chance(self) -> str:
        assert not isinstance(self.score.chance, tuple)  # if members have chances of their own, none counts as idle
        return f"score {shown(self.score.chance)}; baseline: {self.score.baseline}"


def has_learned(score: Score, value: float) -> bool:
    """Whether a score is clearly better than that of a network that ignores its input."""
    if isinstance(score.chance, tuple) or not math.isfinite(value):
        return True
    best = score.best if isinstance(score.best, float | int) else None
    way = abs(score.chance - best) if best is not None else abs(score.chance)
    gain = value - score.chance if score.better == "higher" else score.chance - value
    return gain > LEARNED * way


def quantity(score: Score) -> str:
    """A score in words, with its unit unless its name states it already.

    >>> quantity(Score(name="cross_entropy", unit="nats per step", better="lower", chance=1.0, baseline="guess"))
    'cross entropy (nats per step)'
    >>> quantity(Score(name="nats_per_step", unit="nats per step", better="lower", chance=1.0, baseline="guess"))
    'nats per step'
    """
    words = [{"mse": "mean squared error"}.get(word, word) for word in score.name.split("_")]
    name = " ".join(words)
    return name if score.unit in name else f"{name} ({score.unit})"


def shown(value: float, error: float = math.nan) -> str:
    """A number with three digits, or more if its error is smaller than that.

    >>> shown(0.0021345), shown(1234.5), shown(2.5e-7)
    ('0.00213', '1230', '2.5e-07')
    >>> shown(1.66071, error=0.0011), shown(1.66071, error=0.1), shown(1.66071, error=1e-9)
    ('1.661', '1.66', '1.6607')
    """
    digits = DIGITS
    if value and math.isfinite(value) and error > 0:
        digits += math.floor(math.log10(abs(value))) - math.floor(math.log10(error)) - DIGITS + 1
    return f"{float(f'{value:.{min(max(digits, DIGITS), MOST_DIGITS)}g}'):g}"


def listed(names: Sequence[str], many: str = "") -> str:
    """Names as in a sentence; more than MOST_NAMES are only counted, if `many` gives a word for them.

    >>> listed(["sh"]), listed(["sh", "st"]), listed(["sh", "st", "td"])
    ('sh', 'sh and st', 'sh, st and td')
    >>> listed(list("abcdefghi"), "others")
    '9 others'
    """
    if many and len(names) > MOST_NAMES:
        return f"{len(names)} {many}"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def shown_ratio(ratio: float) -> str:
    """A ratio with two digits.

    >>> shown_ratio(2.345), shown_ratio(1234.0)
    ('2.3', '1200')
    """
    return f"{float(f'{ratio:.2g}'):g}"
