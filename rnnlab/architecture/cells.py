"""The cells (C12-C20, Z14): what a node does with the sum of its incoming products and with its old state.

A cell is one declaration: its gates, its state, and an elementwise `update` from gates and old state to new state.
Every way to run a network, forward and backward, is derived from it. To declare your own:

    def update(gates, carried):
        keep = sigmoid(gates.g)
        return {"h": keep * carried.h + (1 - keep) * nonlinearity(gates.c)}

    mine = register_cell(Cell("mine", gates=("c", "g"), update=update, gate_bias=("g",)))
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

from rnnlab.architecture.expressions import (
    Expression,
    as_expression,
    in_order,
    named,
    nonlinearity,
    recorded,
    relu,
    sigmoid,
    tanh,
)
from rnnlab.errors import ArchitectureError
from rnnlab.hints import hint

NONLINEARITIES = ("tanh", "relu")
_NOT_COMPUTED = ("update", "reset", "gate_bias", "depth_gates", "square", "summary")  # formulas, and how cells start
_SOME_GATES = ("reset_gates", "carry_gates", "other_gates")  # fields of a cell


@dataclass(frozen=True, repr=False)
class Cell:
    """How a node turns incoming products and old state into new state.

    Args:
        name: how it is called in files and on the command line.
        gates: each gets a preactivation of the node's width: the sum of the products of all incoming dense edges, plus
            bias.
        update: a function `update(gates, carried)`. `gates.NAME` are the preactivations, and `carried.NAME` the
            components of the state that the carry edge brings; it returns the new state by component. If
            `has_depth_input` is set, the depth input is passed as a third argument.
        state: the components of the state.
        ports: the components that edges may read, the first on delayed edges, the last on edges of delay 0.
        carries: the components of the old state that `update` uses; empty for a cell without memory of its own.
        gate_bias: the gates to whose bias the extra scalar b^fg is added at the start (C20).
        depth_gates: which of `gate_bias` are gates through depth, with a scalar of their own, b^{fg,y} (C20).
        reset: for cells with a second product: a function `reset(gates, carried)` that returns what the carry edge
            multiplies by its matrix, instead of the old h, for the gates in `reset_gates`.
        reset_gates: the gates fed by that second product.
        carry_gates: gates that see only the carry edge, which in turn skips the gates in `other_gates`.
        other_gates: gates that see every edge except the carry edge.
        edge_gates: gates that exist once for each carry edge; `gates.NAME` is then a tuple, and so is `carried`.
        has_depth_input: whether the cell uses its depth input unchanged (+RNN).
        nonlinearity: the nonlinearity of a node that specifies none itself.
        square: how the matrix starts by which such a node reads its own state, unless a model's `Initialisation` says
            otherwise.
        summary: a short description, for `rnnlab list`.
    """

    name: str
    gates: tuple[str, ...]
    update: Callable[..., Mapping[str, Expression]]
    state: tuple[str, ...] = ("h",)
    ports: tuple[str, ...] = ("h",)
    carries: tuple[str, ...] = ("h",)
    gate_bias: tuple[str, ...] = ()
    depth_gates: tuple[str, ...] = ()
    reset: Callable[..., Expression] | None = None
    reset_gates: tuple[str, ...] = ()
    carry_gates: tuple[str, ...] = ()
    other_gates: tuple[str, ...] = ()
    edge_gates: tuple[str, ...] = ()
    has_depth_input: bool = False
    nonlinearity: str = "tanh"
    square: str = "glorot"
    summary: str = ""

    def __post_init__(self) -> None:
        if not self.name or set(self.name) & set(":/\\"):
            raise ArchitectureError(f"a cell's name is not empty and has no colon or slash, got {self.name!r}")
        self._check_gate_names()
        for field in ("state", "ports", "carries", "gate_bias", "depth_gates", *_SOME_GATES):
            object.__setattr__(self, field, tuple(getattr(self, field)))  # a list could not be part of a key
        known = {*self.gates, *self.edge_gates}
        for field in ("gate_bias", "depth_gates", *_SOME_GATES):
            if unknown := [gate for gate in getattr(self, field) if gate not in known]:
                raise ArchitectureError(f"cell {self.name!r}: {field} names {unknown}, its gates are {sorted(known)}")
        for field in ("ports", "carries"):
            if unknown := [part for part in getattr(self, field) if part not in self.state]:
                raise ArchitectureError(f"cell {self.name!r}: {field} names {unknown}, its state is {list(self.state)}")
        if bool(self.reset) != bool(self.reset_gates):
            raise ArchitectureError(f"cell {self.name!r}: reset and reset_gates go together")
        if unfed := [gate for gate in self.reset_gates if gate in self.other_gates]:
            raise ArchitectureError(f"cell {self.name!r}: reset_gates names {unfed}, which see no carry edge")
        if self.reset and self.edge_gates:
            raise ArchitectureError(f"cell {self.name!r}: reset reads one carry edge, edge_gates allow several")
        if self.nonlinearity not in NONLINEARITIES:
            raise ArchitectureError(f"cell {self.name!r}: nonlinearity is one of {', '.join(NONLINEARITIES)}")
        formulas = self.formulas(num_carries=1)
        self._check_reset(formulas.reset)
        found = tuple(formulas.new_state)
        if sorted(found) != sorted(self.state):
            raise ArchitectureError(
                f"cell {self.name!r}: update returns {list(found)}, its state is {list(self.state)}"
            )

    def __repr__(self) -> str:
        gates = (*self.gates, *(f"{gate} for each edge" for gate in self.edge_gates))
        return f"<Cell: {self.name}, gates {', '.join(gates)}, state {', '.join(self.state)}>"

    def _check_gate_names(self) -> None:
        """Columns of matrices have the names of gates, and `gate_names` numbers those of edges: none may come twice."""
        for field in ("gates", "edge_gates"):
            names = getattr(self, field)
            if not isinstance(names, tuple) or not all(isinstance(name, str) and name for name in names):
                raise ArchitectureError(
                    f'cell {self.name!r}: {field} is a tuple of names, as ("a", "b"), got {names!r}'
                )
        if not self.gates and not self.edge_gates:
            raise ArchitectureError(f"cell {self.name!r}: it has no gates, so nothing would reach it")
        names = self.gates + self.edge_gates
        repeated = {name for name in names if names.count(name) > 1}
        numbered = {n for n in names for gate in self.edge_gates if n.startswith(gate) and n[len(gate) :].isdigit()}
        if clashing := sorted(repeated | numbered):
            raise ArchitectureError(
                f"cell {self.name!r}: names of gates must differ, but {clashing} would be given twice"
            )

    def _check_reset(self, reset: Expression | None) -> None:
        """The gates of the second product wait for what `reset` computes, so it cannot wait for them."""
        read = {each.name for each in in_order([reset])} if reset is not None else set()
        if circular := [gate for gate in self.reset_gates if f"gate {gate}" in read]:
            raise ArchitectureError(
                f"cell {self.name!r}: reset reads {circular}, gates that wait for its own product; "
                "it may read all gates but those in reset_gates"
            )

    @property
    def needs_carry(self) -> bool:
        """Whether a node of this cell must have an edge that brings its old state."""
        return bool(self.carries)

    def gate_names(self, num_carries: int) -> tuple[str, ...]:
        """The gates of a node with that many carry edges, in the order of their columns in every matrix."""
        return self.gates + tuple(f"{gate}{number}" for gate in self.edge_gates for number in range(num_carries))

    def formulas(self, num_carries: int) -> "Formulas":
        """The cell's arithmetic as expressions, over the inputs `gate NAME`, `carried NAME NUMBER` and `depth`."""
        gates = SimpleNamespace(**{gate: named(f"gate {gate}") for gate in self.gates})
        for gate in self.edge_gates:
            setattr(gates, gate, tuple(named(f"gate {gate}{number}") for number in range(num_carries)))
        carried: Any = tuple(
            SimpleNamespace(**{part: named(f"carried {part} {number}") for part in self.carries})
            for number in range(num_carries)
        )
        if not self.edge_gates:
            carried = carried[0] if carried else SimpleNamespace()
        depth = (named("depth"),) if self.has_depth_input else ()
        try:
            new_state = self.update(gates, carried, *depth)
            if not isinstance(new_state, Mapping):
                raise ArchitectureError(f"update returns the new state as a dict by component, got {new_state!r}")
            return Formulas(
                new_state={part: as_expression(value) for part, value in new_state.items()},
                reset=None if self.reset is None else as_expression(self.reset(gates, carried)),
            )
        except (TypeError, AttributeError) as error:
            if isinstance(error, TypeError) or isinstance(
                error.obj, Expression
            ):  # torch.tanh(x), abs(x), x > 0, x.tanh()
                raise ArchitectureError(f"cell {self.name!r}: {error}; {_WHAT_FORMULAS_TAKE}") from error
            if not isinstance(error.obj, SimpleNamespace):
                raise
            kind = "gate" if error.obj is gates else "carried state"
            known = ", ".join(vars(error.obj)) or "none"
            raise ArchitectureError(f"cell {self.name!r}: there is no {kind} {error.name!r}; known: {known}") from error
        except ArchitectureError as error:
            raise ArchitectureError(f"cell {self.name!r}: {error}") from error


