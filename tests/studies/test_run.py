"""Studies: run, stopped, gone on with, grown; the best settings over seeds (issue 7, 4; C3, C73)."""

import random
from pathlib import Path
from typing import Any

import pytest

from rnnlab import StudyRecord, TuningError, load_record, resume_study, run_study, study_status
from rnnlab.studies.records import ArmRecord
from rnnlab.studies.repeats import repeats_name
from rnnlab.tuning.events import LotHandedBack, TrialEnded, TuningEvent, WorkEnded
from rnnlab.tuning.store import Store
from tests.studies.small_specs import TOML, assert_same_results, ran, spec


def test_every_arm_has_its_trials_its_best_and_its_seeds(done: StudyRecord) -> None:
    assert done.is_complete
    assert [each.arm.name for each in done.arms] == ["gru", "sh"]
    for each in done.arms:
        assert [trial.number for trial in each.trials] == [0, 1, 2, 3]
        values = [trial.value for trial in each.trials if trial.value is not None]
        assert each.best is not None
        assert each.best.value == min(values)
        assert [trial.seed for trial in each.repeats] == [4, 5, 6]
    assert any(trial.state == "infeasible" for each in done.arms for trial in each.trials)


def test_repeats_train_the_best_setting_from_other_numbers(done: StudyRecord) -> None:
    """C73: random batching and initialisation."""
    for each in done.arms:
        assert each.best is not None
        ours = [trial.hyperparameters for trial in each.repeats]
        same = [value.changed(seed=each.best.seed, batch_seed=None) for value in ours]
        assert same == [each.best.hyperparameters] * 3
        assert [value.batch_seed for value in ours] == [value.seed for value in ours] == [4, 5, 6]
        assert len({trial.value for trial in (each.best, *each.repeats)}) == 4


def test_arguments_of_the_task_belong_to_the_best_setting(tmp_path: Path) -> None:
    """C37, C73."""
    task = {"name": "arithmetic", "num_evaluation": 20}
    space = {"task.compute_steps": {"kind": "category", "choices": [2, 5]}}
    record = ran(tmp_path, task=task, architectures=["sh"], space=space, sampler="grid", trials=2, seeds=2)
    (only,) = record.arms
    assert only.best is not None
    assert only.repeated is not None
    assert only.repeated.task.to_json()["compute_steps"] == only.best.arguments["compute_steps"]
    assert len(only.repeats) == 2
    assert all(trial.has_ended for trial in only.repeats)


def test_score_of_which_more_is_better(tmp_path: Path) -> None:
    """C41: bits that are stored."""
    task = {"name": "capacity", "num_samples": 12, "num_inputs": 4}
    record = ran(tmp_path, task=task, architectures=["sh"], seeds=0)
    (only,) = record.arms
    values = [trial.value for trial in only.trials if trial.value is not None]
    assert only.best is not None
    assert only.best.value == max(values) > min(values)
    status = study_status("small", tmp_path / "rnnlab.db")
    assert (status.arms[0].best, status.arms[0].is_maximised) == (max(values), True)


def test_arm_without_a_complete_trial_has_no_seeds(tmp_path: Path) -> None:
    hopeless = {"learning_rate": {"kind": "float", "low": 1e30, "high": 1e31}}
    record = ran(tmp_path, space=hopeless, trials=2, hyperparameters={"num_steps": 5, "optimiser": "sgd"})
    assert record.is_complete
    assert [(each.best, each.repeated, each.repeats) for each in record.arms] == [(None, None, ())] * 2
    assert Store(tmp_path / "rnnlab.db").study_names() == ["small"]


def test_study_without_seeds_is_only_tuned(tmp_path: Path) -> None:
    """C71: random draws, nothing else."""
    record = ran(tmp_path, seeds=0, trials=3)
    assert record.is_complete
    assert [len(each.repeats) for each in record.arms] == [0, 0]


