"""How the numbers of a network start (C22-C27, Z50, Pascanu et al.'s sparse matrices), from a given generator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rnnlab.architecture.architecture import Architecture, ParameterSpec
from rnnlab.architecture.cells import named_cell
from rnnlab.errors import ArchitectureError

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


@dataclass(frozen=True, kw_only=True)
class Initialisation:
    """How one member's numbers start.

    Args:
        square: how square matrices from hidden to hidden nodes are drawn, each gate's block by itself; one of MATRICES.
        rectangular: the same for all other matrices.
        square_scale, rectangular_scale: what they are multiplied by; an identity is not (C24).
        bias: `constant` or `normal` (C25).
        bias_scale: the constant, or what a standard normal is multiplied by (C26).
        gate_bias: b^fg, added to the bias of the gates that the cell names (C20, C27).
    """

    square: str = "glorot"
    rectangular: str = "glorot"
    square_scale: float = 1.0
    rectangular_scale: float = 1.0
    bias: str = "constant"
    bias_scale: float = 0.0
    gate_bias: float = 0.0

    def __post_init__(self) -> None:
        for field in ("square", "rectangular"):
            if getattr(self, field) not in MATRICES:
                raise ArchitectureError(f"{field} is one of {', '.join(MATRICES)}, got {getattr(self, field)!r}")
        if self.bias not in ("constant", "normal"):
            raise ArchitectureError(f"bias is constant or normal, got {self.bias!r}")


def initial_arrays(
    architecture: Architecture, members: Sequence[Initialisation], generator: torch.Generator
) -> dict[str, Tensor]:
    """The numbers of a population by name, [P, ...] in float64; members are drawn one after another."""
    biased = _biased_gates(architecture)
    arrays = [
        {spec.name: _array(spec, member, biased, generator) for spec in architecture.parameters} for member in members
    ]
    return {spec.name: torch.stack([array[spec.name] for array in arrays]) for spec in architecture.parameters}


def _array(
    spec: ParameterSpec, member: Initialisation, biased: dict[str, set[str]], generator: torch.Generator
) -> Tensor:
    if len(spec.shape) == 2:
        blocks = [_block(spec, member, generator) for _ in spec.blocks]
        return torch.cat(blocks, dim=1)
    if spec.category not in ("biases", "read-out biases"):
        return torch.zeros(spec.shape, dtype=torch.float64)
    if member.bias == "normal":
        values = member.bias_scale * torch.randn(spec.shape, generator=generator, dtype=torch.float64)
    else:
        values = torch.full(spec.shape, member.bias_scale, dtype=torch.float64)
    width = spec.shape[0] // len(spec.blocks)
    for number, gate in enumerate(spec.blocks):
        if gate in biased.get(spec.name, ()):
            values[number * width : (number + 1) * width] += member.gate_bias
    return values


def _block(spec: ParameterSpec, member: Initialisation, generator: torch.Generator) -> Tensor:
    """The columns of one gate."""
    rows, columns = spec.shape[0], spec.shape[1] // len(spec.blocks)
    is_square = rows == columns and spec.source_kind == "hidden" and spec.category == "weights"
    kind, scale = (member.square, member.square_scale) if is_square else (member.rectangular, member.rectangular_scale)
    return MATRICES[kind](rows, columns, generator) * (1.0 if kind == "identity" else scale)


def _biased_gates(architecture: Architecture) -> dict[str, set[str]]:
    """For each bias the gates that b^fg is added to."""
    found: dict[str, set[str]] = {}
    for node in architecture.nodes:
        if node.cell is not None:
            name = node.bias or f"{architecture.label(node.key)} bias"
            cell = named_cell(node.cell)
            repeated = {gate for gate in architecture.gates(node.key) if gate.rstrip("0123456789") in cell.edge_gates}
            of_edges = {gate for gate in repeated if gate.rstrip("0123456789") in cell.gate_bias}
            found[name] = {gate for gate in cell.gate_bias if gate in cell.gates} | of_edges
    return found