_WHAT_FORMULAS_TAKE = (
    "formulas are made of +, -, *, division by numbers, and rnnlab's sigmoid, tanh, relu and nonlinearity: "
    "called once, they are recorded for every way to run"
)


@dataclass(frozen=True)
class Formulas:
    """A cell's update written out."""

    new_state: Mapping[str, Expression]
    reset: Expression | None


def _rnn(gates: Any, carried: Any) -> dict[str, Expression]:
    return {"h": nonlinearity(gates.c)}


def _ugrnn(gates: Any, carried: Any) -> dict[str, Expression]:
    keep = sigmoid(gates.g)
    return {"h": keep * carried.h + (1 - keep) * nonlinearity(gates.c)}


def _gru(gates: Any, carried: Any) -> dict[str, Expression]:
    keep = sigmoid(gates.u)
    return {"h": keep * carried.h + (1 - keep) * nonlinearity(gates.c)}


def _gru_cudnn(gates: Any, carried: Any) -> dict[str, Expression]:
    keep = sigmoid(gates.u)
    candidate = nonlinearity(gates.c + sigmoid(gates.r) * gates.n)
    return {"h": keep * carried.h + (1 - keep) * candidate}


def _mgu(gates: Any, carried: Any) -> dict[str, Expression]:
    forget = sigmoid(gates.f)
    return {"h": (1 - forget) * carried.h + forget * nonlinearity(gates.c)}


