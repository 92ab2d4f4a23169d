"""From a specification to arms: every combination of tasks, architectures, cells, depths and sizes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rnnlab.architecture.architecture import Architecture
from rnnlab.architecture.catalogue import split_name
from rnnlab.architecture.cells import CELLS, named_cell
from rnnlab.architecture.files import find_architecture
from rnnlab.errors import RnnlabError, TuningError
from rnnlab.hints import hint
from rnnlab.studies.keys import texts
from rnnlab.studies.specification import Product, StudySpec
from rnnlab.tasks.registry import task as named_task
from rnnlab.tasks.task import AbstractTask
from rnnlab.training.hyperparameters import Hyperparameters
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.binding import TASK, given_arguments
from rnnlab.tuning.plain_samplers import GridSampler
from rnnlab.tuning.samplers import sampler
from rnnlab.tuning.space import SearchSpace, load_space
from rnnlab.tuning.spaces import SPACES, check_given, named_space, once_given, without_given


@dataclass(frozen=True)
class LabelledArm:
    """An arm and where it stands in its study.

    Args:
        arm: what is tuned.
        labels: `task`, `task.ARGUMENT`, `architecture`, `cell`, `depth`, `parameters` or `units`, and `label`: those
            that its specification gives.
    """

    arm: Arm
    labels: Mapping[str, Any]


def expand(spec: StudySpec) -> tuple[LabelledArm, ...]:
    """The arms of a study, in the order of the specification: tasks, architectures or depths, cells, sizes.

    A +RNN of one layer does not exist (C18), so a product of cells and depths leaves it out.

    Raises:
        TuningError: an arm cannot be made as it is specified, or the budget has not one trial for each.

    >>> spec = StudySpec.from_json({"name": "first", "task": "adding", "cells": ["gru", "intersection"],
    ...                             "depths": [1, 2], "parameters": 1000, "budget": 10, "space": "zhang"})
    >>> [(each.arm.name, each.arm.num_trials, each.arm.architecture.num_parameters()) for each in expand(spec)]
    [('gru depth 1', 3, 945), ('gru depth 2', 3, 865), ('intersection depth 2', 3, 883)]
    """
    products = spec.products
    rows = [(owner, labels) for owner in products for labels in _rows(owner)]
    names = _names([labels for _, labels in rows])
    share = _share(spec.budget, len(rows))
    arms = [_arm(name, *row, spec.folder, share) for name, row in zip(names, rows, strict=True)]
    for owner in products:
        own = [arm for arm, (each, _) in zip(arms, rows, strict=True) if each is owner]
        _check_without(owner, own, spec.folder)
    return tuple(LabelledArm(arm, labels) for arm, (_, labels) in zip(arms, rows, strict=True))


def _rows(owner: Product) -> Iterator[dict[str, Any]]:
    """The labels of every combination."""
    sizes = [("parameters", size) for size in owner.parameters] + [("units", size) for size in owner.units]
    for task, network, (key, size) in product(owner.tasks, _networks(owner), sizes or [("", None)]):
        arguments = {f"task.{name}": value for name, value in task.items() if name != "name"}
        size_label = {key: size} if key else {}
        label = {"label": owner.label} if owner.label else {}
        yield {"task": task["name"], **arguments, **network, **size_label, **label}


def _networks(owner: Product) -> list[dict[str, Any]]:
    if owner.depths:
        return [
            {"architecture": "sh" if depth == 1 else f"stack-{depth}", "cell": cell, "depth": depth}
            for cell, depth in product(owner.cells, owner.depths)
            if depth > 1 or not (cell in CELLS and named_cell(cell).has_depth_input)
        ]
    if not owner.cells:
        return [{"architecture": name} for name in owner.architectures]
    for name in owner.architectures:
        if ":" in name or (not _is_file(name) and split_name(name)[1] is not None):
            raise TuningError(
                f"architecture {name!r} gives its cell itself, so it cannot take the `cells` of the specification"
            )
    return [{"architecture": name, "cell": cell} for name in owner.architectures for cell in owner.cells]


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for each arm, of what tells it from others; the architecture is always in it."""
    differing = {key for row in rows for key in row if len({str(other.get(key)) for other in rows}) > 1}
    names = [" ".join(_name_parts(row, differing)) for row in rows]
    for name in names:
        if names.count(name) > 1:
            raise TuningError(
                f"{names.count(name)} arms are named {name!r}: give their [[arms]] tables a label, or rename a file"
            )
    return names


def _name_parts(row: Mapping[str, Any], differing: set[str]) -> Iterator[str]:
    if "task" in differing:
        yield Path(row["task"]).stem
    yield from (
        f"{key.removeprefix('task.')}={row[key]}".replace("/", "-")
        for key in row
        if key.startswith("task.") and key in differing
    )
    yield network_name(row)
    for key in ("depth", "parameters", "units"):
        if key in row and (key in differing or key == "depth"):
            yield f"{key} {size_words(row[key])}"
    if "label" in row:
        yield row["label"]


def size_words(size: int | Mapping[str, int]) -> str:
    """A size as it stands in a name; widths of single nodes one by one."""
    return " ".join(f"{node}={width}" for node, width in size.items()) if isinstance(size, Mapping) else str(size)


