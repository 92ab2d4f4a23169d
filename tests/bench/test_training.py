"""`rnnlab bench train`: both sides train the same, the ratio is of model-steps, and the goals' cases are there."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rnnlab import Model, architecture, task
from rnnlab.bench import training_cases
from rnnlab.bench.processes import Benchmark
from rnnlab.bench.rows import Row
from rnnlab.bench.training_cases import Case, compare_losses, cpu_cases, cuda_cases, race, side
from rnnlab.bench.training_peers import LAYERS, Network, Trial
from rnnlab.bench.training_pixels import RandomPixels
from rnnlab.cli import main
from rnnlab.errors import BenchError
from tests.tasks import contract

CPU = torch.device("cpu")


def small_case(cell: str) -> Case:
    return Case(cell=cell, num_members=3, units=6, task=task("adding", length=8), goal=3.0)


@pytest.mark.parametrize("cell", LAYERS)
def test_torch_network_is_the_member(cell: str) -> None:
    network = architecture(f"sh:{cell}", input_size=3, output_size=2, units=5)
    model = Model(network, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():  # also biases and initial states, which start at zero
        for array in model.arrays.values():
            array.add_(torch.randn(array.shape, generator=generator) * 0.3)
    peer = Network(cell, {name: array[0] for name, array in model.arrays.items()})
    x = torch.randn(4, 9, 3, generator=generator)
    torch.testing.assert_close(peer(x), model(x)[0][:, -1:])


@pytest.mark.parametrize("cell", LAYERS)
def test_losses_agree_step_by_step(cell: str, monkeypatch) -> None:
    monkeypatch.setitem(training_cases.TOLERANCES, "float32", 1e-4)
    compare_losses(small_case(cell), CPU, "float32", 30)


@pytest.mark.parametrize("cell", LAYERS)
def test_second_bias_of_torch_would_be_noticed(cell: str, monkeypatch) -> None:
    monkeypatch.setattr(Network, "freeze_second_bias", lambda network: None)
    monkeypatch.setitem(training_cases.TOLERANCES, "float32", 1e-4)
    with pytest.raises(BenchError, match="refused to time it"):
        compare_losses(small_case(cell), CPU, "float32", 30)


def test_trial_that_trains_otherwise_is_refused_and_told(monkeypatch) -> None:
    trial = Case.trial

    def faster(case: Case, member: int, device: torch.device) -> Trial:
        found = trial(case, member, device)
        for group in found.optimiser.param_groups:
            group["lr"] *= 2
        return found

    monkeypatch.setattr(Case, "trial", faster)
    row = race(small_case("lstm"), threads=1, device=CPU, precision="float32", quick=True)
    assert row.is_refused
    assert row.ratio is None
    assert "the loss of member" in row.note
    with pytest.raises(BenchError, match="not all was timed"):
        Benchmark("a machine", {}, (row,)).check()


def test_speed_counts_the_steps_of_all_members(monkeypatch) -> None:
    monkeypatch.setattr(training_cases, "timed", lambda *given: {"ours": 6.0, "theirs": 4.0})
    row = race(small_case("tanh"), threads=1, device=CPU, precision="float32", quick=True)
    assert (row.ours, row.theirs) == (500.0, 250.0)  # 3 members in 6 ms, 1 in 4
    assert row.ratio == 2.0
    assert row.is_reached is False
    assert replace(row, goal=2.0).is_reached
    assert row.to_json()["ours_model_steps_per_second"] == 500.0
    assert row.to_json()["peer_model_steps_per_second"] == 250.0
    assert str(row).endswith("500.00    250.00 /s    2.00  >= 3    missed")


def test_side_gives_the_mean_of_steps_in_a_row(monkeypatch) -> None:
    clock = iter([10.0, 12.0])
    monkeypatch.setattr(training_cases.time, "perf_counter", lambda: next(clock))
    assert side(lambda: None, CPU)(4) == [0.5] * 4


def test_every_case_of_the_goals_is_there() -> None:
    cases = cpu_cases(quick=False)
    assert {(case.cell, case.num_members, case.units, case.goal) for case in cases} == {
        (cell, 16, 64, 3.0) for cell in LAYERS
    }
    gru, lstm, tanh = cuda_cases(quick=False)
    for case in (gru, lstm):
        assert (case.num_members, case.goal, case.task.name) == (132, 30.0, "parentheses")
        assert 195_000 < case.network.num_parameters() <= 200_000
    assert (gru.cell, lstm.cell) == ("gru-cudnn", "lstm")
    assert (tanh.cell, tanh.num_members, tanh.units, tanh.goal, tanh.task.num_steps) == ("tanh", 500, 64, 100.0, 784)


def test_missing_digits_are_replaced_and_said(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("RNNLAB_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    *_, case = cuda_cases(quick=True)
    assert isinstance(case.task, RandomPixels)
    assert case.name == "4 x tanh (50, 784, 1, 64), random pixels (MNIST's files are missing)"


def test_random_pixels_keep_the_contract() -> None:
    pixels = RandomPixels(num_evaluation=30)
    contract.check_samples(pixels)
    contract.check_splits(pixels, 7)
    contract.check_tally_is_exact(pixels, "test", (7, 30))


def test_quick_run_fills_the_table(capsys, tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    assert main(["bench", "train", "--quick", "--threads", "1", "--json", "-o", str(path)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads(path.read_text())
    assert set(shown) == {"machine", "versions", "rows"}
    (row,) = shown["rows"]
    assert (row["case"], row["peer"]) == ("3 x lstm (50, 10, 2, 8), adding", "torch.nn.LSTM in turn")
    ours, theirs = row["ours_model_steps_per_second"], row["peer_model_steps_per_second"]
    assert row["ratio"] == pytest.approx(ours / theirs)
    assert row["reached"] == (row["ratio"] >= 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threads", "0"], "threads must lie from 1 to"),
        (["--device", "gpu"], "device is cpu, cuda or cuda:NUMBER, got 'gpu'"),
        (["--device", "cuda:77"], "device cuda:77 cannot be used here"),
        (["--precision", "float8"], "precision is one of float32, tf32, bf16, got 'float8'"),
        (["--precision", "bf16"], "precision bf16 needs --device cuda"),
        (["-o", "none/train.json"], "there is no folder none"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(capsys, tmp_path, monkeypatch, arguments, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "train", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_interrupted_run_stops_cleanly(capsys, monkeypatch) -> None:
    def interrupted(**given):
        raise KeyboardInterrupt

    monkeypatch.setattr("rnnlab.bench.training.bench_train", interrupted)
    assert main(["bench", "train"]) == 130
    assert "stopped; nothing was written" in capsys.readouterr().err


def test_row_of_a_rate_is_better_when_higher() -> None:
    row = Row(case="c", peer="p", threads=1, goal=2.0, ours=10.0, theirs=4.0, unit="model_steps_per_second")
    assert row.ratio == 2.5
    assert row.is_reached
