"""Widths that fit a number of parameters: the papers' sizes, and every budget against brute force."""

import json
from itertools import count as numbers
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rnnlab import CATEGORIES, Architecture, ArchitectureError, CyclicGraph, architecture, fit_units, named_graph

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "sizes.json").read_text())
TRAINABLE = tuple(category for category in CATEGORIES if category != "initial state")
COUNTED = {"all": CATEGORIES, "trainable": TRAINABLE, "weights": ("weights", "read-out weights")}


def width(made: Architecture) -> int:
    (units,) = {node.units for node in made.nodes if node.kind == "hidden"}
    return units


@pytest.mark.parametrize("row", GOLDEN["counts"], ids=lambda row: f"{row['name']}-{row['parameters']}")
def test_networks_have_the_papers_numbers_of_parameters(row) -> None:
    sizes = {key: row[key] for key in ("input_size", "output_size", "units")}
    assert architecture(row["name"], **sizes).num_parameters(COUNTED[row["count"]]) == row["parameters"], row[
        "citation"
    ]


@pytest.mark.parametrize(
    "row", [row for row in GOLDEN["counts"] if "published" in row], ids=lambda row: row["citation"]
)
def test_published_counts_are_ours_cut_to_their_digits(row) -> None:
    """The table gives thousands, or hundredths of millions, and drops the rest."""
    thousands = row["parameters"] // 1000
    shown = f"{thousands}K" if row["published"].endswith("K") else f"{thousands / 1000:.2f}M"
    assert shown == row["published"]


@pytest.mark.parametrize("row", GOLDEN["fits"], ids=lambda row: f"{row['name']}-{row['units']}")
def test_widths_are_the_papers(row) -> None:
    """Matched to the nearest, counted without the initial state, which is zero in Zhang's setting."""
    graph, _, cell = row["name"].partition(":")
    fitted = architecture(
        without_ring_loops(graph) if row.get("without_ring_loops") else graph,
        cell,
        input_size=row["input_size"],
        output_size=row["output_size"],
        parameters=row["parameters"],
        fit="nearest",
        count=TRAINABLE,
    )
    assert width(fitted) == row["units"], row["citation"]


def without_ring_loops(name: str) -> CyclicGraph:
    """Family F2 of requirements 2.4: the ring keeps no self-loops where it has more than one layer."""
    graph = named_graph(name)
    in_ring = {node.key for node in graph.nodes if node.name.startswith("r") and node.name != "r"}
    kept = [edge for edge in graph.edges if edge.source != edge.target or edge.source not in in_ring]
    return CyclicGraph(graph.nodes, kept)


@given(
    name=st.sampled_from(["sh", "td:lstm", "do:gru", "stack-2:intersection", "clockwork:lstm-edges"]),
    input_size=st.integers(1, 20),
    count=st.sampled_from([CATEGORIES, TRAINABLE, ("weights",), ("projection", "weights")]),
    parameters=st.integers(1, 3000),
)
def test_fit_is_the_best_of_all_widths(name: str, input_size: int, count, parameters: int) -> None:
    """Against every width until twice the budget."""
    sizes = {"input_size": input_size, "output_size": 2}
    tried: dict[int, int] = {}
    for units in numbers(1):
        tried[units] = architecture(name, **sizes, units=units).num_parameters(count)
        if tried[units] > 2 * parameters:
            break
    assume(tried[1] <= parameters)
    check_fit(name, sizes, count, parameters, tried)


def test_fit_is_the_best_where_the_count_dips() -> None:
    """A +RNN stack over 40 inputs loses its projection at 40 units."""
    sizes = {"input_size": 40, "output_size": 2}
    tried = {
        units: architecture("stack-2:intersection", **sizes, units=units).num_parameters() for units in range(1, 50)
    }
    assert tried[40] < tried[39]
    for parameters in range(tried[36], tried[45], 97):
        check_fit("stack-2:intersection", sizes, CATEGORIES, parameters, tried)


def check_fit(name: str, sizes: dict[str, int], count, parameters: int, tried: dict[int, int]) -> None:
    under = architecture(name, **sizes, parameters=parameters, count=count)
    assert width(under) == max(units for units, found in tried.items() if found <= parameters)
    nearest = architecture(name, **sizes, parameters=parameters, count=count, fit="nearest")
    assert width(nearest) == min(tried, key=lambda units: (abs(tried[units] - parameters), units))


def test_width_of_the_input_is_found_though_its_neighbours_are_too_large() -> None:
    """At 300 units a +RNN stack over 300 inputs needs no projection, and is smaller than at 299."""
    sizes = {"input_size": 300, "output_size": 2}
    exact = architecture("stack-2:intersection", **sizes, units=300).num_parameters()
    assert exact < architecture("stack-2:intersection", **sizes, units=299).num_parameters()
    assert width(architecture("stack-2:intersection", **sizes, parameters=exact)) == 300
    assert width(architecture("stack-2:intersection", **sizes, parameters=exact - 1)) < 299


def test_budget_below_one_unit_is_refused_with_the_smallest_count() -> None:
    assert width(architecture("sh", input_size=27, output_size=27, parameters=84)) == 1
    for fit in ("under", "nearest"):
        with pytest.raises(ArchitectureError, match="83 parameters are too few: one unit a layer has 84 already"):
            architecture("sh", input_size=27, output_size=27, parameters=83, fit=fit)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parameters": 1e5}, "parameters must be an integer, got 100000.0"),
        ({"parameters": True}, "parameters must be an integer, got True"),
        ({"fit": "over"}, "fit is under or nearest, got 'over'"),
        (
            {"count": ["read-out biases"]},
            "the number of read-out biases does not grow with the width: count weights too",
        ),
        ({"count": []}, "does not grow with the width"),
        ({"count": ["readout"]}, "count knows weights"),
    ],
)
def test_wrong_requests_are_refused(options, message: str) -> None:
    with pytest.raises(ArchitectureError) as caught:
        architecture("sh", **({"input_size": 3, "output_size": 2, "parameters": 1000} | options))
    assert message in str(caught.value)


def test_fit_takes_any_builder() -> None:
    def narrowing(units: int) -> Architecture:
        return architecture("st", input_size=3, output_size=2, units={"h1": 2 * units, "h2": units})

    fitted = fit_units(narrowing, 5_000)
    widths = {node.name: node.units for node in fitted.nodes}
    assert widths["h1"] == 2 * widths["h2"]
    assert fitted.num_parameters() <= 5_000 < narrowing(widths["h2"] + 1).num_parameters()


def test_one_category_may_be_counted() -> None:
    made = architecture("sh", input_size=2, output_size=1, parameters=100, count="weights")
    assert made == architecture("sh", input_size=2, output_size=1, parameters=100, count=["weights"])
    assert made.num_parameters("weights") == made.num_parameters(["weights"]) <= 100
    with pytest.raises(ArchitectureError, match=r"count knows .*; got weight$"):
        made.num_parameters("weight")
