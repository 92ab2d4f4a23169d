"""text8, character by character: in streams (Z44) and from random pointers (C59-C61).

Where only the first 74 % of the text are at hand, the data set is `text8-first74`: its test text lies inside what the
literature trains on, so its numbers are others than the literature's, and the score's name says so.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from rnnlab.errors import TaskError
from rnnlab.integers import as_integer, keep_integers
from rnnlab.tasks.data import contents
from rnnlab.tasks.data_catalogue import TEXT8, DataSet
from rnnlab.tasks.data_tasks import Tensors
from rnnlab.tasks.task import Batch, Feed, Split, require_split
from rnnlab.tasks.text import AbstractCharacterTask, encode_characters, text_windows


@dataclass(frozen=True, kw_only=True)
class AbstractText8(AbstractCharacterTask):
    """Predict the characters of text8.

    Args:
        num_evaluation: how many characters test has, the last ones, and validation, those before; of the whole text8
            that is the split of the literature: 90, 5 and 5 million.
        data: `text8`, or `text8-first74` for those who have no more of it.
    """

    alphabet: ClassVar[str] = " abcdefghijklmnopqrstuvwxyz"

    num_evaluation: int = 5_000_000
    data: str = "text8-first74"

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_integers(self, TaskError, num_evaluation=self.fewest_characters)

    @property
    def fewest_characters(self) -> int:
        """How many characters a text must have at least."""
        return 2

    def __str__(self) -> str:
        whole = super().__str__()
        return whole if "data=" in whole or self.data == TEXT8.name else f"{whole} on {self.data}"

    @property
    def score_name(self) -> str:
        """Bits per character; of anything but the whole text8 with the name of the data, which no table can drop."""
        if self.data == TEXT8.name:
            return super().score_name
        return f"{super().score_name}_{self.data.removeprefix('text8-').replace('-', '_')}"

    def read(self, data_set: DataSet) -> Mapping[Split, Tensors]:
        """The three parts of the text."""
        (content,) = contents(data_set).values()
        num_training = len(content) - 2 * self.num_evaluation
        if num_training < self.fewest_characters:
            raise TaskError(
                f"num_evaluation {self.num_evaluation:,} leaves too little to train on: {data_set.name} has "
                f"{len(content):,} characters, and {self.fewest_characters} are needed"
            )
        text = encode_characters(content, self.alphabet)
        training, validation, test = text.split([num_training, self.num_evaluation, self.num_evaluation])
        return {"train": (training,), "validation": (validation,), "test": (test,)}


@dataclass(frozen=True, kw_only=True)
class Text8Zhang(AbstractText8):
    """Predict the characters of text8 in streams whose state is carried over (Z44).

    Args:
        length: how many steps a training sequence has; 180 in Zhang et al.
    """

    name: ClassVar[str] = "text8-zhang"
    batch_size: ClassVar[int] = 50

    length: int = 180


@dataclass(frozen=True, kw_only=True)
class Text8Collins(AbstractText8):
    """Predict the characters of text8 in windows from random places, the first steps of which do not count (C59-C61).

    Windows of a pass over a split overlap by the warm-up, so that every character behind the first warm-up is predicted
    exactly once.

    Args:
        length: how many steps a window has; 50 in Collins et al.
        warm_up: how many of them do not count; 13 in Collins et al.
    """

    name: ClassVar[str] = "text8-collins"
    batch_size: ClassVar[int] = 64
    feed: ClassVar[Feed] = "samples"

    length: int = 50
    warm_up: int = 13

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_integers(self, TaskError, warm_up=0)
        if self.warm_up >= self.length:
            raise TaskError(f"a warm-up of {self.warm_up} steps leaves none of {self.length} to count")

    @property
    def fewest_characters(self) -> int:
        """A window and the target of its last step."""
        return self.length + 1

    @property
    def num_given(self) -> int:
        """The first character, and the targets of the first warm-up."""
        return 1 + self.warm_up

    def num_sequences(self, split: Split) -> int | None:
        """How many windows a pass over a split has."""
        (text,) = self.tensors(require_split(split), "cpu")
        return math.ceil((len(text) - self.num_given) / (self.length - self.warm_up))

    def draw(self, num_sequences: int, generator: torch.Generator) -> Batch:
        """Windows of the training text from random places."""
        (text,) = self.tensors("train", generator.device)
        places = len(text) - self.length
        starts = torch.randint(places, (num_sequences, 1), generator=generator, device=generator.device)
        return self._without_warm_up(text_windows(text, starts, self.length))

    def batches(self, split: Split, batch_size: int, *, device: torch.device | str = "cpu") -> Iterator[Batch]:
        """Windows from the beginning to the end of a text."""
        batch_size = as_integer(batch_size, "batch_size", TaskError, 1)
        (text,) = self.tensors(require_split(split), device)
        stride = self.length - self.warm_up
        starts = torch.arange(0, len(text) - self.num_given, stride, device=text.device)[:, None]
        for some in starts.split(batch_size):
            yield self._without_warm_up(text_windows(text, some, self.length))

    def _without_warm_up(self, batch: Batch) -> Batch:
        assert batch.weights is not None
        counts = torch.arange(self.length, device=batch.weights.device) >= self.warm_up
        return replace(batch, weights=batch.weights * counts)
