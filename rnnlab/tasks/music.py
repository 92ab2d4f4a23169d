"""Polyphonic music (P12): predict which of 88 notes sound at the next step."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rnnlab.errors import TaskError
from rnnlab.integers import as_integer, keep_integers
from rnnlab.tasks.data import contents
from rnnlab.tasks.data_catalogue import DataSet
from rnnlab.tasks.data_formats import PianoRolls, piano_rolls
from rnnlab.tasks.data_tasks import AbstractDataTask, Tensors
from rnnlab.tasks.example import Example, Grid, first_sequence
from rnnlab.tasks.losses import binary_cross_entropy, mean, totals
from rnnlab.tasks.task import Batch, Score, Split, Tally, require_split

NUM_NOTES = 88
LOWEST_NOTE = 21  # the MIDI number of the piano's first key
FILES: dict[Split, str] = {"train": "train", "validation": "valid", "test": "test"}
OCTAVE = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")


@dataclass(frozen=True, kw_only=True)
class AbstractMusic(AbstractDataTask):
    """Predict the notes of every step from those before it, the first step from silence.

    The score is that of Boulanger-Lewandowski et al. 2012: the negative log-likelihood of all 88 notes, a mean over all
    time steps of the split. Training sees pieces of at most `length` steps, which know the step before them; validation
    and test see whole sequences, the longest first.

    A split is (notes, starts, lengths): rolls [rows, 88] with a silent row before every sequence, and of each sequence,
    or piece of one, the row before it and its number of steps.

    Args:
        length: the most steps that a training sequence has.
        data: the data set.
    """

    batch_size: ClassVar[int] = 16
    may_read_ahead: ClassVar[bool] = False  # the next input is the answer

    length: int = 200
    data: str

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_integers(self, TaskError, length=1)

    @property
    def input_size(self) -> int:
        """The keys of a piano."""
        return NUM_NOTES

    @property
    def output_size(self) -> int:
        """A logit for every key."""
        return NUM_NOTES

    @property
    def num_steps(self) -> int:
        """The most steps of a training sequence; those of validation and test may be longer."""
        return self.length

    @property
    def scores(self) -> tuple[Score, ...]:
        """Nats per time step."""
        return (
            Score(
                name="nats_per_step",
                unit="nats per step",
                better="lower",
                chance=self.chance["nats_per_step"],
                baseline="note 1-gram: how often each note sounds in training",
            ),
        )

    def num_sequences(self, split: Split) -> int | None:
        """How many sequences a split has; of training, how many pieces."""
        return len(self.tensors(require_split(split), "cpu")[1])

    def read(self, data_set: DataSet) -> Mapping[Split, Tensors]:
        """Rolls with silent rows, and where sequences or pieces of them begin."""
        rolls = piano_rolls(contents(data_set))
        return {split: pieces(rolls[name], self.length if split == "train" else None) for split, name in FILES.items()}

    def draw(self, num_sequences: int, generator: torch.Generator) -> Batch:
        """Random pieces of training sequences, with replacement."""
        notes, starts, lengths = self.tensors("train", generator.device)
        rows = torch.randint(len(starts), (num_sequences,), generator=generator, device=generator.device)
        return _batch(notes, starts[rows], lengths[rows], self.length)

    def batches(self, split: Split, batch_size: int, *, device: torch.device | str = "cpu") -> Iterator[Batch]:
        """All pieces in training, all whole sequences otherwise, each batch as long as its longest."""
        batch_size = as_integer(batch_size, "batch_size", TaskError, 1)
        notes, starts, lengths = self.tensors(require_split(split), device)
        longest = [int(some.max()) for some in self.tensors(split, "cpu")[2].split(batch_size)]
        parts = zip(starts.split(batch_size), lengths.split(batch_size), longest, strict=True)
        for some, their_lengths, num_steps in parts:
            yield _batch(notes, some, their_lengths, num_steps)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Nats per time step."""
        return mean(_nats(outputs, batch), batch.weights, num_axes=2)

    def tally(self, outputs: Tensor, batch: Batch) -> Tally:
        """The nats of all steps."""
        return Tally.of(nats_per_step=totals(_nats(outputs, batch), batch.weights, num_axes=2))

    def measure_chance(self) -> dict[str, float]:
        """The note 1-gram: every note by itself, as often as it sounds in training (counts one larger each way)."""
        rolls = piano_rolls(contents(self.data_set))
        training, test = rolls["train"].notes, rolls["test"].notes
        return {"nats_per_step": nats_of_notes(test, (training.sum(0) + 1) / (len(training) + 2))}

    def example(self, batch: Batch) -> Example:
        """The piano roll of as many steps as training sees, the highest note on top."""
        assert batch.weights is not None
        num_steps = int(first_sequence(batch.weights, 1).sum())
        roll = first_sequence(batch.targets, 2)[: min(num_steps, self.length)]
        chord = ", ".join(note_name(int(key)) for key in np.flatnonzero(roll[0])) or "silence"
        shown = f"{len(roll)} of {num_steps} steps are shown"
        return Example(str(self), (_grid(roll),), f"the notes of every next step; {shown}; of the first: {chord}")


