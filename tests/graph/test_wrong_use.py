"""What is no graph, handed to what takes one: a clear error with the way to a graph."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from rnnlab import (
    GraphError,
    architecture,
    directions,
    draw,
    feedforward_depth,
    measure,
    path_lengths,
    recurrent_depth,
    recurrent_skip_coefficient,
    save_graph,
    slots,
    smallest_period,
    unfold,
)

FUNCTIONS: dict[str, Callable[[Any], object]] = {
    "directions": directions,
    "draw": draw,
    "feedforward_depth": feedforward_depth,
    "measure": measure,
    "path_lengths": lambda graph: path_lengths(graph, [0], [1]),
    "recurrent_depth": recurrent_depth,
    "recurrent_skip_coefficient": recurrent_skip_coefficient,
    "save_graph": lambda graph: save_graph(graph, "never-written.json"),
    "slots": slots,
    "smallest_period": smallest_period,
    "unfold": lambda graph: unfold(graph, 0, 3),
}

NETWORK = architecture("td", input_size=2, output_size=1, units=4)

MISTAKES: dict[str, tuple[Any, str]] = {
    "a name": ("td", "takes a graph: named_graph('td') makes one of the catalogue"),
    "a file": ("mine.json", "takes a graph: load_graph('mine.json') reads one"),
    "an architecture": (NETWORK, f"takes a graph, got {NETWORK!r}: its .graph is one"),
    "a number": (3, "takes a graph, got 3"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_no_graph_is_refused(function: str, mistake: str) -> None:
    given, message = MISTAKES[mistake]
    with pytest.raises(GraphError, match=f"^{re.escape(f'{function} {message}')}$"):
        FUNCTIONS[function](given)
