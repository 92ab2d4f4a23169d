"""Stopping and going on gives what never stopping gives, bit for bit on the CPU."""

from datetime import timedelta
from pathlib import Path

import pytest
import torch

from rnnlab import CheckpointError, Hyperparameters, Run, TrainingError, architecture, task, train
from rnnlab.training.events import Event, Saved, Started
from tests.training.small import adding, assert_same_run, mixed, network, quick
from tests.training.streams import Letters


class StopAt:
    """Says stop after so many steps."""

    def __init__(self, step: int) -> None:
        self.step, self.asked = step, 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.asked == self.step


def broken_run(members: list[Hyperparameters], folder: Path, step: int, *, problem=None, save_every: int = 1000) -> Run:
    problem = problem or adding()
    net = network(problem)
    run = train(net, problem, members, checkpoint=folder, stop=StopAt(step), save_every=save_every)
    assert not run.is_complete
    return train(net, problem, members, checkpoint=folder, resume=True)


@pytest.mark.parametrize("step", [1, 4, 5, 8, 11])
def test_resumed_run_is_the_same_bit_for_bit(tmp_path: Path, step: int) -> None:
    problem = adding()
    members = [*mixed(), quick(optimiser="sgd", learning_rate=1e30, nonlinearity="relu")]  # which diverges
    assert_same_run(broken_run(members, tmp_path, step), train(network(problem), problem, members))


def test_run_can_be_broken_again_and_again(tmp_path: Path) -> None:
    problem, members = adding(), mixed()
    net = network(problem)
    run = train(net, problem, members, checkpoint=tmp_path, stop=StopAt(2))
    while not run.is_complete:
        run = train(net, problem, members, checkpoint=tmp_path, resume=True, stop=StopAt(2))
    assert_same_run(run, train(net, problem, members))


def test_run_is_the_same_after_members_have_been_taken_out(tmp_path: Path) -> None:
    problem, members = adding(), [quick(seed=seed, num_steps=5 + 10 * (seed == 3)) for seed in range(4)]
    assert_same_run(broken_run(members, tmp_path, 8), train(network(problem), problem, members))


def test_early_stopping_and_plateaus_survive(tmp_path: Path) -> None:
    problem = adding()
    members = [
        quick(seed=seed, learning_rate=0.1, num_steps=60, evaluate_every=2, patience=4, plateau_factor=0.5)
        for seed in range(3)
    ]
    whole = train(network(problem), problem, members)
    assert any(member.outcome == "stopped early" for member in whole.members)
    assert_same_run(broken_run(members, tmp_path, 9), whole)


@pytest.mark.parametrize("population", [1, 3])
def test_single_sequences_on_the_reference_path_go_on_alike(tmp_path: Path, population: int) -> None:
    """torch multiplies a matrix and a vector in another order where the matrix begins at another address."""
    problem = adding()
    net = architecture("st:lstm", input_size=2, output_size=1, units=16)
    members = quick(num_steps=20, batch_size=1).with_seeds(population)
    whole = train(net, problem, members, path="reference")
    train(net, problem, members, path="reference", checkpoint=tmp_path, stop=StopAt(11))
    assert_same_run(train(net, problem, members, path="reference", checkpoint=tmp_path, resume=True), whole)


def test_finished_run_comes_back_from_its_checkpoint(tmp_path: Path) -> None:
    problem = adding()
    net = network(problem)
    events: list[Event] = []
    run = train(net, problem, mixed(), checkpoint=tmp_path)
    again = train(net, problem, mixed(), checkpoint=tmp_path, resume=True, report=events.append)
    assert_same_run(run, again)
    assert isinstance(events[0], Started)
    assert events[0].step == 12
    assert not [event for event in events if type(event).__name__ == "Stepped"]


