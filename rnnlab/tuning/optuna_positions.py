"""Points for Optuna's algorithms: numbers as positions from 0 to 1 on their scales, because it has no logit scale."""

from typing import TYPE_CHECKING, Any

from rnnlab.tuning.dimensions import AbstractDimension, Float, Value

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


def distribution(dimension: AbstractDimension) -> "BaseDistribution":
    """What Optuna is told of a dimension: positions of a number, else its own values."""
    from optuna.distributions import FloatDistribution

    return FloatDistribution(0.0, 1.0) if isinstance(dimension, Float) else dimension.distribution()


def parameter(dimension: AbstractDimension, value: Value) -> Any:
    """A value as that distribution has it."""
    if not isinstance(dimension, Float):
        return value
    return min(max(dimension.position(value), 0.0), 1.0)
