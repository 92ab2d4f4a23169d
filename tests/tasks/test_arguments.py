"""Bad arguments: one clear line that names the argument, its value and what it may be."""

import pytest

from rnnlab.errors import RnnlabError, TaskError
from rnnlab.tasks.adding import Adding
from rnnlab.tasks.arithmetic import Arithmetic
from rnnlab.tasks.capacity import Capacity
from rnnlab.tasks.copying import Copying
from rnnlab.tasks.memory import Memory
from rnnlab.tasks.parentheses import Parentheses
from rnnlab.tasks.rcf import RandomFunction
from rnnlab.tasks.recall import Recall
from rnnlab.tasks.task import Score


def test_scores_say_what_is_better_in_words_that_all_read_alike() -> None:
    with pytest.raises(TaskError, match="score 'accuracy': better is one of lower, higher, got 'Higher'"):
        Score(name="accuracy", unit="", better="Higher", chance=0.5, baseline="a coin")  # pyright: ignore[reportArgumentType]


BAD = [
    (Adding, {"length": 1}, "length must be an integer of at least 2, got 1"),
    (Adding, {"length": 10.0}, "length must be an integer of at least 2, got 10.0"),
    (Adding, {"length": True}, "length must be an integer of at least 2, got True"),
    (Adding, {"length": "20"}, "length must be an integer of at least 2, got '20'"),
    (Adding, {"num_training": 0}, "num_training must be an integer of at least 1, got 0"),
    (Adding, {"num_evaluation": 0}, "num_evaluation must be an integer of at least 1, got 0"),
    (Adding, {"num_evaluation": None}, "num_evaluation must be an integer of at least 1, got None"),
    (Adding, {"seed": -1}, "seed must be an integer of at least 0, got -1"),
    (Copying, {"delay": 0}, "delay must be an integer of at least 1, got 0"),
    (Copying, {"num_items": 0}, "num_items must be an integer of at least 1, got 0"),
    (Copying, {"num_symbols": 1}, "num_symbols must be an integer of at least 2, got 1"),
    (Memory, {"num_inputs": 0}, "num_inputs must be an integer of at least 1, got 0"),
    (Memory, {"length": 0}, "length must be an integer of at least 1, got 0"),
    (Recall, {"length": 0}, "length must be an integer of at least 1, got 0"),
    (Recall, {"num_inputs": 0}, "num_inputs must be an integer of at least 1, got 0"),
    (Parentheses, {"length": 0}, "length must be an integer of at least 1, got 0"),
    (Parentheses, {"num_types": 0}, "num_types must be an integer of at least 1, got 0"),
    (Parentheses, {"num_noise": 0}, "num_noise must be an integer of at least 1, got 0"),
    (Arithmetic, {"compute_steps": -1}, "compute_steps must be an integer of at least 0, got -1"),
    (Arithmetic, {"compute_steps": (1, "x")}, "compute_steps must be an integer of at least 0, got 'x'"),
    (Arithmetic, {"compute_steps": ()}, "compute_steps is a number, or one for each member; got none"),
    (Arithmetic, {"compute_steps": 8}, "the sum may need 37 steps; length is 36"),
    (Arithmetic, {"length": 31}, "the sum may need 32 steps; length is 31"),
    (Arithmetic, {"largest": 0}, "largest must be an integer of at least 1, got 0"),
    (Arithmetic, {"largest": 10**18}, "largest must not exceed 10**17"),
    (Capacity, {"num_samples": 0}, "num_samples must be an integer of at least 1, got 0"),
    (Capacity, {"num_samples": (5, 0)}, "num_samples must be an integer of at least 1, got 0"),
    (Capacity, {"num_samples": ()}, "num_samples and input_once have one value, or one for each member; got none"),
    (Capacity, {"num_samples": [5, 6]}, "num_samples must be an integer of at least 1, got [5, 6]"),
    (Capacity, {"num_inputs": 0}, "num_inputs must be an integer of at least 1, got 0"),
    (Capacity, {"length": 0}, "length must be an integer of at least 1, got 0"),
    (Capacity, {"seed": "x"}, "seed must be an integer of at least 0, got 'x'"),
    (Capacity, {"input_once": 1}, "input_once is true or false, for all members or each, got 1"),
    (
        Capacity,
        {"num_samples": (5, 6), "input_once": (True, False, True)},
        "num_samples and input_once are for different numbers of members",
    ),
    (RandomFunction, {"num_samples": 0}, "num_samples must be an integer of at least 1, got 0"),
    (RandomFunction, {"num_inputs": 0}, "num_inputs must be an integer of at least 1, got 0"),
    (RandomFunction, {"length": 0}, "length must be an integer of at least 1, got 0"),
    (RandomFunction, {"tau": -1}, "tau must be an integer of at least 0, got -1"),
    (RandomFunction, {"input_once": "no"}, "input_once is true or false, got 'no'"),
]


@pytest.mark.parametrize(("kind", "arguments", "message"), BAD, ids=lambda value: str(value)[:40])
def test_bad_arguments_are_refused(kind, arguments, message: str) -> None:
    with pytest.raises(TaskError) as error:
        kind(**arguments)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_smallest_sizes_are_accepted() -> None:
    for task in (
        Adding(length=2, num_training=1, num_evaluation=1),
        Copying(delay=1, num_items=1, num_symbols=2),
        Memory(num_inputs=1, length=1),
        Recall(length=1, num_inputs=1),
        Parentheses(length=1, num_types=1, num_noise=1),
        Arithmetic(compute_steps=0, largest=1, length=9),
        Capacity(num_samples=1, num_inputs=1, length=1),
        RandomFunction(num_samples=1, num_inputs=1, length=1, tau=0),
    ):
        batch = next(task.batches("test", 1))
        assert batch.inputs.shape[:2] == (1, task.num_steps)
        assert all(score.chance is not None for score in task.scores)


def test_task_errors_are_errors_of_rnnlab() -> None:
    assert issubclass(TaskError, RnnlabError)
