"""The dimensions of a search space: numbers, whole numbers and categories (C21-C37)."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rnnlab.errors import TuningError
from rnnlab.integers import as_integer

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Value = bool | int | float | str


@dataclass(frozen=True)
class AbstractDimension(ABC):
    """One hyperparameter: its values, and how they lie on the interval from 0 to 1.

    Args:
        name: the name of the hyperparameter.
        when: the dimension is active only if these earlier dimensions are active and have one of these values.
    """

    name: str
    when: Mapping[str, Sequence[Value]] = field(default_factory=dict[str, Sequence[Value]], kw_only=True, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TuningError(f"the name of a dimension is a text, got {self.name!r}")
        if not isinstance(self.when, Mapping):
            raise TuningError(f"{self.name}: when is a mapping of names to values, got {self.when!r}")
        for name, values in self.when.items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise TuningError(f"{self.name}: when {name} is a list of values, got {values!r}")
        object.__setattr__(self, "when", {name: tuple(values) for name, values in self.when.items()})
        self._check_values()

    @property
    @abstractmethod
    def num_values(self) -> int | None:
        """How many values it has; None if infinitely many."""

    @abstractmethod
    def at(self, position: float) -> Value:
        """The value at a position from 0 to 1; positions drawn evenly give values as the scale says."""

    @abstractmethod
    def position(self, value: Value) -> float:
        """Where a value lies; `at` gives it back."""

    @abstractmethod
    def check(self, value: Any) -> None:
        """Refuse anything that is not a value of this dimension."""

    @abstractmethod
    def spread(self, num: int) -> tuple[Value, ...]:
        """At most `num` values that are evenly spread, the ends included; all choices of a category."""

    @abstractmethod
    def distribution(self) -> "BaseDistribution":
        """The same for Optuna, in the units of the value itself."""

    @abstractmethod
    def range(self) -> str:
        """The values in words."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """All but the name, as JSON has it."""

    @abstractmethod
    def _check_values(self) -> None: ...


@dataclass(frozen=True)
class Float(AbstractDimension):
    """A real number between two bounds.

    Args:
        name: the name of the hyperparameter.
        low, high: its bounds, both included.
        scale: `linear`, `log` or `logit`: whether the number, its logarithm or its logit is uniformly distributed.
        when: see `AbstractDimension`.

    >>> Float("learning_rate", 1e-4, 1e-1, "log").at(0.5)
    0.00316...
    >>> Float("momentum", 0.731, 0.9991, "logit").at(0.5)
    0.982...
    """

    low: float
    high: float
    scale: Literal["linear", "log", "logit"] = "linear"

    def _check_values(self) -> None:
        for bound in (self.low, self.high):
            _check_number(self.name, "bounds are finite numbers", bound)
        if self.scale not in _SCALES:
            raise TuningError(f"{self.name}: scale is one of {', '.join(_SCALES)}, got {self.scale!r}")
        if not self.low < self.high:
            raise TuningError(f"{self.name}: low must be below high, got {self.low} and {self.high}")
        if self.scale == "log" and self.low <= 0:
            raise TuningError(f"{self.name}: a log scale needs numbers above 0, got {self.low}")
        if self.scale == "logit" and not 0 < self.low < self.high < 1:
            raise TuningError(f"{self.name}: a logit scale needs numbers between 0 and 1, got {self.range()}")

    @property
    def num_values(self) -> int | None:
        """None: there are infinitely many."""
        return None

    def at(self, position: float) -> float:
        """The number at a position from 0 to 1."""
        forward, inverse = _SCALES[self.scale]
        first, last = forward(self.low), forward(self.high)
        return float(min(max(inverse(first + position * (last - first)), self.low), self.high))

    def position(self, value: Value) -> float:
        """Where a number lies between the bounds, on the scale."""
        forward, _ = _SCALES[self.scale]
        first, last = forward(self.low), forward(self.high)
        return (forward(float(value)) - first) / (last - first)

    def check(self, value: Any) -> None:
        """Refuse anything but a number between the bounds."""
        _check_number(self.name, f"must be a number in {self.range()}", value)
        if not self.low <= value <= self.high:
            raise TuningError(f"{self.name} must be in {self.range()}, got {value!r}")

    def spread(self, num: int) -> tuple[float, ...]:
        """`num` numbers from bound to bound, evenly spaced on the scale; a single one is the middle."""
        return (self.at(0.5),) if num == 1 else tuple(self.at(index / (num - 1)) for index in range(num))

    def distribution(self) -> "BaseDistribution":
        """The same range for Optuna, which has no logit scale: such a number is linear to it."""
        from optuna.distributions import FloatDistribution

        return FloatDistribution(self.low, self.high, log=self.scale == "log")

    def range(self) -> str:
        """Both bounds."""
        return f"{self.low:g} … {self.high:g}"

    def to_json(self) -> dict[str, Any]:
        """All values except the name."""
        return {"kind": "float", "low": self.low, "high": self.high, "scale": self.scale} | _when(self)


@dataclass(frozen=True)
class Integer(AbstractDimension):
    """A whole number between two others.

    Args:
        name: the name of the hyperparameter.
        low, high: its bounds, both included.
        scale: `linear`, or `log`, on which the logarithm is uniformly distributed.
        when: see `AbstractDimension`.

    >>> Integer("compute_steps", 1, 6).at(0.99)
    6
    """

    low: int
    high: int
    scale: Literal["linear", "log"] = "linear"

    def _check_values(self) -> None:
        for bound in ("low", "high"):
            plain = as_integer(getattr(self, bound), f"{self.name}: {bound}", TuningError)
            object.__setattr__(self, bound, plain)
        if self.scale not in ("linear", "log"):
            raise TuningError(f"{self.name}: scale is one of linear, log, got {self.scale!r}")
        if not self.low < self.high:
            raise TuningError(f"{self.name}: low must be below high, got {self.low} and {self.high}")
        if self.scale == "log" and self.low < 1:
            raise TuningError(f"{self.name}: a log scale needs numbers above 0, got {self.low}")

    @property
    def num_values(self) -> int | None:
        """How many whole numbers there are."""
        return self.high - self.low + 1

    def _ends(self) -> tuple[float, float]:
        """Half a step beyond the bounds, so that each number owns an interval that is rounded to it."""
        forward, _ = _SCALES[self.scale]
        return forward(self.low - 0.5), forward(self.high + 0.5)

    def at(self, position: float) -> int:
        """The whole number whose interval contains a position from 0 to 1."""
        first, last = self._ends()
        _, inverse = _SCALES[self.scale]
        return min(max(math.floor(inverse(first + position * (last - first)) + 0.5), self.low), self.high)

    def position(self, value: Value) -> float:
        """Where the number itself lies inside its interval."""
        first, last = self._ends()
        forward, _ = _SCALES[self.scale]
        return (forward(float(value)) - first) / (last - first)

    def check(self, value: Any) -> None:
        """Refuse anything but a whole number between the bounds."""
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or not self.low <= value <= self.high:
            raise TuningError(f"{self.name} must be an integer in {self.range()}, got {value!r}")

    def spread(self, num: int) -> tuple[int, ...]:
        """At most `num` numbers from bound to bound, evenly spaced on the scale; all of them if there are no more."""
        if num >= self.high - self.low + 1:
            return tuple(range(self.low, self.high + 1))
        forward, inverse = _SCALES[self.scale]
        first, last = forward(self.low), forward(self.high)
        steps = [0.5] if num == 1 else [index / (num - 1) for index in range(num)]
        return tuple(dict.fromkeys(round(inverse(first + step * (last - first))) for step in steps))

    def distribution(self) -> "BaseDistribution":
        """The same range for Optuna."""
        from optuna.distributions import IntDistribution

        return IntDistribution(self.low, self.high, log=self.scale == "log")

    def range(self) -> str:
        """Both bounds."""
        return f"{self.low} … {self.high}"

    def to_json(self) -> dict[str, Any]:
        """All values except the name."""
        return {"kind": "integer", "low": self.low, "high": self.high, "scale": self.scale} | _when(self)


@dataclass(frozen=True)
class Category(AbstractDimension):
    """One of several values without order.

    Args:
        name: the name of the hyperparameter.
        choices: the values: texts, numbers, or `False` and `True`.
        when: see `AbstractDimension`.

    >>> Category("nonlinearity", ("tanh", "relu")).at(0.9)
    'relu'
    """

    choices: Sequence[Value]

    def _check_values(self) -> None:
        if isinstance(self.choices, str) or not isinstance(self.choices, Sequence) or not self.choices:
            raise TuningError(f"{self.name}: choices are a list of values, got {self.choices!r}")
        for choice in self.choices:
            if not isinstance(choice, bool | int | float | str) or choice != choice:
                raise TuningError(f"{self.name}: a choice is a text, a number, false or true, got {choice!r}")
        if len(set(self.choices)) < len(self.choices):
            raise TuningError(f"{self.name}: each choice is given once, got {self.range()}")
        object.__setattr__(self, "choices", tuple(self.choices))

    @property
    def num_values(self) -> int | None:
        """How many choices there are."""
        return len(self.choices)

    def at(self, position: float) -> Value:
        """The choice whose interval contains a position from 0 to 1."""
        return self.choices[min(int(position * len(self.choices)), len(self.choices) - 1)]

    def position(self, value: Value) -> float:
        """The middle of a choice's interval."""
        return (self.choices.index(value) + 0.5) / len(self.choices)

    def check(self, value: Any) -> None:
        """Refuse anything that is not one of the choices; 1 is not True."""
        if not any(type(value) is type(choice) and value == choice for choice in self.choices):
            raise TuningError(f"{self.name} must be one of {self.range()}, got {value!r}")

    def spread(self, num: int) -> tuple[Value, ...]:
        """All choices, however many are asked for: nothing lies between them."""
        return tuple(self.choices)

    def distribution(self) -> "BaseDistribution":
        """The same choices for Optuna."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.choices)

    def range(self) -> str:
        """All choices."""
        return ", ".join(map(str, self.choices))

    def to_json(self) -> dict[str, Any]:
        """All values except the name."""
        return {"kind": "category", "choices": list(self.choices)} | _when(self)


def _logit(value: float) -> float:
    return math.log(value) - math.log1p(-value)


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def _same(value: float) -> float:
    return value


_SCALES = {"linear": (_same, _same), "log": (math.log, math.exp), "logit": (_logit, _logistic)}


def _check_number(name: str, rule: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TuningError(f"{name}: {rule}, got {value!r}")


def _when(dimension: AbstractDimension) -> dict[str, Any]:
    if not dimension.when:
        return {}
    return {"when": {name: list(values) for name, values in dimension.when.items()}}
