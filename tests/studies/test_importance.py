"""Which hyperparameters mattered: those that decide the score, and no others."""

import math
from dataclasses import replace

import numpy as np
import pytest

from rnnlab.studies import importance
from rnnlab.studies.expansion import expand
from rnnlab.studies.importance import FEWEST, importances
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.space import Float, SearchSpace
from rnnlab.tuning.trials import Trial
from tests.report.made_records import spec, trial


def arm(**changes) -> Arm:
    return expand(spec(architectures=["lstm"], **changes))[0].arm


def trials(of: Arm, count: int, value) -> list[Trial]:
    generator = np.random.default_rng(0)
    points = [of.space.sample(generator) for _ in range(count)]
    return [trial(of, number, point, value(point)) for number, point in enumerate(points)]


def test_the_hyperparameter_that_decides_everything_comes_first() -> None:
    of = arm()
    found = importances(of, trials(of, 60, lambda point: abs(math.log(point["learning_rate"] / 0.01)) + 0.1))
    assert found[0].name == "learning_rate"
    assert found[0].share > 2 * found[1].share
    assert sum(each.share for each in found) == 1.0 or abs(sum(each.share for each in found) - 1) < 1e-12
    assert [each.share for each in found] == sorted((each.share for each in found), reverse=True)
    assert {each.name for each in found} == set(of.space.names)


def test_equals_are_in_the_order_of_the_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optuna's order depends on the seed of strings' hashes, and reports should not."""
    of = arm()
    shares = dict.fromkeys(reversed(of.space.names), 0.0) | {"learning_rate": 1.0}
    monkeypatch.setattr(importance, "_evaluated", lambda *_: shares)
    found = [each.name for each in importances(of, trials(of, FEWEST, lambda _: 1.0))]
    assert found == ["learning_rate", *(name for name in of.space.names if name != "learning_rate")]


def test_conditional_hyperparameters_take_part() -> None:
    """`momentum` is there with three of four optimisers only."""
    of = arm()
    found = importances(of, trials(of, 80, lambda point: abs(point.get("momentum", 0.0) - 0.95) + 0.01))
    assert found[0].name in ("momentum", "optimiser")
    assert {each.name for each in found[:3]} >= {"momentum"}


@pytest.mark.parametrize("optimum", [0.5, 0.8])
def test_numbers_that_matter_alike_have_equal_shares_whatever_their_scales(optimum: float) -> None:
    """Near 1, all of a logit scale is one place to a linear one."""
    momentum = Float("momentum", 0.731, 0.9991, "logit")
    space = SearchSpace([Float("learning_rate", 1e-4, 1e-1, "log"), momentum])
    of = replace(arm(), space=space)

    def value(point) -> float:
        return sum((each.position(point[each.name]) - optimum) ** 2 for each in space)

    found = importances(of, trials(of, 400, value))
    assert {each.name: each.share for each in found}["momentum"] == pytest.approx(0.5, abs=0.1)


def test_higher_scores_are_the_best_where_higher_is_better() -> None:
    of = arm(task={"name": "capacity", "num_inputs": 16})
    assert of.is_maximised

    def value(point) -> float:
        """The best have a learning rate near 0.01, the worst a large decay."""
        return 100.0 * (abs(math.log(point["learning_rate"] / 0.01)) < 0.4) - math.log10(point["l2"])

    assert importances(of, trials(of, 80, value))[0].name == "learning_rate"


def test_too_few_complete_trials_say_nothing() -> None:
    of = arm()
    made = trials(of, FEWEST, lambda point: point["learning_rate"])
    assert importances(of, made) is not None
    assert importances(of, made[1:]) is None
    diverged = replace(made[0], state="infeasible", value=None)
    assert importances(of, [diverged, *made[1:]]) is None


def test_nothing_is_announced(capfd) -> None:
    of = arm()
    importances(of, trials(of, FEWEST, lambda point: point["learning_rate"]))
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""
