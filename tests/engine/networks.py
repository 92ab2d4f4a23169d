"""The networks on which every fast path is compared with the reference."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from rnnlab import (
    CATALOGUE,
    CELLS,
    Architecture,
    ArchitectureError,
    Cell,
    EdgeSpec,
    Expression,
    NodeSpec,
    architecture,
    nonlinearity,
    relu,
    sigmoid,
    tanh,
)

MIXED = ("tanh", "relu", "tanh")
"""The nonlinearities of a population whose members differ in them."""


def catalogue(cells: Iterable[str] = tuple(CELLS), *, units: int) -> dict[str, Architecture]:
    """Every network of the catalogue with every cell that it takes, those that are the same once."""
    names = [name for family in CATALOGUE for name in family.examples]
    names.remove("fig1a")  # its outputs take turns; test_model holds its error
    found: dict[Architecture, str] = {}
    for name, cell in product(names, cells):
        try:
            made = architecture(name, cell, input_size=3, output_size=2, units=units)
        except ArchitectureError:  # a cell that this graph cannot hold; tests of the catalogue say which
            continue
        found.setdefault(made, f"{name}:{cell}")
    return {label: made for made, label in found.items()}


def by_graph(labels: Iterable[str]) -> dict[str, list[str]]:
    """The labels of networks by the name of their graph."""
    found: dict[str, list[str]] = {}
    for label in labels:
        found.setdefault(label.partition(":")[0], []).append(label)
    return found


def without_relu(labels: Iterable[str]) -> list[str]:
    """Those whose cells have no relu: its slope jumps where rounding errors reach."""
    return [label for label in labels if not label.endswith((":irnn", ":relu", ":intersection"))]


def numbers_in_turn(number: int, lengths: Sequence[int]) -> dict[str, Any]:
    """The sizes of network `number`: T in turn, every second pair a population whose members differ in nonlinearity."""
    is_population = number % 4 < 2
    return {
        "num_steps": lengths[number % len(lengths)],
        "population": len(MIXED) if is_population else None,
        "nonlinearity": MIXED if is_population else None,
        "batch_size": 3 if number % 5 else 1,
    }


def own_cell() -> Cell:
    """A cell that no catalogue has: of its two parts one is carried, and nothing reads one of its gates."""

    def update(gates: Any, carried: Any) -> dict[str, Expression]:
        keep = sigmoid(gates.k + 2 * carried.m)
        memory = keep * carried.m - relu(gates.v) * (1 - keep) + 0.5
        return {"h": tanh(memory * gates.k) + gates.v, "m": memory}

    return Cell("own", gates=("k", "v", "unused"), update=update, state=("h", "m"), carries=("m",), gate_bias=("k",))


def lagging_cell() -> Cell:
    """A cell whose first part is its own last state, and whose only gate is its second."""

    def update(gates: Any, carried: Any) -> dict[str, Expression]:
        return {"m": carried.h, "h": tanh(gates.c)}

    return Cell("lagging", gates=("c",), update=update, state=("m", "h"), ports=("m", "h"), carries=("h",))


def constant_cell() -> Cell:
    """A cell with numbers in its formulas, alone and in nonlinearities."""

    def update(gates: Any, carried: Any) -> dict[str, Expression]:
        half = sigmoid(0.25) + tanh(-1) * relu(0.5)
        return {"h": tanh(gates.c / 2 + carried.h) * nonlinearity(half), "one": 1}  # pyright: ignore[reportReturnType]

    return Cell("constant", gates=("c",), update=update, state=("h", "one"), ports=("h", "one"))


def cells_without_matrices() -> dict[str, Cell]:
    """Cells with no recurrent matrix, as SRU and minGRU have none, and one with nothing but a recurrent matrix."""

    def update(gates: Any, carried: Any) -> dict[str, Expression]:
        keep = sigmoid(gates.f)
        return {"h": keep * carried.h + (1 - keep) * gates.c}

    def two_parts(gates: Any, carried: Any) -> dict[str, Expression]:
        memory = sigmoid(gates.f) * carried.c + gates.c
        return {"h": tanh(memory), "c": memory}

    both = ("f", "c")
    cells = (
        Cell("sru", gates=both, other_gates=both, update=update),
        Cell("sru-two", gates=both, other_gates=both, update=two_parts, state=("h", "c"), carries=("c",)),
        Cell("inward", gates=both, carry_gates=both, update=update),
    )
    return {cell.name: cell for cell in cells}


def heads(count: int, cell: str, units: int) -> Architecture:
    """Layers that see the same inputs and not one another."""
    names = [f"h{number}" for number in range(count)]
    nodes = [NodeSpec(name="x", kind="input", units=3), NodeSpec(name="y", kind="output", units=2)]
    nodes += [NodeSpec(name=name, kind="hidden", units=units, cell=cell) for name in names]
    edges = [each for name in names for each in (("x", name, 0), (name, name, 1), (name, "y", 0))]
    return Architecture(nodes, [EdgeSpec(source=(a, 0), target=(b, 0), delay=delay) for a, b, delay in edges])


def both_directions(cell: str, *, units: int, read_out_delay: int = 0) -> Architecture:
    """A layer that reads the past and one that reads the future; a late read-out sees initial states of both."""
    carry = True if CELLS[cell].carries else None
    nodes = [
        NodeSpec(name="x", kind="input", units=3),
        *(NodeSpec(name=name, kind="hidden", units=units, cell=cell) for name in "fb"),
        NodeSpec(name="y", kind="output", units=2),
    ]
    edges = [EdgeSpec(source=(name, 0), target=("y", 0), delay=read_out_delay) for name in "fb"]
    for name, delay in (("f", 1), ("b", -1)):
        edges.append(EdgeSpec(source=("x", 0), target=(name, 0), delay=0))
        edges.append(EdgeSpec(source=(name, 0), target=(name, 0), delay=delay, carry=carry))
    return Architecture(nodes, edges)


def with_outputs_in_cycles() -> Architecture:
    """An LSTM that reads what the network has said before, which depends on itself too."""
    nodes = [
        NodeSpec(name="x", kind="input", units=3),
        NodeSpec(name="h", kind="hidden", units=5, cell="lstm"),
        NodeSpec(name="y", kind="output", units=2),
    ]
    edges = [
        EdgeSpec(source=("x", 0), target=("h", 0), delay=0),
        EdgeSpec(source=("h", 0), target=("h", 0), delay=1, carry=True),
        EdgeSpec(source=("y", 0), target=("h", 0), delay=1),
        EdgeSpec(source=("h", 0), target=("y", 0), delay=0),
        EdgeSpec(source=("y", 0), target=("y", 0), delay=2),
    ]
    return Architecture(nodes, edges)


def in_a_cycle_every_second_step() -> Architecture:
    """An output that every second step depends on itself, and is only passed on in between; another reads it late."""
    nodes = [NodeSpec(name=name, kind="input", units=3, phase=phase) for name in "x" for phase in (0, 1)]
    nodes += [NodeSpec(name=name, kind="output", units=3, phase=phase) for name in "yz" for phase in (0, 1)]
    edges = [
        EdgeSpec(source=("x", 0), target=("y", 0), delay=0),
        EdgeSpec(source=("x", 1), target=("y", 1), delay=0),
        EdgeSpec(source=("y", 0), target=("y", 1), delay=1),
        EdgeSpec(source=("y", 1), target=("y", 1), delay=2),
        EdgeSpec(source=("y", 1), target=("y", 1), delay=2, transform="identity"),
        EdgeSpec(source=("y", 0), target=("z", 0), delay=2),
        EdgeSpec(source=("y", 1), target=("z", 1), delay=2),
    ]
    return Architecture(nodes, edges, 2)
