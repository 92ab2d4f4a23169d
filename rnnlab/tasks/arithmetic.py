"""Arithmetic (C67-C69): read two numbers character by character and write their sum."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import torch
from torch import Tensor

from rnnlab.errors import TaskError
from rnnlab.integers import keep_integers
from rnnlab.tasks.constants import constants
from rnnlab.tasks.example import Example, Symbols, first_sequence
from rnnlab.tasks.generated import AbstractGeneratedTask, Choices
from rnnlab.tasks.losses import cross_entropy, mean, totals
from rnnlab.tasks.task import Batch, Encoding, Score, Tally, keep_integers_of_members

CHARACTERS = "0123456789- +="  # sums are written with the first twelve
MINUS, SPACE, PLUS, EQUALS = (CHARACTERS.index(character) for character in "- +=")
NUM_CHANCE_SUMS = 20_000


@dataclass(frozen=True, kw_only=True)
class Arithmetic(AbstractGeneratedTask):
    """Read `a+b=` and write the sum (C67-C69).

    Both numbers are uniform on -10,000,000 to 10,000,000; a negative second number gives `+-`. The input begins at the
    first step and is followed by spaces. After `=` come `compute_steps` steps, then the sum; everything else in the
    target is spaces. The loss is the cross entropy averaged over all 36 steps; `answer_cross_entropy` is that of the
    sum's own characters.

    Args:
        compute_steps: how many steps lie between `=` and the sum, 1 to 6 in the paper; for all members or one for each.
        largest: the largest size of a number.
        length: the number of steps.

    >>> task = Arithmetic(compute_steps=2)
    >>> batch = task.encode((torch.tensor([-343243]), torch.tensor([93851])))
    >>> text(batch.inputs[0]), text(batch.targets[0])
    ('-343243+93851=                      ', '                -249392             ')
    """

    name: ClassVar[str] = "arithmetic"
    batch_size: ClassVar[int] = 64
    encoding: ClassVar[Encoding] = "tokens"

    compute_steps: int | tuple[int, ...] = 3
    largest: int = 10_000_000
    length: int = 36

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_integers(self, TaskError, largest=1)
        if not self._steps:
            raise TaskError("compute_steps is a number, or one for each member; got none")
        keep_integers_of_members(self, compute_steps=0)
        if self.largest > 10**17:
            raise TaskError(f"largest must not exceed 10**17, so that sums fit into 64 bits; got {self.largest}")
        term, answer = len(str(-self.largest)), len(str(-2 * self.largest))
        needed = 2 * term + 2 + max(self._steps) + answer
        keep_integers(self, TaskError, length=1)
        if self.length < needed:
            raise TaskError(
                f"two numbers, the steps after = and the sum may need {needed} steps; length is {self.length}"
            )

    @property
    def input_size(self) -> int:
        """Digits, minus, space, plus, equals."""
        return len(CHARACTERS)

    @property
    def output_size(self) -> int:
        """Digits, minus, space."""
        return SPACE + 1

    @property
    def num_steps(self) -> int:
        """36 in the paper."""
        return self.length

    @property
    def population(self) -> int | None:
        """The number of members, if each has its own number of compute steps."""
        return len(self.compute_steps) if isinstance(self.compute_steps, tuple) else None

    def select_members(self, members: Sequence[int]) -> Self:
        """The same task for some of its members."""
        if not isinstance(self.compute_steps, tuple):
            return self
        return replace(self, compute_steps=tuple(self.compute_steps[member] for member in members))

    @property
    def _steps(self) -> tuple[int, ...]:
        return self.compute_steps if isinstance(self.compute_steps, tuple) else (self.compute_steps,)

    @property
    def scores(self) -> tuple[Score, ...]:
        """Cross entropies of all steps and of the sum's characters; the share of sums without a wrong character."""
        everywhere, answer = self._chances
        at_each_step = "how often each character occurs at each step, in 20,000 sums"
        return (
            Score(
                name="cross_entropy",
                unit="nats per step",
                better="lower",
                chance=everywhere,
                baseline=at_each_step,
                best=0.0,
            ),
            Score(
                name="answer_cross_entropy",
                unit="nats per character",
                better="lower",
                chance=answer,
                baseline=at_each_step,
                best=0.0,
            ),
            Score(
                name="accuracy",
                unit="",
                better="higher",
                chance=self._chance_of_zero,
                baseline="always 0, at the step where that is right most often",
                best=1.0,
            ),
        )

    @property
    def _chance_of_zero(self) -> float:
        """The chance that the sum is 0 at its most likely step: a number of the most likely length and its opposite."""
        lengths = range(1, len(str(self.largest)) + 1)
        counts = [min(self.largest, 10**length - 1) - 10 ** (length - 1) + 1 for length in lengths]
        return 2 * max(counts) / (2 * self.largest + 1) ** 2

    @cached_property
    def _chances(self) -> tuple[float, float]:
        """Entropies of the characters at each step, counted in many sums; compute steps only shift them."""
        terms = self.choose(NUM_CHANCE_SUMS, torch.Generator().manual_seed(0))
        targets = replace(self, compute_steps=self._steps[0]).encode(terms).targets
        counts = (targets[..., None] == torch.arange(self.output_size)).sum(0).double()  # [T, characters]
        return _entropy(counts), _entropy(counts[:, :SPACE])

    def choose(self, num_sequences: int, generator: torch.Generator) -> Choices:
        """Both numbers, [B] each."""
        low, high, size = -self.largest, self.largest + 1, (num_sequences,)
        first, second = (torch.randint(low, high, size, generator=generator, device=generator.device) for _ in range(2))
        return first, second

    def encode(self, choices: Choices) -> Batch:
        """The characters of the problem [B, T], and those of the sum, [B, T] or [P, B, T]."""
        first, second = (choice[:, None] for choice in choices)
        steps = torch.arange(self.length, device=first.device)
        plus = num_characters(first)
        equals = plus + 1 + num_characters(second)
        inputs = character_at(first, steps)
        inputs = torch.where(steps > plus, character_at(second, steps - plus - 1), inputs)
        inputs = torch.where(steps == plus, PLUS, inputs)
        inputs = torch.where(steps == equals, EQUALS, inputs)
        wait = constants(self._steps, torch.int64, first.device)
        if self.population is not None:
            wait = wait[:, None, None]
        return Batch(inputs=inputs, targets=character_at(first + second, steps - equals - 1 - wait))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The cross entropy over all steps."""
        return mean(cross_entropy(outputs, batch.targets), num_axes=2)

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        """Cross entropies of all steps and of the sums, and which sums are right from the first step to the last."""
        surprise = cross_entropy(outputs, batch.targets)
        return Tally.of(
            cross_entropy=totals(surprise, num_axes=2),
            answer_cross_entropy=totals(surprise, batch.targets != SPACE, num_axes=2),
            accuracy=totals((outputs.argmax(-1) == batch.targets).all(-1)),
        )

    def example(self, batch: Batch) -> Example:
        """The problem above the answer."""
        problem, answer = (text(first_sequence(tensor, 1).tolist()) for tensor in (batch.inputs, batch.targets))
        rows = tuple(
            Symbols(label, tuple(line), frozenset(step for step, character in enumerate(line) if character != " "))
            for label, line in (("input", problem), ("target", answer))
        )
        return Example(str(self), rows, f"{problem.strip()}{answer.strip()}, with spaces before and after")


def num_characters(numbers: Tensor) -> Tensor:
    """How many characters numbers have in print, the sign of negative ones included.

    >>> num_characters(torch.tensor([0, 9, 10, -7, -1000])).tolist()
    [1, 1, 2, 2, 5]
    """
    powers = _powers_of_ten(numbers.device)
    return (numbers.abs()[..., None] >= powers[1:]).sum(-1) + 1 + (numbers < 0)


def character_at(numbers: Tensor, places: Tensor) -> Tensor:
    """The character at a place of a printed number, as its place in `CHARACTERS`; a space before and after.

    >>> text(character_at(torch.tensor([[-407], [52]]), torch.arange(-1, 5)))
    ' -407  52   '
    """
    negative = numbers < 0
    from_the_end = num_characters(numbers) - 1 - places
    powers = _powers_of_ten(numbers.device)
    digits = numbers.abs() // powers[from_the_end.clamp(0, len(powers) - 1)] % 10
    found = torch.where(negative & (places == 0), MINUS, digits)
    return torch.where((places >= 0) & (from_the_end >= 0), found, SPACE)


def text(characters: Tensor | Sequence[int]) -> str:
    """Characters by their places in `CHARACTERS`, as text."""
    flat = characters.flatten().tolist() if isinstance(characters, Tensor) else list(characters)
    return "".join(CHARACTERS[character] for character in flat)


def _powers_of_ten(device: torch.device) -> Tensor:
    return constants(tuple(10**power for power in range(19)), torch.int64, device)


def _entropy(counts: Tensor) -> float:
    """The entropy in nats of characters counted step by step, [T, K], on average over what was counted."""
    of_step = counts.sum(-1, keepdim=True)
    surprise = -torch.xlogy(counts, counts / of_step.clamp(min=1))
    return float(surprise.sum() / counts.sum())
