"""The real files, where the user has them: counts, alphabets and baselines as in tests/golden/data.json."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from rnnlab.tasks.data import contents, list_data
from rnnlab.tasks.data_baselines import BASELINES
from rnnlab.tasks.data_catalogue import DATA_SETS
from rnnlab.tasks.data_formats import parse_tree, piano_rolls
from rnnlab.tasks.data_tasks import AbstractDataTask
from rnnlab.tasks.mnist import PermutedMnist, SequentialMnist
from rnnlab.tasks.music import JsbChorales, MuseData, Nottingham, PianoMidi, nats_of_notes
from rnnlab.tasks.penn_treebank import PennTreebankCharacters, PennTreebankWords
from rnnlab.tasks.sentiment import Sentiment
from rnnlab.tasks.task import SPLITS
from rnnlab.tasks.text8 import Text8Collins, Text8Zhang

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "data.json").read_text())
KINDS: dict[str, type[AbstractDataTask]] = {
    kind.name: kind
    for kind in (
        *(SequentialMnist, PermutedMnist, PennTreebankCharacters, PennTreebankWords, Text8Zhang, Text8Collins),
        *(JsbChorales, Nottingham, MuseData, PianoMidi, Sentiment),
    )
}


@pytest.fixture(scope="module")
def present() -> set[str]:
    """The data sets that this user has; a damaged one fails here."""
    states = list_data().data_sets
    assert not [file.problem for state in states for file in state.files if file.problem]
    return {state.data_set.name for state in states if state.is_complete}


def need(present: set[str], data: str) -> None:
    if data not in present:
        pytest.skip(f"no files of {data}: set RNNLAB_DATA to a folder that has them")


def with_files(present: set[str], name: str, **arguments) -> AbstractDataTask:
    task = KINDS[name](**arguments)
    need(present, task.data)
    return task


@pytest.mark.parametrize("row", GOLDEN["texts"], ids=lambda row: f"{row['task']}{len(row['arguments']) or ''}")
def test_texts_have_their_counts_and_alphabets(row, present: set[str]) -> None:
    task = with_files(present, row["task"], **row["arguments"])
    texts = [task.tensors(split, "cpu")[0] for split in SPLITS]
    assert [len(text) for text in texts] == row["symbols"], row["citation"]
    found = [int((torch.bincount(text, minlength=task.input_size) > 0).sum()) for text in texts]
    assert found == row["distinct"], row["citation"]
    assert task.input_size == max(row["distinct"])


def test_ptb_characters_between_words_are_the_public_files(present: set[str]) -> None:
    golden = GOLDEN["penn_treebank_files"]
    task = with_files(present, "ptb-characters", spaces="between-words")
    symbols = np.frombuffer(task.alphabet.replace(" ", "_").encode(), np.uint8)
    for number, split in enumerate(SPLITS):
        spaced = np.full((len(task.tensors(split, "cpu")[0]), 2), ord(" "), np.uint8)
        spaced[:, 0] = symbols[task.tensors(split, "cpu")[0].numpy()]
        assert hashlib.md5(spaced.tobytes()).hexdigest() == golden["md5_of_spaced_characters"][number]
        assert (spaced[:, 0] == ord("\n")).sum() == golden["lines"][number]


def pieces_at_spaces(content: bytes, size: int = 5_000_000) -> Iterator[bytes]:
    start = 0
    while start < len(content):
        end = content.find(b" ", start + size)
        end = len(content) if end < 0 else end
        yield content[start:end]
        start = end


def test_text8_has_its_words(present: set[str]) -> None:
    need(present, "text8-first74")
    (content,) = contents(DATA_SETS["text8-first74"]).values()
    assert b"  " not in content
    number, distinct = 0, set()
    for piece in pieces_at_spaces(content):
        words = piece.split()
        number += len(words)
        distinct.update(words)
    assert (number, len(distinct)) == (GOLDEN["text8_first74"]["words"], GOLDEN["text8_first74"]["distinct_words"])


def test_mnist_has_its_digits(present: set[str]) -> None:
    golden = GOLDEN["mnist"]
    task = with_files(present, "mnist")
    images, labels = zip(*(task.tensors(split, "cpu") for split in SPLITS), strict=True)
    assert [len(some) for some in images] == [task.num_sequences(split) for split in SPLITS] == golden["images"]
    assert torch.bincount(torch.cat(labels[:2])).tolist() == golden["training_labels"]
    assert torch.bincount(labels[2]).tolist() == golden["test_labels"]
    pixels = torch.cat(images[:2]).double() / 255
    assert pixels.mean().item() == pytest.approx(golden["mean"], abs=5e-6)
    assert pixels.std().item() == pytest.approx(golden["deviation"], abs=5e-6)


def test_permuted_mnist_holds_the_same_pixels(present: set[str]) -> None:
    plain, permuted = (with_files(present, name) for name in ("mnist", "permuted-mnist"))
    (images, labels), (mixed, same_labels) = (task.tensors("test", "cpu") for task in (plain, permuted))
    assert torch.equal(labels, same_labels)
    assert torch.equal(images[:, torch.from_numpy(permuted.order())], mixed)


@pytest.mark.parametrize("row", GOLDEN["music"], ids=lambda row: row["task"])
def test_music_has_its_counts_and_baselines(row, present: set[str]) -> None:
    """The log-likelihoods of the note 1-grams, fitted on training, per time step of the test split."""
    task = with_files(present, row["task"])
    rolls = piano_rolls(contents(task.data_set))
    splits = [rolls[name] for name in ("train", "valid", "test")]
    assert [len(split.lengths) for split in splits] == row["sequences"]
    assert [int(split.lengths.sum()) for split in splits] == [len(split.notes) for split in splits] == row["steps"]
    assert [int(split.notes.sum()) for split in splits] == row["notes"]
    assert -task.measure_chance()["nats_per_step"] == pytest.approx(row["note_1_gram"], abs=0.005), row["citation"]
    shared = np.full(88, splits[0].notes.mean())
    digits = 3 if row["shared_1_gram"] == -14.055 else 2
    assert round(-nats_of_notes(splits[2].notes, shared), digits) == row["shared_1_gram"], row["citation"]
    assert sum(int(batch.weights.sum()) for batch in task.batches("test", 16)) == row["steps"][2]
    assert sum(int(batch.weights.sum()) for batch in task.batches("train", 64)) == row["steps"][0]


def test_sentiment_has_its_counts(present: set[str]) -> None:
    golden = GOLDEN["sst"]
    task = with_files(present, "sst")
    spans = [task.tensors(split, "cpu") for split in SPLITS]
    assert [len(labels) for _, _, _, labels in spans] == golden["sentences"]
    assert [torch.bincount(labels).tolist() for _, _, _, labels in spans] == golden["labels"]
    assert [int(lengths.max()) for _, _, lengths, _ in spans] == golden["longest"]
    assert len(spans[0][0]) == golden["training_words"]
    assert task.input_size == golden["training_vocabulary"] + 1
    assert Sentiment(phrases=True).num_sequences("train") == golden["phrases"][0]
    with pytest.raises(ValueError, match="num_words is at most 18,279"):
        Sentiment(num_words=18_280).num_sequences("test")


def test_sentiment_has_its_phrases(present: set[str]) -> None:
    need(present, "sentiment-treebank")
    files = contents(DATA_SETS["sentiment-treebank"])
    counts, distinct = [], set()
    for name in ("trees.train.txt", "trees.dev.txt", "trees.test.txt"):
        trees = [parse_tree(line) for line in files[name].decode().splitlines()]
        counts.append(sum(len(tree.phrases) for tree in trees))
        distinct |= {tree.words[start:end] for tree in trees for _, start, end in tree.phrases}
    assert counts == GOLDEN["sst"]["phrases"]
    assert len(distinct) == GOLDEN["sst"]["distinct_phrases"]


@pytest.mark.parametrize("name", KINDS)
def test_baselines_are_those_of_the_files(name: str, present: set[str]) -> None:
    """What the code gives to those without the files is what the files say."""
    task = with_files(present, name)
    assert task.measure_chance() == pytest.approx(dict(BASELINES[name]), rel=1e-9)
    assert [score.chance for score in task.scores] == list(BASELINES[name].values())
