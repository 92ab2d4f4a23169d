"""The arrays of one run on the CPU, and the views through which the passes see them.

Values of all time steps lie in one array for each part of each node's state, [P, K + T + L, B, N]: K rows of what came
before, T of the sequence, L of zeros for those who look ahead. A read with delay d is then the same array moved by d
rows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.cpu_program import CpuProgram, NodeCode, Part, Product
from rnnlab.engine.elementwise import Array
from rnnlab.engine.plan import Component
from rnnlab.graph.elements import NodeKey

Step = Callable[[int], object]
Views = Callable[[Array], Sequence[Array]]
"""Cuts an array [P, times, B, N] into what a step sees: one view for each time, or one of all times."""


class CpuArrays:
    """Parameters, inputs and everything that the forward pass computes, for one batch of sequences."""

    def __init__(
        self,
        program: CpuProgram,
        parameters: Mapping[str, Array],
        inputs: Mapping[str, Array],
        state: Mapping[Part, Array] | None,
        first_step: int,
    ) -> None:
        """Arrays by name; inputs are [P, T, B, N] (tokens [P, T, B]), the values of a state [P, K, B, N]."""
        self.program, self.plan, self.architecture = program, program.plan, program.architecture
        self.parameters, self.inputs, self.state, self.first_step = parameters, inputs, state, first_step
        self.P, self.T, self.B = next(iter(inputs.values())).shape[:3]
        self.dtype = next(iter(parameters.values())).dtype
        self.values: dict[Part, Array] = {}
        self.gates: dict[NodeKey, Array] = {}  # activated, [P, gates, times, B, N]: a gate at a time is contiguous
        self.resets: dict[NodeKey, Array] = {}  # what the second product multiplies
        self.projected: dict[EdgeSpec, Array] = {}
        self.borrowed: list[Array] = []

    def allocate(self) -> None:
        """Room for everything that the forward pass computes."""
        for node in self.architecture.nodes:
            parts = self.architecture.cell(node.key).state if node.kind == "hidden" else ("",)
            for part in parts:
                if (node.name, part) not in self.values:
                    is_tokens = node.encoding == "tokens"
                    self.values[node.name, part] = self.new_values((node.name, part), node.units, is_tokens)
        for key, code in self.program.codes.items():
            shape = (self.P, len(self.times(key)), self.B)
            if code.shares_gates:
                self.gates[key] = self.rows(self.values, code.state[0], 0, self.T)[:, None]
            else:
                self.gates[key] = self.borrow((self.P, code.num_gates, *shape[1:], code.units))
            if code.program is not None and code.program.reset is not None:
                self.resets[key] = self.borrow((*shape, code.units))
            for product in code.external + code.internal:
                if product.has_projection:
                    self.projected[product.edge] = self.borrow((*shape, code.units))

    def borrow(self, shape: tuple[int, ...]) -> Array:
        """An array from the pool, to be given back by `close`."""
        array = self.program.pool.take(shape, self.dtype)
        self.borrowed.append(array)
        return array

    def close(self) -> None:
        """Give all arrays back; nothing may be asked of this run afterwards."""
        self.program.pool.give(self.borrowed)
        self.borrowed = []

    def new_values(self, part: Part, units: int, is_tokens: bool) -> Array:
        """The values of a part with what came before in place."""
        before, after = self.plan.histories.get(part, 0), self.plan.lookaheads.get(part, 0)
        shape = (self.P, before + self.T + after, self.B)
        values = np.full(shape, -1, np.int64) if is_tokens else self.borrow((*shape, units))
        if part[0] in self.inputs:
            values[:, before : before + self.T] = self.inputs[part[0]]
        if self.state is not None and before:
            values[:, :before] = self.state[part]
        elif not is_tokens:
            for row in range(before):
                name = self.initial_name(part, row - before)
                values[:, row] = 0 if name is None else self.parameters[name][:, None, :]
        if not is_tokens:
            values[:, before + self.T :] = 0
        self.clear_absent(part, values, before)
        return values

    def clear_absent(self, part: Part, values: Array, before: int) -> None:
        """Zeros, or no tokens, at times at which the part does not exist: nothing computes them, a state shows them."""
        for time in self.absent_times(part, -before, self.T):
            values[:, before + time] = 0 if values.dtype == self.dtype else -1

    def absent_times(self, part: Part, start: int, stop: int) -> list[int]:
        """The times at which no node of that name exists, or none whose state has the part."""
        if self.architecture.period == 1:
            return []
        return [time for time in range(start, stop) if not self.plan.exists(*part, self.first_step + time)]

    def initial_name(self, part: Part, time: int) -> str | None:
        """The parameter that stands for a value before the first step, if it is learned and the node exists then."""
        key = (part[0], (self.first_step + time) % self.architecture.period)
        name = f"{self.architecture.label(key)} initial {part[1]}".rstrip()
        return name if name in self.parameters else None

    def times(self, key: NodeKey) -> range:
        """The times at which a node is computed."""
        period = self.architecture.period
        return range((key[1] - self.first_step) % period, self.T, period)

    def rows(self, arrays: Mapping[Part, Array], part: Part, start: int, stop: int) -> Array:
        """A part at times start to stop, a view [P, times, B, N]."""
        before = self.plan.histories.get(part, 0)
        return arrays[part][:, before + start : before + stop]

    def read(self, arrays: Mapping[Part, Array], part: Part, delay: int, key: NodeKey) -> Array:
        """What a node reads of a part at all its times, a view [P, times, B, N]."""
        times = self.times(key)
        first = self.plan.histories.get(part, 0) + times.start - delay
        return arrays[part][:, first : first + len(times) * times.step : times.step][:, : len(times)]

    def source(self, product: Product) -> Array:
        """What a dense edge multiplies, at all times of its target."""
        if product.has_projection:
            return self.projected[product.edge]
        return self.read(self.values, product.part, product.edge.delay, product.edge.target)

    def is_tokens(self, product: Product) -> bool:
        """Whether what an edge multiplies are integers, which take rows of its matrix."""
        return not product.has_projection and self.values[product.part].dtype != self.dtype

    def columns(self, name: str, code: NodeCode) -> Array:
        """A matrix with its gates apart, a view [P, rows, gates, N]."""
        matrix = self.parameters[name]
        return matrix.reshape(*matrix.shape[:2], -1, code.units)

    def each(self, array: Array) -> list[Array]:
        """A view for each time: [B, N] for one member, else [P, B, N]."""
        return [array[0, j] if self.P == 1 else array[:, j] for j in range(array.shape[1])]

    def matrix(self, name: str, *, transposed: bool = False) -> Array:
        """A matrix as the products in the loop want it: contiguous, without the population axis for one member."""
        matrix = self.parameters[name]
        matrix = np.ascontiguousarray(matrix.swapaxes(-1, -2) if transposed else matrix)
        return matrix[0] if self.P == 1 else matrix

    def gate_matrices(self, name: str, gates: slice, code: NodeCode) -> Array:
        """The columns of each gate as a matrix of its own, [gates, rows, N] or [P, gates, rows, N]."""
        matrices = np.ascontiguousarray(self.columns(name, code)[:, :, gates].swapaxes(1, 2))
        return matrices[0] if self.P == 1 else matrices

    def transposed(self, name: str, gates: slice, code: NodeCode) -> Array:
        """The columns of some gates, transposed: what leads their gradients back."""
        columns = slice(gates.start * code.units, gates.stop * code.units)
        matrix = np.ascontiguousarray(self.parameters[name][..., columns].swapaxes(-1, -2))
        return matrix[0] if self.P == 1 else matrix

    def gate_views(self, code: NodeCode, views: Views) -> list[Sequence[Array]]:
        """The views of each gate."""
        return [views(self.gates[code.key][:, gate]) for gate in range(code.num_gates)]

    def group_views(self, code: NodeCode, views: Views, gates: slice) -> Sequence[Array]:
        """The views of neighbouring gates together, [gates, B, N], [P, gates, B, N] or with `all_times` all times."""
        group = self.gates[code.key][:, gates]
        if views is all_times:
            return [group]
        return [group[0, :, j] if self.P == 1 else group[:, :, j] for j in range(group.shape[2])]

    def multiply(self, views: Views) -> Callable[..., Any]:
        """The product for arrays as `views` cuts them."""
        if views is all_times:
            return multiply_whole
        return np.dot if self.P == 1 else np.matmul

    def scratch(self, like: Array, num_columns: int) -> Array:
        """An array like another one, of another width."""
        return np.empty((*like.shape[:-1], num_columns), self.dtype)

    def first_port(self, code: NodeCode) -> Part:
        """The part of a node's state that identity edges add to."""
        if code.program is None:
            return code.state[0]
        return (code.key[0], self.architecture.cell(code.key).ports[0])

    def depth_product(self, code: NodeCode) -> Product:
        """The dense edge whose value a +RNN node also uses unchanged."""
        return next(product for product in code.external + code.internal if product.edge is code.depth)

    def codes(self, component: Component) -> list[NodeCode]:
        """The nodes of a component that compute something in this sequence; a short one may miss some phases."""
        codes = [self.program.codes[key] for key in component.nodes if key in self.program.codes]
        return [code for code in codes if self.times(code.key)]

    def walk(self, component: Component, steps: Mapping[NodeKey, Step], *, backward: bool = False) -> None:
        """Every node of a cyclic component at all its times, in the order of the slots."""
        period = self.architecture.period
        slots = self.plan.moments(component, self.T, self.first_step)
        if len(steps) == 1 and period == 1 and len(slots) == self.T:  # one node, one step a slot
            (step,) = steps.values()
            times = [slot[0][1] for slot in slots]
            for time in reversed(times) if backward else times:
                step(time)
            return
        for slot in reversed(slots) if backward else slots:
            for key, time in slot:
                steps[key](time // period)

    def operands(self, code: NodeCode, views: Views) -> list[Sequence[Array]]:
        """What a cell's formulas read: gates, carried parts, depth input."""
        operands = self.gate_views(code, views)
        for edge, parts in code.carries:
            operands += [views(self.read(self.values, part, edge.delay, code.key)) for part in parts]
        if code.depth is not None:
            operands.append(views(self.source(self.depth_product(code))))
        return operands

    def outputs(self) -> dict[str, Array]:
        """By name, [P, T, B, N]."""
        names = dict.fromkeys(node.name for node in self.architecture.nodes if node.kind == "output")
        return {name: self.rows(self.values, (name, ""), 0, self.T) for name in names}

    def final_state(self, *, keep_all: bool = False) -> dict[Part, Array]:
        """The last values of all that is read from the past, [P, K, B, N]; or all values and the K before them."""
        kept = {part: depth for part, depth in self.plan.histories.items() if depth}
        end = 0 if keep_all else self.T
        return {part: self.rows(self.values, part, end - depth, self.T) for part, depth in kept.items()}


def all_times(array: Array) -> list[Array]:
    """All times as one."""
    return [array]


def multiply_whole(source: Array, matrix: Array, out: Array) -> None:
    """A product at all times of all members."""
    np.matmul(source, matrix[None, None] if matrix.ndim == 2 else matrix[:, None], out=out)


def gate_columns(arrays: Sequence[Array], gates: slice, code: NodeCode) -> Sequence[Array]:
    """The columns of some gates in arrays that hold all gates side by side."""
    if gates == slice(0, code.num_gates):
        return arrays
    return [array[..., gates.start * code.units : gates.stop * code.units] for array in arrays]


def flat(array: Array) -> Array:
    """[times, B, N] as [times * B, N]."""
    return array.reshape(-1, array.shape[-1])


def token_rows(tokens: Array, matrix: Array) -> Array:
    """The rows of a matrix that tokens take; -1 is no token and takes zeros."""
    rows = matrix[np.maximum(tokens, 0)]
    rows[tokens < 0] = 0
    return rows
