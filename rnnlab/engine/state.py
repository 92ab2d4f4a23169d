"""What a network remembers between two parts of a sequence."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class State:
    """The last values of everything that is read from the past; pass it on to continue a sequence."""

    step: int | None  # how many time steps came before; None where the sequences ended at different phases
    values: dict[tuple[str, str], Tensor]  # by node name and part of its state: [P, B, K, N], the last K steps

    def at(self, name: str, part: str, time: int) -> Tensor:
        """The value `-time` steps before the present, [P, B, N]."""
        return self.values[name, part][:, :, time]

    def detach(self) -> "State":
        """The same values, through which no gradient flows: for truncated backpropagation."""
        return State(self.step, {key: value.detach() for key, value in self.values.items()})
