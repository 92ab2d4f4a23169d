"""The numbers of a population as one matrix [P, N], a row for each member, and what a training step makes of them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from rnnlab.architecture.architecture import Architecture, ParameterSpec
from rnnlab.engine.initialisation import Initialisation, initial_arrays
from rnnlab.engine.model import Model, array_name
from rnnlab.errors import TrainingError
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.training.seeds import seeded


class Layout:
    """Where the arrays of a network lie in a row of numbers."""

    def __init__(self, architecture: Architecture) -> None:
        self.architecture = architecture
        self.specs: tuple[ParameterSpec, ...] = tuple(architecture.parameters)
        self.sizes = [spec.size for spec in self.specs]

    def initial(self, members: Sequence[Hyperparameters]) -> Tensor:
        """The numbers that members start from, each from its own seed, [P, N] in float32 on the CPU (C10)."""
        return torch.stack([self._initial(member) for member in members])

    def _initial(self, member: Hyperparameters) -> Tensor:
        generator = seeded("initial numbers", member.seed)
        arrays = initial_arrays(self.architecture, [member.initialisation], generator)
        return torch.cat([arrays[spec.name].reshape(-1) for spec in self.specs]).float()

    def gather(self, arrays: Sequence[Tensor], out: Tensor | None = None) -> Tensor:
        """Arrays [P, ...] in the order of the specs as one matrix [P, N], written to `out` if there is one."""
        return torch.cat([array.reshape(len(array), -1) for array in arrays], dim=1, out=out)

    def spread(self, numbers: Tensor, arrays: Sequence[Tensor]) -> None:
        """Write a matrix [P, N] into arrays [P, ...] in the order of the specs."""
        with torch.no_grad():
            for part, array in zip(numbers.split(self.sizes, dim=1), arrays, strict=True):
                array.copy_(part.unflatten(1, array.shape[1:]))

    def lend(self, numbers: Tensor, arrays: Sequence[Tensor]) -> None:
        """Let arrays [P, ...] be views of a matrix [P, N]: nothing is copied, and what changes there changes here."""
        for part, array in zip(numbers.split(self.sizes, dim=1), arrays, strict=True):
            array.data = part.detach().unflatten(1, array.shape[1:])

    def is_matrix(self, device: torch.device | str) -> Tensor:
        """Which numbers belong to matrices, [N]."""
        flags = [torch.full((spec.size,), len(spec.shape) == 2) for spec in self.specs]
        return torch.cat(flags).to(device)

    def read_out_rows(self, device: torch.device | str) -> tuple[Tensor, int]:
        """For each number the unit that an output reads through it, [N], and how many such units there are.

        Numbers that read no hidden unit into an output have the number after the last.
        """
        rows: list[Tensor] = []
        count = 0
        for spec in self.specs:
            is_read_out = spec.category == "read-out weights" and spec.source_kind == "hidden"
            if is_read_out:
                rows.append((count + torch.arange(spec.shape[0])).repeat_interleave(spec.shape[1]))
                count += spec.shape[0]
            else:
                rows.append(torch.full((spec.size,), -1))
        found = torch.cat(rows)
        return torch.where(found < 0, count, found).to(device), count


def starting_numbers(start: Model, architecture: Architecture, members: Sequence[Hyperparameters]) -> Tensor:
    """The numbers of a model as members begin with them, [P, N] in float32 on the CPU.

    Raises:
        TrainingError: it is of another architecture, has another number of members, or would not compute the same.
    """
    if not isinstance(start, Model):
        raise TrainingError(f"start is a model to begin with, got {start!r}"[:200])
    if start.architecture != architecture:
        raise TrainingError(f"start is a model of {start.architecture!r}, not of the architecture, {architecture!r}")
    if start.population not in (None, len(members)):
        raise TrainingError(
            f"start has {start.population} members, the population {len(members)}: give as many, or a single model"
        )
    has = start.nonlinearity or (None,) * (start.population or 1)
    has = has if start.population else has * len(members)
    if has != (wanted := tuple(member.nonlinearity for member in members)):
        raise TrainingError(f"start has the nonlinearity {_listed(has)}, hyperparameters say {_listed(wanted)}")
    if frozen := [name for name, array in start.arrays.items() if not array.requires_grad]:
        raise TrainingError(f"start has frozen arrays, which train would change: {', '.join(frozen)}")
    with torch.no_grad():
        numbers = Layout(architecture).gather(arrays_of(start)).float().cpu()
    return numbers.expand(len(members), -1).clone()


def _listed(values: Sequence[str | None]) -> str:
    return ", ".join("that of its cells" if value is None else value for value in dict.fromkeys(values))


def build_model(
    architecture: Architecture,
    members: Sequence[Hyperparameters],
    *,
    population: int | None,
    device: torch.device | str,
    path: str,
    precision: str,
) -> Model:
    """A model for these members; its numbers are still to be written."""
    chosen = [member.nonlinearity for member in members if member.nonlinearity is not None]
    model = Model(
        architecture,
        generator=torch.Generator(),
        population=population,
        initialisation=Initialisation(square="identity", rectangular="identity"),  # which is made fast
        nonlinearity=chosen or None,
        path=path,
        precision=precision,
    )
    return model.to(device)


def arrays_of(model: Model) -> list[Tensor]:
    """The arrays of a model in the order of its architecture's specs."""
    return [model.arrays[array_name(spec.name)] for spec in model.architecture.parameters]
