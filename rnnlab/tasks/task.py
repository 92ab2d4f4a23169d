"""What a task is: batches of sequences, a loss, scores. Every task, generated or read from files, is an `AbstractTask`.

There are two ways to feed a network behind one interface, and a task says which is its own:

- `feed = "samples"`: sequences are independent. `sample` draws a training batch from a generator, again and again.
- `feed = "stream"`: the data is one long text. `batches("train", ...)` cuts it so that row b of a batch continues row b
  of the batch before; all but the first have `continues = True`, and the network's state is carried over.
- Either way, `batches(split, ...)` is one pass over a split: every sequence once, in an order that never changes.

Axes: P members, B sequences, T steps, N units. A batch without the axis P serves all members alike.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast, get_args

import torch
from torch import Tensor

from rnnlab.errors import TaskError
from rnnlab.integers import as_integer
from rnnlab.tasks.example import Example, plain_example

Split = Literal["train", "validation", "test"]
Feed = Literal["samples", "stream"]
Encoding = Literal["values", "tokens"]
Better = Literal["lower", "higher"]

MOST = 2**63 - 1  # what torch takes for a seed
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Sequences and their targets.

    Args:
        inputs: what `Model` takes: floats [B, T, N], or integer tokens [B, T]; with P in front if members differ.
        targets: what the outputs are compared with; the shape is up to the task, with or without P in front.
        weights: how much each sequence [B], or each step [B, T], counts in the loss and in the scores; with or without
            P in front. By default all count the same. Zero marks padding.
        lengths: [B], the length of each sequence, if they differ, with or without P in front; passed to `Model` as is.
        continues: whether row b continues row b of the batch before, so that the network's state is carried over.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor | None = None
    lengths: Tensor | None = None
    continues: bool = False

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return self.map(lambda tensor: tensor.to(device))

    def with_members(self, num_members: int) -> "Batch":
        """P·B sequences as P batches of B, one for each member: every tensor gets P in front."""
        return self.map(lambda tensor: tensor.unflatten(0, (num_members, -1)))

    def map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """The same batch with `change` applied to all its tensors."""
        tensors = {"weights": self.weights, "lengths": self.lengths}
        changed = {name: None if tensor is None else change(tensor) for name, tensor in tensors.items()}
        return replace(self, inputs=change(self.inputs), targets=change(self.targets), **changed)


def stacked(batches: Sequence[Batch]) -> Batch:
    """Batches of the same sizes as one, [P, B, ...], one for each member."""
    names = [name for name in ("inputs", "targets", "weights", "lengths") if getattr(batches[0], name) is not None]
    return replace(batches[0], **{name: torch.stack([getattr(batch, name) for batch in batches]) for name in names})


@dataclass(frozen=True, kw_only=True)
class Score:
    """One number that says how well a network does.

    Args:
        name: as in the results, `mse` or `bits_per_character`.
        unit: `nats per step`, `bits`; empty for a plain number.
        better: whether `lower` or `higher` values are better.
        chance: the best value for a network that ignores its input; one for each member if they differ.
        baseline: how to reach that value, such as `predict 1`.
        best: the best possible value, if it is known; one for each member if they differ.
    """

    name: str
    unit: str
    better: Better
    chance: float | tuple[float, ...]
    baseline: str
    best: float | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.better not in get_args(Better):
            raise TaskError(f"score {self.name!r}: better is one of {', '.join(get_args(Better))}, got {self.better!r}")


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums and counts by score, each [P] or [], which are added up over a split's batches to make its scores exact.

    >>> batch = Tally.of(mse=(torch.tensor(3.0), torch.tensor(2)))  # a sum and of how many, as `losses.totals` gives
    >>> total = Tally.empty() + batch + batch
    >>> total.sums["mse"].item(), total.counts["mse"].item()
    (6.0, 4)
    """

    sums: Mapping[str, Tensor]
    counts: Mapping[str, Tensor]

    @classmethod
    def empty(cls) -> "Tally":
        """An empty tally, to add others to."""
        return cls({}, {})

    @classmethod
    def of(cls, **totals: tuple[Tensor, Tensor]) -> "Tally":
        """A sum and a count for each score."""
        return cls({name: sums for name, (sums, _) in totals.items()}, {name: of for name, (_, of) in totals.items()})

    def __add__(self, other: "Tally") -> "Tally":
        if not self.sums or not other.sums:
            return other if not self.sums else self
        sums = {name: self.sums[name] + other.sums[name] for name in self.sums}
        return Tally(sums, {name: self.counts[name] + other.counts[name] for name in self.counts})


