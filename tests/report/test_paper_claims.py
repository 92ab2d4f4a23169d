"""The papers' claims, checked on records whose results are known."""

from dataclasses import replace
from typing import Any

import pytest

from rnnlab.report.figures import figure_html
from rnnlab.report.paper_claims import check_claims
from rnnlab.report.paper_page import paper_html, paper_markdown
from rnnlab.report.paper_values import courses_of
from rnnlab.studies.records import StudyRecord
from rnnlab.studies.specification import StudySpec
from tests.report.made_papers import MNIST, accuracy, made, most_irnns_diverge, table


def claims(found: StudyRecord, *rows: dict[str, Any]) -> list[str]:
    document = dict(found.spec.to_json()) if found.spec else {}
    document["paper"] = document["paper"] | {"claims": [{"text": "x", "requirement": "Z77"} | row for row in rows]}
    spec = StudySpec.from_json(document)
    return [each.outcome for each in check_claims(replace(found, spec=spec), table(replace(found, spec=spec)))]


def test_claims_are_counted_and_tested() -> None:
    levels = {"sh": 0.3, "st": 0.2, "bu": 0.2, "td": 0.1}
    found = made("zhang-table1", "laptop", lambda arm, number: levels[arm.partition(":")[0]] + 0.001 * number)
    td, sh, st = ({"architecture": f"{name}:tanh"} for name in ("td", "sh", "st"))
    rest = {"architecture": ["sh:tanh", "st:tanh", "bu:tanh"]}
    assert claims(
        found,
        {"better": td, "worse": rest},
        {"better": sh, "worse": td},
        {"better": {"architecture": ["bu:tanh", "td:tanh"]}, "worse": st},
        {"better": td, "worse": {"architecture": "grid-2-1:tanh"}},
        {"where": rest, "high": 0.25},
        {"where": td, "low": 0.05, "high": 0.2},
        {"where": td, "low": 0.2},
        {},
    ) == [
        "holds in 3 of 3 comparisons; 3 of them significant (Welch, p < 0.05)",
        "does not hold",
        "holds in 1 of 2 comparisons; 1 of them significant (Welch, p < 0.05)",  # bu and st are equal
        "not tested at this scale",
        "holds in 2 of 3 networks",
        "holds",
        "does not hold",
        "not checked: for readers to judge",
    ]


def test_higher_scores_are_better_where_they_are() -> None:
    found = made("zhang-table2", "gpu", accuracy, arms=MNIST, seeds=3)
    sh, skip = {"architecture": "sh:tanh"}, {"architecture": "skip-5:tanh"}
    assert claims(found, {"better": skip, "worse": sh}, {"better": sh, "worse": skip}) == [
        "holds, significantly (Welch, p < 0.05)",
        "does not hold",
    ]


def test_claims_compare_only_within_what_they_say() -> None:
    found = made("collins-parentheses", "smoke", lambda arm, number: 0.1 if "intersection" in arm else 1.0)
    plus, gru = {"cell": "intersection"}, {"cell": "gru"}
    assert claims(found, {"better": plus, "worse": gru, "quantity": "best"}) == ["holds in 2 of 2 comparisons"]
    assert claims(found, {"better": plus, "worse": gru, "quantity": "best", "within": ["depth"]}) == ["holds"]


def test_medians_are_of_all_trials() -> None:
    values = {"gru": [1.0, 1.0, 10.0], "irnn": [2.0, 2.0, 2.0]}
    found = made("collins-random", "smoke", lambda arm, number: values.get(arm.split()[0], [3.0] * 3)[number], trials=3)
    gru, irnn = {"cell": "gru", "depth": 1}, {"cell": "irnn", "depth": 1}
    assert claims(found, {"better": gru, "worse": irnn, "quantity": "median"}) == ["holds, but not significantly"]
    assert claims(found, {"where": gru, "quantity": "median", "low": 1.0, "high": 1.0}) == ["holds"]


def test_fewer_divergences_are_better() -> None:
    found = made("collins-random", "smoke", most_irnns_diverge)
    gru, irnn = {"cell": "gru", "depth": 1}, {"cell": "irnn", "depth": 1}
    assert claims(found, {"better": gru, "worse": irnn, "quantity": "infeasible"}) == ["holds, but not significantly"]