def _lstm(gates: Any, carried: Any) -> dict[str, Expression]:
    memory = sigmoid(gates.f) * carried.c + sigmoid(gates.i) * nonlinearity(gates.g)
    return {"h": sigmoid(gates.o) * tanh(memory), "c": memory}


def _lstm_edges(gates: Any, carried: Any) -> dict[str, Expression]:
    memory = sigmoid(gates.i) * nonlinearity(gates.g)
    for forget, old in zip(gates.f, carried, strict=True):
        memory = memory + sigmoid(forget) * old.c
    return {"h": sigmoid(gates.o) * tanh(memory), "c": memory}


def _intersection(gates: Any, carried: Any, depth: Expression) -> dict[str, Expression]:
    up, on = sigmoid(gates.gy), sigmoid(gates.gh)
    return {
        "h": on * carried.h + (1 - on) * tanh(gates.h),
        "y": up * depth + (1 - up) * relu(gates.y),
    }


def _reset_r(gates: Any, carried: Any) -> Expression:
    return sigmoid(gates.r) * carried.h


def _reset_f(gates: Any, carried: Any) -> Expression:
    return sigmoid(gates.f) * carried.h


CELLS: dict[str, Cell] = {
    cell.name: cell
    for cell in (
        Cell("tanh", gates=("c",), update=_rnn, carries=(), summary="one tanh layer [C12]"),
        Cell("relu", gates=("c",), update=_rnn, carries=(), nonlinearity="relu", summary="one ReLU layer [C12]"),
        Cell(
            "irnn",
            gates=("c",),
            update=_rnn,
            carries=(),
            nonlinearity="relu",
            square="identity",
            summary="a ReLU layer that starts as the identity [C13]",
        ),
        Cell("ugrnn", gates=("c", "g"), update=_ugrnn, gate_bias=("g",), summary="update gate RNN [C14]"),
        Cell(
            "gru",
            gates=("r", "u", "c"),
            update=_gru,
            gate_bias=("u",),
            reset=_reset_r,
            reset_gates=("c",),
            summary="gated recurrent unit, reset before the product [C15]",
        ),
        Cell(
            "gru-cudnn",
            gates=("c", "r", "u", "n"),
            update=_gru_cudnn,
            gate_bias=("u",),
            carry_gates=("n",),
            other_gates=("c",),
            summary="gated recurrent unit, reset after the product as in cuDNN",
        ),
        Cell(
            "lstm",
            gates=("i", "f", "o", "g"),
            update=_lstm,
            state=("h", "c"),
            carries=("c",),
            gate_bias=("f",),
            summary="long short-term memory, one forget gate [C16]",
        ),
        Cell(
            "lstm-edges",
            gates=("g", "i", "o"),
            update=_lstm_edges,
            state=("h", "c"),
            carries=("c",),
            edge_gates=("f",),
            gate_bias=("f",),
            summary="long short-term memory, a forget gate for each edge that carries state [Z41]",
        ),
        Cell(
            "intersection",
            gates=("y", "h", "gy", "gh"),
            update=_intersection,
            state=("h", "y"),
            ports=("h", "y"),
            has_depth_input=True,
            gate_bias=("gy", "gh"),
            depth_gates=("gy",),
            summary="+RNN, gated through depth and through time; two layers or more [C17, C18]",
        ),
        Cell(
            "mgu",
            gates=("f", "c"),
            update=_mgu,  # without a gate bias: its one gate forgets as it opens, and resets as it closes
            reset=_reset_f,
            reset_gates=("c",),
            summary="minimal gated unit (Zhou et al. 2016)",
        ),
    )
}
"""Every cell by name; `register_cell` adds to it."""