def one_each(values: Any, num_members: int, what: str) -> Tensor:
    """Values, [P], if there is one for each member: a mean over all of them would train and score nobody's network.

    >>> one_each(torch.tensor(0.5), 1, "a loss")
    tensor([0.5000])
    >>> one_each(torch.tensor(0.5), 3, "a loss")
    Traceback (most recent call last):
    rnnlab.errors.TaskError: a loss is a tensor with one number for each of the 3 members, [3], got shape []
    """
    if isinstance(values, Tensor) and tuple(values.shape) == (num_members,):
        return values
    if isinstance(values, Tensor) and num_members == values.numel() == 1:
        return values.reshape(1)
    found = f"shape {list(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
    members = "the only member" if num_members == 1 else f"each of the {num_members} members"
    raise TaskError(f"{what} is a tensor with one number for {members}, [{num_members}], got {found}")


class AbstractTask(ABC):
    """A problem for a recurrent network. Tasks are frozen dataclasses: their fields are the task's arguments.

    A subclass sets the class variables and defines what is abstract here. Everything runs on the device of its tensors,
    with shapes that depend on the arguments alone, and never makes the host wait for the device: `sample`, `loss` and
    `tally` may be recorded in a CUDA graph once they have run before.

    Attributes:
        name: the name under which the task is registered.
        encoding: whether inputs are vectors (`values`) or integers below `input_size` (`tokens`).
        batch_size: how many sequences a training batch has by default.
        feed: whether batches are independent `samples` or one `stream` that carries state over.
        only_last: whether loss and scores use only the outputs of the last step, [..., B, T, M] with any T.
        may_read_ahead: whether networks may see later steps (edges of negative delay). False if a later input reveals
            the present target, or if such networks would read the padding after a sequence.
    """

    name: ClassVar[str]
    batch_size: ClassVar[int]
    encoding: ClassVar[Encoding] = "values"
    feed: ClassVar[Feed] = "samples"
    only_last: ClassVar[bool] = False
    may_read_ahead: ClassVar[bool] = True

    @property
    @abstractmethod
    def input_size(self) -> int:
        """The width of the network's input; for tokens, how many different ones there are."""

    @property
    @abstractmethod
    def output_size(self) -> int:
        """The width of the network's output."""

    @property
    @abstractmethod
    def num_steps(self) -> int:
        """How long the sequences of a batch are; the longest of them, if they differ."""

    @property
    @abstractmethod
    def scores(self) -> tuple[Score, ...]:
        """The scores that `finish` returns; tuning improves the first one, and early stopping watches it."""

    @property
    def data_files(self) -> tuple[str | Path, ...]:
        """The files of one's own that it reads: where one was edited, studies and checkpoints are of another task."""
        return ()

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """Tensors to keep as long as the task, by keys of its choice: recorded CUDA graphs go on reading them."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        # what is kept can be made again, and does not travel to other processes
        return {field.name: getattr(self, field.name) for field in fields(cast(Any, self))}

    @property
    def population(self) -> int | None:
        """The number of members, if the task's arguments differ between members; otherwise None."""
        return None

    def select_members(self, members: Sequence[int]) -> Self:
        """The same task for some of its members, when the population has lost the others."""
        if self.population is not None:
            raise NotImplementedError(f"{type(self).__name__} has arguments for each member and must select them")
        return self

    @abstractmethod
    def num_sequences(self, split: Split) -> int | None:
        """How many sequences one pass over a split has; None if training draws new ones without end."""

    def sample(
        self,
        batch_size: int,
        *,
        generator: torch.Generator,
        device: torch.device | str | None = None,
        members: int | None = None,
    ) -> Batch:
        """A batch to train on, of a task whose `feed` is `samples`.

        Args:
            batch_size: how many sequences.
            generator: the source of randomness; the batch is made on its device.
            device: where to move the batch afterwards, if that is a different device.
            members: with a number P, every member gets its own sequences, [P, B, ...]; by default all share them.
        """
        if self.feed == "stream":
            raise TaskError(f"{self.name} is one stream: take its batches in order, from batches('train', ...)")
        batch_size = as_integer(batch_size, "batch_size", TaskError, 1)
        if members is None:
            batch = self.draw(batch_size, generator)
        elif self.population is not None:
            raise TaskError(f"{self.name} differs between its {self.population} members already: leave out members")
        else:
            members = as_integer(members, "members", TaskError, 1)
            batch = self.draw(members * batch_size, generator).with_members(members)
        return batch if device is None else batch.to(device)

    def draw(self, num_sequences: int, generator: torch.Generator) -> Batch:
        """Independent training sequences on the generator's device; `sample` calls it."""
        raise NotImplementedError(f"{type(self).__name__} has feed 'samples' and must draw them")

    def draw_each(self, num_sequences: int, generators: Sequence[torch.Generator]) -> Batch:
        """What `draw` gives for each of some generators, as one batch [P, B, ...]."""
        return stacked([self.draw(num_sequences, generator) for generator in generators])

    @abstractmethod
    def batches(self, split: Split, batch_size: int, *, device: torch.device | str = "cpu") -> Iterator[Batch]:
        """One pass over a split: every sequence once, the same in the same order at every call and on every device.

        The last batch may be smaller. For a stream, B texts run side by side, and every batch but the first continues.
        """

    @abstractmethod
    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """What training minimises: one number for outputs [B, T, M], [P] numbers for [P, B, T, M]; differentiable."""

    @abstractmethod
    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        """What a batch adds to the scores of its split, each a number or [P] numbers."""

    def finish(self, tally: Tally) -> dict[str, Tensor]:
        """The scores of everything in a tally, by name: each is its sum divided by its count."""
        if missing := [score.name for score in self.scores if score.name not in tally.sums]:
            counted = ", ".join(tally.sums) or "nothing"
            raise TaskError(f"{self}: tally counts {counted}, and lacks what scores declares: {', '.join(missing)}")
        return {score.name: tally.sums[score.name] / tally.counts[score.name] for score in self.scores}

    def example(self, batch: Batch) -> Example:
        """The first sequence of a batch, as a person would want to see it."""
        return plain_example(str(self), batch.inputs, batch.targets)

    def __str__(self) -> str:
        changed = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(cast(Any, self))
            if getattr(self, field.name) != field.default
        ]
        return f"{self.name}({', '.join(changed)})" if changed else self.name

    def to_json(self) -> dict[str, Any]:
        """Name and arguments: `rnnlab.task(**task.to_json())` builds it again."""
        return {"name": self.name, **asdict(cast(Any, self))}


def numbered(device: torch.device | str) -> torch.device:
    """A device with its number, as tensors have it: `cuda` is `cuda:0`, or whichever is the current one."""
    return torch.empty(0, device=device).device


def require_split(split: str) -> Split:
    """The split, if there is one of that name."""
    if split not in SPLITS:
        raise TaskError(f"a split is train, validation or test, got {split!r}")
    return split


def keep_integers_of_members(task: AbstractTask, **least: int) -> None:
    """Like `keep_integers`, for arguments that are one integer for all members, or a tuple with one for each."""
    for name, lowest in least.items():
        given = getattr(task, name)
        found = tuple(
            as_integer(each, name, TaskError, lowest) for each in (given if isinstance(given, tuple) else (given,))
        )
        object.__setattr__(task, name, found if isinstance(given, tuple) else found[0])
