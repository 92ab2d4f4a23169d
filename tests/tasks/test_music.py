"""Piano rolls: pieces and whole sequences against a slow twin, from both forms of the files."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rnnlab import architecture
from rnnlab.engine.model import Model
from rnnlab.errors import TaskError
from rnnlab.tasks.data_catalogue import DataSet
from rnnlab.tasks.data_formats import PianoRolls, piano_rolls
from rnnlab.tasks.music import JsbChorales, MuseData, Nottingham, PianoMidi, nats_of_notes, note_name, pieces
from rnnlab.tasks.task import Batch
from tests.tasks.small_data import music_mat, music_npz, rolls

Steps = list[tuple[tuple[int, ...], tuple[int, ...]]]
SILENCE = (0,) * 88


def slow_pieces(sequences: list[np.ndarray], length: int | None) -> list[Steps]:
    """What is heard and what must be predicted, step by step; whole sequences where there is no length."""
    found: list[Steps] = []
    for sequence in sequences:
        chords = [tuple(chord) for chord in sequence.tolist()]
        steps = list(zip([SILENCE, *chords[:-1]], chords, strict=True))
        size = length or len(steps)
        found += [steps[start : start + size] for start in range(0, len(steps), size)]
    return found


def as_steps(batches) -> list[Steps]:
    found: list[Steps] = []
    for batch in batches:
        for inputs, targets, weights in zip(batch.inputs, batch.targets, batch.weights, strict=True):
            steps = int(weights.sum())
            assert weights.tolist() == [1.0] * steps + [0.0] * (len(weights) - steps)
            assert not inputs[steps:].any()
            assert not targets[steps:].any()
            heard, wanted = (map(tuple, rows[:steps].long().tolist()) for rows in (inputs, targets))
            found.append(list(zip(heard, wanted, strict=True)))
    return found


@pytest.mark.parametrize("data", ["small-music", "small-music-mat"])
@pytest.mark.parametrize("length", [1, 6, 8, 100])
def test_training_sees_pieces_that_know_the_step_before(data: str, length: int, small_data: dict[str, DataSet]) -> None:
    task = JsbChorales(data=data, length=length)
    wanted = slow_pieces(rolls()["train"], length)
    assert as_steps(task.batches("train", 4)) == wanted
    assert task.num_sequences("train") == len(wanted)


@pytest.mark.parametrize(("split", "file"), [("validation", "valid"), ("test", "test")])
def test_evaluation_sees_whole_sequences_the_longest_first(
    split: str, file: str, small_data: dict[str, DataSet]
) -> None:
    task = JsbChorales(data="small-music", length=2)
    found = as_steps(task.batches(split, 2))
    assert found == sorted(slow_pieces(rolls()[file], None), key=len, reverse=True)
    assert sum(map(len, found)) == sum(map(len, rolls()[file]))


def test_samples_are_training_pieces(small_data: dict[str, DataSet]) -> None:
    task = JsbChorales(data="small-music", length=6)
    batch = task.sample(400, generator=torch.Generator().manual_seed(0))
    assert batch.inputs.shape == (400, 6, 88)
    wanted = {tuple(piece) for piece in slow_pieces(rolls()["train"], 6)}
    assert {tuple(piece) for piece in as_steps([batch])} == wanted


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6), length=st.none() | st.integers(1, 10))
def test_pieces_cover_every_step_once(lengths: list[int], length: int | None) -> None:
    notes = np.arange(1, sum(lengths) + 1, dtype=np.uint8)[:, None].repeat(88, 1)
    padded, starts, sizes = (part.numpy() for part in pieces(PianoRolls(notes, np.array(lengths, np.int32)), length))
    heard = [padded[start + step + 1, 0] for start, size in zip(starts, sizes, strict=True) for step in range(size)]
    assert sorted(heard) == list(range(1, sum(lengths) + 1))
    assert max(sizes) <= (length or max(lengths))


def test_both_forms_of_the_files_hold_the_same() -> None:
    one, other = piano_rolls(music_npz()), piano_rolls(music_mat())
    for split in ("train", "valid", "test"):
        assert np.array_equal(one[split].notes, other[split].notes)
        assert one[split].lengths.tolist() == other[split].lengths.tolist()
        assert other[split].notes.dtype == np.uint8


def test_loss_is_nats_of_all_notes_per_step(small_data: dict[str, DataSet]) -> None:
    task = JsbChorales(data="small-music", length=6)
    (batch,) = task.batches("test", 10)
    outputs = torch.randn(*batch.inputs.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    total, count = 0.0, 0
    for row, steps in enumerate(as_steps([batch])):
        for step, (_, chord) in enumerate(steps):
            count += 1
            for key, sounds in enumerate(chord):
                probability = 1 / (1 + math.exp(-outputs[row, step, key].item()))
                total -= math.log(probability if sounds else 1 - probability)
    assert task.loss(outputs, batch).item() == pytest.approx(total / count, rel=1e-9)


def test_what_follows_a_sequence_does_not_matter(small_data: dict[str, DataSet]) -> None:
    """A network run with the lengths of the sequences and one run without have the same loss."""
    task = JsbChorales(data="small-music", length=6)
    batch = task.sample(5, generator=torch.Generator().manual_seed(3))
    network = architecture("td:lstm", input_size=88, output_size=88, units=3)
    model = Model(network, generator=torch.Generator().manual_seed(0))
    losses = [
        task.loss(model(batch.inputs, lengths=lengths)[0], batch) for lengths in (None, batch.weights.sum(1).long())
    ]
    assert batch.weights.min() == 0
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-6)


def test_note_one_gram_against_a_slow_one() -> None:
    notes = rolls()["test"][1]
    probabilities = np.linspace(0.05, 0.9, 88)
    slow = sum(
        -math.log(probabilities[key] if sounds else 1 - probabilities[key])
        for chord in notes.tolist()
        for key, sounds in enumerate(chord)
    )
    assert nats_of_notes(notes, probabilities) == pytest.approx(slow / len(notes), rel=1e-12)


def test_default_sizes() -> None:
    """Requirements 2.6: subsequences of at most 200 steps, of 50 for the chorales."""
    assert [kind().num_steps for kind in (JsbChorales, Nottingham, MuseData, PianoMidi)] == [50, 200, 200, 200]
    assert (MuseData().input_size, MuseData().output_size) == (88, 88)


def test_rolls_that_do_not_fit_their_lengths_are_refused() -> None:
    for lengths in ([3, 3], [5, 0], []):
        with pytest.raises(TaskError, match=r"are not . sequences of 88 notes"):
            pieces(PianoRolls(np.zeros((5, 88), np.uint8), np.array(lengths, np.int32)), None)
    with pytest.raises(TaskError, match="are not 1 sequences of 88 notes"):
        pieces(PianoRolls(np.zeros((5, 87), np.uint8), np.array([5], np.int32)), None)


def test_notes_have_their_names() -> None:
    assert [note_name(key) for key in (0, 1, 2, 3, 48, 87)] == ["A0", "A#0", "B0", "C1", "A4", "C8"]


def test_example_is_a_piano_roll_with_high_notes_on_top(small_data: dict[str, DataSet]) -> None:
    task = JsbChorales(data="small-music", length=6)
    example = task.example(next(iter(task.batches("test", 3))))
    (grid,) = example.rows
    shown = rolls()["test"][1][:6]  # the longest sequence; as many steps as training sees
    keys = np.flatnonzero(shown.any(0))
    assert np.array_equal(grid.values, shown[:, keys[0] : keys[-1] + 1].T[::-1])
    assert (grid.row_names[0], grid.row_names[-1]) == (note_name(keys[-1]), note_name(keys[0]))
    sounding = {grid.row_names[row] for row in np.flatnonzero(grid.values[:, 0])}
    assert sounding == {note_name(key) for key in np.flatnonzero(shown[0])}
    assert all(note_name(key) in example.answer for key in np.flatnonzero(shown[0]))
    assert "6 of 11 steps are shown" in example.answer


def test_example_of_silence_can_be_shown() -> None:
    task = JsbChorales(length=3)
    silent = Batch(inputs=torch.zeros(1, 3, 88), targets=torch.zeros(1, 3, 88), weights=torch.ones(1, 3))
    assert task.example(silent).answer.endswith("of the first: silence")