def test_checkpoint_is_saved_as_often_as_told(tmp_path: Path) -> None:
    problem = adding()
    events: list[Event] = []
    train(network(problem), problem, quick(), checkpoint=tmp_path, save_every=5, report=events.append)
    assert [event.step for event in events if isinstance(event, Saved)] == [5, 10, 12]


def test_time_between_checkpoints_is_above_nothing(tmp_path: Path) -> None:
    problem = adding()
    with pytest.raises(TrainingError, match="save_every must be a time above 0"):
        train(network(problem), problem, quick(), checkpoint=tmp_path, save_every=timedelta(0))


def test_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    problem = adding()
    net = network(problem)
    train(net, problem, quick(), checkpoint=tmp_path, stop=StopAt(3))
    for changes in ({"seed": 1}, {"path": "reference"}, {"precision": "bf16"}, {}):
        members = quick() if changes else quick(learning_rate=0.5)
        with pytest.raises(CheckpointError, match="belongs to another run"):
            train(net, problem, members, checkpoint=tmp_path, resume=True, **changes)
    with pytest.raises(CheckpointError, match="holds a checkpoint already"):
        train(net, problem, quick(), checkpoint=tmp_path)


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    problem = adding()
    net = network(problem)
    train(net, problem, quick(), checkpoint=tmp_path, stop=StopAt(3))
    second: list[str] = []

    def begin_another() -> bool:
        with pytest.raises(CheckpointError, match="another process trains in") as caught:
            train(net, problem, quick(), checkpoint=tmp_path, resume=True)
        second.append(str(caught.value))
        return True

    train(net, problem, quick(), checkpoint=tmp_path, resume=True, stop=begin_another)
    assert len(second) == 1
    assert train(net, problem, quick(), checkpoint=tmp_path, resume=True).is_complete  # the lock went with the run


def test_stopped_run_says_how_far_it_came(tmp_path: Path) -> None:
    problem = adding()
    run = train(network(problem), problem, quick().with_seeds(2), stop=StopAt(7))
    assert [(member.outcome, member.num_steps, member.test) for member in run.members] == [("unfinished", 7, {})] * 2


def test_run_that_was_stopped_before_it_was_evaluated_has_the_parameters_it_came_to(tmp_path: Path) -> None:
    problem = adding()
    members = [quick(num_steps=12, evaluate_every=12, learning_rate=rate) for rate in (0.01, 0.1)]
    run = train(network(problem), problem, members, stop=StopAt(7))
    assert [(member.outcome, member.best_step) for member in run.members] == [("unfinished", None)] * 2
    short = [member.changed(num_steps=7, evaluate_every=7) for member in members]
    for own, other in zip(
        run.model.parameters(), train(network(problem), problem, short).model.parameters(), strict=True
    ):
        assert torch.equal(own, other)


@pytest.mark.parametrize("own_numbers", [False, True])
def test_drawn_noise_goes_on_where_it_was(tmp_path: Path, own_numbers: bool) -> None:
    problem = task("memory", num_inputs=4, length=3, num_evaluation=8)  # fresh batches without end
    members = [quick(weight_noise=0.1, dropout=0.3, seed=int(own_numbers))]
    whole = train(network(problem), problem, members)
    assert_same_run(broken_run(members, tmp_path, 6, problem=problem), whole)
    assert torch.isfinite(torch.tensor(whole.members[0].curve.losses)).all()


@pytest.mark.parametrize("step", [1, 4, 5, 6, 12])
def test_stream_goes_on_where_it_was(tmp_path: Path, step: int) -> None:
    members = [quick(seed=seed, batch_size=2, num_steps=5 + 10 * (seed == 2), truncation=4) for seed in range(3)]
    members = [member.changed(restart=0.4 * (member.seed > 0)) for member in members]
    letters = Letters(size=79)  # a pass has 7 batches: members leave in its middle
    whole = train(network(letters), letters, members)
    assert_same_run(broken_run(members, tmp_path, step, problem=letters), whole)
    assert_same_run(whole, train(network(letters), letters, members, compact=False))
