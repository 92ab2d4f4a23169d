"""A run as tensors and JSON, for a checkpoint, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rnnlab.engine.state import State
from rnnlab.training.standing import Standing
from rnnlab.training.state import TrainingState

_STATE, _GENERATOR, _CARRIED, _KEPT = "state.", "generator.", "carried.", "kept"


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything that a run needs to go on as if it had never stopped.

    Args:
        state: what steps change, a row for each member still in the population.
        rows: which members those are.
        standings: how every member stands.
        kept: the best numbers of the members that have left, in order, [left, N].
        position: how far the present pass over a stream is.
        generators: the states of the generators by name.
    """

    state: TrainingState
    rows: Sequence[int]
    standings: Sequence[Standing]
    kept: Tensor
    position: int
    generators: Mapping[str, Tensor]

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name."""
        carried = self.state.carried.values.values() if self.state.carried is not None else ()
        return {
            **{_STATE + name: tensor for name, tensor in self.state.tensors().items()},
            **{_GENERATOR + name: tensor for name, tensor in self.generators.items()},
            **{f"{_CARRIED}{number}": tensor for number, tensor in enumerate(carried)},
            _KEPT: self.kept,
        }

    def record(self) -> dict[str, Any]:
        """Everything else, as JSON."""
        carried = self.state.carried
        return {
            "rows": list(self.rows),
            "standings": [standing.to_json() for standing in self.standings],
            "position": self.position,
            "carried": None if carried is None else {"step": carried.step, "parts": [list(p) for p in carried.values]},
        }

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], record: Mapping[str, Any], device: torch.device) -> "Snapshot":
        """The inverse of `tensors` and `record`; generators' states stay on the CPU, as torch requires."""
        parts = _without(tensors, _STATE)
        return cls(
            state=TrainingState.from_tensors(
                # copied to memory that torch allocates: with another alignment its sums on a CPU may round differently
                {name: tensor.to(device, copy=True) for name, tensor in parts.items()},
                _carried(tensors, record, device),
            ),
            rows=record["rows"],
            standings=[Standing(**standing) for standing in record["standings"]],
            kept=tensors[_KEPT],
            position=record["position"],
            generators=_without(tensors, _GENERATOR),
        )


def _without(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _carried(tensors: Mapping[str, Tensor], record: Mapping[str, Any], device: torch.device) -> State | None:
    found = record["carried"]
    if found is None:
        return None
    values = [tensors[f"{_CARRIED}{number}"].to(device) for number in range(len(found["parts"]))]
    parts = [(name, part) for name, part in found["parts"]]
    return State(found["step"], dict(zip(parts, values, strict=True)))
