"""A member that diverges is marked with step and reason, frozen, and changes nobody else's numbers (C72)."""

from dataclasses import replace

import pytest
import torch

from rnnlab import Hyperparameters, train
from rnnlab.training.divergence import REASONS, Feasibility
from rnnlab.training.events import Event, MemberInfeasible
from tests.training.small import adding, assert_same_member, network, quick, training_step

RELU = {"nonlinearity": "relu", "optimiser": "sgd"}


def diverging(**values: object) -> Hyperparameters:
    return quick(**({"learning_rate": 1e30, "num_steps": 20} | RELU | values))


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("compact", [True, False])
def test_neighbours_are_bit_for_bit_as_without_it(place: int, compact: bool) -> None:
    problem = adding()
    healthy = [quick(seed=seed, num_steps=20, learning_rate=0.01, nonlinearity="relu") for seed in (1, 2)]
    members = [*healthy[:place], diverging(), *healthy[place:]]
    run = train(network(problem, "tanh"), problem, members, compact=compact)
    assert run.members[place].outcome == "infeasible"
    others = train(network(problem, "tanh"), problem, healthy)
    for number, beside in enumerate(number for number in range(3) if number != place):
        assert run.members[beside].is_feasible
        assert_same_member(run, beside, others, number)


def test_step_and_reason_do_not_depend_on_when_the_host_looks() -> None:
    problem = adding()
    found: set[tuple[int, str | None]] = set()
    for report_every in (1, 3, 100):
        events: list[Event] = []
        run = train(
            network(problem, "tanh"),
            problem,
            [diverging(), quick(num_steps=20, **RELU)],
            report=events.append,
            report_every=report_every,
        )
        told = [event for event in events if isinstance(event, MemberInfeasible)]
        assert [(event.member, event.step, event.reason) for event in told] == [
            (0, run.members[0].num_steps, run.members[0].reason)
        ]
        found.add((run.members[0].num_steps, run.members[0].reason))
    assert len(found) == 1
    step, reason = found.pop()
    assert step == 1, "the first step moves its numbers far away, the second feels it"
    assert reason in REASONS[1:]


def test_frozen_member_never_moves_again_and_stays_finite() -> None:
    members = [diverging(l2=0.01), quick(**(RELU | {"optimiser": "adam"}))]
    step = training_step(adding(), members, "tanh")
    while not step.state.feasibility.reason[0]:
        step()
    frozen = {name: tensor[0].clone() for name, tensor in step.state.tensors().items() if tensor.dim()}
    moving = step.state.numbers[1].clone()
    for _ in range(5):
        step()
    for name, before in frozen.items():
        torch.testing.assert_close(step.state.tensors()[name][0], before, rtol=0, atol=0, equal_nan=True, msg=name)
    assert step.state.numbers.isfinite().all()
    assert not torch.equal(step.state.numbers[1], moving)


def test_exploding_loss_is_infeasible_while_still_finite() -> None:
    problem = adding()
    calm = quick(optimiser="sgd", learning_rate=30.0, num_steps=30, nonlinearity="tanh")
    tolerant = train(network(problem, "tanh"), problem, calm).members[0]
    strict = train(network(problem, "tanh"), problem, replace(calm, explosion=2.0)).members[0]
    assert (strict.outcome, strict.reason) == ("infeasible", "the loss exploded")
    assert tolerant.is_feasible or tolerant.num_steps > strict.num_steps


def look(losses: list[float], norms: list[float], *, first: float = 1.0) -> Feasibility:
    found = Feasibility.unknown(len(losses), "cpu")
    found.first_loss.fill_(first)
    active = torch.ones(len(losses), dtype=torch.bool)
    explosion = torch.full((len(losses),), 10.0, dtype=torch.float64)
    still = found.look(torch.tensor(losses), torch.tensor(norms), explosion, torch.tensor(7), active)
    assert torch.equal(still, found.reason == 0)
    return found


def test_each_reason_is_told_from_the_others() -> None:
    nan, inf = float("nan"), float("inf")
    found = look([1.0, nan, inf, 2.0, 2.0, 20.5, 19.5], [1.0, nan, 1.0, inf, nan, 1.0, 1.0])
    assert [REASONS[number] for number in found.reason] == [
        *("", "the loss is not finite", "the loss is not finite", "the gradient is not finite"),
        *("the gradient is not finite", "the loss exploded", ""),
    ]
    assert found.step.tolist() == [-1, 7, 7, 7, 7, 7, -1]


def test_whoever_diverged_keeps_the_first_step_and_reason() -> None:
    found = look([float("nan"), 1.0], [1.0, 1.0])
    explosion = torch.full((2,), 10.0, dtype=torch.float64)
    losses = torch.tensor([1.0, 1.0])
    still = found.look(losses, losses * torch.inf, explosion, torch.tensor(9), found.reason == 0)
    assert found.step.tolist() == [7, 9]
    assert found.reason.tolist() == [1, 2]
    assert still.tolist() == [False, False]


def test_infeasible_member_keeps_its_best_numbers_from_before() -> None:
    problem = adding()
    member = quick(optimiser="sgd", learning_rate=3.0, num_steps=60, explosion=1.5, evaluate_every=1)
    run = train(network(problem, "tanh"), problem, member)
    found = run.members[0]
    assert found.outcome == "infeasible"
    assert found.best_step is not None
    assert found.best_step <= found.num_steps
    assert found.validation["mse"] == min(found.curve.scores["mse"])
    assert found.test["mse"] > 0
