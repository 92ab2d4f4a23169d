"""A plan made ready for the CPU: for each node what it multiplies, where the products go, and its compiled formulas."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from numpy.typing import NDArray

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.cell_program import CellProgram, Outputs, compile_cell, linear_program
from rnnlab.engine.native.elementwise import Kernel, compile_kernel
from rnnlab.engine.native.runtime import Runtime, runtime
from rnnlab.engine.native.target import host
from rnnlab.engine.plan import Plan
from rnnlab.graph.elements import NodeKey

Array = NDArray[Any]
Choice = str | Array
"""A node's nonlinearity, or where members differ an array [P, 1, 1] that says whose is relu."""

Part = tuple[str, str]
"""A part of a node's state: node name and component, such as ("h", "c"); inputs and outputs have the part ""."""

Run = tuple[slice, slice]
"""Neighbouring gates of a matrix, and as many neighbouring gates of the node that they feed."""


class Product(NamedTuple):
    """A dense edge: what it reads, and which of its target's gates it adds to."""

    edge: EdgeSpec
    name: str  # of the matrix
    part: Part
    runs: tuple[Run, ...]
    reset_runs: tuple[Run, ...]  # the same for the second product
    has_projection: bool


class NodeCode(NamedTuple):
    """A hidden or output node, ready to run."""

    key: NodeKey
    units: int
    bias: str
    num_gates: int
    program: CellProgram
    choice: Choice
    external: tuple[Product, ...]
    internal: tuple[Product, ...]
    identities: tuple[EdgeSpec, ...]
    carries: tuple[EdgeSpec, ...]
    depth: EdgeSpec | None
    shares_gates: bool  # the activated gate is the new state: one array serves both

    @property
    def products(self) -> tuple[Product, ...]:
        """All dense edges into the node."""
        return self.external + self.internal


class NodeKernels(NamedTuple):
    """The compiled formulas of a node; None where there is nothing to do."""

    early: Kernel | None
    forward: Kernel
    late: Kernel | None
    backward: Kernel | None


class CpuProgram:
    """A plan ready to run on the CPU; holds no numbers of its own."""

    def __init__(self, plan: Plan, choices: Mapping[NodeKey, Choice]) -> None:
        self.plan = plan
        self.architecture = plan.architecture
        self.codes = {
            node.key: self._code(node.key, choices) for node in plan.architecture.nodes if node.kind != "input"
        }
        self._kernels: dict[tuple[NodeKey, str], NodeKernels] = {}

    def runtime(self, dtype: str) -> Runtime:
        """The compiled loop over time."""
        return runtime(dtype, host())

    def kernels(self, code: NodeCode, dtype: str) -> NodeKernels:
        """The formulas of a node, compiled on first use."""
        if (code.key, dtype) not in self._kernels:
            self._kernels[code.key, dtype] = _kernels(code, dtype)
        return self._kernels[code.key, dtype]

    @cached_property
    def state(self) -> dict[Part, int]:
        """Every part that is computed or given, and its width."""
        found: dict[Part, int] = {}
        for node in self.architecture.nodes:
            for part in self.architecture.cell(node.key).state if node.kind == "hidden" else ("",):
                found[node.name, part] = node.units
        return found

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter of one member."""
        return {spec.name: tuple(spec.shape) for spec in self.architecture.parameters}

    @cached_property
    def tokens(self) -> frozenset[str]:
        """The inputs that are integers."""
        return frozenset(node.name for node in self.architecture.nodes if node.encoding == "tokens")

    def reads_tokens(self, product: Product) -> bool:
        """Whether what an edge multiplies are integers, which take rows of its matrix."""
        return not product.has_projection and product.part[0] in self.tokens

    def _code(self, key: NodeKey, choices: Mapping[NodeKey, Choice]) -> NodeCode:
        architecture = self.architecture
        node = architecture.by_key[key]
        products = [self._product(edge) for edge in architecture.incoming(key) if edge.transform == "dense"]
        identities = tuple(edge for edge in architecture.incoming(key) if edge.transform == "identity")
        carries = architecture.carries(key)
        if node.kind == "output":
            program = linear_program(len(identities), has_products=bool(products))
        else:
            cell = architecture.cell(key)
            # what identity edges add is in the values too: these are then no longer what the cell computed
            kept = [part for part in cell.state if not identities or part != cell.ports[0]]
            program = compile_cell(cell, len(carries), len(identities), kept)
        return NodeCode(
            key=key,
            units=node.units,
            bias=node.bias or f"{architecture.label(key)} bias",
            num_gates=len(architecture.gates(key)),
            program=program,
            choice=choices.get(key, "tanh"),
            external=tuple(product for product in products if not self.plan.is_internal(product.edge)),
            internal=tuple(product for product in products if self.plan.is_internal(product.edge)),
            identities=identities,
            carries=carries,
            depth=architecture.depth_edge(key),
            # what an identity edge adds is not the gate's; an output, which has no slope, need not know its gate
            shares_gates=program.is_activation_only and (node.kind == "output" or not identities),
        )

    def _product(self, edge: EdgeSpec) -> Product:
        architecture = self.architecture
        gates, fed = architecture.gates(edge.target), architecture.edge_gates(edge)
        is_hidden = architecture.by_key[edge.target].kind == "hidden"
        late = architecture.cell(edge.target).reset_gates if is_hidden and edge.carry else ()
        columns = [(fed.index(gate), gates.index(gate)) for gate in fed if gate not in late]
        reset = [(fed.index(gate), gates.index(gate)) for gate in late]
        name = edge.weights or architecture.edge_label(edge)
        part = (edge.source[0], edge.port or "")
        return Product(edge, name, part, _runs(columns), _runs(reset), architecture.has_projection(edge))


def _kernels(code: NodeCode, dtype: str) -> NodeKernels:
    program = code.program
    choice = code.choice if isinstance(code.choice, str) else None

    def kernel(outputs: Outputs | None, adds: Sequence[str] = ()) -> Kernel | None:
        return compile_kernel(outputs, adds, choice, dtype, host()) if outputs else None

    forward, backward = dict(program.forward), dict(program.backward)
    if code.shares_gates:  # gate and state are one place, and so are their gradients
        forward.pop(f"gate {program.gates[0]}", None)
        if backward[f"d gate {program.gates[0]}"].operation == "input":
            del backward[f"d gate {program.gates[0]}"]
    found = kernel(forward)
    assert found is not None
    adds = [name for name in backward if not name.startswith("d gate ")]
    return NodeKernels(kernel(program.early), found, kernel(program.late), kernel(backward, adds))


def _runs(columns: Sequence[tuple[int, int]]) -> tuple[Run, ...]:
    """Pairs of gate numbers as pairs of ranges, neighbours joined."""
    runs: list[list[int]] = []  # first gate of the matrix, first of the target, how many
    for mine, theirs in columns:
        if runs and runs[-1][0] + runs[-1][2] == mine and runs[-1][1] + runs[-1][2] == theirs:
            runs[-1][2] += 1
        else:
            runs.append([mine, theirs, 1])
    return tuple((slice(mine, mine + count), slice(theirs, theirs + count)) for mine, theirs, count in runs)
