"""Networks that read ahead are kept from tasks whose later inputs hold the answer, or padding."""

import pytest
import torch

from rnnlab import (
    AbstractTask,
    Architecture,
    CyclicGraph,
    Hyperparameters,
    Model,
    TrainingError,
    architecture,
    evaluate,
    train,
)
from rnnlab.tasks.adding import Adding
from rnnlab.tasks.data_catalogue import DataSet
from rnnlab.tasks.registry import TASKS, task_class
from tests.tasks.test_data_tasks import SMALL

QUICK = Hyperparameters(num_steps=1, evaluate_every=1, batch_size=4)


def in_both_directions(problem: AbstractTask) -> Architecture:
    graph = CyclicGraph(
        [("x", "input"), ("f",), ("b",), ("y", "output")],
        [("x", "f", 0), ("f", "f", 1), ("f", "y", 0), ("x", "b", 0), ("b", "b", -1), ("b", "y", 0)],
    )
    sizes = {"input_size": problem.input_size, "output_size": problem.output_size}
    return architecture(graph, units=3, encoding=problem.encoding, **sizes)


@pytest.mark.parametrize("name", ["ptb-characters", "ptb-words", "text8-zhang", "text8-collins", "music", "sst"])
def test_networks_that_would_read_answers_or_padding_are_refused(name: str, small_data: dict[str, DataSet]) -> None:
    problem = SMALL[name]()
    both = in_both_directions(problem)
    with pytest.raises(TrainingError, match=r"is not for networks that read ahead.* b -> b has delay -1"):
        train(both, problem, QUICK)
    with pytest.raises(TrainingError, match=r"is not for networks that read ahead"):
        evaluate(Model(both, generator=torch.Generator().manual_seed(0)), problem, "test", 4)


def test_other_tasks_may_be_read_in_both_directions() -> None:
    problem = Adding(length=5, num_evaluation=8)
    assert train(in_both_directions(problem), problem, QUICK).is_complete


def test_it_is_said_of_every_task() -> None:
    assert {name for name in TASKS if not task_class(name).may_read_ahead} == {
        *("ptb-characters", "ptb-words", "text8-zhang", "text8-collins"),
        *("jsb-chorales", "nottingham", "musedata", "piano-midi", "sst"),
    }
