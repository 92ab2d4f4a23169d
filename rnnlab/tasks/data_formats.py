"""Reading the contents of data files: images, piano rolls, text, trees. None of them can run code."""

import io
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

# one part of a tree: the label that opens a phrase, a word, or the bracket that closes a phrase
TREE_PARTS = re.compile(r"\(([0-4])|([^()\s]+)|(\))")


@dataclass(frozen=True)
class PianoRolls:
    """Sequences of chords, one after another: `notes` [steps, 88] of 0 and 1, `lengths` of the sequences in steps."""

    notes: Bytes
    lengths: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Tree:
    """A sentence and its phrases: each is (label, first word, end), the whole sentence last."""

    words: tuple[str, ...]
    phrases: tuple[tuple[int, int, int], ...]


def idx_array(content: bytes) -> Bytes:
    """The array of unsigned bytes in an IDX file, as MNIST has them.

    >>> idx_array(bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6])).tolist()
    [[1, 2, 3], [4, 5, 6]]
    """
    num_axes = content[3]
    shape = struct.unpack_from(f">{num_axes}I", content, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * num_axes).reshape(shape)


def piano_rolls(files: Mapping[str, bytes]) -> dict[str, PianoRolls]:
    """The splits train, valid and test of a music data set, from its .npz or its .mat file."""
    ((name, content),) = files.items()
    return _from_mat(content) if name.endswith(".mat") else _from_npz(content)


def parse_tree(line: str) -> Tree:
    """A tree from its brackets.

    >>> parse_tree("(3 (2 not) (1 (2 so) (1 bad)))")
    Tree(words=('not', 'so', 'bad'), phrases=((2, 0, 1), (2, 1, 2), (1, 2, 3), (1, 1, 3), (3, 0, 3)))
    """
    words: list[str] = []
    phrases: list[tuple[int, int, int]] = []
    is_open: list[tuple[int, int]] = []
    for label, word, _ in TREE_PARTS.findall(line):
        if label:
            is_open.append((int(label), len(words)))
        elif word:
            words.append(word)
        else:
            phrases.append((*is_open.pop(), len(words)))
    return Tree(tuple(words), tuple(phrases))


def _from_npz(content: bytes) -> dict[str, PianoRolls]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {
            split: PianoRolls(arrays[f"{split}_x"], arrays[f"{split}_len"].astype(np.int32))
            for split in ("train", "valid", "test")
        }


def _from_mat(content: bytes) -> dict[str, PianoRolls]:
    from scipy.io import loadmat  # needed for this format of the files only

    arrays = loadmat(io.BytesIO(content))
    found: dict[str, PianoRolls] = {}
    for split in ("train", "valid", "test"):
        sequences = list(arrays[f"{split}data"][0])
        lengths = np.array([len(sequence) for sequence in sequences], np.int32)
        found[split] = PianoRolls(np.concatenate(sequences).astype(np.uint8), lengths)
    return found
