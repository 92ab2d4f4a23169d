"""Workers on a Ray cluster (issue 7, 6): a local one, with a worker killed in the middle."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from rnnlab import TuningError, load_record, run_study
from rnnlab.studies import ray_workers
from rnnlab.tuning.lots import Lots
from rnnlab.tuning.store import Store
from rnnlab.tuning.work import Work
from tests.patience import PATIENCE
from tests.studies.small_specs import assert_same_results, spec

HAS_RAY = find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed (pip install 'rnnlab[cluster]')")

LONG = {"num_steps": 400, "evaluate_every": 100, "batch_size": 4}
CHANGES = {"hyperparameters": LONG, "trials": 8}

PROGRAM = """
    import sys
    from rnnlab import run_study
    from tests.studies.small_specs import spec
    from tests.studies.test_ray import CHANGES
    told = lambda event: print(type(event).__name__, event.study, flush=True)
    given = {"population": 4, "save_every": 10, "grace": 2.0, "report": told}
    print(run_study(spec(**CHANGES), store=sys.argv[1], ray="local", workers=2, **given).is_complete)
"""


def start(place: Path) -> subprocess.Popen[str]:
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": root}
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(place)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def a_worker(place: Path, process: subprocess.Popen[str]) -> int:
    """The process of a worker that trains, as soon as there is one."""
    while process.poll() is None:
        time.sleep(0.2)
        if place.exists():
            store = Store(place)
            owners = [lot.owner for lot in Lots(store, "small").all() if lot.owner is not None]
            store.close()
            if owners:
                return int(owners[0].split(":")[1])
    raise AssertionError(process.communicate()[1])


@needs_ray
def test_killed_worker_of_a_cluster_is_started_again_and_nothing_is_lost(tmp_path: Path) -> None:
    place = tmp_path / "ray.db"
    process = start(place)
    try:
        os.kill(a_worker(place, process), signal.SIGKILL)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 0, err
    told = out.splitlines()
    assert told[-1] == "True"
    assert told.count("TrialEnded small") == 16
    assert [line for line in told if line.startswith("WorkEnded")] == ["WorkEnded small", "WorkEnded small seeds"]
    record = load_record("small", place)
    assert sum(trial.run["num_lost"] for each in record.arms for trial in each.trials) >= 1
    whole = run_study(spec(**CHANGES), store=tmp_path / "one.db", population=4)
    assert_same_results(record, whole)


@needs_ray
def test_file_is_no_store_for_other_machines(tmp_path: Path) -> None:
    with pytest.raises(
        TuningError, match=r"a.db is a file that other machines of 10.0.0.1:6379 do not see: give the URL"
    ):
        run_study(spec(), store=tmp_path / "a.db", ray="10.0.0.1:6379")


def test_missing_ray_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(TuningError, match=r"need ray: pip install 'rnnlab\[cluster\]'"):
        run_study(spec(), store=tmp_path / "a.db", ray="local")


@pytest.mark.parametrize(
    ("resources", "device", "wanted", "count"),
    [
        ({"CPU": 8.0}, "cpu", None, 4),
        ({"CPU": 8.0, "GPU": 3.0}, "cuda", None, 3),
        ({"CPU": 8.0, "GPU": 3.0}, "cuda", 2, 2),
    ],
)
def test_there_is_a_worker_for_each_gpu_or_for_some_cores(
    resources: dict[str, float], device: str, wanted: int | None, count: int
) -> None:
    assert ray_workers._num_tasks(resources, Work(device=device), wanted, 2) == count


def test_cluster_without_what_a_worker_needs_is_refused() -> None:
    with pytest.raises(TuningError, match="the cluster has 0 GPU, a worker needs 1"):
        ray_workers._num_tasks({"CPU": 8.0}, Work(device="cuda"), None, 1)


class FakeRay:
    """As much of Ray as the watcher asks: tasks that end when they are cancelled."""

    class exceptions:  # noqa: N801
        class RayError(Exception):
            pass

        class TaskCancelledError(RayError):
            pass

    def __init__(self, answers: dict[str, object]) -> None:
        self.answers, self.cancelled = answers, list[tuple[str, bool]]()

    def wait(self, tasks: list[str], *, num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        ended = [task for task in tasks if task in self.answers][:num_returns]
        return ended, [task for task in tasks if task not in ended]

    def get(self, task: str) -> object:
        answer = self.answers[task]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def cancel(self, task: str, *, force: bool) -> None:
        self.cancelled.append((task, force))
        self.answers[task] = self.exceptions.TaskCancelledError()


class Silent:
    def look(self) -> float:
        return 0.0

    def finish(self) -> None:
        pass


def test_stop_cancels_the_tasks_and_waits_for_them() -> None:
    ray = FakeRay({})
    asked = iter([False, False, True])
    ray_workers._watch(ray, ["a", "b"], Work(stop=lambda: next(asked, True)), Silent())  # type: ignore[arg-type]
    assert ray.cancelled == [("a", False), ("b", False)]


def test_what_is_wrong_in_a_task_is_said_and_ends_the_others() -> None:
    ray = FakeRay({"a": "store x: the disk is full"})
    with pytest.raises(TuningError, match="store x: the disk is full"):
        ray_workers._watch(ray, ["a", "b"], Work(), Silent())  # type: ignore[arg-type]
    assert ray.cancelled == [("b", False)]
    ray = FakeRay({"a": FakeRay.exceptions.RayError("long\nstory\nthe worker died")})
    with pytest.raises(TuningError, match="a worker on Ray broke down: the worker died"):
        ray_workers._watch(ray, ["a"], Work(), Silent())  # type: ignore[arg-type]


def test_task_that_does_not_stop_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_workers, "STOP_SECONDS", 0.0)
    ray = FakeRay({})
    monkeypatch.setattr(ray, "cancel", lambda task, force: ray.cancelled.append((task, force)))
    ray_workers._watch(ray, ["a"], Work(stop=lambda: True), Silent())  # type: ignore[arg-type]
    assert ray.cancelled == [("a", False), ("a", True)]
