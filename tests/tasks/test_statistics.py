"""Large samples against closed forms: what is uniform is uniform, and chance levels are what they should be."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor

from rnnlab.tasks.adding import Adding
from rnnlab.tasks.arithmetic import CHARACTERS, Arithmetic
from rnnlab.tasks.capacity import Capacity, mutual_information
from rnnlab.tasks.copying import Copying
from rnnlab.tasks.memory import Memory
from rnnlab.tasks.parentheses import Parentheses
from rnnlab.tasks.rcf import RandomFunction
from rnnlab.tasks.recall import Recall
from rnnlab.tasks.task import SPLITS
from tests.tasks import twins
from tests.tasks.answers import entropy, one_hot
from tests.tasks.contract import assert_same, generator


def assert_shares(values: Tensor, shares: dict[int, float]) -> None:
    """How often values come, within five standard deviations, and that no others come."""
    counts, total = Counter(values.flatten().tolist()), values.numel()
    assert set(counts) <= set(shares)
    for value, share in shares.items():
        deviation = math.sqrt(total * share * (1 - share))
        assert abs(counts[value] - total * share) <= 5 * deviation + 1e-9, (value, counts[value], total * share)


def uniform(start: int, stop: int) -> dict[int, float]:
    return dict.fromkeys(range(start, stop), 1 / (stop - start))


def assert_mean(values: Tensor, expected: float) -> None:
    """The mean, within five of its standard errors."""
    error = values.double().std() / math.sqrt(values.numel())
    assert abs(values.double().mean() - expected) <= 5 * error


def test_adding_is_uniform_and_its_sum_has_variance_a_sixth() -> None:
    numbers, first, second = Adding(length=9).choose(100_000, generator())
    assert_shares(first, uniform(0, 4))
    assert_shares(second, uniform(4, 9))
    assert 0 <= numbers.min() <= numbers.max() < 1
    assert_mean(numbers, 1 / 2)
    targets = Adding(length=9).encode((numbers, first, second)).targets
    assert_mean((targets - 1) ** 2, 1 / 6)


def test_symbols_to_copy_are_uniform() -> None:
    (symbols,) = Copying().choose(20_000, generator())
    assert_shares(symbols, uniform(1, 9))
    for place in range(10):
        assert_shares(symbols[:, place], uniform(1, 9))


def test_memory_is_uniform_of_variance_one() -> None:
    (vectors,) = Memory().choose(5_000, generator())
    assert -math.sqrt(3) <= vectors.min() <= vectors.max() <= math.sqrt(3)
    assert_mean(vectors, 0.0)
    assert_mean(vectors**2, 1.0)
    assert_mean(vectors**4, 9 / 5)  # the fourth moment of a uniform number of variance 1


def test_memory_of_too_few_units_keeps_as_many_directions() -> None:
    # C55: outputs that are right in n directions and 0 in the others
    task = Memory(num_inputs=8, num_evaluation=20_000)
    batch = next(task.batches("test", 20_000))
    for num_units in (0, 3, 8, 11):
        kept = batch.targets * (torch.arange(8) < num_units)
        score = task.finish(task.tally(kept[:, None], batch))["mse"]
        assert score.item() == pytest.approx(task.expected_error(num_units), abs=0.02)


def test_recall_is_uniform() -> None:
    (inputs,) = Recall(length=3).choose(50_000, generator())
    assert 0 <= inputs.min() <= inputs.max() < 1
    assert_mean((inputs - 1 / 2) ** 2, 1 / 12)


def test_parentheses_are_half_noise() -> None:
    (characters,) = Parentheses().choose(500, generator())
    assert_shares((characters >= 20).int(), {0: 0.5, 1: 0.5})
    assert_shares(characters, dict.fromkeys(range(20), 1 / 40) | dict.fromkeys(range(20, 30), 1 / 20))
    for stream in range(10):
        assert_shares((characters[..., stream] >= 20).int(), {0: 0.5, 1: 0.5})


@pytest.mark.parametrize("task", [Parentheses(length=40, num_types=2, num_noise=3), Parentheses(num_types=4)])
def test_final_counts_are_distributed_as_the_walk_says(task: Parentheses) -> None:
    batch = task.encode(task.choose(5_000, generator()))
    assert_shares(batch.targets, dict(enumerate(task.count_distribution.tolist())))


def test_walk_between_walls_equals_counting_step_by_step() -> None:
    task = Parentheses(length=30, num_types=3)
    shares = [1.0] + [0.0] * 9
    for _ in range(30):
        moved = [0.0] * 10
        for count, share in enumerate(shares):
            moved[min(count + 1, 9)] += share / 12
            moved[max(count - 1, 0)] += share / 12
            moved[count] += share * 10 / 12
        shares = moved
    np.testing.assert_allclose(task.count_distribution, shares, atol=1e-12)
    cross_entropy, accuracy = task.scores
    assert cross_entropy.chance == pytest.approx(3 * entropy(shares))
    assert accuracy.chance == pytest.approx(max(shares))


def test_numbers_to_add_are_uniform_with_both_ends() -> None:
    first, second = Arithmetic(largest=4).choose(50_000, generator())
    assert_shares(first, uniform(-4, 5))
    assert_shares(second, uniform(-4, 5))
    assert_shares(first * 9 + second, {a * 9 + b: 1 / 81 for a in range(-4, 5) for b in range(-4, 5)})
    large, _ = Arithmetic().choose(100_000, generator())
    assert -(10**7) <= large.min() < -9.99e6
    assert 9.99e6 < large.max() <= 10**7


def test_chance_levels_of_arithmetic_are_those_of_all_sums() -> None:
    task = Arithmetic(largest=30, compute_steps=2, length=14)
    lines = [twins.arithmetic(task, a, b, 2)[1] for a in range(-30, 31) for b in range(-30, 31)]
    columns = [Counter(column) for column in zip(*lines, strict=True)]
    everywhere = sum(entropy([count / len(lines) for count in column.values()]) for column in columns) / task.length
    written = [{sign: count for sign, count in column.items() if sign != " "} for column in columns]
    totals = [sum(column.values()) for column in written]
    answer = sum(
        total * entropy([count / total for count in column.values()])
        for column, total in zip(written, totals, strict=True)
        if total
    ) / sum(totals)
    assert task.scores[0].chance == pytest.approx(everywhere, rel=0.01)
    assert task.scores[1].chance == pytest.approx(answer, rel=0.01)


@pytest.mark.parametrize("largest", [1, 5, 9, 12, 30, 64, 99, 120])
def test_chance_of_a_right_sum_is_that_of_the_commonest_target(largest: int) -> None:
    task = Arithmetic(largest=largest, compute_steps=2, length=20)
    numbers = range(-largest, largest + 1)
    lines = Counter(twins.arithmetic(task, a, b, 2)[1] for a in numbers for b in numbers)
    assert task.scores[2].chance == pytest.approx(max(lines.values()) / lines.total())


def test_chance_levels_of_arithmetic_do_not_depend_on_compute_steps() -> None:
    one, six = (Arithmetic(compute_steps=steps) for steps in (1, 6))
    assert [score.chance for score in one.scores] == pytest.approx([score.chance for score in six.scores])


def test_answer_of_arithmetic_is_judged_without_its_spaces() -> None:
    task = Arithmetic(largest=99, length=16)
    batch = next(task.batches("test", 50))
    is_written = (batch.targets != CHARACTERS.index(" "))[..., None]
    right = 60.0 * one_hot(batch.targets, task.output_size)
    only_written = task.finish(task.tally(torch.where(is_written, right, 0.0), batch))
    only_spaces = task.finish(task.tally(torch.where(is_written, 0.0, right), batch))
    assert only_written["answer_cross_entropy"].item() == pytest.approx(0, abs=1e-6)
    assert only_spaces["answer_cross_entropy"].item() == pytest.approx(math.log(12), rel=1e-6)
    share = is_written.double().mean().item()
    assert only_written["cross_entropy"].item() == pytest.approx((1 - share) * math.log(12), rel=1e-6)
    assert only_written["accuracy"].item() == 0  # a space that is wrong makes the sum wrong


def test_capacity_is_uniform_over_bits_and_labels() -> None:
    vectors, labels = Capacity(num_samples=50_000).samples()
    assert_shares(vectors, {0: 0.5, 1: 0.5})
    assert_shares(labels, {0: 0.5, 1: 0.5})
    assert len(vectors.unique(dim=0)) == 50_000
    drawn = Capacity(num_samples=12).sample(11, generator=generator())
    assert drawn.weights is not None
    assert bool(drawn.weights.all())


def test_capacity_draws_every_sample_alike() -> None:
    # every sample its own vector, so that draws can be told apart
    task = Capacity(num_samples=30, num_inputs=24, length=1)
    vectors, _ = task.samples()
    rows = {tuple(vector): row for row, vector in enumerate(vectors.tolist())}
    assert len(rows) == 30
    source, found = generator(), []
    for _ in range(400):
        found += [rows[tuple(vector)] for vector in task.sample(29, generator=source).inputs[:, 0].int().tolist()]
    assert_shares(torch.tensor(found), uniform(0, 30))


@pytest.mark.parametrize("right", [0, 13, 50, 51, 75, 99, 100])
def test_mutual_information_is_equation_22(right: int) -> None:
    # C41, with p below one half taken for one half (C-b)
    share = max(right / 100, 0.5)
    bits = 100 - 100 * entropy([share, 1 - share]) / math.log(2)
    measured = mutual_information(torch.tensor(right / 100, dtype=torch.float64), torch.tensor(100))
    assert measured.item() == pytest.approx(bits, abs=1e-9)


def test_mutual_information_is_of_the_whole_set_of_each_member() -> None:
    task = Capacity(num_samples=(40, 10), num_inputs=12)
    labels = task.samples()[1]
    is_wrong = torch.zeros(2, 40, dtype=torch.bool)
    is_wrong[0, :4] = True  # 36 of 40
    is_wrong[1, 2], is_wrong[1, 30] = True, True  # 9 of 10; the second is none of its samples
    logits = (labels.double() - 0.5) * torch.where(is_wrong, -1, 1)
    start, batches = 0, []
    for batch in task.batches("validation", 16):
        stop = start + batch.targets.shape[-1]
        batches.append(task.tally(logits[:, start:stop, None, None].expand(-1, -1, 5, -1), batch))
        start = stop
    scores = task.finish(batches[0] + batches[1] + batches[2])
    bits = [b * (1 - entropy([0.9, 0.1]) / math.log(2)) for b in (40, 10)]
    assert scores["mutual_information"].tolist() == pytest.approx(bits)
    assert scores["accuracy"].tolist() == pytest.approx([0.9, 0.9])
    assert task.scores[0].best == (40.0, 10.0)


def test_best_score_of_capacity_is_claimed_only_where_vectors_are_distinct() -> None:
    # 40 vectors of 5 bits cannot all be different, and labels of the same vector may contradict each other
    assert [score.best for score in Capacity(num_samples=40, num_inputs=5).scores] == [None, None, None]
    assert [score.best for score in Capacity(num_samples=(40, 8), num_inputs=11).scores] == [(40.0, 8.0), 1.0, 0.0]


def stored_bits(num_samples: int, num_inputs: int) -> float:
    """What the best threshold unit gets of the capacity task, if it can learn all labels at all; 0 otherwise."""
    task = Capacity(num_samples=num_samples, num_inputs=num_inputs, length=1)
    (batch,) = task.batches("train", num_samples)
    inputs = np.hstack((batch.inputs[:, 0].numpy(), np.ones((num_samples, 1))))
    signs = 2 * batch.targets.numpy()[:, None] - 1
    free = [(None, None)] * (num_inputs + 1)
    found = linprog(np.zeros(num_inputs + 1), A_ub=-signs * inputs, b_ub=-np.ones(num_samples), bounds=free)
    if not found.success:
        return 0.0
    outputs = torch.from_numpy(inputs @ found.x)[:, None, None]
    return task.finish(task.tally(outputs, batch))["mutual_information"].item()


def test_perceptron_stores_almost_two_bits_a_parameter() -> None:
    # C45: Cover's theorem, a threshold unit of n parameters learns up to about 2 n labels, and no more
    num_parameters = 120
    for bits_a_parameter in (0.5, 1.0, 1.7):
        num_samples = int(bits_a_parameter * num_parameters)
        assert stored_bits(num_samples, num_parameters - 1) == pytest.approx(num_samples)
    assert stored_bits(int(2.3 * num_parameters), num_parameters - 1) == 0


@pytest.mark.parametrize("task", [Capacity(num_samples=30), RandomFunction(num_samples=30)], ids=str)
def test_what_is_learned_by_heart_is_judged_on_the_training_set(task: Capacity | RandomFunction) -> None:
    # C44: nobody could predict other random labels
    train, validation, test = (next(task.batches(split, 30)) for split in SPLITS)
    assert_same(train, validation)
    assert_same(train, test)
    drawn = task.sample(100, generator=generator())
    assert drawn.weights is not None
    is_drawn = drawn.weights > 0
    assert torch.equal(drawn.inputs[is_drawn], train.inputs)
    assert torch.equal(drawn.targets[is_drawn], train.targets)


def test_smaller_sets_begin_larger_ones() -> None:
    small, large = (Capacity(num_samples=size).samples() for size in (10, 1000))
    for one, other in zip(small, large, strict=True):
        assert torch.equal(one, other[:10])


def test_random_function_is_gaussian_and_its_weights_sum_to_one() -> None:
    task = RandomFunction(num_samples=20_000)
    vectors, numbers = task.samples()
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(20_000))
    assert_mean(numbers, 0.0)
    assert_mean(numbers**2, 1.0)
    assert_mean(vectors**2 * 50, 1.0)
    assert task.weights(torch.arange(20_000)).sum().item() == pytest.approx(1)
    paper = RandomFunction()  # C56, C57
    assert (paper.num_samples, paper.input_size, paper.tau, paper.num_steps) == (10**6, 50, 5000, 50)
    first, last = paper.weights(torch.tensor([0, 10**6 - 1])).tolist()
    assert first / last == pytest.approx((10**6 + 5000) / 5001)


def test_loss_of_random_functions_is_a_mean_over_the_batch() -> None:
    # not divided by the sum of its weights, which would favour batches of heavy samples
    task = RandomFunction(num_samples=100, num_inputs=2, length=1, tau=3)
    batch = task.sample(4, generator=generator())
    assert batch.weights is not None
    assert batch.weights.sum().item() != pytest.approx(4, rel=0.05)
    rows = zip(batch.weights.tolist(), batch.targets[:, 0].tolist(), strict=True)
    expected = sum(weight * (number - 3) ** 2 for weight, number in rows) / 4
    assert task.loss(torch.full((4, 1, 1), 3.0), batch).item() == pytest.approx(expected, rel=1e-5)


def test_loss_of_random_functions_is_unbiased() -> None:
    task = RandomFunction(num_samples=100, num_inputs=2, length=1, tau=3)
    _, numbers = task.samples()
    expected = (task.weights(torch.arange(100)) * numbers[:, 0] ** 2).sum()
    source = generator()
    zero = torch.zeros(50, 1, 1)
    losses = torch.stack([task.loss(zero, task.sample(50, generator=source)) for _ in range(2_000)])
    assert_mean(losses, expected.item())


def test_papers_sizes_are_the_defaults() -> None:
    sizes = {
        task.name: (task.input_size, task.output_size, task.num_steps)
        for task in (Adding(), Copying(), Capacity(), Memory(), RandomFunction(), Parentheses(), Arithmetic(), Recall())
    }
    assert sizes == {
        "adding": (2, 1, 100),  # Z45
        "copying": (10, 9, 120),  # Z46
        "capacity": (32, 1, 5),  # C39, C40
        "memory": (64, 64, 12),  # C52
        "rcf": (50, 1, 50),  # C56, C57
        "parentheses": (300, 100, 175),  # C62-C65
        "arithmetic": (14, 12, 36),  # C67, C68
        "recall": (6, 1, 100),  # M7
    }
    assert (Adding().num_training, Copying().num_training, Recall().num_training) == (100_000, 100_000, 10_000)
