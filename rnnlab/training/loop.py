"""The training loop: one readable way for one network or a population.

    sample - forward - loss of each member - backward - clip, L2, update of each member - divergence    (`step.py`)
    every so many steps: check for divergence - evaluate - stop early - take out ended members - save a checkpoint

A step never makes the host wait for the device; only what happens every so many steps does.
"""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import torch

from rnnlab.architecture.architecture import Architecture
from rnnlab.engine.model import Model
from rnnlab.errors import TrainingError
from rnnlab.integers import as_integer
from rnnlab.tasks.task import AbstractTask
from rnnlab.training.checkpoints import Checkpoint, CheckpointStore
from rnnlab.training.events import Event, Finished, Saved, Started
from rnnlab.training.fitting import check_fit, run_description
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.training.numbers import starting_numbers
from rnnlab.training.pace import Pace, Saves, saves
from rnnlab.training.population import Population
from rnnlab.training.room import check_room
from rnnlab.training.run import Run
from rnnlab.training.saving import Snapshot


def train(
    architecture: Architecture,
    task: AbstractTask,
    hyperparameters: Hyperparameters | Sequence[Hyperparameters] | None = None,
    *,
    start: Model | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    path: str = "auto",
    precision: str = "float32",
    use_graph: bool | None = None,
    compact: bool = True,
    report: Callable[[Event], None] | None = None,
    report_every: int = 100,
    checkpoint: str | Path | None = None,
    save_every: int | timedelta = 1000,
    resume: bool = False,
    stop: Callable[[], bool] | None = None,
) -> Run:
    """Train a network, or a population of networks of one architecture, on a task.

    Args:
        architecture: what to train; its widths must fit the task.
        task: what to train it on. Training uses the split `train`, evaluation `validation` and, at the end, `test`.
        hyperparameters: those of one network, or for a population a sequence with one for each member.
        start: a trained model to begin with, for all members, or a population with one for each; it is not changed. By
            default, each member draws its parameters from its own seed.
        seed: the seed of batches, which all members share, and with each member's own seed that of its weight noise and
            dropout. So each member is trained as it would be alone.
        device: where to train.
        path, precision: as in `Model`.
        use_graph: whether steps run as a CUDA graph. By default they do on a GPU, except for streams that are cut
            within a period, and networks that read the future on sequences of different lengths.
        compact: whether to take members that have ended out of the population, once they are half of it, so that the
            others run faster. Results do not depend on it.
        report: a function that is called with every event (`rnnlab.training.events`).
        report_every: every how many steps the host looks at the losses and checks for divergence.
        checkpoint: a folder to save the run in, so that it can be resumed after an interruption.
        save_every: the number of steps, or the time, between saves; time is stretched if saving takes a large part of
            it. The run is also saved at the end.
        resume: whether to continue from the checkpoint in that folder.
        stop: a function that is called after every step; once it returns True, the run is saved and returned
            incomplete.

    Returns:
        The model with the parameters that were best on validation, and how each member fared. A member that was stopped
        before its first evaluation has the parameters that it came to.

    Raises:
        TrainingError: hyperparameters or a task do not fit together.
        CheckpointError: a checkpoint cannot be written or read, or belongs to another run.

    >>> from rnnlab import architecture, task
    >>> adding = task("adding", length=10, num_evaluation=100)
    >>> network = architecture("lstm", input_size=2, output_size=1, units=8)
    >>> run = train(network, adding, Hyperparameters(num_steps=20, evaluate_every=10).with_seeds(2))
    >>> [(member.outcome, member.curve.steps) for member in run.members]
    [('finished', (10, 20)), ('finished', (10, 20))]
    """
    steps = training(
        architecture,
        task,
        hyperparameters,
        start=start,
        seed=seed,
        device=device,
        path=path,
        precision=precision,
        use_graph=use_graph,
        compact=compact,
        report=report,
        report_every=report_every,
        checkpoint=checkpoint,
        save_every=save_every,
        resume=resume,
        stop=stop,
    )
    (run,) = train_together([steps])
    return run


P = ParamSpec("P")


class Training(Generator[None, None, Run]):
    """A run that pauses after every step. Each step is done on the run's own device.

    Kernels are launched on CUDA's current device, wherever their tensors are.
    """

    def __init__(self, steps: Generator[None, None, Run], device: torch.device) -> None:
        self.device, self._steps = device, steps

    def send(self, value: None, /) -> None:
        """Do the next step."""
        with self._at_its_place():
            return self._steps.send(value)

    def throw(self, *exception: Any) -> None:
        """Raise an exception where the run paused, which ends it."""
        with self._at_its_place():
            return self._steps.throw(*exception)

    def _at_its_place(self) -> AbstractContextManager[Any]:
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()


def _on_its_device(steps: Callable[P, Generator[None, None, Run]]) -> Callable[P, Training]:
    """A function that makes runs on the device named by its argument `device`."""

    @wraps(steps)
    def made(*arguments: P.args, **options: P.kwargs) -> Training:
        device: Any = options.get("device", "cpu")
        return Training(steps(*arguments, **options), torch.device(device))

    return made


