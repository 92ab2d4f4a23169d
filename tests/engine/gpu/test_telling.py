"""Programs of spread networks hear of one another by the numbers themselves: in the emulator, where there is no GPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from rnnlab import Architecture, EdgeSpec, Model, NodeSpec, architecture
from rnnlab.engine.gpu import cuda_writer, spread
from rnnlab.engine.gpu.arrays import GpuArrays
from rnnlab.engine.gpu.compiled import Argument
from rnnlab.engine.state import State
from rnnlab.graph.elements import NodeKey
from tests.engine.comparison import DifferenceError
from tests.engine.gpu.checks import TOLERANCES, compare
from tests.engine.gpu.emulator import NEEDS, EmulatedFunction, EmulationError
from tests.engine.networks import both_directions

pytestmark = NEEDS

SIZES = {"input_size": 3, "output_size": 2}
ChangeLibrary = Callable[[str, str], None]
FEW_ROUNDS = 30_000  # kernels of these sizes end after some hundred
ALL_ONES = torch.tensor(-1, dtype=torch.int32).view(torch.float32)  # a NaN, and the word that is missing


def ring() -> Architecture:
    """A node adds states of another as they are, of the same step and of an earlier one."""
    nodes = [
        NodeSpec(name="x", kind="input", units=3),
        *(NodeSpec(name=name, kind="hidden", units=20, cell="tanh") for name in "ab"),
        NodeSpec(name="y", kind="output", units=2),
    ]
    pairs = [("x", "a", 0), ("b", "a", 1), ("b", "b", 1), ("b", "y", 0)]
    edges = [EdgeSpec(source=(a, 0), target=(b, 0), delay=delay) for a, b, delay in pairs]
    edges += [EdgeSpec(source=("a", 0), target=("b", 0), delay=delay, transform="identity") for delay in (0, 2)]
    return Architecture(nodes, edges)


NETWORKS = {
    "sh:lstm": architecture("sh:lstm", **SIZES, units=40),
    "sh:gru": architecture("sh:gru", **SIZES, units=40),
    "td:gru": architecture("td:gru", **SIZES, units=20),
    "skip-3:lstm": architecture("skip-3:lstm", **SIZES, units=20),
    "mongia-d:lstm": architecture("mongia-d:lstm", **SIZES, units=20),
    "stack-2:intersection": architecture("stack-2:intersection", **SIZES, units=20),
    "both directions": both_directions("lstm", units=20),
    "ring": ring(),
}


@pytest.fixture
def change_library(monkeypatch: pytest.MonkeyPatch) -> ChangeLibrary:
    """A function that changes what kernels of spread networks share."""
    library_text = cuda_writer.library_text

    def change(old: str, new: str) -> None:
        def changed(name: str) -> str:
            text = library_text(name)
            if name == "spread.cu":
                assert text.count(old) == 1
                text = text.replace(old, new)
            return text

        monkeypatch.setattr(cuda_writer, "library_text", changed)

    return change


def check(network: Architecture, precision: str = "float32", **numbers: Any) -> None:
    numbers = {"population": 1, "batch_size": 3, "num_steps": 5} | numbers
    compare(network, device="cpu", precisions=[precision], paths=["gpu-spread"], **numbers)


EARLY, LATE = 1_000_000, -1  # programs copy at once, or look first


@pytest.mark.parametrize("early_bytes", [EARLY, LATE])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("label", "precision"), [*zip(NETWORKS, [*TOLERANCES] * 3, strict=False)])
def test_networks_agree_whoever_is_ahead(
    monkeypatch: pytest.MonkeyPatch, label: str, precision: str, seed: int, early_bytes: int
) -> None:
    """And though the words of a piece that is copied at once come one after another."""
    monkeypatch.setattr(EmulatedFunction, "seed", seed)
    monkeypatch.setattr(spread, "EARLY_BYTES", early_bytes)
    check(NETWORKS[label], precision)


@pytest.mark.parametrize(
    ("label", "numbers"),
    [
        ("sh:lstm", {"num_steps": 1}),
        ("sh:gru", {"num_steps": 2, "batch_size": 1, "steps_before": 3}),
        ("skip-3:lstm", {"num_steps": 2, "steps_before": 1}),
        ("mongia-d:lstm", {"num_steps": 4, "steps_before": 3}),
        ("td:gru", {"num_steps": 3, "batch_size": 67}),  # rows of the last program that no sequence has
    ],
)
def test_sizes_agree(label: str, numbers: dict[str, int]) -> None:
    check(NETWORKS[label], "bf16", **numbers)


BROKEN = [  # the network, what is wrong, and whether it shows only where words of a piece come one after another
    ("sh:lstm", "is_awaited && !__all_sync(~0u, most != MISSING)", "false", 0),  # nobody looks
    ("sh:lstm", "most_of(a[step][m])", "most_of(a[0][m])", 0),  # at one half of a chunk only
    ("sh:lstm", "most_of(a[step][m])", "a[step][m][0]", 1),  # at one word of each piece only
    ("sh:gru", "min(word, MISSING - 1)", "word | 0x10000", 0),  # changes numbers
    ("ring", "is_awaited && !are_there", "false", 0),  # nobody looks at what is not multiplied
    ("sh:lstm", "both(x, other)", "both(other, x)", 0),  # in the place of a neighbour
]


@pytest.mark.parametrize(("label", "old", "new", "seed"), BROKEN)
def test_who_does_not_look_for_missing_words_computes_something_else(
    monkeypatch: pytest.MonkeyPatch, change_library: ChangeLibrary, label: str, old: str, new: str, seed: int
) -> None:
    monkeypatch.setattr(EmulatedFunction, "seed", seed)
    change_library(old, new)
    with pytest.raises(DifferenceError):
        check(NETWORKS[label], "bf16" if "both" in old else "float32", num_steps=7)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "return __all_sync(~0u, most != MISSING);",
            "return true;",
        ),  # nobody looks at more than a word of each program
        ("[i] = 0.0f;", "[i] *= 1.0f;"),  # what was made of missing words stays
    ],
)
def test_who_looks_first_must_look_again(
    monkeypatch: pytest.MonkeyPatch, change_library: ChangeLibrary, old: str, new: str
) -> None:
    monkeypatch.setattr(EmulatedFunction, "seed", 1)
    monkeypatch.setattr(spread, "EARLY_BYTES", LATE)
    change_library(old, new)
    with pytest.raises(DifferenceError):
        check(NETWORKS["sh:lstm"], num_steps=7)


@pytest.mark.parametrize(
    ("label", "old", "new"),
    [
        ("sh:lstm", "lacks_a_word(to + lane.to + i * 8 * CHUNK)", "lacks_a_word(to + lane.to)"),  # but not all rows
        ("sh:lstm", "copy(i, place(i), Number<true>())", "(void)i"),  # at the same copy for ever
    ],
)
def test_who_does_not_copy_again_waits_in_vain(
    monkeypatch: pytest.MonkeyPatch, change_library: ChangeLibrary, label: str, old: str, new: str
) -> None:
    monkeypatch.setattr(EmulatedFunction, "seed", 1)
    monkeypatch.setattr(EmulatedFunction, "most_rounds", FEW_ROUNDS)
    change_library(old, new)
    with pytest.raises(EmulationError, match="wait in vain"):
        check(NETWORKS[label], batch_size=16)


def test_missing_words_are_there_before_a_kernel_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other words, or words that come later, are taken for numbers."""
    network = NETWORKS["sh:gru"]
    check(network)
    mark_missing = GpuArrays.mark_missing

    def other_words(arrays: GpuArrays, array: Tensor, argument: Argument, key: NodeKey) -> None:
        mark_missing(arrays, array, argument, key)
        array.view(torch.int32)[array.view(torch.int32) == -1] = 0

    monkeypatch.setattr(GpuArrays, "mark_missing", other_words)
    with pytest.raises(DifferenceError):
        check(network)
    late: list[Callable[[], None]] = []
    launch_kernel = EmulatedFunction.launch

    def later(*arguments: Any) -> None:
        other_words(*arguments)
        late.append(lambda: mark_missing(*arguments))

    def launch(*arguments: Any, **options: Any) -> None:
        launch_kernel(*arguments, **options)
        while late:
            late.pop()()

    monkeypatch.setattr(GpuArrays, "mark_missing", later)
    monkeypatch.setattr(EmulatedFunction, "launch", launch)
    with pytest.raises(DifferenceError):
        check(network)