BUILT_IN = frozenset(CELLS)


def register_cell(cell: Cell) -> Cell:
    """Register a cell under its name, for use in files, on the command line and in `architecture`.

    The same declaration may be registered again, as happens when a file is read twice; a different cell of the same
    name may not.
    """
    known = CELLS.setdefault(cell.name, cell)
    if known is not cell and not _is_same(known, cell):
        raise ArchitectureError(f"a cell named {cell.name!r} exists already")
    return known


def _is_same(one: Cell, other: Cell) -> bool:
    """Whether two declarations are one, written in two functions that record the same formulas."""
    plain = [each.name for each in fields(Cell) if each.name not in ("update", "reset")]
    if any(getattr(one, name) != getattr(other, name) for name in plain):
        return False
    counts = (1, 2) if one.edge_gates else (1,)
    return all(_recorded(one.formulas(count)) == _recorded(other.formulas(count)) for count in counts)


def fingerprint(cell: Cell) -> str:
    """A digest of what a cell computes, by which a file tells whether the one that is registered is the one it had."""
    plain = [(each.name, getattr(cell, each.name)) for each in fields(Cell) if each.name not in _NOT_COMPUTED]
    counts = (1, 2) if cell.edge_gates else (1,)
    content = repr((plain, [_recorded(cell.formulas(count)) for count in counts]))
    return hashlib.sha256(content.encode()).hexdigest()


def _recorded(formulas: Formulas) -> object:
    reset = {} if formulas.reset is None else {"reset": formulas.reset}
    return recorded({**{f"state {part}": value for part, value in formulas.new_state.items()}, **reset})


def named_cell(name: str) -> Cell:
    """The cell of that name."""
    if name not in CELLS:
        raise ArchitectureError(f"no cell is named {name!r}; {hint(name, sorted(CELLS))}")
    return CELLS[name]
