"""Networks written as equations with Pascanu's neural operators (P11): plus, h' = x ⊕ h, and predict, x' = ▷ h.

The conventional network is h(t) = x(t) ⊕ h(t-1), y(t) = ▷ h(t):

    x, h = Signal("x"), Signal("h")
    compose({"h": plus(x, h[-1]), "y": predict(h)}, input_size=3, output_size=2, units=4)
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Unpack, final

from rnnlab.architecture.architecture import Architecture
from rnnlab.architecture.catalogue import BuildOptions, architecture
from rnnlab.errors import ArchitectureError
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.graph.elements import Edge, Node


@final
@dataclass(frozen=True)
class Signal:
    """A named vector that changes with time; `h[-1]` is its value one step ago."""

    name: str
    delay: int = 0

    def __getitem__(self, steps: int) -> "Signal":
        return Signal(self.name, self.delay - steps)

    # indexing without a length would else be taken for a sequence without end
    __iter__ = None


@final
@dataclass(frozen=True)
class Layer:
    """The result of an operator on other values; `plus` and `predict` make it."""

    operator: str
    operands: tuple["Signal | Layer", ...]
    name: str | None = None


Operand = Signal | Layer


def plus(*operands: Operand, name: str | None = None) -> Layer:
    """x ⊕ h ⊕ …: a hidden layer, which reads each operand through a matrix of its own.

    An operand may itself be `plus(...)`: a layer in between, which is called `name` if given.
    """
    return Layer("plus", _checked(operands, "plus"), name)


def predict(*operands: Operand) -> Layer:
    """▷ h: an output, which reads each operand through a matrix of its own."""
    return Layer("predict", _checked(operands, "predict"))


def compose(equations: Mapping[str, Layer], cell: str | None = None, **options: Unpack[BuildOptions]) -> Architecture:
    """The architecture that computes `equations`, each a name and its definition.

    Names that no equation defines are the inputs. An unnamed layer inside another one is named after the equation, with
    a number: `h.1`. Cell and options are those of `architecture`.

    >>> x, h = Signal("x"), Signal("h")
    >>> shallow = {"h": plus(x, h[-1]), "y": predict(h)}
    >>> same = architecture("sh", input_size=3, output_size=2, units=4)
    >>> compose(shallow, input_size=3, output_size=2, units=4) == same
    True
    >>> deep_output = {"h": plus(x, h[-1]), "y": predict(plus(h, name="o"))}
    >>> compose(deep_output, "gru", input_size=3, output_size=2, units=4)
    <Architecture: <CyclicGraph: 4 nodes, 4 edges, period 1>, gru, tanh, 130 parameters>
    """
    layers: dict[str, Layer] = {}
    for name, layer in equations.items():
        for inner, found in _named_layers(name, layer):
            if layers.get(inner, found) != found:  # one layer may well be used in several equations
                raise ArchitectureError(f"two equations define {inner!r}; a name stands for one value")
            layers[inner] = found
    if not any(layer.operator == "predict" for layer in layers.values()):
        raise ArchitectureError("no equation predicts anything; add an output such as y = predict(h)")
    return architecture(_graph(layers), cell, **options)


def _graph(layers: Mapping[str, Layer]) -> CyclicGraph:
    """The graph of equations whose operands are all signals."""
    edges = [
        Edge((signal.name, 0), (name, 0), signal.delay)
        for name, layer in layers.items()
        for signal in layer.operands
        if isinstance(signal, Signal)
    ]
    inputs = {edge.source[0] for edge in edges} - layers.keys()
    nodes = [Node(name, "input") for name in inputs]
    nodes += [Node(name, "output" if layer.operator == "predict" else "hidden") for name, layer in layers.items()]
    return CyclicGraph(nodes, edges)


def _named_layers(name: str, layer: Layer) -> Iterator[tuple[str, Layer]]:
    """An equation taken apart: every layer inside it under a name of its own, innermost first."""
    if not isinstance(layer, Layer):
        raise ArchitectureError(f"equation {name!r} is plus(...) or predict(...), got {layer!r}")
    if layer.name not in (None, name):
        raise ArchitectureError(f"equation {name!r} defines a layer that calls itself {layer.name!r}; use one name")
    signals: list[Operand] = []
    for number, operand in enumerate(layer.operands, start=1):
        if isinstance(operand, Layer):
            inner = operand.name or f"{name}.{number}"
            yield from _named_layers(inner, operand)
            operand = Signal(inner)
        signals.append(operand)
    yield name, Layer(layer.operator, tuple(signals))


def _checked(operands: tuple[Operand, ...], operator: str) -> tuple[Operand, ...]:
    if not operands:
        raise ArchitectureError(f"{operator} needs at least one operand")
    for operand in operands:
        if not isinstance(operand, Signal | Layer):
            raise ArchitectureError(f'{operator} takes signals, as Signal("h")[-1], and layers; got {operand!r}')
        if isinstance(operand, Layer) and operand.operator == "predict":
            raise ArchitectureError(
                f"{operator} reads a prediction; give it an equation of its own and read its signal"
            )
    return operands
