"""A store in a SQLite file, and what can be wrong with it (issue 7, 1 and bad input)."""

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import optuna
import pytest
import sqlalchemy
from optuna.trial import FrozenTrial
from sqlalchemy.orm import Session

from rnnlab import TuningError
from rnnlab.tuning import trials as trials_module
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.optuna_tables import end_trials
from rnnlab.tuning.store import Store
from rnnlab.tuning.work import Work
from rnnlab.tuning.worker import work
from tests.tuning.small_studies import (
    STUDY,
    arm,
    assert_nothing_is_lost_or_doubled,
    assert_same_trials,
    trials_of,
    undisturbed,
)
from tests.tuning.store_contract import StoreContract


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "rnnlab.db")


class TestSqlite(StoreContract):
    """Every claim about stores, on a file."""


def test_file_is_written_ahead_so_that_readers_do_not_wait(place: str) -> None:
    store = Store(place)
    store.add_study(STUDY, [arm()])
    writer = sqlite3.connect(place)
    writer.execute("BEGIN EXCLUSIVE")
    started = time.perf_counter()
    assert Store(place, lock_seconds=60).arms(STUDY)[0].name == "gru"
    assert time.perf_counter() - started < 30  # who waited for the writer would wait for 60 seconds, and fail
    writer.close()


def test_locked_file_is_one_clear_error_after_a_while(place: str) -> None:
    Store(place).add_study(STUDY, [arm()])
    writer = sqlite3.connect(place)
    writer.execute("BEGIN IMMEDIATE")
    store = Store(place, lock_seconds=0.1)
    with pytest.raises(TuningError, match=r"rnnlab.db: it is locked by another process that writes to it: wait"):
        store.add_study("another", [arm()])
    writer.rollback()
    writer.close()
    store.add_study("another", [arm()])


def test_study_is_seen_when_all_its_arms_are_there(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, watching = Store(place), Store(place)
    add, seen = store._add_arm, list[list[str]]()

    def watched(study: str, added: Arm) -> None:
        seen.append(watching.study_names())
        if added.name == "lstm" and len(seen) == 2:
            raise KeyboardInterrupt
        add(study, added)

    monkeypatch.setattr(store, "_add_arm", watched)
    arms = [arm(), arm("lstm")]
    with pytest.raises(KeyboardInterrupt):
        store.add_study(STUDY, arms)
    assert watching.study_names() == []
    store.add_study(STUDY, arms)
    assert seen == [[]] * 4
    assert [each.name for each in watching.arms(STUDY)] == ["gru", "lstm"]
    assert len({watching.study_id(STUDY, each.name) for each in arms}) == 2


def test_writers_wait_for_each_other(place: str) -> None:
    store = Store(place)
    writer = sqlite3.connect(place, check_same_thread=False)
    writer.execute("BEGIN IMMEDIATE")
    threading.Timer(0.3, writer.rollback).start()
    started = time.perf_counter()
    store.add_study(STUDY, [arm()])
    assert time.perf_counter() - started > 0.2
    writer.close()


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("nowhere/rnnlab.db", "there is no folder .*nowhere"),
        ("mysql://somebody@host/name", "a store is a file or postgresql://USER@HOST/NAME, got mysql"),
        ("://", "a store is a file or postgresql"),
        ("sqlite://", "a store is a file or postgresql"),
        ("postgresql://nobody:secret@127.0.0.1:1/none", r"nobody:\*\*\*@127.0.0.1:1/none: .*[Cc]onnection refused"),
        (".", "the file cannot be opened"),
    ],
)
def test_place_that_cannot_be_a_store_is_one_clear_error(
    place: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TuningError, match=words) as raised:
        Store(place)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_file_that_is_no_database_is_left_as_it_is(place: str) -> None:
    Path(place).write_text("these are the notes of somebody, not a database at all" * 20)
    before = Path(place).read_bytes()
    with pytest.raises(TuningError, match="the file is no SQLite database"):
        Store(place)
    assert Path(place).read_bytes() == before