def network_name(row: Mapping[str, Any]) -> str:
    """The part of an arm's name that says which network it has, from its labels."""
    written, cell = row["architecture"], row.get("cell")
    if "depth" in row or (cell and written == "sh"):
        return row["cell"]
    name = Path(written.partition(".json")[0]).name + written.partition(".json")[2]
    return f"{name}:{cell}" if cell else name


def _share(budget: int | None, num_arms: int) -> int | None:
    """How many trials of a budget each arm has: all as many, for a fair comparison."""
    if budget is None:
        return None
    if budget < num_arms:
        raise TuningError(
            f"a budget of {budget} trials cannot try each of {num_arms} arms once: give at least {num_arms}"
        )
    return budget // num_arms


def _arm(name: str, owner: Product, labels: Mapping[str, Any], folder: Path, share: int | None) -> Arm:
    try:
        task = _task(labels, folder)
        network = _network(owner, labels, task, folder)
        written = given_arguments(_arguments(labels))
        space, fixed = _space(owner, network, task, folder, written)
        check_given(space, {**owner.hyperparameters, **written}, "take it out, or put it into space.without")
        return Arm(
            name=name,
            architecture=network,
            task=task,
            space=space,
            num_trials=_num_trials(owner, space, share),
            hyperparameters=Hyperparameters().changed(**fixed).changed(**owner.hyperparameters),
            sampler=owner.sampler,
            sampler_options=owner.sampler_options,
            seed=owner.seed,
            path=owner.path,
            precision=owner.precision,
            population=owner.population,
        )
    except RnnlabError as error:
        message = str(error)
        raise TuningError(message if message.startswith(f"arm {name}") else f"arm {name}: {message}") from error


def _task(labels: Mapping[str, Any], folder: Path) -> AbstractTask:
    name = labels["task"]
    return named_task(str(folder / name) if name.endswith(".py") else name, **_arguments(labels))


def _arguments(labels: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the task among an arm's labels."""
    return {key.removeprefix(TASK): value for key, value in labels.items() if key.startswith(TASK)}


def _network(owner: Product, labels: Mapping[str, Any], task: AbstractTask, folder: Path) -> Architecture:
    written, cell = labels["architecture"], labels.get("cell")
    if _is_file(written):  # a file that gives its cells itself complains of one behind a colon
        written, cell = f"{folder / written}{f':{cell}' if cell else ''}", None
    options: dict[str, Any] = {"fit": owner.fit, "count": owner.count, "initial": owner.initial}
    return find_architecture(
        written,
        cell,
        input_size=task.input_size,
        output_size=task.output_size,
        encoding=task.encoding,
        units=labels.get("units"),
        parameters=labels.get("parameters"),
        **options,
    )


def _is_file(written: str) -> bool:
    return ".json" in written or "/" in written or "\\" in written


def _space(
    owner: Product, network: Architecture, task: AbstractTask, folder: Path, written: Mapping[str, Any]
) -> tuple[SearchSpace, Mapping[str, Any]]:
    """What is tuned, and the hyperparameters that a paper fixes beside it.

    A paper's space does not tune the arguments of the task that are given in `written`.
    """
    if not isinstance(owner.space, Mapping):
        return _whole_space(owner.space, network, task, folder, written)
    own = {name: row for name, row in owner.space.items() if name not in ("base", "without")}
    dimensions = SearchSpace.from_json(own).dimensions if own else ()
    if "base" not in owner.space:
        if "without" in owner.space:
            raise TuningError("space.without needs space.base, the space to leave something out of")
        return SearchSpace(dimensions), {}
    base, fixed = _whole_space(owner.space["base"], network, task, folder, written)
    without = texts("space.without", owner.space.get("without", ()))
    given = {name: value for name, value in owner.hyperparameters.items() if name in without}
    left = (once_given(each, given) for each in base if each.name not in without)
    return SearchSpace((*(each for each in left if each is not None), *dimensions)), fixed


def _check_without(owner: Product, arms: Sequence[Arm], folder: Path) -> None:
    """Refuse to leave out a dimension that none of the spaces has: it is a typo."""
    if not isinstance(owner.space, Mapping) or "without" not in owner.space:
        return
    bases = [_whole_space(owner.space["base"], arm.architecture, arm.task, folder, {})[0] for arm in arms]
    known = dict.fromkeys(name for space in bases for name in space.names)
    for name in texts("space.without", owner.space["without"]):
        if name not in known:
            raise TuningError(f"space.without: no arm has a dimension {name!r}; {hint(name, known)}")


def _whole_space(
    name: str | None, network: Architecture, task: AbstractTask, folder: Path, written: Mapping[str, Any]
) -> tuple[SearchSpace, Mapping[str, Any]]:
    if isinstance(name, str) and name not in SPACES and Path(name).suffix in (".toml", ".json"):
        return load_space(folder / name), {}
    found = named_space(name, network, task)
    return without_given(found.space, written), found.fixed


def _num_trials(owner: Product, space: SearchSpace, share: int | None) -> int:
    chosen = sampler(owner.sampler, **owner.sampler_options)
    if owner.trials is not None:
        return owner.trials
    if isinstance(chosen, GridSampler):
        return chosen.num_points(space, share)
    if share is None:
        raise TuningError("give trials, how many each arm has, or a budget for all arms")
    return share
