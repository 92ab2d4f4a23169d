"""A plan prepared for the CPU: its nodes, and their compiled formulas."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from numpy.typing import NDArray

from rnnlab.engine.cell_program import Outputs
from rnnlab.engine.native.elementwise import Kernel, compile_kernel
from rnnlab.engine.native.runtime import Runtime, runtime
from rnnlab.engine.native.target import host
from rnnlab.engine.nodes import NodeCode, Part, Product, node_codes, output_names, state_parts, token_inputs
from rnnlab.engine.plan import Plan
from rnnlab.graph.elements import NodeKey

Array = NDArray[Any]


class NodeKernels(NamedTuple):
    """The compiled formulas of a node; None for those that do nothing."""

    early: Kernel | None
    forward: Kernel
    late: Kernel | None
    backward: Kernel | None


class CpuProgram:
    """A plan ready to run on the CPU; holds no numbers of its own."""

    def __init__(self, plan: Plan, choices: Mapping[NodeKey, Any]) -> None:
        self.plan = plan
        self.architecture = plan.architecture
        self.codes = node_codes(plan, choices)
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
        """Every part of a state that is computed or given, and its width."""
        return state_parts(self.architecture)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter of one member."""
        return {spec.name: tuple(spec.shape) for spec in self.architecture.parameters}

    @cached_property
    def unread(self) -> frozenset[str]:
        """The outputs that no node reads."""
        read = {edge.source[0] for edge in self.architecture.edges}
        return frozenset(output_names(self.architecture)) - read

    @cached_property
    def tokens(self) -> frozenset[str]:
        """The inputs that are integers."""
        return token_inputs(self.architecture)

    def reads_tokens(self, product: Product) -> bool:
        """Whether an edge reads integers, which select rows of its matrix."""
        return not product.has_projection and product.part[0] in self.tokens


def _kernels(code: NodeCode, dtype: str) -> NodeKernels:
    program = code.program

    def kernel(outputs: Outputs | None, adds: Sequence[str] = ()) -> Kernel | None:
        return compile_kernel(outputs, adds, code.nonlinearity, dtype, host()) if outputs else None

    forward, backward = dict(program.forward), dict(program.backward)
    if code.gate_is_state:  # gate and state are one place, and so are their gradients
        forward.pop(f"gate {program.gates[0]}", None)
        if backward[f"d gate {program.gates[0]}"].operation == "input":
            del backward[f"d gate {program.gates[0]}"]
    found = kernel(forward)
    assert found is not None
    adds = [name for name in backward if not name.startswith("d gate ")]
    return NodeKernels(kernel(program.early), found, kernel(program.late), kernel(backward, adds))
