"""All trials of a study as one table (issue 7, 7)."""

import io
import json
from pathlib import Path

import pandas
import pytest

from rnnlab import Hyperparameters, StudyRecord, TuningError, load_study
from rnnlab.studies.table import COLUMNS, study_table, table_text, write_table
from tests.studies.small_specs import ran


@pytest.fixture(scope="module")
def table(done: StudyRecord) -> pandas.DataFrame:
    return study_table(done)


def test_one_row_a_trial_with_all_that_is_known(done: StudyRecord, table: pandas.DataFrame) -> None:
    assert len(table) == 2 * (4 + 3)
    assert list(table.columns[: len(COLUMNS)]) == list(COLUMNS)
    assert list(table["stage"]) == ["tuning"] * 8 + ["seeds"] * 6
    trial, row = done.arms[1].trials[2], table.iloc[6]
    assert (row["study"], row["arm"], row["number"], row["state"]) == ("small", "sh", 2, trial.state)
    assert row["point.learning_rate"] == trial.point["learning_rate"]
    assert row["hyperparameter.learning_rate"] == trial.hyperparameters.learning_rate
    assert row["hyperparameter.rectangular"] == trial.hyperparameters.initialisation.rectangular
    assert row["task.length"] == 6
    assert row["label.units"] == 4
    assert row["run.path"] == trial.run["path"]
    complete = table[table["state"] == "complete"]
    assert (complete["validation.mse"] == complete["value"]).all()
    for split in ("train", "validation", "test"):
        assert complete[f"{split}.mse"].notna().all()
    assert table[table["state"] == "infeasible"]["value"].isna().all()
    assert table[table["state"] == "infeasible"]["reason"].notna().all()


def test_types_do_not_depend_on_what_happens_to_be_there(done: StudyRecord, table: pandas.DataFrame) -> None:
    assert {name: str(table[name].dtype) for name in COLUMNS} == dict(COLUMNS)
    one = study_table(StudyRecord(name="a", store="", spec=None, arms=done.arms[:1]))
    assert {name: str(one[name].dtype) for name in COLUMNS} == dict(COLUMNS)
    kinds = {"clip_norm": "float64", "batch_seed": "Int64", "nonlinearity": "string", "num_steps": "Int64"}
    assert {name: str(table[f"hyperparameter.{name}"].dtype) for name in kinds} == kinds
    named = {column.partition(".")[2] for column in table if column.startswith("hyperparameter.")}
    assert set(Hyperparameters().to_json()) - {"initialisation"} < named


def test_empty_study_has_the_same_columns() -> None:
    empty = study_table(StudyRecord(name="a", store="", spec=None, arms=()))
    assert {name: str(empty[name].dtype) for name in empty} == dict(COLUMNS)


def test_every_format_holds_the_same_numbers(table: pandas.DataFrame, tmp_path: Path) -> None:
    write_table(table, tmp_path / "a.parquet", "parquet")
    pandas.testing.assert_frame_equal(pandas.read_parquet(tmp_path / "a.parquet"), table)
    rows = json.loads(table_text(table, "json"))
    assert [row["value"] for row in rows] == [None if pandas.isna(value) else value for value in table["value"]]
    assert list(rows[0]) == list(table.columns)
    again = pandas.read_csv(io.StringIO(table_text(table, "csv")))
    assert list(again.columns) == list(table.columns)
    pandas.testing.assert_series_equal(again["value"], table["value"], check_exact=True)


def test_table_of_a_store_and_of_a_file(done: StudyRecord, done_folder: Path, table: pandas.DataFrame) -> None:
    pandas.testing.assert_frame_equal(load_study("small", store=done_folder / "rnnlab.db"), table)
    done.save(done_folder / "record.json")
    pandas.testing.assert_frame_equal(load_study(done_folder / "record.json"), table)


def test_table_that_cannot_be_written_is_one_line(table: pandas.DataFrame, tmp_path: Path) -> None:
    for kind in ("csv", "parquet"):
        with pytest.raises(TuningError, match=r"cannot write .*nowhere"):
            write_table(table, tmp_path / "nowhere" / "a", kind)


def test_rows_over_seeds_have_the_arguments_of_their_own_task(tmp_path: Path) -> None:
    problem = {"name": "adding", "num_evaluation": 20}
    space = {"task.length": {"kind": "integer", "low": 4, "high": 9}}
    record = ran(tmp_path, task=problem, space=space, architectures=["sh"], trials=3, seeds=2, finalists=2)
    table = study_table(record)
    best = [trial.arguments["length"] for trial in record.arms[0].best_trials(2)]
    over_seeds = table[table["stage"] == "seeds"]
    assert list(over_seeds["task.length"]) == [best[0], best[0], best[1], best[1]]
    tuning = table[table["stage"] == "tuning"]
    assert list(tuning["task.length"]) == [trial.arguments["length"] for trial in record.arms[0].trials]
