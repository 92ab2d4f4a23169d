"""Wrong use of a model: one clear error each."""

from collections.abc import Callable

import pytest
import torch

from rnnlab import Architecture, ArchitectureError, EdgeSpec, architecture
from rnnlab.engine.initialisation import Initialisation
from rnnlab.engine.model import Model
from rnnlab.engine.state import State
from rnnlab.errors import ModelError, RnnlabError
from tests.engine.models import PATHS, SIZES, make, random, seeded, two_inputs


def with_input(x: object, **options) -> Callable[[], object]:
    return lambda: make(**options)(x)


ERRORS: dict[str, tuple[Callable[[], object], str]] = {
    "wrong width": (with_input(torch.zeros(2, 5, 4)), "3 wide, got 4"),
    "too few axes": (with_input(torch.zeros(5, 3)), r"must be \[B, T, 3\], got \[5, 3\]"),
    "too many axes": (with_input(torch.zeros(1, 2, 5, 3)), r"must be \[B, T, 3\]"),
    "too many axes for a population": (with_input(torch.zeros(1, 2, 2, 5, 3), population=2), "with P in front"),
    "wrong number of members": (with_input(torch.zeros(3, 2, 5, 3), population=2), "3 members .* population has 2"),
    "no time steps": (with_input(torch.zeros(2, 0, 3)), "at least one"),
    "no sequences": (with_input(torch.zeros(0, 5, 3)), "at least one"),
    "NaN": (with_input(torch.full((2, 5, 3), torch.nan)), "NaN"),
    "one NaN": (with_input(torch.zeros(2, 5, 3).index_fill_(1, torch.tensor([3]), torch.nan)), "NaN"),
    "negative token": (with_input(torch.tensor([[0, -1]]), encoding="tokens"), "from 0 to 2, got -1"),
    "large token": (with_input(torch.tensor([[0, 3]]), encoding="tokens"), "from 0 to 2, got 0 to 3"),
    "float tokens": (with_input(torch.zeros(2, 5), encoding="tokens"), "tokens are integers, got torch.float32"),
    "complex numbers": (
        with_input(torch.zeros(2, 5, 3, dtype=torch.complex64)),
        "x holds real numbers, got .*complex64",
    ),
    "complex tokens": (
        with_input(torch.zeros(2, 5, dtype=torch.complex64), encoding="tokens"),
        "tokens are integers, got torch.complex64",
    ),
    "complex lengths": (
        lambda: make()(torch.zeros(2, 5, 3), lengths=torch.ones(2, dtype=torch.complex64)),
        "lengths must be 2 integers, got torch.complex64",
    ),
    "a state as torch has it": (
        lambda: make()(torch.zeros(2, 5, 3), (torch.zeros(1, 2, 4), torch.zeros(1, 2, 4))),  # pyright: ignore[reportArgumentType]
        "a state is what an earlier call returned, got tuple",
    ),
    "tokens with a width": (with_input(torch.zeros(2, 5, 3).long(), encoding="tokens"), r"must be \[B, T\]"),
    "unknown input": (with_input({"u": torch.zeros(2, 5, 3)}), "has the inputs x, got u"),
    "missing input": (with_input({}), "has the inputs x"),
    "unknown path": (
        lambda: make(path="tpu"),
        "path is one of auto, cpu, gpu, gpu-population, gpu-spread, gpu-relay, gpu-cudnn, reference",
    ),
    "neither seed nor generator": (
        lambda: Model(architecture("gru", **SIZES)),
        r"^a model draws its initial values from somewhere: give seed=0, or generator=torch.Generator\(\)$",
    ),
    "seed and generator": (
        lambda: Model(architecture("gru", **SIZES), seed=0, generator=torch.Generator()),
        "give a seed or a generator, got both",
    ),
    "a seed that is no number": (
        lambda: Model(architecture("gru", **SIZES), seed=True),
        "be an integer, got True",
    ),
    "half a population": (lambda: make(population=2.0), "population must be an integer of at least 1, got 2.0"),  # pyright: ignore[reportArgumentType]
    "a population in words": (lambda: make(population="2"), "population must be an integer of at least 1, got '2'"),  # pyright: ignore[reportArgumentType]
    "a true population": (lambda: make(population=True), "population must be an integer of at least 1, got True"),
    "no members": (lambda: make(population=0), "population must be an integer of at least 1, got 0"),
    "too few nonlinearities": (
        lambda: make(population=3, nonlinearity=("tanh", "relu")),
        "each of the 3 members, got 2",
    ),
    "too few initialisations": (
        lambda: make(population=3, initialisation=[Initialisation()] * 2),
        "each of the 3 members, got 2",
    ),
    "cpu path in bfloat16": (lambda: make(path="cpu").bfloat16()(torch.zeros(2, 5, 3)), "float32 and float64"),
}


