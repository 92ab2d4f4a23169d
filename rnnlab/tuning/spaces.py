"""The papers' search spaces: Collins et al.'s appendix A for any cell (C21-C38), Zhang et al.'s grids (Z49-Z52).

A space comes with values that are fixed beside it: in Collins et al. rectangular matrices are always normal (C23) and
an IRNN always starts as the identity (C13); Zhang et al. always use Adam (Z49).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rnnlab.architecture.architecture import Architecture
from rnnlab.architecture.cells import Cell, named_cell
from rnnlab.architecture.expressions import in_order
from rnnlab.errors import TuningError
from rnnlab.hints import hint
from rnnlab.tasks.task import AbstractTask
from rnnlab.tuning.dimensions import AbstractDimension, Category, Float, Integer, Value
from rnnlab.tuning.space import SearchSpace

_LEAST_MOMENTUM, _MOST_MOMENTUM = (1 / (1 + math.exp(-logit)) for logit in (1.0, 7.0))
_WITH_MOMENTUM = ("momentum", "rmsprop", "adam")
_PLAIN_CELLS = ("tanh", "relu")


@dataclass(frozen=True)
class NamedSpace:
    """A search space of a paper.

    Args:
        name: as in `SPACES`.
        space: what is tuned.
        fixed: hyperparameters that are not tuned but belong to the space, by name.
    """

    name: str
    space: SearchSpace
    fixed: Mapping[str, Value]

    def __str__(self) -> str:
        fixed = " ".join(f"{name}={value}" for name, value in self.fixed.items())
        return f"{self.space}\nfixed: {fixed or 'nothing'}"


def collins_space(cell: str | Sequence[str], task: str | None = None) -> SearchSpace:
    """Collins et al.'s appendix A for a cell (C21-C38).

    The number of training steps is the same for all trials. In the paper it is tuned too, within 50 thousand and 20
    million, by the task (C28): add a dimension, as in `+ SearchSpace([Integer("num_steps", low, high, "log")])`.

    One scalar scales all square matrices, one all rectangular ones, and one the read-out; biases of cells and of the
    read-out likewise have their own. The paper does not say how many of them share one.

    Args:
        cell: its name, or those of all cells of a network.
        task: the name of the task: `capacity` (C35, C36) and `arithmetic` (C37) add dimensions of their own.

    >>> len(collins_space("irnn")), len(collins_space("lstm", "capacity"))
    (10, 18)
    """
    names = (cell,) if isinstance(cell, str) else tuple(cell)
    cells = [named_cell(name) for name in names]
    return SearchSpace(
        (
            *_start(cells),
            *_read_out(),
            *_optimisation(),
            *(_TASK_DIMENSIONS[task]() if task in _TASK_DIMENSIONS else ()),
        )
    )


def collins_fixed(cell: str | Sequence[str]) -> dict[str, Value]:
    """What Collins et al. do not tune: normal rectangular matrices (C23), and the start of an IRNN (C13)."""
    names = (cell,) if isinstance(cell, str) else tuple(cell)
    start: dict[str, Value] = {"square": "identity", "bias": "constant", "bias_scale": 0.0}
    return {"rectangular": "normal"} | (start if _is_irnn(names) else {})


def _start(cells: Sequence[Cell]) -> tuple[AbstractDimension, ...]:
    """How the weights of the cells are initialised, and their nonlinearity (C21-C27)."""
    rectangular = Float("rectangular_scale", 0.001, 2.0, "log")
    if _is_irnn([cell.name for cell in cells]):
        return (rectangular,)
    has_identity = not any(cell.name in _PLAIN_CELLS for cell in cells)
    scaled = {"square": ("orthogonal", "normal")} if has_identity else {}
    found: list[AbstractDimension] = []
    if any(_has_nonlinearity(cell) for cell in cells):
        found.append(Category("nonlinearity", ("relu", "tanh")))
    found += [
        Category("square", (*(("identity",) if has_identity else ()), "orthogonal", "normal")),
        Float("square_scale", 0.01, 2.0, "log", when=scaled),
        rectangular,
        Category("bias", ("constant", "normal")),
        Float("bias_scale", -2.0, 2.0),
    ]
    if any(set(cell.gate_bias) - set(cell.depth_gates) for cell in cells):
        found.append(Float("gate_bias", 0.0, 6.0))
    if any(cell.depth_gates for cell in cells):
        found.append(Float("depth_gate_bias", 0.0, 6.0))
    return tuple(found)


def _read_out() -> tuple[AbstractDimension, ...]:
    """How the weights of the outputs are initialised (C23-C26)."""
    return (
        Float("read_out_scale", 0.001, 2.0, "log"),
        Category("read_out_bias", ("constant", "normal")),
        Float("read_out_bias_scale", -2.0, 2.0),
    )


def _optimisation() -> tuple[AbstractDimension, ...]:
    """C29-C34."""
    return (
        Category("optimiser", ("sgd", "momentum", "rmsprop", "adam")),
        Float("learning_rate", 1e-4, 1e-1, "log"),
        Float("decay_factor", 1e-3, 1.0, "log"),
        Float("momentum", _LEAST_MOMENTUM, _MOST_MOMENTUM, "logit", when={"optimiser": _WITH_MOMENTUM}),
        Float("clip_value", 1.0, 100.0, "log"),
        Float("l2", 1e-8, 1e-3, "log"),
    )


def _capacity() -> tuple[AbstractDimension, ...]:
    return (
        Float("task.samples_per_parameter", 0.1, 10.0, "log"),
        Category("task.input_once", (False, True)),
    )


def _arithmetic() -> tuple[AbstractDimension, ...]:
    return (Integer("task.compute_steps", 1, 6),)


_TASK_DIMENSIONS: dict[str | None, Callable[[], tuple[AbstractDimension, ...]]] = {
    "capacity": _capacity,
    "arithmetic": _arithmetic,
}


def zhang_space(cell: str | Sequence[str]) -> SearchSpace:
    """Zhang et al.'s grids: the learning rate (Z49), and for LSTMs the bias of the forget gate (Z51).

    >>> len(list(zhang_space("tanh").grid())), len(list(zhang_space("lstm").grid()))
    (4, 28)
    """
    names = (cell,) if isinstance(cell, str) else tuple(cell)
    dimensions: list[AbstractDimension] = [Category("learning_rate", (1e-2, 1e-3, 1e-4, 1e-5))]
    if any(name.startswith("lstm") for name in names):
        dimensions.append(Category("gate_bias", (-5.0, -3.0, -1.0, 0.0, 1.0, 3.0, 5.0)))
    return SearchSpace(dimensions)


def _collins(cells: Sequence[str], task: AbstractTask) -> NamedSpace:
    return NamedSpace("collins", collins_space(cells, task.name), collins_fixed(cells))


def _zhang(cells: Sequence[str], task: AbstractTask) -> NamedSpace:
    # the range of their uniform start is not published (Z50): it is left as it is, which is Glorot's uniform one
    return NamedSpace("zhang", zhang_space(cells), {"optimiser": "adam", "batch_size": 50})


SPACES: dict[str, Callable[[Sequence[str], AbstractTask], NamedSpace]] = {
    "collins": _collins,
    "zhang": _zhang,
}
"""The papers' spaces by name, from the names of the cells and the task."""