def test_run_again_it_does_nothing_and_gives_the_same(done: StudyRecord, done_folder: Path) -> None:
    events: list[TuningEvent] = []
    again = run_study(spec(), store=done_folder / "rnnlab.db", population=4, report=events.append)
    assert again == done
    assert not any(isinstance(event, TrialEnded) for event in events)
    assert [event.study for event in events if isinstance(event, WorkEnded)] == ["small", "small seeds"]


def test_specification_may_be_a_file_or_the_name_of_a_study(done: StudyRecord, done_folder: Path) -> None:
    (done_folder / "small.toml").write_text(TOML)
    place = done_folder / "rnnlab.db"
    assert run_study(done_folder / "small.toml", store=place) == done
    assert run_study("small", store=place) == done
    assert resume_study("small", store=place) == done
    with pytest.raises(TuningError, match="no specification is named 'smal'"):
        run_study("smal", store=place)
    with pytest.raises(TuningError, match="has no study 'smal'; there are: small"):
        resume_study("smal", store=place)


def stopped_runs(folder: Path, seed: int) -> tuple[StudyRecord, list[TuningEvent]]:
    """The small study, stopped after a few steps again and again."""
    chance, events = random.Random(seed), list[TuningEvent]()
    for _ in range(100):
        left = iter(range(chance.randrange(2, 15)))
        record = run_study(
            spec(),
            store=folder / "stopped.db",
            population=4,
            stop=lambda left=left: next(left, None) is None,
            report=events.append,
        )
        if record.is_complete:
            return record, events
    raise AssertionError("it never came to its end")


def test_stopped_again_and_again_it_ends_as_if_nothing_had_happened(tmp_path: Path, done: StudyRecord) -> None:
    record, events = stopped_runs(tmp_path, seed=1)
    handed_back = [event.study for event in events if isinstance(event, LotHandedBack)]
    assert {"small", "small seeds"} == set(handed_back)
    assert_same_results(record, done)


def test_more_trials_or_seeds_are_added_until_the_best_is_decided(tmp_path: Path) -> None:
    few = ran(tmp_path, seeds=0, trials=2)
    more = ran(tmp_path, seeds=2, trials=4)
    assert [trial for each in more.arms for trial in each.trials[:2]] == [
        trial for each in few.arms for trial in each.trials
    ]
    most = ran(tmp_path, seeds=3, trials=4)
    assert [len(each.repeats) for each in most.arms] == [3, 3]
    assert [each.repeats[:2] for each in most.arms] == [each.repeats for each in more.arms]
    with pytest.raises(TuningError, match="has trained its best settings over seeds already, so arm gru stays at 4"):
        ran(tmp_path, seeds=3, trials=5)
    with pytest.raises(TuningError, match=r"'small' in .* is another one: arm gru differs in hyperparameters and seed"):
        ran(tmp_path, seed=4)
    assert load_record("small", tmp_path / "rnnlab.db") == most


def test_arms_are_added_at_any_time(tmp_path: Path) -> None:
    """Those that are there are not trained again, neither in tuning nor over seeds."""
    first = ran(tmp_path, architectures=["gru"], seeds=2, finalists=2)
    both = ran(tmp_path, architectures=["sh", "gru"], seeds=2, finalists=2)
    assert both.is_complete
    (gru, sh) = both.arms
    assert gru == first.arms[0]
    assert (len(sh.trials), [len(each.trials) for each in sh.finalists]) == (4, [2, 2])
    assert [each.num_trials for each in both.sittings[len(first.sittings) :]] == [4, 4]
    with pytest.raises(TuningError, match="it has sh too, and arms can be added but not left out"):
        ran(tmp_path, architectures=["gru"], seeds=2, finalists=2)


def test_arms_that_are_there_keep_their_names(tmp_path: Path) -> None:
    """With more arms, more is needed to tell them apart."""
    first = ran(tmp_path, seeds=0)
    both = ran(tmp_path, seeds=0, units=[3, 4])
    assert [each.arm.name for each in both.arms] == ["gru", "sh", "gru units 3", "sh units 3"]
    assert [each.labels["units"] for each in both.arms] == [4, 4, 3, 3]
    assert [each.trials for each in both.arms[:2]] == [each.trials for each in first.arms]
    assert ran(tmp_path, seeds=0, units=[3, 4]).arms == both.arms


