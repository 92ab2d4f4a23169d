"""The contract of all generated tasks: batches, splits, losses, scores, members."""

import dataclasses
import json
import math
import os
import pickle
import subprocess
import sys
from typing import Any

import pytest
import torch

from rnnlab import Model, architecture
from rnnlab.errors import TaskError
from rnnlab.tasks.adding import Adding
from rnnlab.tasks.copying import Copying
from rnnlab.tasks.registry import TASKS, task
from rnnlab.tasks.task import AbstractTask, Batch, Tally
from tests.tasks import contract
from tests.tasks.answers import ignorant, perfect
from tests.tasks.contract import generator
from tests.tasks.generated_tasks import ALL, BY_MEMBER, SHARED

every = pytest.mark.parametrize("problem", ALL, ids=str)
shared = pytest.mark.parametrize("problem", SHARED, ids=str)
by_member = pytest.mark.parametrize("problem", BY_MEMBER, ids=str)


@every
def test_generator_decides_everything(problem: AbstractTask) -> None:
    contract.check_samples(problem)


@every
def test_splits_are_fixed_and_complete(problem: AbstractTask) -> None:
    contract.check_splits(problem, 7)


@every
def test_scores_are_numbers_by_member(problem: AbstractTask) -> None:
    batch = problem.sample(5, generator=generator())
    for population in (None, 3) if problem.population is None else (3,):
        contract.check_scores(problem, batch, population)


@every
def test_last_step_is_all_that_counts_where_a_task_says_so(problem: AbstractTask) -> None:
    batch = problem.sample(5, generator=generator())
    outputs = contract.random_outputs(problem, batch, problem.population)
    whole = (problem.loss(outputs, batch), problem.finish(problem.tally(outputs, batch)))
    if problem.only_last:
        last = outputs[..., -1:, :]
        torch.testing.assert_close((problem.loss(last, batch), problem.finish(problem.tally(last, batch))), whole)
    else:
        changed = outputs.clone()
        changed[..., : problem.num_steps - 1, :] *= 3
        assert not torch.equal(problem.loss(changed, batch), whole[0])


@every
def test_members_are_apart(problem: AbstractTask) -> None:
    contract.check_members_are_apart(problem, problem.sample(5, generator=generator()), 3)


@every
def test_scores_do_not_depend_on_the_batches(problem: AbstractTask) -> None:
    contract.check_tally_is_exact(problem, "validation", (7, 50))


@every
def test_training_step_never_waits_for_the_device(problem: AbstractTask) -> None:
    contract.check_never_waits(problem)


