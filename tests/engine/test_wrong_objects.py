"""Names, graphs and tables handed to what takes an architecture or a plan: a clear error with the way to one."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from rnnlab import Model, RnnlabError, architecture, costs, named_graph, plan, save_architecture

FUNCTIONS: dict[str, Callable[[Any], object]] = {
    "Model": lambda network: Model(network, generator=torch.Generator()),
    "plan": plan,
    "save_architecture": lambda network: save_architecture(network, "never-written.json"),
}

MISTAKES: dict[str, tuple[Any, str]] = {
    "a name": ("lstm", "takes an object for its architecture: architecture('lstm', ...) makes one"),
    "a graph": (
        named_graph("td"),
        f"takes an architecture, got {named_graph('td')!r}: architecture(graph, 'lstm', ...) gives it cells and widths",
    ),
    "a number": (3, "takes an architecture, got 3"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_no_architecture_is_refused(function: str, mistake: str) -> None:
    given, message = MISTAKES[mistake]
    with pytest.raises(RnnlabError, match=f"^{re.escape(f'{function} {message}')}$"):
        FUNCTIONS[function](given)


def test_costs_are_those_of_a_plan() -> None:
    network: Any = architecture("td", input_size=2, output_size=1, units=4)
    with pytest.raises(RnnlabError, match=r"costs takes a plan, got <Architecture.*: plan\(architecture\) makes one$"):
        costs(network)
