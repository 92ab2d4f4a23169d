"""Scores on a split, for all members at once."""

import math
from itertools import islice

import torch

from rnnlab.engine.gpu.sharing import share_of_gpu
from rnnlab.engine.memory import training_memory
from rnnlab.engine.model import Model
from rnnlab.engine.state import State
from rnnlab.tasks.task import AbstractTask, Split, Tally, one_each
from rnnlab.training.fitting import check_direction

MOST_SEQUENCES = 1024  # at once; enough to keep a GPU busy with a single network
SHARE_OF_MEMORY = 0.05


def evaluate(
    model: Model, task: AbstractTask, split: Split, batch_size: int, *, num_sequences: int | None = None
) -> dict[str, list[float]]:
    """The scores of a model on a split by name, one number for each member.

    Args:
        model: one network or a population.
        task: the task to judge it on.
        split: `train`, `validation` or `test`.
        batch_size: how many sequences a training batch has; for a stream, how many texts run side by side.
        num_sequences: stop after at least this many sequences; by default use all.
    """
    check_direction(model.architecture, task)
    device = next(iter(model.arrays.values())).device
    tally, carried = Tally.empty(), None
    at_once = sequences_at_once(model, task, batch_size)
    num_batches = None if num_sequences is None else math.ceil(num_sequences / at_once)
    with torch.no_grad(), share_of_gpu(1.0):  # scores are waited for: populations beside this one run dry meanwhile
        for batch in islice(task.batches(split, at_once, device=device), num_batches):
            state: State | None = carried if batch.continues else None
            outputs, carried = model(batch.inputs, state, batch.lengths, only_last=task.only_last)
            tally = tally + task.tally(outputs, batch)
    found, population = task.finish(tally), model.population or 1
    return {
        name: one_each(values, population, f"task {task.name}: the score {name}").double().tolist()
        for name, values in found.items()
    }


def sequences_at_once(model: Model, task: AbstractTask, batch_size: int) -> int:
    """How many sequences to run at once where nothing is learned from them: as many as in training, or more on a GPU.

    There a few sequences of a small network take as long as many: 10,000 images pixel by pixel, 50 at once, took as
    long as a hundred training steps. Texts of a stream stay as many, since their number says where each begins.
    """
    device = next(iter(model.arrays.values())).device
    if device.type != "cuda" or task.feed == "stream":
        return batch_size
    room = SHARE_OF_MEMORY * torch.cuda.get_device_properties(device).total_memory
    each = training_memory(model.plan, population=model.population or 1, batch=1, steps=task.num_steps).total
    return max(batch_size, min(MOST_SEQUENCES, int(room / each)))
