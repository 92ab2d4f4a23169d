"""Comparisons as pure functions of records: measures, scores, tests, verdicts (C72-C74, Z53)."""

import json
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from rnnlab import RnnlabError
from rnnlab.studies.comparison import Comparison, compare_arms, comparisons
from rnnlab.studies.records import ArmRecord, StudyRecord
from rnnlab.studies.statistics import mean_interval, pairwise_tests, summary
from rnnlab.studies.verdict import Verdict, has_learned, judge
from rnnlab.tasks.task import Score
from tests.report.made_records import demo_record, spec, unfinished, with_scores

LOW = Score(name="mse", unit="", better="lower", chance=1.0, baseline="predict 1", best=0.0)
HIGH = Score(name="accuracy", unit="", better="higher", chance=0.1, baseline="guess", best=1.0)


def compared(record: StudyRecord) -> Comparison:
    (found,) = comparisons(record)
    return found


@pytest.fixture(scope="module")
def demo() -> Comparison:
    return compared(demo_record())


def test_contenders_have_measures_sizes_and_scores_of_their_runs(demo: Comparison) -> None:
    record = demo_record()
    assert [each.name for each in demo.contenders] == ["sh", "st", "td", "lstm"]
    measures = [
        (each.recurrent_depth, each.feedforward_depth, each.recurrent_skip_coefficient) for each in demo.contenders
    ]
    assert measures == [(1, 2, 1), (1, 3, 1), (2, 3, 1), (1, 2, 1)]
    assert all(isinstance(value, Fraction) for row in measures for value in row)
    for each, arm in zip(demo.contenders, record.arms, strict=True):
        assert each.num_parameters == arm.arm.architecture.num_parameters() <= 1000
        assert each.scores == tuple(run.scores["test"]["mse"] if run.scores else None for run in arm.repeats)
        assert each.summary == summary(each.scores)
        assert (each.num_trials, each.validation) == (30, arm.best.value)
        assert each.num_infeasible == sum(trial.state == "infeasible" for trial in arm.trials)
        assert each.infeasible_share == each.num_infeasible / 30
    assert (demo.contenders[0].summary.num, demo.contenders[0].summary.num_infeasible) == (9, 1)


def test_ranks_and_tests_follow_from_the_scores(demo: Comparison) -> None:
    assert [each.name for each in demo.ranked] == ["td", "lstm", "st", "sh"]
    samples = {each.name: each.scores for each in demo.contenders}
    expected = pairwise_tests(samples)
    assert [test.welch for test in demo.tests] == [test.welch for test in expected]
    assert [test.adjusted_p for test in demo.tests] == [test.adjusted_p for test in expected]
    assert len(demo.tests) == 6
    low = mean_interval(demo.contenders[1].scores, generator=np.random.default_rng(9)).low
    assert demo.contenders[1].interval.low == pytest.approx(low, rel=0.02)


def test_comparison_is_the_same_whenever_it_is_made(demo: Comparison) -> None:
    assert compared(demo_record()) == demo
    assert compared(StudyRecord.from_json(json.loads(json.dumps(demo_record().to_json())))) == demo


def test_as_json_nothing_is_lost(demo: Comparison) -> None:
    values = json.loads(json.dumps(demo.to_json(), allow_nan=False))
    assert values["contenders"][2]["recurrent_depth"] == "2"
    assert values["contenders"][0]["scores"][3] is None
    assert values["tests"][0]["welch"]["t"] == demo.tests[0].welch.t
    assert values["verdict"]["sentence"] == demo.verdict.sentence


def test_without_seeds_all_trials_are_the_sample() -> None:
    """Random draws (C71): the losses of all of them."""
    record = demo_record(seeds=None, sampler="random")
    found = compared(record)
    assert found.sample == "trials"
    assert found.contenders[0].scores == tuple(
        trial.scores["test"]["mse"] if trial.scores else None for trial in record.arms[0].trials
    )
    assert "Runs of each architecture: 30 trials." in found.verdict.details


def untrained(record: ArmRecord) -> ArmRecord:
    return replace(record, finalists=tuple(replace(each, trials=()) for each in record.finalists))


def test_seeds_that_are_still_to_come_are_waited_for() -> None:
    """Trials of tuning differ by their settings: they say nothing of architectures that are to be judged by seeds."""
    record = demo_record()
    waiting = replace(record, arms=tuple(untrained(each) for each in record.arms))
    assert all(each.repeated is not None for each in waiting.arms)
    found = compared(waiting).verdict
    assert (found.winner, found.leaders) == (None, ())
    assert found.sentence == "No verdict yet: the best settings still have to be trained over several seeds."


