"""A task and one of its sequences, for people: what the network sees and what it should say."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from rnnlab.errors import TaskError
from rnnlab.integers import as_integer
from rnnlab.tasks.example import Example
from rnnlab.tasks.registry import TASKS, argument_names
from rnnlab.tasks.task import AbstractTask, Score


def show(task: AbstractTask, *, number: int = 1) -> Example:
    """One sequence of a task, which prints itself and draws itself to a file with `save`.

    Args:
        task: as `rnnlab.task` builds it.
        number: which sequence of the validation split, counted from 1; for a stream, which piece.

    >>> from rnnlab.tasks.copying import Copying
    >>> print(show(Copying(delay=3, num_items=4)))
    copying(delay=3, num_items=4)
    <BLANKLINE>
    input       64510090000
    target      00000006451
    <BLANKLINE>
    answer      6 4 5 1, over the last 4 steps; 0 before
    """
    number = as_integer(number, "number", TaskError, 1)
    batch = next(islice(task.batches("validation", 1), number - 1, None), None)
    if batch is None:
        raise TaskError(f"{task.name} has no sequence {number}: validation has {task.num_sequences('validation')}")
    return task.example(batch)


def description(task: AbstractTask) -> dict[str, Any]:
    """What a task needs and how it is judged, as JSON."""
    return {
        "name": task.name,
        "arguments": {name: task.to_json()[name] for name in argument_names(type(task))},
        "input_size": task.input_size,
        "output_size": task.output_size,
        "encoding": task.encoding,
        "num_steps": task.num_steps,
        "batch_size": task.batch_size,
        "feed": task.feed,
        "scores": [_score_entry(score) for score in task.scores],
    }


def summary(task: AbstractTask) -> str:
    """The same in a few lines for people."""
    inputs = counted(task.input_size, "token" if task.encoding == "tokens" else "input")
    sizes = f"{inputs}, {counted(task.output_size, 'output')}, {counted(task.num_steps, 'step')}"
    arguments = " ".join(_option(name, task.to_json()[name]) for name in argument_names(type(task)))
    lines = [
        f"network     {sizes}, batches of {task.batch_size}",
        f"training    {_training(task)}",
        f"arguments   {arguments}",
        *(f"score       {score_line(score)}" for score in task.scores),
    ]
    return "\n".join(lines)


def score_line(score: Score) -> str:
    """A score with its unit, which way is better, chance level and best value."""
    is_said = score.name.startswith(score.unit.replace(" ", "_"))  # as of bits_per_character
    unit = "" if is_said else f" in {score.unit}"
    best = "" if score.best is None else f", best {number_text(score.best)}"
    return f"{score.name}{unit}, {score.better} is better: chance {number_text(score.chance)} ({score.baseline}){best}"


def counted(number: int, noun: str) -> str:
    """A number and what it counts."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def number_text(number: float | tuple[float, ...]) -> str:
    """A number as people write it; of several, the range.

    >>> number_text(0.0), number_text(1 / 6), number_text(10_000.0), number_text((3.0, 5.0, 4.0))
    ('0', '0.1667', '10000', '3 to 5')
    """
    if isinstance(number, tuple):
        return " to ".join(number_text(end) for end in sorted({min(number), max(number)}))
    return f"{number:.0f}" if number == round(number) else f"{number:.4g}"


def task_table(tasks: Iterable[AbstractTask]) -> str:
    """Tasks line by line, each with its sizes and the score that counts most; which of them read files."""
    lines = [
        _table_line(
            "task",
            "inputs",
            "outputs",
            "steps",
            "batch",
            "score",
            "chance",
            "best",
            "what the network has to do (source)",
        )
    ]
    on_data: list[str] = []
    for task in tasks:
        first, entry = task.scores[0], TASKS[task.name]
        sizes = (task.input_size, task.output_size, task.num_steps, task.batch_size)
        best = "" if first.best is None else number_text(first.best)
        judged = (first.name, number_text(first.chance), best)
        lines.append(_table_line(task.name, *map(str, sizes), *judged, f"{entry.summary} ({entry.citation})"))
        on_data += [] if entry.data_set is None else [task.name]
    if on_data:
        lines.append(f"\nTasks that read data files (see `rnnlab data list`): {', '.join(on_data)}")
    return "\n".join(lines)


def _table_line(name: str, inputs: str, outputs: str, steps: str, batch: str, *rest: str) -> str:
    score, chance, best, what = rest
    sizes = f"{inputs:>8}{outputs:>9}{steps:>7}{batch:>7}"
    return f"{name:<18}{sizes}   {score:<27}{chance:>8}{best:>7}   {what}"


def _training(task: AbstractTask) -> str:
    if task.feed == "stream":
        return "one stream: each batch continues the one before, and the state is kept"
    number = task.num_sequences("train")
    return "new sequences in every batch" if number is None else f"drawn at random; one pass is {number:,} sequences"


def _option(name: str, value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"--{name.replace('_', '-')} {text.lower() if value is None or isinstance(value, bool) else text}"


def _score_entry(score: Score) -> dict[str, Any]:
    return {
        "name": score.name,
        "unit": score.unit,
        "better": score.better,
        "chance": score.chance,
        "baseline": score.baseline,
        "best": score.best,
    }