def named_space(name: str | None, architecture: Architecture, task: AbstractTask) -> NamedSpace:
    """The space of a paper for an architecture and a task.

    Args:
        name: one of `SPACES`; None for Collins et al.'s, which fits every cell.
        architecture: the network whose cells decide which dimensions there are.
        task: the task; some have dimensions of their own.

    Raises:
        TuningError: there is no space of that name.

    >>> from rnnlab import architecture, task
    >>> print(named_space("zhang", architecture("lstm", input_size=2, output_size=1, units=8), task("adding")))
    learning_rate  category  0.01, 0.001, 0.0001, 1e-05
    gate_bias      category  -5.0, -3.0, -1.0, 0.0, 1.0, 3.0, 5.0
    fixed: optimiser=adam batch_size=50
    """
    wanted = "collins" if name is None else name
    if wanted not in SPACES:
        raise TuningError(f"no search space is named {wanted!r}; {hint(wanted, SPACES)}")
    return SPACES[wanted](cells_of(architecture), task)


def once_given(dimension: AbstractDimension, given: Mapping[str, Any]) -> AbstractDimension | None:
    """A dimension once values are given for others that it depends on: always active, or never there.

    >>> momentum = Float("momentum", 0.5, 0.9, when={"optimiser": ("momentum", "adam")})
    >>> once_given(momentum, {"optimiser": "adam"}).when, once_given(momentum, {"optimiser": "sgd"})
    ({}, None)
    """
    if any(given[name] not in values for name, values in dimension.when.items() if name in given):
        return None
    return replace(dimension, when={name: values for name, values in dimension.when.items() if name not in given})


def without_given(space: SearchSpace, given: Mapping[str, Any]) -> SearchSpace:
    """What is left to tune of a space when some values are given.

    Raises:
        TuningError: nothing is left.

    >>> without_given(collins_space("gru"), {"optimiser": "sgd", "square": "identity"}).names
    ('nonlinearity', 'rectangular_scale', 'bias', ..., 'learning_rate', 'decay_factor', 'clip_value', 'l2')
    """
    left = [found for each in space if each.name not in given and (found := once_given(each, given)) is not None]
    if not left:
        raise TuningError(f"{' and '.join(space.names)} are given, so nothing is left to tune: train instead")
    return SearchSpace(left)


def check_given(space: SearchSpace, given: Mapping[str, Any], remedy: str) -> None:
    """Refuse values for dimensions of a user's own space, and a seed, which is not given as a hyperparameter.

    >>> check_given(SearchSpace([Float("l2", 0, 1)]), {"l2": 0.1}, "take it out of the space")
    Traceback (most recent call last):
    rnnlab.errors.TuningError: hyperparameter l2 is both given and tuned: take it out of the space
    """
    if "seed" in given:
        raise TuningError("seed is not a hyperparameter of a study: use --seed, in Python and in specifications `seed`")
    for name in given:
        if name in space.names:
            kind = "argument" if name.startswith("task.") else "hyperparameter"
            raise TuningError(f"{kind} {name} is both given and tuned: {remedy}")


def cells_of(architecture: Architecture) -> tuple[str, ...]:
    """The names of all cells of a network, each once."""
    return tuple(dict.fromkeys(node.cell for node in architecture.nodes if node.cell is not None))


def _is_irnn(names: Sequence[str]) -> bool:
    return set(names) == {"irnn"}


def _has_nonlinearity(cell: Cell) -> bool:
    """Whether the cell's formulas leave one open; +RNN's are its own (C17)."""
    formulas = cell.formulas(num_carries=1).new_state.values()
    return any(each.operation == "nonlinearity" for each in in_order(formulas))
