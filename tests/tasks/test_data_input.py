"""Wrong arguments and wrong files of tasks on data sets: one clear line, nothing kept, nothing unpickled."""

import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from rnnlab import RnnlabError
from rnnlab.errors import TaskError
from rnnlab.tasks.data_catalogue import DATA_SETS, DataSet, register_data_set
from rnnlab.tasks.data_tasks import AbstractDataTask
from rnnlab.tasks.mnist import PermutedMnist, SequentialMnist
from rnnlab.tasks.music import JsbChorales, Nottingham
from rnnlab.tasks.penn_treebank import PennTreebankCharacters, PennTreebankWords
from rnnlab.tasks.sentiment import Sentiment
from rnnlab.tasks.text8 import Text8Collins, Text8Zhang
from tests.tasks.small_data import mnist_files, ptb_files, save_data_set


@dataclass(frozen=True)
class Wrong:
    build: Callable[[], AbstractDataTask]
    message: str


WRONG = {
    "data": Wrong(lambda: SequentialMnist(data="cifar"), "there is no data set 'cifar'; known: mnist, penn-treebank"),
    "number": Wrong(lambda: Text8Zhang(length=0), "length must be an integer of at least 1, got 0"),
    "validation": Wrong(lambda: SequentialMnist(num_validation=0), "num_validation must be an integer of at least 1"),
    "seed": Wrong(lambda: PermutedMnist(seed=2**32), "seed must be below 2**32"),
    "spaces": Wrong(lambda: PennTreebankCharacters(spaces="none"), "spaces is after-every-word or between-words"),
    "words": Wrong(lambda: PennTreebankWords(num_words=1), "num_words must be an integer of at least 2"),
    "warm-up": Wrong(lambda: Text8Collins(length=13), "a warm-up of 13 steps leaves none of 13 to count"),
    "windows": Wrong(lambda: Text8Collins(num_evaluation=50), "num_evaluation must be an integer of at least 51"),
    "phrases": Wrong(lambda: Sentiment(phrases="yes"), "phrases is True or False, got 'yes'"),
    "music": Wrong(lambda: Nottingham(length=1.5), "length must be an integer of at least 1, got 1.5"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_refused(wrong: Wrong) -> None:
    with pytest.raises(RnnlabError) as caught:
        wrong.build()
    assert wrong.message in str(caught.value)


UNFIT = {
    "no training images": Wrong(
        lambda: SequentialMnist(data="small-mnist", num_validation=40), "num_validation must be below 40"
    ),
    "no training text": Wrong(
        lambda: Text8Zhang(data="small-text8", num_evaluation=1500),
        "num_evaluation 1,500 leaves too little to train on",
    ),
    "no training window": Wrong(
        lambda: Text8Collins(data="small-text8", num_evaluation=1475),
        "small-text8 has 3,000 characters, and 51 are needed",
    ),
    "foreign characters": Wrong(
        lambda: Text8Zhang(data="small-sst-text", num_evaluation=50), "is none of its 27 characters"
    ),
    "too many words": Wrong(lambda: PennTreebankWords(data="small-ptb"), "num_words is at most"),
    "too many words of sentences": Wrong(lambda: Sentiment(data="small-sst"), "num_words is at most 20"),
    "sentences too long": Wrong(
        lambda: Sentiment(data="small-sst", num_words=12, length=3), "length must be at least 9, the words of the"
    ),
}


@pytest.mark.parametrize("unfit", UNFIT.values(), ids=UNFIT)
def test_arguments_that_do_not_fit_the_files_are_refused(
    unfit: Wrong, small_data: dict[str, DataSet], tmp_path: Path
) -> None:
    register_data_set(save_data_set(tmp_path / "small", "small-sst-text", {"capital.txt": b"a capital A" * 30}))
    try:
        with pytest.raises(TaskError) as caught:
            unfit.build().num_sequences("train")
    finally:
        del DATA_SETS["small-sst-text"]
    assert unfit.message in str(caught.value)


def test_damaged_file_is_not_cached(tmp_path: Path, monkeypatch) -> None:
    """The same task fails, then works once the file is mended, then needs the file no more."""
    monkeypatch.setenv("RNNLAB_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    register_data_set(save_data_set(tmp_path, "torn-ptb", ptb_files(num_lines=61)))
    path = tmp_path / "ptb.test.txt.gz"
    whole = path.read_bytes()
    task = PennTreebankCharacters(data="torn-ptb")
    try:
        for wrong in (whole[:-20], b"", whole[:40] + b"?" + whole[41:]):
            path.write_bytes(wrong)
            with pytest.raises(TaskError, match=r"ptb\.test\.txt\.gz is .*copy it again"):
                task.num_sequences("train")
        path.write_bytes(whole)
        (text,) = task.tensors("test", "cpu")
        path.write_bytes(b"")
        assert torch.equal(task.tensors("test", "cpu")[0], text)
    finally:
        del DATA_SETS["torn-ptb"]


@dataclass(frozen=True)
class Form:
    """A task and files that are verified, but hold something else."""

    build: Callable[[str], AbstractDataTask]
    files: Callable[[], dict[str, bytes]]
    message: str = "cannot read the files of strange: they have another form"


def changed_mnist(name: str, content: bytes) -> dict[str, bytes]:
    return mnist_files(num_training=40) | {name: content}


class Trap:
    """Whoever unpickles it makes a file."""

    def __reduce__(self):
        return Path.touch, (Path("unpickled"),)


def pickled_npz() -> dict[str, bytes]:
    stream = io.BytesIO()
    np.savez(stream, train_x=np.array([Trap()], object), train_len=np.ones(1))
    return {"small.npz": stream.getvalue()}


def images(number: int, side: int) -> bytes:
    return struct.pack(">4B3I", 0, 0, 8, 3, number, side, side) + bytes(number * side * side)


FORMS = {
    "short images": Form(
        lambda data: SequentialMnist(data=data), lambda: changed_mnist("train-images-idx3-ubyte", b"not")
    ),
    "larger images": Form(
        lambda data: SequentialMnist(data=data),
        lambda: changed_mnist("train-images-idx3-ubyte", images(40, 32)),
        "train files have images of shape [40, 32, 32] and 40 labels up to 9; wanted are 28 × 28 pixels",
    ),
    "fewer images": Form(
        lambda data: SequentialMnist(data=data, num_validation=5),
        lambda: changed_mnist("t10k-images-idx3-ubyte", images(11, 28)),
        "t10k files have images of shape [11, 28, 28] and 12 labels",
    ),
    "more digits": Form(
        lambda data: SequentialMnist(data=data, num_validation=5),
        lambda: changed_mnist("t10k-labels-idx1-ubyte", struct.pack(">4B1I", 0, 0, 8, 1, 12) + bytes([10] * 12)),
        "12 labels up to 10; wanted are 28 × 28 pixels and labels below 10",
    ),
    "pickled rolls": Form(lambda data: JsbChorales(data=data), pickled_npz),
    "text for rolls": Form(lambda data: JsbChorales(data=data), lambda: {"small.npz": b"text"}),
    "torn trees": Form(
        lambda data: Sentiment(data=data),
        lambda: {f"trees.{split}.txt": b"(3 (2 not)) (1 bad)))" for split in ("train", "dev", "test")},
    ),
    "other names": Form(lambda data: PennTreebankCharacters(data=data), lambda: {"other.txt": b" a b \n"}),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_verified_files_of_another_form_are_one_line(form: Form, tmp_path: Path, monkeypatch) -> None:
    """A user's own data set: nothing is unpickled, nothing is cut to fit."""
    monkeypatch.setenv("RNNLAB_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(DATA_SETS, "strange", save_data_set(tmp_path, "strange", form.files()))
    with pytest.raises(TaskError) as caught:
        form.build("strange").num_sequences("train")
    assert form.message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not Path("unpickled").exists()