# --------------------------------------------------------------------------------------------------- words that are NaN


def run_with_nan(network: Architecture, precision: str) -> list[Tensor]:
    """Outputs and gradients where the state before, and the gradient of the outputs, have the word that is missing."""
    made = Model(network, generator=torch.Generator().manual_seed(0), path="gpu-spread", precision=precision)
    x = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(1))
    _, state = made(x)
    values = {part: value.detach().clone() for part, value in state.values.items()}
    for value in values.values():
        value[..., 0, :, 5] = ALL_ONES
    y, _ = made(x, State(0, values))
    gradient = torch.ones_like(y)
    gradient[1, 2] = ALL_ONES
    found = torch.autograd.grad(y, list(made.parameters()), gradient, allow_unused=True)
    return [y.detach(), *(each for each in found if each is not None)]


@pytest.mark.parametrize("early_bytes", [EARLY, LATE])
@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("label", ["sh:lstm", "sh:gru", "skip-3:lstm", "stack-2:intersection"])
def test_nobody_waits_for_a_number_that_is_not_one(
    monkeypatch: pytest.MonkeyPatch, label: str, precision: str, early_bytes: int
) -> None:
    monkeypatch.setattr(spread, "EARLY_BYTES", early_bytes)
    outputs, *gradients = run_with_nan(NETWORKS[label], precision)
    assert bool(outputs[0].isnan().any())
    assert not bool(outputs[1].isnan().any())
    assert any(bool(each.isnan().any()) for each in gradients)


@pytest.mark.parametrize(
    ("old", "new", "early_bytes"),
    [
        ("min(word, MISSING - 1)", "word", EARLY),  # what is told may be the missing word
        ("min(word, MISSING - 1)", "word", LATE),
        ("if (is_awaited && !__all_sync", "if (!__all_sync", EARLY),  # nobody will write what came before the sequence
        ("!STOPS && is_awaited ?", "!STOPS ?", LATE),
    ],
)
def test_nan_that_is_taken_for_a_missing_word_is_waited_for_in_vain(
    monkeypatch: pytest.MonkeyPatch, change_library: ChangeLibrary, old: str, new: str, early_bytes: int
) -> None:
    monkeypatch.setattr(spread, "EARLY_BYTES", early_bytes)
    monkeypatch.setattr(EmulatedFunction, "most_rounds", FEW_ROUNDS)
    change_library(old, new)
    with pytest.raises(EmulationError, match="wait in vain"):
        run_with_nan(NETWORKS["sh:lstm"], "float32")
