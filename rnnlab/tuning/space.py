"""Search spaces: which hyperparameters are tuned, and over which values (C21-C38, Z49, Z51)."""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rnnlab.errors import TuningError
from rnnlab.hints import hint
from rnnlab.integers import as_integer
from rnnlab.tuning.dimensions import AbstractDimension, Category, Float, Integer, Value

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Point = Mapping[str, Value]
KINDS: Mapping[str, type[AbstractDimension]] = {"float": Float, "integer": Integer, "category": Category}


@dataclass(frozen=True)
class SearchSpace:
    """Dimensions in order; a point has a value for each dimension that is active.

    >>> space = SearchSpace(
    ...     (
    ...         Float("learning_rate", 1e-4, 1e-1, "log"),
    ...         Category("optimiser", ("sgd", "adam")),
    ...         Float("momentum", 0.731, 0.9991, "logit", when={"optimiser": ("adam",)}),
    ...     )
    ... )
    >>> print(space)
    learning_rate  float     0.0001 … 0.1    log
    optimiser      category  sgd, adam
    momentum       float     0.731 … 0.9991  logit  when optimiser is adam
    >>> space.sample(np.random.default_rng(1))
    {'learning_rate': 0.0034..., 'optimiser': 'adam', 'momentum': 0.86...}
    """

    dimensions: tuple[AbstractDimension, ...]

    def __init__(self, dimensions: Sequence[AbstractDimension]) -> None:
        object.__setattr__(self, "dimensions", tuple(dimensions))
        if not self.dimensions:
            raise TuningError("a search space needs at least one dimension")
        earlier: dict[str, AbstractDimension] = {}
        for dimension in self.dimensions:
            if not isinstance(dimension, AbstractDimension):
                raise TuningError(f"a dimension is a Float, an Integer or a Category, got {dimension!r}")
            if dimension.name in earlier:
                raise TuningError(f"the space has two dimensions named {dimension.name!r}")
            _check_when(dimension, earlier)
            earlier[dimension.name] = dimension

    def __len__(self) -> int:
        return len(self.dimensions)

    def __iter__(self) -> Iterator[AbstractDimension]:
        return iter(self.dimensions)

    def __str__(self) -> str:
        kinds = {kind: name for name, kind in KINDS.items()}
        rows = [
            (each.name, kinds[type(each)], each.range(), getattr(each, "scale", ""), _condition(each)) for each in self
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)

    def __add__(self, other: "SearchSpace") -> "SearchSpace":
        return SearchSpace((*self.dimensions, *other.dimensions))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all dimensions."""
        return tuple(each.name for each in self)

    def without(self, *names: str) -> "SearchSpace":
        """The space without some dimensions.

        >>> SearchSpace((Float("l2", 0, 1), Float("dropout", 0, 0.5))).without("l2").names
        ('dropout',)
        """
        for name in names:
            if name not in self.names:
                raise TuningError(f"the space has no dimension {name!r}; {hint(name, self.names)}")
        return SearchSpace([each for each in self if each.name not in names])

    def is_active(self, dimension: AbstractDimension, point: Point) -> bool:
        """Whether a dimension has a value, given the values of those before it."""
        return all(name in point and point[name] in values for name, values in dimension.when.items())

    def point_at(self, positions: Sequence[float] | np.ndarray) -> dict[str, Value]:
        """The point at positions from 0 to 1, one for each dimension; those of inactive dimensions are ignored.

        >>> SearchSpace((Float("l2", 0, 1), Integer("depth", 1, 8))).point_at([0.25, 0.0])
        {'l2': 0.25, 'depth': 1}
        """
        point: dict[str, Value] = {}
        for dimension, position in zip(self, positions, strict=True):
            if self.is_active(dimension, point):
                point[dimension.name] = dimension.at(float(position))
        return point

    def sample(self, generator: np.random.Generator) -> dict[str, Value]:
        """A random point, uniform on the scale of each number."""
        return self.point_at(generator.random(len(self)))

    def check(self, point: Point) -> None:
        """Refuse a point that does not belong to this space.

        Raises:
            TuningError: a value is out of range, missing, or given where its dimension is not active.
        """
        for name in point:
            if name not in self.names:
                raise TuningError(f"the space has no dimension {name!r}; {hint(name, self.names)}")
        for dimension in self:
            is_active, is_given = self.is_active(dimension, point), dimension.name in point
            if is_given and not is_active:
                raise TuningError(f"{dimension.name} is given, but is active only {_condition(dimension)}")
            if is_active and not is_given:
                raise TuningError(f"the point has no {dimension.name}")
            if is_active:
                dimension.check(point[dimension.name])

    def grid(self, num_per_dimension: int | Mapping[str, int] = 3) -> Iterator[dict[str, Value]]:
        """All combinations of values spread over the dimensions, one by one; the last dimension changes first.

        Args:
            num_per_dimension: the largest number of values of each number, for all or by name (3 by default).
                Categories always have all their choices.

        >>> space = SearchSpace((Category("bias", (0, 1)), Float("l2", 1e-8, 1e-4, "log", when={"bias": (1,)})))
        >>> list(space.grid(2))
        [{'bias': 0}, {'bias': 1, 'l2': 1e-08}, {'bias': 1, 'l2': 0.0001}]
        """
        by_name = num_per_dimension if isinstance(num_per_dimension, Mapping) else {}
        for name in by_name:
            if name not in self.names:
                raise TuningError(f"the space has no dimension {name!r}; {hint(name, self.names)}")
        others = 3 if isinstance(num_per_dimension, Mapping) else num_per_dimension
        counts = dict.fromkeys(self.names, others) | dict(by_name)
        for name, count in counts.items():
            counts[name] = as_integer(count, f"num_per_dimension of {name}", TuningError, 1)
        return self._combinations([each.spread(counts[each.name]) for each in self], {})

    def _combinations(self, values: Sequence[tuple[Value, ...]], point: Point) -> Iterator[dict[str, Value]]:
        """All points that begin as `point` does; `values` are those of the dimensions still to come."""
        if not values:
            yield dict(point)
            return
        dimension = self.dimensions[-len(values)]
        if not self.is_active(dimension, point):
            yield from self._combinations(values[1:], point)
            return
        for value in values[0]:
            yield from self._combinations(values[1:], {**point, dimension.name: value})

    def distributions(self) -> "dict[str, BaseDistribution]":
        """The dimensions as Optuna has them, by name."""
        return {each.name: each.distribution() for each in self}

    def to_json(self) -> dict[str, Any]:
        """The dimensions by name; `from_json` reads them back."""
        return {each.name: each.to_json() for each in self}

    @classmethod
    def from_json(cls, values: Any) -> "SearchSpace":
        """A space from its dimensions by name.

        >>> print(SearchSpace.from_json({"depth": {"kind": "integer", "low": 1, "high": 8}}))
        depth  integer  1 … 8  linear
        """
        if not isinstance(values, Mapping):
            raise TuningError(f"a search space is a table of dimensions by name, got {values!r}"[:300])
        return cls([_dimension(name, row) for name, row in values.items()])


def load_space(path: str | Path) -> SearchSpace:
    """The search space in a JSON or TOML file: a table for each dimension.

    Raises:
        TuningError: the file cannot be read, or contains no search space.
    """
    path = Path(path)
    try:
        text = path.read_text()
        values = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text, object_pairs_hook=_once)
    except (OSError, ValueError) as error:
        raise TuningError(f"cannot read a search space from {path}: {error}") from error
    try:
        return SearchSpace.from_json(values)
    except TuningError as error:
        raise TuningError(f"{path}: {error}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose names differ; Python's own reader would keep the last of two silently."""
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is given twice")
    return dict(pairs)


