"""How networks are cut up to be spread over a GPU, and that those that were compute what the reference does."""

import re

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rnnlab import Architecture, ModelError, architecture
from rnnlab.engine.gpu import kernels, program, spread
from rnnlab.engine.gpu.choice import gpu_program
from rnnlab.engine.gpu.layout import padded
from rnnlab.engine.gpu.sharing import Processors, share_of_gpu
from rnnlab.engine.gpu.spread import CHUNK, NEARLY, WARPS, SpreadComponent, shared_memory_use
from rnnlab.engine.model import PRECISIONS, Model
from rnnlab.engine.state import State
from tests.engine.comparison import DifferenceError
from tests.engine.gpu.checks import TOLERANCES, BreakKernels, compare
from tests.engine.gpu.cuda_texts import GPUS, CudaText, Gpu, cuda_texts
from tests.engine.networks import MIXED, both_directions
from tests.engine.strategies import architectures

GRAPHS = ("sh", "st", "td", "stack-4", "skip-3", "dots-2", "section45-3-3", "mongia-d", "clockwork")
CELLS = ("tanh", "ugrnn", "gru", "lstm", "lstm-edges")
PROCESSORS = (16, 46, 108, 132)
SHARED_BYTES = (49_152, 101_376, 166_912, 232_448)
BRANCH = r"if \(worker >= \d+ && worker < \d+\)"

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU; test_emulated runs some spread kernels")
widths = st.integers(1, 100) | st.integers(100, 2048)
sizes = st.tuples(st.sampled_from([1, 1, 2, 7]), st.integers(1, 200))
rooms = st.sampled_from(PROCESSORS).flatmap(lambda every: st.builds(Processors, st.integers(1, every), st.just(every)))
shared_memories = st.sampled_from(SHARED_BYTES) | st.integers(SHARED_BYTES[0], SHARED_BYTES[-1])
many_examples = settings(max_examples=max(100, settings().max_examples))  # they are cheap, and rarely at a border


@st.composite
def networks(draw: st.DrawFn) -> Architecture:
    """Of the catalogue, as wide as can be, or random ones, which are narrow; or two layers of different widths."""
    kind = draw(st.sampled_from(["catalogue", "random", "two widths"]))
    if kind == "random":
        return draw(architectures())
    if kind == "two widths":
        units = {"h1": draw(widths), "h2": draw(widths)}
        return architecture("st", draw(st.sampled_from(CELLS[:4])), input_size=3, output_size=2, units=units)
    name, cell = draw(st.sampled_from(GRAPHS)), draw(st.sampled_from(CELLS))
    return architecture(name, cell, input_size=3, output_size=2, units=draw(widths))


def components(network: Architecture, precision: str) -> list[SpreadComponent]:
    made = gpu_program(network, None, precision, "spread")
    return [made.spread(number) for number, each in enumerate(made.plan.components) if not each.is_hoisted]


# ------------------------------------------------------------------------------------------------------------- tilings


