"""Layers that run side by side and hand states on compute what the reference does: on a GPU, or in the emulator."""

import sys
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnlab import Architecture, EdgeSpec, Model, ModelError, NodeSpec, architecture
from rnnlab.engine.gpu.choice import gpu_program
from rnnlab.engine.gpu.kernels import text_of_relay
from rnnlab.engine.gpu.program import GpuProgram
from rnnlab.engine.gpu.relay import relay_shapes
from rnnlab.engine.gpu.resident import Shape
from tests.engine.comparison import DifferenceError
from tests.engine.gpu.checks import TOLERANCES, BreakKernels, compare
from tests.engine.gpu.emulator import COMPILER, EmulatedFunction, EmulationError
from tests.engine.networks import both_directions, heads

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


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("cell", ["tanh", "lstm"])
def test_both_directions_side_by_side_agree(cell: str, precision: str) -> None:
    """They hand nothing on; one goes through the sequence as the other does, but backward."""
    network = both_directions(cell, units=20, read_out_delay=2)
    made = gpu_program(network, None, precision, "relay")
    assert [len(legs) for legs in made.relays] == [2]
    check(network, precision, batch_size=19, num_steps=5)


def test_layers_of_both_directions_take_turns() -> None:
    """The upper ones need all of the lower ones: two groups, one after the other."""
    nodes = [NodeSpec(name="x", kind="input", units=3), NodeSpec(name="y", kind="output", units=2)]
    nodes += [NodeSpec(name=f"{way}{level}", kind="hidden", units=20, cell="lstm") for way in "fb" for level in (1, 2)]
    edges = [("x", "f1", 0), ("x", "b1", 0), ("f1", "f1", 1), ("b1", "b1", -1), ("f2", "f2", 1), ("b2", "b2", -1)]
    edges += [(f"{below}1", f"{above}2", 0) for below in "fb" for above in "fb"]
    edges += [("f2", "y", 0), ("b2", "y", 0)]
    carried = {("f1", "f1"), ("f2", "f2"), ("b1", "b1"), ("b2", "b2")}
    specs = [
        EdgeSpec(source=(a, 0), target=(b, 0), delay=delay, carry=(a, b) in carried or None) for a, b, delay in edges
    ]
    network = Architecture(nodes, specs)
    made = gpu_program(network, None, "float32", "relay")
    assert [len(legs) for legs in made.relays] == [2, 2]
    assert not made.handed
    check(network, num_steps=5, batch_size=3)


def test_heads_side_by_side_agree() -> None:
    """Layers that do not see one another: a matrix of blocks."""
    network = heads(4, "gru", 20)
    made = gpu_program(network, None, "float32", "relay")
    assert [len(legs) for legs in made.relays] == [4]
    check(network, num_steps=5, batch_size=3)


def tied(cell: str) -> Architecture:
    """Two layers, of which the upper one multiplies its own states and those of the lower one by the same matrix."""
    nodes = [NodeSpec(name="x", kind="input", units=3), NodeSpec(name="y", kind="output", units=2)]
    nodes += [NodeSpec(name=name, kind="hidden", units=30, cell=cell) for name in "ab"]
    edges = [("x", "a", 0, None), ("a", "a", 1, None), ("a", "b", 0, "W"), ("b", "b", 1, "W"), ("b", "y", 0, None)]
    return Architecture(
        nodes, [EdgeSpec(source=(a, 0), target=(b, 0), delay=delay, weights=name) for a, b, delay, name in edges]
    )


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("cell", ["tanh", "lstm"])
def test_layers_that_share_a_matrix_agree(cell: str, precision: str) -> None:
    network = tied(cell)
    assert gpu_program(network, None, precision, "relay").relays
    check(network, precision, batch_size=3)


@settings(max_examples=8)
@given(towers(), st.integers(1, 6), st.sampled_from(sorted(TOLERANCES)), st.integers(0, 3))
def test_random_towers_agree(network: Architecture, num_steps: int, precision: str, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(EmulatedFunction, "seed", seed)
        for module in ("launch", "relay"):
            shapes = (Shape(16, 2),) * len({node.name[1] for node in network.nodes if node.kind == "hidden"})
            patches.setattr(f"rnnlab.engine.gpu.{module}.relay_shapes", lambda *_, shapes=shapes: shapes)
        check(network, precision, num_steps=num_steps, batch_size=3, seed=seed)


@in_emulator
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("stack-2:lstm", "wait_for(", "(void)("),  # nobody waits for others' states
        ("stack-2:tanh", "T - time)", "T - time - 1)"),  # a step too early
        ("stack-2:gru", "await_groups<0>();", ""),  # rows are on their way
        ("stack-2:tanh", "= bias0_0.x[u];", "+= bias0_0.x[u];"),  # those of the step before too
        ("stack-2:lstm", "(time + 2) % 2", "0"),  # one place for two steps
        ("stack-2:tanh", "sums[1][m]", "sums[0][m]"),  # the gradient of the layer's own state
        ("stack-2:lstm", "position % 2 *", "0 *"),  # one place for the gates of two moments
        ("stack-2:lstm", "add_parts(back, shared + place);", ""),  # what the others add to what is handed back
        ("stack-2:lstm", "keep_right(right0, ", "keep_right(right0, 16 + "),  # of other units' states
    ],
)
def test_a_broken_relay_fails(break_kernels: BreakKernels, name: str, old: str, new: str) -> None:
    changed = break_kernels(old, new)
    with pytest.raises((DifferenceError, EmulationError)):
        check(architecture(name, **SIZES, units=30), batch_size=19)
    assert changed