@pytest.mark.parametrize("sampler", ["gp", "tpe", "grid"])
def test_trials_that_were_chosen_are_not_tested(sampler: str) -> None:
    """Only those of random draws are a sample of anything (C71)."""
    assert compared(demo_record(seeds=None, sampler="random")).tests
    record = demo_record(seeds=None, sampler=sampler)
    found = compared(record)
    assert found.tests == ()
    assert found.verdict.winner is None
    assert found.verdict.sentence.startswith("No verdict without runs over several seeds: ")
    best = sorted((each.best.value, each.arm.name) for each in record.arms)
    (detail,) = found.verdict.details
    assert detail.startswith("Best trials, mean squared error on validation data: ")
    assert [name for _, name in best] == re.findall(r"(\w+) [\d.]+", detail)


def test_trials_that_still_run_do_not_count() -> None:
    found = compared(unfinished(demo_record()))
    assert [each.num_trials for each in found.contenders] == [29, 30, 30, 30]
    assert len(found.contenders[0].scores) == 29


def test_tasks_sizes_and_depths_are_compared_apart() -> None:
    sizes = demo_record(architectures=["sh", "td"], parameters=[300, 1000], trials=2, seeds=2)
    names = [[each.name for each in found.contenders] for found in comparisons(sizes)]
    assert names == [["sh", "td"], ["sh", "td"]]
    assert [each.arm.name for each in sizes.arms][:2] == ["sh parameters 300", "sh parameters 1000"]
    depths = demo_record(architectures=None, cells=["gru", "lstm"], depths=[1, 2], trials=2, seeds=2)
    names = [[each.name for each in found.contenders] for found in comparisons(depths)]
    assert names == [["gru", "lstm"], ["gru", "lstm"]]
    tasks = [{"name": "adding", "length": length, "num_evaluation": 10} for length in (4, 6)]
    both = demo_record(architectures=["sh", "td"], task=None, tasks=tasks, trials=2, seeds=2)
    assert [found.task for found in comparisons(both)] == [
        *("adding(num_evaluation=10, length=4)", "adding(num_evaluation=10, length=6)"),
    ]


def test_widths_tell_groups_apart_only_where_an_architecture_has_several() -> None:
    """Z57: 128 units against 90 with a skip are one comparison; 4 and 8 units of each are two."""
    arms = [{"architectures": "sh", "units": 8}, {"architectures": "skip-2", "units": 6}]
    zhang = demo_record(architectures=None, parameters=None, arms=arms, trials=2, seeds=2)
    assert [len(found.contenders) for found in comparisons(zhang)] == [2]
    listed = demo_record(architectures=["sh", "td"], parameters=None, units=[4, 8], trials=2, seeds=2)
    assert [len(found.contenders) for found in comparisons(listed)] == [2, 2]


def test_names_have_what_tells_architectures_of_a_comparison_apart() -> None:
    """Task and size are the same for all; widths and labels are not."""
    arms = [{"architectures": ["sh", "td"], "units": 8}, {"architectures": "sh", "units": 6, "label": "small"}]
    tasks = [{"name": "adding", "length": length, "num_evaluation": 10} for length in (4, 6)]
    found = demo_record(architectures=None, parameters=None, task=None, tasks=tasks, arms=arms, trials=2, seeds=2)
    names = [[each.name for each in found.contenders] for found in comparisons(found)]
    assert names == [["sh units 8", "td units 8", "sh units 6 small"]] * 2


def test_arms_of_different_tasks_are_not_compared() -> None:
    one, other = demo_record(trials=2, seeds=2), demo_record(task="copying", trials=2, seeds=2)
    with pytest.raises(RnnlabError, match=r"on one task, got adding.*, copying"):
        compare_arms("mixed", [one.arms[0], other.arms[1]])
    with pytest.raises(RnnlabError, match="no architectures"):
        compare_arms("none", [])


def around(mean: float, spread: float = 0.01, num: int = 10) -> list[float | None]:
    return [mean * (1 + spread * (place % 5 - 2)) for place in range(num)]


def verdict(scores: dict[str, list[float | None]], score: Score = LOW, sample: str = "seeds") -> Verdict:
    tests = pairwise_tests(scores)
    own, summaries = dict.fromkeys(scores, score), {name: summary(values) for name, values in scores.items()}
    return judge(score, own, summaries, tests, 0.05, sample)


