"""Early stopping, learning rates that fall on plateaus, and what counts as an improvement (Z52, P's schedule)."""

import pytest
import torch

from rnnlab import Hyperparameters, train
from rnnlab.training.schedules import Schedule
from rnnlab.training.standing import Standing, Watch, decide
from tests.training.small import adding, network, quick

LOWER = Watch("mse", "lower")


def fed(values: list[float], member: Hyperparameters, watch: Watch = LOWER) -> tuple[Standing, list[float]]:
    """A member after evaluations with these scores, and the factors for its learning rate, until it ends."""
    standing, factors = Standing(), []
    for number, value in enumerate(values, 1):
        standing.record(number, {watch.score: value}, 0.0, watch)
        rate = member.learning_rate * torch.tensor(factors).prod().item()
        factors.append(decide(standing, member, number, rate))
        if standing.has_ended:
            break
    return standing, factors


def test_training_ends_after_so_many_evaluations_without_improvement() -> None:
    standing, _ = fed([5, 4, 4, 3, 3.5, 3, 2], Hyperparameters(patience=2))
    assert (standing.outcome, standing.num_steps, standing.best_step) == ("stopped early", 6, 4)
    standing, _ = fed([5, 4, 4, 3, 3.5, 3, 2], Hyperparameters(patience=3))
    assert (standing.has_ended, standing.best_step) == (False, 7)


def test_higher_is_better_where_the_task_says_so() -> None:
    standing, _ = fed([1, 3, 2, 1], Hyperparameters(patience=2), Watch("mse", "higher"))
    assert (standing.outcome, standing.num_steps, standing.best_step) == ("stopped early", 4, 2)


def test_learning_rate_is_halved_whenever_validation_does_not_improve() -> None:
    _, factors = fed([5, 4, 4.1, 3, 3, 3], Hyperparameters(plateau_factor=0.5))
    assert factors == [1, 1, 0.5, 1, 0.5, 0.5]
    _, factors = fed([5, 5, 5, 5, 5, 4, 4, 4], Hyperparameters(plateau_factor=0.1, plateau_patience=2))
    assert factors == [1, 1, 0.1, 1, 0.1, 1, 1, 0.1]


def test_small_improvements_do_not_count_but_are_kept() -> None:
    standing, _ = fed([1.0, 0.9999, 0.9998], Hyperparameters(patience=2), Watch("mse", "lower", 0.0002))
    assert (standing.outcome, standing.best_step, standing.validation) == ("stopped early", 3, {"mse": 0.9998})


def test_training_ends_when_the_learning_rate_is_too_low() -> None:
    member = Hyperparameters(learning_rate=1.0, plateau_factor=0.5, lowest_learning_rate=0.2)
    standing, factors = fed([1, 1, 1, 1, 1], member)
    assert (standing.outcome, standing.num_steps, factors) == ("too slow", 4, [1, 0.5, 0.5, 0.5])


def test_what_is_no_number_is_never_best() -> None:
    nan = float("nan")
    standing, _ = fed([nan, 2, nan, nan], Hyperparameters(patience=2))
    assert (standing.outcome, standing.best_step, standing.num_steps) == ("stopped early", 2, 4)
    standing, _ = fed([nan], Hyperparameters())
    assert standing.best_step is None


def test_schedule_is_a_product_of_its_parts() -> None:
    member = Hyperparameters(
        learning_rate=2.0, decay_factor=0.25, num_steps=10, inverse_decay_steps=4.0, inverse_decay_start=2
    )
    schedule = Schedule.of([member, Hyperparameters(learning_rate=3.0)], "cpu")
    rates = schedule.rates(torch.tensor(5), torch.tensor([0.5, 1.0], dtype=torch.float64))
    assert rates.tolist() == pytest.approx([2.0 * 0.25**0.5 / (1 + 3 / 4) * 0.5, 3.0])


def test_plateaus_and_early_stopping_reach_the_device() -> None:
    problem = adding()
    members = [
        quick(optimiser="sgd", learning_rate=1e-9, num_steps=50, patience=3, least_improvement=0.5),
        quick(optimiser="sgd", learning_rate=0.2, num_steps=50, plateau_factor=0.5, least_improvement=0.9),
    ]
    rates: list[float | None] = []
    run = train(
        network(problem),
        problem,
        members,
        report=lambda event: rates.append(event.learning_rates[1]) if type(event).__name__ == "Stepped" else None,
    )
    assert (run.members[0].outcome, run.members[0].num_steps) == ("stopped early", 20)
    assert rates[:5] == pytest.approx([0.2, 0.2, 0.1, 0.05, 0.025])
    alone = train(network(problem), problem, members[0])
    assert alone.members[0] == run.members[0]
