"""Every generator against its slow twin, on random draws of random sizes."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from rnnlab.tasks.adding import Adding
from rnnlab.tasks.arithmetic import CHARACTERS, Arithmetic, text
from rnnlab.tasks.capacity import Capacity
from rnnlab.tasks.copying import Copying
from rnnlab.tasks.generated import AbstractGeneratedTask
from rnnlab.tasks.memory import Memory
from rnnlab.tasks.parentheses import Parentheses, final_counts
from rnnlab.tasks.rcf import RandomFunction
from rnnlab.tasks.recall import Recall
from rnnlab.tasks.task import Batch
from tests.tasks import twins

SEEDS = st.integers(0, 2**32)
SMALL = st.integers(1, 6)
ADDING = st.builds(Adding, length=st.integers(2, 30))
COPYING = st.builds(Copying, delay=st.integers(1, 20), num_items=SMALL, num_symbols=st.integers(2, 9))
MEMORY = st.builds(Memory, num_inputs=SMALL, length=SMALL)
RECALL = st.builds(Recall, length=SMALL, num_inputs=SMALL)
PARENTHESES = st.builds(Parentheses, length=st.integers(1, 70), num_types=SMALL, num_noise=SMALL)
TWINS = {
    Adding: twins.adding,
    Copying: twins.copying,
    Memory: twins.memory,
    Recall: twins.recall,
    Parentheses: twins.parentheses,
}


def drawn(task: AbstractGeneratedTask, seed: int, num_sequences: int = 4) -> tuple[tuple[Tensor, ...], Batch]:
    choices = task.choose(num_sequences, torch.Generator().manual_seed(seed))
    return choices, task.encode(choices)


@given(task=st.one_of(ADDING, COPYING, MEMORY, RECALL, PARENTHESES), seed=SEEDS)
def test_batch_equals_its_twin(task: AbstractGeneratedTask, seed: int) -> None:
    choices, batch = drawn(task, seed)
    rows = zip(*(choice.tolist() for choice in choices), strict=True)
    expected = [TWINS[type(task)](task, *row) for row in rows]
    inputs, targets = (torch.tensor(each) for each in zip(*expected, strict=True))
    assert batch.inputs.shape == (4, task.num_steps, *([] if task.encoding == "tokens" else [task.input_size]))
    torch.testing.assert_close(batch.inputs, inputs, rtol=0, atol=0)
    torch.testing.assert_close(batch.targets, targets, rtol=1e-6, atol=1e-6)


@given(length=st.integers(2, 9), seed=SEEDS)
def test_adding_marks_one_step_of_each_half(length: int, seed: int) -> None:
    _, first, second = Adding(length=length).choose(200, torch.Generator().manual_seed(seed))
    assert set(first.tolist()) <= set(range(length // 2))
    assert set(second.tolist()) <= set(range(length // 2, length))


@given(
    first=st.integers(-(10**7), 10**7),
    second=st.integers(-(10**7), 10**7),
    compute_steps=st.lists(st.integers(1, 6), min_size=1, max_size=3),
)
@example(first=-(10**7), second=-(10**7), compute_steps=[6])  # the longest of all
@example(first=0, second=0, compute_steps=[1])
@example(first=10**7, second=-(10**7), compute_steps=[1, 6])
@example(first=-343243, second=93851, compute_steps=[2])  # the paper's own
def test_arithmetic_equals_printed_sums(first: int, second: int, compute_steps: list[int]) -> None:
    task = Arithmetic(compute_steps=tuple(compute_steps))
    batch = task.encode((torch.tensor([first, second]), torch.tensor([second, first])))
    assert batch.inputs.shape == (2, 36)
    assert batch.targets.shape == (len(compute_steps), 2, 36)
    for row, terms in enumerate(((first, second), (second, first))):
        for member, steps in enumerate(compute_steps):
            problem, answer = twins.arithmetic(task, *terms, steps)
            assert text(batch.inputs[row]) == problem
            assert text(batch.targets[member, row]) == answer


def test_arithmetic_has_the_papers_example() -> None:
    batch = Arithmetic(compute_steps=1).encode((torch.tensor([-343243]), torch.tensor([93851])))
    assert text(batch.inputs[0]).strip() == "-343243+93851="  # C69
    assert text(batch.targets[0]).strip() == "-249392"


@given(largest=st.integers(1, 10**17), seed=SEEDS)
def test_arithmetic_holds_numbers_of_any_size(largest: int, seed: int) -> None:
    longest = len(str(-largest))
    task = Arithmetic(compute_steps=2, largest=largest, length=2 * longest + 4 + len(str(-2 * largest)))
    terms = task.choose(20, torch.Generator().manual_seed(seed))
    batch = task.encode(terms)
    for row, (first, second) in enumerate(zip(*(each.tolist() for each in terms), strict=True)):
        assert abs(first) <= largest >= abs(second)
        assert (text(batch.inputs[row]), text(batch.targets[row])) == twins.arithmetic(task, first, second, 2)


def test_arithmetic_writes_sums_without_plus_and_equals() -> None:
    task = Arithmetic()
    assert task.output_size == 12
    assert CHARACTERS[: task.output_size] == "0123456789- "


@given(changes=st.lists(st.lists(st.sampled_from([-1, 0, 1]), min_size=3, max_size=3), min_size=1, max_size=200))
@example(changes=[[1, -1, 1]] * 175)
@example(changes=[[-1, 1, 0]] * 20 + [[1, -1, 1]] * 30)
def test_counts_joined_in_pairs_equal_counting_one_by_one(changes: list[list[int]]) -> None:
    counts = [0, 0, 0]
    for row in changes:
        counts = [min(max(count + change, 0), 9) for count, change in zip(counts, row, strict=True)]
    assert final_counts(torch.tensor(changes, dtype=torch.int16)[None]).tolist() == [counts]


def test_parentheses_count_the_papers_example() -> None:
    task = Parentheses(length=14)
    brackets = "()[]{}<>"
    line = "(a<a<bcb>[[[]]"  # C66: of type <>, one is open at the end
    characters = [brackets.index(sign) if sign in brackets else 20 + ord(sign) - ord("a") for sign in line]
    every_stream = torch.tensor(characters, dtype=torch.int16)[None, :, None].expand(1, 14, 10)
    assert task.encode((every_stream,)).targets[0, :4].tolist() == [1, 1, 0, 1]


@given(
    num_samples=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    once=st.booleans(),
    batch_size=st.integers(1, 15),
    seed=SEEDS,
)
def test_capacity_shows_each_member_its_own_samples(
    num_samples: list[int], once: bool, batch_size: int, seed: int
) -> None:
    task = Capacity(num_samples=tuple(num_samples), num_inputs=3, length=4, input_once=once)
    vectors, labels = (sample.tolist() for sample in task.samples())
    batch = task.sample(batch_size, generator=torch.Generator().manual_seed(seed))
    assert batch.weights is not None
    uniform = torch.rand(batch_size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).tolist()
    for member, size in enumerate(num_samples):
        for place in range(batch_size):
            is_whole = size <= batch_size
            row = place if is_whole else int(uniform[place] * size)
            is_padding = is_whole and place >= size
            assert batch.weights[member, place].item() == (not is_padding)
            if not is_padding:
                inputs, target = twins.capacity(task, vectors[row], labels[row], once)
                assert batch.inputs[member, place].tolist() == inputs
                assert batch.targets[member, place].item() == target


@given(input_once=st.lists(st.booleans(), min_size=1, max_size=3), batch_size=st.integers(1, 7))
def test_capacity_shows_inputs_once_or_always_by_member(input_once: list[bool], batch_size: int) -> None:
    task = Capacity(num_samples=5, num_inputs=3, length=4, input_once=tuple(input_once))
    vectors, labels = (sample.tolist() for sample in task.samples())
    row = 0
    for batch in task.batches("test", batch_size):
        for place in range(batch.targets.shape[-1]):
            for member, once in enumerate(input_once):
                inputs, target = twins.capacity(task, vectors[row], labels[row], once)
                assert batch.inputs[member, place].tolist() == inputs
                assert batch.targets[place].item() == target
            row += 1
    assert row == 5


@given(
    num_samples=st.integers(1, 12),
    tau=st.integers(0, 5),
    once=st.booleans(),
    batch_size=st.integers(1, 15),
    seed=SEEDS,
)
def test_random_function_is_weighted_by_its_power_law(
    num_samples: int, tau: int, once: bool, batch_size: int, seed: int
) -> None:
    task = RandomFunction(num_samples=num_samples, num_inputs=3, tau=tau, length=4, input_once=once)
    vectors, numbers = task.samples()
    batch = task.sample(batch_size, generator=torch.Generator().manual_seed(seed))
    assert batch.weights is not None
    for place in range(batch_size):
        if batch.weights[place] == 0:
            assert place >= num_samples
            continue
        (row,) = (row for row in range(num_samples) if numbers[row] == batch.targets[place])
        assert batch.weights[place].item() == pytest.approx(num_samples * float(twins.rcf_weight(task, row)))
        assert batch.inputs[place, 0].tolist() == vectors[row].tolist()
        assert batch.inputs[place, 1:].abs().sum().item() == pytest.approx(
            0 if once else 3 * vectors[row].abs().sum().item(), rel=1e-5
        )
    if num_samples <= batch_size:  # whole: the loss is the sum itself
        errors = (batch.targets[:num_samples, 0] - 2.0) ** 2
        outputs = torch.full((batch_size, 4, 1), 2.0)
        expected = sum(float(twins.rcf_weight(task, row)) * errors[row].item() for row in range(num_samples))
        assert task.loss(outputs, batch).item() == pytest.approx(expected, rel=1e-5)
