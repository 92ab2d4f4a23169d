"""Streams of a text that begin from nothing again now and then, instead of going on from the state that they had.

A network whose state is always carried over meets the state that it starts from once in a pass over the text. It may
come to need states that only a long text leads to, and then texts that begin from nothing are predicted far worse than
training suggests: 3.6 instead of 1.9 bits per character (results/checks/carried_state.py).
"""

from collections.abc import Sequence

import torch

from rnnlab.engine.state import State
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.training.noise import RESTARTS, Noise


class Restarts:
    """Which streams begin again, drawn for each member at each batch."""

    def __init__(self, members: Sequence[Hyperparameters], device: torch.device | str) -> None:
        self.are_used = any(member.restart for member in members)
        self._shares = torch.tensor([[member.restart] for member in members], device=device)  # [P, 1]

    def applied(self, carried: State, start: State, num_streams: int, draws: Noise) -> State:
        """The carried state; of streams that begin again, the state to start from."""
        begins = (draws.uniform(num_streams, RESTARTS) < self._shares)[:, :, None, None]  # [P, B, 1, 1]
        values = {part: torch.where(begins, start.values[part], value) for part, value in carried.values.items()}
        return State(carried.step, values)
