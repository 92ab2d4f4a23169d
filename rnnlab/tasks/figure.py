"""An example as a figure file through matplotlib, which is imported only here and only when asked for."""

import math
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnlab.errors import TaskError
from rnnlab.tasks.example import Curve, Example, Grid, Row, Symbols

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".svg", ".png", ".pdf")
MOST_STEPS = 180  # of signs side by side
MOST_NAMES = 15  # of rows below each other
SIGN_WIDTH, SIGN_HEIGHT = 0.085, 0.2  # inches
MARK, PLAIN = "#c0392b", "#566573"


def save_figure(example: Example, path: Path) -> None:
    """Draw an example to an .svg, .png or .pdf file.

    Raises:
        TaskError: another suffix, or matplotlib is not installed.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise TaskError(f"cannot write {path}: the suffix must be {', '.join(SUFFIXES)}")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise TaskError(f"writing {path.name} needs matplotlib: pip install 'rnnlab[figures]'") from None
    rows = [piece for row in example.rows for piece in pieces(row)]
    heights = [height_of(row) for row in rows]
    width = max(7.0, *(width_of(row) for row in rows))
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "rnnlab", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(width + 1.6, sum(heights) + 1.0), layout="constrained")
        for axes, row in zip(_axes(figure, heights), rows, strict=True):
            _draw(axes, row)
        figure.suptitle(f"{example.title}\nanswer: {example.answer}", x=0.01, ha="left", fontsize=11)
        no_date = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
        figure.savefig(path, dpi=150, facecolor="white", metadata=no_date)


def pieces(row: Row) -> Iterator[Row]:
    """A row cut to what fits side by side: signs can be read only as long as there are not too many.

    >>> [len(piece.symbols) for piece in pieces(Symbols("x", ("a",) * 200))]
    [180, 20]
    """
    if not isinstance(row, Symbols) or row.is_prose:
        yield row
        return
    for start in range(0, len(row.symbols), MOST_STEPS):
        inside = frozenset(step - start for step in row.marked if start <= step < start + MOST_STEPS)
        yield Symbols(row.label, row.symbols[start : start + MOST_STEPS], inside)


def width_of(row: Row) -> float:
    """How many inches a row would like to have."""
    if isinstance(row, Symbols):
        return 9.0 if row.is_prose else SIGN_WIDTH * len(row.symbols) * max(map(len, row.symbols))
    columns = len(row.values) if isinstance(row, Curve) else row.values.shape[1]
    return min(max(0.06 * columns, 2.0), 14.0)


def height_of(row: Row) -> float:
    """How many inches a row has."""
    if isinstance(row, Symbols):
        return SIGN_HEIGHT * (len(_wrapped(row)) if row.is_prose else 1)
    return 1.2 if isinstance(row, Curve) else min(max(0.09 * row.values.shape[0], 0.8), 4.5)


def _wrapped(row: Symbols) -> list[str]:
    return textwrap.wrap(" ".join(row.symbols), 110)


def _axes(figure: Any, heights: list[float]) -> "list[Axes]":
    ratios = {"height_ratios": heights, "hspace": 0.0}
    return list(figure.subplots(len(heights), 1, squeeze=False, gridspec_kw=ratios)[:, 0])


def _draw(axes: "Axes", row: Row) -> None:
    axes.set_ylabel(row.label, rotation=0, ha="right", va="center", fontsize=9)
    match row:
        case Symbols():
            _draw_symbols(axes, row)
        case Curve():
            _draw_curve(axes, row)
        case Grid():
            _draw_grid(axes, row)


def _draw_grid(axes: "Axes", row: Grid) -> None:
    """Dark is much; where there are negative numbers, white is 0 and colours are the signs."""
    num_rows, num_columns = row.values.shape
    largest, has_signs = float(abs(row.values).max()), bool(row.values.min() < 0)
    colours: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest} if has_signs else {"cmap": "Greys"}
    axes.imshow(
        row.values,
        aspect="auto" if row.columns == "time" else "equal",
        interpolation="nearest",
        extent=(0.5, num_columns + 0.5, num_rows + 0.5, 0.5),  # steps are counted from 1
        **colours,
    )
    axes.set_anchor("W")
    axes.set_xlabel(f"{row.columns}; red is above 0, blue below" if has_signs else row.columns, fontsize=8)
    if row.row_names:
        apart = math.ceil(num_rows / MOST_NAMES)
        axes.set_yticks(range(1, num_rows + 1, apart), row.row_names[::apart])
    axes.tick_params(labelsize=7)


def _draw_curve(axes: "Axes", row: Curve) -> None:
    steps = range(1, len(row.values) + 1)
    axes.step(steps, row.values, where="mid", color=PLAIN, linewidth=0.8)
    axes.plot([step + 1 for step in row.marked], [row.values[step] for step in row.marked], "o", color=MARK)
    axes.set_xlim(0, len(row.values) + 1)
    axes.set_xlabel("time", fontsize=8)
    axes.tick_params(labelsize=7)


def _draw_symbols(axes: "Axes", row: Symbols) -> None:
    axes.set(xticks=[], yticks=[], ylim=(0, 1))
    for spine in axes.spines.values():
        spine.set_visible(False)
    if row.is_prose:
        axes.text(0, 0.5, "\n".join(_wrapped(row)), transform=axes.transAxes, fontsize=9, va="center")
        return
    axes.set_xlim(-0.5, max(len(row.symbols), 40) - 0.5)
    for step, symbol in enumerate(row.symbols):
        look: dict[str, Any] = {"color": MARK, "fontweight": "bold"} if step in row.marked else {"color": PLAIN}
        axes.text(step, 0.5, symbol if symbol.isprintable() else "¶", ha="center", va="center", fontsize=8, **look)
