"""The arrays in which one batch of sequences runs on the CPU; the next batch of the same shape uses them again.

Values of all time steps are in one array for each part of each node's state, [P, K + T + L, B, N]: K rows of what came
before, T of the sequence, and L rows of zeros for nodes that look ahead. A read with delay d is then the same array
shifted by d rows.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.cpu_program import Array, CpuProgram
from rnnlab.engine.native.runtime import address
from rnnlab.engine.nodes import NodeCode, Part, Product, output_names
from rnnlab.graph.elements import NodeKey

if TYPE_CHECKING:
    from rnnlab.engine.cpu_backward import Backward
    from rnnlab.engine.cpu_pass import Pass


class Shape(NamedTuple):
    """The sizes that arrays are made for."""

    members: int
    steps: int
    batch: int
    dtype: str
    phase: int  # of the first step
    shared: frozenset[str]  # inputs that are the same for all members, and held once
    only_last: bool  # whether of the outputs only the last step is wanted


class CpuArrays:
    """Everything that the forward pass reads and computes; passes written for these arrays are kept with them."""

    def __init__(self, program: CpuProgram, shape: Shape) -> None:
        self.program, self.plan, self.architecture = program, program.plan, program.architecture
        self.shape, self.dtype = shape, np.dtype(shape.dtype)
        self.P, self.T, self.B = shape.members, shape.steps, shape.batch
        self.values = {part: self._new_values(part, units) for part, units in program.state.items()}
        self.gates: dict[NodeKey, Array] = {}  # [P, times, B, gates * N]
        self.resets: dict[NodeKey, Array] = {}  # what the second product multiplies
        self.projected: dict[EdgeSpec, Array] = {}
        for key, code in program.codes.items():
            room = (self.P, len(self.times(key)), self.B)
            if code.gate_is_state:
                self.gates[key] = self.new_state(self.values, code)
            else:
                self.gates[key] = self.new((*room, code.num_gates * code.units))
            if code.program.early is not None:
                self.resets[key] = self.new((*room, code.units))
            for product in code.products:
                if product.has_projection:
                    self.projected[product.edge] = self.new((*room, code.units))
        self.parameters: Mapping[str, Array] = {}
        self.starts: dict[str, int] = {}  # where each parameter lies
        self.has_state = False
        self.forward_pass: Pass | None = None
        self.backward_passes: dict[frozenset[str], Backward] = {}  # by the inputs whose gradients are asked for

    def new(self, shape: tuple[int, ...]) -> Array:
        """Room for numbers."""
        return np.empty(shape, self.dtype)

    def load(
        self, parameters: Mapping[str, Array], inputs: Mapping[str, Array], state: Mapping[Part, Array] | None
    ) -> None:
        """Load what a run starts from, inputs [P, T, B, N] (tokens [P, T, B]) and a state [P, K, B, N]."""
        self.parameters, self.has_state = parameters, state is not None
        self.starts = {name: address(value) for name, value in parameters.items()}
        for part, values in self.values.items():
            before, tokens = self.plan.histories.get(part, 0), part[0] in self.program.tokens
            if part[0] in inputs:
                held = values[:1] if part[0] in self.shape.shared else values
                held[:, before : before + self.T] = inputs[part[0]][: len(held)]
            if state is not None and before:
                values[:, :before] = state[part]
            elif before:
                for rows, name in self.initial(part):
                    values[:, rows] = parameters[name][:, None, None, :] if name else (-1 if tokens else 0)
            for time in self.absent_times(part, -before, self.T):  # nothing computes these, a state shows them
                values[:, before + time] = -1 if tokens else 0

    def _new_values(self, part: Part, units: int) -> Array:
        before, after = self.plan.histories.get(part, 0), self.plan.lookaheads.get(part, 0)
        members = 1 if part[0] in self.shape.shared else self.P
        room = (members, before + self.T + after, self.B)
        is_tokens = part[0] in self.program.tokens
        values = np.empty(room, np.int64) if is_tokens else self.new((*room, units))
        values[:, before + self.T :] = -1 if is_tokens else 0
        if members == self.P:
            return values
        # not broadcast_to: that forgets the stride of an axis of length 1
        return np.lib.stride_tricks.as_strided(values, (self.P, *values.shape[1:]), (0, *values.strides[1:]))

    def absent_times(self, part: Part, start: int, stop: int) -> list[int]:
        """The times at which no node of that name exists, or none whose state has the part."""
        if self.architecture.period == 1:
            return []
        return [time for time in range(start, stop) if not self.plan.exists(*part, self.shape.phase + time)]

    def initial(self, part: Part) -> list[tuple[slice, str | None]]:
        """The rows of what came before, phase by phase, and the parameter that stands for them, if they are learned."""
        before, period = self.plan.histories.get(part, 0), self.architecture.period
        found: list[tuple[slice, str | None]] = []
        for row in range(min(before, period)):
            key = (part[0], (self.shape.phase + row - before) % period)
            name = self.architecture.initial_name(key, part[1])
            found.append((slice(row, before, period), name if name in self.parameters else None))
        return found

    def times(self, key: NodeKey) -> range:
        """The times at which a node is computed."""
        period = self.architecture.period
        times = range((key[1] - self.shape.phase) % period, self.T, period)
        if self.shape.only_last and key[0] in self.program.unread:
            return times[-1:] if self.T - 1 in times else times[:0]
        return times

    @property
    def first_output(self) -> int:
        """The time from which on outputs are wanted."""
        return self.T - 1 if self.shape.only_last else 0

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
        return self.read(arrays, (code.key[0], code.first_part if part is None else part), 0, code.key)

    def outputs(self) -> dict[str, Array]:
        """By name, [P, T, B, N]; one step of them where only the last is wanted."""
        names, first = output_names(self.architecture), self.first_output
        return {name: self.rows(self.values, (name, ""), first, self.T) for name in names}

    def final_state(self, *, keep_all: bool = False) -> dict[Part, Array]:
        """The last values of parts that are read from the past, [P, K, B, N]; or all values and the K before them."""
        kept = {part: depth for part, depth in self.plan.histories.items() if depth}
        end = 0 if keep_all else self.T
        return {part: self.rows(self.values, part, end - depth, self.T) for part, depth in kept.items()}

    @property
    def num_bytes(self) -> int:
        """How many bytes are held, passes included."""
        held = [*self.values.values(), *self.gates.values(), *self.resets.values(), *self.projected.values()]
        passes = [self.forward_pass] if self.forward_pass is not None else []
        for each in self.backward_passes.values():
            held += [*each.dvalues.values(), *each.dprojected.values()]
            passes.append(each.operations)
        return sum(array.nbytes for array in held) + sum(each.num_bytes for each in passes)
