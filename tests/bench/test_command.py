"""`rnnlab bench cpu` from the command line."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from rnnlab.bench.cpu import Benchmark, Progress
from rnnlab.bench.cpu_cases import FULL, SMALL, cases
from rnnlab.bench.display import Display, footer
from rnnlab.bench.rows import Row
from rnnlab.cli import main


def test_quick_run_fills_the_table(capsys, tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    assert main(["bench", "cpu", "--quick", "--threads", "1", "--json", "-o", str(path)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads(path.read_text())
    assert set(shown) == {"machine", "versions", "rows", "memory"}
    rows, memory = shown["rows"], shown["memory"]
    assert {row["peer"] for row in rows} == {
        *("torch.nn.GRU", "jax.jit of lax.scan", "loop by hand", "torchrecurrent.UGRNN", "torchrecurrent.MGU"),
        *("torch.nn.GRU in turn", "jax.vmap of lax.scan"),
    }
    assert [row["peer"] for row in memory] == ["torch.nn.GRU"]
    for row in rows:
        package = row["peer"].split(".")[0]
        if package in ("jax", "torchrecurrent") and find_spec(package) is None:
            assert row["reached"] is None
            assert "is not installed" in row["note"]
        else:
            assert row["ratio"] == pytest.approx(row["peer_ms"] / row["ours_ms"])
            assert row["reached"] == (row["ratio"] >= row["goal"])
            assert "note" not in row
    assert {row["threads"] for row in rows + memory} == {1}


def test_every_case_of_the_goals_is_there() -> None:
    names = [case.name for case in cases(FULL)]
    for cell in ("tanh", "gru", "lstm"):
        for shape in ((32, 100, 32, 32), (32, 100, 32, 64), (64, 175, 300, 256), (50, 180, 27, 512)):
            assert f"{cell} {shape}" in names
    for network in ("td:tanh", "skip-21:tanh", "dts-2:tanh", "dots-2:tanh", "stack-8:intersection", "mongia-d:lstm"):
        assert f"{network} (32, 100, 32, 64)" in names
    assert {"ugrnn", "mgu"} < {name.split()[0] for name in names}
    assert len(cases(SMALL)) < len(names)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threads", "0"], "threads must lie from 1 to"),
        (["--threads", "100000"], "threads must lie from 1 to"),
        (["--threads", "two"], "--threads"),
        (["-o", "none/cpu.json"], "there is no folder none"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(capsys, tmp_path, monkeypatch, arguments, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "cpu", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_bare_bench_shows_its_commands(capsys) -> None:
    assert main(["bench"]) == 0
    assert "cpu" in capsys.readouterr().out


def test_run_that_refused_a_side_writes_the_rest_and_fails(capsys, tmp_path, monkeypatch) -> None:
    row = Row(case="c", peer="p", threads=1, goal=1.0, note="outputs differ", is_refused=True)
    monkeypatch.setattr("rnnlab.bench.cpu.bench_cpu", lambda **given: Benchmark("a machine", {}, (row,)))
    assert main(["bench", "cpu", "-o", str(tmp_path / "cpu.json")]) == 2
    assert "outputs differ" in capsys.readouterr().err
    assert json.loads((tmp_path / "cpu.json").read_text())["rows"][0]["note"] == "outputs differ"


def test_interrupted_run_stops_cleanly(capsys, monkeypatch) -> None:
    def interrupted(**given):
        raise KeyboardInterrupt

    monkeypatch.setattr("rnnlab.bench.cpu.bench_cpu", interrupted)
    assert main(["bench", "cpu"]) == 130
    assert "stopped" in capsys.readouterr().err


def test_table_has_one_heading_and_progress_only_a_terminal(capsys, monkeypatch) -> None:
    row = Row(case="c", peer="p", threads=1, goal=1.0, ours=1.0, theirs=2.0)
    show = Display(show_rows=True)
    for event in (Progress("c", 0, 2), row, Progress("d", 1, 2), row):
        show(event)
    captured = capsys.readouterr()
    assert captured.out.startswith("case")
    assert captured.out.count("\n") == 3
    assert captured.err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    show = Display(show_rows=False)
    show(Progress("d", 1, 2))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "2 of 2: d, about 0 s left" in captured.err


def test_footer_counts_goals() -> None:
    row = Row(case="c", peer="p", threads=1, goal=1.0, ours=1.0, theirs=2.0)
    missed, absent = (
        Row(case="c", peer="p", threads=1, goal=3.0, ours=1.0, theirs=2.0),
        Row(case="c", peer="q", threads=1, goal=1.0, note="absent"),
    )
    shown = footer(Benchmark("a machine", {"python": "3"}, (row, missed, absent)))
    assert shown == "a machine; python 3\n1 of 2 goals reached; 1 rows not measured"
