"""Spread programs in pairs, each of which multiplies half of the depth for both: they run in the emulator."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from rnnlab import Architecture, ModelError, architecture
from rnnlab.engine.gpu import arrays, choice, limits, program, spread
from rnnlab.engine.gpu.sharing import Processors
from rnnlab.engine.gpu.spread import SpreadComponent, Tiling
from tests.engine.comparison import DifferenceError
from tests.engine.gpu.checks import BreakKernels, compare
from tests.engine.gpu.emulator import NEEDS, EmulatedFunction, EmulationError
from tests.engine.networks import both_directions

pytestmark = NEEDS
SIZES = {"input_size": 3, "output_size": 2}


@pytest.fixture
def paired(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Tiling]]:
    """Pairs wherever they can be, backward; a list of the tilings that were then chosen."""
    chosen: list[Tiling] = []
    choose = SpreadComponent.tiling

    def tiling(self: SpreadComponent, *limits: Any, **options: Any) -> Tiling | None:
        found = choose(self, *limits, **options)
        if found is not None and options["backward"]:
            chosen.append(found)
        return found

    monkeypatch.setattr(spread, "_PAIR", -100.0)
    monkeypatch.setattr(SpreadComponent, "tiling", tiling)
    yield chosen
    assert chosen


def check(name: str | Architecture, units: int, precision: str, **numbers: Any) -> None:
    network = architecture(name, **SIZES, units=units) if isinstance(name, str) else name
    usual: dict[str, Any] = {"num_steps": 4, "population": 1, "batch_size": 19}
    compare(network, device="cpu", precisions=[precision], paths=["gpu-spread"], **usual | numbers)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("name", "units", "precision"),
    [
        ("sh:lstm", 128, "bf16"),
        ("sh:lstm", 64, "float32"),
        ("sh:gru", 256, "tf32"),  # two stages
        ("sh:gru-cudnn", 192, "bf16"),
        ("st:lstm", 128, "bf16"),
        ("stack-2:lstm", 128, "bf16"),  # a layer multiplies what two have told of
        ("skip-3:lstm", 128, "bf16"),  # before the sequence too
        ("fig1b-3:lstm", 64, "float32"),  # not at every time
        (both_directions("lstm", units=64, read_out_delay=2), 64, "float32"),
    ],
)
def test_networks_agree(
    monkeypatch: pytest.MonkeyPatch,
    paired: list[Tiling],
    name: str | Architecture,
    units: int,
    precision: str,
    seed: int,
) -> None:
    monkeypatch.setattr(EmulatedFunction, "seed", seed)
    check(name, units, precision, batch_size=1 if name == "fig1b-3:lstm" else 17)
    assert all(tiling.is_paired for tiling in paired)


def test_matrices_are_streamed_where_they_do_not_fit(monkeypatch: pytest.MonkeyPatch, paired: list[Tiling]) -> None:
    for module in (arrays, choice):
        monkeypatch.setattr(module, "processors", lambda _: Processors(32, 32))
    check("sh:lstm", 768, "bf16", num_steps=2, batch_size=3)
    assert all(tiling.is_paired and not tiling.is_kept for tiling in paired)


def test_several_members_and_teams_agree(paired: list[Tiling]) -> None:
    check("sh:lstm", 64, "float32", population=3, batch_size=35, num_steps=1)
    assert all(tiling.is_paired for tiling in paired)


@pytest.mark.parametrize("is_early", [True, False])
def test_they_may_look_first(monkeypatch: pytest.MonkeyPatch, paired: list[Tiling], is_early: bool) -> None:
    monkeypatch.setattr(spread, "EARLY_BYTES", 1e9 if is_early else 0)
    monkeypatch.setattr(EmulatedFunction, "seed", 1)
    check("sh:lstm", 128, "bf16")
    assert all(tiling.is_paired and tiling.is_early == is_early for tiling in paired)


@pytest.mark.parametrize(("most", "are_paired"), [(0, False), (1, False), (1 << 30, True)])
def test_all_pairs_of_a_team_run_at_once(
    monkeypatch: pytest.MonkeyPatch, paired: list[Tiling], most: int, are_paired: bool
) -> None:
    """A part of a GPU may have room for fewer, or refuse clusters."""
    monkeypatch.setattr(program, "most_pairs", lambda: most)
    check("sh:lstm", 128, "bf16")
    assert {tiling.is_paired for tiling in paired} == {are_paired}


def test_a_gpu_that_refuses_clusters_has_no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(device: torch.device, num_programs: int) -> int:
        raise ModelError("no clusters")

    assert limits.most_pairs() > 0
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(limits, "most_clusters", refuse)
    assert limits.most_pairs() == 0


def test_a_gpu_without_clusters_has_no_pairs(monkeypatch: pytest.MonkeyPatch, paired: list[Tiling]) -> None:
    monkeypatch.setattr(program, "cluster_size", lambda: 1)
    check("sh:lstm", 128, "bf16")
    assert not any(tiling.is_paired for tiling in paired)


def test_there_are_none_where_a_half_would_be_too_shallow(paired: list[Tiling]) -> None:
    check("sh:tanh", 64, "bf16")
    assert not any(tiling.is_paired for tiling in paired)


@pytest.mark.parametrize(
    ("old", "new", "seed"),
    [
        (" + half * ", " + 0 * ", 0),  # both multiply the same half
        ("(half ? -UNITS : UNITS)", "0", 0),  # for the units of one
        ("1 - half", "half", 0),  # sums that nobody sends the other
        (" + ((const float *)heard", " - ((const float *)heard", 0),
        ("hear_other(", "(void)(", 0),  # what the other has not sent yet
        ("turn / 2 % 2", "0", 0),  # what it sent two stages ago
        ("turn % 2 * 8", "0", 0),  # one counter for two
        ("turn % 2 *", "0 *", 1),  # one place for two: the other is a stage ahead
    ],
)
def test_a_broken_pair_fails(
    monkeypatch: pytest.MonkeyPatch,
    break_kernels: BreakKernels,
    paired: list[Tiling],
    old: str,
    new: str,
    seed: int,
) -> None:
    monkeypatch.setattr(EmulatedFunction, "seed", seed)
    monkeypatch.setattr(EmulatedFunction, "most_rounds", 100_000)
    changed = break_kernels(old, new)
    with pytest.raises((DifferenceError, EmulationError)):
        check("sh:lstm", 128, "bf16", num_steps=6)
    assert changed
    assert all(tiling.is_paired for tiling in paired)
