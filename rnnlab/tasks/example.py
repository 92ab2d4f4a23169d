"""One sequence of a task as a person sees it: rows over time, and the answer. Drawn by `rnnlab show`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from torch import Tensor

from rnnlab.errors import TaskError


@dataclass(frozen=True)
class Symbols:
    """A row of short texts, one for each time step, in which some steps may be marked."""

    label: str
    symbols: tuple[str, ...]
    marked: frozenset[int] = frozenset()

    @property
    def is_prose(self) -> bool:
        """Whether they are words, which run on over lines, and not signs that stand below each other."""
        return any(len(symbol) > 3 for symbol in self.symbols)


@dataclass(frozen=True)
class Curve:
    """A number for each time step, in which some steps may be marked."""

    label: str
    values: tuple[float, ...]
    marked: frozenset[int] = frozenset()


@dataclass(frozen=True, eq=False)
class Grid:
    """A picture: rows from top to bottom, with names or without, columns from left to right: time steps, or pixels."""

    label: str
    values: np.ndarray  # [rows, columns], any range
    columns: Literal["time", "pixels"] = "time"
    row_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or not self.values.size:
            raise TaskError(f"a grid has rows and columns, got shape {list(self.values.shape)}")
        if self.row_names and len(self.row_names) != len(self.values):
            raise TaskError(f"{len(self.row_names)} names for a grid of {len(self.values)} rows")

    @property
    def is_binary(self) -> bool:
        """Whether there is nothing but 0 and 1 in it."""
        return bool(np.isin(self.values, (0, 1)).all())


Row = Symbols | Curve | Grid


@dataclass(frozen=True)
class Example:
    """What goes in and what should come out; `print` shows it, `save` draws it.

    Args:
        title: the task and its size.
        rows: what the network sees, and its target if that is a row over time.
        answer: the target, in words.
    """

    title: str
    rows: tuple[Row, ...]
    answer: str

    def __str__(self) -> str:
        from rnnlab.tasks.terminal import terminal_lines

        return "\n".join("".join(text for text, _ in line).rstrip() for line in terminal_lines(self, width=100))

    def save(self, path: str | Path) -> None:
        """Draw it to an .svg, .png or .pdf file; needs matplotlib."""
        from rnnlab.tasks.figure import save_figure

        save_figure(self, Path(path))


def plain_example(title: str, inputs: Tensor, targets: Tensor) -> Example:
    """The first sequence of any batch, its numbers as they are; targets over time are a row too."""
    first = first_sequence(inputs, 2 if inputs.dtype.is_floating_point else 1)
    wanted = first_sequence(targets, max(targets.dim() - inputs.dim() + first.ndim, 0))
    rows = [_plain_row("input", first)]
    if wanted.ndim and len(wanted) == len(first) > 1:
        rows.append(_plain_row("target", wanted))
    return Example(title, tuple(rows), f"first numbers of the target: {_listed(wanted.reshape(-1)[:8].tolist())}")


def _plain_row(label: str, steps: np.ndarray) -> Row:
    """Numbers over time, [T] or [T, N]."""
    if steps.ndim == 1 and not np.issubdtype(steps.dtype, np.floating):
        return Symbols(label, tuple(str(int(number)) for number in steps))
    if steps.ndim == 1 or steps.shape[1] == 1:
        return Curve(label, tuple(float(number) for number in steps.reshape(-1)))
    return Grid(label, steps.reshape(len(steps), -1).T)


def first_sequence(tensor: Tensor, num_axes: int) -> np.ndarray:
    """The first sequence of a tensor [B, ...] or [P, B, ...], which has `num_axes` axes itself."""
    found = tensor.detach().cpu()
    while found.dim() > num_axes:
        found = found[0]
    return found.numpy()


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.4g}" for number in numbers)
