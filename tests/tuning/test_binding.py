"""Points become hyperparameters, arguments of the task, and populations (issue 7, 3 and 4)."""

from dataclasses import dataclass
from typing import Any

import pytest

from rnnlab import AbstractTask, Architecture, Hyperparameters, TuningError, architecture, task, train
from rnnlab.tasks.adding import Adding
from rnnlab.tuning.binding import Setting, bind, check_space, split, task_of
from rnnlab.tuning.dimensions import Category, Float, Integer
from rnnlab.tuning.space import SearchSpace


def network(of: AbstractTask) -> Architecture:
    return architecture("gru", input_size=of.input_size, output_size=of.output_size, units=3, encoding=of.encoding)


def bound(of: AbstractTask, *points: dict[str, Any], **base: Any) -> list[Setting]:
    return [bind(point, Hyperparameters().changed(**base), network(of), of) for point in points]


def test_names_are_those_of_hyperparameters_and_of_their_start() -> None:
    (setting,) = bound(task("adding"), {"l2": 0.5, "gate_bias": 2.0, "optimiser": "sgd"}, num_steps=7)
    wanted = Hyperparameters(num_steps=7).changed(l2=0.5, gate_bias=2.0, optimiser="sgd")
    assert (setting.hyperparameters, setting.arguments) == (wanted, {})


def test_seeds_are_those_of_the_start_and_of_the_batches() -> None:
    """C73."""
    settings = bound(task("adding"), {"seeds": 5}, {"seeds": 6}, seed=1)
    assert [each.hyperparameters for each in settings] == [Hyperparameters(seed=n, batch_seed=n) for n in (5, 6)]
    assert split(settings, task("adding")) == [[0, 1]]


def test_samples_are_counted_in_parameters() -> None:
    """C35."""
    problem = task("capacity")
    few, many = bound(problem, {"task.samples_per_parameter": 1e-5}, {"task.samples_per_parameter": 10.0})
    assert many.arguments == {"num_samples": 10 * network(problem).num_parameters()}
    assert few.arguments == {"num_samples": 1}


def test_members_of_a_population_have_data_sets_of_their_own() -> None:
    """C35, C36."""
    problem = task("capacity", num_inputs=3)
    points = [{"task.num_samples": size, "task.input_once": once} for size, once in ((4, True), (9, False))]
    settings = bound(problem, *points, num_steps=3, evaluate_every=3)
    assert split(settings, problem) == [[0, 1]]
    together = task_of(settings, problem)
    assert together == task("capacity", num_inputs=3, num_samples=(4, 9), input_once=(True, False))
    run = train(network(problem), together, [setting.hyperparameters for setting in settings])
    for place, setting in enumerate(settings):
        alone = train(network(problem), task_of([setting], problem), [setting.hyperparameters])
        assert run.members[place] == alone.members[0]


def test_members_of_a_population_have_compute_steps_of_their_own() -> None:
    """C37."""
    problem = task("arithmetic", num_evaluation=4)
    settings = bound(problem, {"task.compute_steps": 6}, {"task.compute_steps": 1})
    assert split(settings, problem) == [[0, 1]]
    assert task_of(settings, problem) == task("arithmetic", num_evaluation=4, compute_steps=(6, 1))


def test_what_cannot_differ_in_a_population_is_trained_apart() -> None:
    problem = task("adding")
    settings = bound(
        problem,
        {"batch_size": 8, "task.length": 10, "l2": 0.1},
        {"batch_size": 16, "task.length": 10, "l2": 0.1},
        {"batch_size": 8, "task.length": 10, "l2": 0.2},
        {"batch_size": 8, "task.length": 20, "l2": 0.2},
    )
    assert split(settings, problem) == [[0, 2], [1], [3]]
    assert task_of([settings[3]], problem) == task("adding", length=20)


def test_nonlinearity_is_given_to_all_members_or_to_none() -> None:
    problem = task("adding")
    settings = bound(problem, {"nonlinearity": "relu"}, {"l2": 0.1}, {"nonlinearity": "tanh"})
    assert split(settings, problem) == [[0, 2], [1]]


def test_task_without_arguments_in_the_point_stays_itself() -> None:
    problem = task("capacity", num_samples=5)
    assert task_of(bound(problem, {"l2": 0.1}, {"l2": 0.2}), problem) is problem


@dataclass(frozen=True, kw_only=True)
class Mine(Adding):
    """A task of one's own with a pair that is not for members."""

    pair: tuple[int, int] = (1, 2)


def test_tuple_that_is_not_for_members_is_no_reason_to_make_one() -> None:
    settings = [Setting(Hyperparameters(), {"length": 9})]
    assert task_of(settings, Mine()) == Mine(length=9)


@pytest.mark.parametrize(
    ("dimension", "words"),
    [
        (Float("learning_rat", 0, 1), "no hyperparameter is named 'learning_rat'; did you mean 'learning_rate'"),
        (Float("dropout", 0, 1), "dropout must be a number at least 0 and below 1, got 1.0"),
        (Category("optimiser", ("adam", "sgd", "addam")), "optimiser is one of .* got 'addam'"),
        (Category("square", ("normal", "sparce", "glorot")), "square is one of .* got 'sparce'"),
        (Float("num_steps", 10, 20), "num_steps must be an integer"),
        (Integer("task.lenght", 5, 9), "adding has no argument 'lenght', .*did you mean 'length'"),
        (Integer("task.length", -1, 9), "length must be an integer of at least 2, got -1"),
        (Float("task.samples_per_parameter", 1, 2), "adding has no argument 'samples_per_parameter'"),
    ],
)
def test_space_that_cannot_be_trained_is_refused_before_training(dimension: Any, words: str) -> None:
    problem = task("adding")
    space = SearchSpace([Float("l2", 0, 1), dimension])
    with pytest.raises(TuningError, match=words) as raised:
        check_space(space, Hyperparameters(), network(problem), problem)
    assert "\n" not in str(raised.value)


def test_dimension_that_is_seldom_active_is_looked_at_too() -> None:
    problem = task("adding")
    dimensions = [
        Category("optimiser", ("sgd", "adam", "rmsprop")),
        Category("bias", ("constant", "normal"), when={"optimiser": ("sgd",)}),
        Float("dropout", 0, 1, when={"bias": ("constant",)}),
    ]
    with pytest.raises(TuningError, match="dropout must be a number at least 0 and below 1"):
        check_space(SearchSpace(dimensions), Hyperparameters(), network(problem), problem)


def test_argument_that_changes_widths_is_refused() -> None:
    problem = task("capacity")
    space = SearchSpace([Integer("task.num_inputs", 30, 34)])
    with pytest.raises(TuningError, match="inputs or outputs of another width"):
        check_space(space, Hyperparameters(), network(problem), problem)
