"""The Stanford Sentiment Treebank (M10): read a sentence word by word, and judge it on a scale of five."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from rnnlab.errors import TaskError
from rnnlab.integers import as_integer, keep_integers
from rnnlab.tasks.data import contents
from rnnlab.tasks.data_catalogue import DataSet
from rnnlab.tasks.data_formats import Tree, parse_tree
from rnnlab.tasks.data_tasks import AbstractDataTask, Tensors, label_chance, label_scores, label_tally
from rnnlab.tasks.example import Example, Symbols, first_sequence
from rnnlab.tasks.losses import cross_entropy, mean
from rnnlab.tasks.task import Batch, Encoding, Score, Split, Tally, require_split

LABELS = ("very negative", "negative", "neutral", "positive", "very positive")
FILES: dict[Split, str] = {"train": "trees.train.txt", "validation": "trees.dev.txt", "test": "trees.test.txt"}
UNKNOWN = "<unknown>"


@dataclass(frozen=True, kw_only=True)
class Sentiment(AbstractDataTask):
    """Judge sentences of film reviews on a scale of five, at their last word (M10).

    Words are those of the training sentences, with capitals as they stand; number 0 is any other word. Validation and
    test are whole sentences always. The weights of a batch [B, T] are 1 at the last words.

    A split is (words, starts, lengths, labels): the words of all sentences one after another, and of each sentence, or
    phrase, its first word, number of words and label.

    Args:
        phrases: train on every phrase of the trees, single words and whole sentences included.
        length: to how many steps sequences are filled up; 56 is the longest sentence.
        num_words: how many words are told apart, the unknown included; 18,279 are all of the training sentences.
        data: the data set.
    """

    name: ClassVar[str] = "sst"
    batch_size: ClassVar[int] = 50
    encoding: ClassVar[Encoding] = "tokens"
    may_read_ahead: ClassVar[bool] = False  # behind the last word lies padding, more of it behind shorter sentences

    phrases: bool = False
    length: int = 56
    num_words: int = 18_279
    data: str = "sentiment-treebank"

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_integers(self, TaskError, length=1, num_words=2)
        if not isinstance(self.phrases, bool):
            raise TaskError(f"phrases is True or False, got {self.phrases!r}")

    @property
    def input_size(self) -> int:
        """How many words there are."""
        return self.num_words

    @property
    def output_size(self) -> int:
        """A logit for every label."""
        return len(LABELS)

    @property
    def num_steps(self) -> int:
        """The longest sentence."""
        return self.length

    @property
    def scores(self) -> tuple[Score, ...]:
        """The share of sentences that are judged right, and the cross entropy."""
        return label_scores(self.chance, labels="labels of training sentences")

    def num_sequences(self, split: Split) -> int | None:
        """How many sentences, or phrases, a split has."""
        return len(self.tensors(require_split(split), "cpu")[3])

    def read(self, data_set: DataSet) -> Mapping[Split, Tensors]:
        """Words as numbers, and where sentences or phrases begin."""
        numbers = {word: number for number, word in enumerate(_vocabulary(data_set, self.num_words))}
        trees = _trees(data_set)
        if (longest := max(len(tree.words) for split in FILES for tree in trees[split])) > self.length:
            raise TaskError(f"length must be at least {longest}, the words of the longest sentence; got {self.length}")
        return {split: _phrases(trees[split], numbers, self.phrases and split == "train") for split in FILES}

    def draw(self, num_sequences: int, generator: torch.Generator) -> Batch:
        """Random training sentences, or phrases, with replacement."""
        words, *spans = self.tensors("train", generator.device)
        rows = torch.randint(len(spans[0]), (num_sequences,), generator=generator, device=generator.device)
        return self._batch(words, *(span[rows] for span in spans))

    def batches(self, split: Split, batch_size: int, *, device: torch.device | str = "cpu") -> Iterator[Batch]:
        """The sentences, or phrases, in the order of the file."""
        batch_size = as_integer(batch_size, "batch_size", TaskError, 1)
        words, *spans = self.tensors(require_split(split), device)
        for some in zip(*(span.split(batch_size) for span in spans), strict=True):
            yield self._batch(words, *some)

    def _batch(self, words: Tensor, starts: Tensor, lengths: Tensor, labels: Tensor) -> Batch:
        steps = torch.arange(self.length, device=words.device)
        tokens = words[(starts[:, None] + steps).clamp(max=len(words) - 1)] * (steps < lengths[:, None])
        is_last = steps == lengths[:, None] - 1
        return Batch(inputs=tokens.long(), targets=labels.long(), weights=is_last.float())

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The cross entropy at the last word."""
        return mean(cross_entropy(_at_last_word(outputs, batch), batch.targets))

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        """Which sentences are judged right, and their cross entropies."""
        return label_tally(_at_last_word(outputs, batch), batch.targets)

    def measure_chance(self) -> dict[str, float]:
        """Always the commonest label of training sentences, or the frequencies of all."""
        trees = _trees(self.data_set)
        training, test = (torch.tensor([tree.phrases[-1][0] for tree in trees[split]]) for split in ("train", "test"))
        return label_chance(training, test, len(LABELS))

    def example(self, batch: Batch) -> Example:
        """The words and the label."""
        assert batch.weights is not None
        vocabulary = _vocabulary(self.data_set, self.num_words)
        last = int(first_sequence(batch.weights, 1).argmax())
        tokens = first_sequence(batch.inputs, 1)[: last + 1]
        words = Symbols("word", tuple(vocabulary[token] for token in tokens), frozenset([last]))
        return Example(str(self), (words,), f"{LABELS[int(first_sequence(batch.targets, 0))]}, at the last word")


def _at_last_word(outputs: Tensor, batch: Batch) -> Tensor:
    """The outputs [..., B, M] at the last word of every sequence, of [..., B, T, M]."""
    assert batch.weights is not None
    last = batch.weights.argmax(-1)[..., None, None]
    return outputs.gather(-2, last.expand(*outputs.shape[:-2], 1, outputs.shape[-1]))[..., 0, :]


@lru_cache(maxsize=1)
def _trees(data_set: DataSet) -> Mapping[Split, tuple[Tree, ...]]:
    files = contents(data_set)
    return {split: tuple(map(parse_tree, files[name].decode().splitlines())) for split, name in FILES.items()}


@lru_cache(maxsize=4)
def _vocabulary(data_set: DataSet, num_words: int) -> tuple[str, ...]:
    """The commonest words of the training sentences, the commonest first, behind the unknown one."""
    counts = Counter(word for tree in _trees(data_set)["train"] for word in tree.words)
    if num_words > len(counts) + 1:
        raise TaskError(
            f"num_words is at most {len(counts) + 1:,}, the number of words in the training sentences and the unknown "
            f"one; got {num_words:,}"
        )
    return (UNKNOWN, *sorted(counts, key=lambda word: (-counts[word], word))[: num_words - 1])


def _phrases(trees: Sequence[Tree], numbers: Mapping[str, int], all_phrases: bool) -> Tensors:
    words = torch.tensor([numbers.get(word, 0) for tree in trees for word in tree.words], dtype=torch.int32)
    spans: list[tuple[int, int, int]] = []  # first word, number of words, label
    first = 0
    for tree in trees:
        for label, start, end in tree.phrases if all_phrases else tree.phrases[-1:]:
            spans.append((first + start, end - start, label))
        first += len(tree.words)
    return words, *torch.tensor(spans, dtype=torch.int32).unbind(1)