@dataclass(frozen=True, kw_only=True)
class JsbChorales(AbstractMusic):
    """Predict the chorales of J. S. Bach, a step a quarter note (P12)."""

    name: ClassVar[str] = "jsb-chorales"

    length: int = 50
    data: str = "jsb-chorales"


@dataclass(frozen=True, kw_only=True)
class Nottingham(AbstractMusic):
    """Predict the folk tunes of the Nottingham collection (P12)."""

    name: ClassVar[str] = "nottingham"

    data: str = "nottingham"


@dataclass(frozen=True, kw_only=True)
class MuseData(AbstractMusic):
    """Predict the orchestral and piano music of MuseData (P12)."""

    name: ClassVar[str] = "musedata"

    data: str = "musedata"


@dataclass(frozen=True, kw_only=True)
class PianoMidi(AbstractMusic):
    """Predict the classical piano music of Piano-midi.de (Boulanger-Lewandowski et al. 2012)."""

    name: ClassVar[str] = "piano-midi"

    data: str = "piano-midi"


def note_name(key: int) -> str:
    """The name of a key, counted from 0 at the left.

    >>> note_name(0), note_name(39), note_name(87)
    ('A0', 'C4', 'C8')
    """
    number = key + LOWEST_NOTE
    return f"{OCTAVE[number % 12]}{number // 12 - 1}"


def _grid(roll: np.ndarray) -> Grid:
    """A roll [steps, 88] as a picture from its highest note down to its lowest."""
    sounding = np.flatnonzero(roll.any(0))
    low, high = (int(sounding[0]), int(sounding[-1])) if len(sounding) else (0, NUM_NOTES - 1)
    names = tuple(note_name(key) for key in range(high, low - 1, -1))
    return Grid("notes", roll[:, low : high + 1].T[::-1], row_names=names)


def nats_of_notes(notes: np.ndarray, probabilities: np.ndarray) -> float:
    """How surprised independent notes of these probabilities are by rolls [steps, 88], in nats a step."""
    likelihoods = np.where(notes, np.log(probabilities), np.log1p(-probabilities))
    return float(-likelihoods.sum(1).mean())


def pieces(rolls: PianoRolls, length: int | None) -> Tensors:
    """The tensors of a split: cut to pieces of at most `length` steps, or whole with the longest first."""
    if not len(rolls.lengths) or min(rolls.lengths) < 1 or rolls.notes.shape != (sum(rolls.lengths), NUM_NOTES):
        shape = list(rolls.notes.shape)
        raise TaskError(f"rolls of shape {shape} are not {len(rolls.lengths)} sequences of {NUM_NOTES} notes")
    first_rows = np.cumsum(rolls.lengths) - rolls.lengths  # of the sequences, without silent rows
    notes = np.insert(rolls.notes, first_rows, 0, axis=0)
    silent_rows = first_rows + np.arange(len(first_rows))
    cuts = [range(0, steps, length or steps) for steps in rolls.lengths]
    starts = np.array([row + cut for row, cuts_of in zip(silent_rows, cuts, strict=True) for cut in cuts_of])
    ends = np.repeat(silent_rows + rolls.lengths, [len(cuts_of) for cuts_of in cuts])
    lengths = ends - starts if length is None else np.minimum(ends - starts, length)
    order = np.argsort(-lengths, kind="stable") if length is None else np.arange(len(lengths))
    return torch.from_numpy(notes), torch.from_numpy(starts[order]), torch.from_numpy(lengths[order])


def _batch(notes: Tensor, starts: Tensor, lengths: Tensor, num_steps: int) -> Batch:
    """Sequences from the rows before them: the row of a step goes in, the next one is wanted.

    Weights of 0 behind the end are enough: what a network says before does not depend on it, since none reads ahead.
    """
    steps = torch.arange(num_steps, device=notes.device)
    rows = (starts[:, None] + steps).clamp(max=len(notes) - 2)  # [B, T]
    inside = steps < lengths[:, None]
    inputs, targets = (notes[rows + ahead] * inside[..., None] for ahead in (0, 1))
    return Batch(inputs=inputs.float(), targets=targets, weights=inside.float())


def _nats(outputs: Tensor, batch: Batch) -> Tensor:
    """The surprise at all notes of every step, [..., B, T]."""
    return binary_cross_entropy(outputs, batch.targets).sum(-1)
