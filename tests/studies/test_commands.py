"""`rnnlab study`: what its commands print, how they stop, and what they say to bad input (issue 7, 4 and bad input)."""

import io
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas
import pytest

from rnnlab import StudyRecord, load_record
from rnnlab.cli import main
from rnnlab.tuning import trials as trials_module
from rnnlab.tuning.optuna_tables import end_trials
from rnnlab.tuning.store import VERSIONS, Store
from tests.patience import PATIENCE
from tests.studies.small_specs import TOML, assert_same_results

RUN = ["study", "run", "small.toml", "--population", "4"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(TOML)
    return tmp_path


def shown(capsys: Any, *words: str) -> str:
    assert main(["study", *words]) == 0
    return capsys.readouterr().out


def test_run_shows_what_came_of_every_arm(capsys: Any, done: StudyRecord) -> None:
    assert main(RUN) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{done}\n"
    told = captured.err.splitlines()
    assert told[0] == "study small in rnnlab.db: 2 arms, 8 trials"
    assert told[1].startswith("8 of 8 trials have ended, the last after")
    assert told[2] == "study small seeds in rnnlab.db: 2 arms, 6 trials"
    assert told[3].startswith("6 of 6 trials have ended")
    assert_same_results(load_record("small"), done)


def test_json_tells_everything_and_the_record_last(capsys: Any, done: StudyRecord) -> None:
    assert main([*RUN, "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["study"] for event in events if event["event"] == "WorkStarted"] == ["small", "small seeds"]
    assert sum(event["event"] == "TrialEnded" for event in events) == 14
    assert events[-1]["event"] == "Result"
    assert_same_results(StudyRecord.from_json(events[-1]), StudyRecord.from_json(done.to_json()))


def test_other_commands_read_what_is_there(capsys: Any, done: StudyRecord, done_folder: Path, folder: Path) -> None:
    store = ["--store", str(done_folder / "rnnlab.db")]
    assert shown(capsys, "resume", "small", *store) == f"{done}\n"
    assert shown(capsys, "status", "small", *store).startswith(f"study small in {store[1]}: complete\n")
    assert json.loads(shown(capsys, "status", "small", *store, "--json"))["is_complete"] is True
    listed = shown(capsys, "list", *store)
    assert listed.splitlines()[:2] == [f"studies in {store[1]}:", "  small  2 arms, 14 trials, complete"]
    assert re.search(r"^  example +laptop smoke +A stack, ", listed, re.MULTILINE)
    assert json.loads(shown(capsys, "list", *store, "--json"))["studies"][0]["name"] == "small"
    table = pandas.read_csv(io.StringIO(shown(capsys, "table", "small", *store)))
    assert len(table) == 14
    assert len(json.loads(shown(capsys, "table", "small", *store, "--format", "json"))) == 14
    printed = shown(capsys, "table", "small", *store, "--format", "parquet")
    assert printed == f"wrote small.parquet: 14 rows, {len(table.columns)} columns\n"
    assert len(pandas.read_parquet("small.parquet")) == 14
    shown(capsys, "table", "small", *store, "-o", "small.csv")
    assert len(pandas.read_csv("small.csv")) == 14
    assert shown(capsys, "record", "small", *store, "-o", "small.json.gz") == "wrote small.json.gz: 14 trials\n"
    assert shown(capsys, "table", "small.json.gz") == Path("small.csv").read_text()


def test_list_of_nothing_names_what_there_is_to_run(capsys: Any, folder: Path) -> None:
    listed = shown(capsys, "list")
    assert listed.splitlines()[0] == "no studies in rnnlab.db"
    assert not (folder / "rnnlab.db").exists()


def test_interrupted_study_says_how_to_go_on_and_does(folder: Path, capsys: Any) -> None:
    text = TOML.replace("num_steps = 12", "num_steps = 150").replace("evaluate_every = 4", "evaluate_every = 50")
    (folder / "small.toml").write_text(text)
    words = [*RUN, "--json", "--report-every", "5", "--save-every", "5"]
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
    assert main(RUN) == 0
    gone_on = load_record("small")
    assert main([*RUN, "--store", "whole.db"]) == 0
    assert_same_results(gone_on, load_record("small", "whole.db"))
    assert any(trial.run["num_resumed"] for each in gone_on.arms for trial in each.trials)


def complaint(capsys: Any, *words: str) -> str:
    """The one line that a wrong command ends with."""
    capsys.readouterr()
    assert main([*words]) == 2
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if line.startswith("rnnlab: ")]
    assert len(lines) == 1
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return lines[0].removeprefix("rnnlab: ")


def test_typo_in_a_specification(capsys: Any, folder: Path) -> None:
    (folder / "small.toml").write_text(TOML.replace("trials", "trails"))
    line = complaint(capsys, *RUN)
    assert line == "small.toml: the specification has no key 'trails'; did you mean 'trials'?"
    assert not (folder / "rnnlab.db").exists()


def test_budget_that_cannot_fit_every_arm_once(capsys: Any, folder: Path) -> None:
    (folder / "small.toml").write_text(TOML.replace("trials = 4", "budget = 1"))
    line = complaint(capsys, *RUN)
    assert line == "a budget of 1 trials cannot try each of 2 arms once: give at least 2"


def test_store_of_another_version(capsys: Any) -> None:
    store = Store("rnnlab.db")
    with store.transaction() as connection:
        connection.execute(VERSIONS.update().values(version=99))
    store.close()
    for words in (RUN, ["study", "status", "small"], ["study", "list"], ["study", "table", "small"]):
        assert "has version 99, this rnnlab reads version" in complaint(capsys, *words)


def test_locked_database(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Store("rnnlab.db").close()
    monkeypatch.setitem(Store.__init__.__kwdefaults__, "lock_seconds", 0.1)
    with closing(sqlite3.connect("rnnlab.db")) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert complaint(capsys, *RUN) == (
            "store rnnlab.db: it is locked by another process that writes to it: wait for that one, or end it"
        )
    assert main(RUN) == 0


def test_unreachable_server(capsys: Any) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed (pip install rnnlab[postgres])")
    line = complaint(capsys, *RUN, "--store", "postgresql://me:secret@127.0.0.1:1/none")
    assert line.startswith("store postgresql://me:***@127.0.0.1:1/none: ")
    assert "refused" in line


def test_missing_psycopg(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    line = complaint(capsys, *RUN, "--store", "postgresql://me@127.0.0.1:1/none")
    assert line == "a PostgreSQL store needs psycopg: pip install rnnlab[postgres]"


def test_full_disk_leaves_records_intact(capsys: Any, done: StudyRecord) -> None:
    calls = iter(range(10**6))

    def failing(*words: Any) -> None:
        if next(calls) >= 1:
            raise sqlite3.OperationalError("database or disk is full")
        end_trials(*words)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials_module, "end_trials", failing)
        line = complaint(capsys, *RUN)
    assert line == "store rnnlab.db: the disk is full; everything recorded before is intact"
    assert sum(trial.has_ended for each in load_record("small").arms for trial in each.trials) >= 4
    assert main(["study", "resume", "small", "--population", "4"]) == 0
    assert_same_results(load_record("small"), done)


def test_missing_data_is_missed_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    monkeypatch.setenv("RNNLAB_DATA", str(tmp_path / "none"))
    assert "there is no such folder" in complaint(capsys, "study", "run", "zhang-table2", "--scale", "smoke")
    assert not Path("rnnlab.db").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "nothing.toml"], "nothing.toml: cannot be read: No such file or directory"),
        (["run", "exmaple"], "no specification is named 'exmaple'; did you mean 'example'?"),
        (["run", "example", "--scale", "smok"], "no scale 'smok'; did you mean 'smoke'"),
        (["run", "small.toml", "--workers", "0"], "workers must be an integer of at least 1, got 0"),
        (["run", "small.toml", "--device", "gpu"], "device is cpu, cuda or cuda:NUMBER, got 'gpu'"),
        (["run", "small.toml", "--store", "nowhere/a.db"], "there is no folder"),
        (["resume", "small"], "there is no store rnnlab.db; say where it is with --store"),
        (["status", "small"], "there is no store rnnlab.db"),
        (["table", "small"], "there is no store rnnlab.db"),
        (["table", "small", "--format", "exel"], "'exel' is not a format of a table: there are csv, json, parquet"),
        (["record", "small", "-o", "a.json"], "there is no store rnnlab.db"),
        (["runn"], "No such command 'runn'"),
    ],
)
def test_bad_input_is_one_line_and_status_two(words: list[str], message: str, capsys: Any) -> None:
    assert message in complaint(capsys, "study", *words)
