"""The curves of Zhang et al. 2016 and of Mongia as numbers (Z69-Z74, M8, M13)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rnnlab.report.curves import CurveBand, curve_band
from rnnlab.report.paper_panels import Panel, Series, arm_series, known, task_words
from rnnlab.studies.comparison import measures_of
from rnnlab.studies.paper import Paper, PaperNumber
from rnnlab.studies.verdict import quantity

if TYPE_CHECKING:
    from rnnlab.studies.records import ArmRecord, StudyRecord
    from rnnlab.tuning.trials import Trial

PAPER = "the paper"
"""The name of the series that holds a paper's own numbers."""

_LOSS = "loss"


def skip_panels(record: "StudyRecord", paper: Paper) -> list[Panel]:
    """Accuracy against the recurrent skip coefficient, a panel for each task and cell, the paper's beside (Z71-Z74)."""
    plain = [each for each in record.arms if not each.labels.get("label")]
    kinds = dict.fromkeys((str(each.labels["task"]), _cell(each.labels["architecture"])) for each in plain)
    found: list[Panel] = []
    for task, cell in kinds:
        arms = [each for each in plain if (each.labels["task"], _cell(each.labels["architecture"])) == (task, cell)]
        series = known([arm_series("ours", arms, _skip_coefficient, unit="%"), _papers(paper, task, cell)])
        title, x_title = f"{task}, {cell}", "recurrent skip coefficient s"
        found.append(Panel(title=title, x_title=x_title, y_title="accuracy (%)", series=series, may_be_log=False))
    return found


def _cell(architecture: str) -> str:
    return architecture.partition(":")[2]


def _skip_coefficient(record: "ArmRecord") -> float:
    found = measures_of(record.arm)
    return 0.0 if found is None else float(found.recurrent_skip_coefficient)


def _papers(paper: Paper, task: str, cell: str) -> Series | None:
    points = sorted((each.at, each.value) for each in paper.numbers if each.at is not None and _is_of(each, task, cell))
    return Series(PAPER, tuple(at for at, _ in points), tuple(y for _, y in points), "dashed") if points else None


def _is_of(number: PaperNumber, task: str, cell: str) -> bool:
    cells = {_cell(str(name)) for name in number.where.get("architecture", ())}
    return task in number.where.get("task", ()) and cells == {cell}


def length_panels(record: "StudyRecord") -> list[Panel]:
    """Learning curves, a panel for each length of the task, with the level of a network without memory (Z69, Z70)."""
    found: list[Panel] = []
    for title, arms in _by_task(record.arms).items():
        score = arms[0].arm.score
        bands = [curve_band(_name(each), _runs(each), score.name) for each in arms]
        level = () if isinstance(score.chance, tuple) else ((score.chance, "no memory"),)
        found.append(_curve_panel(title, f"{quantity(score)} on validation data", bands, level, score.better))
    return found


def loss_panels(record: "StudyRecord") -> list[Panel]:
    """Training losses of all versions over time, a panel for each task and cell (M8, M13)."""
    found: list[Panel] = []
    for title, arms in _by_task(record.arms).items():
        cells = dict.fromkeys(str(each.labels.get("cell", "")) for each in arms)
        for cell in cells:
            own = [each for each in arms if str(each.labels.get("cell", "")) == cell]
            bands = [curve_band(_name(each), [_with_losses(run) for run in _runs(each)], _LOSS) for each in own]
            words = f"{title}, {cell}" if cell else title
            found.append(_curve_panel(words, "training loss", bands, (), "lower"))
    return found


def _curve_panel(
    title: str,
    y_title: str,
    bands: Sequence[CurveBand | None],
    levels: tuple[tuple[float, str], ...],
    better: str,
) -> Panel:
    series = tuple(
        Series(band.name, tuple(map(float, band.steps)), band.middle, "line", band.low, band.high)
        for band in bands
        if band is not None
    )
    return Panel(
        title=title,
        x_title="training steps",
        y_title=y_title,
        series=series,
        levels=levels,
        better=better,
        may_be_log=False,
    )


def _by_task(arms: Sequence["ArmRecord"]) -> dict[str, list["ArmRecord"]]:
    found: dict[str, list[ArmRecord]] = {}
    for each in arms:
        found.setdefault(task_words(each), []).append(each)
    return found


def _runs(record: "ArmRecord") -> tuple["Trial", ...]:
    """The best setting over seeds, or its one trial of tuning."""
    return record.repeats or (() if record.best is None else (record.best,))


def _name(record: "ArmRecord") -> str:
    return str(record.labels["architecture"]).partition(":")[0]


def _with_losses(run: "Trial") -> "Trial":
    """The run with its training losses in place of scores."""
    return replace(run, curve=dict(run.curve) | {"scores": {_LOSS: run.curve["losses"]}}) if run.curve else run
