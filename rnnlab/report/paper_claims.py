"""A paper's claims, checked on records: which arms were set against each other, and how often it came out so."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rnnlab.report.paper_values import is_higher_better, measured, scores_of, selected
from rnnlab.studies.paper import Claim, Paper
from rnnlab.studies.statistics import fails_less, tends_lower, welch
from rnnlab.studies.verdict import shown

if TYPE_CHECKING:
    from rnnlab.studies.records import ArmRecord, StudyRecord

LEVEL = 0.05


@dataclass(frozen=True)
class Check:
    """One comparison behind a claim.

    Args:
        first: the arm that should be better, or that should lie in a range.
        second: the arm that should be worse; None for a range.
        value, other: what was measured of both.
        holds: whether it came out so.
        p: of a test of the two arms' runs, two-sided, not corrected for their number; None where there is no test.
        test: its name; empty where there is none.
    """

    first: str
    second: str | None
    value: float
    other: float | None
    holds: bool
    p: float | None = None
    test: str = ""


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

        >>> from rnnlab.studies.paper import Claim
        >>> claim = Claim(text="a is better", requirement="Z77", quantity="score", better={"cell": ("a",)},
        ...               worse={"cell": ("b",)}, within=(), where={}, low=None, high=None)
        >>> CheckedClaim(claim, (Check("a", "b", 0.5, 0.7, True, 0.01), Check("a", "c", 0.5, 0.4, False, 0.5))).measured
        '0.5 against 0.4 to 0.7'
        """
        ours = [check.value for check in self.checks]
        theirs = [check.other for check in self.checks if check.other is not None]
        return " against ".join(_span(values) for values in (ours, theirs) if values)

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
            return "for readers to judge"
        if not self.checks:
            return "cannot be tested: the runs diverged" if self.is_lost else "not tested at this scale"
        held = [check for check in self.checks if check.holds]
        count = len(self.checks)
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
        return f"{words}; {num_significant} of them significant {test}"


def _span(values: Sequence[float]) -> str:
    low, high = shown(min(values)), shown(max(values))
    return low if low == high else f"{low} to {high}"


def check_claims(record: "StudyRecord", paper: Paper) -> tuple[CheckedClaim, ...]:
    """Every claim of a paper with what the records say of it."""
    return tuple(CheckedClaim(claim, tuple(_checks(record, claim)), _is_lost(record, claim)) for claim in paper.claims)


def _is_lost(record: "StudyRecord", claim: Claim) -> bool:
    """Whether all runs of the arms on one side of a claim diverged."""
    sides = [selected(record.arms, where) for where in (claim.better, claim.worse, claim.where) if where]
    return all(sides) and any(all(_has_diverged(each) for each in side) for side in sides)


def _has_diverged(record: "ArmRecord") -> bool:
    """Whether an arm has runs that ended, over seeds if there are any, and all of them diverged."""
    ended = [each for each in record.repeats or record.trials if each.has_ended]
    return bool(ended) and all(each.state == "infeasible" for each in ended)


def _checks(record: "StudyRecord", claim: Claim) -> Iterator[Check]:
    if claim.where:
        yield from _in_range(record, claim)
    if not claim.better:
        return
    better, worse = selected(record.arms, claim.better), selected(record.arms, claim.worse)
    for first in better:
        for second in worse:
            if all(second is not other for other in better) and _may_be_compared(first, second, claim):
                yield from _compared(first, second, claim.quantity)


def _may_be_compared(first: "ArmRecord", second: "ArmRecord", claim: Claim) -> bool:
    """Arms of one task, unless tasks are what is compared, that have in common what the claim says."""
    same = claim.within if "task" in claim.better else ("task", *claim.within)
    return all(first.labels.get(key) == second.labels.get(key) for key in same)


def _compared(first: "ArmRecord", second: "ArmRecord", quantity: str) -> Iterator[Check]:
    ours, theirs = measured(first, quantity), measured(second, quantity)
    if ours is None or theirs is None:
        return
    sign = -1.0 if is_higher_better(first, quantity) else 1.0
    holds = sign * ours.value < sign * theirs.value
    p, test = _tested(first, second, quantity) or (None, "")
    yield Check(first.arm.name, second.arm.name, ours.value, theirs.value, holds, p, test)


def _tested(first: "ArmRecord", second: "ArmRecord", quantity: str) -> tuple[float | None, str] | None:
    """p and the test's name: of means over seeds, and of medians and shares of random draws.

    One best trial varies with nothing; trials that a sampler chose, each with an eye on those before, are no sample.
    Arms whose spaces are alike draw the same settings, one after another: their trials are pairs.
    """
    over_seeds = bool(first.repeats and second.repeats)
    are_drawn = first.arm.sampler == second.arm.sampler == "random"
    match quantity:
        case "score" | "mean" if over_seeds:
            found = welch(scores_of(first, first.repeats), scores_of(second, second.repeats))
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