@many_examples
@given(
    networks(),
    st.sampled_from(PRECISIONS),
    sizes,
    rooms,
    shared_memories,
    st.booleans(),
)
def test_tiles_cover_every_unit_of_every_sequence_once(
    network: Architecture,
    precision: str,
    sizes: tuple[int, int],
    processors: Processors,
    shared_bytes: int,
    backward: bool,
) -> None:
    found = [
        (component, tiling)
        for component in components(network, precision)
        if (tiling := component.tiling(sizes, processors, shared_bytes, backward=backward)) is not None
    ]
    assume(found)
    for component, tiling in found:
        for code in component.codes:
            first, count = component.first_worker(code.key, tiling.units), padded(code.units) // tiling.units
            assert count * tiling.units == padded(code.units) >= code.units
            assert 0 <= first <= first + count <= component.num_workers(tiling.units)
        workers = [
            component.first_worker(code.key, tiling.units) + number
            for code in component.codes
            for number in range(padded(code.units) // tiling.units)
        ]
        assert sorted(workers) == list(range(component.num_workers(tiling.units)))
        blocks = -(-sizes[1] // tiling.rows)
        assert (blocks - 1) * tiling.rows < sizes[1] <= blocks * tiling.rows
        assert tiling.num_programs == len(workers) * tiling.num_teams <= processors.all
        num_teams = sizes[0] * blocks
        assert (tiling.num_turns - 1) * tiling.num_teams < num_teams <= tiling.num_turns * tiling.num_teams


@many_examples
@given(networks(), st.sampled_from(PRECISIONS), sizes, st.sampled_from(PROCESSORS), shared_memories)
def test_texts_stay_within_programs_and_shared_memory(
    network: Architecture, precision: str, sizes: tuple[int, int], processors: int, shared_bytes: int
) -> None:
    """With some shared memory, and with a byte less than what was used of it."""
    gpu = Gpu("none", processors, shared_bytes, cluster_size=1)
    texts = cuda_texts(network, precision, gpu, is_spread=True, sizes=sizes)
    assume(texts)
    smaller = gpu._replace(shared_bytes=max(text.shared_bytes for text in texts) - 1)
    for text in texts:
        check_workers(text, gpu)
        check_shared_memory(text, gpu)
    for text in cuda_texts(network, precision, smaller, is_spread=True, sizes=sizes):
        check_shared_memory(text, smaller)


def check_workers(text: CudaText, gpu: Gpu) -> None:
    """Raise where the branches of nodes do not share out all programs, or there are too many of them."""
    ends = [0]
    for first, end in numbers(BRANCH.replace(r"\d+", r"(\d+)"), text.source):
        assert ends[-1] == first < end
        ends.append(end)
    assert 0 < ends[-1] <= gpu.num_processors


def check_shared_memory(text: CudaText, gpu: Gpu) -> None:
    """Raise where the numbers in a text reach beyond the memory that it is launched with, or into one another's."""
    rows, units = numbers(r"ROWS = (\d+), UNITS = (\d+)", text.source)[0]
    for branch in re.split(BRANCH, text.source)[1:]:
        ((buffers,),) = numbers(r"buffers = shared \+ (\d+);", branch)
        ((buffer_bytes,),) = numbers(r"buffer = buffers \+ warp \* (\d+);", branch)
        end = 0
        for start, stride, size in numbers(r"keep_columns\(\S+ \+ (\d+), (\d+), .*, UNITS, (\d+)\);", branch):
            assert start >= end
            assert stride >= size
            assert stride % 16 == start % 16 == 0
            end = start + (units - 1) * stride + size
        assert end <= buffers
        columns = max((place + 1 for (place,) in numbers(r"\(ROWS \+ (\d+) \* UNITS\) \* CHUNK", branch)), default=0)
        own_rows = {found for (found,) in numbers(r"copy_rows<(\d+), ", branch)} or {rows}
        assert own_rows in ({rows}, {rows // 2})
        assert not columns or own_rows == {rows}
        for num_stages, stage_bytes in numbers(r"in_turn<\w+, (\d+)>\(first, last, \S+, (\d+),", branch):
            assert num_stages >= 2
            assert (max(own_rows) + columns * units) * CHUNK <= stage_bytes
            assert num_stages * stage_bytes <= buffer_bytes
        for (width,) in numbers(r"leave<(\d+)>", branch):
            assert max(own_rows) * width * 4 <= buffer_bytes
        assert buffers % 16 == buffer_bytes % 16 == 0
        assert buffers + WARPS * buffer_bytes <= text.shared_bytes <= gpu.shared_bytes


def numbers(pattern: str, text: str) -> list[tuple[int, ...]]:
    """The numbers in all places of a text that fit a pattern."""
    return [tuple(map(int, found.groups())) for found in re.finditer(pattern, text)]


@many_examples
@given(
    networks(),
    st.sampled_from(PRECISIONS),
    sizes,
    st.lists(st.sampled_from(PROCESSORS), min_size=2, max_size=2).map(sorted),
    st.lists(shared_memories, min_size=2, max_size=2).map(sorted),
    st.booleans(),
)
def test_a_larger_gpu_is_not_slower(
    network: Architecture,
    precision: str,
    sizes: tuple[int, int],
    processors: list[int],
    shared_bytes: list[int],
    backward: bool,
) -> None:
    for component in components(network, precision):
        small, large = (
            component.tiling(sizes, Processors(count, count), memory, backward=backward)
            for count, memory in zip(processors, shared_bytes, strict=True)
        )
        if small is not None:
            assert large is not None
            # a population takes room for others before speed, and one network no turns, within limits
            assert large.microseconds <= NEARLY * small.microseconds


STREAMED = [("td:gru", 73_728), ("td:tanh", 49_152)]
"""Networks of 512 units on a GPU with so little shared memory that matrices cannot stay there."""


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize(("name", "shared_bytes"), STREAMED)
def test_matrices_are_streamed_where_they_do_not_fit(name: str, shared_bytes: int, precision: str) -> None:
    (component,) = components(architecture(name, input_size=3, output_size=2, units=512), precision)
    for backward in (False, True):
        tiling = component.tiling((1, 3), Processors(132, 132), shared_bytes, backward=backward)
        assert tiling is not None
        assert not tiling.is_kept


@pytest.mark.parametrize(("units", "is_kept"), [(256, True), (2048, False)])
def test_matrices_stay_on_the_chip_where_they_fit(units: int, is_kept: bool) -> None:
    """2048 · 8192 numbers are more than 132 multiprocessors hold."""
    (component,) = components(architecture("sh:lstm", input_size=3, output_size=2, units=units), "float32")
    for backward in (False, True):
        tiling = component.tiling((1, 16), Processors(132, 132), 232_448, backward=backward)
        assert tiling is not None
        assert tiling.is_kept == is_kept


def test_warps_that_share_the_rows_make_room_for_matrices() -> None:
    """Those of all but the lowest layer; else they would be streamed, of which the lowest one has no need."""
    (component,) = components(architecture("stack-4:lstm", input_size=3, output_size=2, units=512), "bf16")
    tiling = component.tiling((1, 64), Processors(132, 132), 232_448, backward=False)
    assert tiling is not None
    assert (tiling.rows, tiling.units, tiling.is_kept) == (64, 16, True)
    uses = [shared_memory_use(component.forward(code), 64, 16, 2, 232_448) for code in component.codes]
    assert [use and use.row_groups for use in uses] == [1, 2, 2, 2]


# ----------------------------------------------------------------------------------------------------------- on a GPU

WIDE = {
    "sh:lstm": architecture("sh:lstm", input_size=3, output_size=2, units=150),
    "td:gru": architecture("td:gru", input_size=3, output_size=2, units=100),
    "stack-4:tanh": architecture("stack-4:tanh", input_size=3, output_size=2, units=70),
    "two widths": architecture("st:ugrnn", input_size=3, output_size=2, units={"h1": 40, "h2": 130}),
    "skip-3:gru-cudnn": architecture("skip-3:gru-cudnn", input_size=3, output_size=2, units=130),
    "mongia-d:lstm": architecture("mongia-d:lstm", input_size=3, output_size=2, units=64),
    "clockwork:mgu": architecture("clockwork:mgu", input_size=3, output_size=2, units=48),
    "both directions": both_directions("lstm", units=90),
}


@on_a_gpu
@pytest.mark.parametrize("early_bytes", [spread.EARLY_BYTES, -1])
@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("label", WIDE)
@pytest.mark.usefixtures("new_programs")
def test_networks_of_many_programs_agree(
    monkeypatch: pytest.MonkeyPatch, label: str, precision: str, early_bytes: int
) -> None:
    """Several programs for each node, and for the batch, the last of them not full; copied before or after a look."""
    monkeypatch.setattr(spread, "EARLY_BYTES", early_bytes)
    compare(WIDE[label], num_steps=9, batch_size=19, precisions=[precision], paths=["gpu-spread"])


@on_a_gpu
@pytest.mark.parametrize(("label", "steps_before"), [("sh:lstm", 4), ("td:gru", 1), ("both directions", 0)])
def test_populations_of_many_programs_agree(label: str, steps_before: int) -> None:
    numbers = {"num_steps": 5, "steps_before": steps_before, "batch_size": 5}
    compare(WIDE[label], population=3, nonlinearity=MIXED, paths=["gpu-spread"], **numbers)


@on_a_gpu
def test_intersections_of_many_programs_agree() -> None:
    """In float32 only: the slope of their relu jumps where rounding errors of less would reach."""
    network = architecture("stack-3:intersection", input_size=3, output_size=2, units=70)
    compare(network, num_steps=5, batch_size=19, paths=["gpu-spread"])


@on_a_gpu
@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize(("name", "shared_bytes"), STREAMED)
@pytest.mark.usefixtures("new_programs")
def test_streamed_matrices_agree(monkeypatch: pytest.MonkeyPatch, name: str, shared_bytes: int, precision: str) -> None:
    for module in (program, kernels):
        monkeypatch.setattr(module, "shared_memory", lambda: shared_bytes)
    network = architecture(name, input_size=3, output_size=2, units=512)
    compare(network, num_steps=4, batch_size=3, precisions=[precision], paths=["gpu-spread"])


@on_a_gpu
def test_layers_whose_warps_share_the_rows_agree() -> None:
    network = architecture("stack-4:lstm", input_size=3, output_size=2, units=512)
    compare(network, num_steps=4, batch_size=61, precisions=["bf16"], paths=["gpu-spread"])


@on_a_gpu
@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", ["sh:lstm", "sh:gru", "stack-3:tanh"])
def test_nobody_waits_for_nan(name: str, precision: str) -> None:
    """Whose bits are those of a number that is missing; forward and backward."""
    network = architecture(name, input_size=3, output_size=2, units=130)
    model = Model(network, generator=torch.Generator().manual_seed(0), path="gpu-spread", precision=precision).cuda()
    x = torch.zeros(19, 5, 3, device="cuda")
    _, state = model(x)
    missing = torch.tensor(-1, dtype=torch.int32).view(torch.float32).item()
    y, _ = model(x, State(0, {part: torch.full_like(value, missing) for part, value in state.values.items()}))
    y.backward(torch.full_like(y, missing))
    assert bool(y.isnan().all())


# none of these changes what programs wait for: one that did would never end
BROKEN = [
    ("sh:lstm", "cell::sigmoid(", "cell::tanh(", "outputs"),  # gates with another nonlinearity
    ("td:tanh", "chunk - 0, bytes", "0, bytes", "outputs"),  # the same part of a matrix for all of the depth
    ("sh:tanh", "cell::tanh_slope(", "cell::tanh(", "gradient of"),  # another derivative
    ("td:gru", "cell::tanh_slope(", "cell::tanh(", "gradient of"),
    ("sh:lstm", "+= previous0[e]", "-= previous0[e]", "gradient of"),  # the sign of what is passed on
]
each_defect = pytest.mark.parametrize(("name", "old", "new", "shows_in"), BROKEN)


@each_defect
def test_a_defect_is_in_the_pass_where_it_shows(name: str, old: str, new: str, shows_in: str) -> None:
    network = architecture(name, input_size=3, output_size=2, units=40)
    forward, backward = cuda_texts(network, "tf32", GPUS["H200"], is_spread=True)
    if shows_in == "outputs":
        assert old in forward.source
    else:
        assert old in backward.source
        assert old not in forward.source


@on_a_gpu
@pytest.mark.parametrize("precision", TOLERANCES)
@each_defect
def test_a_broken_kernel_fails(
    break_kernels: BreakKernels, name: str, old: str, new: str, shows_in: str, precision: str
) -> None:
    network = architecture(name, input_size=3, output_size=2, units=40)
    check = {"num_steps": 4, "precisions": [precision], "paths": ["gpu-spread"]}
    compare(network, **check)
    changed = break_kernels(old, new)
    with pytest.raises(DifferenceError, match=f"gpu-spread {precision}, {shows_in}"):
        compare(network, **check)
    assert changed


@on_a_gpu
@pytest.mark.parametrize("share", [1.0, 0.1])
def test_members_that_do_not_fit_at_once_take_turns(share: float) -> None:
    network = architecture("sh:gru", input_size=3, output_size=2, units=20)
    count = torch.cuda.get_device_properties(0).multi_processor_count + 1
    with share_of_gpu(share):
        compare(network, num_steps=3, population=count, precisions=["float32", "bf16"], paths=["gpu-spread"])


@on_a_gpu
def test_sequences_that_do_not_fit_at_once_take_turns() -> None:
    network = architecture("sh:gru", input_size=3, output_size=2, units=20)
    count = 64 * torch.cuda.get_device_properties(0).multi_processor_count + 1
    compare(network, num_steps=3, batch_size=count, precisions=["float32", "bf16"], paths=["gpu-spread"])


@on_a_gpu
def test_networks_wider_than_the_gpu_are_refused() -> None:
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    network = architecture("sh:tanh", input_size=3, output_size=2, units=64 * processors + 1)
    model = Model(network, generator=torch.Generator().manual_seed(0), path="gpu-spread")
    message = f"cannot be spread over the GPU: it does not fit into {processors} multiprocessors at once"
    with pytest.raises(ModelError, match=message):
        model.cuda()(torch.zeros(1, 2, 3, device="cuda"))
