"""Outputs that earn a known score on each generated task: of a network that ignores its input, and perfect ones."""

import math
from functools import singledispatch

import torch
from torch import Tensor

from rnnlab.tasks.adding import Adding
from rnnlab.tasks.arithmetic import Arithmetic
from rnnlab.tasks.capacity import Capacity
from rnnlab.tasks.copying import Copying
from rnnlab.tasks.memory import Memory
from rnnlab.tasks.parentheses import Parentheses
from rnnlab.tasks.rcf import RandomFunction
from rnnlab.tasks.recall import Recall
from rnnlab.tasks.task import AbstractTask, Batch

SURE = 60.0  # a logit that leaves nothing to the others


def one_hot(classes: Tensor, num_classes: int) -> Tensor:
    return (classes[..., None] == torch.arange(num_classes)).float()


def at_the_end(task: AbstractTask, values: Tensor) -> Tensor:
    """Outputs [..., B, T, M] that are `values` [..., B, M] at the last step and wild before it."""
    wild = torch.full((*values.shape[:-1], task.num_steps - 1, values.shape[-1]), 17.0)
    return torch.cat((wild, values[..., None, :]), dim=-2)


def constant(task: AbstractTask, batch: Batch, number: float) -> Tensor:
    return at_the_end(task, torch.full((batch.inputs.shape[-3], task.output_size), number))


@singledispatch
def ignorant(task: AbstractTask, batch: Batch) -> Tensor:
    """The best outputs that do not depend on the inputs."""
    raise NotImplementedError


@singledispatch
def perfect(task: AbstractTask, batch: Batch) -> Tensor:
    """Outputs that earn the best possible score."""
    raise NotImplementedError


@ignorant.register
def _(task: Adding, batch: Batch) -> Tensor:
    return constant(task, batch, 1.0)


@ignorant.register
def _(task: Memory, batch: Batch) -> Tensor:
    return constant(task, batch, 0.0)


@ignorant.register
def _(task: RandomFunction, batch: Batch) -> Tensor:
    return constant(task, batch, 0.0)


@ignorant.register
def _(task: Recall, batch: Batch) -> Tensor:
    return constant(task, batch, 0.5)


@ignorant.register
def _(task: Capacity, batch: Batch) -> Tensor:
    return constant(task, batch, 0.0)


@ignorant.register
def _(task: Copying, batch: Batch) -> Tensor:
    blank = torch.tensor([SURE] + [0.0] * task.num_symbols).expand(task.delay + task.num_items, -1)
    guess = torch.tensor([-SURE] + [0.0] * task.num_symbols).expand(task.num_items, -1)
    return torch.cat((blank, guess)).expand(len(batch.inputs), -1, -1)


@ignorant.register
def _(task: Parentheses, batch: Batch) -> Tensor:
    logits = torch.from_numpy(task.count_distribution).log().float().clamp(min=-SURE).repeat(task.num_types)
    return at_the_end(task, logits.expand(len(batch.inputs), -1))


@ignorant.register
def _(task: Arithmetic, batch: Batch) -> Tensor:
    """How often each character comes at each step, in sums of its own."""
    targets = task.encode(task.choose(50_000, torch.Generator().manual_seed(99))).targets
    frequencies = one_hot(targets, task.output_size).mean(-3)  # [..., T, characters]
    logits = (frequencies + 1e-9).log()
    return logits.unsqueeze(-3).expand(*logits.shape[:-2], len(batch.inputs), -1, -1)


@perfect.register(Adding)
@perfect.register(Memory)
@perfect.register(RandomFunction)
@perfect.register(Recall)
def _(task: AbstractTask, batch: Batch) -> Tensor:
    return at_the_end(task, batch.targets)


@perfect.register
def _(task: Capacity, batch: Batch) -> Tensor:
    return at_the_end(task, SURE * (2 * batch.targets[..., None] - 1))


@perfect.register(Copying)
@perfect.register(Arithmetic)
def _(task: AbstractTask, batch: Batch) -> Tensor:
    return SURE * one_hot(batch.targets, task.output_size)


@perfect.register
def _(task: Parentheses, batch: Batch) -> Tensor:
    return at_the_end(task, SURE * one_hot(batch.targets, 10).flatten(-2))


def entropy(probabilities: list[float]) -> float:
    return -sum(probability * math.log(probability) for probability in probabilities if probability)
