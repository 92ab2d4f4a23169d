"""`rnnlab compare` and `rnnlab report`: what they print, how they stop and go on, what they say to bad input."""

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rnnlab import compare
from rnnlab.cli import main
from tests.patience import PATIENCE
from tests.report.made_records import demo_record

TASK = ["--task", "adding", "--length", "5", "--num-evaluation", "30"]
SMALL = [
    *TASK,
    "--parameters",
    "60",
    "--trials",
    "2",
    "--seeds",
    "2",
    "--steps",
    "6",
    "-p",
    "batch_size=4",
    "-p",
    "evaluate_every=3",
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_command_and_function_are_twins(capsys, folder: Path) -> None:
    assert main(["compare", "sh", *SMALL, "td", "--json", "-o", "report.html"]) == 0
    *_, shown = map(json.loads, capsys.readouterr().out.splitlines())
    twin = compare(
        ["sh", "td"],
        {"name": "adding", "length": 5, "num_evaluation": 30},
        parameters=60,
        trials=2,
        seeds=2,
        steps=6,
        hyperparameters={"batch_size": 4, "evaluate_every": 3},
        store="other.db",
    )
    assert shown["event"] == "Result"
    (part,) = parts(twin)
    (same,) = shown["parts"]
    assert same == part | {key: same[key] for key in ("title", "protocol")}
    assert same["title"] == "sh and td on adding(num_evaluation=30, length=5), 60 parameters"
    assert shown["study"] == twin.record.name
    assert (folder / "report.html").read_text().startswith("<!doctype html>")


def test_command_of_a_report_repeats_it(capsys) -> None:
    words = ["sh", "td", *SMALL, "-p", "learning_rate=0.01", "--seed", "3", "--population", "1", "--json"]
    assert main(["compare", *words]) == 0
    *_, first = map(json.loads, capsys.readouterr().out.splitlines())
    _, *command = shlex.split(first["command"])
    assert main([*command, "--store", "other.db", "--json"]) == 0
    *_, again = map(json.loads, capsys.readouterr().out.splitlines())
    for report in (first, again):
        del report["parts"][0]["protocol"]["Machine"]  # which says how long it took
    assert again == first


def parts(report) -> list[dict]:
    return json.loads(json.dumps([part.to_json() for part in report.parts]))


def test_people_see_table_verdict_and_where_the_report_is(capsys, folder: Path) -> None:
    assert main(["compare", "sh", "td", *SMALL]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0] == "sh and td on adding(num_evaluation=30, length=5), 60 parameters"
    assert lines[1:3] == [
        "task: add the two marked numbers of a long sequence",
        "  sh  one recurrent layer, tanh cells",
    ]
    assert lines[5].startswith("architecture  d_r  d_f  s  parameters")
    assert {lines[6].split()[0], lines[7].split()[0]} == {"sh", "td"}
    (written,) = folder.glob("compare-adding-*.html")
    assert lines[-1] == f"report: {written.name}"
    assert captured.err.startswith("study compare-adding-")
    name = written.stem
    assert main(["report", name, "-o", "again.html"]) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == lines[:-1]
    assert (folder / "again.html").read_text() == written.read_text()


def test_report_of_a_record_in_three_forms(capsys) -> None:
    demo_record(trials=2, seeds=2).save("record.json")
    for path in ("report.html", "report.md", "report.json"):
        assert main(["report", "record.json", "-o", path]) == 0
        assert capsys.readouterr().out.endswith(f"report: {path}\n")
        assert Path(path).stat().st_size > 1000


def test_demo_runs_with_less_to_do(capsys, folder: Path) -> None:
    """What `make demo` runs, with fewer trials, seeds and steps."""
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    words = re.search(r"^DEMO := (.*)$", makefile, re.MULTILINE).group(1).split()
    assert words[:4] == ["sh", "st", "td", "lstm"]
    for option, less in (("--trials", "2"), ("--seeds", "2"), ("--steps", "3")):
        words[words.index(option) + 1] = less
    assert re.search(r"rnnlab compare \$\(DEMO\) --store demo/rnnlab.db -o demo/report.html$", makefile, re.MULTILINE)
    (folder / "demo").mkdir()
    assert main(["compare", *words, "--store", "demo/rnnlab.db", "-o", "demo/report.html"]) == 0
    assert capsys.readouterr().out.endswith("report: demo/report.html\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "sh", *SMALL], "a comparison needs two architectures or more: sh alone"),
        (["compare", "sh", "tdd", *SMALL], "no architecture is named 'tdd'; did you mean 'td'?"),
        (["compare", "sh", "td", *SMALL, "--task", "ading"], "no task is named 'ading'; did you mean 'adding'?"),
        (["compare", "sh", "td", *SMALL, "--lenght", "3"], "no argument 'lenght'; did you mean 'length'?"),
        (["compare", "sh", "td", *SMALL, "--lenght"], "--lenght needs a value"),
        (
            ["compare", "sh", "td", *SMALL, "--parameters", "7"],
            "arm td: 7 parameters are too few: one unit a layer has 12",
        ),
        (
            ["compare", "sh", "td", *SMALL, "--parameters", "many"],
            "--parameters takes a number such as 20000, 20k or 1.5M",
        ),
        (["compare", "sh", "td", *SMALL, "--budget", "10m"], "give trials, or a budget of time; got both"),
        (["compare", "sh", "td", *SMALL, "-p", "speed=9"], "no hyperparameter is named 'speed'"),
        (["compare", "sh", "td", *SMALL, "-o", "nowhere/r.html"], "cannot write nowhere/r.html: there is no folder"),
        (["compare", "sh", "td", *SMALL, "-o", "report.doc"], "a report is written as .html, .md, .json"),
        (["compare", "sh", "td", *SMALL, "--device", "gpu"], "device is cpu, cuda or cuda:NUMBER"),
        (["compare", "sh", "td", "--parameters", "60"], "Missing option '--task'"),
        (["compare", "sh", "td", *TASK], "Missing option '--parameters'"),
        (["report", "nothing"], "there is no store rnnlab.db"),
        (["report", "nothing.json"], "cannot read a record from nothing.json"),
    ],
)
def test_bad_input_is_one_line_and_status_two(words: list[str], message: str, capsys, folder: Path) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("rnnlab: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert not list(folder.glob("*.html"))
    if words[0] == "compare":
        assert not (folder / "rnnlab.db").exists()


def test_missing_data_is_one_line_and_says_how_to_add_it(capsys, folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("RNNLAB_DATA", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    assert main(["compare", "sh", "td", "--task", "mnist", "--parameters", "500"]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "data set mnist" in shown
    assert "`rnnlab data add FOLDER`" in shown
    assert not (folder / "rnnlab.db").exists()


LONGER = [*TASK, "--parameters", "60", "--trials", "2", "--seeds", "2", "--steps", "20000", "-p", "batch_size=2"]
OFTEN = ["--save-every", "50", "--report-every", "10", "--grace", "2", "-p", "evaluate_every=10000"]


def start(*words: str) -> subprocess.Popen:
    code = "import sys; from rnnlab.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "compare", "sh", "td", *LONGER, *OFTEN, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_a_checkpoint(folder: Path) -> None:
    end = time.monotonic() + 60
    while not list(folder.rglob("checkpoint.safetensors")):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def test_killed_comparison_is_gone_on_with_and_ctrl_c_says_how_to_go_on(folder: Path) -> None:
    killed = start()
    wait_for_a_checkpoint(folder)
    killed.kill()
    killed.communicate(timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL
    again = start("--json")
    assert again.stdout is not None
    taken_over = next(line for line in map(json.loads, again.stdout) if line["event"] == "LotTakenOver")
    assert taken_over["was_lost"]
    again.send_signal(signal.SIGINT)
    rest, told = again.communicate(timeout=PATIENCE)
    assert again.returncode == 130
    result = json.loads(rest.splitlines()[-1])
    assert (result["event"], result["is_complete"]) == ("Result", False)
    assert "Traceback" not in told
    assert told.splitlines()[-1].startswith("stopped; resume with: rnnlab compare sh td --task adding --length 5")
    assert not list(folder.glob("*.html"))
