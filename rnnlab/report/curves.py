"""Learning curves over seeds as numbers: a line in the middle and a band around it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rnnlab.tuning.trials import Trial

LOW, HIGH = 0.25, 0.75
MOST_POINTS = 200


@dataclass(frozen=True)
class CurveBand:
    """The learning curves of the runs of one architecture.

    Args:
        name: of the architecture.
        num: how many runs there are; those that diverged are left out.
        steps: of training.
        middle: the median of the runs' validation scores at each of these steps.
        low, high: their quartiles; half of the runs lie between them.
    """

    name: str
    num: int
    steps: tuple[int, ...]
    middle: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def curve_band(name: str, runs: Sequence["Trial"], score: str) -> CurveBand | None:
    """The band of some runs; a run that ended early keeps its last score.

    Returns:
        None where no run has a curve.
    """
    curves = [found for run in runs if run.state == "complete" and (found := _curve(run, score))]
    if not curves:
        return None
    begun = max(curve[0][0] for curve in curves)
    steps = sorted({step for curve in curves for step, _ in curve if step >= begun})
    steps = _thinned(steps)
    table = np.array([_held(curve, steps) for curve in curves])
    low, middle, high = (tuple(map(float, np.quantile(table, share, axis=0))) for share in (LOW, 0.5, HIGH))
    return CurveBand(name, len(curves), tuple(steps), middle, low, high)


def _curve(run: "Trial", score: str) -> list[tuple[int, float]]:
    values = run.curve.get("scores", {}).get(score, ())
    return [(step, value) for step, value in zip(run.curve.get("steps", ()), values, strict=True) if value is not None]


def _thinned(steps: list[int]) -> list[int]:
    every = -(-len(steps) // MOST_POINTS)
    return steps[::-1][::every][::-1]


def _held(curve: Sequence[tuple[int, float]], steps: Sequence[int]) -> list[float]:
    """The last score at or before each step."""
    known, values = zip(*curve, strict=True)
    return [values[place - 1] for place in np.searchsorted(known, steps, side="right")]
