"""The Penn Treebank, character by character (Z43) and word by word (P12)."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import torch
from torch import Tensor

from rnnlab.errors import TaskError
from rnnlab.integers import keep_integers
from rnnlab.tasks.data import contents
from rnnlab.tasks.data_catalogue import DataSet
from rnnlab.tasks.data_tasks import Tensors
from rnnlab.tasks.losses import cross_entropy, totals
from rnnlab.tasks.task import Batch, Score, Split, Tally
from rnnlab.tasks.text import AbstractCharacterTask, AbstractTextTask, check_texts, encode_characters, nats_by_frequency

FILES: dict[Split, str] = {"train": "ptb.train.txt", "validation": "ptb.valid.txt", "test": "ptb.test.txt"}
END_OF_LINE = "<eos>"
UNKNOWN = "<unk>"

Spaces = Literal["after-every-word", "between-words"]


@dataclass(frozen=True, kw_only=True)
class PennTreebankCharacters(AbstractCharacterTask):
    """Predict the characters of the Penn Treebank (Z43, P12).

    The files have a space before every line and one behind it. Two counts of characters are in the literature: with one
    of the two spaces kept, 5,059,550 / 396,412 / 446,184, as Zhang et al. and Pascanu et al. have it; with none,
    5,017,482 / 393,042 / 442,423. An end of line is a character of its own.

    Args:
        length: how many steps a training sequence has; 50 in Zhang et al.
        spaces: `after-every-word`, the last of a line too, or only `between-words`.
        data: the data set.
    """

    name: ClassVar[str] = "ptb-characters"
    batch_size: ClassVar[int] = 50
    alphabet: ClassVar[str] = "\n abcdefghijklmnopqrstuvwxyz0123456789#$&'*-./<>N\\"

    length: int = 50
    spaces: Spaces = "after-every-word"
    data: str = "penn-treebank"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.spaces not in ("after-every-word", "between-words"):
            raise TaskError(f"spaces is after-every-word or between-words, got {self.spaces!r}")

    def read(self, data_set: DataSet) -> Mapping[Split, Tensors]:
        """The texts as numbers of their characters."""
        files = contents(data_set)
        between = self.spaces == "between-words"
        texts: dict[Split, Tensor] = {
            split: encode_characters(_lines(files[name], between), self.alphabet) for split, name in FILES.items()
        }
        check_texts(texts, data_set.name)
        return {split: (text,) for split, text in texts.items()}


@dataclass(frozen=True, kw_only=True)
class PennTreebankWords(AbstractTextTask):
    """Predict the words of the Penn Treebank (P12), an end of line being one of them.

    Words are numbered by how often they come in the training text, the commonest first.

    Args:
        length: how many steps a training sequence has; 100 in the code of Pascanu et al.
        num_words: how many words are told apart; rarer ones are `<unk>`, which the text has itself.
        data: the data set.
    """

    name: ClassVar[str] = "ptb-words"
    batch_size: ClassVar[int] = 20

    length: int = 100
    num_words: int = 10_000
    data: str = "penn-treebank"

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_integers(self, TaskError, num_words=2)

    @property
    def input_size(self) -> int:
        """How many words there are."""
        return self.num_words

    @property
    def scores(self) -> tuple[Score, ...]:
        """The perplexity: among how many equally likely words the network is left to choose."""
        return (
            Score(
                name="perplexity",
                unit="",
                better="lower",
                chance=self.chance["perplexity"],
                baseline="how often each word occurs in the training text",
            ),
        )

    def symbol(self, token: int) -> str:
        """A word."""
        return _vocabulary(self.data_set, self.num_words)[token]

    def read(self, data_set: DataSet) -> Mapping[Split, Tensors]:
        """The texts as numbers of their words."""
        files = contents(data_set)
        numbers = {word: number for number, word in enumerate(_vocabulary(data_set, self.num_words))}
        texts: dict[Split, Tensor] = {
            split: _encode_words(_words(files[name]), numbers) for split, name in FILES.items()
        }
        check_texts(texts, data_set.name)
        return {split: (text,) for split, text in texts.items()}

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        """The nats of all words."""
        return Tally.of(perplexity=totals(cross_entropy(outputs, batch.targets), batch.weights, num_axes=2))

    def finish(self, tally: Tally) -> dict[str, Tensor]:
        """The perplexity, from the mean over all words of the text."""
        return {name: nats.exp() for name, nats in super().finish(tally).items()}

    def measure_chance(self) -> dict[str, float]:
        """The perplexity of the training text's words on the test text."""
        return {"perplexity": math.exp(nats_by_frequency(self))}


def _lines(content: bytes, between: bool) -> bytes:
    """The text without the space before every line; `between` takes those behind lines away too."""
    lines = (line.strip(b" ") for line in content.splitlines())
    return b"".join(line + (b"\n" if between else b" \n") for line in lines)


def _words(content: bytes) -> list[str]:
    return content.decode("ascii").replace("\n", f" {END_OF_LINE} ").split()


@lru_cache(maxsize=4)
def _vocabulary(data_set: DataSet, num_words: int) -> tuple[str, ...]:
    """The commonest words of the training text, the commonest first; `<unk>` is always among them."""
    counts = Counter(_words(contents(data_set)[FILES["train"]]))
    counts[UNKNOWN] += 0
    if num_words > len(counts):
        raise TaskError(f"num_words is at most {len(counts):,}, the number of words in the text; got {num_words:,}")
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    kept = {UNKNOWN, *[word for word in ordered if word != UNKNOWN][: num_words - 1]}
    return tuple(word for word in ordered if word in kept)


def _encode_words(words: list[str], numbers: Mapping[str, int]) -> Tensor:
    unknown = numbers[UNKNOWN]
    return torch.tensor([numbers.get(word, unknown) for word in words], dtype=torch.int32)
