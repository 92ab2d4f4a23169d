"""Lots that are trained side by side on one device: a step of each in turn, and as many of them as there is room for.

A lot that leaves room on a GPU, because its arm has few trials, is trained beside others. A GPU that is full is given
as many networks again, of other arms: while some wait for memory, others compute.
"""

import itertools
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from rnnlab.engine.gpu.sharing import share_of_gpu
from rnnlab.training.loop import own_stream
from rnnlab.tuning.lot_training import Steps
from rnnlab.tuning.prepared import PreparedArm

# how many times over a GPU is filled; 33 tiny networks took 0.59 ms a step among 132, 0.45 among 264, 0.51 among 528
CROWD = 2

_ENDED = object()


@dataclass(frozen=True, eq=False)
class _Running:
    """Networks of an arm in training: how many, what is left to do, step by step, and where a GPU does it."""

    arm: PreparedArm
    count: int
    steps: Steps[None]
    stream: AbstractContextManager[Any]


class SideBySide:
    """The lots in training on a device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._running: list[_Running] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in training."""
        return not self._running

    @property
    def has_room(self) -> bool:
        """Whether another lot may be looked for."""
        return self.is_empty or (has_room_for_others(self._device) and sum(self._used()) < CROWD)

    def has_room_for(self, arm: PreparedArm, count: int) -> bool:
        """Whether so many networks of an arm may be trained beside the others."""
        is_held = sum(each.count / each.arm.memory for each in self._running) + count / arm.memory <= 1
        used = sum(self._used()) + count / arm.capacity
        return self.is_empty or (is_held and used <= CROWD)

    def begin(self, arm: PreparedArm, count: int, steps: Steps[None]) -> None:
        """Begin to train so many networks of an arm."""
        next(steps)  # starts the lot's heartbeat: the first steps of other lots may take longer than its grace
        self._running.append(_Running(arm, count, steps, own_stream(self._device)))

    def train_until_one_ends(self, num_steps: int | None = None) -> bool:
        """Train each lot by a step in turn (on a GPU they overlap); whether one ended within `num_steps` rounds."""
        used = self._used()
        shares = [part / sum(used) for part in used]
        for _ in itertools.count() if num_steps is None else range(num_steps):
            for each, share in zip(self._running, shares, strict=True):
                with each.stream, share_of_gpu(share):
                    if next(each.steps, _ENDED) is _ENDED:
                        self._running.remove(each)
                        return True
        return False

    def close(self) -> None:
        """Break off whatever is in training."""
        for each in self._running:
            each.steps.close()

    def _used(self) -> list[float]:
        """The share of the device that each lot fills."""
        return [each.count / each.arm.capacity for each in self._running]


def has_room_for_others(device: torch.device) -> bool:
    """Whether populations that leave room gain from being trained at once: on a CPU they would only take turns."""
    return device.type == "cuda"
