"""Several of an arm's best settings over seeds, of which the best on validation counts: luck does not decide."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnlab import ArmRecord, Finalist, StudyRecord, TuningError, load_record, resume_study, run_study, study_status
from rnnlab.report.report import make_report
from rnnlab.studies.comparison import compare_arms
from rnnlab.studies.expansion import expand
from rnnlab.studies.repeats import decide_repeats, repeated
from rnnlab.studies.run import add_study
from rnnlab.studies.table import study_table
from rnnlab.studies.watcher import Watcher
from rnnlab.tuning.events import TrialEnded, TuningEvent, WorkEnded, WorkStarted
from rnnlab.tuning.lots import Lots
from rnnlab.tuning.store import LOTS, Store
from rnnlab.tuning.trials import Trial
from rnnlab.tuning.tune import best_trials
from tests.report.made_records import spec as made_spec
from tests.report.made_records import trial
from tests.studies.small_specs import assert_same_results, ran, spec

LUCKY = 12
"""A seed with which the best setting of gru in tuning is not the best over seeds."""

Run = tuple[float, float] | None
"""Scores on validation and on test; None: it diverged."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("finalists")


@pytest.fixture(scope="module")
def three(folder: Path) -> StudyRecord:
    return ran(folder, seed=LUCKY, finalists=3)


def made(*settings: Sequence[Run], task: Any = None) -> ArmRecord:
    """An arm whose settings, the best of tuning first, have these runs over seeds."""
    values = made_spec(architectures=["sh"], trials=len(settings), **({} if task is None else {"task": task}))
    (row,) = expand(values)
    sign = -1 if row.arm.is_maximised else 1
    points = enumerate(islice(row.arm.space.grid(2), len(settings)))
    trials = tuple(trial(row.arm, place, point, 1.0 + sign * 0.1 * place) for place, point in points)
    return ArmRecord(
        arm=row.arm,
        labels=row.labels,
        trials=trials,
        finalists=tuple(finalist(row.arm, trials[place], place + 1, runs) for place, runs in enumerate(settings)),
    )


def finalist(arm: Any, best: Trial, place: int, runs: Sequence[Run]) -> Finalist:
    again = repeated(arm, best, len(runs), place)
    (dimension,) = again.space.names
    scores = [run or (None, None) for run in runs]
    trials = tuple(trial(again, number, {dimension: number + 1}, *pair) for number, pair in enumerate(scores))
    return Finalist(arm=again, trials=trials)


def is_better(ours: Sequence[Run], theirs: Sequence[Run], *, is_maximised: bool) -> bool:
    """The rule, in its own words."""
    if ours.count(None) != theirs.count(None):
        return ours.count(None) < theirs.count(None)
    if all(run is None for run in ours):
        return False
    our, their = (sum(run[0] for run in runs if run) / sum(run is not None for run in runs) for runs in (ours, theirs))
    return our > their if is_maximised else our < their


def test_setting_that_was_only_lucky_is_not_the_result() -> None:
    """Neither is the one that is best on test data, which nobody may look at."""
    record = made([(0.9, 0.01), (0.8, 0.01)], [(0.1, 0.7), (0.3, 0.5)], [(0.4, 0.1), (0.2, 0.1)])
    assert record.repeated is not None
    assert record.repeated.name == "sh #2"
    assert record.best == record.trials[0]
    assert record.chosen == record.trials[1]
    assert record.repeats == record.finalists[1].trials
    (contender,) = compare_arms("a study", [record]).contenders
    assert contender.scores == (0.7, 0.5)


@pytest.mark.parametrize("task", [None, {"name": "capacity", "num_inputs": 8}], ids=["lower", "higher"])
@given(
    settings=st.integers(1, 3).flatmap(
        lambda seeds: st.lists(
            st.lists(st.none() | st.tuples(*[st.sampled_from((0.125, 0.25, 0.5))] * 2), min_size=seeds, max_size=seeds),
            min_size=1,
            max_size=4,
        )
    )
)
def test_no_finalist_is_better_than_the_result(task: Any, settings: list[list[Run]]) -> None:
    """Few values, so that many are equal: of equals the first one counts."""
    record = made(*settings, task=task)
    place = [each.trials for each in record.finalists].index(record.repeats)
    maximised = record.arm.is_maximised
    assert not any(is_better(each, settings[place], is_maximised=maximised) for each in settings)
    assert all(is_better(settings[place], each, is_maximised=maximised) for each in settings[:place])


