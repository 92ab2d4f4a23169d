"""Specifications of small studies, and how their results are compared."""

from pathlib import Path
from typing import Any

from rnnlab import StudyRecord, StudySpec, run_study
from tests.tuning.small_studies import result

SMALL: dict[str, Any] = {
    "name": "small",
    "task": {"name": "adding", "length": 6, "num_evaluation": 20, "num_training": 100},
    "architectures": ["gru", "sh"],
    "units": 4,
    "trials": 4,
    "seeds": 3,
    "sampler": "random",
    "seed": 3,
    "space": {
        "optimiser": {"kind": "category", "choices": ["sgd", "adam"]},
        "learning_rate": {"kind": "float", "low": 1e-3, "high": 1e5, "scale": "log"},
    },
    "hyperparameters": {"num_steps": 12, "evaluate_every": 4, "batch_size": 4},
}
"""Some of its points diverge."""

TOML = """
name = "small"
architectures = ["gru", "sh"]
units = 4
trials = 4
seeds = 3
sampler = "random"
seed = 3

[task]
name = "adding"
length = 6
num_evaluation = 20
num_training = 100

[space.optimiser]
kind = "category"
choices = ["sgd", "adam"]

[space.learning_rate]
kind = "float"
low = 1e-3
high = 1e5
scale = "log"

[hyperparameters]
num_steps = 12
evaluate_every = 4
batch_size = 4
"""


def spec(**changes: Any) -> StudySpec:
    """The small specification with changes; a key whose value is None is left out."""
    values = SMALL | changes
    return StudySpec.from_json({key: value for key, value in values.items() if value is not None})


def ran(folder: Path, store: str = "rnnlab.db", **changes: Any) -> StudyRecord:
    """The small study, run."""
    return run_study(spec(**changes), store=folder / store, population=4)


def assert_same_results(ours: StudyRecord, theirs: StudyRecord) -> None:
    """Everything but who did it, when, and how long it took."""
    assert [each.arm for each in ours.arms] == [each.arm for each in theirs.arms]
    for our, their in zip(ours.arms, theirs.arms, strict=True):
        assert [each.arm for each in our.finalists] == [each.arm for each in their.finalists]
        assert [result(trial) for trial in our.all_trials] == [result(trial) for trial in their.all_trials]
