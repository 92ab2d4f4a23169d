"""Workers on a Ray cluster: one task for each GPU, or for some cores. A task whose node is lost is started elsewhere.

The tasks know nothing of each other but what is in the store, so that is where progress is read from too.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rnnlab.errors import RnnlabError, TuningError
from rnnlab.studies.keys import whole
from rnnlab.studies.stages import work_on_stages
from rnnlab.studies.watcher import Watcher
from rnnlab.training.interruption import Interruption
from rnnlab.tuning.checkpoints import checkpoint_root
from rnnlab.tuning.store import Store
from rnnlab.tuning.work import Work

LOCAL = "local"
RETRIES = 10
STOP_SECONDS = 60.0
MISSING = "workers on Ray need ray: pip install 'rnnlab[cluster]'"


def work_on_ray(
    study: str,
    store: str | Path,
    how: Work,
    *,
    address: str,
    num_workers: int | None = None,
    cpus_per_worker: int = 1,
) -> None:
    """Work on a study with tasks on a Ray cluster until it is done, or `how.stop` says so.

    Args:
        study: its name.
        store: where it is; for a cluster of several machines a PostgreSQL server.
        how: everything about the workers; `report` and `stop` are called here. With `device="cuda"` each task has one
            GPU, otherwise `cpus_per_worker` cores.
        address: of the cluster, as `ray.init` takes it; `local` starts one on this machine, and ends it.
        num_workers: how many tasks; by default as many as the cluster has GPUs, or cores for.
        cpus_per_worker: how many cores a task has.

    Raises:
        TuningError: Ray is not installed, or cannot be reached; the store is a file, which other machines do not see;
            or something is wrong with what the tasks were asked to do.
    """
    ray = _imported()
    cpus_per_worker = whole("cpus_per_worker", cpus_per_worker, 1)
    place = Store(store)
    try:
        if address != LOCAL and not place.is_server:
            raise TuningError(
                f"store {place.place} is a file that other machines of {address} do not see: "
                "give the URL of a PostgreSQL database, postgresql://USER@HOST/NAME"
            )
        place.arms(study)
        where = str(store) if place.is_server else str(Path(store).absolute())
        root = checkpoint_root(place, how.checkpoints).absolute()
        with _Cluster(ray, address) as resources:
            count = _num_tasks(resources, how, num_workers, cpus_per_worker)
            needs = {"num_cpus": cpus_per_worker, "num_gpus": int(_is_gpu(how))}
            task = ray.remote(**needs, max_retries=RETRIES)(_work)
            theirs = replace(how, device=str(how.device), checkpoints=root, report=None, stop=None)
            tasks = [task.remote(study, where, theirs, cpus_per_worker) for _ in range(count)]
            _watch(ray, tasks, how, Watcher(place, study, f"{count} tasks of Ray {address}", how.report))
    finally:
        place.close()


def _imported() -> Any:
    try:
        import ray
    except ImportError as error:
        raise TuningError(MISSING) from error
    return ray


class _Cluster:
    """A connection to Ray inside a `with`; a connection that was there before is used, and stays."""

    def __init__(self, ray: Any, address: str) -> None:
        self._ray, self._address = ray, address
        self._is_ours = not ray.is_initialized()

    def __enter__(self) -> Mapping[str, float]:
        if self._is_ours:
            where: dict[str, Any] = {"address": self._address}
            if self._address == LOCAL:
                where |= {"include_dashboard": False}
            try:
                self._ray.init(**where, logging_level="error", log_to_driver=False)
            except (ConnectionError, RuntimeError, ValueError) as error:
                reason = str(error).strip().partition("\n")[0]
                raise TuningError(f"Ray at {self._address} cannot be reached: {reason}") from error
        return self._ray.cluster_resources()

    def __exit__(self, *raised: object) -> None:
        if self._is_ours:
            self._ray.shutdown()


def _is_gpu(how: Work) -> bool:
    return torch.device(how.device).type == "cuda"


def _num_tasks(resources: Mapping[str, float], how: Work, wanted: int | None, cpus_per_worker: int) -> int:
    kind, each = ("GPU", 1) if _is_gpu(how) else ("CPU", cpus_per_worker)
    fitting = int(resources.get(kind, 0)) // each
    if fitting < 1:
        raise TuningError(f"the cluster has {resources.get(kind, 0):g} {kind}, a worker needs {each}")
    return fitting if wanted is None else wanted


def _work(study: str, place: str, how: Work, threads: int) -> bool | str:
    """What a task does: whether the study is done, or what is wrong."""
    torch.set_num_threads(threads)
    try:
        store = Store(place)
        try:
            with Interruption() as interruption:  # Ray cancels a task as Ctrl-C would
                return work_on_stages(store, study, replace(how, stop=interruption))
        finally:
            store.close()
    except RnnlabError as error:
        return str(error)


def _watch(ray: Any, tasks: list[Any], how: Work, watcher: Watcher) -> None:
    """Tell what happens until all tasks have ended."""
    end: float | None = None
    failure: str | None = None
    while tasks:
        ended, tasks = ray.wait(tasks, num_returns=1, timeout=watcher.look())
        for task in ended:
            answer = _answer(ray, task)
            failure = failure or (answer if isinstance(answer, str) else None)
        is_asked = failure is not None or (how.stop is not None and how.stop())
        if is_asked and end is None:
            end = time.monotonic() + STOP_SECONDS
            _cancel(ray, tasks, is_forced=False)
        elif end is not None and time.monotonic() > end:
            _cancel(ray, tasks, is_forced=True)
            break
    watcher.look()
    watcher.finish()
    if failure is not None:
        raise TuningError(failure)


def _cancel(ray: Any, tasks: list[Any], *, is_forced: bool) -> None:
    for task in tasks:
        ray.cancel(task, force=is_forced)


def _answer(ray: Any, task: Any) -> bool | str:
    try:
        return ray.get(task)
    except ray.exceptions.TaskCancelledError:
        return False
    except ray.exceptions.RayError as error:
        return f"a worker on Ray broke down: {str(error).strip().splitlines()[-1]}"
