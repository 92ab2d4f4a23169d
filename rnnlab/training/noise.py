"""What is drawn for each member at each step, and what weight noise and dropout (P) do to its numbers."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.training.numbers import Layout
from rnnlab.training.seeds import seeded

NORMAL, UNIFORM, RESTARTS = "weight noise", "dropout", "restarts"


class Noise:
    """Random numbers for weight noise, dropout and restarts, by the seed of each member.

    So repetitions of a setting with other seeds have other noise, while what a member is given does not depend on who
    is trained beside it. Each purpose has generators of its own: none shifts the others' draws.

    Args:
        members: whose seeds.
        seed: of the run.
        device: where numbers are drawn.
    """

    def __init__(self, members: Sequence[Hyperparameters], seed: int, device: torch.device) -> None:
        self._all_seeds = self._seeds = tuple(member.seed for member in members)
        purposes = [NORMAL] * any(member.weight_noise for member in members)
        purposes += [UNIFORM] * any(member.dropout for member in members)
        purposes += [RESTARTS] * any(member.restart for member in members)
        self.generators = {
            (purpose, own): seeded(f"{purpose} of seed {own}", seed, device)
            for purpose in purposes
            for own in dict.fromkeys(self._seeds)
        }

    def select_members(self, members: Sequence[int]) -> None:
        """Go on with some of the members."""
        self._seeds = tuple(self._all_seeds[member] for member in members)
        kept = set(self._seeds)
        self.generators = {key: generator for key, generator in self.generators.items() if key[1] in kept}

    def normal(self, count: int) -> Tensor:
        """So many numbers for each member, [P, count]; [count] where all members have the same seed."""
        return self._drawn(torch.randn, NORMAL, count)

    def uniform(self, count: int, purpose: str = UNIFORM) -> Tensor:
        """The same, between 0 and 1."""
        return self._drawn(torch.rand, purpose, count)

    def _drawn(self, draw: Callable[..., Tensor], purpose: str, count: int) -> Tensor:
        def row(generator: torch.Generator) -> Tensor:
            return draw(count, generator=generator, device=generator.device)

        rows = {own: row(self.generators[purpose, own]) for own in dict.fromkeys(self._seeds)}
        # an index made of Python's numbers would make the host wait for a GPU
        return torch.stack([rows[own] for own in self._seeds]) if len(rows) > 1 else next(iter(rows.values()))


class Disturbance:
    """Weight noise and dropout (P): what a step does to the numbers before the networks run.

    Noise goes to all matrices. Dropout hides hidden units from the outputs, by zeros in the rows of the read-out
    matrices; the same units for all sequences and times of a step.
    """

    def __init__(self, layout: Layout, members: Sequence[Hyperparameters], device: torch.device | str) -> None:
        self.uses_noise = any(member.weight_noise for member in members)
        self.uses_dropout = any(member.dropout for member in members)
        deviation = torch.tensor([[member.weight_noise] for member in members], device=device)
        self.deviation = deviation * layout.is_matrix(device) if self.uses_noise else None  # [P, N]
        self.dropout = torch.tensor([[member.dropout] for member in members], device=device)
        self.rows, self.num_rows = layout.read_out_rows(device)

    def share(self, draws: Noise) -> Tensor | None:
        """What each number is multiplied by, [P, N]: 0 for units that are hidden, and more for the others."""
        if not self.uses_dropout:
            return None
        kept = (draws.uniform(self.num_rows) >= self.dropout) / (1 - self.dropout)  # [P, rows]
        ones = torch.ones_like(self.dropout)
        return torch.cat((kept, ones), dim=1)[:, self.rows]

    def noise(self, draws: Noise) -> Tensor | None:
        """What is added to each number, [P, N]."""
        return None if self.deviation is None else draws.normal(self.deviation.shape[1]) * self.deviation
