"""Several workers on one machine, each a process of its own; what happens in them is told here.

A worker and its parent are joined by a pipe. Events come through it; a word sent the other way, or a parent that is no
longer there, makes the worker stop as Ctrl-C would.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from rnnlab.errors import RnnlabError, TuningError
from rnnlab.studies.keys import whole
from rnnlab.studies.stages import work_on_stages
from rnnlab.tuning.events import TuningEvent
from rnnlab.tuning.lost import WorkerLost
from rnnlab.tuning.store import Store
from rnnlab.tuning.work import Work

POLL_SECONDS = 0.2
MOST_WORKERS = 4  # for each core: with more, processes mostly wait for one another


@dataclass(frozen=True)
class _Process:
    process: Any
    pipe: "Connection[Any, Any]"


def work_in_processes(study: str, store: str | Path, how: Work, *, num_workers: int) -> None:
    """Work on a study with several processes until it is done, or `how.stop` says so.

    Threads of this machine are shared out; with `device="cuda"` each worker has the next GPU in turn.

    Args:
        study: its name.
        store: where it is.
        how: everything about the workers; `report` and `stop` are called here.
        num_workers: how many processes.

    Raises:
        TuningError: something is wrong with what they were asked to do, or all of them broke down.
    """
    context = multiprocessing.get_context("spawn")
    threads = max(1, torch.get_num_threads() // num_workers)
    workers: list[_Process] = []
    try:
        for number in range(num_workers):
            ours, theirs = context.Pipe()
            mine = replace(how, device=device_of(how.device, number), report=None, stop=None)
            process = context.Process(target=_work, args=(study, str(store), mine, threads, theirs), daemon=True)
            process.start()
            theirs.close()
            workers.append(_Process(process, ours))
        _watch(study, workers, how)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


def checked_workers(workers: int) -> int:
    """A number of processes for this machine.

    Raises:
        TuningError: it is no such number, or the machine has too few cores.
    """
    found, cores = whole("workers", workers, 1), os.cpu_count() or 1
    if found > MOST_WORKERS * cores:
        raise TuningError(f"{found} workers are too many for {cores} cores: give at most {MOST_WORKERS * cores}")
    return found


def device_of(device: torch.device | str, number: int) -> torch.device | str:
    """The device of a worker: each takes the next of several GPUs, unless a particular one is given.

    >>> device_of("cpu", 3)
    'cpu'
    """
    if str(device) != "cuda":
        return device
    return f"cuda:{number % max(1, torch.cuda.device_count())}"


def _watch(study: str, workers: Sequence[_Process], how: Work) -> None:
    """Pass on the events of workers until all have ended."""
    alive, failures, is_told, is_done = list(workers), list[str](), False, False
    while alive:
        for pipe in wait([worker.pipe for worker in alive], timeout=POLL_SECONDS):
            worker = next(each for each in alive if each.pipe is pipe)
            message = _received(worker)
            if isinstance(message, TuningEvent):
                if how.report is not None:
                    how.report(message)
                continue
            alive.remove(worker)
            worker.process.join()
            if isinstance(message, str):
                failures.append(message)
            elif message is None:
                _tell_lost(study, worker, len(alive), how)
            else:
                is_done = is_done or message
        if not is_told and (failures or (how.stop is not None and how.stop())):
            is_told = True
            for worker in alive:
                with suppress(OSError):
                    worker.pipe.send("stop")
    if failures:
        raise TuningError(failures[0])
    if not is_done and not is_told:
        raise TuningError(f"all {len(workers)} workers of study {study} broke down; what they recorded is intact")


def _received(worker: _Process) -> TuningEvent | str | bool | None:
    """An event, an error in words, whether the study is done, or None if the process is gone."""
    try:
        return worker.pipe.recv()
    except (EOFError, OSError):
        return None


def _tell_lost(study: str, worker: _Process, num_left: int, how: Work) -> None:
    if how.report is not None:
        process = worker.process
        how.report(WorkerLost(study=study, process=process.pid, status=process.exitcode, num_left=num_left))


def _work(study: str, place: str, how: Work, threads: int, pipe: "Connection[Any, Any]") -> None:
    """The work of one process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent says what to do
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    torch.set_num_threads(threads)
    answer = _answer(study, place, replace(how, report=_teller(pipe), stop=_stop(pipe)))
    with suppress(OSError):
        pipe.send(answer)


def _answer(study: str, place: str, how: Work) -> bool | str:
    try:
        store = Store(place)
        try:
            return work_on_stages(store, study, how)
        finally:
            store.close()
    except RnnlabError as error:
        return str(error)


def _teller(pipe: "Connection[Any, Any]") -> Callable[[TuningEvent], None]:
    def tell(event: TuningEvent) -> None:
        with suppress(OSError):  # the parent may be gone, which `stop` soon notices
            pipe.send(event)

    return tell


def _stop(pipe: "Connection[Any, Any]") -> Callable[[], bool]:
    def is_told() -> bool:
        try:
            return pipe.poll()
        except OSError:
            return True

    return is_told
