"""Every task can be learned: a small network beats the chance level in every score."""

import pytest
import torch

from rnnlab import TASKS, Model, architecture
from rnnlab.tasks.adding import Adding
from rnnlab.tasks.arithmetic import Arithmetic
from rnnlab.tasks.capacity import Capacity
from rnnlab.tasks.copying import Copying
from rnnlab.tasks.data_catalogue import DataSet
from rnnlab.tasks.memory import Memory
from rnnlab.tasks.parentheses import Parentheses
from rnnlab.tasks.rcf import RandomFunction
from rnnlab.tasks.recall import Recall
from rnnlab.tasks.task import AbstractTask, Tally
from tests.tasks.test_data_tasks import SMALL

TINY: tuple[AbstractTask, ...] = (
    Adding(length=4, num_training=None, num_evaluation=200),
    Copying(delay=2, num_items=2, num_symbols=2, num_training=None, num_evaluation=200),
    Capacity(num_samples=12, num_inputs=8, length=2),
    Memory(num_inputs=2, length=3, num_evaluation=200),
    RandomFunction(num_samples=12, num_inputs=6, length=2, tau=3),
    Parentheses(length=5, num_types=1, num_noise=1, num_evaluation=200),
    Arithmetic(largest=1, length=9, compute_steps=1, num_evaluation=200),
    Recall(length=3, num_inputs=2, num_training=None, num_evaluation=200),
)


def trained(task: AbstractTask, num_steps: int) -> Model:
    """A GRU after so many batches; a stream is run through again and again."""
    sizes = {"input_size": task.input_size, "output_size": task.output_size, "units": 24}
    model = Model(architecture("gru", **sizes, encoding=task.encoding), generator=torch.Generator().manual_seed(0))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(1)
    batches = [] if task.feed == "samples" else list(task.batches("train", 16))
    for step in range(num_steps):
        batch = batches[step % len(batches)] if batches else task.sample(32, generator=generator)
        outputs, _ = model(batch.inputs)
        optimiser.zero_grad()
        task.loss(outputs, batch).backward()
        optimiser.step()
    return model


def scores_after(task: AbstractTask, num_steps: int) -> dict[str, float]:
    """On the training split: whether what was shown has been learned, not whether others follow from it."""
    model, tally = trained(task, num_steps), Tally.empty()
    with torch.no_grad():
        for batch in task.batches("train", 16):
            tally += task.tally(model(batch.inputs)[0], batch)
    return {name: value.item() for name, value in task.finish(tally).items()}


def assert_beats_chance(task: AbstractTask) -> None:
    found = scores_after(task, num_steps=120)
    for score in task.scores:
        assert isinstance(score.chance, float)
        if score.better == "lower":
            assert found[score.name] < 0.87 * score.chance, score
        else:
            assert found[score.name] > 1.13 * score.chance, score


@pytest.mark.parametrize("task", TINY, ids=lambda task: task.name)
def test_generated_task_is_learned(task: AbstractTask) -> None:
    assert_beats_chance(task)


@pytest.mark.parametrize("name", SMALL)
def test_task_on_data_is_learned(name: str, small_data: dict[str, DataSet]) -> None:
    assert_beats_chance(SMALL[name]())


def test_all_tasks_are_learned_here() -> None:
    assert {task.name for task in TINY} == {name for name, entry in TASKS.items() if entry.data_set is None}