def test_winner_differs_from_all_others() -> None:
    found = verdict({"sh": around(0.4), "td": around(0.1), "st": around(0.2)})
    assert (found.winner, found.leaders) == ("td", ("td",))
    assert found.sentence == (
        "td is best: its mean squared error is 0.1 on average over 10 seeds; that of st, the next best, is 2 times as "
        "large (0.2)."
    )
    assert found.details[0] == (
        "How certain: if one of st and sh were really as good as td, chance alone would produce such a difference in "
        "fewer than 1 of 1000 comparisons (Welch's t-test, corrected for 3 pairs)."
    )
    assert found.details[1:] == ("st is significantly better than sh.", "Runs of each architecture: 10 seeds.")
    four = verdict({"sh": around(0.4), "td": around(0.1), "st": around(0.2), "bu": around(0.8)})
    assert four.details[1:3] == ("st is significantly better than sh and bu.", "sh is significantly better than bu.")


def test_higher_scores_win_where_higher_is_better() -> None:
    scores = {"sh": around(0.7), "td": around(0.9)}
    found = verdict(scores, HIGH)
    assert found.winner == "td"
    assert "accuracy is 0.9 on average over 10 seeds, 0.2 above that of sh" in found.sentence
    assert verdict(scores, LOW).winner == "sh"


def test_small_gaps_are_told_in_percent() -> None:
    assert "12% below that of sh" in verdict({"sh": around(0.5), "td": around(0.44)}).sentence


def test_leaders_that_do_not_differ_share_the_lead() -> None:
    found = verdict({"sh": around(0.4), "td": around(0.1, 0.1), "st": around(0.101, 0.1)})
    assert (found.winner, found.leaders) == (None, ("td", "st"))
    assert found.sentence == (
        "No clear winner: td has the lowest average mean squared error, 0.1, and is significantly better than sh, "
        "but its lead over st is not significant."
    )
    assert "Average mean squared error: td 0.1, st 0.101, sh 0.4; lower is better." in found.details
    assert found.details[0].startswith("How certain: if sh were really as good as td, chance alone would produce such")


def test_correction_is_told_for_the_pairs_that_were_tested() -> None:
    two = verdict({"sh": around(0.4), "td": around(0.1)})
    assert two.details[0].endswith("comparisons (Welch's t-test).")
    diverged = verdict({"sh": around(0.4), "td": around(0.1), "st": around(0.2), "bu": [None] * 10})
    assert diverged.details[0].endswith("(Welch's t-test, corrected for 3 pairs).")


def test_of_many_architectures_names_are_only_counted() -> None:
    """Seven share the lead, eight are worse; among those seven are better than one."""
    scores = {f"good {place}": around(0.1 + 0.0001 * place, 0.1) for place in range(7)}
    scores |= {f"bad {place}": around(0.3 + 0.0001 * place, 0.1) for place in range(7)} | {"worst": around(0.6)}
    found = verdict(scores)
    assert found.sentence == (
        "No clear winner: good 0 has the lowest average mean squared error, 0.1, and is significantly better than 8 "
        "others, but its lead over good 1, good 2, good 3, good 4, good 5 and good 6 is not significant."
    )
    assert found.details[0].startswith("How certain: if one of 8 others were really as good as good 0")
    assert "Among the others, 55 pairs differ significantly; the report has the tests of all pairs." in found.details
    assert not any("better than" in line for line in found.details)


def test_no_difference_is_said_to_be_none() -> None:
    found = verdict({"sh": around(0.101, 0.1), "td": around(0.1, 0.1)})
    assert found.winner is None
    assert found.leaders == ("td", "sh")
    assert found.sentence.startswith("No significant difference between the two: chance alone, that is, variation")


def test_best_mean_that_is_no_winner_hides_no_difference_between_others() -> None:
    """b and c differ; a is best on average, but so unsteady that it differs from neither."""
    found = verdict({"a": [0.01, 0.01, 0.01, 0.01, 0.55], "b": around(0.2, num=5), "c": around(0.3, num=5)})
    assert (found.winner, found.leaders) == (None, ("a", "b", "c"))
    assert found.sentence == (
        "No clear winner: a has the lowest average mean squared error, 0.118, "
        "but its lead over b and c is not significant."
    )
    assert "b is significantly better than c." in found.details


