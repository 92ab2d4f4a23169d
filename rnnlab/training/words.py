"""What to train, as the command line gives it: a network for a task, hyperparameters, a device."""

from collections.abc import Sequence
from typing import Any

import torch

from rnnlab.architecture.architecture import Architecture
from rnnlab.architecture.files import find_architecture, load_architecture
from rnnlab.errors import RnnlabError, TrainingError
from rnnlab.tasks.registry import parse_arguments
from rnnlab.tasks.task import AbstractTask
from rnnlab.training.hyperparameters import Hyperparameters

UNITS = 64  # the default width of layers


def network_for(
    task: AbstractTask, written: str, *, units: int | None = None, parameters: int | None = None
) -> Architecture:
    """The architecture that a user means, with the inputs and outputs of a task.

    Args:
        task: what it is for.
        written: NAME, NAME:CELL, FILE or FILE:CELL, as for `find_architecture`.
        units: the width of every hidden layer; UNITS where neither it, nor `parameters`, nor the file says.
        parameters: how many numbers the network may have at most.

    >>> from rnnlab.tasks.registry import task
    >>> network_for(task("adding"), "td:lstm", parameters=10_000)
    <Architecture: <CyclicGraph: 4 nodes, 6 edges, period 1>, lstm, 9721 parameters>
    """
    if units is None and parameters is None and not _gives_widths(written):
        units = UNITS
    return find_architecture(
        written,
        input_size=task.input_size,
        output_size=task.output_size,
        encoding=task.encoding,
        units=units,
        parameters=parameters,
    )


def _gives_widths(written: str) -> bool:
    try:
        load_architecture(written)
    except RnnlabError:  # a name, a graph, or something that will be complained of when it is built
        return False
    return True


def usable_device(name: str) -> torch.device:
    """The device of that name, if this machine has it.

    >>> usable_device("gpu")
    Traceback (most recent call last):
    rnnlab.errors.TrainingError: device is cpu, cuda or cuda:NUMBER, got 'gpu'
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise TrainingError(f"device is cpu, cuda or cuda:NUMBER, got {name!r}") from error
    try:
        torch.zeros(1, device=device).item()
    except (AssertionError, RuntimeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise TrainingError(f"device {name} cannot be used here: {reason}") from error
    return device


def members_from_words(
    words: Sequence[str], *, population: int | None = None, seed: int = 0
) -> Hyperparameters | tuple[Hyperparameters, ...]:
    """The hyperparameters of a network, or of the members of a population.

    Args:
        words: NAME=VALUE each. Values with commas are one for each member.
        population: how many members, with consecutive seeds; by default as many as a value has commas, all with
            the same seed, or one network without the population axis.
        seed: of the first member, where no word gives another.

    Raises:
        TrainingError: no such hyperparameter, a value it cannot have, or lists that differ in length.

    >>> print(members_from_words(["optimiser=sgd", "learning_rate=0.1"], seed=3))
    seed=3 optimiser=sgd learning_rate=0.1
    >>> [str(member) for member in members_from_words(["learning_rate=0.1,0.01"])]
    ['learning_rate=0.1', 'learning_rate=0.01']
    >>> [str(member) for member in members_from_words([], population=3)]
    ['defaults', 'seed=1', 'seed=2']
    """
    given = _values(words)
    count = _num_members(given, population)
    if count is None:
        return Hyperparameters(seed=seed).changed(**given)
    start = Hyperparameters(seed=seed)
    members = start.with_seeds(count) if population is not None else (start,) * count
    return tuple(
        member.changed(**{name: value[row] if isinstance(value, tuple) else value for name, value in given.items()})
        for row, member in enumerate(members)
    )


def _values(words: Sequence[str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not name or not equals or not text:
            raise TrainingError(f"a hyperparameter is NAME=VALUE, got {word!r}")
        found = parse_arguments([f"--{name}={text}"])
        if twice := given.keys() & found.keys():
            raise TrainingError(f"hyperparameter {twice.pop()} is given twice")
        given |= found
    return given


def _num_members(given: dict[str, Any], population: int | None) -> int | None:
    """How many members there are, or None for a network without the population axis."""
    if population is not None and population < 1:
        raise TrainingError(f"a population has at least 1 member, got {population}")
    lengths = {name: len(value) for name, value in given.items() if isinstance(value, tuple)}
    wanted = population or next(iter(lengths.values()), None)
    for name, length in lengths.items():
        if length != wanted:
            raise TrainingError(f"{name} has {length} values for a population of {wanted}: give one for each, or one")
    return wanted
