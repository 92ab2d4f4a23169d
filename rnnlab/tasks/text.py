"""Text for networks that predict the next symbol: as streams side by side, or as windows from anywhere."""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rnnlab.errors import TaskError
from rnnlab.integers import as_integer, keep_integers
from rnnlab.tasks.data_tasks import AbstractDataTask, frequencies, surprise
from rnnlab.tasks.example import Example, Symbols, first_sequence
from rnnlab.tasks.losses import cross_entropy, mean, totals
from rnnlab.tasks.task import Batch, Encoding, Feed, Score, Split, Tally, require_split

# how a symbol is shown where the plain one would not be seen
SHOWN = {"\n": "↵", " ": "·"}


@dataclass(frozen=True, kw_only=True)
class AbstractTextTask(AbstractDataTask):
    """Predict every symbol of a text from those before it. Its one tensor for a split is the text, [symbols].

    Args:
        length: how many steps a sequence has.
    """

    encoding: ClassVar[Encoding] = "tokens"
    feed: ClassVar[Feed] = "stream"
    may_read_ahead: ClassVar[bool] = False  # the next input is the answer

    length: int

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_integers(self, TaskError, length=1)

    @abstractmethod
    def symbol(self, token: int) -> str:
        """The text of a token."""

    @property
    def output_size(self) -> int:
        """A logit for every token."""
        return self.input_size

    @property
    def num_steps(self) -> int:
        """The length of a training sequence."""
        return self.length

    @property
    def num_given(self) -> int:
        """How many symbols at the beginning of a text are never predicted."""
        return 1

    def num_sequences(self, split: Split) -> int | None:
        """How many windows the text is cut into where it runs as one stream."""
        (text,) = self.tensors(require_split(split), "cpu")
        return math.ceil((len(text) - 1) / self.length)

    def batches(self, split: Split, batch_size: int, *, device: torch.device | str = "cpu") -> Iterator[Batch]:
        """The text as `batch_size` streams side by side, every symbol but the first predicted exactly once."""
        batch_size = as_integer(batch_size, "batch_size", TaskError, 1)
        (text,) = self.tensors(require_split(split), device)
        return stream_batches(text, batch_size, self.length)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The cross entropy of the symbols that count, in nats each."""
        return mean(cross_entropy(outputs, batch.targets), batch.weights, num_axes=2)

    def example(self, batch: Batch) -> Example:
        """The symbols that go in, and those wanted; where some do not count, those that do are marked."""
        inputs, targets = (first_sequence(tokens, 1) for tokens in (batch.inputs, batch.targets))
        assert batch.weights is not None
        counted = [int(step) for step in np.flatnonzero(first_sequence(batch.weights, 1))]
        is_all = len(counted) == len(inputs)
        marked = frozenset[int]() if is_all else frozenset(counted)
        rows = (Symbols("input", self._shown(inputs)), Symbols("target", self._shown(targets), marked))
        which = "all steps count" if is_all else f"steps {counted[0] + 1} to {counted[-1] + 1} count"
        return Example(str(self), rows, f"the next symbol at every step; {which}")

    def _shown(self, tokens: np.ndarray) -> tuple[str, ...]:
        symbols = (self.symbol(int(token)) for token in tokens)
        return tuple(SHOWN.get(symbol, symbol) for symbol in symbols)


@dataclass(frozen=True, kw_only=True)
class AbstractCharacterTask(AbstractTextTask):
    """Predict characters, scored in bits for each."""

    alphabet: ClassVar[str]

    @property
    def input_size(self) -> int:
        """How many characters there are."""
        return len(self.alphabet)

    @property
    def score_name(self) -> str:
        """What the score is called."""
        return "bits_per_character"

    @property
    def scores(self) -> tuple[Score, ...]:
        """Bits per character."""
        return (
            Score(
                name=self.score_name,
                unit="bits per character",
                better="lower",
                chance=self.chance["bits_per_character"],
                baseline="how often each character occurs in the training text",
            ),
        )

    def symbol(self, token: int) -> str:
        """A character."""
        return self.alphabet[token]

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        """The bits of the characters that count."""
        bits = cross_entropy(outputs, batch.targets) / math.log(2)
        return Tally.of(**{self.score_name: totals(bits, batch.weights, num_axes=2)})

    def measure_chance(self) -> dict[str, float]:
        """The cross entropy of the training text's characters on the test text."""
        return {"bits_per_character": nats_by_frequency(self) / math.log(2)}


def nats_by_frequency(task: AbstractTextTask) -> float:
    """The cross entropy of the training text's frequencies on the test text, in nats per symbol."""
    (training,), (test,) = task.tensors("train", "cpu"), task.tensors("test", "cpu")
    return surprise(test[task.num_given :], frequencies(training, task.input_size))


def stream_batches(text: Tensor, batch_size: int, num_steps: int) -> Iterator[Batch]:
    """A text [symbols] as streams side by side, each continued from batch to batch.

    Row b has its share of the text, the shares one after another; every symbol but the first is a target exactly once.
    All batches are [batch_size, num_steps]; what lies behind the end of a share has weight 0.

    >>> batches = list(stream_batches(torch.arange(8), 2, 3))
    >>> [batch.inputs.tolist() for batch in batches]
    [[[0, 1, 2], [4, 5, 6]], [[3, 4, 5], [6, 6, 6]]]
    >>> [batch.weights.tolist() for batch in batches]
    [[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]
    """
    share = math.ceil((len(text) - 1) / batch_size)
    rows = torch.arange(batch_size, device=text.device)[:, None] * share
    ends = (rows + share).clamp(max=len(text) - 1)
    for start in range(0, share, num_steps):
        batch = text_windows(text, rows + start, num_steps, ends=ends)
        yield Batch(inputs=batch.inputs, targets=batch.targets, weights=batch.weights, continues=start > 0)


def text_windows(text: Tensor, starts: Tensor, num_steps: int, *, ends: Tensor | None = None) -> Batch:
    """Windows of a text from the given places [B, 1]; targets are the symbols one further on.

    Steps from `ends` [B, 1] on have weight 0; left out, the text's own end.
    """
    positions = starts + torch.arange(num_steps, device=text.device)  # [B, T]
    last = len(text) - 2
    inside = positions <= last if ends is None else positions < ends
    positions = positions.clamp(max=last)
    return Batch(inputs=text[positions].long(), targets=text[positions + 1].long(), weights=inside.float())


def encode_characters(content: bytes, alphabet: str) -> Tensor:
    """A text as numbers of its characters in the alphabet.

    >>> encode_characters(b"a cab", " abc")
    tensor([1, 0, 3, 1, 2], dtype=torch.uint8)
    """
    numbers = np.full(256, len(alphabet), np.uint8)
    numbers[list(alphabet.encode("latin-1"))] = np.arange(len(alphabet))
    encoded = numbers[np.frombuffer(content, np.uint8)]
    if len(foreign := np.flatnonzero(encoded == len(alphabet))):
        place = int(foreign[0])
        raise TaskError(f"byte {content[place]} at {place:,} of the text is none of its {len(alphabet)} characters")
    return torch.from_numpy(encoded)


def check_texts(texts: Mapping[Split, Tensor], data: str) -> None:
    """Refuse a split in which there is nothing to predict."""
    for split, text in texts.items():
        if len(text) < 2:
            raise TaskError(f"the {split} text of {data} has {len(text)} symbols; at least 2 are needed")
