"""Scores on training data, to set beside those on validation and test."""

import math
from itertools import islice

import torch

from rnnlab.engine.model import Model
from rnnlab.engine.state import State
from rnnlab.tasks.task import AbstractTask, Tally


def training_scores(model: Model, task: AbstractTask, batch_size: int) -> list[dict[str, float]]:
    """The scores of each member of a population on training data, by name.

    As many sequences are looked at as the validation set has, the first ones: to go through all of a text of 90 million
    characters would take longer than many trainings.
    """
    device = next(iter(model.arrays.values())).device
    num_batches = math.ceil((task.num_sequences("validation") or 1) / batch_size)
    tally, carried = Tally.empty(), None
    with torch.no_grad():
        for batch in islice(task.batches("train", batch_size, device=device), num_batches):
            state: State | None = carried if batch.continues else None
            outputs, carried = model(batch.inputs, state, batch.lengths)
            tally = tally + task.tally(outputs, batch)
    population = model.population or 1
    scores = {name: values.double().expand(population).tolist() for name, values in task.finish(tally).items()}
    return [{name: values[member] for name, values in scores.items()} for member in range(population)]
