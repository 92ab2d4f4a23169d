"""Small data sets in the forms of the real ones, made from a seed, with their checksums."""

import gzip
import hashlib
import io
import random
import struct
from pathlib import Path

import numpy as np
from scipy.io import savemat

from rnnlab.tasks.data_catalogue import DataFile, DataSet

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def save_data_set(folder: Path, name: str, files: dict[str, bytes]) -> DataSet:
    """Write files, packed as .gz unless they are archives themselves, and the data set that they are."""
    folder.mkdir(exist_ok=True, parents=True)
    for file, content in files.items():
        if file.endswith((".npz", ".mat")):
            (folder / file).write_bytes(content)
        else:
            (folder / f"{file}.gz").write_bytes(gzip.compress(content))
    known = tuple(DataFile(file, hashlib.sha256(content).hexdigest(), len(content)) for file, content in files.items())
    return DataSet(name=name, summary=f"small {name}", files=known, published="here", terms="none")


def mnist_files(num_training: int = 40, num_test: int = 12) -> dict[str, bytes]:
    random_state = np.random.RandomState(1)
    files: dict[str, bytes] = {}
    for part, number in (("train", num_training), ("t10k", num_test)):
        images = random_state.randint(0, 256, (number, 28, 28), np.uint8)
        labels = random_state.randint(0, 10, number).astype(np.uint8)
        files[f"{part}-images-idx3-ubyte"] = struct.pack(">4B3I", 0, 0, 8, 3, number, 28, 28) + images.tobytes()
        files[f"{part}-labels-idx1-ubyte"] = struct.pack(">4B1I", 0, 0, 8, 1, number) + labels.tobytes()
    return files


def ptb_files(num_lines: int = 60) -> dict[str, bytes]:
    """Lines with a space before and behind, as the real ones."""
    draw = random.Random(2)
    words = ["<unk>", "N", "'s", "$", "a.m.", "x-y", *("".join(draw.choices(LETTERS, k=4)) for _ in range(20))]
    files: dict[str, bytes] = {}
    for split, number in (("train", num_lines), ("valid", 10), ("test", 12)):
        lines = [" " + " ".join(draw.choices(words, k=draw.randint(1, 9))) + " \n" for _ in range(number)]
        files[f"ptb.{split}.txt"] = "".join(lines).encode()
    return files


def text8_files(num_characters: int = 3_000) -> dict[str, bytes]:
    draw = random.Random(3)
    return {"text8.small.txt": "".join(draw.choices(" " * 5 + LETTERS, k=num_characters)).encode()}


def rolls() -> dict[str, list[np.ndarray]]:
    """Sequences of chords by split, as their publisher names splits."""
    random_state = np.random.RandomState(4)
    lengths = {"train": (5, 17, 8, 1, 16), "valid": (7, 3), "test": (4, 11, 2)}
    return {
        split: [(random_state.rand(steps, 88) < 0.1).astype(np.uint8) for steps in some]
        for split, some in lengths.items()
    }


def music_npz() -> dict[str, bytes]:
    arrays: dict[str, np.ndarray] = {}
    for split, sequences in rolls().items():
        arrays[f"{split}_x"] = np.concatenate(sequences)
        arrays[f"{split}_len"] = np.array([len(sequence) for sequence in sequences], np.int32)
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return {"small.npz": stream.getvalue()}


def music_mat() -> dict[str, bytes]:
    """The same as cells of a matrix, as their publisher has them."""
    cells: dict[str, np.ndarray] = {}
    for split, sequences in rolls().items():
        cells[f"{split}data"] = np.empty((1, len(sequences)), object)
        cells[f"{split}data"][0, :] = sequences
    stream = io.BytesIO()
    savemat(stream, cells)
    return {"Small.mat": stream.getvalue()}


def tree(draw: random.Random, words: list[str]) -> str:
    """Random brackets and labels around words."""
    if len(words) == 1:
        return f"({draw.randint(0, 4)} {words[0]})"
    cut = draw.randint(1, len(words) - 1)
    return f"({draw.randint(0, 4)} {tree(draw, words[:cut])} {tree(draw, words[cut:])})"


def sentiment_files() -> dict[str, bytes]:
    """Sentences; some words of dev and test are not in train."""
    draw = random.Random(5)
    known = [
        "The",
        "the",
        "film",
        "café",
        "-LRB-",
        "'s",
        ".",
        *("".join(draw.choices(LETTERS, k=3)) for _ in range(12)),
    ]
    files: dict[str, bytes] = {}
    for split, number in (("train", 30), ("dev", 8), ("test", 9)):
        words = known if split == "train" else [*known, "zyzzyva", "Film"]
        sentences = [tree(draw, draw.choices(words, k=draw.randint(1, 9))) for _ in range(number)]
        files[f"trees.{split}.txt"] = ("\n".join(sentences) + "\n").encode()
    return files


FILES = {
    "small-mnist": mnist_files,
    "small-ptb": ptb_files,
    "small-text8": text8_files,
    "small-music": music_npz,
    "small-music-mat": music_mat,
    "small-sst": sentiment_files,
}
