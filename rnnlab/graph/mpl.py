"""Writes a drawing as PNG or PDF through matplotlib, which is imported only here and only when asked for."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnlab.errors import GraphError
from rnnlab.graph.drawing import BORDER, Drawing, NodeMark
from rnnlab.graph.geometry import Bezier
from rnnlab.graph.ink import DASHES, Area, Ink, Plate, Stroke, inks
from rnnlab.graph.lettering import Text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path as Outline

_PIXELS_PER_INCH = 96.0  # of CSS, so that the file has the size of the SVG
_POINTS_PER_PIXEL = 72.0 / _PIXELS_PER_INCH
_PNG_DPI = 288.0  # three dots a pixel
_FONTS = ("Helvetica", "Arial", "Liberation Sans", "DejaVu Sans")  # the last one comes with matplotlib


def save_figure(drawing: Drawing, path: Path) -> None:
    """Write the picture to a .png or .pdf file.

    Raises:
        GraphError: matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise GraphError(
            f"writing {path.name} needs matplotlib: pip install 'rnnlab[figures]'; an .svg file needs nothing more"
        ) from None
    with matplotlib.rc_context(_settings()):
        figure = Figure(figsize=(drawing.width / _PIXELS_PER_INCH, drawing.height / _PIXELS_PER_INCH))
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0.0, drawing.width), ylim=(drawing.height, 0.0))
        axes.axis("off")
        for level, ink in enumerate(inks(drawing)):
            _add(axes, ink, level)
        date = {"CreationDate": None} if path.suffix.lower() == ".pdf" else {}  # the same graph gives the same bytes
        figure.savefig(path, dpi=_PNG_DPI, facecolor="white", metadata=date)


def _settings() -> dict[Any, Any]:
    """One font for all text, the first of the common ones that is installed, and embedded so that it can be edited."""
    from matplotlib import font_manager

    known = set(font_manager.get_font_names())
    fonts = [font for font in _FONTS if font in known]  # matplotlib would complain about the others
    upright = {f"mathtext.{style}": fonts[0] for style in ("rm", "cal", "tt", "sf", "bf")}
    formula = {"mathtext.fontset": "custom", "mathtext.it": f"{fonts[0]}:italic", **upright}
    return {"font.family": fonts, "pdf.fonttype": 42, **formula}


def _add(axes: "Axes", ink: Ink, level: int) -> None:
    match ink:
        case Stroke():
            dashes = (0, tuple(dash / ink.width for dash in DASHES)) if ink.is_dashed else "-"
            look = {"edgecolor": ink.colour, "linewidth": ink.width * _POINTS_PER_PIXEL, "linestyle": dashes}
            _add_path(axes, _curve_outline(ink.curves), level, facecolor="none", capstyle="butt", **look)
        case Area():
            _add_path(axes, _polygon_outline(ink.points), level, facecolor=ink.colour, edgecolor="none")
        case Plate():
            left, top, right, bottom = ink.box
            corners = ((left, top), (right, top), (right, bottom), (left, bottom))
            _add_path(axes, _polygon_outline(corners), level, facecolor="white", edgecolor="none")
        case NodeMark():
            look = {"edgecolor": "#1a1a1a", "linewidth": BORDER * _POINTS_PER_PIXEL, "joinstyle": "miter"}
            _add_path(axes, _node_outline(ink), level, facecolor="white", **look)
            _add_text(axes, ink.label, level)
        case Text():
            _add_text(axes, ink, level)


def _add_path(axes: "Axes", outline: "Outline", level: int, **look: Any) -> None:
    from matplotlib.patches import PathPatch

    axes.add_patch(PathPatch(outline, zorder=level, **look))


def _add_text(axes: "Axes", text: Text, level: int) -> None:
    align: dict[str, Any] = {"ha": {"start": "left", "middle": "center", "end": "right"}[text.anchor], "va": "baseline"}
    axes.text(
        text.anchor_point[0],
        text.baseline,
        _formula(text) if text.is_formula else text.text,
        fontsize=text.size * _POINTS_PER_PIXEL,
        color=text.colour,
        parse_math=text.is_formula,  # a dollar sign in a name is a dollar sign
        zorder=level,
        **align,
    )


def _formula(text: Text) -> str:
    symbol, index, rest = text.formula_parts
    lowered = rf"_{{\mathrm{{{index}}}}}" if index else ""
    return f"${symbol}{lowered}${rest}"


def _curve_outline(curves: Sequence[Bezier]) -> "Outline":
    from matplotlib.path import Path as Outline

    points = [curves[0].start, *(point for curve in curves for point in curve[1:])]
    return Outline(points, [Outline.MOVETO, *[Outline.CURVE4] * (len(points) - 1)])


def _polygon_outline(corners: Sequence[tuple[float, float]]) -> "Outline":
    from matplotlib.path import Path as Outline

    return Outline([*corners, corners[0]], closed=True)


def _node_outline(node: NodeMark) -> "Outline":
    from matplotlib.path import Path as Outline

    (x, y), r = node.outline.centre, node.outline.radius
    if node.outline.kind == "hidden":
        return Outline.circle((x, y), r)
    if node.outline.kind == "input":
        return _polygon_outline(((x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)))
    return _polygon_outline(((x, y - r), (x + r, y), (x, y + r), (x - r, y)))
