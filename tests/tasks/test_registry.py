"""Tasks by name and from files."""

import json
from pathlib import Path

import numpy as np
import pytest

from rnnlab import TASKS, TaskError, task
from rnnlab.tasks.adding import Adding
from rnnlab.tasks.capacity import Capacity
from rnnlab.tasks.registry import argument_names, parse_arguments, task_class, task_from_words
from rnnlab.tasks.task import AbstractTask

HALF = """
from rnnlab import AbstractTask

class Half(AbstractTask):
    def tally(self, outputs, batch):
        pass
"""
OWN = """
from dataclasses import dataclass
from rnnlab.tasks.adding import Adding
from rnnlab.tasks.memory import Memory

@dataclass(frozen=True, kw_only=True)
class {name}(Memory):
    name = "{task}"
    wanted: int{default}
"""


@pytest.mark.parametrize("entry", TASKS.values(), ids=lambda entry: entry.name)
def test_every_entry_leads_to_a_task_of_that_name(entry) -> None:
    kind = entry.load()
    assert issubclass(kind, AbstractTask)
    assert kind.name == entry.name
    assert "[" in entry.citation
    assert not entry.summary.endswith(".")
    assert entry.data_set == getattr(kind, "data", None)


def test_only_what_pascanu_et_al_used_is_cited_as_theirs() -> None:
    theirs = {name for name, entry in TASKS.items() if "Pascanu" in entry.citation}
    assert theirs == {"nottingham", "jsb-chorales", "musedata", "ptb-characters", "ptb-words"}  # P12


def test_name_and_arguments_make_a_task() -> None:
    assert task("adding", length=200) == Adding(length=200)
    assert task("capacity", num_samples=[10, 20]) == Capacity(num_samples=(10, 20))


def test_numbers_of_numpy_make_a_task_that_files_can_hold() -> None:
    made = task("adding", length=np.int64(7), seed=np.uint8(2))
    assert made == task("adding", length=7, seed=2)
    assert json.loads(json.dumps(made.to_json())) == made.to_json()


def test_own_arguments_come_before_those_that_tasks_share() -> None:
    assert argument_names(Adding) == ["length", "num_training", "num_evaluation", "seed"]
    assert argument_names(Capacity) == ["num_samples", "num_inputs", "length", "input_once", "seed"]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("addign", {}, "no task is named 'addign'; did you mean 'adding'? `rnnlab list tasks` shows all"),
        ("xyz", {}, "no task is named 'xyz'; `rnnlab list tasks` shows all"),
        ("adding", {"lenght": 3}, "adding has no argument 'lenght'; did you mean 'length'?"),
        ("none.py", {}, "cannot read none.py: No such file or directory"),
        ("empty.py", {}, "empty.py must define one task, a dataclass made from AbstractTask; it defines none"),
        ("half.py", {}, "half.py: Half lacks batches, input_size, loss, num_sequences, num_steps, output_size, scores"),
        ("two.py", {}, "two.py must define one task, a dataclass made from AbstractTask; it defines First, Second"),
        ("broken.py", {}, "cannot load broken.py: SyntaxError"),
        ("fails.py", {}, "cannot load fails.py: ZeroDivisionError: division by zero"),
        ("plain.py", {}, "plain.py: class Plain must be a dataclass(frozen=True)"),
        ("needs.py", {}, "needs.py needs wanted"),
        ("own.py", {"wanted": 3, "lenght": 2}, "own.py has no argument 'lenght'; did you mean 'length'?"),
    ],
)
def test_bad_names_are_one_clear_line(tmp_path: Path, monkeypatch, name: str, arguments, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = (OWN.format(name=each, task=each, default=" = 1") for each in ("First", "Second"))
    files = {
        "empty.py": "from rnnlab.tasks.adding import Adding\n",
        "two.py": first + second,
        "half.py": HALF,
        "broken.py": "class\n",
        "fails.py": "1 / 0\n",
        "plain.py": "from rnnlab.tasks.memory import Memory\n\nclass Plain(Memory):\n    pass\n",
        "needs.py": OWN.format(name="Needs", task="needs", default=""),
        "own.py": first,
    }
    for path, text in files.items():
        Path(path).write_text(text)
    with pytest.raises(TaskError) as error:
        task(name, **arguments)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_words_make_a_task() -> None:
    assert task_from_words("adding", ["--length", "20"]) == Adding(length=20)
    with pytest.raises(TaskError, match="adding has no argument 'name'"):
        task_from_words("adding", ["--name", "x"])


def test_file_makes_a_task(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN.format(name="Mine", task="mine", default=" = 5"))
    assert str(task(str(path), length=7)) == "mine(length=7)"
    assert task_class(str(path)).__name__ == "Mine"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", {}),
        ("--length 20", {"length": 20}),
        ("--length=20 --num-items=3", {"length": 20, "num_items": 3}),
        ("--num-samples 1e6", {"num_samples": 1_000_000}),
        ("--x 12345678901234567890", {"x": 12345678901234567890}),
        ("--x -3 --y 0.5 --z text", {"x": -3, "y": 0.5, "z": "text"}),
        ("--x 1,2,3 --y 4,", {"x": (1, 2, 3), "y": (4,)}),
        ("--x true,False --y None", {"x": (True, False), "y": None}),
        ("--x inf", {"x": float("inf")}),
    ],
)
def test_words_of_the_command_line_become_values(words: str, expected) -> None:
    assert repr(parse_arguments(words.split())) == repr(expected)  # 1 is not 1.0 here


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--length", "--length needs a value"),
        ("20", "the arguments of a task are --NAME VALUE, got '20'"),
        ("--length 20 30", "the arguments of a task are --NAME VALUE, got '30'"),
        ("-l 20", "the arguments of a task are --NAME VALUE, got '-l'"),
        ("--", "the arguments of a task are --NAME VALUE, got '--'"),
        ("--length 20 --length 30", "--length is given twice"),
    ],
)
def test_words_that_are_no_arguments_are_refused(words: str, message: str) -> None:
    with pytest.raises(TaskError) as error:
        parse_arguments(words.split())
    assert message in str(error.value)


def test_a_large_number_with_an_exponent_stays_as_it_was_written() -> None:
    found = parse_arguments(["--a", "1e30", "--b", "2e6", "--c", "123456789012345678901"])
    assert [repr(value) for value in found.values()] == ["1e+30", "2000000", "123456789012345678901"]
