"""Room for a training step: refused is only what cannot fit."""

import pytest

from rnnlab import Hyperparameters, TrainingError, architecture, task
from rnnlab.training import room
from rnnlab.training.room import check_room


def test_what_members_share_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parentheses have inputs a hundred times as wide as this network; with theirs for each member it would not fit."""
    problem = task("parentheses")
    network = architecture("tanh", input_size=problem.input_size, output_size=problem.output_size, units=2)
    inputs = problem.batch_size * problem.num_steps * problem.input_size * 4
    monkeypatch.setattr(room, "machine_memory", lambda: 10 * inputs)
    check_room(network, problem, [Hyperparameters(seed=seed) for seed in range(10)])
    monkeypatch.setattr(room, "machine_memory", lambda: inputs)
    with pytest.raises(TrainingError, match=r"a training step takes .* this machine has .* of memory: make something"):
        check_room(network, problem, [Hyperparameters(seed=seed) for seed in range(10)])
