"""`rnnlab tune`: the twin of `rnnlab.tune`, what it prints, and what it says to bad input (issue 7, 4)."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rnnlab import Hyperparameters, architecture, load_record, task, tune
from rnnlab.cli import main
from tests.patience import PATIENCE
from tests.tuning.small_studies import assert_same_trials

TASK = ["--task", "adding", "--length", "6", "--num-evaluation", "20"]
SHORT = ["--steps", "10", "-p", "evaluate_every=5", "-p", "batch_size=4", "--population", "4"]
WORDS = ["tune", "gru", *TASK, *SHORT, "--units", "4", "--trials", "4", "--sampler", "random", "--seed", "3"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_command_and_function_are_twins(capsys: Any) -> None:
    assert main([*WORDS, "--space", "zhang", "--name", "first", "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert events[0]["event"] == "WorkStarted"
    assert [event["number"] for event in events if event["event"] == "TrialEnded"] == [0, 1, 2, 3]
    twin = tune(
        architecture("gru", input_size=2, output_size=1, units=4),
        task("adding", length=6, num_evaluation=20),
        "zhang",
        trials=4,
        sampler="random",
        seed=3,
        population=4,
        store="twin.db",
        name="first",
        hyperparameters=Hyperparameters(num_steps=10, evaluate_every=5, batch_size=4),
    )
    shown = events[-1]
    assert (shown["event"], shown["study"], shown["is_complete"]) == ("Result", "first", True)
    assert [row["value"] for row in shown["trials"]] == [trial.value for trial in twin.trials]
    assert twin.best is not None
    assert shown["best"]["number"] == twin.best.number
    assert shown["best"]["hyperparameters"] == twin.best.hyperparameters.to_json()
    assert_same_trials(list(load_record("first", "rnnlab.db").arms[0].trials), list(twin.trials))


def test_people_see_the_result_on_standard_output_and_progress_beside_it(capsys: Any, folder: Path) -> None:
    (folder / "space.toml").write_text('[learning_rate]\nkind = "float"\nlow = 1e-3\nhigh = 0.1\nscale = "log"\n')
    assert main([*WORDS, "--space", "space.toml", "--name", "first"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0] == "study first in rnnlab.db: 4 complete of 4"
    assert lines[1].startswith("best: trial ")
    assert lines[2].startswith("  learning_rate=0.0")
    told = captured.err.splitlines()
    assert told[0] == "study first in rnnlab.db: 4 trials"
    assert told[-1].startswith("4 of 4 trials have ended, the last after")


def test_command_given_again_adds_what_is_missing(capsys: Any) -> None:
    words = [*WORDS, "--space", "zhang"]
    assert main(words) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert main([*words, "--trials", "6"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == first.replace("4 complete of 4", "6 complete of 6")


def test_interrupted_command_says_how_to_go_on(folder: Path) -> None:
    words = [*WORDS, "--steps", "100000", "--space", "zhang", "--name", "first", "--json", "--report-every", "5"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "rnnlab", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["event"] == "Trained":
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert json.loads(out.splitlines()[-1])["is_complete"] is False
    assert err.splitlines()[-1] == f"stopped; resume with: {shlex.join(['rnnlab', *words])}"
    assert "Traceback" not in err


def test_missing_data_is_missed_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    monkeypatch.setenv("RNNLAB_DATA", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    assert main(["tune", "lstm", "--task", "mnist", "--units", "4", "--trials", "2"]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trails", "5"], "adding has no argument 'trails'"),
        (["--trials", "0"], "num_trials must be an integer of at least 1, got 0"),
        (["--space", "colins"], "no search space is named 'colins'; did you mean 'collins'"),
        (["--space", "nothing.toml"], "cannot read a search space from nothing.toml"),
        (["--sampler", "gpp"], "no sampler is named 'gpp'; did you mean 'gp'"),
        (["-p", "learning_rate=0.1,0.2"], "one value for all trials, got learning_rate=0.1,0.2"),
        (["--device", "gpu"], "device is cpu, cuda or cuda:NUMBER, got 'gpu'"),
        (["--store", "nowhere/a.db"], "there is no folder"),
        (["--store", "postgresql://me:secret@127.0.0.1:1/none"], "refused"),
        (["--grace", "inf"], "grace must be at most 10,000,000 seconds, got inf"),
        (["--grace", "1e8"], "grace must be at most 10,000,000 seconds"),
        (["--seed", "99999999999999999999"], "seed must be below 2**63 in size, got 99999999999999999999"),
        (["-p", "patience=99999999999999999999"], "patience must be below 2**63 in size"),
        (["--grace", "0"], "grace must be above 0 seconds"),
    ],
)
def test_bad_input_is_one_line_and_status_two(words: list[str], message: str, capsys: Any) -> None:
    if "postgresql" in words[-1]:
        pytest.importorskip("psycopg", reason="psycopg is not installed (pip install rnnlab[postgres])")
    assert main([*WORDS, *words]) == 2
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 1
    assert message in err[0]
    assert "secret" not in err[0]