@pytest.mark.parametrize("what", ERRORS)
def test_wrong_use_raises_a_clear_error(what: str) -> None:
    act, message = ERRORS[what]
    with pytest.raises(ModelError, match=message):
        act()


def test_inputs_of_different_lengths_are_refused() -> None:
    model = Model(two_inputs(), generator=seeded())
    with pytest.raises(ModelError, match="differ in batch size or length"):
        model({"u": torch.zeros(2, 5, 2), "v": torch.zeros(2, 4, 3)})
    with pytest.raises(ModelError, match="5 wide for the inputs u, v, got 4"):
        model(torch.zeros(2, 5, 4))


@pytest.mark.parametrize("path", PATHS)
def test_states_that_do_not_fit_are_refused(path: str) -> None:
    model, x = make(path=path), random(2, 5, 3)
    foreign = {
        "another batch": model(random(3, 5, 3))[1],
        "another network": make("sh:gru", path=path)(x)[1],
        "another population": make(population=2, path=path)(x)[1],
        "a longer memory": make("skip-3:lstm", path=path)(x)[1],
        "nothing": State(5, {}),
    }
    for state in foreign.values():
        with pytest.raises(ModelError, match="of another network or batch"):
            model(x, state)


@pytest.mark.parametrize("path", PATHS)
def test_states_of_another_width_are_refused(path: str) -> None:
    model, x = make(path=path), random(2, 5, 3)
    with pytest.raises(ModelError, match="of another network or batch"):
        model(x, make(units=6, path=path)(x)[1])


def test_network_that_reads_the_future_cannot_be_continued() -> None:
    network = two_inputs()
    ahead = EdgeSpec(source=("u", 0), target=("y", 0), delay=-1)
    model = Model(Architecture(network.nodes, [*network.edges, ahead]), generator=seeded())
    _, state = model(random(2, 5, 5))
    with pytest.raises(ModelError, match="reads the future"):
        model(random(2, 5, 5), state)


def test_output_absent_at_a_phase_is_refused_when_a_model_is_built() -> None:
    with pytest.raises(ArchitectureError, match="output '4' has no node 4@1"):
        Model(architecture("fig1a", **SIZES), generator=seeded())


def test_unknown_nonlinearity_is_refused() -> None:
    with pytest.raises(ModelError, match="tanh or relu"):
        make(nonlinearity="sigmoid")


@pytest.mark.parametrize("kind", ["input", "output"])
def test_network_without_inputs_or_outputs_is_refused(kind: str) -> None:
    whole = architecture("sh:tanh", **SIZES)
    name = {"input": "x", "output": "y"}[kind]
    edges = [edge for edge in whole.edges if name not in (edge.source[0], edge.target[0])]
    with pytest.raises(RnnlabError, match=kind):
        Model(Architecture([node for node in whole.nodes if node.name != name], edges), generator=seeded())


@pytest.mark.parametrize("x", [[[[0.0, 0.0, 0.0]]], torch.zeros(1, 2, 3).numpy()], ids=["list", "numpy"])
def test_input_that_is_no_tensor_is_refused(x: object) -> None:
    with pytest.raises(RnnlabError, match="tensor"):
        make()(x)
