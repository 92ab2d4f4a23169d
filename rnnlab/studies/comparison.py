"""A fair comparison in numbers: what the records of a study say about its architectures.

Each contender was tuned and its best setting trained again over several seeds; these runs' scores on test data are
compared. Where a study has no such runs, all its trials are if they were drawn at random (C71); those of a sampler that
learns, or of a grid, were chosen, and say nothing about chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from rnnlab.errors import GraphError, TuningError
from rnnlab.graph.measures import Measures, measure
from rnnlab.json_values import json_value
from rnnlab.studies.expansion import network_name, size_words
from rnnlab.studies.statistics import Interval, PairTest, Summary, mean_interval, pairwise_tests, summary
from rnnlab.studies.verdict import Verdict, judge, without_seeds
from rnnlab.tasks.memorised import AbstractMemorisedTask
from rnnlab.tasks.task import Score
from rnnlab.tuning.arms import Arm

if TYPE_CHECKING:
    from rnnlab.studies.records import ArmRecord, StudyRecord
    from rnnlab.tuning.trials import Trial

LEVEL = 0.05
"""How small a p value, corrected for all pairs, must be for two architectures to differ."""

Sample = Literal["seeds", "trials"]


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One architecture and how it fared.

    Args:
        name: the name of its arm.
        recurrent_depth, feedforward_depth, recurrent_skip_coefficient: its measures; None if it has none.
        num_parameters: the number of parameters of the network.
        scores: the score of each run on test data; None for a run that diverged.
        summary: the summary of these scores.
        interval: where the mean of all possible runs lies, by bootstrap.
        num_trials, num_infeasible: how many trials tuning had, and how many of them diverged.
        validation: the best score of tuning.
    """

    name: str
    recurrent_depth: Fraction | None
    feedforward_depth: Fraction | None
    recurrent_skip_coefficient: Fraction | None
    num_parameters: int
    scores: tuple[float | None, ...]
    summary: Summary
    interval: Interval | None
    num_trials: int
    num_infeasible: int
    validation: float | None

    @property
    def infeasible_share(self) -> float:
        """The share of tuning's trials that diverged."""
        return self.num_infeasible / self.num_trials if self.num_trials else 0.0

    def to_json(self) -> dict[str, Any]:
        """All numbers; exact ones as strings such as "3/2"."""
        return json_value(vars(self)) | {"infeasible_share": self.infeasible_share}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison of architectures.

    Args:
        study: the name of the study.
        task: what all of them were trained on, in words.
        score: the score by which they are compared.
        sample: whether scores are those of the best setting over `seeds`, or those of all `trials`.
        contenders: the architectures, in the order of the study.
        tests: the tests of all pairs.
        level: the corrected p value below which two architectures differ.
        verdict: what follows from the tests.
    """

    study: str
    task: str
    score: Score
    sample: Sample
    contenders: tuple[Contender, ...]
    tests: tuple[PairTest, ...]
    level: float
    verdict: Verdict

    @property
    def ranked(self) -> tuple[Contender, ...]:
        """The contenders from the best mean to the worst, those without a score last."""
        sign = -1 if self.score.better == "higher" else 1
        known = [each for each in self.contenders if each.summary.num]
        rest = [each for each in self.contenders if not each.summary.num]
        return (*sorted(known, key=lambda each: sign * each.summary.mean), *rest)

    def to_json(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "study": self.study,
            "task": self.task,
            "score": json_value(self.score),
            "sample": self.sample,
            "level": self.level,
            "verdict": json_value(self.verdict),
            "contenders": [each.to_json() for each in self.contenders],
            "tests": json_value(self.tests),
        }


def compare_arms(study: str, records: Sequence["ArmRecord"]) -> Comparison:
    """Compare arms that were trained on the same task.

    Args:
        study: the name of the study.
        records: one for each architecture.

    Raises:
        TuningError: no arm, or arms of different tasks.
    """
    arms = [record.arm for record in records]
    _check(study, arms)
    own, sample = {each.arm.name: own_score(each, arms[0].score) for each in records}, _sample(records)
    score = _shared_score(arms[0].score, tuple(own.values()))
    contenders = tuple(_contender(record, score.name, sample) for record in records)
    are_drawn = sample == "seeds" or all(arm.sampler == "random" for arm in arms)
    drawn = {each.name: each.scores for each in contenders} if are_drawn else {}
    tests = pairwise_tests(drawn)
    if sample == "trials" and any(record.repeated is not None for record in records):
        verdict = Verdict(
            None, (), "No verdict yet: the best settings still have to be trained over several seeds.", ()
        )
    elif are_drawn or len(contenders) == 1 or all(_all_diverged(each) for each in contenders):
        verdict = judge(score, own, {each.name: each.summary for each in contenders}, tests, LEVEL, sample)
    else:
        verdict = without_seeds(score, {each.name: each.validation for each in contenders})
    return Comparison(
        study=study,
        task=str(arms[0].task),
        score=score,
        sample=sample,
        contenders=contenders,
        tests=tests,
        level=LEVEL,
        verdict=verdict,
    )


def _all_diverged(contender: Contender) -> bool:
    return contender.summary.num_infeasible > 0 and not contender.summary.num


def comparisons(record: "StudyRecord") -> tuple[Comparison, ...]:
    """The comparisons that a study holds: arms of one task, depth and size against each other, in order."""
    return tuple(compare_arms(record.name, group) for group in groups(record.arms))


def groups(records: Sequence["ArmRecord"]) -> list[list["ArmRecord"]]:
    """Arms that are compared with each other; of several groups, each arm is named by what tells it from its own.

    Widths tell groups apart only where an architecture comes in several: networks of equal size may differ in width.
    """
    found = _grouped(records, ("parameters", "depth"))
    named = [[tuple(each.labels.get(key) for key in ("architecture", "cell", "label")) for each in g] for g in found]
    if any(len(set(names)) < len(names) for names in named):
        found = _grouped(records, ("parameters", "depth", "units"))
    return found if len(found) == 1 else [_shortly_named(group) for group in found]


def _shortly_named(group: Sequence["ArmRecord"]) -> list["ArmRecord"]:
    """The arms of a group without what all of them have in their names, such as the task and the size."""
    differing = [key for key in ("units", "label") if len({str(each.labels.get(key)) for each in group}) > 1]
    names = [_short_name(each, differing) for each in group]
    return [replace(each, arm=replace(each.arm, name=name)) for each, name in zip(group, names, strict=True)]


def _short_name(record: "ArmRecord", differing: Sequence[str]) -> str:
    labels = record.labels
    words = [network_name(labels)]
    words += [f"units {size_words(labels['units'])}"] if "units" in differing and "units" in labels else []
    words += [labels["label"]] if "label" in differing and "label" in labels else []
    return " ".join(words)


def _grouped(records: Sequence["ArmRecord"], keys: Sequence[str]) -> list[list["ArmRecord"]]:
    groups: dict[str, list[ArmRecord]] = {}
    for each in records:
        common = {key: value for key, value in each.labels.items() if key.startswith("task") or key in keys}
        groups.setdefault(str(sorted(common.items())), []).append(each)
    return list(groups.values())


def _check(study: str, arms: Sequence[Arm]) -> None:
    if not arms:
        raise TuningError(f"study {study!r} has no architectures to compare")
    if len(found := {str(arm.task) for arm in arms}) > 1:
        raise TuningError(f"architectures are compared on one task, got {', '.join(sorted(found))}")


def _sample(records: Sequence["ArmRecord"]) -> Sample:
    return "seeds" if any(record.repeats for record in records) else "trials"


def _contender(record: "ArmRecord", score: str, sample: Sample) -> Contender:
    runs = record.repeats if sample == "seeds" else record.trials
    scores = tuple(score_on_test(trial, score) for trial in runs if trial.has_ended)
    measures, tuned = measures_of(record.arm), [trial for trial in record.trials if trial.has_ended]
    return Contender(
        name=record.arm.name,
        recurrent_depth=None if measures is None else measures.recurrent_depth,
        feedforward_depth=None if measures is None else measures.feedforward_depth,
        recurrent_skip_coefficient=None if measures is None else measures.recurrent_skip_coefficient,
        num_parameters=record.arm.architecture.num_parameters(),
        scores=scores,
        summary=summary(scores),
        interval=mean_interval(scores, generator=np.random.default_rng(0)),  # equal scores, equal intervals
        num_trials=len(tuned),
        num_infeasible=sum(trial.state == "infeasible" for trial in tuned),
        validation=None if record.best is None else record.best.value,
    )


def own_score(record: "ArmRecord", score: Score) -> Score:
    """The score of the task that an arm's result was trained on: tuning may have chosen its number of samples.

    Args:
        record: of the arm.
        score: that of the task before tuning. It stays so where nothing is learned by heart: what is best then is
            the same for all arguments, and the chance beside it can take seconds to measure.
    """
    task, chosen = record.arm.task, record.chosen
    if chosen is None or not chosen.arguments or not isinstance(task, AbstractMemorisedTask):
        return score
    return replace(cast(Any, task), **chosen.arguments).scores[0]


def _shared_score(score: Score, own: Sequence[Score]) -> Score:
    """What all are compared by, with a best value only where tuning has left it as it was."""
    return score if {each.best for each in own} == {score.best} else replace(score, best=None)


def score_on_test(trial: "Trial", score: str) -> float | None:
    """A run's score on test data; None where it diverged."""
    return trial.scores.get("test", {}).get(score) if trial.state == "complete" else None


def measures_of(arm: Arm) -> Measures | None:
    """The measures of an arm's architecture; None for one that runs in both directions of time (Z16)."""
    try:
        return measure(arm.architecture.graph)
    except GraphError:
        return None
