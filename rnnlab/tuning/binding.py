"""From points of a space to networks that can be trained: hyperparameters, arguments of the task, populations.

A dimension is named after a hyperparameter, or `task.NAME` after an argument of the task; `seeds` is the seed of the
initial weights and that of the batches at once. Members of a population have batches of one size, so points that differ
in that size, or in an argument that the task cannot have for each member, are trained in populations of their own.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, cast, get_args, get_origin, get_type_hints

from rnnlab.architecture.architecture import Architecture
from rnnlab.errors import RnnlabError, TuningError
from rnnlab.hints import hint
from rnnlab.tasks.task import AbstractTask
from rnnlab.training.hyperparameters import SHARED, Hyperparameters
from rnnlab.tuning.dimensions import AbstractDimension
from rnnlab.tuning.space import Point, SearchSpace

TASK = "task."
"""How the names of dimensions begin that are arguments of the task."""

SEEDS = "seeds"
"""The dimension of runs that differ in everything random."""


@dataclass(frozen=True)
class Setting:
    """What a point means for a network and a task.

    Args:
        hyperparameters: how the network is trained.
        arguments: those of the task that the point decides, by name.
    """

    hyperparameters: Hyperparameters
    arguments: Mapping[str, Any]


def bind(point: Point, base: Hyperparameters, architecture: Architecture, task: AbstractTask) -> Setting:
    """What a point means.

    Args:
        point: values by the names of their dimensions.
        base: all hyperparameters that the point does not give.
        architecture: what is trained; capacity's data set is measured in its parameters (C35).
        task: what it is trained on.

    Raises:
        TuningError: a name that is neither a hyperparameter nor an argument, or a value that it cannot have.

    >>> from rnnlab import architecture, task
    >>> network = architecture("tanh", input_size=32, output_size=1, units=8)
    >>> setting = bind({"l2": 0.1, "task.samples_per_parameter": 2.0}, Hyperparameters(), network, task("capacity"))
    >>> print(setting.hyperparameters, setting.arguments, network.num_parameters())
    l2=0.1 {'num_samples': 690} 345
    """
    own = {name: value for name, value in point.items() if not name.startswith(TASK)}
    given = {name.removeprefix(TASK): value for name, value in point.items() if name.startswith(TASK)}
    if SEEDS in own:
        own |= dict.fromkeys(("seed", "batch_seed"), own.pop(SEEDS))
    known = _argument_names(task)
    arguments: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            refused = f"{task.name} has no argument {name!r}, so {TASK}{name} cannot be tuned"
            raise TuningError(f"{refused}; {hint(name, known)}")
        if name in _DERIVED and name not in _fields(task):
            name, derive = _DERIVED[name]
            value = derive(value, architecture)
        arguments[name] = value
    try:
        return Setting(base.changed(**own), arguments)
    except RnnlabError as error:
        raise TuningError(f"a point of the search space cannot be trained: {error}") from error


def check_space(space: SearchSpace, base: Hyperparameters, architecture: Architecture, task: AbstractTask) -> None:
    """Refuse a space with names or values that training would refuse, before anything is trained.

    The bounds, the middle and every choice of each dimension are tried, while it is active and the others are at their
    middles.
    """
    for dimension in space:
        for position in sorted({0.0, 0.5, 1.0} | {dimension.position(value) for value in dimension.spread(2)}):
            positions = dict.fromkeys(space.names, 0.5) | _active(space, dimension) | {dimension.name: position}
            setting = bind(space.point_at(list(positions.values())), base, architecture, task)
            _check_widths(task_of([setting], task), task)


def _active(space: SearchSpace, dimension: AbstractDimension) -> dict[str, float]:
    """Positions of earlier dimensions at which one is active."""
    found: dict[str, float] = {}
    for earlier in space:
        if earlier.name in dimension.when:
            found |= _active(space, earlier) | {earlier.name: earlier.position(dimension.when[earlier.name][0])}
    return found


def split(settings: Sequence[Setting], task: AbstractTask) -> list[list[int]]:
    """Which settings can be trained in one population, by their places; as few populations as possible."""
    groups: dict[Any, list[int]] = {}
    for place, setting in enumerate(settings):
        groups.setdefault(_shared(setting, task), []).append(place)
    return list(groups.values())


def task_of(settings: Sequence[Setting], task: AbstractTask) -> AbstractTask:
    """The task of a population; an argument that may differ between members is there for each.

    >>> from rnnlab import task
    >>> settings = [Setting(Hyperparameters(), {"compute_steps": steps}) for steps in (1, 4)]
    >>> print(task_of(settings, task("arithmetic")))
    arithmetic(compute_steps=(1, 4))
    """
    of_members = _of_members(task)
    arguments = {
        name: tuple(setting.arguments[name] for setting in settings) if name in of_members else value
        for name, value in settings[0].arguments.items()
    }
    if not arguments:
        return task
    try:
        return type(task)(**({name: getattr(task, name) for name in _fields(task)} | arguments))
    except RnnlabError as error:
        raise TuningError(f"a point of the search space cannot be trained: {error}") from error


def _shared(setting: Setting, task: AbstractTask) -> tuple[Any, ...]:
    """What all members of one population must have in common."""
    of_members = _of_members(task)
    arguments = tuple((name, value) for name, value in setting.arguments.items() if name not in of_members)
    own = tuple(getattr(setting.hyperparameters, name) for name in SHARED)
    return (*own, setting.hyperparameters.nonlinearity is None, arguments)


def _check_widths(bound: AbstractTask, task: AbstractTask) -> None:
    if (bound.input_size, bound.output_size) != (task.input_size, task.output_size):
        raise TuningError(f"{bound} has inputs or outputs of another width than {task}: such an argument is not tuned")


def _of_members(task: AbstractTask) -> set[str]:
    """The arguments of which a task takes one value, or a tuple with one for each member."""
    hints = get_type_hints(type(task))
    found = {name: get_args(hints[name]) for name in _fields(task)}
    return {
        name
        for name, kinds in found.items()
        if any(get_origin(kind) is tuple for kind in kinds) and any(inspect.isclass(kind) for kind in kinds)
    }


def given_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments given to a task, by the names of the dimensions that would tune them.

    >>> given_arguments({"num_samples": 10})
    {'task.num_samples': 10, 'task.samples_per_parameter': None}
    """
    own = {f"{TASK}{name}": value for name, value in arguments.items()}
    return own | {f"{TASK}{name}": None for name, (target, _) in _DERIVED.items() if target in arguments}


def written_arguments(task: AbstractTask) -> dict[str, Any]:
    """The arguments of a task that differ from their defaults.

    >>> from rnnlab import task
    >>> written_arguments(task("capacity", num_samples=10))
    {'num_samples': 10}
    """
    values = {field.name: (getattr(task, field.name), field) for field in fields(cast(Any, task))}
    return {name: value for name, (value, field) in values.items() if not _is_default(value, field)}


def _is_default(value: Any, field: Any) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return default is not MISSING and value == default


def _fields(task: AbstractTask) -> list[str]:
    return [field.name for field in fields(cast(Any, task))]


def _argument_names(task: AbstractTask) -> list[str]:
    names = _fields(task)
    return names + [name for name, (target, _) in _DERIVED.items() if target in names]


def _num_samples(value: Any, architecture: Architecture) -> int:
    return max(1, round(value * architecture.num_parameters()))


# arguments that depend on the network: the dimension's name, the argument's, and how to get at its value
_DERIVED: dict[str, tuple[str, Callable[[Any, Architecture], Any]]] = {
    "samples_per_parameter": ("num_samples", _num_samples)
}
