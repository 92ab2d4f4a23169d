"""Parentheses counting (C62-C66): ten streams of brackets and noise at once, each with a count of its own."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rnnlab.errors import TaskError
from rnnlab.integers import keep_integers
from rnnlab.tasks.example import Example, Symbols, first_sequence
from rnnlab.tasks.generated import AbstractGeneratedTask, Choices
from rnnlab.tasks.losses import cross_entropy, last_step, mean, totals
from rnnlab.tasks.task import Batch, Score, Tally

HIGHEST_COUNT = 9  # the answer is one digit
BRACKETS = ("()", "[]", "{}", "<>", "«»", "‹›", "⌈⌉", "⌊⌋", "⟨⟩", "⟦⟧")


@dataclass(frozen=True, kw_only=True)
class Parentheses(AbstractGeneratedTask):
    """Count the open parentheses of one type in each of ten streams (C62-C66).

    A character is noise or a parenthesis with equal chance; a parenthesis is any of the 20 (ten types, open or closed),
    noise any of ten letters. Stream j counts type j, all else is noise to it: an open one adds 1, a closed one takes 1
    away, and the count stays between 0 and 9 (the paper says so of 9; a digit cannot fall below 0). Wanted are the ten
    counts after the last step; the loss is the sum of their ten cross entropies.

    Args:
        length: T, how many steps.
        num_types: how many types of parentheses, and so how many streams.
        num_noise: how many letters are noise.

    >>> task = Parentheses()
    >>> task.input_size, task.output_size, task.num_steps
    (300, 100, 175)
    """

    name: ClassVar[str] = "parentheses"
    batch_size: ClassVar[int] = 64
    only_last: ClassVar[bool] = True

    length: int = 175
    num_types: int = 10
    num_noise: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_integers(self, TaskError, length=1, num_types=1, num_noise=1)

    @property
    def alphabet_size(self) -> int:
        """How many characters a stream has: symbol 2k opens type k, 2k + 1 closes it, noise comes last."""
        return 2 * self.num_types + self.num_noise

    @property
    def input_size(self) -> int:
        """A character of every stream, each as a vector with one 1."""
        return self.num_types * self.alphabet_size

    @property
    def output_size(self) -> int:
        """Ten digits for every stream."""
        return self.num_types * (HIGHEST_COUNT + 1)

    @property
    def num_steps(self) -> int:
        """175 in the paper."""
        return self.length

    @cached_property
    def count_distribution(self) -> np.ndarray:
        """The probabilities of the counts 0 to 9 after the last step, exactly: a walk between two walls.

        >>> Parentheses(length=1, num_types=1).count_distribution[:2].tolist()
        [0.75, 0.25]
        """
        step = 1 / (4 * self.num_types)
        move = np.diag(np.full(HIGHEST_COUNT + 1, 1 - 2 * step))
        move += np.diag(np.full(HIGHEST_COUNT, step), 1) + np.diag(np.full(HIGHEST_COUNT, step), -1)
        move[0, 0] += step
        move[-1, -1] += step
        return np.linalg.matrix_power(move, self.length)[0]

    @property
    def scores(self) -> tuple[Score, ...]:
        """The sum of the streams' cross entropies, and the share of counts that are right."""
        likely = self.count_distribution[self.count_distribution > 0]
        entropy = self.num_types * -float(np.sum(likely * np.log(likely)))
        return (
            Score(
                name="cross_entropy",
                unit="nats over all streams",
                better="lower",
                chance=entropy,
                baseline="how often each count occurs",
                best=0.0,
            ),
            Score(
                name="accuracy",
                unit="",
                better="higher",
                chance=float(likely.max()),
                baseline="always the most frequent count",
                best=1.0,
            ),
        )

    def choose(self, num_sequences: int, generator: torch.Generator) -> Choices:
        """The characters, [B, T, streams], as numbers below `alphabet_size`."""
        num_brackets, size = 2 * self.num_types, (num_sequences, self.length, self.num_types)
        # one draw decides both: which half it falls in, noise or not; what is left over, which one
        half = num_brackets * self.num_noise
        drawn = torch.randint(2 * half, size, generator=generator, device=generator.device, dtype=torch.int32)
        characters = torch.where(drawn < half, drawn % num_brackets, num_brackets + drawn % self.num_noise)
        return (characters.to(torch.int16),)

    def encode(self, choices: Choices) -> Batch:
        """Ones at the characters, and the final counts [B, streams]."""
        (characters,) = choices
        shape = (*characters.shape, self.alphabet_size)
        ones = torch.zeros(shape, device=characters.device).scatter_(-1, characters.long()[..., None], 1.0)
        return Batch(inputs=ones.flatten(-2), targets=final_counts(self._changes(characters)).long())

    def _changes(self, characters: Tensor) -> Tensor:
        """By how much each character changes the count of its stream: 1, -1 or 0."""
        opening = 2 * torch.arange(self.num_types, device=characters.device)
        return (characters == opening).to(torch.int16) - (characters == opening + 1).to(torch.int16)

    def _digits(self, outputs: Tensor) -> Tensor:
        """The last outputs by stream, [..., B, streams, 10]."""
        return last_step(outputs).unflatten(-1, (self.num_types, HIGHEST_COUNT + 1))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The sum over streams of the cross entropy at the last step."""
        return mean(cross_entropy(self._digits(outputs), batch.targets).sum(-1))

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        """Cross entropies, and which counts are right."""
        digits = self._digits(outputs)
        return Tally.of(
            cross_entropy=totals(cross_entropy(digits, batch.targets).sum(-1)),
            accuracy=totals(digits.argmax(-1) == batch.targets, num_axes=2),
        )

    def example(self, batch: Batch) -> Example:
        """Every stream with its own parentheses marked, and below it the running count."""
        ones = first_sequence(batch.inputs, 2).reshape(self.length, self.num_types, -1)
        characters = ones.argmax(-1)  # [T, streams]
        rows = tuple(
            row for stream in range(self.num_types) for row in self._stream_rows(characters[:, stream], stream)
        )
        counts = " ".join(str(count) for count in first_sequence(batch.targets, 1))
        return Example(str(self), rows, f"{counts}: the last count of every stream, at the last step")

    def _stream_rows(self, characters: np.ndarray, stream: int) -> tuple[Symbols, Symbols]:
        own = frozenset(int(step) for step in np.flatnonzero(characters // 2 == stream))
        counts, count = [], 0
        for step, character in enumerate(characters):
            if step in own:
                count = min(max(count + (1 if character % 2 == 0 else -1), 0), HIGHEST_COUNT)
            counts.append(str(count))
        texts = tuple(self._text(int(character)) for character in characters)
        return Symbols(f"stream {BRACKETS[stream % len(BRACKETS)]}", texts, own), Symbols("count", tuple(counts), own)

    def _text(self, character: int) -> str:
        if character < 2 * self.num_types:
            return BRACKETS[character // 2 % len(BRACKETS)][character % 2]
        return chr(ord("a") + (character - 2 * self.num_types) % 26)


def final_counts(changes: Tensor) -> Tensor:
    """The last counts [B, S] of changes [B, T, S], each count kept between 0 and 9, from 0 on.

    Steps x → min(max(x + a, l), h) follow each other as one step of the same form, so pairs of steps are joined until
    one is left: about log2(T) rounds in place of T.

    >>> final_counts(torch.tensor([-1, 1, 1, -1])[None, :, None]).item()
    1
    """
    shift = changes
    low, high = torch.zeros_like(changes), torch.full_like(changes, HIGHEST_COUNT)
    for _ in range(math.ceil(math.log2(changes.shape[1]))):
        if shift.shape[1] % 2:  # a step that changes nothing makes the number even
            shift, low, high = (_padded(each, fill) for each, fill in ((shift, 0), (low, 0), (high, HIGHEST_COUNT)))
        next_shift, next_low, next_high = shift[:, 1::2], low[:, 1::2], high[:, 1::2]
        low = torch.clamp(low[:, ::2] + next_shift, next_low, next_high)
        high = torch.clamp(high[:, ::2] + next_shift, next_low, next_high)
        shift = shift[:, ::2] + next_shift
    return torch.clamp(shift, low, high)[:, 0]


def _padded(steps: Tensor, fill: int) -> Tensor:
    return torch.cat((steps, torch.full_like(steps[:, :1], fill)), dim=1)
