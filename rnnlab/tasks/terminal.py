"""An example as lines of a terminal: signs for time steps, blocks for numbers, shades for pictures."""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from rnnlab.tasks.example import Curve, Example, Grid, Row, Symbols

Piece = tuple[str, str]  # text, and what it is: "label", "mark", "answer" or ""
Line = tuple[Piece, ...]

LABEL_WIDTH = 12
MOST_ROWS = 32  # of a picture; a file holds all of them
LEVELS = "▁▂▃▄▅▆▇█"
SHADES = " ░▒▓█"
STYLES = {"label": "bold", "mark": "bold red", "answer": "bold green", "": ""}
HALVES = " ▀▄█"  # by the upper half and twice the lower one


def terminal_lines(example: Example, *, width: int) -> list[Line]:
    """The whole example, in lines of at most `width` signs.

    Rows over the same steps are cut into blocks together, so that what happens at one step stays in one column.
    """
    lines: list[Line] = [((example.title, "label"),), ()]
    room = max(width - LABEL_WIDTH, 8)
    for _, group in groupby(example.rows, key=_num_cells):
        rows = list(group)
        for piece in _grid_lines(rows, room) if isinstance(rows[0], Grid) else _step_lines(rows, room):
            lines.append(piece)
    return [*lines, (_label("answer"), (example.answer, "answer"))]


def print_example(example: Example, *, before: str) -> None:
    """Print an example, below some lines of text, in the colours and at the width of the terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    lines = terminal_lines(example, width=console.width if console.is_terminal else 100)
    title, *rest = lines
    console.print(Text.assemble(*((text, STYLES[kind]) for text, kind in title)))
    console.print(before, markup=False)
    for line in rest:
        console.print(Text.assemble(*((text, STYLES[kind]) for text, kind in line)))


def _num_cells(row: Row) -> tuple[str, int]:
    """What must agree for rows to be placed below each other: their kind and the number of their steps."""
    if isinstance(row, Grid):
        return f"grid {id(row)}", 0
    if isinstance(row, Symbols) and row.is_prose:
        return f"prose {id(row)}", 0
    return "steps", len(row.values) if isinstance(row, Curve) else len(row.symbols)


def _step_lines(rows: Sequence[Row], room: int) -> Iterator[Line]:
    if isinstance(rows[0], Symbols) and rows[0].is_prose:
        yield from _prose_lines(rows[0], room)
        return
    cells = [(row.label, row.marked, _cells(row)) for row in rows if not isinstance(row, Grid)]
    width = max(len(cell) for _, _, row in cells for cell in row)
    gap = "" if width == 1 else " "
    steps, num_steps = room // (width + len(gap)), len(cells[0][2])
    for start in range(0, num_steps, steps):
        stop = min(start + steps, num_steps)
        if num_steps > steps:
            yield (_label("steps"), (f"{start + 1} to {stop}", ""))
        for label, marked, row in cells:
            pieces = ((row[at].ljust(width) + gap, "mark" if at in marked else "") for at in range(start, stop))
            yield (_label(label), *_joined(pieces))
        yield ()


def _prose_lines(row: Symbols, room: int) -> Iterator[Line]:
    for number, line in enumerate(textwrap.wrap(" ".join(row.symbols), room)):
        yield (_label("" if number else row.label), (line, ""))
    yield ()


def _cells(row: Symbols | Curve) -> Sequence[str]:
    if isinstance(row, Symbols):
        return [symbol if symbol.isprintable() else "¶" for symbol in row.symbols]
    return [LEVELS[level] for level in scaled(np.array(row.values), len(LEVELS))]


def _grid_lines(rows: Sequence[Row], room: int) -> Iterator[Line]:
    for grid in rows:
        assert isinstance(grid, Grid)
        yield (_label(grid.label), (_caption(grid), ""))
        texts = _halves(grid.values) if grid.is_binary else _shaded(grid.values)
        names = (grid.row_names or ("",) * len(grid.values))[:: 2 if grid.is_binary else 1]
        named = list(zip(names, texts, strict=True))
        signs = 2 if 2 * len(texts[0]) <= room and not grid.is_binary else 1  # of a column, so that pixels are square
        yield from _picture_lines(named[:MOST_ROWS], room // signs, signs, grid.columns)
        if len(texts) > MOST_ROWS:
            yield (_label(""), (f"… the first {MOST_ROWS} rows; -o FILE draws all {grid.values.shape[0]}", ""))
            yield ()


def _picture_lines(named: Sequence[tuple[str, str]], most_columns: int, signs: int, columns: str) -> Iterator[Line]:
    """Rows with their names, cut into blocks of so many columns."""
    num_columns = len(named[0][1])
    for start in range(0, num_columns, most_columns):
        stop = min(start + most_columns, num_columns)
        if num_columns > most_columns:
            yield (_label("steps" if columns == "time" else columns), (f"{start + 1} to {stop}", ""))
        for name, text in named:
            yield (_label(name), ("".join(sign * signs for sign in text[start:stop]), ""))
        yield ()


def _caption(grid: Grid) -> str:
    num_rows, num_columns = grid.values.shape
    shades = "" if grid.is_binary else f"; blank is {grid.values.min():.3g}, █ is {grid.values.max():.3g}"
    return f"{num_rows} rows, {num_columns} columns: {grid.columns}{shades}"


def _shaded(values: np.ndarray) -> list[str]:
    return ["".join(SHADES[level] for level in row) for row in scaled(values, len(SHADES))]


def _halves(values: np.ndarray) -> list[str]:
    """Two rows of 0 and 1 in one line."""
    even = np.vstack((values, np.zeros_like(values[:1]))) if len(values) % 2 else values
    return ["".join(HALVES[int(sign)] for sign in row) for row in even[::2] + 2 * even[1::2]]


def scaled(values: np.ndarray, num_levels: int) -> np.ndarray:
    """Numbers as levels from 0, the lowest, to `num_levels` - 1, the highest; all the same are all 0.

    >>> scaled(np.array([-1.0, 0.0, 1.0]), 5).tolist()
    [0, 2, 4]
    """
    low, high = float(values.min()), float(values.max())
    if low == high:
        return np.zeros(values.shape, dtype=int)
    return np.minimum((values - low) / (high - low) * num_levels, num_levels - 1).astype(int)


def _label(text: str) -> Piece:
    return text.ljust(LABEL_WIDTH), "label"


def _joined(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Neighbours of one kind as one piece."""
    for kind, group in groupby(pieces, key=lambda piece: piece[1]):
        yield "".join(text for text, _ in group), kind
