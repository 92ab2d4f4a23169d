"""How the numbers of a network start (C22-C27, Z50, Pascanu et al.'s sparse matrices), from a given generator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from rnnlab.architecture.architecture import Architecture, ParameterSpec
from rnnlab.architecture.cells import named_cell
from rnnlab.errors import ArchitectureError
from rnnlab.graph.elements import as_plain

Draw = Callable[[int, int, torch.Generator], Tensor]


def glorot(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Uniform within sqrt(6 / (rows + columns)) either way."""
    return uniform((6 / (rows + columns)) ** 0.5)(rows, columns, generator)


def normal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Normal with standard deviation 1 / sqrt(rows): products keep the size of what they multiply (C22, C23)."""
    return torch.randn(rows, columns, generator=generator, dtype=torch.float64) / rows**0.5


def orthogonal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """A random matrix with orthonormal rows or columns, whichever are fewer."""
    gaussian = torch.randn(max(rows, columns), min(rows, columns), generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(gaussian)
    q = q * r.diagonal().sign()  # without this the distribution would favour some directions
    return q if rows >= columns else q.T


def identity(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Ones on the diagonal."""
    return torch.eye(rows, columns, dtype=torch.float64)


def sparse(rows: int, columns: int, generator: torch.Generator, *, num_connections: int = 20) -> Tensor:
    """At most 20 non-zero numbers into each unit, rescaled to a largest singular value of 1 (Pascanu et al.)."""
    kept = min(num_connections, rows)
    places = torch.rand(rows, columns, generator=generator).argsort(dim=0)[:kept]
    values = 2 * torch.rand(kept, columns, generator=generator, dtype=torch.float64) - 1
    matrix = torch.zeros(rows, columns, dtype=torch.float64).scatter_(0, places, values)
    return matrix / torch.linalg.matrix_norm(matrix, ord=2)


def uniform(limit: float) -> Draw:
    """Uniform within `limit` either way (Z50)."""

    def draw(rows: int, columns: int, generator: torch.Generator) -> Tensor:
        return limit * (2 * torch.rand(rows, columns, generator=generator, dtype=torch.float64) - 1)

    return draw


MATRICES: dict[str, Draw] = {
    "glorot": glorot,
    "normal": normal,
    "orthogonal": orthogonal,
    "identity": identity,
    "sparse": sparse,
    "uniform": uniform(1.0),
}
"""Every way to draw a matrix, by name; `uniform` lies within 1 either way, to be scaled."""


_BIASES = ("constant", "normal")


@dataclass(frozen=True, kw_only=True)
class Initialisation:
    """How one member's initial weights are drawn.

    Args:
        square: how square matrices from hidden to hidden nodes are drawn, each gate's block by itself; one of MATRICES.
            By default `glorot`, except where a cell says how its recurrence starts, as an IRNN does: `identity`.
        rectangular: the same for all other matrices.
        square_scale, rectangular_scale: the factors of these matrices; an identity matrix is not scaled (C24).
        bias: `constant` or `normal` (C25).
        bias_scale: the constant, or the factor of a standard normal (C26).
        gate_bias: b^fg, added to the bias of the gates that the cell names (C20, C27).
        depth_gate_bias: b^{fg,y}, the same for a gate through depth, as +RNN has it (C20); by default `gate_bias`.
        edge_gate_bias: the same for the forget gates of all edges but the first that bring a node a cell state, as
            `lstm-edges` has them; by default `gate_bias`. Gates that begin open add up: -1 balances a `gate_bias` of 1.
        read_out_scale: the factor of matrices into outputs; by default as for other matrices of their shape.
        read_out_bias, read_out_bias_scale: the same for the biases of outputs; by default as for other biases.
    """

    square: str | None = None
    rectangular: str = "glorot"
    square_scale: float = 1.0
    rectangular_scale: float = 1.0
    bias: str = "constant"
    bias_scale: float = 0.0
    gate_bias: float = 0.0
    depth_gate_bias: float | None = None
    edge_gate_bias: float | None = None
    read_out_scale: float | None = None
    read_out_bias: str | None = None
    read_out_bias_scale: float | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            object.__setattr__(self, each.name, as_plain(getattr(self, each.name)))
        for field, known in (("square", (*MATRICES, None)), ("rectangular", tuple(MATRICES))):
            if getattr(self, field) not in known:
                raise ArchitectureError(f"{field} is one of {', '.join(MATRICES)}, got {getattr(self, field)!r}")
        for field, known in (("bias", _BIASES), ("read_out_bias", (*_BIASES, None))):
            if getattr(self, field) not in known:
                raise ArchitectureError(f"{field} is constant or normal, got {getattr(self, field)!r}")

    def added_to(self, kind: str) -> float:
        """What is added to the biases of gates of that kind, one of `gate_bias` and those that default to it."""
        value = getattr(self, kind)
        return self.gate_bias if value is None else value

    def bias_of(self, category: str) -> tuple[str, float]:
        """How biases of a category are drawn, and their scale."""
        if category != "read-out biases":
            return self.bias, self.bias_scale
        scale = self.read_out_bias_scale
        return self.read_out_bias or self.bias, self.bias_scale if scale is None else scale