def test_claims_about_random_draws_are_tested() -> None:
    """But none about trials that a sampler chose (C71, C72)."""

    def value(arm: str, number: int) -> float | None:
        is_gru = arm.startswith("gru")
        return None if number % 10 < (1 if is_gru else 8) else number + (0.0 if is_gru else 25.0)

    rows = [
        {"better": {"cell": "gru", "depth": 1}, "worse": {"cell": "irnn", "depth": 1}, "quantity": quantity}
        for quantity in ("median", "infeasible", "best")
    ]
    assert claims(made("collins-random", "smoke", value, trials=50), *rows) == [
        "holds, significantly (Mann-Whitney, p < 0.05)",
        "holds, significantly (Fisher, p < 0.05)",
        "holds",
    ]
    drawn = made("collins-random", "smoke", value, trials=50)
    points = [trial.point for trial in drawn.arms[0].trials]
    alike = tuple(
        replace(each, trials=tuple(replace(trial, point=points[trial.number]) for trial in each.trials))
        for each in drawn.arms
    )
    assert claims(replace(drawn, arms=alike), *rows) == [  # as cells have that draw from one space
        "holds, significantly (Wilcoxon, p < 0.05)",
        "holds, significantly (McNemar, p < 0.05)",
        "holds",
    ]
    chosen = [row | {"better": {"cell": "gru"}, "worse": {"cell": "intersection"}, "within": ["depth"]} for row in rows]
    assert claims(made("collins-parentheses", "smoke", value, trials=50), *chosen) == ["holds"] * 3


def test_claims_whose_runs_diverged_are_told_from_those_without_arms() -> None:
    row = {"better": {"cell": "gru", "depth": 1}, "worse": {"cell": "irnn", "depth": 1}, "quantity": "median"}
    missing = row | {"worse": {"cell": "irnn", "depth": 9}}
    lost = made("collins-random", "smoke", lambda arm, _: None if "irnn" in arm else 1.0, trials=3)
    assert claims(lost, row, missing) == ["cannot be tested: the runs diverged", "not tested at this scale"]


def test_reader_is_told_that_claims_are_tested_one_by_one() -> None:
    told, untold = "Each of these comparisons is tested by itself.", "Where no test is named"
    tested = made("zhang-section45", "gpu", lambda arm, number: 0.01 * (len(arm) + number), seeds=3)
    assert told in "".join(paper_html(tested, figure_html))
    assert told in "".join(paper_markdown(tested))
    untested = made("collins-capacity", "smoke", lambda arm, number: 100.0 + number, trials=2)
    assert told not in "".join(paper_html(untested, figure_html))
    assert untold in "".join(paper_html(untested, figure_html))
    assert untold in "".join(paper_markdown(untested))


@pytest.mark.parametrize(
    ("margin", "outcome"),
    [
        (0.2, "holds, significantly (two one-sided Welch, p < 0.05)"),
        (0.1005, "holds, but not significantly"),
        (0.09, "does not hold"),
    ],
)
def test_what_is_as_good_differs_by_less_than_a_margin(margin: float, outcome: str) -> None:
    """st is 0.1 above td, whose runs differ by a thousandth each."""
    levels = {"sh": 0.3, "st": 0.2, "bu": 0.2, "td": 0.1}
    found = made("zhang-table1", "laptop", lambda arm, number: levels[arm.partition(":")[0]] + 0.001 * number)
    td, st = ({"architecture": f"{name}:tanh"} for name in ("td", "st"))
    assert claims(found, {"near": td, "to": st, "margin": margin}) == [outcome]
    assert claims(found, {"near": st, "to": td, "margin": margin}) == [outcome]


def test_runs_that_vary_too_much_leave_open_whether_two_are_as_good() -> None:
    """They neither differ significantly nor are they significantly within the margin of each other."""
    values = {"td": (0.1, 0.5, 0.9), "st": (0.3, 0.5, 0.7)}
    found = made(
        "zhang-table1", "laptop", lambda arm, number: values.get(arm.partition(":")[0], (0.4,) * 3)[number % 3]
    )
    td, st = ({"architecture": f"{name}:tanh"} for name in ("td", "st"))
    (outcome,) = claims(found, {"near": td, "to": st, "margin": 0.05})
    assert outcome == "cannot be told: neither a difference nor equality is significant"


def test_what_is_as_good_needs_runs_to_be_sure() -> None:
    found = made("collins-parentheses", "smoke", lambda arm, number: 0.1)
    gru, plus = {"cell": "gru"}, {"cell": "intersection"}
    assert claims(found, {"near": gru, "to": plus, "margin": 0.1, "within": ["depth"]}) == ["holds"]


