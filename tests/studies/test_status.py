"""How studies stand (issue 7, 4): progress, best so far, infeasible, workers, time left."""

from pathlib import Path

import pytest

from rnnlab import StudyRecord, TuningError, list_studies, run_study, study_status
from rnnlab.studies.status import StudyEntry
from rnnlab.tuning.events import LotClaimed, Trained, TuningEvent
from rnnlab.tuning.lots import Lots
from rnnlab.tuning.store import LOTS, Store
from tests.studies.small_specs import spec


def test_complete_study_says_what_came_of_it(done: StudyRecord, done_folder: Path) -> None:
    status = study_status("small", done_folder / "rnnlab.db")
    assert status.is_complete
    assert status.seconds_left == 0
    assert status.workers == status.lost == ()
    for standing, each in zip(status.arms, done.arms, strict=True):
        assert each.best is not None
        assert (standing.num_ended, standing.best, standing.best_trial) == (4, each.best.value, each.best.number)
        assert standing.num_infeasible == sum(trial.state == "infeasible" for trial in each.trials)
    assert [(each.arm, each.num_ended, each.budget) for each in status.seeds] == [("gru", 3, 3), ("sh", 3, 3)]
    lines = str(status).splitlines()
    assert lines[0] == f"study small in {done_folder / 'rnnlab.db'}: complete"
    assert lines[1].split() == ["arm", "trials", "infeasible", "best"]
    assert lines[2].split()[:4] == ["gru", "4", "of", "4"]


def half_done(place: Path) -> Store:
    """Half of the trials of each arm have ended; somebody has the next lot of gru."""
    events: list[TuningEvent] = []

    def stop() -> bool:
        claimed = [place for place, event in enumerate(events) if isinstance(event, LotClaimed)]
        return len(claimed) == 3 and any(isinstance(event, Trained) for event in events[claimed[2] :])

    run_study(spec(), store=place, population=2, report=events.append, report_every=2, stop=stop)
    store = Store(place)
    lots = Lots(store, "small")
    (unfinished,) = [lot for lot in lots.all() if not lot.is_finished]
    assert unfinished.owner is None
    assert lots.take_over("machine:1:a") is not None
    return store


def test_unfinished_study_says_who_works_on_it_and_how_long_it_takes(tmp_path: Path) -> None:
    store = half_done(tmp_path / "rnnlab.db")
    with store.transaction() as connection:
        connection.execute(LOTS.update().where(LOTS.c.finished.isnot(None)).values(seconds=100.0))
        now = store.now
        waiting = {"seconds": 20.0, "claimed": now - 10.0, "heartbeat": now - 3.0}
        connection.execute(LOTS.update().where(LOTS.c.finished.is_(None)).values(**waiting))
    status = study_status("small", store)
    assert not status.is_complete
    (worker,) = status.workers
    assert (worker.name, worker.num_trials) == ("machine:1:a", 2)
    assert worker.silent_seconds == pytest.approx(3, abs=2)
    assert [each.num_ended for each in status.arms] == [2, 2]
    # 50 s a trial: 4 of tuning are left, of which one lot has had 30 s; then 3 seeds of 2 arms
    assert status.seconds_left == pytest.approx(4 * 50 - 30 + 6 * 50, abs=2)
    assert "4 of 8 trials, about 7 min 50 s left, 1 worker active" in str(status).replace("49 s", "50 s")
    with store.transaction() as connection:
        connection.execute(LOTS.update().values(grace=1.0))
    late = study_status("small", store)
    assert (late.workers, [each.name for each in late.lost]) == ((), ["machine:1:a"])
    assert "no worker active" in str(late)


def test_two_workers_halve_the_time(tmp_path: Path) -> None:
    store = half_done(tmp_path / "rnnlab.db")
    before = study_status("small", store)
    lots = [lot for lot in Lots(store, "small").all() if lot.arm == "sh"]
    other = "sh" if len(lots) == 1 else "gru"
    earlier = [lot for lot in Lots(store, "small").all() if lot.arm == other]
    point = earlier[0].points[0]
    assert Lots(store, "small").claim(other, earlier, (point, point), "machine:2:b") is not None
    after = study_status("small", store)
    assert len(after.workers) == 2
    assert before.seconds_left is not None
    assert after.seconds_left is not None
    assert after.seconds_left < 0.75 * before.seconds_left


def test_study_without_an_ended_trial_has_no_estimate(tmp_path: Path) -> None:
    run_study(spec(), store=tmp_path / "rnnlab.db", population=2, stop=lambda: True)
    status = study_status("small", tmp_path / "rnnlab.db")
    assert status.seconds_left is None
    assert "left" not in str(status)


def test_studies_are_listed_without_their_second_stage(done: StudyRecord, done_folder: Path, tmp_path: Path) -> None:
    assert list_studies(done_folder / "rnnlab.db") == (StudyEntry("small", "", 2, 14, 14, True),)
    run_study(spec(title="of two"), store=tmp_path / "rnnlab.db", stop=lambda: True)
    (entry,) = list_studies(tmp_path / "rnnlab.db")
    assert (entry.title, entry.num_ended, entry.is_complete) == ("of two", 0, False)
    assert list_studies(tmp_path / "nothing.db") == ()
    assert not (tmp_path / "nothing.db").exists()


def test_study_that_is_not_there_is_named(done: StudyRecord, done_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TuningError, match="has no study 'samll'; there are: small"):
        study_status("samll", done_folder / "rnnlab.db")
    with pytest.raises(TuningError, match="there is no store"):
        study_status("small", tmp_path / "nothing.db")
