"""The copying problem (Z46): keep a few symbols over a long delay and repeat them in order."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rnnlab.errors import TaskError
from rnnlab.integers import keep_integers
from rnnlab.tasks.example import Example, Symbols, first_sequence
from rnnlab.tasks.generated import AbstractGeneratedTask, Choices
from rnnlab.tasks.losses import cross_entropy, mean, totals
from rnnlab.tasks.task import Batch, Encoding, Score, Tally


@dataclass(frozen=True, kw_only=True)
class Copying(AbstractGeneratedTask):
    """Repeat ten symbols after a delay (Z46).

    Inputs are ten symbols of 1 to 8, T - 1 zeros, the marker 9, ten zeros; wanted are T + 10 zeros and the ten symbols.
    The loss is the cross entropy of nine classes, in nats, averaged over all T + 20 steps. Zhang et al. take T of 100
    to 300; 100,000 training sequences as in the code of Arjovsky et al., whose settings they follow.

    Args:
        delay: T, how many steps lie between the last symbol and its first repetition, marker included.
        num_items: how many symbols to repeat.
        num_symbols: how many different ones there are.

    >>> batch = Copying(delay=4, num_items=2).sample(1, generator=torch.Generator().manual_seed(1))
    >>> batch.inputs.tolist(), batch.targets.tolist()
    ([[7, 4, 0, 0, 0, 9, 0, 0]], [[0, 0, 0, 0, 0, 0, 7, 4]])
    """

    name: ClassVar[str] = "copying"
    batch_size: ClassVar[int] = 50
    encoding: ClassVar[Encoding] = "tokens"

    delay: int = 100
    num_items: int = 10
    num_symbols: int = 8
    num_training: int | None = 100_000

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_integers(self, TaskError, delay=1, num_items=1, num_symbols=2)

    @property
    def input_size(self) -> int:
        """The blank, the symbols and the marker."""
        return self.num_symbols + 2

    @property
    def output_size(self) -> int:
        """The blank and the symbols."""
        return self.num_symbols + 1

    @property
    def num_steps(self) -> int:
        """T + 20."""
        return self.delay + 2 * self.num_items

    @property
    def scores(self) -> tuple[Score, ...]:
        """Cross entropy, whose chance level is 10 ln 8 / (T + 20), and the share of symbols repeated rightly."""
        memoryless = self.num_items * math.log(self.num_symbols) / self.num_steps
        guess = "blanks, then symbols at random"
        return (
            Score(
                name="cross_entropy",
                unit="nats per step",
                better="lower",
                chance=memoryless,
                baseline=guess,
                best=0.0,
            ),
            Score(name="accuracy", unit="", better="higher", chance=1 / self.num_symbols, baseline=guess, best=1.0),
        )

    def choose(self, num_sequences: int, generator: torch.Generator) -> Choices:
        """The symbols, [B, items]."""
        size = (num_sequences, self.num_items)
        return (torch.randint(1, self.num_symbols + 1, size, generator=generator, device=generator.device),)

    def encode(self, choices: Choices) -> Batch:
        """Symbols, blanks, marker, blanks; blanks, symbols."""
        (symbols,) = choices
        rows = len(symbols)
        marker = symbols.new_full((rows, 1), self.num_symbols + 1)
        blanks = symbols.new_zeros(rows, self.delay + self.num_items)
        inputs = (symbols, blanks[:, : self.delay - 1], marker, blanks[:, : self.num_items])
        return Batch(inputs=torch.cat(inputs, 1), targets=torch.cat((blanks, symbols), 1))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The cross entropy over all steps."""
        return mean(cross_entropy(outputs, batch.targets), num_axes=2)

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        """Cross entropies of all steps, and which of the last symbols are right."""
        recalled = outputs[..., -self.num_items :, :].argmax(-1) == batch.targets[..., -self.num_items :]
        return Tally.of(
            cross_entropy=totals(cross_entropy(outputs, batch.targets), num_axes=2),
            accuracy=totals(recalled, num_axes=2),
        )

    def example(self, batch: Batch) -> Example:
        """Inputs above targets."""
        inputs, targets = (first_sequence(tensor, 1).tolist() for tensor in (batch.inputs, batch.targets))
        rows = tuple(
            Symbols(label, tuple(map(str, row)), frozenset(step for step, symbol in enumerate(row) if symbol))
            for label, row in (("input", inputs), ("target", targets))
        )
        wanted = " ".join(map(str, targets[-self.num_items :]))
        return Example(str(self), rows, f"{wanted}, over the last {self.num_items} steps; 0 before")
