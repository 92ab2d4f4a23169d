"""The commands `list tasks`, `show` and `data`, run in this process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rnnlab import TASKS
from rnnlab.cli import main
from rnnlab.tasks.data_catalogue import DATA_SETS
from tests.tasks.small_data import save_data_set


def run(capsys, *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_list_shows_every_task(capsys) -> None:
    everything = run(capsys, "list")
    assert all(f"\n{entry.name} " in everything and entry.summary in everything for entry in TASKS.values())
    shown = json.loads(run(capsys, "list", "--json"))
    assert [entry["name"] for entry in shown["tasks"]] == list(TASKS)
    assert shown["tasks"][0] == {
        "name": "adding",
        "summary": "add the two marked numbers of a long sequence",
        "citation": "Zhang et al. 4.4 [Z45]",
    }


def test_list_shows_one_kind_alone(capsys) -> None:
    parts = [run(capsys, "list", kind) for kind in ("architectures", "cells")]
    assert run(capsys, "list").startswith("\n".join(parts))
    assert list(json.loads(run(capsys, "list", "cells", "--json"))) == ["cells"]


def test_list_of_tasks_has_sizes_and_scores(capsys) -> None:
    table, _, on_data = run(capsys, "list", "tasks").partition(
        "\n\nTasks that read data files (see `rnnlab data list`): "
    )
    assert on_data.strip().split(", ") == [entry.name for entry in TASKS.values() if entry.data_set]
    rows = {line.split()[0]: line.split()[1:8] for line in table.splitlines()}
    assert rows["adding"] == ["2", "1", "100", "50", "mse", "0.1667", "0"]
    assert set(rows) == {"task", *TASKS}
    shown = {entry["name"]: entry for entry in json.loads(run(capsys, "list", "tasks", "--json"))["tasks"]}
    assert shown["parentheses"]["input_size"] == 300
    assert shown["parentheses"]["citation"] == "Collins et al. 4 [C62]"
    assert shown["capacity"]["scores"][0]["better"] == "higher"


def test_show_prints_task_and_example(capsys) -> None:
    shown = run(capsys, "show", "copying", "--delay", "3", "--num-items=4").splitlines()
    assert shown[0] == "copying(delay=3, num_items=4)"
    assert shown[1] == "network     10 tokens, 9 outputs, 11 steps, batches of 50"
    assert shown[-4:] == [
        "input       64510090000",
        "target      00000006451",
        "",
        "answer      6 4 5 1, over the last 4 steps; 0 before",
    ]
    assert shown != run(capsys, "show", "copying", "--delay", "3", "--num-items=4", "--number", "2").splitlines()


def test_show_as_json_takes_arguments(capsys) -> None:
    shown = json.loads(run(capsys, "show", "capacity", "--num-samples", "10,20", "--json"))
    assert shown["arguments"]["num_samples"] == [10, 20]
    assert shown["scores"][0]["best"] == [10.0, 20.0]


@pytest.mark.figures
def test_show_draws_to_a_file(capsys, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'rnnlab[figures]'")
    path = tmp_path / "adding.svg"
    assert run(capsys, "show", "adding", "-o", str(path), "--length", "20") == f"wrote {path}\n"
    assert "adding(length=20)" in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "addign"], "no task is named 'addign'; did you mean 'adding'?"),
        (["show"], "Missing argument"),
        (["show", "--length", "3", "adding"], "name the task before its arguments: rnnlab show TASK --length ..."),
        (["show", "adding", "--lenght", "3"], "adding has no argument 'lenght'; did you mean 'length'?"),
        (["show", "adding", "--name", "3"], "adding has no argument 'name'"),
        (["show", "adding", "--length"], "--length needs a value"),
        (["show", "adding", "--length", "1"], "length must be an integer of at least 2, got 1"),
        (["show", "adding", "--length", "long"], "length must be an integer of at least 2, got 'long'"),
        (["show", "adding", "20"], "the arguments of a task are --NAME VALUE, got '20'"),
        (["show", "adding", "--number", "0"], "number must be an integer of at least 1, got 0"),
        (["show", "adding", "--number", "x"], "--number"),
        (["show", "adding", "-o", "x.gif"], "cannot write x.gif: the suffix must be .svg, .png, .pdf"),
        (["show", "adding", "-o", "none/x.svg"], "none/x.svg"),
        (["show", "none.py"], "cannot read none.py: No such file or directory"),
        (["show", "capacity", "--num-samples", "3,0"], "num_samples must be an integer of at least 1, got 0"),
        (["list", "networks"], "networks"),
        (["data", "add"], "Missing argument"),
        (["data", "add", "nowhere"], "nowhere is not a folder"),
        (["data", "frobnicate"], "No such command"),
    ],
)
def test_bad_input_is_one_line_and_status_two(capsys, tmp_path: Path, monkeypatch, arguments, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("rnnlab: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_data_alone_shows_its_commands(capsys) -> None:
    shown = run(capsys, "data")
    assert "add" in shown
    assert "list" in shown


def test_data_list_names_what_is_missing(capsys, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("RNNLAB_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert "missing" in run(capsys, "data", "list")
    shown = json.loads(run(capsys, "data", "list", "--json"))
    assert str(tmp_path) in shown["folders"]
    assert not any(entry["is_complete"] for entry in shown["data_sets"])


def test_data_add_says_that_the_folder_is_remembered(capsys, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("RNNLAB_DATA", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    rhyme = save_data_set(tmp_path / "rhymes", "rhyme", {"owl.txt": b"the owl and the pussycat"})
    monkeypatch.setitem(DATA_SETS, "rhyme", rhyme)
    shown = run(capsys, "data", "add", str(tmp_path / "rhymes"))
    assert shown.startswith(f"looked in {tmp_path}/rhymes\n\nrhyme               there       small rhyme\n")
    assert shown.endswith(f"\n\nremembered: tasks look in {tmp_path}/rhymes from now on\n")
    assert json.loads(run(capsys, "data", "list", "--json"))["folders"] == [f"{tmp_path}/rhymes"]


def test_terminal_without_unicode_still_shows_tasks() -> None:
    command = [sys.executable, "-m", "rnnlab", "show", "adding", "--length", "9"]
    shown = subprocess.run(command, check=True, capture_output=True, env={"PYTHONIOENCODING": "ascii"})
    assert b"adding(length=9)" in shown.stdout
    assert b"at the last step" in shown.stdout