def test_fewer_diverged_seeds_count_more_than_a_better_mean() -> None:
    record = made([(0.01, 0.01), None, (0.01, 0.01)], [None, None, None], [(0.9, 0.9), (0.9, 0.9), (0.9, 0.9)])
    assert record.repeats == record.finalists[2].trials
    nothing = made([None, None], [None, None])
    assert nothing.repeats == nothing.finalists[0].trials


def test_unfinished_finalist_is_not_the_result() -> None:
    whole = made([(0.5, 0.5), (0.5, 0.5)], [(0.1, 0.1), (0.1, 0.1)])
    first, second = whole.finalists
    half = replace(whole, finalists=(first, replace(second, trials=second.trials[:1])))
    assert (half.repeats, half.is_complete) == (first.trials, False)
    none = replace(whole, finalists=tuple(replace(each, trials=each.trials[:1]) for each in whole.finalists))
    assert (none.repeated, none.repeats, none.is_complete) == (first.arm, first.trials[:1], False)
    assert whole.is_complete


def test_best_trials_have_different_points() -> None:
    record = made(*[[(0.5, 0.5)]] * 4)
    first, second, third, _ = record.trials
    again = [replace(first, number=4), replace(second, number=5, value=third.value)]
    trials = [third, first, second, *again, replace(record.trials[3], value=None)]
    assert best_trials(trials, 5, is_maximised=False) == (first, second, third)
    assert best_trials(trials, 2, is_maximised=False) == (first, second)
    worst_first = best_trials(trials, 5, is_maximised=True)
    assert worst_first == (third, again[1], first)


def test_study_trains_every_finalist_over_its_seeds(three: StudyRecord, folder: Path) -> None:
    store = Store(folder / "rnnlab.db")
    names = ["gru", "sh", "gru #2", "sh #2", "gru #3", "sh #3"]
    assert [arm.name for arm in store.arms("small seeds")] == names
    assert three.is_complete
    for each in three.arms:
        ordered = sorted((run for run in each.trials if run.value is not None), key=lambda run: run.value or 0.0)
        assert [one.arm.name for one in each.finalists] == [each.arm.name, f"{each.arm.name} #2", f"{each.arm.name} #3"]
        for one, best in zip(each.finalists, ordered, strict=False):
            seeds = [13, 14, 15]
            assert [run.seed for run in one.trials] == seeds
            same = [run.hyperparameters.changed(seed=best.seed, batch_seed=None) for run in one.trials]
            assert same == [best.hyperparameters] * 3
        rest = [[(run.value, 0.0) if run.value is not None else None for run in one.trials] for one in each.finalists]
        winner = [[(run.value, 0.0) if run.value is not None else None for run in each.repeats]]
        assert not any(is_better(runs, winner[0], is_maximised=False) for runs in rest)
    gru, sh = three.arms
    assert gru.repeated is not None
    assert sh.repeated is not None
    assert (gru.repeated.name, sh.repeated.name) == ("gru #2", "sh")


def test_finalists_are_added_to_a_study_that_has_fewer(three: StudyRecord, tmp_path: Path) -> None:
    one = ran(tmp_path, seed=LUCKY)
    assert [len(each.finalists) for each in one.arms] == [1, 1]
    grown = ran(tmp_path, seed=LUCKY, finalists=3)
    assert [each.finalists[0] for each in grown.arms] == [each.finalists[0] for each in one.arms]
    assert_same_results(grown, three)
    assert Store(tmp_path / "rnnlab.db").arms("small seeds")[:2] == tuple(each.finalists[0].arm for each in one.arms)
    fewer = ran(tmp_path, seed=LUCKY, finalists=2)
    assert fewer.arms == grown.arms
    more = ran(tmp_path, seed=LUCKY, finalists=2, seeds=4)
    assert [[len(one.trials) for one in each.finalists] for each in more.arms] == [[4, 4, 4]] * 2


