"""The commands, run in this process and, for the start-up time, as a user runs them."""

import importlib.metadata
import json
import math
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from rnnlab import CATALOGUE, CELLS, CyclicGraph, architecture, named_graph, save_architecture, save_graph
from rnnlab.cli import main


def run(capsys, *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_list_shows_every_name_with_its_measures(capsys) -> None:
    rows = {line.split()[0]: line.split()[1:] for line in run(capsys, "list").splitlines() if line}
    assert {name for family in CATALOGUE for name in (family.pattern, *family.examples)} < set(rows)
    assert set(CELLS) < set(rows)
    assert rows["td"][:4] == ["1", "2", "3", "1"]
    assert rows["fig1a"][:4] == ["2", "3/2", "7/2", "2"]
    assert rows["lstm"][:6] == ["i", "f", "o", "g", "h", "c"]


def test_list_as_json_holds_every_example(capsys) -> None:
    shown = json.loads(run(capsys, "list", "--json"))
    entries = shown["architectures"]
    assert [entry["name"] for entry in entries] == [name for family in CATALOGUE for name in family.examples]
    (entry,) = (entry for entry in entries if entry["name"] == "section45-3-3")
    assert entry == {
        "name": "section45-3-3",
        "family": "section45-V-K",
        "summary": "two layers; variant V of a skip of K steps",
        "citation": "Zhang et al. section 4.5 [Z39]",
        "period": 1,
        "recurrent_depth": "1",
        "feedforward_depth": "3",
        "recurrent_skip_coefficient": "3/2",
    }
    assert [cell["name"] for cell in shown["cells"]] == list(CELLS)
    (cell,) = (cell for cell in shown["cells"] if cell["name"] == "lstm-edges")
    assert cell == {
        "name": "lstm-edges",
        "summary": "long short-term memory, a forget gate for each edge that carries state [Z41]",
        "gates": ["g", "i", "o"],
        "edge_gates": ["f"],
        "state": ["h", "c"],
    }


def test_measure_as_json_is_the_documented_form(capsys) -> None:
    def edge(source: str, target: str, delay: int) -> dict[str, object]:
        return {"source": [source, 0], "target": [target, 0], "delay": delay}

    assert json.loads(run(capsys, "measure", "td", "--json")) == {
        "period": 1,
        "recurrent_depth": "2",
        "feedforward_depth": "3",
        "recurrent_skip_coefficient": "1",
        "witnesses": {
            "recurrent_depth": [edge("h1", "h2", 0), edge("h2", "h1", 1)],
            "feedforward_depth": [edge("x", "h1", 0), edge("h1", "h2", 0), edge("h2", "y", 0)],
            "recurrent_skip_coefficient": [edge("h1", "h1", 1)],
        },
        "slots": {"per_step": "2", "phi": {"x": "0", "h1": "1", "h2": "2", "y": "3"}},
    }


def test_keys_of_phi_carry_the_phase_where_there_are_several(capsys) -> None:
    phi = json.loads(run(capsys, "measure", "mongia-d", "--json"))["slots"]["phi"]
    assert phi == {"x@0": "0", "x@1": "0", "h@0": "1", "h@1": "1", "y@0": "2", "y@1": "2"}


def test_measure_takes_a_file(capsys, tmp_path: Path) -> None:
    save_graph(named_graph("fig1a"), tmp_path / "mine.json")
    assert run(capsys, "measure", str(tmp_path / "mine.json")) == run(capsys, "measure", "fig1a")


def test_measure_takes_a_name_with_a_cell_and_a_file_with_cells(capsys, tmp_path: Path) -> None:
    save_architecture(architecture("td:lstm", input_size=3, output_size=2, units=4), tmp_path / "mine.json")
    shown = run(capsys, "measure", "td")
    assert run(capsys, "measure", "td:lstm") == shown
    assert run(capsys, "measure", str(tmp_path / "mine.json")) == shown
    assert run(capsys, "measure", "gru") == run(capsys, "measure", "sh")


def test_measure_takes_the_form_with_bare_names(capsys, tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text(
        '{"nodes": [{"name": "h", "kind": "hidden"}], "edges": [{"source": "h", "target": "h", "delay": 3}]}'
    )
    measures = json.loads(run(capsys, "measure", str(tmp_path / "g.json"), "--json"))
    assert (measures["recurrent_depth"], measures["feedforward_depth"]) == ("1/3", None)


def test_draw_writes_the_picture(capsys, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "draw", "td") == "wrote td.svg\n"
    assert run(capsys, "draw", "td", "--unfold", "4", "-o", "wide.svg", "--no-highlight") == "wrote wide.svg\n"
    folded, unfolded = Path("td.svg").read_text(), Path("wide.svg").read_text()
    assert folded.startswith("<svg")
    assert unfolded.startswith("<svg")
    assert folded != unfolded
    assert run(capsys, "draw", "td:lstm") == "wrote td-lstm.svg\n"


def test_no_command_shows_the_commands(capsys) -> None:
    shown = run(capsys)
    assert shown == run(capsys, "--help")
    assert all(command in shown for command in ("list", "measure", "draw", "bench"))


@pytest.mark.parametrize("group", [(), ("study",), ("data",), ("bench",)])
def test_no_command_is_described_by_half_a_sentence(capsys, group: tuple[str, ...]) -> None:
    shown = run(capsys, *group, "--help")
    commands = shown.partition("Commands:")[2]
    assert commands.count("\n  ") > 1
    assert "..." not in commands


BROKEN = '{"nodes": [{"name": "h", "kind": "hidden"}], "edges": [{"source": "h", "target": "h", "delay": 0}]}'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["draw", "td", "-o", "nowhere/td.svg"], "nowhere/td.svg: there is no folder nowhere"),
        (["measure", "tdd"], "no architecture is named 'tdd'; did you mean 'td'?"),
        (["measure", "lsmt"], "no architecture is named 'lsmt'; did you mean 'lstm'?"),
        (["measure", "td:lsmt"], "no cell is named 'lsmt'; did you mean 'lstm'?"),
        (["measure", "dt-2:lstm"], "cell 'lstm' keeps state, but no hidden node of this graph"),
        (["measure", "sh:intersection"], "needs two hidden layers or more (C18)"),
        (["measure", "none.json"], "cannot read none.json: No such file or directory"),
        (["measure", "broken.json"], "broken.json: condition (3) of definition 2.1 fails: cycle h -[0]-> h"),
        (["measure", "text.json"], "text.json is not JSON"),
        (["measure", "."], "no architecture is named '.'"),
        (["measure", "./"], "cannot read ./: Is a directory"),
        (["measure"], "Missing argument"),
        (["measure", "td", "--jsn"], "No such option"),
        (["frobnicate"], "No such command"),
        (["draw", "td", "-o", "td.gif"], ".gif"),
        (["draw", "td", "-o", "none/td.svg"], "none/td.svg"),
        (["draw", "td", "--unfold", "0"], "0"),
        (["draw", "td", "--unfold", "six"], "--unfold"),
        (["draw", "td", "--unfold", "1000000000"], "at most 100 columns"),
        (["draw", "stack-300"], "at most 150 edges"),
        (["measure", "deep.json"], "nest too deeply"),
        (["measure", "latin.json"], "is not UTF-8 text"),
        (["measure", "twice.json"], "the key 'nodes' stands twice"),
        (["measure", "skip-K"], "is a family"),
        (["measure", "td", "--steps", "5", "--units", "3"], "--units, --steps: add --plan"),
        (["measure", "td", "--plan", "--steps", "0"], "steps must be an integer of at least 1, got 0"),
        (["measure", "td", "--plan", "--units", "0"], "units must be an integer of at least 1, got 0"),
        (["measure", "fig1a", "--plan"], "output '4' has no node 4@1"),
    ],
)
def test_bad_input_is_one_line_and_status_two(capsys, tmp_path: Path, monkeypatch, arguments, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.json").write_text(BROKEN)
    Path("text.json").write_text("nodes:")
    Path("deep.json").write_text("[" * 100_000)
    Path("latin.json").write_bytes(b'{"nodes": "\xe9"}')
    Path("twice.json").write_text('{"nodes": [], "nodes": []}')
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("rnnlab: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err


def cpu_seconds(command: list[str | Path]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@pytest.mark.parametrize("arguments", [["measure", "td", "--json"], ["list"], ["draw", "td", "-o", "{tmp}/td.svg"]])
def test_commands_answer_within_half_a_second(tmp_path: Path, arguments) -> None:
    """Or, where a machine is slow or busy, within five times what numpy alone takes: a tenth of a second elsewhere."""
    command = [Path(sys.executable).with_name("rnnlab"), *(word.format(tmp=tmp_path) for word in arguments)]
    seconds, of_numpy = math.inf, math.inf
    for _ in range(15):
        seconds = min(seconds, cpu_seconds(command))
        of_numpy = min(of_numpy, cpu_seconds([sys.executable, "-c", "import numpy"]))
        if seconds < max(0.5, 5 * of_numpy):
            return
    pytest.fail(f"{' '.join(arguments)} took {seconds} s at the least, numpy alone {of_numpy}")


def test_bidirectional_file_is_measured_one_direction_at_a_time(capsys, tmp_path: Path) -> None:
    edges = [("x", "f", 0), ("f", "f", 1), ("f", "y", 0), ("x", "b", 0), ("b", "b", -2), ("b", "y", 0)]
    save_graph(CyclicGraph([("x", "input"), ("f",), ("b",), ("y", "output")], edges), tmp_path / "both.json")
    assert main(["measure", str(tmp_path / "both.json")]) == 2
    assert "cycle b -[-2]-> b runs backward in time" in capsys.readouterr().err
    for direction, depth in (("forward", "1"), ("backward", "1/2")):
        shown = run(capsys, "measure", str(tmp_path / "both.json"), "--direction", direction, "--json")
        assert json.loads(shown)["recurrent_depth"] == depth
    assert main(["measure", "td", "--direction", "backward"]) == 2
    assert "no backward cycle" in capsys.readouterr().err


def test_plan_is_shown_and_in_the_json(capsys) -> None:
    shown = run(capsys, "measure", "td:lstm", "--plan").splitlines()
    assert shown[5:11] == [
        "",
        "path        cpu: what a float32 model on the CPU runs",
        "widths      x 1, h1 64, h2 64, y 1",
        "order       by component: a wavefront would be the same",
        "input       x",
        "recurrent   h1, h2: T steps run in 2·T sequential slots",
    ]
    assert "slots       2·T, that is 200 for T = 100" in shown
    found = json.loads(run(capsys, "measure", "td:lstm", "--plan", "--json"))["plan"]
    assert found["path"] == "cpu"
    assert found["widths"] == {"x": 1, "h1": 64, "h2": 64, "y": 1}
    assert found["num_slots"] == 200
    assert found["memory"]["total"] > 0


def test_plan_is_for_the_sizes_that_are_given(capsys) -> None:
    sizes = ["--units", "8", "--batch", "2", "--steps", "7"]
    found = json.loads(run(capsys, "measure", "st:gru", "--plan", *sizes, "--json"))["plan"]
    assert (found["widths"]["h1"], found["batch"], found["steps"], found["num_slots"]) == (8, 2, 7, 14)
    assert "of B = 2, T = 7" in run(capsys, "measure", "st:gru", "--plan", *sizes)


def test_plan_of_a_file_has_its_own_widths(capsys, tmp_path: Path) -> None:
    own, bare = tmp_path / "own.json", tmp_path / "bare.json"
    save_architecture(architecture("sh:gru", input_size=5, output_size=3, units=7), own)
    save_graph(named_graph("sh"), bare)
    widths = {
        path: json.loads(run(capsys, "measure", path, "--plan", "--json"))["plan"]["widths"]
        for path in (str(own), str(bare), f"{bare}:lstm")
    }
    assert widths == {
        str(own): {"x": 5, "h": 7, "y": 3},
        str(bare): {"x": 1, "h": 64, "y": 1},
        f"{bare}:lstm": {"x": 1, "h": 64, "y": 1},
    }
    assert main(["measure", str(own), "--plan", "--units", "9"]) == 2
    assert "gives widths itself" in capsys.readouterr().err


def test_version_is_the_packages(capsys) -> None:
    assert run(capsys, "--version") == f"rnnlab {importlib.metadata.version('rnnlab')}\n"


def test_terminal_without_unicode_still_shows_the_measures() -> None:
    command = [sys.executable, "-m", "rnnlab", "measure", "fig1a"]
    shown = subprocess.run(command, check=True, capture_output=True, env={"PYTHONIOENCODING": "ascii"})
    assert b"d_r = 3/2" in shown.stdout