@_on_its_device
def training(
    architecture: Architecture,
    task: AbstractTask,
    hyperparameters: Hyperparameters | Sequence[Hyperparameters] | None = None,
    *,
    start: Model | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    path: str = "auto",
    precision: str = "float32",
    use_graph: bool | None = None,
    compact: bool = True,
    report: Callable[[Event], None] | None = None,
    report_every: int = 100,
    checkpoint: str | Path | None = None,
    save_every: int | timedelta | Pace = 1000,
    resume: bool = False,
    stop: Callable[[], bool] | None = None,
) -> Generator[None, None, Run]:
    """What `train` does, for callers that do something between steps: it yields after each step, and returns the run.

    Runs that take turns may share a `Pace` of saving.
    """
    members = _members(hyperparameters)
    report_every = as_integer(report_every, "report_every", TrainingError, 1)
    seed = as_integer(seed, "seed", TrainingError, 0)
    when = saves(save_every)
    check_fit(architecture, task, members)
    if torch.device(device).type == "cpu":
        check_room(architecture, task, members)
    told = report or _nothing
    numbers = None if start is None else starting_numbers(start, architecture, members)
    description = run_description(architecture, task, members, seed, device, path, precision, numbers)
    store, snapshot = _opened(checkpoint, resume, description)
    population = Population(
        architecture,
        task,
        members,
        seed=seed,
        device=torch.device(device),
        path=path,
        precision=precision,
        use_graph=use_graph,
        report=told,
        start=numbers,
        snapshot=snapshot and Snapshot.of(snapshot.tensors, snapshot.record, torch.device(device)),
    )
    started = time.perf_counter()
    told(_started(population))
    with store.held() if store is not None else nullcontext():
        yield from _steps(population, report_every, compact, store, when, stop or _never)
        if store is not None:
            _save(population, store)
    run = population.run(is_single=isinstance(hyperparameters, Hyperparameters | None))
    seconds = time.perf_counter() - started
    told(
        Finished(
            step=population.num_steps,
            best=population.best_scores(),
            num_infeasible=sum(not member.is_feasible for member in run.members),
            is_complete=run.is_complete,
            seconds=seconds,
        )
    )
    return run


def train_together(runs: Sequence[Training]) -> list[Run]:
    """Do several runs, a step of each in turn: on a GPU their steps overlap if one population alone leaves room."""
    streams = [own_stream(run.device) if len(runs) > 1 else nullcontext() for run in runs]
    found: dict[int, Run] = {}
    try:
        while len(found) < len(runs):
            for number, (steps, stream) in enumerate(zip(runs, streams, strict=True)):
                if number not in found:
                    with stream:
                        run = _run_after_a_step(steps)
                    if run is not None:
                        found[number] = run
    finally:
        for steps in runs:  # whatever happened, checkpoint folders are released
            steps.close()
    return [found[number] for number in range(len(runs))]


def own_stream(device: torch.device) -> AbstractContextManager[Any]:
    """A stream of its own, on which a GPU works beside what it does elsewhere; nothing on a CPU."""
    return torch.cuda.stream(torch.cuda.Stream(device)) if device.type == "cuda" else nullcontext()


def _run_after_a_step(steps: Training) -> Run | None:
    """Do a step; returns the run if it has ended."""
    try:
        next(steps)
    except StopIteration as ended:
        return ended.value
    return None


def _steps(
    population: Population,
    report_every: int,
    compact: bool,
    store: CheckpointStore | None,
    when: Saves,
    stop: Callable[[], bool],
) -> Generator[None]:
    """Train step by step, until all members have ended or `stop` says so."""
    while not population.has_ended:
        population.step()
        if population.num_steps % report_every == 0 or population.is_evaluation_due:
            population.look()
        if population.is_evaluation_due:  # also if the look has found that no member is active any longer
            population.evaluate()
        if compact and population.num_unfinished <= population.num_rows / 2:
            population.compact()
        if store is not None and when.is_due(population.num_steps):
            population.wait()  # so that steps still on their way do not count as the time of saving
            began = time.perf_counter()
            _save(population, store)
            when.took(time.perf_counter() - began)
        if stop():
            return
        yield


def _save(population: Population, store: CheckpointStore) -> None:
    snapshot = population.snapshot()
    store.save(snapshot.tensors(), snapshot.record())
    population.report(Saved(step=population.num_steps))


def _opened(
    folder: str | Path | None, resume: bool, description: dict[str, Any]
) -> tuple[CheckpointStore | None, Checkpoint | None]:
    """Where to save the run, and the checkpoint to resume from, if any."""
    if folder is None:
        if resume:
            raise TrainingError("resume needs a checkpoint: say in which folder it is")
        return None, None
    store = CheckpointStore(folder, description)
    if resume:
        return store, store.load()
    store.require_empty()
    return store, None


def _started(population: Population) -> Started:
    watch = population.task.scores[0]
    return Started(
        step=population.num_steps,
        architecture=repr(population.architecture),
        task=str(population.task),
        population=len(population.members),
        num_parameters=population.architecture.num_parameters(),
        num_steps=max(member.num_steps for member in population.members),
        path=population.explain(),
        score=watch.name,
        better=watch.better,
    )


def _members(given: Hyperparameters | Sequence[Hyperparameters] | None) -> tuple[Hyperparameters, ...]:
    members = (given or Hyperparameters(),) if isinstance(given, Hyperparameters | None) else tuple(given)
    if not members or not all(isinstance(member, Hyperparameters) for member in members):
        raise TrainingError("hyperparameters must be a Hyperparameters, or a sequence of one or more")
    return members


def _nothing(event: Event) -> None:
    """The report of a run to which nobody listens."""


def _never() -> bool:
    return False
