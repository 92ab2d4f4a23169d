"""Values as JSON has them."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any


def json_value(value: Any) -> Any:
    """A value ready for JSON: fractions as texts, objects by field, what is no number (infinite, undefined) as None.

    >>> json_value({"depth": Fraction(3, 2), "scores": (0.5, math.inf)})
    {'depth': '3/2', 'scores': [0.5, None]}
    """
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: json_value(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [json_value(inner) for inner in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: json_value(getattr(value, field.name)) for field in fields(value)}
    return value