@pytest.mark.parametrize("size", ["parameters", "units"])
def test_what_sets_the_loss_explains_more_of_it(size: str) -> None:
    sizes: dict[str, float] = {}
    for each in made("collins-rcf", "laptop", lambda arm, number: 1.0).arms:
        units = max(node.units for node in each.arm.architecture.nodes if node.kind == "hidden")
        sizes[each.arm.name] = units if size == "units" else each.arm.architecture.num_parameters()
    found = made("collins-rcf", "laptop", lambda arm, number: sizes[arm] ** -0.5)
    other = "parameters" if size == "units" else "units"
    assert claims(
        found,
        {"explained_by": size, "rather_than": other, "within": ["depth"]},
        {"explained_by": other, "rather_than": size, "within": ["depth"]},
    ) == ["holds", "does not hold"]
    checked = check_claims(found, table(found))[0]
    assert checked.claim.explained_by == "parameters"
    assert max(checked.checks[0].value, checked.checks[0].other or 0.0) == 1.0


def test_nothing_is_explained_where_nothing_differs() -> None:
    found = made("collins-rcf", "laptop", lambda arm, number: 0.5)
    assert claims(found, {"explained_by": "parameters", "rather_than": "units"}) == ["not tested at this scale"]


def test_who_learns_faster_is_better_over_the_course_of_training() -> None:
    """All end alike; those with a skip are there from the beginning."""
    found = made("zhang-table2", "gpu", lambda arm, number: 0.5 + 0.001 * number, arms=MNIST, seeds=3)

    def with_curve(each: Any) -> Any:
        start = 0.5 if "skip" in each.arm.name else 0.1
        runs = tuple(
            replace(
                run, curve={"steps": [1000, 2000, 4000], "scores": {"accuracy": [start, 0.5, 0.5 + 0.001 * run.number]}}
            )
            for run in each.repeats
        )
        return replace(each, finalists=(replace(each.finalists[0], trials=runs),))

    found = replace(found, arms=tuple(map(with_curve, found.arms)))
    sh, skip = {"architecture": "sh:tanh"}, {"architecture": "skip-5:tanh"}
    assert claims(found, {"better": skip, "worse": sh, "quantity": "course"}) == [
        "holds, significantly (Welch, p < 0.05)"
    ]
    last = found.arms[0].arm.hyperparameters.num_steps
    expected = (0.3 * 1000 + 0.5 * 2000 + 0.5 * (last - 4000)) / (last - 1000)  # a run that ended keeps its score
    assert courses_of(found.arms[0], found.arms[0].repeats[:1]) == [pytest.approx(expected)]


def test_labels_and_relus_of_capacity_are_looked_at() -> None:
    found = made("collins-capacity", "smoke", lambda arm, number: 50.0 + number, trials=4)
    (low,) = claims(found, {"where": {"task": "capacity"}, "quantity": "labels_per_bit", "low": 1e9})
    assert low.startswith("holds in 0 of")
    relu = {"where": {"cell": "tanh"}, "quantity": "bits_per_parameter_of_relu", "low": 0.0}
    assert claims(found, relu) != ["not tested at this scale"]
    share = relu | {"quantity": "share_of_relu"}
    falling = made("collins-capacity", "smoke", lambda arm, number: 60.0 - 10 * number, trials=4)
    tanh, first, *_ = falling.arms  # the only ReLU of the one is its last of four trials, with 30 of 60 bits
    assert [trial.hyperparameters.nonlinearity for trial in tanh.trials] == ["tanh", "tanh", "tanh", "relu"]
    assert [trial.hyperparameters.nonlinearity for trial in first.trials] == ["relu", "tanh", "tanh", "relu"]
    limits = ({"low": 0.49, "high": 0.51}, {"low": 1.0, "high": 1.0})
    assert claims(falling, *(share | limit for limit in limits)) == ["holds in 1 of 2 networks"] * 2
    none = replace(found, arms=tuple(replace(each, trials=_without_relu(each.trials)) for each in found.arms))
    assert claims(none, relu) == claims(none, share | {"high": 1.0}) == ["not tested at this scale"]


def _without_relu(trials: Any) -> tuple[Any, ...]:
    return tuple(each for each in trials if each.hyperparameters.nonlinearity != "relu")


def test_memory_is_set_against_its_curve() -> None:
    found = made("collins-memory", "laptop", lambda arm, number: 0.75)
    inputs = {each.arm.task.num_inputs for each in found.arms}  # type: ignore[attr-defined]
    units = sorted({each.labels["units"] for each in found.arms})
    (number,) = inputs
    for each in units:
        expected = 0.75 - max(0.0, 1 - each / number)
        at = {"where": {"units": each}, "quantity": "off_curve", "low": expected - 1e-9, "high": expected + 1e-9}
        (outcome,) = claims(found, at)
        count = sum(arm.labels["units"] == each for arm in found.arms)
        assert outcome == (f"holds in {count} of {count} networks" if count > 1 else "holds")
