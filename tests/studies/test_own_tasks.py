"""Studies of tasks from files: one that is edited, moved or gone, and classes that no file holds."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rnnlab import (
    CELLS,
    Cell,
    CheckpointError,
    Hyperparameters,
    RnnlabError,
    TuningError,
    architecture,
    compare,
    load_record,
    resume_study,
    run_study,
    task,
    train,
    tune,
)
from rnnlab.studies.listing import list_all
from rnnlab.tasks.adding import Adding
from tests.studies.small_specs import spec

SOURCE = """
from dataclasses import dataclass
from typing import ClassVar
from rnnlab.tasks.adding import Adding as Known

@dataclass(frozen=True, kw_only=True)
class Own(Known):
    name: ClassVar[str] = "own"
"""
CELL = """
from rnnlab import Cell, nonlinearity, register_cell, sigmoid

def update(gates, carried):
    keep = sigmoid(gates.k)
    return {"h": keep * carried.h + (1 - keep) * nonlinearity(gates.c)}

register_cell(Cell("keeper", gates=("k", "c"), update=update))
"""
SHORT = {"num_steps": 4, "evaluate_every": 2, "batch_size": 4}
SIZES = {"length": 5, "num_evaluation": 20}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tasks" / "own.py"
    path.parent.mkdir()
    path.write_text(SOURCE)
    return path


@pytest.fixture
def cells() -> Iterator[dict[str, Cell]]:
    """All cells, which are as they were afterwards."""
    before = dict(CELLS)
    yield CELLS
    CELLS.clear()
    CELLS.update(before)


def ran(own: Path, **changes: Any) -> Any:
    given = {"task": {"name": str(own), **SIZES}, "architectures": ["sh"], "trials": 2, "seeds": 2}
    return run_study(spec(**(given | changes)), population=2)


def edit(own: Path) -> None:
    own.write_text(SOURCE + "\n# edited\n")


def tuned(problem: Any, **values: Any) -> Any:
    network = architecture("sh", input_size=2, output_size=1, units=3)
    return tune(network, problem, trials=2, sampler="random", hyperparameters=SHORT, **values)


def test_edited_task_is_another_one(own: Path) -> None:
    first = tuned(task(str(own), **SIZES))
    assert tuned(task(str(own), **SIZES)).name == first.name
    record = ran(own)
    edit(own)
    assert tuned(task(str(own), **SIZES)).name != first.name
    edited = r"arm sh differs in task: .*own\.py, or a file that it reads, was edited since; choose another name"
    with pytest.raises(TuningError, match=edited):
        ran(own)
    with pytest.raises(TuningError, match="arm sh differs in task; choose another name"):
        ran(own, task={"name": str(own), **SIZES, "length": 6})
    with pytest.raises(
        TuningError, match=r"arm sh differs in task: .*own\.py, or a file that it reads, was edited since"
    ):
        resume_study("small")
    assert load_record("small").arms[0].trials == record.arms[0].trials  # what is there can be read


def test_comparison_of_an_edited_task_has_another_name(own: Path) -> None:
    def name() -> str:
        problem = task(str(own), **SIZES)
        values: dict[str, Any] = {"parameters": 60, "trials": 1, "seeds": 2, "steps": 2, "stop": lambda: True}
        return compare(["sh", "gru"], problem, hyperparameters={"batch_size": 4}, **values).record.name

    before = name()
    assert name() == before
    edit(own)
    assert name() != before


def test_checkpoint_of_an_edited_task_is_of_another_run(own: Path) -> None:
    def trained(**options: Any) -> Any:
        network = architecture("sh", input_size=2, output_size=1, units=3)
        return train(network, task(str(own), **SIZES), Hyperparameters(**SHORT), checkpoint="saved", **options)

    trained(stop=lambda: True)
    edit(own)
    with pytest.raises(CheckpointError, match=r"another run: task\.file_digest is"):
        trained(resume=True)


def test_cell_in_the_file_of_a_task_is_known_wherever_the_task_is(own: Path, cells: dict[str, Cell]) -> None:
    """To those who resume a study or read its record, and never heard of the cell."""
    own.write_text(SOURCE + CELL)
    record = ran(own, cells=["keeper"])
    values = [trial.value for trial in record.arms[0].trials]
    record.save("small.json")
    for read in (lambda: load_record("small"), lambda: load_record("small.json"), lambda: resume_study("small")):
        del cells["keeper"]
        assert [trial.value for trial in read().arms[0].trials] == values


def test_one_study_that_cannot_be_read_does_not_hide_the_others(own: Path) -> None:
    run_study(spec(name="good", architectures=["sh"], trials=1, seeds=0, task={"name": "adding", **SIZES}))
    ran(own)
    own.unlink()
    text = str(list_all())
    assert "good   1 arm, 1 trials, complete" in text
    assert "small  cannot be read: cannot read" in text
    with pytest.raises(RnnlabError, match="study 'small' cannot be read: cannot read"):
        load_record("small")


def test_file_that_moved_is_found_in_the_current_folder_and_beside_the_record(own: Path, tmp_path: Path) -> None:
    values = [trial.value for trial in ran(own).arms[0].trials]
    (tmp_path / "saved").mkdir()
    load_record("small").save("saved/small.json")
    shutil.move(own, "saved/own.py")
    assert [trial.value for trial in load_record("saved/small.json").arms[0].trials] == values
    shutil.move("saved/own.py", "own.py")
    assert [trial.value for trial in load_record("small").arms[0].trials] == values
    ran(Path("own.py"))  # goes on with it


@dataclass(frozen=True, kw_only=True)
class Unwritten(Adding):
    """A class that stands in no file of a task."""


def test_class_that_could_not_be_read_again_is_refused(own: Path) -> None:
    with pytest.raises(TuningError, match=r"put the class into a \.py file and use task\('FILE\.py'\)"):
        tuned(Unwritten(**SIZES))
    assert not list(Path().glob("*.db"))
