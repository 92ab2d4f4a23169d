"""Whether a machine has room for a training step: before it is tried, by arithmetic, and in the words of an error."""

import os
from collections.abc import Sequence

import torch

from rnnlab.architecture.architecture import Architecture
from rnnlab.engine.costs import show_bytes
from rnnlab.engine.memory import training_memory
from rnnlab.engine.plan import plan
from rnnlab.errors import TrainingError
from rnnlab.tasks.task import AbstractTask
from rnnlab.training.hyperparameters import Hyperparameters

REMEDY = "make something smaller: --units or --parameters, -p batch_size=, the length of the sequences, or --population"
NUM_BYTES = 4  # of a float32 number
_WORDS = ("DefaultCPUAllocator", "can't allocate memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that a GPU or the machine has run out of memory.

    >>> is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory")), is_out_of_memory(ValueError("a"))
    (True, False)
    """
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)


def check_room(architecture: Architecture, task: AbstractTask, members: Sequence[Hyperparameters]) -> None:
    """Refuse a step that needs more than the machine's memory: the process would be killed without a message.

    Raises:
        TrainingError: saying how much it would take.
    """
    first, runs = members[0], plan(architecture)
    batch, steps = first.batch_size or task.batch_size, min(task.num_steps, first.truncation or task.num_steps)
    widths = {node.name: node.units for node in architecture.nodes if (node.kind, node.encoding) == ("input", "values")}
    # inputs that members may share count once: only what cannot fit in any case is refused
    shared = (len(members) - 1) * batch * steps * sum(widths.values()) * NUM_BYTES
    needed = training_memory(runs, population=len(members), batch=batch, steps=steps).total - shared
    if needed > (there := machine_memory()):
        raise TrainingError(
            f"a training step takes {show_bytes(needed)}, this machine has {show_bytes(there)} of memory: {REMEDY}"
        )


def machine_memory() -> int:
    """How many bytes of memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
