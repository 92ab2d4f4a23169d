"""A plan ready to run on the GPU: its nodes, how their numbers are kept, and the kernels of its cyclic components."""

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rnnlab.engine.gpu.compiled import KernelText, compiled
from rnnlab.engine.gpu.general_backward import general_backward
from rnnlab.engine.gpu.general_forward import general_forward
from rnnlab.engine.gpu.layout import ARITHMETIC, padded
from rnnlab.engine.gpu.nodes import NodeCode, Part, node_codes
from rnnlab.engine.gpu.writer import Writer
from rnnlab.engine.plan import Component, Plan
from rnnlab.graph.elements import NodeKey


class Kernel(NamedTuple):
    """A kernel ready to be launched."""

    text: KernelText
    function: Any


def is_interpreted() -> bool:
    """Whether Triton's interpreter stands in for a GPU: kernels then run on the CPU, slowly, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


class GpuProgram:
    """A plan ready to run on the GPU; holds no numbers of its own.

    Args:
        plan: what runs.
        choices: for each hidden node its nonlinearity, or where members differ whose is relu, [P, 1, 1].
        precision: how products are multiplied: `float32`, `tf32` or `bf16`.
    """

    def __init__(self, plan: Plan, choices: Mapping[NodeKey, Any], precision: str) -> None:
        self.plan, self.architecture, self.precision = plan, plan.architecture, precision
        self.arithmetic = ARITHMETIC[precision]
        self.codes = node_codes(plan, choices)
        self._kernels: dict[Any, Kernel] = {}
        self._moments: dict[Any, Tensor] = {}

    @cached_property
    def state(self) -> dict[Part, int]:
        """Every part that is computed or given, and its width."""
        found: dict[Part, int] = {}
        for node in self.architecture.nodes:
            for part in self.architecture.cell(node.key).state if node.kind == "hidden" else ("",):
                found[node.name, part] = node.units
        return found

    @cached_property
    def widths(self) -> dict[Part, int]:
        """The same as they lie in memory."""
        return {part: padded(units) for part, units in self.state.items()}

    @cached_property
    def tokens(self) -> frozenset[str]:
        """The inputs that are integers."""
        return frozenset(node.name for node in self.architecture.nodes if node.encoding == "tokens")

    @cached_property
    def _carried(self) -> set[Part]:
        """Parts that something takes over as they are, not only multiplied."""
        found: set[Part] = {(node.name, "") for node in self.architecture.nodes if node.kind == "output"}
        for code in self.codes.values():
            for edge in code.carries:
                found |= {(edge.source[0], part) for part in self.architecture.cell(code.key).carries}
            found |= {(edge.source[0], edge.port or "") for edge in code.identities}
            if code.depth is not None and not code.depth_product.has_projection:
                found.add(code.depth_product.part)
        return found

    def storage(self, part: Part) -> torch.dtype:
        """How values of a part are kept: in the dtype of products where nothing else is done with them."""
        return torch.float32 if part in self._carried else self.arithmetic.dtype

    def codes_of(self, component: Component) -> list[NodeCode]:
        """The nodes of a component."""
        return [self.codes[key] for key in component.nodes if key in self.codes]

    def forward_kernel(self, number: int, shared: frozenset[str]) -> Kernel:
        """The forward kernel of a component by its number; `shared` are inputs that are one for all members."""
        key = ("forward", number, shared)
        if key not in self._kernels:
            text = general_forward(self._writer(shared), self.codes_of(self.plan.components[number]))
            self._kernels[key] = Kernel(text, compiled(text.source))
        return self._kernels[key]

    def backward_kernel(self, number: int, shared: frozenset[str], wanted: frozenset[Part]) -> Kernel:
        """The same for the backward pass, in which the `wanted` parts gather gradients."""
        key = ("backward", number, shared, wanted)
        if key not in self._kernels:
            text = general_backward(self._writer(shared), self.codes_of(self.plan.components[number]), wanted)
            self._kernels[key] = Kernel(text, compiled(text.source))
        return self._kernels[key]

    def _writer(self, shared: frozenset[str]) -> Writer:
        is_fast = self.precision == "bf16" and not is_interpreted()
        return Writer(self.plan, self.widths, shared, self.arithmetic, is_fast=is_fast)

    def moments(self, number: int, num_steps: int, first_step: int, device: torch.device, *, backward: bool) -> Tensor:
        """The moments of a component, in the order in which they run: number of the node in it, and time."""
        key = (number, num_steps, first_step % self.architecture.period, device, backward)
        if key not in self._moments:
            if len(self._moments) > 100:  # sequences of ever new lengths
                self._moments.clear()
            component = self.plan.components[number]
            place = {code.key: place for place, code in enumerate(self.codes_of(component))}
            slots = self.plan.moments(component, num_steps, first_step)
            found = [(place[node], time) for slot in slots for node, time in slot]
            array = torch.tensor(found[::-1] if backward else found, dtype=torch.int32)
            self._moments[key] = array.to(device)
        return self._moments[key]
