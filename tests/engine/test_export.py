"""Models leave the house: torch.export, files of it, and ONNX run by onnxruntime, whole sequences and streams."""

import io
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram
from torch.utils._pytree import tree_map

from rnnlab import from_torch
from rnnlab.engine.model import Model
from rnnlab.engine.state import State
from rnnlab.errors import ModelError
from tests.engine.models import make, random, seeded, two_inputs, with_initial_state

BATCHES = (1, 5)  # others than that of the example, 3
NUM_STEPS = 3  # both phases of a period of two; the cost of an export grows with them


def tokens(*shape: int) -> Tensor:
    return torch.randint(3, shape, generator=seeded(1))


def bidirectional() -> Model:
    torch.manual_seed(0)  # torch.nn takes no generator
    return from_torch(torch.nn.GRU(3, 4, bidirectional=True, batch_first=True))


def flat(results: tuple[Tensor, State]) -> list[Tensor]:
    y, state = results
    return [y, *state.values.values()]


def check_close(found: tuple[Tensor, State], wanted: tuple[Tensor, State]) -> None:
    assert found[1].step == wanted[1].step
    assert list(found[1].values) == list(wanted[1].values)
    for a, b in zip(flat(found), flat(wanted), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


def stream(model: Model, num_steps: int) -> ExportedProgram:
    """A program that takes a piece of `num_steps` steps and a state, for batches of any size."""
    x, state = random(3, num_steps, 3), model.initial_state(3).detach()
    shapes = ({0: Dim.DYNAMIC}, [{1: Dim.DYNAMIC}] * len(state.values))
    return torch.export.export(model.eval(), (x, state), dynamic_shapes=shapes)


# -------------------------------------------------------------------------------------------------------- torch.export


EXPORTS = {
    "one model": (lambda: make("td:lstm"), lambda b: random(b, NUM_STEPS, 3), {0: Dim.DYNAMIC}),
    "path asked for": (lambda: make("tanh", path="cpu"), lambda b: random(b, NUM_STEPS, 3), {0: Dim.DYNAMIC}),
    "population": (
        lambda: make("sh:gru", population=2, nonlinearity=("tanh", "relu")),
        lambda b: random(2, b, NUM_STEPS, 3),
        {1: Dim.DYNAMIC},
    ),
    "shared input": (lambda: make("tanh", population=2), lambda b: random(b, NUM_STEPS, 3), {0: Dim.DYNAMIC}),
    "tokens": (lambda: make(encoding="tokens"), lambda b: tokens(b, NUM_STEPS), {0: Dim.DYNAMIC}),
    "inputs by name": (
        lambda: Model(two_inputs(), generator=seeded()),
        lambda b: {"u": random(b, NUM_STEPS, 2), "v": random(b, NUM_STEPS, 3)},
        {"u": {0: Dim.DYNAMIC}, "v": {0: Dim.DYNAMIC}},
    ),
}


@pytest.mark.parametrize("what", EXPORTS)
def test_exported_program_equals_the_model(what: str) -> None:
    build, draw, shapes = EXPORTS[what]
    model: Model = with_initial_state(build())
    program = torch.export.export(model, (draw(3),), dynamic_shapes=(shapes,)).module()
    for batch_size in BATCHES:
        x = draw(batch_size)
        check_close(program(x), model(x))


@pytest.mark.parametrize("name", ["sh:lstm", "mongia-d:tanh"])
def test_exported_program_takes_lengths(name: str) -> None:
    """With a period of two it cannot know in which phase sequences will end: a state that cannot be continued."""
    model, example = make(name), {"x": random(3, NUM_STEPS, 3), "lengths": torch.tensor([3, 1, 2])}
    shapes = {name: {0: Dim.DYNAMIC} for name in example}
    program = torch.export.export(model, (), example, dynamic_shapes=shapes).module()
    for lengths in (torch.tensor([1, 3, 3]), torch.tensor([2, 3, 1, 3])):
        x = random(len(lengths), NUM_STEPS, 3)
        (y, state), (wanted, final) = program(x=x, lengths=lengths), model(x, lengths=lengths)
        assert state.step == (0 if model.architecture.period == 1 else None)
        check_close((y, state), (wanted, State(state.step, final.values)))


def test_length_is_fixed_by_the_example() -> None:
    model, x = make("sh:tanh"), random(3, NUM_STEPS, 3)
    with pytest.raises(Exception, match="specialized it to be a constant"):
        torch.export.export(model, (x,), dynamic_shapes=({1: Dim.DYNAMIC},))


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")  # torch 2.11 to itself, on loading
@pytest.mark.parametrize(("name", "num_steps"), [("sh:lstm", 1), ("skip-3:tanh", 2), ("mongia-d:gru", 2)])
def test_program_from_a_file_streams(name: str, num_steps: int) -> None:
    model, file = with_initial_state(make(name)), io.BytesIO()
    torch.export.save(stream(model, num_steps), file)
    file.seek(0)
    program = torch.export.load(file).module()
    for batch_size in BATCHES:
        x, state, outputs = random(batch_size, 6, 3), model.initial_state(batch_size), []
        for piece in x.split(num_steps, dim=1):
            y, state = program(piece, state)
            outputs.append(y)
        check_close((torch.cat(outputs, dim=1), state), model(x))


def test_program_takes_states_of_the_model_in_the_phase_of_its_example_only() -> None:
    model, x = make("mongia-d:tanh"), random(3, 4, 3)
    program = stream(model, 1).module()
    check_close(program(x[:, 2:3], model(x[:, :2])[1]), model(x[:, 2:3], model(x[:, :2])[1]))
    with pytest.raises(Exception, match="spec"):
        program(x[:, 1:2], model(x[:, :1])[1])


def test_values_are_checked_again_after_an_export() -> None:
    model, words = make("sh:tanh"), make("sh:tanh", encoding="tokens")
    torch.export.export(model, (random(2, 1, 3),))
    torch.export.export(words, (tokens(2, 1),))
    with pytest.raises(ModelError, match="NaN"):
        model(torch.full((2, 1, 3), torch.nan))
    with pytest.raises(ModelError, match="from 0 to 2, got 3"):
        words(torch.full((2, 1), 3))
    with pytest.raises(ModelError, match="lie from 1 to 1"):
        model(random(2, 1, 3), lengths=torch.tensor([1, 2]))
    assert "cpu" in model.explain()


# --------------------------------------------------------------------------------------------------------------- State


def test_state_is_a_tree_of_its_values() -> None:
    _, state = make("mongia-d:lstm")(random(2, NUM_STEPS, 3))
    doubled = tree_map(lambda value: 2 * value, state)
    assert isinstance(doubled, State)
    assert doubled.step == state.step == 1
    assert list(doubled.values) == list(state.values)
    assert all(torch.equal(doubled.values[part], 2 * value) for part, value in state.values.items())


def test_state_has_one_order_of_values() -> None:
    """Whatever the order in which they came: a graph in a file knows them by their place."""
    parts = [("b", "h"), ("a", "h"), ("a", "c")]
    assert list(State(0, {part: torch.zeros(1) for part in parts}).values) == sorted(parts)


def test_state_survives_torch_save() -> None:
    (_, state), file = make()(random(2, NUM_STEPS, 3)), io.BytesIO()
    torch.save(state.detach(), file)
    file.seek(0)
    again = torch.load(file, weights_only=True)
    assert again.step == state.step
    assert all(torch.equal(again.values[part], value) for part, value in state.values.items())


# ---------------------------------------------------------------------------------------------------------------- ONNX


class Session:
    """An ONNX graph in onnxruntime, torch's tensors in and out."""

    def __init__(self, program: Any) -> None:
        onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'rnnlab[export]'")
        self.session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
        self.names = [value.name for value in self.session.get_inputs()]

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        feeds = {name: value.detach().numpy() for name, value in zip(self.names, inputs, strict=True)}
        return [torch.from_numpy(value) for value in self.session.run(None, feeds)]


@pytest.fixture
def to_onnx():
    pytest.importorskip("onnxscript", reason="needs onnxscript: pip install 'rnnlab[export]'")

    def convert(model: Any, *arguments: Any, **options: Any) -> Session:
        return Session(torch.onnx.export(model, *arguments, dynamo=True, verbose=False, **options))

    return convert


ONNX: Mapping[str, tuple[Any, Any]] = {
    **{
        name: (lambda name=name: make(name), random(3, NUM_STEPS, 3))
        for name in ("tanh", "lstm", "gru", "gru-cudnn", "td:lstm", "skip-21", "stack-2:intersection", "mongia-d")
    },
    "tokens": (lambda: make("tanh", encoding="tokens"), tokens(3, NUM_STEPS)),
    "bidirectional": (bidirectional, random(3, NUM_STEPS, 3)),
    "population": (lambda: make("tanh", population=2, nonlinearity=("tanh", "relu")), random(2, 3, NUM_STEPS, 3)),
}


@pytest.mark.parametrize("what", ONNX)
def test_onnx_equals_the_model(what: str, to_onnx) -> None:
    build, x = ONNX[what]
    model: Model = with_initial_state(build()).eval()
    session = to_onnx(model, (x.flip(-1),))
    for found, wanted in zip(session(x), flat(model(x)), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("name", "num_steps", "total"), [("lstm", 1, 7), ("skip-21", 1, 25), ("mongia-d", 2, 8)])
def test_onnx_streams_batches_of_any_size(name: str, num_steps: int, total: int, to_onnx) -> None:
    """A long sequence by many calls of a short graph, from the initial state on, and the state it leaves."""
    model = with_initial_state(make(name))
    session = to_onnx(stream(model, num_steps))
    for batch_size in BATCHES:
        x, outputs = random(batch_size, total, 3), []
        initial = model.initial_state(batch_size).values
        assert session.names == ["x", *(f"state_{name}_{part}" for name, part in initial)]
        state = initial.values()
        for piece in x.split(num_steps, dim=1):
            y, *state = session(piece, *state)
            outputs.append(y)
        for found, wanted in zip([torch.cat(outputs, dim=1), *state], flat(model(x)), strict=True):
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, True, None, "a"])
def test_initial_state_is_of_one_sequence_at_least(batch_size: Any) -> None:
    with pytest.raises(ModelError, match="batch_size must be an integer of at least 1"):
        make("lstm").initial_state(batch_size)