def test_waiting_is_seen() -> None:
    class Waiting(Adding):
        def loss(self, outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
            return outputs.sum() * float(batch.targets.sum())

    with pytest.raises(AssertionError):
        contract.check_never_waits(Waiting(length=4))


@shared
def test_members_may_have_sequences_of_their_own(problem: AbstractTask) -> None:
    batch = problem.sample(4, generator=generator(2), members=3)
    flat = problem.sample(12, generator=generator(2))
    for one, other in zip(contract.tensors(batch), contract.tensors(flat), strict=True):
        assert one.shape == (3, 4, *other.shape[1:])
        assert torch.equal(one.flatten(0, 1), other)
    contract.check_scores(problem, batch, 3)


@shared
def test_generators_draw_together_what_each_draws_alone(problem: AbstractTask) -> None:
    batch = problem.draw_each(4, [generator(seed) for seed in range(3)])
    for member in range(3):
        alone = problem.draw(4, generator(member))
        for one, other in zip(contract.tensors(batch), contract.tensors(alone), strict=True):
            assert torch.equal(one[member], other)


@by_member
def test_members_alone_see_what_they_see_together(problem: AbstractTask) -> None:
    together = problem.sample(10, generator=generator(5))
    outputs = contract.random_outputs(problem, together, 3)
    for member in range(3):
        alone = problem.select_members([member])
        assert alone.population == 1
        batch = alone.sample(10, generator=generator(5))
        own = outputs[member : member + 1]
        assert torch.equal(alone.loss(own, batch), problem.loss(outputs, together)[member : member + 1])
        for one, other in ((batch.inputs, together.inputs), (batch.targets, together.targets)):
            expected = other[member] if len(other) == 3 and other.dim() == one.dim() and len(one) == 1 else other
            assert torch.equal(one[0] if len(one) == 1 else one, expected)


@by_member
def test_members_can_be_left_out(problem: AbstractTask) -> None:
    kept = problem.select_members([2, 0])
    assert kept.population == 2
    one, other = (each.sample(10, generator=generator(5)) for each in (problem, kept))
    outputs = contract.random_outputs(problem, one, 3)
    assert torch.equal(kept.loss(outputs[[2, 0]], other), problem.loss(outputs, one)[[2, 0]])
    with pytest.raises(TaskError, match="differs between its 3 members already"):
        problem.sample(4, generator=generator(), members=3)


@shared
def test_one_task_serves_every_population(problem: AbstractTask) -> None:
    assert problem.population is None
    assert problem.select_members([0, 3]) is problem


@every
def test_gradients_are_right(problem: AbstractTask) -> None:
    batch = problem.sample(3, generator=generator())
    outputs = contract.random_outputs(problem, batch, problem.population).requires_grad_()
    assert torch.autograd.gradcheck(lambda each: problem.loss(each, batch), outputs, fast_mode=True)


@every
def test_loss_is_the_score_of_its_batch(problem: AbstractTask) -> None:
    (name,) = (score.name for score in problem.scores if score.name in ("mse", "cross_entropy", "weighted_mse"))
    # batches larger than a set hold padding, which must not count
    batch = problem.sample(60, generator=generator())
    outputs = contract.random_outputs(problem, batch, 3)
    torch.testing.assert_close(problem.loss(outputs, batch), problem.finish(problem.tally(outputs, batch))[name])


@every
def test_models_train_on_it(problem: AbstractTask) -> None:
    network = architecture(
        "sh:gru", input_size=problem.input_size, output_size=problem.output_size, encoding=problem.encoding, units=3
    )
    model = Model(network, generator=generator(), population=3)
    batch = problem.sample(4, generator=generator())
    outputs, _ = model(batch.inputs)
    problem.loss(outputs, batch).sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert all(gradient is not None and bool(gradient.isfinite().all()) for gradient in gradients)
    assert any(bool(gradient[2].any()) for gradient in gradients if gradient is not None)


@pytest.mark.parametrize("name", [name for name, entry in TASKS.items() if entry.data_set is None])
def test_ignorance_earns_the_chance_level_and_perfection_the_best(name: str) -> None:
    problem = task(name, num_samples=20_000) if name in ("capacity", "rcf") else task(name)
    chance, best = Tally.empty(), Tally.empty()
    for batch in problem.batches("test", 1000):
        chance += problem.tally(ignorant(problem, batch), batch)
        best += problem.tally(perfect(problem, batch), batch)
    found = problem.finish(chance)
    for score in problem.scores:
        luck = 2.0 if score.unit == "bits" else 2e-3  # of 20,000 labels some more are 0 than 1
        if score.name != "answer_cross_entropy":  # which has a test of its own: it is of outputs that know the place
            assert found[score.name].item() == pytest.approx(score.chance, rel=0.03, abs=luck), score.name
        assert problem.finish(best)[score.name].item() == pytest.approx(score.best, abs=1e-6), score.name


@every
def test_argument_values_survive_json(problem: AbstractTask) -> None:
    assert task(**json.loads(json.dumps(problem.to_json()))) == problem


@every
def test_tasks_are_values(problem: AbstractTask) -> None:
    assert hash(problem) == hash(dataclasses.replace(problem))  # type: ignore[type-var]
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem.seed = 1  # type: ignore[attr-defined]


def test_only_what_differs_from_the_default_is_printed() -> None:
    assert str(Adding()) == "adding"
    assert str(Copying(delay=200, num_training=None)) == "copying(num_training=None, delay=200)"


@every
def test_sets_live_as_long_as_their_task_and_do_not_travel(problem: AbstractTask) -> None:
    def places() -> dict[Any, list[int]]:
        return {key: [tensor.data_ptr() for tensor in tensors] for key, tensors in problem.kept.items()}

    first = next(problem.batches("test", 50))
    before = places()
    assert before
    for _ in range(10):  # other tasks do not push them out
        next(dataclasses.replace(problem).batches("test", 50))  # type: ignore[type-var]
    next(problem.batches("test", 7))
    assert before.items() <= places().items()
    copy = pickle.loads(pickle.dumps(problem))
    assert copy == problem
    assert not copy.kept
    contract.assert_same(next(copy.batches("test", 50)), first)


@every
def test_another_seed_makes_another_set(problem: AbstractTask) -> None:
    other = dataclasses.replace(problem, seed=1)  # type: ignore[type-var]
    one, two = (next(each.batches("test", 50)) for each in (problem, other))
    assert not torch.equal(one.targets, two.targets)


def test_another_process_makes_the_same_sequences() -> None:
    code = "from tests.tasks import contract, generated_tasks; print(*map(contract.fingerprint, generated_tasks.ALL))"
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert run.stdout.split() == [contract.fingerprint(problem) for problem in ALL]


def test_splits_of_generated_tasks_differ() -> None:
    targets = {split: next(Adding().batches(split, 100)).targets for split in ("train", "validation", "test")}
    assert not torch.equal(targets["train"], targets["test"])
    assert not torch.equal(targets["validation"], targets["test"])


def test_training_batches_come_from_the_fixed_training_set() -> None:
    problem = Adding(length=5, num_training=20)
    known = {tuple(row) for row in next(problem.batches("train", 20)).inputs[..., 0].tolist()}
    drawn = {tuple(row) for row in problem.sample(500, generator=generator()).inputs[..., 0].tolist()}
    assert drawn == known  # 500 draws leave none of 20 out
    assert problem.num_sequences("train") == 20
    assert Adding(num_training=None).num_sequences("train") is None


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")])
def test_batches_and_samples_take_a_device(device: torch.device | str) -> None:
    problem = Adding(length=5)
    assert next(problem.batches("test", 2, device=device)).inputs.device.type == "cpu"
    assert problem.sample(2, generator=generator(), device=device).inputs.device.type == "cpu"
    assert problem.sample(2, generator=generator(), device="meta").targets.device.type == "meta"


def test_memoryless_baseline_of_copying_is_the_closed_form() -> None:
    # REQUIREMENTS 2.5: 10 ln 8 / (T + 20) at T = 100, 200, 300
    for delay, expected in ((100, 0.1733), (200, 0.0945), (300, 0.0650)):
        (score, _) = Copying(delay=delay).scores
        assert score.chance == pytest.approx(10 * math.log(8) / (delay + 20))
        assert score.chance == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("split", ["dev", "", None])
def test_unknown_split_is_refused(split) -> None:
    for problem in ALL:
        with pytest.raises(TaskError, match="a split is train, validation or test"):
            problem.batches(split, 4)
        with pytest.raises(TaskError, match="a split is train, validation or test"):
            problem.num_sequences(split)


@pytest.mark.parametrize("number", [0, -1, 2.0, True])
def test_bad_numbers_of_sequences_are_refused(number) -> None:
    for problem in SHARED:
        with pytest.raises(TaskError, match="batch_size must be an integer of at least 1"):
            problem.sample(number, generator=generator())
        with pytest.raises(TaskError, match="batch_size must be an integer of at least 1"):
            problem.batches("test", number)
        with pytest.raises(TaskError, match="members must be an integer of at least 1"):
            problem.sample(3, generator=generator(), members=number)


def test_scores_that_a_tally_lacks_are_named() -> None:
    class Lacking(Adding):
        def tally(self, outputs: torch.Tensor, batch: Batch) -> Tally:
            return Tally.of(error=(outputs.sum(), torch.tensor(1.0)))

    problem = Lacking(length=4)
    batch = problem.sample(3, generator=generator())
    with pytest.raises(TaskError, match=r"tally counts error, and lacks what scores declares: mse"):
        problem.finish(problem.tally(contract.random_outputs(problem, batch, None), batch))
