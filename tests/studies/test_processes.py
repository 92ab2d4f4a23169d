"""Several workers on one machine: none of their work is lost or doubled (issue 7, 5)."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rnnlab import TuningError, list_studies, load_record, run_study, study_status
from rnnlab.studies.processes import device_of
from rnnlab.tuning.events import LotHandedBack, Trained, TrialEnded, TuningEvent, WorkStarted
from rnnlab.tuning.lost import WorkerLost
from tests.studies.small_specs import assert_same_results, spec
from tests.tuning.small_studies import wait_until

LONG = {"num_steps": 60, "evaluate_every": 20, "batch_size": 4}


def killed(events: list[TuningEvent]) -> Callable[[TuningEvent], None]:
    """A listener that kills the first worker of which it hears that it trains."""

    def hear(event: TuningEvent) -> None:
        events.append(event)
        if isinstance(event, Trained) and not any(isinstance(each, Trained) for each in events[:-1]):
            first = next(each for each in events if isinstance(each, WorkStarted))
            os.kill(int(first.worker.split(":")[1]), signal.SIGKILL)

    return hear


def test_two_workers_of_which_one_is_killed_end_as_one_would(tmp_path: Path) -> None:
    events: list[TuningEvent] = []
    changes = {"architectures": ["sh"], "hyperparameters": LONG, "trials": 16}
    record = run_study(
        spec(**changes),
        store=tmp_path / "two.db",
        population=4,
        workers=2,
        report=killed(events),
        report_every=5,
        save_every=5,
        grace=1.0,
    )
    assert record.is_complete
    whole = run_study(spec(**changes), store=tmp_path / "one.db", population=4)
    assert_same_results(record, whole)
    (lost,) = [event for event in events if isinstance(event, WorkerLost)]
    assert (lost.status, lost.num_left) == (-signal.SIGKILL, 1)
    ended = [(event.study, event.arm, event.number) for event in events if isinstance(event, TrialEnded)]
    assert len(ended) >= len(set(ended)) == 16 + 3
    assert len({event.worker for event in events if isinstance(event, WorkStarted)}) >= 2


def test_workers_are_stopped_and_the_study_gone_on_with(tmp_path: Path) -> None:
    events: list[TuningEvent] = []

    def is_asked() -> bool:
        return any(isinstance(event, Trained) for event in events)

    small = spec(architectures=["sh"], trials=8)
    given = {"store": tmp_path / "a.db", "population": 4, "workers": 2, "report": events.append, "report_every": 1}
    record = run_study(small, **given, stop=is_asked)
    assert not record.is_complete
    assert any(isinstance(event, LotHandedBack) for event in events)
    assert study_status("small", tmp_path / "a.db").workers == ()
    events.clear()
    whole = run_study(small, store=tmp_path / "whole.db", population=4)
    assert_same_results(run_study(small, store=tmp_path / "a.db", population=4), whole)


def test_what_is_wrong_in_a_worker_is_said_here(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file where a folder should be")
    with pytest.raises(TuningError, match=r"checkpoints"):
        run_study(
            spec(architectures=["sh"]),
            store=tmp_path / "a.db",
            workers=2,
            checkpoints=tmp_path / "checkpoints",
            population=4,
        )
    with pytest.raises(TuningError, match="workers must be an integer of at least 1, got 0"):
        run_study(spec(), store=tmp_path / "b.db", workers=0)
    with pytest.raises(TuningError, match=r"100000 workers are too many for \d+ cores: give at most \d+"):
        run_study(spec(), store=tmp_path / "b.db", workers=100_000)
    assert not (tmp_path / "b.db").exists()


PROGRAM = """
    import sys
    from rnnlab import run_study
    from tests.studies.small_specs import spec
    from tests.studies.test_processes import LONG
    if __name__ == "__main__":
        long = {**LONG, "num_steps": 100_000, "evaluate_every": 50_000}
        given = {"architectures": ["sh"], "hyperparameters": long, "trials": 8}
        run_study(spec(**given), store=sys.argv[1], population=4, workers=2, save_every=10)
"""


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    program, place = tmp_path / "program.py", tmp_path / "a.db"
    program.write_text(textwrap.dedent(PROGRAM))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen([sys.executable, str(program), str(place)], env=environment)
    try:
        wait_until(lambda: _num_at_work(place) == 2)
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: _num_at_work(place) == 0)
    record = load_record("small", place)
    assert [len(each.trials) for each in record.arms] == [8]


def _num_at_work(place: Path) -> int:
    time.sleep(0.3)
    return len(study_status("small", place).workers) if list_studies(place) else 0


def test_gpus_are_given_out_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert [str(device_of("cuda", number)) for number in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert device_of("cuda:1", 0) == "cuda:1"
