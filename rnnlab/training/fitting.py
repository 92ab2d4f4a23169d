"""Whether an architecture, a task and hyperparameters fit together, and what identifies a run."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rnnlab.architecture.architecture import Architecture, checked_architecture
from rnnlab.errors import TrainingError
from rnnlab.tasks.registry import digest_json
from rnnlab.tasks.task import AbstractTask
from rnnlab.training.hyperparameters import Hyperparameters, check_shared


def check_fit(architecture: Architecture, task: AbstractTask, members: Sequence[Hyperparameters]) -> None:
    """Refuse what cannot be trained together."""
    checked_architecture(architecture, "train", TrainingError)
    check_task(task, "train")
    check_shared(members)
    named = [member.nonlinearity for member in members if member.nonlinearity is not None]
    if named and len(named) < len(members):
        raise TrainingError("give a nonlinearity to every member of the population, or to none")
    if task.population not in (None, len(members)):
        raise TrainingError(
            f"{task} has arguments for {task.population} members, the population has {len(members)}: give as many"
        )
    _check_seeds(task, {member.batch_seed for member in members})
    _check_widths(architecture, task)
    check_direction(architecture, task)
    if task.feed != "stream" and any(member.restart for member in members):
        raise TrainingError(f"{task} has no streams that could begin again: leave out restart")


def check_task(task: Any, taker: str) -> None:
    """Refuse what is no task, with the way to get one."""
    if isinstance(task, str):
        raise TrainingError(f"{taker} takes an object for its task: task({task!r}, ...) makes one")
    if not isinstance(task, AbstractTask):
        hint = ": task(**table) makes one" if isinstance(task, Mapping) else ""
        raise TrainingError(f"{taker} takes a task, got {task!r}"[:300] + hint)


def check_direction(architecture: Architecture, task: AbstractTask) -> None:
    """Refuse a network that would read the answers of a task, or its padding."""
    ahead = next((edge for edge in architecture.edges if edge.delay < 0), None)
    if ahead is not None and not task.may_read_ahead:
        raise TrainingError(
            f"{task} is not for networks that read ahead: later inputs hold its answers, or padding; the edge "
            f"{ahead.source[0]} -> {ahead.target[0]} has delay {ahead.delay}, leave out edges of negative delay"
        )


def _check_seeds(task: AbstractTask, seeds: set[int | None]) -> None:
    if task.feed == "stream" and seeds != {None}:
        raise TrainingError(f"{task} is read in order, so its batches have no seed: leave out batch_seed")
    if task.population is not None and len(seeds) > 1:
        raise TrainingError(f"{task} differs between members already: give all of them the same batch_seed")


def _check_widths(architecture: Architecture, task: AbstractTask) -> None:
    for kind, wanted in (("input", task.input_size), ("output", task.output_size)):
        nodes = {node.name: node for node in architecture.nodes if node.kind == kind}
        width = sum(node.units for node in nodes.values())
        if width != wanted:
            raise TrainingError(
                f"{task} has {kind}s of width {wanted}, the architecture {width}: build it with {kind}_size={wanted}"
            )
        encodings = {node.encoding for node in nodes.values()}
        if kind == "input" and encodings != {task.encoding}:
            found = " and ".join(sorted(encodings))
            raise TrainingError(
                f"{task} has inputs of {task.encoding}, the architecture of {found}: "
                f"build it with encoding={task.encoding!r}"
            )


def run_description(
    architecture: Architecture,
    task: AbstractTask,
    members: Sequence[Hyperparameters],
    seed: int,
    device: torch.device | str,
    path: str,
    precision: str,
    start: Tensor | None,
) -> dict[str, Any]:
    """What a run is: a checkpoint of another one cannot be gone on with. Generators differ between kinds of device."""
    return {
        "architecture": architecture.to_json(),
        "task": task.to_json() | digest_json(task),
        "hyperparameters": [member.to_json() for member in members],
        "seed": seed,
        "device": torch.device(device).type,
        "path": path,
        "precision": precision,
        "start": None if start is None else hashlib.blake2b(start.numpy().tobytes(), digest_size=8).hexdigest(),
    }
