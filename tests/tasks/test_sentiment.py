"""Sentiment: trees against a slow reader, words of the training set alone, the label at the last word."""

import random
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rnnlab import architecture
from rnnlab.engine.model import Model
from rnnlab.tasks.data_catalogue import DataSet
from rnnlab.tasks.data_formats import parse_tree
from rnnlab.tasks.sentiment import LABELS, Sentiment
from tests.tasks.small_data import sentiment_files, tree

FILES = {"train": "trees.train.txt", "validation": "trees.dev.txt", "test": "trees.test.txt"}


def slow_phrases(text: str) -> list[tuple[int, list[str]]]:
    """Every phrase with its label, inner ones first, by cutting brackets out of the text."""
    assert text[0] + text[-1] == "()"
    label, rest = int(text[1]), text[3:-1]
    if "(" not in rest:
        return [(label, [rest])]
    depth, parts, start = 0, [], 0
    for place, character in enumerate(rest):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == ")" and depth == 0:
            parts.append(rest[start : place + 1].strip())
            start = place + 1
    inner = [phrase for part in parts for phrase in slow_phrases(part)]
    words = [word for part in parts for word in slow_phrases(part)[-1][1]]
    return [*inner, (label, words)]


@given(seed=st.integers(0, 10**6), num_words=st.integers(1, 12))
def test_trees_equal_the_slow_ones(seed: int, num_words: int) -> None:
    draw = random.Random(seed)
    text = tree(draw, draw.choices(["a", "B", "'s", "-LRB-", "1/2", "ü"], k=num_words))
    found = parse_tree(text)
    assert [(label, list(found.words[start:end])) for label, start, end in found.phrases] == slow_phrases(text)


def sentences(split: str) -> list[str]:
    return sentiment_files()[FILES[split]].decode().splitlines()


def vocabulary(num_words: int) -> list[str]:
    counts = Counter(word for line in sentences("train") for word in slow_phrases(line)[-1][1])
    return ["<unknown>", *sorted(counts, key=lambda word: (-counts[word], word))][:num_words]


def as_phrases(batches, words: list[str]) -> list[tuple[int, list[str]]]:
    found: list[tuple[int, list[str]]] = []
    for batch in batches:
        for tokens, label, weights in zip(
            batch.inputs.tolist(), batch.targets.tolist(), batch.weights.tolist(), strict=True
        ):
            assert sum(weights) == 1
            end = weights.index(1) + 1
            assert not any(tokens[end:])
            found.append((label, [words[token] for token in tokens[:end]]))
    return found


@pytest.mark.parametrize("num_words", [2, 12, 20])
@pytest.mark.parametrize("phrases", [False, True])
@pytest.mark.parametrize("split", FILES)
def test_sentences_and_phrases_equal_the_slow_ones(
    split: str, phrases: bool, num_words: int, small_data: dict[str, DataSet]
) -> None:
    """M10: five labels; words that training does not have are unknown; only training has phrases."""
    task = Sentiment(data="small-sst", length=9, num_words=num_words, phrases=phrases)
    words = vocabulary(num_words)
    assert len(words) == num_words
    wanted = [
        (label, [word if word in words else "<unknown>" for word in some])
        for line in sentences(split)
        for label, some in (slow_phrases(line) if phrases and split == "train" else slow_phrases(line)[-1:])
    ]
    assert as_phrases(task.batches(split, 4), words) == wanted
    assert task.num_sequences(split) == len(wanted)


def test_samples_are_training_sentences(small_data: dict[str, DataSet]) -> None:
    task = Sentiment(data="small-sst", length=9, num_words=20)
    batch = task.sample(600, generator=torch.Generator().manual_seed(0))
    assert batch.inputs.shape == (600, 9)
    found = {(label, tuple(words)) for label, words in as_phrases([batch], vocabulary(20))}
    known = [slow_phrases(line)[-1] for line in sentences("train")]
    assert found == {(label, tuple(words)) for label, words in known}


def test_loss_reads_the_last_word_alone(small_data: dict[str, DataSet]) -> None:
    task = Sentiment(data="small-sst", length=9, num_words=12)
    (batch,) = task.batches("test", 100)
    outputs = torch.randn(9, 9, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ends = [len(slow_phrases(line)[-1][1]) for line in sentences("test")]
    labels = [slow_phrases(line)[-1][0] for line in sentences("test")]
    last = torch.stack([outputs[row, end - 1] for row, end in enumerate(ends)])
    slow = -sum(last[row].log_softmax(0)[label].item() for row, label in enumerate(labels)) / len(labels)
    assert task.loss(outputs, batch).item() == pytest.approx(slow, rel=1e-12)
    right = sum(int(last[row].argmax()) == label for row, label in enumerate(labels)) / len(labels)
    assert task.finish(task.tally(outputs, batch))["accuracy"].item() == pytest.approx(right)


def test_what_follows_a_sentence_does_not_matter(small_data: dict[str, DataSet]) -> None:
    """A network run with the lengths of the sentences and one run without have the same loss."""
    task = Sentiment(data="small-sst", length=9, num_words=12)
    (batch,) = task.batches("test", 100)
    network = architecture("mongia-d:lstm", input_size=12, output_size=5, units=3, encoding="tokens")
    model = Model(network, generator=torch.Generator().manual_seed(0))
    lengths = batch.weights.argmax(1) + 1
    assert lengths.min() < lengths.max()
    losses = [task.loss(model(batch.inputs, lengths=some)[0], batch) for some in (None, lengths)]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-6)


def test_default_sizes() -> None:
    """Requirements 2.8: all words of the training sentences and the unknown one; the longest sentence has 56."""
    task = Sentiment()
    assert (task.input_size, task.output_size, task.num_steps) == (18_279, len(LABELS), 56)


def test_example_shows_words_and_label(small_data: dict[str, DataSet]) -> None:
    task = Sentiment(data="small-sst", length=9, num_words=20)
    example = task.example(next(iter(task.batches("train", 2))))
    label, words = slow_phrases(sentences("train")[0])[-1]
    assert list(example.rows[0].symbols) == words
    assert example.rows[0].marked == {len(words) - 1}
    assert example.answer == f"{LABELS[label]}, at the last word"
