"""Everything that training changes from step to step: tensors on the device, with a row for each member left."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rnnlab.engine.state import State
from rnnlab.training.divergence import Feasibility
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.training.optimisers import Coefficients, Moments


@dataclass(eq=False)
class TrainingState:
    """Everything a step reads and writes. Tensors keep their place in memory, so that a CUDA graph can go on.

    Args:
        step: how many steps were done, a number.
        numbers: the networks' numbers, [P, N].
        moments: the optimisers' averages.
        feasibility: which members diverged.
        end_step: after how many steps each member ends, [P].
        plateau: what each learning rate was multiplied by on plateaus so far, [P].
        best: the numbers that were best on validation so far, [P, N].
        losses, rates: the loss and the learning rate of each member's last step, [P].
        loss_sum, loss_count: the sum of the losses since the last evaluation, and of how many, [P].
        carried: the networks' state at the end of the last batch of a stream.
    """

    step: Tensor
    numbers: Tensor
    moments: Moments
    feasibility: Feasibility
    end_step: Tensor
    plateau: Tensor
    best: Tensor
    losses: Tensor
    rates: Tensor
    loss_sum: Tensor
    loss_count: Tensor
    carried: State | None = None

    @classmethod
    def initial(
        cls, numbers: Tensor, members: Sequence[Hyperparameters], coefficients: Coefficients
    ) -> "TrainingState":
        """Before the first step."""
        device, population = numbers.device, len(numbers)
        zeros = torch.zeros(population, dtype=torch.float64, device=device)
        return cls(
            step=torch.zeros((), dtype=torch.int64, device=device),
            numbers=numbers,
            moments=Moments.zeros(numbers, coefficients),
            feasibility=Feasibility.unknown(population, device),
            end_step=torch.tensor([member.num_steps for member in members], device=device),
            plateau=torch.ones_like(zeros),
            best=numbers.clone(),
            losses=torch.full_like(zeros, torch.nan),
            rates=zeros.clone(),
            loss_sum=zeros.clone(),
            loss_count=zeros.clone(),
        )

    @property
    def is_active(self) -> Tensor:
        """Which members are still training, [P]."""
        return (self.step < self.end_step) & (self.feasibility.reason == 0)

    def select(self, rows: Sequence[int], coefficients: Coefficients) -> "TrainingState":
        """The same for some members, in tensors of its own."""
        chosen = torch.tensor(rows, device=self.numbers.device)
        carried = self.carried
        if carried is not None:
            carried = State(carried.step, {part: value[chosen] for part, value in carried.values.items()})
        selected = TrainingState.from_tensors(
            {name: tensor if tensor.dim() == 0 else tensor[chosen] for name, tensor in self.tensors().items()}, carried
        )
        if not coefficients.uses_second:
            selected.moments.second = selected.moments.second[:, :0]
        return selected

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name, except the carried state."""
        return dict(self._named())

    def _named(self) -> Iterator[tuple[str, Tensor]]:
        for name in _OWN:
            yield name, getattr(self, name)
        yield "moments.first", self.moments.first
        yield "moments.second", self.moments.second
        yield "infeasible.reason", self.feasibility.reason
        yield "infeasible.step", self.feasibility.step
        yield "first_loss", self.feasibility.first_loss

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], carried: State | None) -> "TrainingState":
        """What `tensors` gave."""
        return cls(
            **{name: tensors[name] for name in _OWN},
            moments=Moments(tensors["moments.first"], tensors["moments.second"]),
            feasibility=Feasibility(tensors["infeasible.reason"], tensors["infeasible.step"], tensors["first_loss"]),
            carried=carried,
        )


_OWN = (
    *("step", "numbers", "end_step", "plateau", "best"),
    *("losses", "rates", "loss_sum", "loss_count"),
)
