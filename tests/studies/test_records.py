"""Records: everything that came of a study, in the store and in a file (issue 7, 1 and 7)."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rnnlab import StudyRecord, TuningError, load_record, tune
from rnnlab.studies.expansion import expand
from rnnlab.tuning.store import Store
from tests.studies.small_specs import spec
from tests.tuning.small_studies import arm


@pytest.mark.parametrize("name", ["record.json", "record.json.gz"])
def test_file_of_a_record_is_the_record(done: StudyRecord, tmp_path: Path, name: str) -> None:
    """All of a trial but the digits of its curve that nobody sees; hyperparameters follow from arm and point."""
    done.save(tmp_path / name)
    again = load_record(tmp_path / name)
    assert again.spec == done.spec
    assert (again.name, again.store) == (done.name, done.store)
    for our, their in zip(again.arms, done.arms, strict=True):
        assert (our.arm, our.labels, our.repeated, our.best) == (their.arm, their.labels, their.repeated, our.best)
        for one, other in zip(our.all_trials, their.all_trials, strict=True):
            assert vars(one) | {"curve": None} == vars(other) | {"curve": None}
            assert one.curve.get("steps") == other.curve.get("steps")
            assert one.curve.get("losses") == pytest.approx(other.curve.get("losses"), rel=1e-5, nan_ok=True)
    again.save(tmp_path / f"again-{name}")
    assert load_record(tmp_path / f"again-{name}") == again


def test_curves_in_a_file_are_thinned(done: StudyRecord, tmp_path: Path) -> None:
    done.save(tmp_path / "record.json", max_points=2)
    for each in load_record(tmp_path / "record.json").arms:
        for trial in each.trials:
            if trial.state == "complete":
                assert trial.curve["steps"] == [4, 12]
                assert len(trial.curve["losses"]) == len(trial.curve["scores"]["mse"]) == 2
    with pytest.raises(TuningError, match="max_points must be an integer of at least 2, got 1"):
        done.save(tmp_path / "record.json", max_points=1)


def test_file_holds_no_number_that_json_does_not_have(done: StudyRecord, tmp_path: Path) -> None:
    done.save(tmp_path / "record.json.gz")
    text = gzip.decompress((tmp_path / "record.json.gz").read_bytes()).decode()
    json.loads(text, parse_constant=lambda word: pytest.fail(word))


def test_record_prints_a_line_for_each_arm(done: StudyRecord) -> None:
    lines = str(done).splitlines()
    assert lines[0] == "study small"
    best = done.arms[0].best
    assert best is not None
    infeasible = sum(trial.state == "infeasible" for trial in done.arms[0].trials)
    middle = f"{infeasible} infeasible, " if infeasible else ""
    mean = sum(trial.scores["test"]["mse"] for trial in done.arms[0].repeats) / 3
    result = f"3 of 3 seeds, mean {mean:.6g} on test data"
    assert lines[1] == f"  gru  4 of 4 trials, {middle}best mse {best.value:.6g}, {result}"


def test_study_made_by_tune_has_a_record_too(tmp_path: Path) -> None:
    small = arm(num_trials=2)
    shared = small.hyperparameters.changed(seed=0)  # that of the study is the seed of all
    given = {"trials": 2, "sampler": "random", "hyperparameters": shared, "name": "tuned"}
    tuning = tune(small.architecture, small.task, small.space, store=tmp_path / "a.db", **given)
    record = load_record("tuned", tmp_path / "a.db")
    assert record.spec is None
    assert record.is_complete
    assert list(record.arms[0].trials) == tuning.trials
    assert record.arms[0].labels == {"task": "adding", "architecture": "gru"}


def test_unfinished_study_is_not_complete(tmp_path: Path) -> None:
    from rnnlab.studies.run import add_study

    store = Store(tmp_path / "a.db")
    add_study(store, spec(), expand(spec()))
    record = load_record("small", store)
    assert not record.is_complete
    assert [(each.trials, each.best) for each in record.arms] == [((), None)] * 2


def test_reading_makes_no_store(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match=r"there is no store .*nothing.db; say where it is"):
        load_record("small", tmp_path / "nothing.db")
    assert not (tmp_path / "nothing.db").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "it holds no record of a study"),
        ("[", "cannot read a record from .*: Expecting value"),
        ('{"record": 9}', "a record of version 9, this rnnlab reads version 1"),
        ('{"record": 1, "name": "a"}', "cannot read a record from .*: it lacks 'spec'"),
        ('{"record": NaN}', "it has a NaN, which no record has"),
        (None, "No such file"),
    ],
)
def test_wrong_file_is_one_line(text: str | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(TuningError, match=words) as raised:
        load_record(path)
    assert "\n" not in str(raised.value)


def test_file_that_is_cut_short_is_one_line(done: StudyRecord, tmp_path: Path) -> None:
    path = tmp_path / "record.json.gz"
    done.save(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(TuningError, match=r"cannot read a record from .*: it is damaged or cut short"):
        load_record(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"value": "abc"}, "trial 0 of .* has no value but 'abc'"),
        ({"point": {"learning_rate": 77.0}}, "trial 0 of .* is not of its space"),
    ],
)
def test_damaged_trials_are_one_line(done: StudyRecord, tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "record.json"
    values = done.to_json()
    values["arms"][0]["trials"][0] |= change
    path.write_text(json.dumps(values))
    with pytest.raises(TuningError, match=words):
        load_record(path)


def test_record_that_cannot_be_written_leaves_the_old_one(
    done: StudyRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.json"
    done.save(path)
    before = path.read_bytes()

    def full(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[:9])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(TuningError, match=r"cannot write .*: No space left on device"):
        done.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_record_that_cannot_be_written_is_one_line(done: StudyRecord, tmp_path: Path) -> None:
    with pytest.raises(TuningError, match=r"cannot write .*: No such file or directory"):
        done.save(tmp_path / "nowhere" / "record.json")


def test_record_that_could_not_be_read_again_is_not_written(done: StudyRecord, tmp_path: Path) -> None:
    with pytest.raises(TuningError, match=r"a record is a \.json or \.json\.gz file, got .*record\.txt"):
        done.save(tmp_path / "record.txt")
    assert not any(tmp_path.iterdir())


def test_record_in_a_file_does_not_ask_its_task(
    done: StudyRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of tasks on data with other arguments than usual chance is measured from files, which readers may not have."""
    done.save(tmp_path / "record.json")
    scores, best = [each.arm.score for each in done.arms], [each.best and each.best.value for each in done.arms]
    monkeypatch.setattr(type(done.arms[0].arm.task), "scores", property(lambda task: pytest.fail("it was asked")))
    found = load_record(tmp_path / "record.json")
    assert [each.arm.score for each in found.arms] == scores
    assert [each.best and each.best.value for each in found.arms] == best
    assert "best mse" in str(found)