def test_tables_of_another_optuna_are_refused(place: str) -> None:
    Store(place)
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'v99.0.0'")
        connection.execute("UPDATE version_info SET schema_version = 1")
    with pytest.raises(TuningError, match=r"rnnlab.db: .*version"):
        Store(place)


def test_full_disk_leaves_records_intact(place: str, tmp_path: Path) -> None:
    """A file that may not grow: SQLite says of it what it says of a full disk."""
    arms = [arm(num_trials=200)]
    store = Store(place)
    store.add_study(STUDY, arms)
    with store.transaction() as connection:
        pages = connection.scalar(sqlalchemy.text("PRAGMA page_count"))

    def limit(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count={pages + 12}")

    sqlalchemy.event.listen(store.engine, "connect", limit)
    store.engine.dispose()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", lambda seconds: None)  # Optuna tries again, in vain
        with pytest.raises(TuningError, match="the disk is full; everything recorded before is intact"):
            work(store, STUDY, arms, Work(population=8))
    store.engine.dispose()
    again = Store(place)
    trials = trials_of(again, arms)
    assert 0 < len(trials) < 200
    with closing(sqlite3.connect(place)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_disk_that_has_room_again_goes_on_with_the_same_result(place: str, tmp_path: Path) -> None:
    arms = [arm(num_trials=8)]
    store = Store(place)
    store.add_study(STUDY, arms)
    calls = iter(range(100))

    def failing(session: Session, ends: Mapping[int, FrozenTrial]) -> None:
        end_trials(session, ends)
        if next(calls) == 1:
            raise sqlite3.OperationalError("database or disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials_module, "end_trials", failing)
        with pytest.raises(TuningError, match="the disk is full"):
            work(store, STUDY, arms, Work(population=4))
    assert [trial.has_ended for trial in trials_of(store, arms)] == [True] * 4 + [False] * 4  # all of a lot, or none
    assert work(store, STUDY, arms, Work(population=4))
    assert_nothing_is_lost_or_doubled(store, arms)
    assert_same_trials(trials_of(store, arms), undisturbed(tmp_path, arms, population=4))


def test_optuna_reads_our_studies(place: str) -> None:
    """Its own functions, with a storage of its own: what its dashboard and its plots are made from."""
    arms = [arm()]
    store = Store(place)
    store.add_study(STUDY, arms)
    work(store, STUDY, arms, Work(population=4))
    study = optuna.load_study(study_name=f"{STUDY}/gru", storage=f"sqlite:///{place}")
    ours = {trial.number: trial for trial in trials_of(store, arms)}
    assert study.best_value == min(trial.value for trial in ours.values() if trial.value is not None)
    frame = study.trials_dataframe()
    assert len(frame) == 8
    assert set(frame["state"]) == {"COMPLETE", "PRUNED"}
    assert frame["value"].isna().tolist() == (frame["state"] == "PRUNED").tolist()
    for trial in study.trials:
        mine = ours[trial.user_attrs["number"]]
        assert trial.params == dict(mine.point)
        if mine.state == "complete":
            assert list(trial.intermediate_values.values()) == mine.curve["scores"]["mse"]
    assert study.user_attrs["study"] == STUDY


def test_optuna_is_as_loud_as_it_was(place: str, capfd: pytest.CaptureFixture[str]) -> None:
    before = optuna.logging.get_verbosity()
    Store(place).add_study(STUDY, [arm()])
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr().err == ""


def test_spaces_and_bindings_need_no_optuna() -> None:
    code = (
        "import sys; sys.modules['optuna'] = sys.modules['pandas'] = None; import rnnlab.tuning.arms;"
        "import rnnlab.tuning.spaces, rnnlab.tuning.binding, rnnlab.tuning.populations, rnnlab.tuning.events"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