def relay_of(name: str, units: int) -> GpuProgram:
    network = architecture(name, **SIZES, units=units)
    return gpu_program(network, None, "bf16", "relay")


def test_layers_share_what_they_have_in_common() -> None:
    """Those between the first and the last differ in nothing but their arrays: compiling takes no longer."""
    found = {}
    for depth in (3, 6):
        made = relay_of(f"stack-{depth}:lstm", 20)
        (legs,) = made.relays
        text = text_of_relay(made, legs, (Shape(16, 2),) * depth, frozenset(), None)
        assert len(text.legs) == depth
        found[depth] = text.source.count("const Leg"), text.source.count("namespace shape0 {")
    assert found == {3: (2, 1), 6: (2, 1)}


def test_legs_take_as_few_sequences_a_program_as_fit() -> None:
    made, here = relay_of("stack-4:lstm", 64), torch.device("cpu")
    (legs,) = made.relays
    found = {each: relay_shapes(made, legs, (1, 64), each, here) for each in (132, 40, 28, 16, 7)}
    assert found == {
        132: (Shape(16, 4),) * 4,
        40: (Shape(16, 2),) * 4,
        28: (Shape(32, 2), Shape(16, 2), Shape(16, 2), Shape(16, 2)),
        16: (Shape(32, 2),) * 4,
        7: "the clusters of 4 layers have no room on 7 multiprocessors at once",
    }


@pytest.mark.parametrize("rows", [(32, 16), (16, 32), (64, 16), (16, 64)])
@pytest.mark.parametrize("name", ["st:tanh", "st:lstm"])
def test_legs_of_different_shapes_agree(monkeypatch: pytest.MonkeyPatch, name: str, rows: tuple[int, int]) -> None:
    """Some of whose programs wait for several others; the last of those may not be there."""
    shapes = tuple(Shape(each, 2) for each in rows)
    for module in ("launch", "relay"):
        monkeypatch.setattr(f"rnnlab.engine.gpu.{module}.relay_shapes", lambda *_: shapes)
    monkeypatch.setattr(EmulatedFunction, "seed", 1)
    check(architecture(name, **SIZES, units=20), "bf16", batch_size=83, num_steps=4)


ALONE = "it has no layers of one width that hand their states on at once, or not at all"


@pytest.mark.parametrize(
    ("name", "units", "message"),
    [
        ("sh:lstm", 20, ALONE),
        ("td:lstm", 20, ALONE),
        ("bu:lstm", 20, ALONE),  # an edge of delay 1
        ("mongia-d:lstm", 20, ALONE),
        ("stack-2:intersection", 20, ALONE),  # takes over a state as it is
        ("stack-2:lstm", 300, "a layer has no cluster of programs that holds its matrices"),
        ("stack-99:lstm", 20, "the clusters of 99 layers have no room on"),
    ],
)
def test_what_cannot_be_a_relay_is_refused(name: str, units: int, message: str) -> None:
    model = Model(architecture(name, **SIZES, units=units), seed=0, path="gpu-relay").to("cuda" if IS_GPU else "cpu")
    with pytest.raises(ModelError, match=f"the layers cannot run side by side on the GPU: .*{message}"):
        model(torch.zeros(2, 3, 3, device="cuda" if IS_GPU else "cpu"))


@in_emulator
def test_a_gpu_that_refuses_clusters_runs_layers_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise ModelError("the GPU's driver cannot say how many clusters run: not supported")

    monkeypatch.setattr("rnnlab.engine.gpu.relay.most_clusters", refuse)
    model = Model(architecture("stack-2:lstm", **SIZES, units=20), seed=0)
    assert "side by side" not in str(model.explain(batch=3))
    model.path = "gpu-relay"
    with pytest.raises(ModelError, match="cannot run side by side on the GPU: the GPU's driver cannot say how many"):
        model(torch.zeros(2, 3, 3))


def test_explain_says_how_layers_are_cut_up() -> None:
    model = Model(architecture("stack-2:lstm", **SIZES, units=20), seed=0, path="gpu-relay")
    if IS_GPU:
        model.cuda()
    assert "2 layers side by side, clusters of 2 programs for 16 sequences each" in str(model.explain(batch=3))