def test_arms_that_differ_in_their_labels_alone_stay_apart(tmp_path: Path) -> None:
    """The same study again, and with an arm more, for which all need longer names."""
    arms = [{"architectures": ["sh"], "units": 4, "label": label} for label in ("one", "two")]
    changes = {"architectures": None, "units": None, "seeds": 0}
    first = ran(tmp_path, **changes, arms=arms)
    assert [each.arm.name for each in first.arms] == ["sh one", "sh two"]
    assert ran(tmp_path, **changes, arms=arms).arms == first.arms
    third = {"architectures": ["sh"], "units": 3, "label": "three"}
    more = ran(tmp_path, **changes, arms=[*arms, third])
    assert [each.arm.name for each in more.arms] == ["sh one", "sh two", "sh units 3 three"]
    assert [each.labels["label"] for each in more.arms] == ["one", "two", "three"]
    assert more.arms[0].trials == first.arms[0].trials


def test_worker_that_comes_later_finds_what_was_decided(tmp_path: Path) -> None:
    """Whatever it would have chosen itself."""
    ran(tmp_path, trials=4, seeds=0)
    chosen = ran(tmp_path, trials=4, seeds=1)
    store = Store(tmp_path / "rnnlab.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rnnlab.studies.repeats.best_trials", lambda *words: pytest.fail("it decided again"))
        again = ran(tmp_path, trials=4, seeds=2)
    assert [each.repeated.hyperparameters for each in again.arms if each.repeated] == [
        each.repeated.hyperparameters for each in chosen.arms if each.repeated
    ]
    assert store.study_names() == ["small", repeats_name("small")]


def test_scale_is_part_of_the_name_in_the_store(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(TOML + "[scale.smoke]\ntrials = 1\nseeds = 0\n[scale.full]\ntrials = 2\n")
    record = run_study(tmp_path / "small.toml", scale="smoke", store=tmp_path / "rnnlab.db", population=4)
    assert (record.name, [len(each.trials) for each in record.arms]) == ("small-smoke", [1, 1])
    with pytest.raises(TuningError, match="a specification has its scale already"):
        run_study(spec(), scale="smoke", store=tmp_path / "rnnlab.db")


def test_file_of_an_architecture_is_not_needed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study is whole in its store: another machine has no such file."""
    graph = tmp_path / "mine.json"
    graph.write_text(
        '{"nodes": [{"name": "x", "kind": "input"}, {"name": "h", "kind": "hidden"}, {"name": "y", "kind": "output"}],'
        '"edges": [{"source": "x", "target": "h", "delay": 0}, {"source": "h", "target": "h", "delay": 1},'
        '{"source": "h", "target": "y", "delay": 0}]}'
    )
    text = TOML.replace('["gru", "sh"]', '["mine.json:gru"]')
    (tmp_path / "small.toml").write_text(text)
    stop_at_once: Any = lambda: True  # noqa: E731
    run_study(tmp_path / "small.toml", store=tmp_path / "rnnlab.db", population=4, stop=stop_at_once)
    graph.unlink()
    (tmp_path / "small.toml").unlink()
    record = resume_study("small", store=tmp_path / "rnnlab.db", population=4)
    assert record.is_complete
    assert [each.arm.name for each in record.arms] == ["mine:gru"]
    assert isinstance(record.arms[0], ArmRecord)


def test_wrong_table_of_a_paper_is_said_before_anything_is_trained(tmp_path: Path) -> None:
    wrong = spec(paper={"source": "Doe 2020", "form": "tabel"})
    with pytest.raises(TuningError, match=r"paper\.form"):
        run_study(wrong, store=tmp_path / "a.db")
    assert not (tmp_path / "a.db").exists()
