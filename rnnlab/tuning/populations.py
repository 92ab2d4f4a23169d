"""How many members a population has, so that the device is full and no arm ends with a handful of trials."""

import math

import torch

from rnnlab.architecture.architecture import Architecture
from rnnlab.engine.memory import training_memory
from rnnlab.engine.plan import plan
from rnnlab.errors import TuningError
from rnnlab.integers import as_integer
from rnnlab.tuning.arms import Arm

# on one core, with batches of 20 sequences of 50 steps, a member's step took an LSTM of 16 units 1.6 ms alone, 0.40 ms
# among 8 and 0.28 ms among 32; a GRU of 64 units 2.3, 1.5 and 1.7 ms: with more, suggestions would only come later
MEMBERS_PER_THREAD = 8
MEMBERS_PER_MULTIPROCESSOR = 1  # the fused kernels give each of them one member, or a tile of its batch
SHARE_OF_MEMORY = 0.6  # the rest is for what the estimate leaves out


def population_size(arm: Arm, device: torch.device | str, population: int | None = None) -> int:
    """How many networks of an arm are trained at once.

    Args:
        arm: what is trained.
        device: where.
        population: the answer, if it is given.
    """
    if population is not None:
        return as_integer(population, "population", TuningError, 1)
    most = device_capacity(arm, device)
    return most if arm.population is None else min(arm.population, most)


def device_capacity(arm: Arm, device: torch.device | str) -> int:
    """How many networks of an arm keep a device busy."""
    return int(min(processor_capacity(device), memory_capacity(arm, device)))


def processor_capacity(device: torch.device | str) -> int:
    """How many networks a device's processors take at once."""
    on = torch.device(device)
    if on.type != "cuda":
        return MEMBERS_PER_THREAD * torch.get_num_threads()
    return MEMBERS_PER_MULTIPROCESSOR * torch.cuda.get_device_properties(on).multi_processor_count


def memory_capacity(arm: Arm, device: torch.device | str) -> float:
    """How many networks of an arm have room in a GPU's memory; a CPU's memory is taken to be unlimited."""
    on = torch.device(device)
    if on.type != "cuda":
        return math.inf
    batch = arm.hyperparameters.batch_size or arm.task.batch_size
    steps = min(arm.task.num_steps, arm.hyperparameters.truncation or arm.task.num_steps)
    num_bytes = SHARE_OF_MEMORY * torch.cuda.get_device_properties(on).total_memory
    return num_fitting(arm.architecture, batch, steps, num_bytes)


def num_fitting(architecture: Architecture, batch: int, steps: int, num_bytes: float) -> int:
    """How many members, at least one, can be trained at once in so much memory.

    >>> from rnnlab import architecture
    >>> num_fitting(architecture("lstm", input_size=2, output_size=1, units=64), batch=64, steps=100, num_bytes=1e9)
    73
    """
    kept = training_memory(plan(architecture), batch=batch, steps=steps).total
    averages_and_best = 3 * 4 * architecture.num_parameters()
    return max(1, int(num_bytes / (kept + averages_and_best)))


def lot_size(num_left: int, population: int) -> int:
    """How many of the trials that an arm has left are given out in the next lot.

    There are as few lots as populations of that size need, and all are equally large, so that none is tiny at the end.

    >>> left, sizes = 100, []
    >>> while left:
    ...     sizes.append(lot_size(left, 64))
    ...     left -= sizes[-1]
    >>> sizes
    [50, 50]
    """
    return math.ceil(num_left / math.ceil(num_left / population))


def chunks(places: list[int], population: int) -> list[list[int]]:
    """The places of a lot in equally large pieces, none larger than a population.

    >>> chunks([0, 1, 2, 3, 4], 4)
    [[0, 1, 2], [3, 4]]
    """
    found: list[list[int]] = []
    while places:
        size = lot_size(len(places), population)
        found.append(places[:size])
        places = places[size:]
    return found
