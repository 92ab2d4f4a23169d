"""Titles and captions: what one sees, for people who have not read the papers."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from rnnlab.architecture.cells import CELLS
from rnnlab.graph.catalogue import CATALOGUE
from rnnlab.report.numbers import Part
from rnnlab.studies.comparison import measures_of
from rnnlab.studies.importance import METHOD
from rnnlab.studies.verdict import listed

if TYPE_CHECKING:
    from rnnlab.studies.records import ArmRecord, StudyRecord


def report_title(record: "StudyRecord", parts: tuple[Part, ...]) -> str:
    """What the report is about."""
    title = record.spec.title if record.spec is not None else ""
    if title or len(parts) != 1:
        return title or record.name
    return f"{_names(parts[0])} on {parts[0].records[0].arm.task.name}"


def part_title(part: Part) -> str:
    """Who is compared on what."""
    return f"{_names(part)} on {part.comparison.task}"


def _names(part: Part) -> str:
    return listed([each.name for each in part.comparison.contenders])


def score_caption(part: Part) -> str:
    """Of the figure of scores."""
    runs = "seed" if part.comparison.sample == "seeds" else "trial"
    return (
        f"Every mark is one {runs}, scored on test data it was not trained on. The upright line is the mean, the bar "
        "under the marks its 95% interval. Architectures whose bars lie apart differ; the tests below say how surely. "
        "Marks at the edge lie beyond it."
    )


def curve_caption(part: Part) -> str:
    """Of the learning curves."""
    counts = sorted({band.num for band in part.bands})
    many = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (
        f"The line is the median of {many} seeds on validation data, the band holds the middle half of them. "
        "Each architecture is trained with the best setting that tuning found for it."
    )


def history_caption(part: Part) -> str:
    """Of the course of tuning."""
    total = sum(each.num_infeasible for each in part.histories)
    diverged = " Short lines at the bottom are trials that diverged." if total else ""
    return (
        "Every mark is one trial, one hyperparameter setting trained to its end, with its score on validation data. "
        "The solid line is the best so far, the dashed line the median so far: a low median means that most settings "
        f"work, so that the architecture is easy to train.{diverged} Marks at the edge lie beyond it."
    )


def importance_caption(part: Part) -> str:
    """Of the importance of hyperparameters."""
    missing = [name for name, found in part.importances.items() if found is None]
    left_out = f" {listed(missing)}: too few trials." if missing else ""
    return (
        f"Shares of importance after {METHOD}: large where the best tenth of the trials has other values than the rest."
        f"{left_out}"
    )


def architecture_words(record: "ArmRecord") -> str:
    """What an architecture is, for people who do not know its name."""
    written = str(record.labels.get("architecture", ""))
    summary = f"the graph in {Path(written).name}" if ".json" in written else _summary(written.partition(":")[0])
    return ", ".join(part for part in (summary, f"{cells(record)} cells") if part)


def _summary(name: str) -> str:
    """What the catalogue says of a name; a bare cell is one layer of it.

    >>> _summary("skip-21"), _summary("lstm")
    ('one layer and a skip of 21 steps', 'one recurrent layer')
    """
    graph = "sh" if name in CELLS else name
    family = next((each for each in CATALOGUE if each.match(graph) is not None), None)
    if family is None:
        return ""
    summary = family.summary
    for letter, number in zip(re.findall("[A-Z]+", family.pattern), family.match(graph) or (), strict=True):
        summary = re.sub(rf"\b{letter}\b", str(number), summary)
    return summary


def measures_words(record: "ArmRecord") -> str:
    """The measures and the size of an architecture in a line."""
    measures, size = measures_of(record.arm), f"{record.arm.architecture.num_parameters():,} parameters"
    if measures is None:
        return f"{size}; its directions of time are measured one by one"
    depth = "none" if measures.feedforward_depth is None else measures.feedforward_depth
    return (
        f"recurrent depth {measures.recurrent_depth}, feedforward depth {depth}, "
        f"skip coefficient {measures.recurrent_skip_coefficient}; {size}"
    )


def cells(record: "ArmRecord") -> str:
    """The cells of an architecture."""
    return ", ".join(dict.fromkeys(node.cell for node in record.arm.architecture.nodes if node.cell is not None))
