"""The record of a study is put back into a store, and the study goes on there (issue 9: in pieces, anywhere)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rnnlab import Finalist, StudyRecord, TuningError, load_record, resume_study, run_study
from rnnlab.studies.restoring import restore_study
from rnnlab.tuning.store import Store
from rnnlab.tuning.trials import Trial
from tests.studies.small_specs import spec

GRID: dict[str, Any] = {"sampler": "grid", "space": {"learning_rate": [0.1, 0.01, 1e30, 0.001]}}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> StudyRecord:
    """A study that was never interrupted; a point of it diverges."""
    return run_study(spec(**GRID), store=tmp_path_factory.mktemp("whole") / "store.db")


def put_back(record: StudyRecord, store: Path) -> StudyRecord:
    record.save(store.parent / "record.json.gz")
    place = Store(store)
    restore_study(load_record(store.parent / "record.json.gz"), place)
    place.close()
    return load_record(record.name, store)


def results(record: StudyRecord) -> list[Any]:
    """All that must not depend on where a study was interrupted; not how many were trained together."""
    return [
        (arm, [(trial.state, trial.point, trial.value, trial.scores) for trial in trials])
        for each in record.arms
        for arm, trials in ((each.arm, each.trials), *((one.arm, one.trials) for one in each.finalists))
    ]


def unended(trial: Trial) -> Trial:
    nothing = dict.fromkeys(("value", "outcome", "reason", "num_steps", "best_step", "wall_seconds", "population"))
    return replace(trial, state="running", scores={}, run={}, curve={}, **nothing)


def untrained(finalist: Finalist) -> Finalist:
    return replace(finalist, trials=tuple(unended(trial) for trial in finalist.trials))


def test_restored_study_is_its_record(done: StudyRecord, tmp_path: Path) -> None:
    found = put_back(done, tmp_path / "store.db")
    assert found.is_complete
    assert found.spec == done.spec
    assert [each.study for each in found.sittings] == ["small", "small seeds"]
    assert found.sittings == done.sittings
    for our, their in zip(found.arms, load_record(tmp_path / "record.json.gz").arms, strict=True):
        assert our == their


def test_complete_study_is_left_as_it_is(whole: StudyRecord, tmp_path: Path) -> None:
    put_back(whole, tmp_path / "store.db")
    again = resume_study(whole.name, store=tmp_path / "store.db")
    assert [each.repeats for each in again.arms] == [
        each.repeats for each in load_record(whole.name, tmp_path / "store.db").arms
    ]
    assert results(again) == results(whole)


def test_study_goes_on_from_a_record_made_halfway(whole: StudyRecord, tmp_path: Path) -> None:
    first, second = whole.arms
    halfway = replace(
        whole,
        arms=(
            replace(first, finalists=()),
            # the last one was being trained, and so was the one before the last that has ended
            replace(
                second,
                trials=(second.trials[0], unended(second.trials[1]), *second.trials[2:3]),
                finalists=(),
            ),
        ),
    )
    found = put_back(halfway, tmp_path / "store.db")
    assert [trial.state for trial in found.arms[1].trials] == ["complete", "running", "infeasible"]
    assert results(resume_study(whole.name, store=tmp_path / "store.db")) == results(whole)


def test_seeds_that_were_not_trained_are(whole: StudyRecord, tmp_path: Path) -> None:
    cut = [replace(each, finalists=tuple(map(untrained, each.finalists))) for each in whole.arms]
    put_back(replace(whole, arms=tuple(cut)), tmp_path / "store.db")
    again = resume_study(whole.name, store=tmp_path / "store.db")
    assert results(again) == results(whole)
    assert again.is_complete
    assert again.sittings[:2] == whole.sittings
    assert [(each.study, each.num_trials) for each in again.sittings[2:]] == [("small seeds", 6)]


def test_study_that_is_there_is_not_overwritten(whole: StudyRecord, tmp_path: Path) -> None:
    put_back(whole, tmp_path / "store.db")
    with pytest.raises(TuningError, match="has a study 'small' already: go on with that one, by its name"):
        put_back(whole, tmp_path / "store.db")


def test_same_command_goes_on_with_what_it_put_there(whole: StudyRecord, tmp_path: Path) -> None:
    put_back(whole, tmp_path / "store.db")
    cut = [replace(each, trials=(), finalists=()) for each in whole.arms]
    replace(whole, arms=tuple(cut)).save(tmp_path / "record.json.gz")  # older than what is in the store
    again = resume_study(str(tmp_path / "record.json.gz"), store=tmp_path / "store.db")
    assert results(again) == results(whole)
    assert [each.num_trials for each in again.sittings] == [each.num_trials for each in whole.sittings]


def test_another_study_of_that_name_is_refused(whole: StudyRecord, tmp_path: Path) -> None:
    whole.save(tmp_path / "record.json.gz")
    run_study(spec(trials=1, seeds=None), store=tmp_path / "store.db")
    with pytest.raises(TuningError, match="is another one: arm gru differs in space and sampler"):
        resume_study(str(tmp_path / "record.json.gz"), store=tmp_path / "store.db")


def test_record_with_a_hole_is_refused(whole: StudyRecord, tmp_path: Path) -> None:
    first = replace(whole.arms[0], trials=whole.arms[0].trials[1:])
    with pytest.raises(TuningError, match="lacks some of its first 4 trials"):
        put_back(replace(whole, arms=(first, *whole.arms[1:])), tmp_path / "store.db")


def test_file_of_a_record_is_gone_on_with(whole: StudyRecord, tmp_path: Path) -> None:
    cut = [replace(each, finalists=()) for each in whole.arms]
    replace(whole, arms=tuple(cut)).save(tmp_path / "record.json")
    again = resume_study(str(tmp_path / "record.json"), store=tmp_path / "new.db")
    assert results(again) == results(whole)


def test_arms_are_added_to_a_study_that_was_put_back(whole: StudyRecord, tmp_path: Path) -> None:
    put_back(whole, tmp_path / "store.db")
    more = run_study(spec(**GRID, architectures=["gru", "lstm", "sh"]), store=tmp_path / "store.db")
    assert [each.arm.name for each in more.arms] == ["gru", "sh", "lstm"]
    assert results(more)[: len(results(whole))] == results(whole)
    assert more.is_complete
