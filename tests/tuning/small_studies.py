"""Small studies for the tests, workers in processes of their own, and how two studies are compared."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy

from rnnlab import AbstractTask, Hyperparameters, TuningError, architecture, task
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.dimensions import Category, Float
from rnnlab.tuning.lots import Lots
from rnnlab.tuning.space import SearchSpace
from rnnlab.tuning.store import LOTS, Store
from rnnlab.tuning.trials import Trial, Trials
from rnnlab.tuning.work import Work
from rnnlab.tuning.worker import work
from tests.patience import PATIENCE

STUDY = "a study"
GRACE = 1.0  # seconds; a store that waits for locks must not be slower


def adding() -> AbstractTask:
    return task("adding", length=6, num_evaluation=20, num_training=100)


def small_space() -> SearchSpace:
    """Some of its points diverge, and some members stop before others."""
    return SearchSpace(
        [
            Category("optimiser", ("sgd", "adam")),
            Float("learning_rate", 1e-3, 1e5, "log"),
            Float("gate_bias", 0.0, 6.0),
        ]
    )


def arm(name: str = "gru", **values: Any) -> Arm:
    """A small arm; `units`, `cell` and `num_steps` build it, the rest are its own values."""
    problem = values.pop("task", None) or adding()
    network = architecture(
        values.pop("cell", "gru"),
        input_size=problem.input_size,
        output_size=problem.output_size,
        units=values.pop("units", 4),
        encoding=problem.encoding,
    )
    steps = values.pop("num_steps", 30)
    given: dict[str, Any] = {
        "space": small_space(),
        "num_trials": 8,
        "sampler": "random",
        "hyperparameters": Hyperparameters(num_steps=steps, evaluate_every=10, batch_size=4),
        "seed": 3,
    }
    return Arm(name=name, architecture=network, task=problem, **(given | values))


def trials_of(store: Store, arms: list[Arm], study: str = STUDY) -> list[Trial]:
    return [trial for each in arms for trial in Trials(store, study, each).all()]


def result(trial: Trial) -> dict[str, Any]:
    """All that must not depend on who trained a trial, when, and how often it was interrupted."""
    row = {name: value for name, value in vars(trial).items() if name not in ("wall_seconds", "run")}
    return row | {"precision": trial.run.get("precision"), "path": trial.run.get("path")}


def assert_same_trials(ours: list[Trial], theirs: list[Trial]) -> None:
    assert [(each.arm, each.number) for each in ours] == [(each.arm, each.number) for each in theirs]
    for our, their in zip(ours, theirs, strict=True):
        assert result(our) == result(their)


def undisturbed(folder: Path, arms: list[Arm], **how: Any) -> list[Trial]:
    """The trials of a study that one worker does without interruption."""
    store = Store(folder / "undisturbed.db")
    store.add_study(STUDY, arms)
    assert work(store, STUDY, arms, Work(**how))
    return trials_of(store, arms)


def assert_nothing_is_lost_or_doubled(store: Store, arms: list[Arm]) -> None:
    """Every number once, in the arm and in the lots; and in Optuna's own tables."""
    for each in arms:
        wanted = list(range(each.num_trials))
        assert [trial.number for trial in Trials(store, STUDY, each).all()] == wanted
        assert [number for lot in Lots(store, STUDY).all() if lot.arm == each.name for number in lot.numbers] == wanted
        frozen = store.optuna.get_all_trials(store.study_id(STUDY, each.name))
        assert sorted(trial.user_attrs["number"] for trial in frozen) == wanted
        assert {trial.state.name for trial in frozen} <= {"COMPLETE", "PRUNED"}
    assert all(lot.is_finished and lot.owner is None for lot in Lots(store, STUDY).all())


def _work(place: str, folder: str, population: int, save_every: int, slowness: float, grace: float) -> None:
    """What a process does: work, as a worker that needs some time for each step."""
    import torch

    torch.set_num_threads(1)

    def never() -> bool:
        time.sleep(slowness)
        return False

    store = Store(place)
    how = Work(population=population, checkpoints=folder, save_every=save_every, grace=grace, stop=never)
    work(store, STUDY, store.arms(STUDY), how)


_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.tuning.warm"])


def start_worker(
    place: str, folder: Path, *, population: int = 4, save_every: int = 5, slowness: float = 0.0, grace: float = GRACE
) -> Any:
    """A worker in a process of its own."""
    process = _CONTEXT.Process(target=_work, args=(place, str(folder), population, save_every, slowness, grace))
    process.start()
    return process


def put_to_sleep(process: Any, place: str) -> None:
    """Stop a worker at a moment when it holds no lock of the store: one that sleeps in the middle of a write keeps all
    others waiting, whatever they do."""

    def is_asleep_without_a_lock() -> bool:
        os.kill(process.pid, signal.SIGSTOP)
        if is_writable(place):
            return True
        os.kill(process.pid, signal.SIGCONT)
        return False

    wait_until(is_asleep_without_a_lock)


def is_writable(place: str, *, lock_seconds: float = 0.2) -> bool:
    """Whether the lots of a store can be written to without much waiting."""
    try:
        store = Store(place, lock_seconds=lock_seconds)
        with store.transaction() as connection:
            if store.is_server:
                connection.execute(sqlalchemy.text(f"SET LOCAL lock_timeout = {round(lock_seconds * 1000)}"))
            connection.execute(LOTS.update().values(number=LOTS.c.number))
    except TuningError:
        return False
    return True


@contextmanager
def ended_at_last(processes: list[Any]) -> Iterator[None]:
    """Whatever happens to a test, its processes end with it."""
    try:
        yield
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
            process.join()


def wait_until(is_so: Any) -> None:
    """Look until something is so; the test fails if it takes too long."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