def test_architectures_whose_runs_diverged_are_not_judged() -> None:
    found = verdict({"sh": [0.4, *[None] * 9], "td": around(0.1), "st": [*around(0.2, num=8), None, None]})
    assert found.winner == "td"
    assert "9 runs of sh diverged, so it cannot be judged." in found.details
    assert "2 runs of st diverged, so it is judged by the other 8." in found.details
    alone = verdict({"sh": [None] * 10, "td": around(0.1)})
    assert alone.sentence == "No comparison: td is the only architecture with two or more runs that did not diverge."
    assert alone.winner is None
    nobody = verdict({"sh": [None] * 10, "td": [None] * 10})
    assert nobody.sentence == "No verdict: no architecture has two or more runs that did not diverge."
    assert nobody.details == (
        "Runs of each architecture: 10 seeds.",
        "All runs of sh and td diverged, so they cannot be judged.",
    )
    single = verdict({"sh": [0.1], "td": [0.2]}, sample="trials")
    assert single.sentence == "No verdict: no architecture has more than one run, and a single run proves nothing."
    assert single.details == ("Runs of each architecture: 1 trial.",)


def test_architectures_without_a_setting_to_train_again_are_not_forgotten() -> None:
    """All trials of sh diverged in tuning, so that there is nothing to train over seeds."""
    found = verdict({"sh": [], "td": around(0.1), "st": around(0.2)})
    assert found.winner == "td"
    assert found.details[1:] == (
        "Runs of each architecture: 0 to 10 seeds.",
        "sh has no runs, so it cannot be judged.",
    )


def test_one_architecture_stands_alone() -> None:
    assert verdict({"td": around(0.1)}).sentence == (
        "Nothing to compare td with: its mean squared error is 0.1 on average over 10 seeds."
    )


def test_learning_nothing_is_no_victory() -> None:
    found = verdict({"sh": around(1.02), "td": around(0.99)})
    assert found.winner is None
    assert found.sentence.startswith(
        "None of them has learned the task: none of their averages is clearly better than chance "
        "(score 1; baseline: predict 1)"
    )
    assert found.details == (
        "Average mean squared error: td 0.99, sh 1.02; lower is better.",
        "Runs of each architecture: 10 seeds.",
    )
    assert "learned" not in verdict({"sh": around(1.02), "td": around(0.99)}, sample="trials").sentence
    alone = verdict({"td": around(0.99)})
    assert alone.sentence.startswith(
        "td has not learned the task: its average is not clearly better than chance (score 1; baseline: predict 1)"
    )
    some = verdict({"sh": around(1.02), "td": around(0.2)})
    assert some.winner == "td"
    assert some.details[-1] == "sh is not clearly better than chance (score 1; baseline: predict 1)."


def test_learned_means_clearly_better_than_chance() -> None:
    assert [has_learned(LOW, value) for value in (0.99, 0.96, 0.94, 0.0)] == [False, False, True, True]
    assert [has_learned(HIGH, value) for value in (0.1, 0.12, 0.2)] == [False, False, True]
    assert has_learned(replace(LOW, chance=(1.0, 2.0)), 5.0)


@pytest.mark.parametrize(("num_samples", "has_won"), [(200, True), (1000, False), (20_000, False)])
def test_learning_is_judged_by_the_samples_that_tuning_chose(num_samples: int, has_won: bool) -> None:
    """30 bits are much of 200 and less than a twentieth of 1000."""
    task = {"name": "capacity"}  # of 1000 where nobody says otherwise
    scores = {"sh": around(20.0), "td": around(30.0)}
    found = compared(with_scores(scores, task=task, space={"task.num_samples": [num_samples]}))
    assert found.verdict.winner == ("td" if has_won else None)
    assert found.verdict.sentence.startswith("td is best" if has_won else "None of them has learned the task")
    assert found.score.best == (1000.0 if num_samples == 1000 else None)


def test_verdict_needs_significance_after_correction() -> None:
    """p of 0.02 among ten pairs is none."""
    scores = {name: around(0.5, 0.2) for name in "abcd"} | {"e": around(0.36, 0.2)}
    tests = pairwise_tests(scores)
    assert min(test.welch.p for test in tests) < 0.05 < min(test.adjusted_p for test in tests)
    assert verdict(scores).winner is None


def test_record_with_given_scores_comes_to_the_verdict_of_these_scores() -> None:
    scores = {"sh": around(0.1), "td": around(0.02)}
    found = compared(with_scores(scores))
    assert found.verdict.winner == "td"
    assert {each.name: list(each.scores) for each in found.contenders} == scores
    assert spec().seeds == 10
