"""Layers that run side by side and hand states on compute what the reference does: on a GPU, or in the emulator."""

import sys
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnlab import Architecture, EdgeSpec, Model, ModelError, NodeSpec, architecture
from rnnlab.engine.gpu.choice import gpu_program
from rnnlab.engine.gpu.relay import relay_shape
from rnnlab.engine.gpu.resident import Shape
from tests.engine.comparison import DifferenceError
from tests.engine.gpu.checks import TOLERANCES, BreakKernels, compare
from tests.engine.gpu.emulator import COMPILER, EmulatedFunction, EmulationError

IS_GPU = torch.cuda.is_available()
pytestmark = [
    pytest.mark.skipif(IS_GPU and torch.cuda.get_device_capability() < (9, 0), reason="no GPU that has clusters"),
    pytest.mark.skipif(not IS_GPU and COMPILER is None, reason="g++ is not installed"),
    pytest.mark.skipif(not IS_GPU and sys.platform != "linux", reason="fibers are Linux's"),
]
in_emulator = pytest.mark.skipif(IS_GPU, reason="there is a GPU, where nobody chooses who is ahead")

SIZES = {"input_size": 3, "output_size": 2}
NETWORKS = ("stack-2:tanh", "stack-3:lstm", "stack-2:gru", "stack-2:gru-cudnn", "stack-3:ugrnn", "srnn-4:mgu")


@pytest.fixture(autouse=True)
def side_by_side(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU the emulator stands for one, and runs all clusters at once."""
    if not IS_GPU:
        request.getfixturevalue("emulated")
        monkeypatch.setattr(EmulatedFunction, "runs_all", True)


def check(network: Architecture, precision: str = "float32", **numbers: Any) -> None:
    device = "cuda" if IS_GPU else "cpu"
    numbers = {"num_steps": 7, "population": None} | numbers
    compare(network, device=device, precisions=[precision], paths=["gpu-relay"], **numbers)


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", NETWORKS)
def test_layers_side_by_side_agree(name: str, precision: str) -> None:
    check(architecture(name, **SIZES, units=20), precision, batch_size=3)


@pytest.mark.parametrize(
    ("units", "numbers"),
    [
        (32, {"num_steps": 1, "batch_size": 16}),
        (17, {"num_steps": 2, "batch_size": 1}),
        (30, {"num_steps": 3, "population": 2}),  # of both members two layers of two programs
        (30, {"num_steps": 9, "batch_size": 19}),  # 16 sequences and the rest
        (60, {"num_steps": 5, "batch_size": 5}),  # clusters of four
        (30, {"num_steps": 5, "steps_before": 3}),
    ],
)
@pytest.mark.parametrize("name", ["stack-2:lstm", "stack-2:gru"])
def test_sizes_agree(name: str, units: int, numbers: dict[str, int]) -> None:
    check(architecture(name, **SIZES, units=units), **numbers)


@in_emulator
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", ["stack-3:tanh", "stack-2:lstm", "stack-2:gru"])
def test_layers_agree_whoever_is_ahead(monkeypatch: pytest.MonkeyPatch, name: str, seed: int) -> None:
    monkeypatch.setattr(EmulatedFunction, "seed", seed)
    check(architecture(name, **SIZES, units=20), num_steps=12)


@in_emulator
@pytest.mark.parametrize("name", ["stack-3:tanh", "stack-3:lstm"])
def test_nobody_waits_in_vain_where_clusters_run_one_after_another(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A GPU that is busy starts them in the order of their numbers, as there is room."""
    monkeypatch.setattr(EmulatedFunction, "runs_all", False)
    check(architecture(name, **SIZES, units=20))


@st.composite
def towers(draw: st.DrawFn) -> Architecture:
    """Two or three layers of one width, of one node or a ring of two, that hand on to any layer above them."""
    depth, units = draw(st.integers(2, 3)), draw(st.integers(17, 32))
    nodes, edges = [NodeSpec(name="x", kind="input", units=3)], list[tuple[str, str, int]]()
    tops: list[str] = []
    for layer in range(depth):
        names = [f"h{layer}{letter}" for letter in ("ab" if draw(st.booleans()) else "a")]
        cells = [draw(st.sampled_from(["tanh", "gru", "ugrnn", "lstm"])) for _ in names]
        if len(names) > 1:  # what is carried must have the same parts
            cells = [draw(st.sampled_from(["tanh", "lstm"]))] * 2
        nodes += [
            NodeSpec(name=name, kind="hidden", units=units, cell=each) for name, each in zip(names, cells, strict=True)
        ]
        edges += [(name, name, 1) for name in names]
        edges += [(names[0], names[1], 0), (names[1], names[0], 1)] if len(names) > 1 else []
        below = draw(st.sets(st.sampled_from(["x", *tops]), min_size=1))
        edges += [(source, draw(st.sampled_from(names)), 0) for source in sorted({*below, *tops[-1:]})]
        tops.append(names[-1])
    nodes.append(NodeSpec(name="y", kind="output", units=2))
    edges += [(top, "y", 0) for top in sorted({*draw(st.sets(st.sampled_from(tops))), tops[-1]})]
    return Architecture(nodes, [EdgeSpec(source=(a, 0), target=(b, 0), delay=delay) for a, b, delay in edges])


@settings(max_examples=8)
@given(towers(), st.integers(1, 6), st.sampled_from(sorted(TOLERANCES)), st.integers(0, 3))
def test_random_towers_agree(network: Architecture, num_steps: int, precision: str, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(EmulatedFunction, "seed", seed)
        patches.setattr("rnnlab.engine.gpu.launch.relay_shape", lambda *_: Shape(16, 2))
        patches.setattr("rnnlab.engine.gpu.choice.relay_shape", lambda *_: Shape(16, 2))
        check(network, precision, num_steps=num_steps, batch_size=3, seed=seed)


@in_emulator
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("stack-2:lstm", "hear_of(", "(void)("),  # nobody waits for others' states
        ("stack-2:tanh", "T - time, T,", "T - time - 1, T,"),  # a step too early
        ("stack-2:gru", "await_groups<0>();", ""),  # rows are on their way
        ("stack-2:tanh", "clear(handed0);", ""),  # those of the step before
        ("stack-2:lstm", "(time + 2) % 2", "0"),  # one place for two steps
        ("stack-2:lstm", "sums[1][m]", "sums[0][m]"),  # the gradient of the layer's own state
    ],
)
def test_a_broken_relay_fails(break_kernels: BreakKernels, name: str, old: str, new: str) -> None:
    changed = break_kernels(old, new)
    with pytest.raises((DifferenceError, EmulationError)):
        check(architecture(name, **SIZES, units=30), batch_size=19)
    assert changed


