"""Sequences of different lengths in one batch: each as if it ran alone."""

from typing import Any

import pytest
import torch
from torch import nn

from rnnlab import Architecture, EdgeSpec, Model, ModelError, NodeSpec, architecture, from_torch
from tests.tasks.contract import Recorder

NETWORKS = ["sh:lstm", "skip-3:gru", "td:tanh", "st:intersection", "clockwork:ugrnn", "mongia-d:lstm"]


def make(name: str, path: str, population: int | None = None) -> Model:
    network = architecture(name, input_size=3, output_size=2, units=4)
    return Model(network, seed=0, population=population, path=path).double()


def gradients(model: Model) -> list[torch.Tensor]:
    found = [torch.zeros_like(value) if value.grad is None else value.grad.clone() for value in model.parameters()]
    model.zero_grad()
    return found


def check_as_if_alone(model: Model, x: torch.Tensor, padded: torch.Tensor, lengths: torch.Tensor) -> None:
    """Outputs, states at the end and gradients of sequences in one batch are those of each by itself."""
    y, state = model(padded, lengths=lengths)
    (y.sin().sum() + sum(value.cos().sum() for value in state.values.values())).backward()
    together = gradients(model)
    for number, length in enumerate(lengths.tolist()):
        alone, end = model(x[number : number + 1, :length])
        torch.testing.assert_close(y[number, :length], alone[0], rtol=1e-12, atol=1e-12)
        assert not y[number, length:].any()
        for part, value in end.values.items():
            torch.testing.assert_close(state.values[part][:, number], value[:, 0], rtol=1e-12, atol=1e-12)
        (alone.sin().sum() + sum(value.cos().sum() for value in end.values.values())).backward()
    for mine, theirs in zip(together, gradients(model), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("path", ["cpu", "reference"])
@pytest.mark.parametrize("name", NETWORKS)
def test_each_sequence_is_as_if_alone(name: str, path: str) -> None:
    """Outputs, state at the end, and gradients through both; what stands on the padding plays no part."""
    model, lengths = make(name, path), torch.tensor([5, 1, 8, 3])
    x = torch.randn(4, 8, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    check_as_if_alone(model, x, x, lengths)


@pytest.mark.parametrize("path", ["cpu", "reference"])
@pytest.mark.parametrize("padding", [float("nan"), float("inf"), 1e200])
def test_padding_may_be_anything(padding: float, path: str) -> None:
    """NaN is refused elsewhere, and infinity times the gradient 0 would be NaN."""
    model, lengths = make("td:gru", path), torch.tensor([2, 5])
    x = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = []
    for value in (0.0, padding):
        padded = torch.where((torch.arange(5) < lengths[:, None])[..., None], x, value).requires_grad_()
        y, state = model(padded, lengths=lengths)
        (y.sin().sum() + sum(value.cos().sum() for value in state.values.values())).backward()
        assert padded.grad is not None
        found.append([y, padded.grad, *gradients(model)])
    for wanted, mine in zip(*found, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=0, atol=0)
    bad = x.clone()
    bad[0, 1] = torch.nan
    with pytest.raises(ModelError, match="x holds NaN"):
        model(bad, lengths=lengths)


@pytest.mark.parametrize("population", [None, 2])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.uint16, torch.uint32, torch.uint64])
def test_padding_of_tokens_may_be_no_token(dtype: torch.dtype, population: int | None) -> None:
    network = architecture("sh:tanh", input_size=3, output_size=2, units=4, encoding="tokens")
    model = Model(network, generator=torch.Generator().manual_seed(0), population=population)
    lengths = torch.tensor([1, 3]).to(dtype)
    y, _ = model(torch.tensor([[2, 99, 100], [0, 1, 2]]).to(dtype), lengths=lengths)
    torch.testing.assert_close(y, model(torch.tensor([[2, 0, 0], [0, 1, 2]]), lengths=lengths.long())[0])
    with pytest.raises(ModelError, match="tokens lie from 0 to 2, got 0 to 99"):
        model(torch.tensor([[2, 99, 100], [0, 1, 2]]).to(dtype), lengths=torch.tensor([2, 3]))


