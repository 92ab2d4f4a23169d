"""What a network remembers between two parts of a sequence."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch.utils._pytree as pytree
from torch import Tensor
from torch.serialization import add_safe_globals


@dataclass(frozen=True)
class State:
    """The latest values of everything that later steps will read; pass it to the next call to continue a sequence.

    A state is a pytree: `torch.export`, `torch.func` and `tree_map` take it apart into its values.
    """

    step: int | None  # how many time steps came before, modulo the period; None where sequences ended at different ones
    values: dict[tuple[str, str], Tensor]  # by node name and part of its state: [P, B, K, N], the last K steps

    def __post_init__(self) -> None:
        # one order for all: an exported program and its file know the values by their place
        object.__setattr__(self, "values", dict(sorted(self.values.items())))

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {part} {list(value.shape)}" for (name, part), value in self.values.items())
        return f"<State: {shapes or 'nothing'}>"

    def at(self, name: str, part: str, time: int) -> Tensor:
        """The value `-time` steps before the present, [P, B, N]."""
        return self.values[name, part][:, :, time]

    def detach(self) -> "State":
        """The same values, through which no gradient flows: for truncated backpropagation."""
        return State(self.step, {key: value.detach() for key, value in self.values.items()})


# what an exported program compares, and its file holds, beside the tensors: the step, and the names in order
_Layout = tuple[int | None, tuple[tuple[str, str], ...]]


def _flatten(state: State) -> tuple[list[Tensor], _Layout]:
    return list(state.values.values()), (state.step, tuple(state.values))


def _flatten_with_keys(state: State) -> tuple[list[tuple[Any, Tensor]], _Layout]:
    values, layout = _flatten(state)
    return [(pytree.MappingKey("_".join(part)), value) for part, value in zip(layout[1], values, strict=True)], layout


def _unflatten(values: Iterable[Any], layout: _Layout) -> State:
    step, parts = layout
    return State(step, dict(zip(parts, values, strict=True)))


def _from_file(layout: Any) -> _Layout:
    """A layout as JSON gives it back: with lists for tuples."""
    step, parts = layout
    return step, tuple((name, part) for name, part in parts)


pytree.register_pytree_node(
    State,
    _flatten,
    _unflatten,
    serialized_type_name="rnnlab.State",
    to_dumpable_context=lambda layout: layout,
    from_dumpable_context=_from_file,
    flatten_with_keys_fn=_flatten_with_keys,
)
add_safe_globals([State])  # it holds tensors, strings and a number: torch.load may read one with weights_only
