"""Titles and captions: what one sees, for people who have not read the papers."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rnnlab.architecture.cells import CELLS
from rnnlab.graph.catalogue import CATALOGUE
from rnnlab.report.numbers import Part
from rnnlab.studies.comparison import measures_of
from rnnlab.studies.expansion import size_words
from rnnlab.studies.importance import METHOD
from rnnlab.studies.verdict import listed
from rnnlab.tasks.registry import TASKS
from rnnlab.tasks.task import AbstractTask

if TYPE_CHECKING:
    from rnnlab.studies.records import ArmRecord, StudyRecord


def report_title(record: "StudyRecord", parts: tuple[Part, ...]) -> str:
    """The title of a report."""
    title = record.spec.title if record.spec is not None else ""
    if title or len(parts) != 1:
        return title or record.name
    return f"{_names(parts[0])} on {parts[0].records[0].arm.task.name}"


def subtitle(record: "StudyRecord") -> str:
    """Which study the report is about, and what its tasks are."""
    tasks = dict.fromkeys(_task_words(each) for each in record.arms)
    state = "" if record.is_complete else " (not complete yet)"
    summaries = [text for text in dict.fromkeys(task_summary(each.arm.task) for each in record.arms) if text]
    meaning = f" What the networks have to do: {'; '.join(summaries)}." if summaries else ""
    heading = "Task" if len(tasks) == 1 else "Tasks"
    return f"Study {record.name}, made with rnnlab{state}. {heading}: {', '.join(tasks)}.{meaning}"


def part_title(part: Part) -> str:
    """Which architectures are compared on what, and how large they are."""
    labels = [each.labels for each in part.records]
    common = {key: value for key, value in labels[0].items() if all(other.get(key) == value for other in labels)}
    depth = f", {count_words(common['depth'], 'layer')}" if "depth" in common else ""
    size = next((f", {count_words(common[key], key[:-1])}" for key in ("parameters", "units") if key in common), "")
    return f"{_names(part)} on {_task_words(part.records[0])}{depth}{size}"


def _task_words(record: "ArmRecord") -> str:
    """A task with all arguments that its specification gives, even if they are the defaults."""
    words = str(record.arm.task)
    named = {key.removeprefix("task."): value for key, value in record.labels.items() if key.startswith("task.")}
    left = [f"{name}={value!r}" for name, value in named.items() if f"{name}={value!r}" not in words]
    if not left:
        return words
    front, _, rest = words.partition("(")
    return f"{front}({', '.join(left)}, {rest}" if rest else f"{front}({', '.join(left)})"


def count_words(count: int | Mapping[str, int], unit: str) -> str:
    """A number and what it counts; widths of single nodes one by one.

    >>> count_words(1, "layer"), count_words(1500, "parameter"), count_words({"h1": 4, "h2": 8}, "unit")
    ('1 layer', '1,500 parameters', 'units h1=4 h2=8')
    """
    if isinstance(count, Mapping):
        return f"{unit}s {size_words(count)}"
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def verdicts_in_short(parts: Sequence[Part]) -> str:
    """How many of several comparisons each architecture wins; a single architecture is no comparison."""
    verdicts = [part.comparison.verdict for part in parts if len(part.comparison.contenders) > 1]
    if not verdicts:
        return "Nothing is compared here: no two architectures have the same task and size."
    winners = Counter(each.winner for each in verdicts if each.winner is not None)
    if not winners:
        said = {(each.sentence, each.leaders) for each in verdicts}
        is_nobody_judged = len(said) == 1 and not verdicts[0].leaders  # anywhere, for one reason
        is_one = len(verdicts) == 1 or is_nobody_judged
        return verdicts[0].sentence if is_one else f"None of the {len(verdicts)} comparisons has a winner."
    (first, most), *others = winners.most_common()
    rest = len(verdicts) - winners.total()
    ending = f"; the other{f' {rest} have' if rest > 1 else ' has'} no winner" if rest else ""
    more = "".join(f", {name} in {count}" for name, count in others)
    return f"{first} is best in {most} of {len(verdicts)} comparisons{more}{ending}."


def task_summary(task: AbstractTask) -> str:
    """What a network has to do, for readers who do not know the task's name; empty for a user's own task.

    >>> from rnnlab import task
    >>> task_summary(task("adding"))
    'add the two marked numbers of a long sequence'
    """
    return TASKS[task.name].summary if task.name in TASKS else ""


def _names(part: Part) -> str:
    return listed([each.name for each in part.comparison.contenders], "architectures")


def score_caption(part: Part) -> str:
    """The caption of the figure of scores."""
    runs = "seed" if part.comparison.sample == "seeds" else "trial"
    return (
        f"Each mark is the score of one {runs} on test data. The vertical line is the mean; the bar below the marks is "
        f"its 95% interval.{_TESTS if any(each.welch for each in part.comparison.tests) else ''} Scores beyond the "
        "axis are drawn at its edge."
    )


_TESTS = " Whether differences are larger than chance would explain is tested below."


def curve_caption(part: Part) -> str:
    """The caption of the learning curves."""
    counts = sorted({band.num for band in part.bands})
    many = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (
        f"Each line is the median score of {many} seeds on validation data; the band contains the middle half of the "
        "seeds. Each architecture was trained with its best setting."
    )


def history_caption(part: Part) -> str:
    """The caption of the course of tuning."""
    total = sum(each.num_infeasible for each in part.histories)
    diverged = " Short ticks at the bottom are trials that diverged; the median leaves them out." if total else ""
    works = "most settings work" if not total else "most settings that do not diverge work"
    easy = ", and the architecture is easy to train" if not total else ""
    return (
        "Each mark is one trial: one hyperparameter setting, trained to its end and scored on validation data. The "
        "solid line is the best score so far, the dashed line the median so far. If the two are close together at a "
        f"good score, {works}{easy}.{diverged} Scores beyond the axis are drawn at its edge."
    )


def importance_caption(part: Part) -> str:
    """The caption of the importance of hyperparameters."""
    missing = [name for name, found in part.importances.items() if found is None]
    left_out = f" Not shown for {listed(missing)}: too few trials." if missing else ""
    return (
        f"Each hyperparameter's share of the total importance, by {METHOD}. A share is large if the best tenth of the "
        f"trials (at least five) has other values of it than all trials together.{left_out}"
    )


def architecture_words(record: "ArmRecord") -> str:
    """What an architecture is, for readers who do not know its name."""
    written = str(record.labels.get("architecture", ""))
    file, is_file, _ = written.partition(".json")
    summary = f"the graph in {Path(file).name}.json" if is_file else _summary(written.partition(":")[0])
    return ", ".join(part for part in (summary, f"{cells(record)} cells") if part)


def _summary(name: str) -> str:
    """The catalogue's description of a name; a cell alone is one layer of it.

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
    """The measures and the size of an architecture, on one line."""
    measures, size = measures_of(record.arm), f"{record.arm.architecture.num_parameters():,} parameters"
    if measures is None:
        return f"{size}; it runs in both directions of time, which have measures of their own"
    depth = "none" if measures.feedforward_depth is None else measures.feedforward_depth
    return (
        f"recurrent depth {measures.recurrent_depth}, feedforward depth {depth}, "
        f"skip coefficient {measures.recurrent_skip_coefficient}; {size}"
    )


def cells(record: "ArmRecord") -> str:
    """The cells of an architecture."""
    return ", ".join(dict.fromkeys(node.cell for node in record.arm.architecture.nodes if node.cell is not None))
