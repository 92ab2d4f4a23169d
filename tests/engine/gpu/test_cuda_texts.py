"""Kernels in CUDA C++ compile, for GPUs that need not be there and in every precision."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnlab import CELLS, Architecture, ModelError, architecture
from rnnlab.engine.gpu.choice import gpu_program
from rnnlab.engine.gpu.cuda_driver import machine_code
from rnnlab.engine.gpu.kernels import resident_text, spread_writer
from rnnlab.engine.gpu.resident import Shape
from rnnlab.engine.gpu.sharing import Processors
from rnnlab.engine.gpu.spread_backward import spread_backward
from rnnlab.engine.model import PRECISIONS
from tests.engine.gpu.cuda_texts import GPUS, CudaText, cuda_texts, gradients_of, has_nvrtc
from tests.engine.models import two_inputs
from tests.engine.networks import MIXED, both_directions, own_cell
from tests.engine.strategies import architectures

pytestmark = pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed (pip install nvidia-cuda-nvrtc)")

SIZES = {"input_size": 3, "output_size": 2, "units": 20}
ONE_LAYER = {cell: architecture("sh", cell, **SIZES) for cell in CELLS if cell != "intersection"}
DELAYED = {name: architecture(name, **SIZES) for name in ("skip-3:tanh", "skip-21:lstm", "skip-2:lstm-edges")}
BACKWARD = {f"{cell}, both directions": both_directions(cell, units=20) for cell in ("lstm", "gru-cudnn")}
SPREAD = {
    **ONE_LAYER,
    "intersection, its depth input projected": architecture("st", "intersection", **SIZES),
    "intersection of tokens": architecture("st", "intersection", encoding="tokens", **SIZES),
    **{name: architecture(name, **SIZES) for name in ("td:gru", "stack-3:lstm", "st:lstm-edges", "dots-2:tanh")},
    **{name: architecture(name, **SIZES) for name in ("mongia-d:lstm", "special-4:ugrnn", "hierarchical:mgu")},
    "several inputs": two_inputs(),
    "tokens among several inputs": two_inputs(tokens=True),
    **DELAYED,
    **BACKWARD,
}

in_every_way = pytest.mark.parametrize(
    ("gpu", "precision"), [(gpu, precision) for gpu in ("A100", "H200") for precision in PRECISIONS]
)


def compile_all(texts: list[CudaText], gpu: str) -> None:
    """Compile; a text with an error raises."""
    assert texts
    assert len(texts) % 2 == 0  # forward and backward
    for text in texts:
        image = machine_code(text.source, GPUS[gpu].architecture)
        assert image.startswith(b"\x7fELF")
        assert b"kernel" in image


@in_every_way
@pytest.mark.parametrize("label", SPREAD)
def test_spread_kernels_compile(label: str, gpu: str, precision: str) -> None:
    compile_all(cuda_texts(SPREAD[label], precision, GPUS[gpu], is_spread=True), gpu)


@in_every_way
@pytest.mark.parametrize("label", [*ONE_LAYER, *DELAYED, *BACKWARD])
def test_resident_kernels_compile(label: str, gpu: str, precision: str) -> None:
    compile_all(cuda_texts(SPREAD[label], precision, GPUS[gpu], is_spread=False), gpu)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("name", "sends_gates"), [("sh:tanh", True), ("sh:lstm", False), ("td:gru", True)])
@pytest.mark.parametrize(("units", "num_programs"), [(64, 2), (128, 4), (128, 8)])
def test_kernels_of_clusters_compile(
    name: str, sends_gates: bool, units: int, num_programs: int, precision: str
) -> None:
    made = gpu_program(architecture(name, input_size=3, output_size=2, units=units), None, precision, "population")
    (number,) = (number for number, each in enumerate(made.plan.components) if not each.is_hoisted)
    for gradients in (None, gradients_of(made)):
        text = resident_text(made, number, Shape(16, num_programs), frozenset(), gradients)
        assert f"__cluster_dims__({num_programs}, 1, 1)" in text.source
        assert ("send_parts(address" in text.source) is (gradients is not None and not sends_gates)
        assert machine_code(text.source, "sm_90").startswith(b"\x7fELF")


def test_only_a_layer_that_reads_the_past_has_gradients_of_what_came_before() -> None:
    made = gpu_program(both_directions("tanh", units=20, read_out_delay=2), None, "tf32", "population")
    found: dict[bool, list[str]] = {}
    for number, component in enumerate(made.plan.components):
        if not component.is_hoisted:
            text = resident_text(made, number, Shape(16), frozenset(), gradients_of(made))
            found[component.is_backward] = [of for kind, of in text.arguments if kind == "dbefore"]
    assert found == {False: [("f", "h")], True: []}


@pytest.mark.parametrize("is_spread", [True, False])
def test_members_with_their_own_nonlinearity_compile(is_spread: bool) -> None:
    texts = cuda_texts(ONE_LAYER["gru"], "tf32", GPUS["H200"], is_spread=is_spread, sizes=(3, 3), nonlinearity=MIXED)
    assert all("is_relu ?" in text.source for text in texts)
    compile_all(texts, "H200")


@pytest.mark.parametrize("is_spread", [True, False])
def test_a_cell_of_ones_own_compiles(monkeypatch: pytest.MonkeyPatch, is_spread: bool) -> None:
    monkeypatch.setitem(CELLS, "own", own_cell())
    compile_all(cuda_texts(architecture("sh", "own", **SIZES), "float32", GPUS["A100"], is_spread=is_spread), "A100")


def test_matrices_too_large_for_the_chip_are_streamed() -> None:
    """A text of its own, which small networks do not show."""
    network = architecture("sh:lstm", input_size=3, output_size=2, units=1024)
    texts = cuda_texts(network, "float32", GPUS["A100"], is_spread=True, sizes=(1, 16))
    assert all("Passing{" in text.source for text in texts)
    compile_all(texts, "A100")


@pytest.mark.parametrize(
    ("name", "units", "precision", "is_kept"),
    [("sh:lstm", 1024, "bf16", True), ("sh:gru", 2048, "bf16", False), ("sh:lstm", 512, "float32", True)],
)
def test_pairs_compile(name: str, units: int, precision: str, is_kept: bool) -> None:
    """Backward, on a GPU that has clusters."""
    network = architecture(name, input_size=3, output_size=2, units=units)
    made = gpu_program(network, None, precision, "spread")
    (number,) = (number for number, each in enumerate(made.plan.components) if not each.is_hoisted)
    limits = (1, 64), Processors(132, 132), GPUS["H200"].shared_bytes
    tiling = made.spread(number)._tiling(32, 16 if is_kept else 32, *limits, backward=True, is_paired=True)
    assert tiling is not None
    assert tiling.is_kept == is_kept
    text = spread_backward(spread_writer(made, number, tiling, frozenset()), *gradients_of(made)[:2])
    assert "__cluster_dims__(2, 1, 1)" in text.source
    assert machine_code(text.source, "sm_90").startswith(b"\x7fELF")
    cut = [tiling.is_paired for tiling in made.tilings(number, (1, 64), limits[1]) if not isinstance(tiling, str)]
    assert cut == [False, True]


@settings(max_examples=10)
@given(architectures(), st.sampled_from(PRECISIONS), st.sampled_from(["A100", "H200"]), st.booleans())
def test_random_networks_compile(network: Architecture, precision: str, gpu: str, is_spread: bool) -> None:
    for text in cuda_texts(network, precision, GPUS[gpu], is_spread=is_spread):
        assert machine_code(text.source, GPUS[gpu].architecture)


def test_an_error_in_a_text_is_shown_in_the_compilers_words() -> None:
    with pytest.raises(ModelError, match=r"NVRTC cannot compile a kernel for sm_90:\n.*identifier \"nothing\""):
        machine_code('extern "C" __global__ void kernel() { nothing(); }', "sm_90")
