"""Equations of plus and predict (P11) build the networks of the catalogue."""

import pytest

from rnnlab import Architecture, ArchitectureError, GraphError, Signal, architecture, compose, plus, predict

SIZES = {"input_size": 3, "output_size": 2, "units": 4}
x, f, h, o, y, z1, z2, h1, h2, h3 = map(Signal, ("x", "f", "h", "o", "y", "z1", "z2", "h1", "h2", "h3"))

SAME = {
    "sh": {"h": plus(x, h[-1]), "y": predict(h)},
    "deep-input": {"f": plus(x), "h": plus(f, h[-1]), "y": predict(h)},
    "do": {"h": plus(x, h[-1]), "o": plus(h), "y": predict(o)},
    "dt-2": {"z1": plus(x, h[-1]), "h": plus(z1), "y": predict(h)},
    "dts-2": {"z1": plus(x, h[-1]), "h": plus(z1, x, h[-1]), "y": predict(h)},
    "dts-3": {"z1": plus(x, h[-1]), "z2": plus(z1, x, h[-1]), "h": plus(z2, x, h[-1]), "y": predict(h)},
    "dot-2": {"z1": plus(x, h[-1]), "h": plus(z1), "o": plus(h), "y": predict(o)},
    "dots-2": {"z1": plus(x, h[-1]), "h": plus(z1, x, h[-1]), "o": plus(h), "y": predict(o)},
    "srnn-3": {"h1": plus(x, h1[-1]), "h2": plus(h1, h2[-1]), "h3": plus(h2, h3[-1]), "y": predict(h3)},
    "td": {"h1": plus(x, h1[-1], h2[-1]), "h2": plus(h1, h2[-1]), "y": predict(h2)},
    "skip-5": {"h": plus(x, h[-1], h[-5]), "y": predict(h)},
}


@pytest.mark.parametrize("name", SAME)
def test_equations_are_the_networks_of_the_catalogue(name: str) -> None:
    """P3, P5-P10, and two of Zhang's."""
    assert compose(SAME[name], **SIZES) == architecture(name, **SIZES)


@pytest.mark.parametrize("name", ["do", "dts-2", "srnn-3", "td"])
def test_cells_and_sizes_are_those_of_the_catalogue(name: str) -> None:
    options = {"input_size": 30, "output_size": 30, "parameters": 10_000, "fit": "nearest", "encoding": "tokens"}
    assert compose(SAME[name], "lstm", **options) == architecture(name, "lstm", **options)


def test_operators_nest() -> None:
    """A deep transition in one line; layers in between are named, or numbered."""
    nested = {"h": plus(plus(x, h[-1], name="z1")), "y": predict(plus(h, name="o"))}
    assert compose(nested, **SIZES) == architecture("dot-2", **SIZES)
    numbered = compose({"h": plus(plus(plus(x, h[-1]))), "y": predict(h)}, **SIZES)
    assert [node.name for node in numbered.nodes] == ["x", "h", "h.1", "h.1.1", "y"]
    assert numbered.num_parameters() == architecture("dt-3", **SIZES).num_parameters()


def test_signals_move_in_time() -> None:
    assert h[-1] == Signal("h", 1)
    assert h[-1][-2] == h[-3] == Signal("h", 3)
    assert h[0] == h[-2][2] == h


def test_network_may_have_several_inputs_and_outputs_and_feed_them_back() -> None:
    a, b = Signal("a"), Signal("b")
    made = compose({"h": plus(a, b[-2], h[-1], y[-1]), "y": predict(h), "v": predict(h, a)}, **SIZES)
    assert isinstance(made, Architecture)
    kinds = {node.name: node.kind for node in made.nodes}
    assert kinds == {"a": "input", "b": "input", "h": "hidden", "v": "output", "y": "output"}
    assert (("y", 0), ("h", 0), 1) in made.graph.edges


def test_a_named_layer_may_be_used_in_two_equations() -> None:
    deep = plus(h, name="o")
    made = compose({"h": plus(x, h[-1]), "y": predict(deep), "z": predict(deep)}, **SIZES)
    apart = {"h": plus(x, h[-1]), "o": plus(h), "y": predict(Signal("o")), "z": predict(Signal("o"))}
    assert made == compose(apart, **SIZES)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: plus(), ArchitectureError, "plus needs at least one operand"),
        (lambda: predict("h"), ArchitectureError, "predict takes signals"),
        (lambda: plus(predict(h)), ArchitectureError, "plus reads a prediction; give it an equation of its own"),
        (lambda: compose({"h": plus(x, h[-1])}, **SIZES), ArchitectureError, "no equation predicts anything"),
        (
            lambda: compose({"h": h, "y": predict(h)}, **SIZES),
            ArchitectureError,
            "equation 'h' is plus(...) or predict",
        ),
        (
            lambda: compose({"h": plus(x, h[-1]), "y": predict(plus(h, name="h"))}, **SIZES),
            ArchitectureError,
            "two equations define 'h'; a name stands for one value",
        ),
        (
            lambda: compose({"h": plus(x, h[-1], name="g"), "y": predict(h)}, **SIZES),
            ArchitectureError,
            "equation 'h' defines a layer that calls itself 'g'",
        ),
        (lambda: compose({"h": plus(x, h), "y": predict(h)}, **SIZES), GraphError, "has total delay 0"),
        (lambda: compose({"h": plus(x), "y": predict(h)}, **SIZES), GraphError, "no directed cycle"),
    ],
)
def test_wrong_equations_are_refused(make, error, message: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert message in str(caught.value)
