"""The arrays of one run on the CPU.

Values of all time steps lie in one array for each part of each node's state, [P, K + T + L, B, N]: K rows of what came
before, T of the sequence, L of zeros for those who look ahead. A read with delay d is then the same array moved by d
rows.
"""

from collections.abc import Mapping

import numpy as np

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.cpu_program import Array, CpuProgram, NodeCode, Part, Product
from rnnlab.graph.elements import NodeKey


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
        self.gates: dict[NodeKey, Array] = {}  # [P, times, B, gates * N]
        self.resets: dict[NodeKey, Array] = {}  # what the second product multiplies
        self.projected: dict[EdgeSpec, Array] = {}
        self.borrowed: list[Array] = []
        self._allocate()

    def _allocate(self) -> None:
        """Room for everything that the forward pass computes."""
        for part, units in self.program.state.items():
            self.values[part] = self._new_values(part, units)
        for key, code in self.program.codes.items():
            shape = (self.P, len(self.times(key)), self.B)
            if code.shares_gates:
                self.gates[key] = self.new_state(self.values, code)
            else:
                self.gates[key] = self.borrow((*shape, code.num_gates * code.units))
            if code.program.early is not None:
                self.resets[key] = self.borrow((*shape, code.units))
            for product in code.products:
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

    def _new_values(self, part: Part, units: int) -> Array:
        """The values of a part with what came before in place."""
        before, after = self.plan.histories.get(part, 0), self.plan.lookaheads.get(part, 0)
        is_tokens = part[0] in self.program.tokens
        given = self.inputs.get(part[0])
        # one input for all members is held once
        members = 1 if given is not None and given.strides[0] == 0 and self.state is None else self.P
        shape = (members, before + self.T + after, self.B)
        values = np.full(shape, -1, np.int64) if is_tokens else self.borrow((*shape, units))
        if given is not None:
            values[:, before : before + self.T] = given[:members]
        if self.state is not None and before:
            values[:, :before] = self.state[part]
        elif not is_tokens:
            for row in range(before):
                name = self.initial_name(part, row - before)
                values[:, row] = 0 if name is None else self.parameters[name][:, None, :]
        if after and not is_tokens:
            values[:, before + self.T :] = 0
        self._clear_absent(part, values, before)
        if members == self.P:
            return values
        # not broadcast_to: that forgets the stride of an axis of length 1
        return np.lib.stride_tricks.as_strided(
            values, (self.P, *shape[1:], *values.shape[3:]), (0, *values.strides[1:])
        )

    def _clear_absent(self, part: Part, values: Array, before: int) -> None:
        """Zeros, or no tokens, at times at which the part does not exist: nothing computes them, a state shows them."""
        for time in self.absent_times(part, -before, self.T):
            values[:, before + time] = -1 if part[0] in self.program.tokens else 0

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

    def new_state(self, arrays: Mapping[Part, Array], code: NodeCode, part: str | None = None) -> Array:
        """A part of a node's new state, the first where none is named, at all its times."""
        if part is None:
            node = self.architecture.by_key[code.key]
            part = "" if node.kind == "output" else self.architecture.cell(code.key).ports[0]
        return self.read(arrays, (code.key[0], part), 0, code.key)

    def depth_product(self, code: NodeCode) -> Product:
        """The dense edge whose value a +RNN node also uses unchanged."""
        return next(product for product in code.products if product.edge is code.depth)

    def outputs(self) -> dict[str, Array]:
        """By name, [P, T, B, N]."""
        names = dict.fromkeys(node.name for node in self.architecture.nodes if node.kind == "output")
        return {name: self.rows(self.values, (name, ""), 0, self.T) for name in names}

    def final_state(self, *, keep_all: bool = False) -> dict[Part, Array]:
        """The last values of all that is read from the past, [P, K, B, N]; or all values and the K before them."""
        kept = {part: depth for part, depth in self.plan.histories.items() if depth}
        end = 0 if keep_all else self.T
        return {part: self.rows(self.values, part, end - depth, self.T) for part, depth in kept.items()}
