"""Learning curves with fewer points, for files that people keep."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rnnlab.studies.keys import whole


def thinned(curve: Mapping[str, Any], max_points: int) -> dict[str, Any]:
    """A trial's curve with at most so many points, evenly spread, the first and the last among them.

    >>> curve = {"steps": [10, 20, 30, 40, 50], "scores": {"mse": [5.0, 4.0, 3.0, 2.0, 1.0]}, "losses": [1.0] * 5}
    >>> thinned(curve, 3)
    {'steps': [10, 30, 50], 'scores': {'mse': [5.0, 3.0, 1.0]}, 'losses': [1.0, 1.0, 1.0]}
    >>> thinned({}, 3)
    {}
    """
    max_points = whole("max_points", max_points, 2)
    if not curve:
        return {}
    places = _places(len(curve["steps"]), max_points)
    return {
        "steps": [curve["steps"][place] for place in places],
        "scores": {name: _rounded(values, places) for name, values in curve["scores"].items()},
        "losses": _rounded(curve["losses"], places),
    }


def _places(count: int, most: int) -> list[int]:
    if count <= most:
        return list(range(count))
    return [round(number * (count - 1) / (most - 1)) for number in range(most)]


def _rounded(values: Sequence[float | None], places: Sequence[int]) -> list[float | None]:
    """Six digits are more than a picture shows."""
    found = [values[place] for place in places]
    return [value if value is None or not math.isfinite(value) else float(f"{value:.6g}") for value in found]