def test_layers_share_what_they_have_in_common() -> None:
    """Those between the first and the last differ in nothing but their arrays: compiling takes no longer."""
    found = {}
    for depth in (3, 6):
        made = gpu_program(
            architecture(f"stack-{depth}:lstm", **SIZES, units=20), None, "bf16", is_spread=False, is_relay=True
        )
        assert len(made.legs) == depth
        text = made.relay_text(Shape(16, 2), frozenset(), None)
        assert len(text.arguments) == depth
        found[depth] = text.source.count("const Leg")
    assert found == {3: 2, 6: 2}


def test_a_relay_takes_as_few_sequences_a_program_as_fit() -> None:
    made = gpu_program(architecture("stack-4:lstm", **SIZES, units=64), None, "bf16", is_spread=False, is_relay=True)
    found = {processors: relay_shape(made, (1, 64), processors) for processors in (132, 40, 16, 7)}
    assert found == {
        132: Shape(16, 4),
        40: Shape(16, 2),
        16: Shape(32, 2),
        7: "the clusters of its 4 layers do not fit into 7 multiprocessors at once",
    }


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (architecture("sh:lstm", **SIZES, units=20), "it has no two layers with cycles of their own"),
        (architecture("td:lstm", **SIZES, units=20), "it has no two layers with cycles of their own"),
        (architecture("mongia-d:lstm", **SIZES, units=20), "its period is 2, and relays have period 1"),
        (
            architecture("stack-2:lstm", **SIZES, units=300),
            "a layer has no cluster of programs that holds its matrices",
        ),
        (architecture("stack-2:intersection", **SIZES, units=20), "takes over a state of another layer as it is"),
    ],
)
def test_what_cannot_be_a_relay_is_refused(network: Architecture, message: str) -> None:
    model = Model(network, seed=0, path="gpu-relay").to("cuda" if IS_GPU else "cpu")
    with pytest.raises(ModelError, match=f"the layers cannot run side by side on the GPU: .*{message}"):
        model(torch.zeros(2, 3, 3, device="cuda" if IS_GPU else "cpu"))


def test_explain_says_how_layers_are_cut_up() -> None:
    model = Model(architecture("stack-2:lstm", **SIZES, units=20), seed=0, path="gpu-relay")
    if IS_GPU:
        model.cuda()
    assert "2 layers side by side, clusters of 2 programs for 16 sequences each" in str(model.explain(batch=3))
