"""The generated tasks at small sizes, for tests that hold for all of them."""

from rnnlab.tasks.adding import Adding
from rnnlab.tasks.arithmetic import Arithmetic
from rnnlab.tasks.capacity import Capacity
from rnnlab.tasks.copying import Copying
from rnnlab.tasks.memory import Memory
from rnnlab.tasks.parentheses import Parentheses
from rnnlab.tasks.rcf import RandomFunction
from rnnlab.tasks.recall import Recall
from rnnlab.tasks.task import AbstractTask

SHARED: tuple[AbstractTask, ...] = (
    Adding(length=7, num_evaluation=50),
    Adding(length=7, num_training=None, num_evaluation=50),
    Copying(delay=3, num_items=2, num_evaluation=50),
    Capacity(num_samples=50, num_inputs=8),
    Memory(num_inputs=4, length=3, num_evaluation=50),
    RandomFunction(num_samples=50, num_inputs=4, length=3, tau=5),
    Parentheses(length=9, num_types=3, num_evaluation=50),
    Arithmetic(largest=99, length=16, num_evaluation=50),
    Recall(length=5, num_evaluation=50),
)

BY_MEMBER: tuple[AbstractTask, ...] = (
    Capacity(num_samples=(50, 7, 20), num_inputs=8),
    Capacity(num_samples=30, num_inputs=8, input_once=(True, False, True)),
    Arithmetic(largest=99, length=19, compute_steps=(1, 6, 2), num_evaluation=50),
)

ALL = (*SHARED, *BY_MEMBER)