def _dimension(name: str, row: Any) -> AbstractDimension:
    if isinstance(row, Sequence) and not isinstance(row, str):
        return Category(name, tuple(row))  # the shortest way to write one
    if not isinstance(row, Mapping):
        raise TuningError(
            f"{name}: a dimension is a list of values, or a table with its kind and its values, got {row!r}"[:300]
        )
    if "kind" not in row:
        nested = next((key for key, value in row.items() if isinstance(value, Mapping) and key != "when"), None)
        quoted = f'; a name with a dot stands in quotes: ["{name}.{nested}"]' if nested else ""
        raise TuningError(f"{name} lacks its kind: {', '.join(KINDS)}{quoted}")
    if row["kind"] not in KINDS:
        raise TuningError(f"{name}: kind is one of {', '.join(KINDS)}, got {row['kind']!r}")
    kind = KINDS[row["kind"]]
    known = {each.name: each.default is MISSING and each.default_factory is MISSING for each in fields(kind)}
    del known["name"]
    for key in row.keys() - known.keys() - {"kind"}:
        raise TuningError(f"{name} has no {key!r}; {hint(key, known)}")
    if missing := [key for key, is_required in known.items() if is_required and key not in row]:
        raise TuningError(f"{name} lacks {', '.join(missing)}")
    return kind(name, **{key: value for key, value in row.items() if key != "kind"})


def _check_when(dimension: AbstractDimension, earlier: Mapping[str, AbstractDimension]) -> None:
    for name, values in dimension.when.items():
        if name not in earlier:
            raise TuningError(f"{dimension.name} depends on {name!r}, which is no earlier dimension of the space")
        if isinstance(earlier[name], Float):
            raise TuningError(f"{dimension.name} cannot depend on {name}: that is a continuous number")
        for value in values:
            try:
                earlier[name].check(value)
            except TuningError as error:
                raise TuningError(f"{dimension.name} depends on a value that {name} never has: {error}") from error


def _condition(dimension: AbstractDimension) -> str:
    parts = [f"{name} is {' or '.join(map(str, values))}" for name, values in dimension.when.items()]
    return f"when {' and '.join(parts)}" if parts else ""
