"""Scores on a split, for all members at once."""

from itertools import islice

import torch
from torch import Tensor

from rnnlab.engine.model import Model
from rnnlab.engine.state import State
from rnnlab.tasks.task import AbstractTask, Split, Tally


def evaluate(
    model: Model, task: AbstractTask, split: Split, batch_size: int, *, num_batches: int | None = None
) -> dict[str, list[float]]:
    """The scores of a model on a split by name, one number for each member.

    Args:
        model: one network or a population.
        task: what it is judged on.
        split: `train`, `validation` or `test`.
        batch_size: how many sequences run at once; of a stream, how many texts run side by side.
        num_batches: after how many to stop; left out, all count.
    """
    device = next(iter(model.arrays.values())).device
    tally, carried = Tally.empty(), None
    with torch.no_grad():
        for batch in islice(task.batches(split, batch_size, device=device), num_batches):
            state: State | None = carried if batch.continues else None
            outputs, carried = model(batch.inputs, state, batch.lengths, only_last=task.only_last)
            tally = tally + task.tally(outputs, batch)
    return {name: _listed(values, model.population or 1) for name, values in task.finish(tally).items()}


def _listed(values: Tensor, population: int) -> list[float]:
    return values.double().expand(population).tolist()
