"""Training on sequences of different lengths, which each member may have of its own."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from rnnlab import AbstractGeneratedTask, Architecture, Batch, EdgeSpec, NodeSpec, Score, Tally, TrainingError, train
from rnnlab.tasks.losses import mean, squared_error, totals
from rnnlab.training.population import _is_graphed
from tests.training.small import adding, assert_same_member, network, quick


@dataclass(frozen=True, kw_only=True)
class Echo(AbstractGeneratedTask):
    """Say the input again, until the sequence ends."""

    name: ClassVar[str] = "echo"
    batch_size: ClassVar[int] = 8
    num_evaluation: int = 20

    input_size = output_size = 2
    num_steps = 6

    @property
    def scores(self) -> tuple[Score, ...]:
        return (Score(name="mse", unit="", better="lower", chance=1.0, baseline="say 0"),)

    def choose(self, num_sequences: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        values = torch.randn(num_sequences, self.num_steps, 2, generator=generator)
        return values, torch.randint(1, self.num_steps + 1, (num_sequences,), generator=generator)

    def encode(self, choices: tuple[Tensor, ...]) -> Batch:
        values, lengths = choices
        inside = torch.arange(self.num_steps) < lengths[:, None]
        targets = torch.where(inside[..., None], values, 0.0)
        inputs = torch.where(inside[..., None], values, torch.nan)  # which no network may see
        return Batch(inputs=inputs, targets=targets, weights=inside.float(), lengths=lengths)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return mean(squared_error(outputs, batch.targets).mean(-1), batch.weights, num_axes=2)

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        return Tally.of(mse=totals(squared_error(outputs, batch.targets).mean(-1), batch.weights, num_axes=2))


def both_ways() -> Architecture:
    nodes = [
        NodeSpec(name="x", kind="input", units=2),
        *(NodeSpec(name=name, kind="hidden", units=4, cell="lstm") for name in ("f", "b")),
        NodeSpec(name="y", kind="output", units=2),
    ]
    edges = [
        edge
        for name, delay in (("f", 1), ("b", -1))
        for edge in (
            EdgeSpec(source=("x", 0), target=(name, 0), delay=0),
            EdgeSpec(source=(name, 0), target=(name, 0), delay=delay, carry=True),
            EdgeSpec(source=(name, 0), target=("y", 0), delay=0),
        )
    ]
    return Architecture(nodes, edges)


@pytest.mark.parametrize("net", [network(Echo(), "lstm"), both_ways()], ids=["forward", "both ways"])
@pytest.mark.parametrize("batch_size", [8, 40])
def test_members_with_batches_of_their_own_are_trained_as_alone(net: Architecture, batch_size: int) -> None:
    """A large batch's gradients are summed in parts: which sequences share one must not depend on other members."""
    members = [
        quick(seed=seed, batch_seed=batches, batch_size=batch_size) for seed, batches in ((1, 5), (2, 6), (3, 5))
    ]
    together = train(net, Echo(), members)
    assert all(member.test["mse"] < 10 for member in together.members)
    for number, member in enumerate(members):
        assert_same_member(train(net, Echo(), [member]), 0, together, number)


def test_sequences_for_each_member_have_lengths_for_each() -> None:
    batch = Echo().sample(4, generator=torch.Generator().manual_seed(0), members=3)
    assert batch.lengths is not None
    assert batch.lengths.shape == (3, 4)
    assert len({tuple(row.tolist()) for row in batch.lengths}) == 3


def test_only_what_runs_length_by_length_cannot_be_recorded() -> None:
    """Which lengths there are is read on the host, so that the steps of such a run are no CUDA graph."""
    cuda = torch.device("cuda")
    assert _is_graphed(network(Echo(), "lstm"), Echo(), cuda, None)
    assert _is_graphed(both_ways(), adding(), cuda, None)
    assert not _is_graphed(both_ways(), Echo(), cuda, None)
    with pytest.raises(TrainingError, match="for networks that read the future, sequences of one length"):
        _is_graphed(both_ways(), Echo(), cuda, use_graph=True)


def test_truncation_needs_one_length() -> None:
    with pytest.raises(TrainingError, match="truncation needs sequences of one length"):
        train(network(Echo()), Echo(), quick(truncation=3))
