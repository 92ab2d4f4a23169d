"""Scores on training data, to set beside those on validation and test."""

from rnnlab.engine.model import Model
from rnnlab.tasks.task import AbstractTask
from rnnlab.training.evaluation import evaluate


def training_scores(model: Model, task: AbstractTask, batch_size: int) -> list[dict[str, float]]:
    """The scores of each member of a population on training data, by name.

    As many sequences are looked at as the validation set has, the first ones: to go through all of a text of 90 million
    characters would take longer than many trainings.
    """
    scores = evaluate(model, task, "train", batch_size, num_sequences=task.num_sequences("validation") or 1)
    return [{name: values[member] for name, values in scores.items()} for member in range(model.population or 1)]
