"""Values as JSON has them, at any depth and without a number that JSON lacks."""

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from rnnlab.json_values import json_value


@dataclass(frozen=True)
class Measured:
    depth: Fraction
    scores: tuple[float, ...]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (math.nan, None),
        (np.float64(math.inf), None),
        (0.5, 0.5),
        (True, True),
        ("nan", "nan"),
        (Fraction(3, 2), "3/2"),
        ({"a": [1.0, -math.inf], "b": {"c": (math.nan,)}}, {"a": [1.0, None], "b": {"c": [None]}}),
        ([Measured(Fraction(2), (1.0, math.inf))], [{"depth": "2", "scores": [1.0, None]}]),
    ],
)
def test_values_are_written_as_json_has_them(value: Any, wanted: Any) -> None:
    assert json_value(value) == wanted
    assert json.loads(json.dumps(json_value(value), allow_nan=False)) == wanted
