"""Slow and obvious twins of the generators: what a batch must be, sequence by sequence, from the same choices."""

from fractions import Fraction
from typing import Any

from rnnlab.tasks.adding import Adding
from rnnlab.tasks.arithmetic import Arithmetic
from rnnlab.tasks.capacity import Capacity
from rnnlab.tasks.copying import Copying
from rnnlab.tasks.memory import Memory
from rnnlab.tasks.parentheses import Parentheses
from rnnlab.tasks.rcf import RandomFunction
from rnnlab.tasks.recall import Recall

Sequence = tuple[Any, Any]  # inputs and target of one sequence, as lists


def adding(task: Adding, numbers: list[float], first: int, second: int) -> Sequence:
    inputs = [[number, 1.0 if step in (first, second) else 0.0] for step, number in enumerate(numbers)]
    return inputs, [numbers[first] + numbers[second]]


def copying(task: Copying, symbols: list[int]) -> Sequence:
    inputs = list(symbols)
    for _ in range(task.delay - 1):
        inputs.append(0)
    inputs.append(task.num_symbols + 1)
    for _ in range(task.num_items):
        inputs.append(0)
    return inputs, [0] * (task.delay + task.num_items) + list(symbols)


def memory(task: Memory, vector: list[float]) -> Sequence:
    return [vector] + [[0.0] * len(vector) for _ in range(task.length - 1)], vector


def recall(task: Recall, inputs: list[list[float]]) -> Sequence:
    return inputs, [inputs[0][0]]


def parentheses(task: Parentheses, characters: list[list[int]]) -> Sequence:
    """Characters are [T][streams]."""
    inputs = []
    counts = [0] * task.num_types
    for row in characters:
        step: list[float] = []
        for stream, character in enumerate(row):
            step += [1.0 if place == character else 0.0 for place in range(task.alphabet_size)]
            if character == 2 * stream and counts[stream] < 9:
                counts[stream] += 1
            if character == 2 * stream + 1 and counts[stream] > 0:
                counts[stream] -= 1
        inputs.append(step)
    return inputs, counts


def arithmetic(task: Arithmetic, first: int, second: int, compute_steps: int) -> tuple[str, str]:
    problem = f"{first}+{second}="
    answer = " " * (len(problem) + compute_steps) + str(first + second)
    return problem.ljust(task.length), answer.ljust(task.length)


def capacity(task: Capacity, bits: list[int], label: int, input_once: bool) -> Sequence:
    shown = [[float(bit) for bit in bits] if step == 0 or not input_once else [0.0] * len(bits) for step in range(99)]
    return shown[: task.length], float(label)


def rcf_weight(task: RandomFunction, row: int) -> Fraction:
    """β of a sample, exactly."""
    normaliser = sum(Fraction(1, number + task.tau) for number in range(1, task.num_samples + 1))
    return Fraction(1, row + 1 + task.tau) / normaliser
