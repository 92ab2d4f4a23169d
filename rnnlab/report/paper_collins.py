"""The figures of Collins et al. 2017 as numbers (C46-C50, C54, C58, C61, C70, C71)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rnnlab.report.history import tuning_history
from rnnlab.report.paper_panels import (
    Kind,
    Panel,
    Series,
    arm_series,
    by_cell,
    by_depth,
    cell_name,
    known,
    layer_words,
    num_parameters,
    num_units,
)
from rnnlab.report.paper_values import scores_of
from rnnlab.studies.capacity import Stored, mean_bits_per_parameter, multipliers, of_relu, stored_bits
from rnnlab.studies.comparison import score_on_test
from rnnlab.studies.verdict import quantity

if TYPE_CHECKING:
    from rnnlab.studies.records import ArmRecord, StudyRecord

MOST_DOTS = 200  # of one tuning; more cannot be told apart
_PARAMETERS, _PER_PARAMETER = "parameters", "bits per parameter"


def main_arms(record: "StudyRecord") -> list["ArmRecord"]:
    """The arms of a capacity study that figure 1 shows: both nonlinearities, five steps."""
    return [each for each in record.arms if not each.labels.get("label") and "task.length" not in each.labels]


def capacity_panels(record: "StudyRecord") -> list[Panel]:
    """Stored bits, and bits per parameter, against parameters: all depths together, then each by itself (C46)."""
    arms = main_arms(record)
    depths = by_depth(arms)
    found: list[Panel] = []
    for what, y_title in (("score", "stored bits"), ("bits_per_parameter", _PER_PARAMETER)):
        groups = {"all depths": arms} | {layer_words(depth): some for depth, some in depths.items()}
        for title, some in groups.items() if len(depths) > 1 else list(groups.items())[1:]:
            kind: Kind = "dots" if title == "all depths" else "line"
            series = known(
                [arm_series(name, own, num_parameters, quantity=what, kind=kind) for name, own in by_cell(some).items()]
            )
            found.append(
                Panel(
                    title=title,
                    x_title=_PARAMETERS,
                    y_title=y_title,
                    series=series,
                    has_equal_scales=what == "score",
                )
            )
    return found


def stored_by_cell(record: "StudyRecord") -> dict[str, list[Stored]]:
    """What all arms of each cell have stored, of those that figure 1 shows."""
    arms = by_cell(main_arms(record))
    return {name: [found for each in own if (found := stored_bits(each)) is not None] for name, own in arms.items()}


def multiplier_matrix(record: "StudyRecord") -> dict[str, dict[str, float]]:
    """How many times the parameters of the row's cell the column's needs to store as much (C47)."""
    return multipliers(mean_bits_per_parameter(stored_by_cell(record)))


def relu_panels(record: "StudyRecord") -> list[Panel]:
    """Bits per parameter of one layer: the best of all trials, and of those alone that had a ReLU (C48)."""
    both = by_cell([each for each in main_arms(record) if each.labels["depth"] == 1])
    only = {name: [of_relu(each) for each in own] for name, own in both.items() if name != "IRNN"}
    what = "bits_per_parameter"
    solid = [arm_series(name, own, num_parameters, quantity=what) for name, own in both.items()]
    dashed = [arm_series(name, own, num_parameters, quantity=what, kind="dashed") for name, own in only.items()]
    if not known(dashed):
        return []
    title = "1 layer (dashed: ReLU only)"
    series = known([*solid, *dashed])
    return [Panel(title=title, x_title=_PARAMETERS, y_title=_PER_PARAMETER, series=series)]


def unrolled_panels(record: "StudyRecord") -> list[Panel]:
    """Bits per parameter against the number of steps; that of figure 1 is among them (C49)."""
    arms = [each for each in record.arms if "task.length" in each.labels]
    same = {(cell_name(each), each.labels["depth"], each.labels["parameters"]) for each in arms}
    own = [
        each
        for each in main_arms(record)
        if (cell_name(each), each.labels["depth"], each.labels.get("parameters")) in same
    ]
    series = known(
        [
            arm_series(name, some, lambda each: float(each.arm.task.num_steps), quantity="bits_per_parameter")
            for name, some in by_cell([*arms, *own]).items()
        ]
    )
    if not arms:
        return []
    return [Panel(title="", x_title="unrolled steps", y_title=_PER_PARAMETER, series=series)]


def set_size_panels(record: "StudyRecord") -> list[Panel]:
    """The set size that tuning chose against the information that was stored of it (C50)."""
    stored = {name: found for name, found in stored_by_cell(record).items() if found}
    if not stored:
        return []
    dots = [
        Series(name, tuple(each.bits for each in found), tuple(float(each.num_samples) for each in found), "dots")
        for name, found in stored.items()
    ]
    sizes = [value for each in dots for value in (*each.x, *each.y) if value > 0]
    line = Series("all stored", (min(sizes), max(sizes)), (min(sizes), max(sizes)), "theory")
    title = "all cells, sizes and depths"
    series = (*dots, line)
    y_title = "labels in the best set"
    return [Panel(title=title, x_title="stored bits", y_title=y_title, series=series, has_equal_scales=True)]


def memory_panels(record: "StudyRecord") -> list[Panel]:
    """Squared error against units, a panel for each depth, with what n units can hold at best (C54, C55)."""
    num_inputs = record.arms[0].arm.task.input_size
    widest = max(num_units(each) for each in record.arms)
    at = tuple(float(units) for units in np.linspace(0, max(widest, 1.25 * num_inputs), 26))
    theory = Series("max(0, 1 − n / inputs)", at, tuple(max(0.0, 1 - units / num_inputs) for units in at), "theory")
    return [
        Panel(
            title=layer_words(depth),
            x_title="units of a layer",
            y_title="squared error per input",
            series=(*known([arm_series(name, own, num_units) for name, own in by_cell(arms).items()]), theory),
            uprights=((float(num_inputs), f"{num_inputs} inputs"),),
            may_be_log=False,
        )
        for depth, arms in by_depth(record.arms).items()
    ]


def size_panels(record: "StudyRecord") -> list[Panel]:
    """Scores against parameters, a panel for each depth, and against units for one layer (C58, C61)."""
    score = record.arms[0].arm.score
    depths = by_depth(record.arms)
    found = [
        Panel(
            title=layer_words(depth),
            x_title=_PARAMETERS,
            y_title=quantity(score),
            series=known([arm_series(name, own, num_parameters) for name, own in by_cell(arms).items()]),
        )
        for depth, arms in depths.items()
    ]
    first = depths[min(depths)]
    units = known([arm_series(name, own, num_units) for name, own in by_cell(first).items()])
    title = f"{layer_words(min(depths))}, by width"
    found.append(Panel(title=title, x_title="units of a layer", y_title=quantity(score), series=units))
    return found


def tuning_panels(record: "StudyRecord") -> list[Panel]:
    """Running medians and running bests on evaluation data, a panel for each depth, trials as dots (C70)."""
    score = record.arms[0].arm.score
    found: list[Panel] = []
    for what in ("median", "best"):
        for depth, arms in by_depth(record.arms).items():
            series = [each for arm in arms for each in _course(arm, what)]
            title = f"{layer_words(depth)}, {'running median' if what == 'median' else 'running minimum'}"
            if score.better == "higher":
                title = title.replace("minimum", "maximum")
            found.append(
                Panel(
                    title=title,
                    x_title="trial",
                    y_title=quantity(score),
                    series=tuple(series),
                    better=score.better,
                    may_be_log=False,
                )
            )
    return found


def _course(record: "ArmRecord", what: str) -> list[Series]:
    """The line of an arm, and its trials as dots; both on evaluation data (C2)."""
    name = record.arm.score.name
    trials = [replace(trial, value=score_on_test(trial, name)) for trial in record.trials]
    history = tuning_history(cell_name(record), trials, is_maximised=record.arm.is_maximised)
    line = [
        (float(number), value)
        for number, value in enumerate(history.best if what == "best" else history.median, start=1)
        if value is not None
    ]
    dots = [(float(number), value) for number, value in enumerate(history.values, start=1) if value is not None]
    kept = dots[:: -(-len(dots) // MOST_DOTS) or 1]
    return [_joined(history.name, kept, "dots"), _joined(history.name, line, "line")] if line else []


def _joined(name: str, points: Sequence[tuple[float, float]], kind: Kind) -> Series:
    x, y = zip(*points, strict=True)
    return Series(name, x, y, kind)


@dataclass(frozen=True)
class Box:
    """The spread of an arm's runs.

    Args:
        name: of the cell.
        num, num_infeasible: how many runs have a score, and how many diverged.
        low, quartile, median, upper_quartile, high: the box; its whiskers end at the last scores within one and a half
            times its length.
        outliers: scores beyond the whiskers.
    """

    name: str
    num: int
    num_infeasible: int
    low: float
    quartile: float
    median: float
    upper_quartile: float
    high: float
    outliers: tuple[float, ...]


def boxes(record: "StudyRecord") -> dict[int, tuple[Box, ...]]:
    """Boxes of the evaluation losses of all trials, by depth and cell (C71)."""
    return {
        depth: tuple(box for each in arms if (box := _box(each)) is not None)
        for depth, arms in by_depth(record.arms).items()
    }


def _box(record: "ArmRecord") -> Box | None:
    scores = scores_of(record, record.trials)
    found = np.array([score for score in scores if score is not None])
    if not len(found):
        return None
    first, median, third = (float(value) for value in np.quantile(found, (0.25, 0.5, 0.75)))
    reach = 1.5 * (third - first)
    inside = found[(found >= first - reach) & (found <= third + reach)]
    outside = sorted(float(value) for value in found[(found < first - reach) | (found > third + reach)])
    low, high = float(inside.min()), float(inside.max())
    name = cell_name(record)
    return Box(name, len(found), len(scores) - len(found), low, first, median, third, high, tuple(outside))