def test_sequences_of_different_lengths_are_continued() -> None:
    model, lengths = make("skip-3:lstm", "cpu"), torch.tensor([2, 6])
    x = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    _, state = model(x[:, :6], lengths=lengths)
    more = torch.stack([x[0, 2:5], x[1, 6:9]])
    y, _ = model(more, state)
    torch.testing.assert_close(y[0], model(x[:1, :5])[0][0, 2:], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(y[1], model(x[1:])[0][0, 6:], rtol=1e-12, atol=1e-12)


def test_ends_at_different_phases_cannot_be_continued_together() -> None:
    model, x = make("mongia-d:lstm", "cpu"), torch.zeros(2, 4, 3, dtype=torch.float64)
    _, state = model(x, lengths=torch.tensor([3, 4]))
    with pytest.raises(ModelError, match="ended at different phases"):
        model(x, state)
    _, state = model(x, lengths=torch.tensor([2, 4]))
    model(x, state)


def test_narrow_lengths_do_not_overflow() -> None:
    """254 steps after the first two, in a type that ends at 255; of a network whose period is no power of two."""
    nodes = [
        NodeSpec(name=name, kind=kind, units=3, phase=phase, cell="tanh" if kind == "hidden" else None)
        for phase in range(3)
        for name, kind in (("x", "input"), ("h", "hidden"), ("y", "output"))
    ]
    edges = [
        EdgeSpec(source=(source, phase), target=(target, (phase + delay) % 3), delay=delay)
        for phase in range(3)
        for source, target, delay in (("x", "h", 0), ("h", "h", 1), ("h", "y", 0))
    ]
    model = Model(Architecture(nodes, edges, 3), generator=torch.Generator().manual_seed(0))
    x = torch.zeros(1, 254, 3)
    _, state = model(x[:, :2])
    steps = {model(x, state, lengths=torch.tensor([254], dtype=kind))[1].step for kind in (torch.int64, torch.uint8)}
    assert steps == {256 % 3}


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (torch.tensor([1, 2, 3]), r"must be 2 integers, got torch\.int64 of shape \[3\]"),
        (torch.tensor([[1, 2]]), r"must be 2 integers, got torch\.int64 of shape \[1, 2\]"),
        (torch.tensor([1.0, 2.0]), "must be 2 integers, got torch.float32"),
        (torch.tensor([True, True]), "must be 2 integers, got torch.bool"),
        ([1, 2], "must be a tensor of 2 integers, got list"),
        (torch.tensor([0, 2]), "from 1 to 4, got 0 to 2"),
        (torch.tensor([1, 5]), "from 1 to 4, got 1 to 5"),
    ],
)
def test_wrong_lengths_are_refused(lengths: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make("sh:tanh", "cpu")(torch.zeros(2, 4, 3, dtype=torch.float64), lengths=lengths)


@pytest.mark.parametrize("path", ["cpu", "reference"])
@pytest.mark.parametrize("name", ["skip-3:gru", "clockwork:ugrnn", "reads ahead"])
@pytest.mark.parametrize("is_shared", [False, True])
def test_members_may_have_lengths_of_their_own(name: str, path: str, is_shared: bool) -> None:
    model = reads_ahead("td:tanh", path, 2) if name == "reads ahead" else make(name, path, population=2)
    lengths = torch.tensor([[5, 1, 8], [8, 8, 2]])
    x = torch.randn(2, 3, 8, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y, state = model(x[0] if is_shared else x, lengths=lengths)
    (y.sin().sum() + sum(value.cos().sum() for value in state.values.values())).backward()
    together = gradients(model)
    for member in range(2):
        given = x[0 if is_shared else member].expand(2, 3, 8, 3)
        alone, ends = model(given, lengths=lengths[member])
        torch.testing.assert_close(y[member], alone[member], rtol=1e-12, atol=1e-12)
        for part, value in ends.values.items():
            torch.testing.assert_close(state.values[part][member], value[member], rtol=1e-12, atol=1e-12)
        (alone[member].sin().sum() + sum(value[member].cos().sum() for value in ends.values.values())).backward()
    for mine, theirs in zip(together, gradients(model), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["td:gru", "mongia-d:lstm"])
def test_lengths_are_not_looked_at_while_a_graph_is_recorded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CUDA graph cannot be recorded from a program that waits for numbers; it may be given others each time."""
    for question in ("is_initialized", "is_current_stream_capturing"):
        monkeypatch.setattr(torch.cuda, question, lambda: True)
    model, lengths = make(name, "reference", population=2), torch.tensor([[4, 2, 3], [1, 4, 4]])
    x = torch.randn(2, 3, 4, 3, dtype=torch.float64)
    with Recorder() as recorder:
        _, state = model(x, lengths=lengths)
    assert "index" in recorder.names  # which finds the states at the ends
    assert "_local_scalar_dense" not in recorder.names
    assert state.step == (None if name == "mongia-d:lstm" else 0)
    with pytest.raises(ModelError, match=r"reads the future .* in a CUDA graph, .* run sequences of one length"):
        reads_ahead("sh:lstm", "reference", 2)(x, lengths=lengths)


# --------------------------------------------------------------------------- networks that read the future


def reads_ahead(name: str, path: str, population: int | None = None) -> Model:
    """A network of the catalogue, a layer that runs backward beside it, and an output that looks two steps ahead."""
    made = architecture(name, input_size=3, output_size=2, units=4)
    assert made.period == 1
    top = [node for node in made.nodes if node.kind == "hidden"][-1]
    nodes = [*made.nodes, NodeSpec(name="back", kind="hidden", units=4, cell="gru")]
    edges = [
        *made.edges,
        EdgeSpec(source=("x", 0), target=("back", 0), delay=0),
        EdgeSpec(source=("back", 0), target=("back", 0), delay=-1, carry=True),
        EdgeSpec(source=("back", 0), target=("y", 0), delay=0),
        EdgeSpec(source=top.key, target=("y", 0), delay=-2),
    ]
    return Model(Architecture(nodes, edges), seed=0, population=population, path=path).double()


@pytest.mark.parametrize("path", ["cpu", "reference"])
@pytest.mark.parametrize("name", ["sh:lstm", "td:tanh"])
def test_each_sequence_is_as_if_alone_where_steps_read_later_ones(name: str, path: str) -> None:
    model, lengths = reads_ahead(name, path), torch.tensor([5, 1, 8, 5, 3], dtype=torch.uint8)
    x = torch.randn(5, 8, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    padded = torch.where((torch.arange(8) < lengths[:, None])[..., None], x, torch.nan)
    check_as_if_alone(model, x, padded, lengths)


def test_members_that_read_the_future_are_as_if_alone() -> None:
    model, lengths = reads_ahead("sh:lstm", "cpu", population=2), torch.tensor([4, 2, 3])
    x = torch.randn(2, 3, 4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for given in (x, x[0]):
        y, _ = model(given, lengths=lengths)
        for number in range(2):
            alone = model.member(number)(given if given.dim() == 3 else given[number], lengths=lengths)[0]
            torch.testing.assert_close(y[number], alone, rtol=1e-12, atol=1e-12)


def test_lengths_are_those_of_packed_sequences_in_torch() -> None:
    torch.manual_seed(0)
    lstm = nn.LSTM(3, 5, num_layers=2, bidirectional=True, batch_first=True)
    x, lengths = torch.randn(4, 9, 3), torch.tensor([2, 9, 4, 9])
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    wanted, _ = nn.utils.rnn.pad_packed_sequence(lstm(packed)[0], batch_first=True)
    torch.testing.assert_close(from_torch(lstm)(x, lengths=lengths)[0], wanted)


def test_lengths_of_such_a_network_are_looked_at() -> None:
    model = reads_ahead("sh:lstm", "reference")
    x, lengths = torch.zeros(2, 4, 3, dtype=torch.float64), torch.tensor([1, 2])
    with pytest.raises(ModelError, match=r"reads the future .* inside torch\.func, run sequences of one length"):
        torch.func.vmap(lambda lengths: model(x, lengths=lengths)[0])(lengths[None])
    with pytest.raises(ModelError, match=r"reads the future .* its sequences cannot be continued"):
        model(x, model(x, lengths=lengths)[1])
