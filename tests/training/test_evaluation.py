"""Scores on a split."""

import pytest
import torch

from rnnlab import Model, architecture, evaluate, task
from rnnlab.engine.gpu import sharing
from rnnlab.engine.gpu.sharing import processors, share_of_gpu


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
