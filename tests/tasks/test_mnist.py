"""MNIST pixel by pixel: against the bytes of the files, in order and permuted."""

import hashlib
import json
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from rnnlab.tasks.data_catalogue import DataSet
from rnnlab.tasks.mnist import PermutedMnist, SequentialMnist
from tests.tasks.small_data import mnist_files

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "data.json").read_text())["permutation"]


def slow_images(part: str) -> list[tuple[list[int], int]]:
    """The pixels of every image line by line, and its label, taken from the bytes one by one."""
    files = mnist_files()
    images, labels = files[f"{part}-images-idx3-ubyte"], files[f"{part}-labels-idx1-ubyte"]
    (number,) = struct.unpack(">I", images[4:8])
    return [(list(images[16 + 784 * i : 16 + 784 * (i + 1)]), labels[8 + i]) for i in range(number)]


def slow_split(split: str, num_validation: int) -> list[tuple[list[int], int]]:
    training = slow_images("train")
    splits = {
        "train": training[:-num_validation],
        "validation": training[-num_validation:],
        "test": slow_images("t10k"),
    }
    return splits[split]


def as_rows(batches) -> list[tuple[list[int], int]]:
    rows: list[tuple[list[int], int]] = []
    for batch in batches:
        pixels = (batch.inputs[..., 0] * 255).round().long()
        rows += list(zip(pixels.tolist(), batch.targets.tolist(), strict=True))
    return rows


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_pixels_come_line_by_line(split: str, small_data: dict[str, DataSet]) -> None:
    """Validation is the last part of the training images, in both tasks."""
    wanted = slow_split(split, 9)
    task = SequentialMnist(data="small-mnist", num_validation=9)
    assert as_rows(task.batches(split, 7)) == wanted
    assert task.num_sequences(split) == len(wanted) == {"train": 31, "validation": 9, "test": 12}[split]
    permuted = PermutedMnist(data="small-mnist", num_validation=9, seed=5)
    order = permuted.order().tolist()
    assert as_rows(permuted.batches(split, 5)) == [
        ([image[pixel] for pixel in order], label) for image, label in wanted
    ]


def test_pixels_are_shares_of_255(small_data: dict[str, DataSet]) -> None:
    task = SequentialMnist(data="small-mnist", num_validation=9)
    batch = next(iter(task.batches("test", 12)))
    assert batch.inputs.shape == (12, 784, 1)
    assert batch.inputs.dtype == torch.float32
    assert (batch.inputs.min(), batch.inputs.max()) == (0, 1)


def test_samples_are_training_images_all_alike_likely(small_data: dict[str, DataSet]) -> None:
    task = SequentialMnist(data="small-mnist", num_validation=9)
    known = [tuple(image) for image, _ in slow_split("train", 9)]
    labels = dict(zip(known, (label for _, label in slow_split("train", 9)), strict=True))
    drawn = as_rows([task.sample(3100, generator=torch.Generator().manual_seed(0))])
    counts = Counter(tuple(image) for image, _ in drawn)
    assert set(counts) == set(known)
    assert all(labels[tuple(image)] == label for image, label in drawn)
    assert 50 < min(counts.values()) < max(counts.values()) < 160  # 100 of each on average


def test_order_is_one_permutation_for_a_seed() -> None:
    """Z48: fixed; numpy promises that these numbers never change, and they are the same on every machine."""
    order = PermutedMnist(seed=GOLDEN["seed"]).order()
    assert sorted(order) == list(range(784))
    assert order[:5].tolist() == GOLDEN["first"]
    assert hashlib.sha256(order.astype("<i8").tobytes()).hexdigest() == GOLDEN["sha256"], GOLDEN["citation"]
    assert np.array_equal(PermutedMnist().order(), order)
    assert not np.array_equal(PermutedMnist(seed=1).order(), order)
    assert np.array_equal(SequentialMnist().order(), np.arange(784))


def test_default_sizes_are_those_of_the_paper() -> None:
    """Z47: 784 steps of one pixel, ten classes; 50,000 / 10,000 / 10,000 images as requirements 2.5 advise."""
    for task in (SequentialMnist(), PermutedMnist()):
        assert (task.num_steps, task.input_size, task.output_size, task.num_validation) == (784, 1, 10, 10_000)


def test_example_shows_the_image_upright(small_data: dict[str, DataSet]) -> None:
    task = PermutedMnist(data="small-mnist", num_validation=9)
    picture, curve = task.example(next(iter(task.batches("test", 2)))).rows
    pixels, label = slow_images("t10k")[0]
    assert np.allclose(picture.values, np.array(pixels).reshape(28, 28) / 255)
    assert curve.values == pytest.approx([pixels[pixel] / 255 for pixel in task.order()])
    assert task.example(next(iter(task.batches("test", 2)))).answer == f"{label}, at the last step"