def initial_arrays(
    architecture: Architecture, members: Sequence[Initialisation], generator: torch.Generator
) -> dict[str, Tensor]:
    """The numbers of a population by name, [P, ...] in float64; members are drawn one after another."""
    biased, squares = _biased_gates(architecture), _recurrences(architecture)
    arrays = [
        {spec.name: _array(spec, member, biased, squares, generator) for spec in architecture.parameters}
        for member in members
    ]
    return {spec.name: torch.stack([array[spec.name] for array in arrays]) for spec in architecture.parameters}


def _array(
    spec: ParameterSpec,
    member: Initialisation,
    biased: dict[str, dict[str, str]],
    squares: dict[str, str],
    generator: torch.Generator,
) -> Tensor:
    if len(spec.shape) == 2:
        square = member.square or squares.get(spec.name, "glorot")
        blocks = [_block(spec, member, square, generator) for _ in spec.blocks]
        return torch.cat(blocks, dim=1)
    if spec.category not in ("biases", "read-out biases"):
        return torch.zeros(spec.shape, dtype=torch.float64)
    kind, scale = member.bias_of(spec.category)
    if kind == "normal":
        values = scale * torch.randn(spec.shape, generator=generator, dtype=torch.float64)
    else:
        values = torch.full(spec.shape, scale, dtype=torch.float64)
    width = spec.shape[0] // len(spec.blocks)
    for number, gate in enumerate(spec.blocks):
        kind = biased.get(spec.name, {}).get(gate)
        if kind is not None:
            values[number * width : (number + 1) * width] += member.added_to(kind)
    return values


def _block(spec: ParameterSpec, member: Initialisation, square: str, generator: torch.Generator) -> Tensor:
    """The columns of one gate."""
    rows, columns = spec.shape[0], spec.shape[1] // len(spec.blocks)
    is_square = rows == columns and spec.source_kind == "hidden" and spec.category == "weights"
    kind, scale = (square, member.square_scale) if is_square else (member.rectangular, member.rectangular_scale)
    if spec.category == "read-out weights" and member.read_out_scale is not None:
        scale = member.read_out_scale
    return MATRICES[kind](rows, columns, generator) * (1.0 if kind == "identity" else scale)


def _recurrences(architecture: Architecture) -> dict[str, str]:
    """How the matrix starts by which a node reads its own state, as its cell says; the nearest, if it reads several."""
    for cell in architecture.cells:
        if cell.square not in MATRICES:
            raise ArchitectureError(f"cell {cell.name!r}: square is one of {', '.join(MATRICES)}, got {cell.square!r}")
    found: dict[str, str] = {}
    for node in architecture.nodes:
        own = [edge for edge in architecture.incoming(node.key) if edge.source[0] == node.name]
        if node.cell is not None and own:
            nearest = min(own, key=lambda edge: edge.delay)
            found[architecture.matrix_name(nearest)] = architecture.cell(node.key).square
    return found


def _biased_gates(architecture: Architecture) -> dict[str, dict[str, str]]:
    """For each bias the gates that b^fg is added to, and the field of `Initialisation` that says how much."""
    found: dict[str, dict[str, str]] = {}
    for node in architecture.nodes:
        if node.cell is not None:
            cell, edges = named_cell(node.cell), range(len(architecture.carries(node.key)))
            kinds = {gate: "depth_gate_bias" if gate in cell.depth_gates else "gate_bias" for gate in cell.gate_bias}
            own = {gate: kinds[gate] for gate in cell.gates if gate in kinds}
            first = {f"{gate}0": kinds[gate] for gate in cell.edge_gates if gate in kinds}
            further = {f"{gate}{edge}": "edge_gate_bias" for gate in cell.edge_gates if gate in kinds for edge in edges}
            found[architecture.bias_name(node.key)] = own | further | first
    return found
