"""Texts: streams and windows against slow twins, both counts of the Penn Treebank, words, the name of the 74 %."""

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rnnlab.tasks.data_catalogue import DataSet
from rnnlab.tasks.penn_treebank import PennTreebankCharacters, PennTreebankWords
from rnnlab.tasks.text import encode_characters, stream_batches
from rnnlab.tasks.text8 import Text8Collins, Text8Zhang
from tests.tasks.small_data import ptb_files, text8_files


def slow_streams(text: list[int], batch_size: int, num_steps: int) -> list[list[list[tuple[int, int]]]]:
    """What each row of each batch reads and must predict, symbol by symbol."""
    share = -(-(len(text) - 1) // batch_size)
    batches: list[list[list[tuple[int, int]]]] = []
    for start in range(0, share, num_steps):
        rows: list[list[tuple[int, int]]] = []
        for row in range(batch_size):
            end = min(row * share + share, len(text) - 1)
            steps = range(row * share + start, min(row * share + start + num_steps, end))
            rows.append([(text[step], text[step + 1]) for step in steps])
        batches.append(rows)
    return batches


@given(
    text=st.lists(st.integers(0, 9), min_size=2, max_size=60),
    batch_size=st.integers(1, 9),
    num_steps=st.integers(1, 12),
)
def test_streams_equal_the_slow_ones(text: list[int], batch_size: int, num_steps: int) -> None:
    batches = list(stream_batches(torch.tensor(text), batch_size, num_steps))
    wanted = slow_streams(text, batch_size, num_steps)
    assert len(batches) == len(wanted)
    for number, (batch, rows) in enumerate(zip(batches, wanted, strict=True)):
        assert batch.inputs.shape == batch.targets.shape == batch.weights.shape == (batch_size, num_steps)
        assert batch.continues == (number > 0)
        for row, steps in enumerate(rows):
            assert batch.weights[row].tolist() == [1.0] * len(steps) + [0.0] * (num_steps - len(steps))
            pairs = zip(
                batch.inputs[row, : len(steps)].tolist(), batch.targets[row, : len(steps)].tolist(), strict=True
            )
            assert list(pairs) == steps


@given(length=st.integers(2, 60), batch_size=st.integers(1, 9), num_steps=st.integers(1, 12))
def test_streams_predict_every_symbol_once(length: int, batch_size: int, num_steps: int) -> None:
    predicted = Counter()
    for batch in stream_batches(torch.arange(length), batch_size, num_steps):
        counted = batch.weights > 0
        assert torch.equal(batch.inputs[counted] + 1, batch.targets[counted])
        predicted.update(batch.targets[counted].tolist())
    assert predicted == Counter(range(1, length))


def test_rows_of_a_stream_continue_the_rows_before() -> None:
    first, second, third, *_ = stream_batches(torch.arange(1000), 4, 10)
    assert torch.equal(first.targets[:, -1], second.inputs[:, 0])
    assert torch.equal(second.targets[:, -1], third.inputs[:, 0])


def text_of(task, split: str) -> str:
    (tokens,) = task.tensors(split, "cpu")
    return "".join(task.alphabet[token] for token in tokens.tolist())


@pytest.mark.parametrize(("split", "file"), [("train", "train"), ("validation", "valid"), ("test", "test")])
def test_ptb_characters_have_both_counts(split: str, file: str, small_data: dict[str, DataSet]) -> None:
    written = ptb_files()[f"ptb.{file}.txt"].decode()
    num_lines = written.count("\n")
    kept = text_of(PennTreebankCharacters(data="small-ptb"), split)
    assert len(kept) == len(written) - num_lines
    assert kept == "".join(
        word + (" " if word != "\n" else "") for word in written.replace("\n", "\n ").split(" ") if word
    )
    stripped = text_of(PennTreebankCharacters(data="small-ptb", spaces="between-words"), split)
    assert len(stripped) == len(written) - 2 * num_lines
    assert stripped == "".join(line.strip() + "\n" for line in written.splitlines())


def test_ptb_alphabet_has_fifty_characters() -> None:
    alphabet = PennTreebankCharacters.alphabet
    assert len(set(alphabet)) == len(alphabet) == PennTreebankCharacters().input_size == 50
    assert set(alphabet) == set("abcdefghijklmnopqrstuvwxyz0123456789 \n#$&'*-./<>N\\")


def slow_words(split: str) -> list[str]:
    return [word for line in ptb_files()[f"ptb.{split}.txt"].decode().splitlines() for word in [*line.split(), "<eos>"]]


@pytest.mark.parametrize("num_words", [2, 5, 12, 27])
def test_ptb_words_are_numbered_by_frequency(num_words: int, small_data: dict[str, DataSet]) -> None:
    task = PennTreebankWords(data="small-ptb", num_words=num_words)
    counts = Counter(slow_words("train"))
    assert len(counts) == 27
    names = [task.symbol(number) for number in range(num_words)]
    assert "<unk>" in names
    assert names == sorted(names, key=lambda word: (-counts[word], word))
    others = [counts[word] for word in counts if word not in names]
    assert max(others, default=0) <= min(counts[word] for word in names if word != "<unk>")
    for split, file in (("train", "train"), ("validation", "valid"), ("test", "test")):
        (tokens,) = task.tensors(split, "cpu")
        wanted = [word if word in names else "<unk>" for word in slow_words(file)]
        assert [task.symbol(token) for token in tokens.tolist()] == wanted


def test_perplexity_is_of_the_whole_text(small_data: dict[str, DataSet]) -> None:
    """The exponential of the mean, not the mean of batches' exponentials."""
    task = PennTreebankWords(data="small-ptb", num_words=12, length=5)
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(12, 12, generator=generator, dtype=torch.float64)
    batches = list(task.batches("test", 3))
    tallies = [task.tally(table[batch.inputs], batch) for batch in batches]
    total = tallies[0]
    for tally in tallies[1:]:
        total = total + tally
    (tokens,) = task.tensors("test", "cpu")
    nats = [-table[a].log_softmax(0)[b].item() for a, b in zip(tokens[:-1].tolist(), tokens[1:].tolist(), strict=True)]
    assert task.finish(total)["perplexity"].item() == pytest.approx(math.exp(sum(nats) / len(nats)), rel=1e-12)


def test_text8_is_split_from_its_end(small_data: dict[str, DataSet]) -> None:
    (content,) = text8_files().values()
    written = content.decode()
    for task in (
        Text8Zhang(data="small-text8", num_evaluation=400),
        Text8Collins(data="small-text8", num_evaluation=400),
    ):
        parts = [text_of(task, split) for split in ("train", "validation", "test")]
        assert "".join(parts) == written
        assert [len(part) for part in parts] == [2200, 400, 400]


def test_windows_begin_anywhere_and_count_after_the_warm_up(small_data: dict[str, DataSet]) -> None:
    task = Text8Collins(data="small-text8", num_evaluation=1400, length=50)
    text = text_of(task, "train")
    assert len(text) == 200
    batch = task.sample(3000, generator=torch.Generator().manual_seed(0))
    assert batch.weights.tolist() == [[0.0] * 13 + [1.0] * 37] * 3000
    found = set()
    for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        start = text.index("".join(task.alphabet[token] for token in inputs))
        assert "".join(task.alphabet[token] for token in targets) == text[start + 1 : start + 51]
        found.add(start)
    assert found == set(range(150))  # all places from which 50 steps and the last target fit


@given(length=st.integers(2, 12), data=st.data())
def test_pass_over_windows_predicts_every_character_once(length: int, data) -> None:
    warm_up = data.draw(st.integers(0, length - 1))
    num_symbols = data.draw(st.integers(length + 1, 80))
    task = Text8Collins(length=length, warm_up=warm_up, num_evaluation=length + 1)
    text = torch.arange(num_symbols)
    predicted = Counter()
    num_windows = 0
    for batch in windows_over(task, text, batch_size=data.draw(st.integers(1, 20))):
        counted = batch.weights > 0
        num_windows += len(batch.inputs)
        assert not counted[:, :warm_up].any()
        assert torch.equal(batch.inputs[counted] + 1, batch.targets[counted])
        predicted.update(batch.targets[counted].tolist())
    assert predicted == Counter(range(1 + warm_up, num_symbols))
    assert num_windows == -(-(num_symbols - 1 - warm_up) // (length - warm_up))


def windows_over(task: Text8Collins, text: torch.Tensor, batch_size: int):
    """A pass of the task over a text of its own."""

    class OverText(Text8Collins):
        def tensors(self, split, device):
            return (text,)

    fields = {"length": task.length, "warm_up": task.warm_up, "num_evaluation": task.num_evaluation}
    return OverText(**fields).batches("test", batch_size)


def test_part_of_text8_is_named_in_score_and_title(small_data: dict[str, DataSet]) -> None:
    """Numbers on 74 % cannot be taken for the literature's."""
    for kind in (Text8Zhang, Text8Collins):
        task = kind()
        assert task.data == "text8-first74"
        assert [score.name for score in task.scores] == ["bits_per_character_first74"]
        assert str(task) == f"{task.name} on text8-first74"
        assert task.to_json()["data"] == "text8-first74"
        assert str(replace(task, num_evaluation=1000)) == f"{task.name}(num_evaluation=1000) on text8-first74"
        assert kind(data="text8").score_name == "bits_per_character"
        assert str(kind(data="text8")) == f"{task.name}(data='text8')"


def test_default_sizes_are_those_of_the_papers() -> None:
    """Z43: sequences of 50; Z44: of 180; Z52: batches of 50; C60: 13 of 50 steps are warm-up; P: 100 words."""
    assert (PennTreebankCharacters().num_steps, Text8Zhang().num_steps, Text8Collins().num_steps) == (50, 180, 50)
    assert Text8Collins().warm_up == 13
    assert (PennTreebankWords().num_steps, PennTreebankWords().input_size) == (100, 10_000)
    assert PennTreebankCharacters.batch_size == Text8Zhang.batch_size == 50


def test_example_shows_what_is_read_and_wanted(small_data: dict[str, DataSet]) -> None:
    task = PennTreebankCharacters(data="small-ptb", length=30)
    example = task.example(next(iter(task.batches("train", 2))))
    read, wanted = ("".join(row.symbols) for row in example.rows)
    assert read[1:] == wanted[:-1]
    assert read.replace("·", " ").replace("↵", "\n") == text_of(task, "train")[:30]
    assert not example.rows[1].marked
    assert example.answer == "the next symbol at every step; all steps count"


def test_example_marks_what_counts_after_a_warm_up(small_data: dict[str, DataSet]) -> None:
    task = Text8Collins(data="small-text8", num_evaluation=300, length=9, warm_up=4)
    example = task.example(next(iter(task.batches("train", 2))))
    assert example.rows[1].marked == {4, 5, 6, 7, 8}
    assert example.answer == "the next symbol at every step; steps 5 to 9 count"


def test_foreign_bytes_are_named() -> None:
    with pytest.raises(ValueError, match="byte 66 at 2 of the text is none of its 3 characters"):
        encode_characters(b"a B", " ab")