def test_added_finalists_have_as_many_seeds_as_the_first(tmp_path: Path) -> None:
    ran(tmp_path, seed=LUCKY, seeds=2, architectures=["gru"])
    with pytest.raises(TuningError, match="study 'small' has 2 seeds, which cannot become 1"):
        ran(tmp_path, seed=LUCKY, seeds=1, finalists=2, architectures=["gru"])
    (gru,) = ran(tmp_path, seed=LUCKY, seeds=2, finalists=2, architectures=["gru"]).arms
    assert [len(each.trials) for each in gru.finalists] == [2, 2]


@pytest.mark.parametrize("sampler", ["grid", "random"])
def test_arm_with_few_settings_has_few_finalists(sampler: str, tmp_path: Path) -> None:
    """A point diverges; where trials are drawn, they come again and again."""
    space = {"learning_rate": [0.1, 1e30, 0.01]}
    options = {"optimiser": "sgd", "num_steps": 4, "evaluate_every": 2, "batch_size": 4}
    trials = 3 if sampler == "grid" else 9
    record = ran(tmp_path, space=space, sampler=sampler, trials=trials, finalists=4, seeds=1, hyperparameters=options)
    assert record.is_complete
    assert [len(each.finalists) for each in record.arms] == [2, 2]
    assert study_status("small", tmp_path / "rnnlab.db").is_complete
    for each in record.arms:
        assert len({one.arm.hyperparameters.learning_rate for one in each.finalists} - {1e30}) == 2


def test_study_is_not_complete_before_all_finalists_are(tmp_path: Path) -> None:
    ran(tmp_path, seed=LUCKY)
    store = Store(tmp_path / "rnnlab.db")
    with store.transaction() as connection:
        connection.execute(LOTS.update().where(LOTS.c.study == "small").values(seconds=40.0))
    asked = spec(seed=LUCKY, finalists=3)
    add_study(store, asked, expand(asked))
    status = study_status("small", store)
    assert (status.is_complete, status.num_finalists, len(status.seeds)) == (False, 6, 2)
    # one lot of 4 trials an arm: 10 s each, of which 2 settings of 2 arms are left over 3 seeds
    assert status.seconds_left == pytest.approx(4 * 3 * 10)
    assert not load_record("small", store).is_complete
    decide_repeats(store, "small", store.arms("small"), 3, 3)
    status = study_status("small", store)
    assert [each.arm for each in status.seeds] == ["gru", "sh", "gru #2", "sh #2", "gru #3", "sh #3"]
    assert (status.is_complete, [each.num_ended for each in status.seeds]) == (False, [3, 3, 0, 0, 0, 0])
    assert "gru #2  0 of 3" in str(status)
    assert not load_record("small", store).is_complete


def test_time_left_counts_all_finalists_before_they_are_known(tmp_path: Path) -> None:
    left = iter(range(12 + 1))
    asked = spec(finalists=2)
    run_study(asked, store=tmp_path / "rnnlab.db", population=4, stop=lambda: next(left, None) is None)
    store = Store(tmp_path / "rnnlab.db")
    with store.transaction() as connection:
        connection.execute(LOTS.update().values(seconds=40.0))
    assert sum(lot.is_finished for lot in Lots(store, "small").all()) == 1
    status = study_status("small", store)
    assert status.num_finalists == 4
    assert status.seconds_left == pytest.approx(4 * 10 + 4 * 3 * 10)


def test_file_of_a_record_has_all_finalists(three: StudyRecord, tmp_path: Path) -> None:
    three.save(tmp_path / "record.json.gz")
    again = load_record(tmp_path / "record.json.gz")
    assert_same_scores(again, three)
    assert again.is_complete
    assert "6 of 6 seeds" not in str(again)
    assert "9 of 9 seeds of 3 settings" in str(again)


