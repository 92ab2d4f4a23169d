"""Scores on a split."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from rnnlab import Model, TaskError, TrainingError, architecture, evaluate, task, train
from rnnlab.engine.gpu import sharing
from rnnlab.engine.gpu.sharing import processors, share_of_gpu
from rnnlab.tasks.adding import Adding
from rnnlab.tasks.task import Batch, Tally
from tests.training.small import adding, network, quick


def test_an_evaluation_has_the_whole_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever evaluates waits for the scores: populations beside it have nothing to do meanwhile."""
    monkeypatch.setattr(sharing, "_all_processors", lambda device: 132)
    problem = task("adding", length=5, num_evaluation=10)
    net = architecture("sh:tanh", input_size=2, output_size=1, units=3)
    model = Model(net, generator=torch.Generator().manual_seed(0))
    found: list[int] = []
    model.register_forward_pre_hook(lambda *_: found.append(processors(torch.device("cpu")).own))
    with share_of_gpu(0.25):
        evaluate(model, problem, "validation", 10)
        assert processors(torch.device("cpu")).own == 33
    assert set(found) == {132}


@dataclass(frozen=True)
class MeanLoss(Adding):
    """With a loss as for a single network: every member would be given a part of its gradient."""

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return super().loss(outputs, batch).mean()


@dataclass(frozen=True)
class MeanScore(Adding):
    """With one score, which would be that of all members."""

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        each = super().tally(outputs, batch)
        return Tally.of(mse=(each.sums["mse"].sum(), each.counts["mse"].sum()))


@pytest.mark.parametrize(
    ("kind", "message"),
    [(MeanLoss, "task adding: a loss is a tensor with one number for each"), (MeanScore, "the score mse is a tensor")],
)
def test_what_is_one_number_for_a_whole_population_is_refused(kind: type[Adding], message: str) -> None:
    """It is taken for a single network, for which it is the same."""
    problem = kind(length=5, num_evaluation=8, num_training=20)
    with pytest.raises(TaskError, match=rf"{message}.* of the 2 members, \[2\], got shape \[\]"):
        train(network(problem), problem, [quick(), quick(seed=2)])
    alone, usual = (train(network(each), each, [quick()]).members[0] for each in (problem, task_alone()))
    assert alone.validation == usual.validation


def task_alone() -> Adding:
    return Adding(length=5, num_evaluation=8, num_training=20)


def test_what_is_no_model_and_no_task_is_refused() -> None:
    problem = adding()
    model = Model(network(problem), seed=0)
    for given, of, message in (
        (network(problem), problem, "evaluate takes a model, got <Architecture"),
        (model, "adding", r"evaluate takes an object for its task: task\('adding', \.\.\.\) makes one"),
        (model, {"name": "adding"}, r"evaluate takes a task, got {'name': 'adding'}: task\(\*\*table\) makes one"),
    ):
        with pytest.raises(TrainingError, match=message):
            evaluate(given, of, "test", 8)  # pyright: ignore[reportArgumentType]
