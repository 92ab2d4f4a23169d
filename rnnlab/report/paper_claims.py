"""A paper's claims, checked on records: which arms were set against each other, and how often it came out so."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from rnnlab.report.paper_values import courses_of, is_higher_better, measured, scores_of, selected
from rnnlab.studies.paper import Claim, Paper
from rnnlab.studies.statistics import Scores, are_equivalent, explained_share, fails_less, tends_lower, welch
from rnnlab.studies.verdict import shown

if TYPE_CHECKING:
    from rnnlab.studies.records import ArmRecord, StudyRecord

LEVEL = 0.05


@dataclass(frozen=True)
class Check:
    """One comparison behind a claim.

    Args:
        first: the arm that should be better, or as good, or that should lie in a range; or what should explain more.
        second: the arm that should be worse, or as good; None for a range; or what should explain less.
        value, other: what was measured of both; or the shares of the scores' variance that they explain.
        holds: whether it came out so.
        p: of a test of the two arms' runs, two-sided, not corrected for their number; None where there is no test.
        test: its name; empty where there is none.
        is_open: whether the runs say neither that the two are as good as claimed, nor that they differ.
    """

    first: str
    second: str | None
    value: float
    other: float | None
    holds: bool
    p: float | None = None
    test: str = ""
    is_open: bool = False


@dataclass(frozen=True)
class CheckedClaim:
    """A claim and what the records say of it.

    Args:
        claim: the paper's.
        checks: all comparisons that the study allows at its scale; none where it lacks the arms, or their scores.
        is_lost: whether it has the arms, and all runs of one side diverged.
    """

    claim: Claim
    checks: tuple[Check, ...]
    is_lost: bool = False

    @property
    def measured(self) -> str:
        """The values that were looked at, of several the least and the largest; nothing where there are none.

        They have three digits, or as many as it takes to tell the ends of one side from those of the other.

        >>> from rnnlab.studies.paper import Claim
        >>> claim = Claim(text="a is better", requirement="Z77", quantity="score", better={"cell": ("a",)},
        ...               worse={"cell": ("b",)}, within=(), where={}, low=None, high=None)
        >>> CheckedClaim(claim, (Check("a", "b", 0.5, 0.7, True, 0.01), Check("a", "c", 0.5, 0.4, False, 0.5))).measured
        '0.5 against 0.4 to 0.7'
        >>> CheckedClaim(claim, (Check("a", "b", 18.1771, 18.1794, True),)).measured
        '18.177 against 18.179'
        """
        ours = [check.value for check in self.checks]
        theirs = [check.other for check in self.checks if check.other is not None]
        sides = [(min(values), max(values)) for values in (ours, theirs) if values]
        alike = [abs(a - b) for a, b in product(*sides) if a != b and shown(a) == shown(b)] if len(sides) > 1 else []
        return " against ".join(_span(*ends, apart=min(alike, default=math.nan)) for ends in sides)

    @property
    def outcome(self) -> str:
        """In words.

        >>> from rnnlab.studies.paper import Claim
        >>> claim = Claim(text="a is better", requirement="Z77", quantity="score", better={"cell": ("a",)},
        ...               worse={"cell": ("b",)}, within=(), where={}, low=None, high=None)
        >>> first = Check("a", "b", 0.5, 0.7, True, 0.01, "Welch")
        >>> CheckedClaim(claim, (first, Check("a", "c", 0.5, 0.4, False, 0.5, "Welch"))).outcome
        'holds in 1 of 2 comparisons; 1 of them significant (Welch, p < 0.05)'
        >>> CheckedClaim(claim, ()).outcome
        'not tested at this scale'
        >>> CheckedClaim(claim, (Check("a", "b", 0.5, 0.7, True, 0.2, "Welch"),)).outcome
        'holds, but not significantly'
        """
        if not self.claim.can_be_checked:
            return "not checked: for readers to judge"
        if not self.checks:
            return "cannot be tested: the runs diverged" if self.is_lost else "not tested at this scale"
        held = [check for check in self.checks if check.holds]
        count = len(self.checks)
        if all(check.is_open for check in self.checks):
            return "cannot be told: neither a difference nor equality is significant"
        unit = "networks" if self.claim.where else "comparisons"
        words = f"holds in {len(held)} of {count} {unit}" if count > 1 else "holds" if held else "does not hold"
        if not any(check.p is not None for check in self.checks):
            return words
        num_significant = sum(check.p is not None and check.p < LEVEL for check in held)
        names = dict.fromkeys(check.test for check in self.checks if check.p is not None)
        test = f"({' or '.join(names)}, p < {LEVEL})"
        if not held:
            return words
        if count == 1:
            return f"{words}, {f'significantly {test}' if num_significant else 'but not significantly'}"
        return f"{words}; {num_significant or 'none'} of them significant {test}"


def _span(least: float, most: float, apart: float) -> str:
    low, high = shown(least, error=apart), shown(most, error=apart)
    return low if low == high else f"{low} to {high}"


def check_claims(record: "StudyRecord", paper: Paper) -> tuple[CheckedClaim, ...]:
    """Every claim of a paper with what the records say of it."""
    return tuple(CheckedClaim(claim, tuple(_checks(record, claim)), _is_lost(record, claim)) for claim in paper.claims)


def _is_lost(record: "StudyRecord", claim: Claim) -> bool:
    """Whether all runs of the arms on one side of a claim diverged."""
    wheres = (claim.better, claim.worse, claim.near, claim.to, claim.where)
    sides = [selected(record.arms, where) for where in wheres if where]
    return all(sides) and any(all(_has_diverged(each) for each in side) for side in sides)


def _has_diverged(record: "ArmRecord") -> bool:
    """Whether an arm has runs that ended, over seeds if there are any, and all of them diverged."""
    ended = [each for each in record.repeats or record.trials if each.has_ended]
    return bool(ended) and all(each.state == "infeasible" for each in ended)


def _checks(record: "StudyRecord", claim: Claim) -> Iterator[Check]:
    if claim.where:
        yield from _in_range(record, claim)
    if claim.explained_by:
        yield from _explained(record, claim)
    for first, second in _pairs_of_arms(record, claim):
        ours, theirs = measured(first, claim.quantity), measured(second, claim.quantity)
        if ours is not None and theirs is not None:
            names, values = (first.arm.name, second.arm.name), (ours.value, theirs.value)
            yield Check(*names, *values, *(_as_good if claim.near else _better)(first, second, values, claim))


def _pairs_of_arms(record: "StudyRecord", claim: Claim) -> Iterator[tuple["ArmRecord", "ArmRecord"]]:
    if not (claim.better or claim.near):
        return
    own, others = (selected(record.arms, where) for where in (claim.better or claim.near, claim.worse or claim.to))
    for first in own:
        for second in others:
            if all(second is not other for other in own) and _may_be_compared(first, second, claim):
                yield first, second


def _may_be_compared(first: "ArmRecord", second: "ArmRecord", claim: Claim) -> bool:
    """Arms of one task, unless tasks are what is compared, that have in common what the claim says."""
    same = claim.within if "task" in claim.better else ("task", *claim.within)
    return all(first.labels.get(key) == second.labels.get(key) for key in same)


Outcome = tuple[bool, float | None, str, bool]
"""Whether a comparison came out as claimed, the p and the name of a test, and whether the runs leave it open."""


def _better(first: "ArmRecord", second: "ArmRecord", values: tuple[float, float], claim: Claim) -> Outcome:
    """Whether the first is better."""
    sign = -1.0 if is_higher_better(first, claim.quantity) else 1.0
    p, test = _tested(first, second, claim.quantity) or (None, "")
    return sign * values[0] < sign * values[1], p, test, False


def _as_good(first: "ArmRecord", second: "ArmRecord", values: tuple[float, float], claim: Claim) -> Outcome:
    """Whether they differ by less than the margin."""
    ours, theirs = (_sample(each, claim.quantity) for each in (first, second))
    p, difference = are_equivalent(ours, theirs, claim.margin), welch(ours, theirs)
    is_open = p is not None and p >= LEVEL and difference is not None and difference.p >= LEVEL
    return abs(values[0] - values[1]) < claim.margin, p, "" if p is None else "two one-sided Welch", is_open


def _sample(record: "ArmRecord", quantity: str) -> Scores:
    """What a quantity is the mean of: runs over seeds, or trials of random settings; nothing where it is none."""
    match quantity:
        case "score" | "mean":
            return scores_of(record, record.repeats)
        case "average":
            return scores_of(record, record.trials)
        case "course":
            return courses_of(record, record.repeats)
        case _:
            return []


def _explained(record: "StudyRecord", claim: Claim) -> Iterator[Check]:
    """Of the arms of each task what both sizes explain."""
    groups: dict[tuple[object, ...], list[ArmRecord]] = {}
    for each in record.arms:
        groups.setdefault(tuple(each.labels.get(key) for key in ("task", *claim.within)), []).append(each)
    for arms in groups.values():
        found = [(each, value.value) for each in arms if (value := measured(each, claim.quantity)) is not None]
        sizes, scores = (claim.explained_by, claim.rather_than), [value for _, value in found]
        shares = [explained_share([_size(each, size) for each, _ in found], scores) for size in sizes]
        if shares[0] is not None and shares[1] is not None:
            yield Check(*sizes, shares[0], shares[1], shares[0] > shares[1])


def _size(record: "ArmRecord", size: str) -> float:
    network = record.arm.architecture
    if size == "parameters":
        return network.num_parameters()
    return max(node.units for node in network.nodes if node.kind == "hidden")


def _tested(first: "ArmRecord", second: "ArmRecord", quantity: str) -> tuple[float | None, str] | None:
    """p and the test's name: of means over seeds, and of medians and shares of random draws.

    One best trial varies with nothing; trials that a sampler chose, each with an eye on those before, are no sample.
    Arms whose spaces are alike draw the same settings, one after another: their trials are pairs.
    """
    over_seeds = bool(first.repeats and second.repeats)
    are_drawn = first.arm.sampler == second.arm.sampler == "random"
    match quantity:
        case "score" | "mean" | "course" if over_seeds:
            found = welch(_sample(first, quantity), _sample(second, quantity))
            return None if found is None else (found.p, "Welch")
        case "average" if are_drawn:
            found = welch(_sample(first, quantity), _sample(second, quantity))
            return None if found is None else (found.p, "Welch")
        case "repeat_infeasible" if over_seeds:
            runs = (scores_of(each, each.repeats) for each in (first, second))
            return fails_less(*runs, are_paired=False), "Fisher"
        case "median" | "infeasible" if are_drawn:
            pairs = _pairs(first, second)
            ours, theirs = pairs or (scores_of(each, each.trials) for each in (first, second))
            if quantity == "infeasible":
                return fails_less(ours, theirs, are_paired=bool(pairs)), "McNemar" if pairs else "Fisher"
            if is_higher_better(first, quantity):
                ours, theirs = theirs, ours
            return tends_lower(ours, theirs, are_paired=bool(pairs)), "Wilcoxon" if pairs else "Mann-Whitney"
        case _:
            return None


def _pairs(first: "ArmRecord", second: "ArmRecord") -> tuple[list[float | None], list[float | None]] | None:
    """The scores of trials of both that have the same setting; None where those of the same number differ."""
    theirs = {trial.number: trial for trial in second.trials if trial.has_ended}
    both = [(trial, theirs[trial.number]) for trial in first.trials if trial.has_ended and trial.number in theirs]
    if not both or any(one.point != other.point for one, other in both):
        return None
    return scores_of(first, [one for one, _ in both]), scores_of(second, [other for _, other in both])


def _in_range(record: "StudyRecord", claim: Claim) -> Iterator[Check]:
    for each in selected(record.arms, claim.where):
        found = measured(each, claim.quantity)
        if found is not None:
            is_high_enough = claim.low is None or found.value >= claim.low
            is_low_enough = claim.high is None or found.value <= claim.high
            yield Check(each.arm.name, None, found.value, None, is_high_enough and is_low_enough)