def test_older_file_has_one_finalist_under_two_keys(done: StudyRecord) -> None:
    values = done.to_json()
    for each in values["arms"]:
        (only,) = each.pop("finalists")
        each |= {"repeated": only["arm"], "repeats": only["trials"]}
    assert StudyRecord.from_json(values) == StudyRecord.from_json(done.to_json())
    for each in values["arms"]:
        each |= {"repeated": None, "repeats": []}
    assert [each.finalists for each in StudyRecord.from_json(values).arms] == [(), ()]


def test_restored_study_goes_on_with_its_finalists(three: StudyRecord, folder: Path, tmp_path: Path) -> None:
    gru, sh = three.arms
    cut = replace(sh.finalists[1], trials=sh.finalists[1].trials[:1])
    short = replace(sh, finalists=(sh.finalists[0], cut, *sh.finalists[2:]))
    replace(three, arms=(gru, short)).save(tmp_path / "record.json")
    again = resume_study(str(tmp_path / "record.json"), store=tmp_path / "rnnlab.db", population=4)
    assert again.is_complete
    assert_same_scores(again, three)
    added = again.sittings[len(three.sittings) :]
    assert [(each.study, each.num_trials) for each in added] == [("small seeds", 2)]  # nothing else is trained again
    names = [arm.name for arm in Store(tmp_path / "rnnlab.db").arms("small seeds")]
    assert names == [arm.name for arm in Store(folder / "rnnlab.db").arms("small seeds")]


def assert_same_scores(ours: StudyRecord, theirs: StudyRecord) -> None:
    """Curves in files are thinned, and a lot that was cut in two is another population."""
    for our, their in zip(ours.arms, theirs.arms, strict=True):
        assert [each.arm for each in our.finalists] == [each.arm for each in their.finalists]
        assert our.repeated == their.repeated
        for one, other in zip(our.all_trials, their.all_trials, strict=True):
            assert (one.arm, one.number, one.point) == (other.arm, other.number, other.point)
            assert (one.hyperparameters, one.scores) == (other.hyperparameters, other.scores)


def test_table_has_the_trials_of_all_finalists(three: StudyRecord) -> None:
    table = study_table(three)
    counts = table[table["stage"] == "seeds"].groupby("arm").size().to_dict()
    assert counts == {name: 3 for arm in ("gru", "sh") for name in (arm, f"{arm} #2", f"{arm} #3")}


def test_report_says_how_the_setting_was_chosen(three: StudyRecord, done: StudyRecord) -> None:
    report = make_report(three)
    page = report.to_html()
    assert "The 3 settings that were best on validation data were each trained again 3 times" in page
    assert "Of these 3, the one with the best mean score on validation data counts." in page.replace("&#x27;", "'")
    gru = three.arms[0]
    assert gru.chosen is not None
    assert report.to_json()["parts"][0]["best_settings"]["gru"] == dict(gru.chosen.point) != dict(gru.trials[0].point)
    plain = make_report(done).to_html()
    assert "The setting that was best on validation data was trained again 3 times" in plain
    assert "mean score on validation data counts" not in plain


def test_watcher_sees_the_finalists_that_a_study_gains(tmp_path: Path) -> None:
    """As with Ray, whose workers tell nothing themselves."""
    ran(tmp_path, seed=LUCKY)
    store, events = Store(tmp_path / "rnnlab.db"), list[TuningEvent]()
    watcher = Watcher(store, "small", "Ray", events.append)
    watcher.look()
    decide_repeats(store, "small", store.arms("small"), 3, 2)
    watcher.look()
    ran(tmp_path, seed=LUCKY, finalists=2)
    watcher.look()
    started = [event for event in events if isinstance(event, WorkStarted) and event.study == "small seeds"]
    assert [len(event.budgets) for event in started] == [2, 4]
    ended = [(event.study, event.is_complete) for event in events if isinstance(event, WorkEnded)]
    assert ended == [("small", True), ("small seeds", True), ("small seeds", True)]
    assert {event.arm for event in events if isinstance(event, TrialEnded)} == {"gru #2", "sh #2"}
