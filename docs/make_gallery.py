"""Draws the catalogue: `python docs/make_gallery.py docs` writes docs/gallery.md and the pictures in docs/gallery/."""

import sys
from collections.abc import Iterator
from pathlib import Path

from rnnlab.graph.catalogue import CATALOGUE, Family, named_graph
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.drawing import draw
from rnnlab.graph.measures import measure

_FEWEST_STEPS, _MOST_STEPS = 6, 12

_INTRODUCTION = """\
# Gallery

Every architecture of the catalogue, folded on the left and unfolded over time on the right, drawn as in figure 1 of
Zhang et al. (2016): inputs are squares, hidden nodes circles, outputs diamonds, and the number on an edge is its delay.
Red is a longest path (folded: the cycle of recurrent depth d_r), yellow the path of feedforward depth d_f, blue a
shortest path (folded: the cycle of the recurrent skip coefficient s). Dashed edges lead out of the window.

One of them: `rnnlab draw td -o td.svg`, or with `--unfold 6` over six time steps; in Python
`draw(named_graph("td"), unfold=6).save("td.svg")`. This page is written by `docs/make_gallery.py`.
"""


def gallery_files() -> dict[str, str]:
    """Every file of the gallery: its path inside the documentation, and its text."""
    names = [name for family in CATALOGUE for name in family.examples]
    graphs = {name: named_graph(name) for name in names}
    folded = {f"gallery/{name}.svg": draw(graph).to_svg() for name, graph in graphs.items()}
    unfolded = {
        f"gallery/{name}-unfolded.svg": draw(graph, unfold=num_steps(graph)).to_svg() for name, graph in graphs.items()
    }
    page = "\n".join((_INTRODUCTION, *(line for family in CATALOGUE for line in _section(family))))
    return {"gallery.md": page, **folded, **unfolded}


def num_steps(graph: CyclicGraph) -> int:
    """A window in which the longest edge is seen whole at every phase, unless that makes the picture too wide."""
    longest = max(abs(edge.delay) for edge in graph.edges)
    return min(_MOST_STEPS, max(_FEWEST_STEPS, graph.period + longest + 1))


def _section(family: Family) -> Iterator[str]:
    yield f"## {family.pattern}\n"
    yield f"{family.summary[0].upper()}{family.summary[1:]} ({family.citation}).\n"
    for name in family.examples:
        graph = named_graph(name)
        measures = measure(graph)
        values = {
            "d_r": measures.recurrent_depth,
            "d_f": measures.feedforward_depth,
            "s": measures.recurrent_skip_coefficient,
            "period": graph.period,
        }
        yield f"**{name}**: {', '.join(f'{symbol} = {value}' for symbol, value in values.items())}\n"
        yield f"![{name}, folded](gallery/{name}.svg) ![{name}, unfolded](gallery/{name}-unfolded.svg)\n"


def main(folder: Path) -> None:
    """Write the gallery into `folder`."""
    (folder / "gallery").mkdir(parents=True, exist_ok=True)
    for path, text in gallery_files().items():
        (folder / path).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/make_gallery.py FOLDER")
    main(Path(sys.argv[1]))
