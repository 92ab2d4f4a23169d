"""The arrays of one run on the GPU: parameters, inputs, and everything that the forward pass keeps.

`autograd.py` makes one `GpuArrays` for each call of a model; `launch.py` fills it in the forward pass, `backward.py`
reads it and puts the gradients of its gates in their place.

Each part of each node's state has one array of values at all time steps, [P, K + T + L, B, N] (members, times,
sequences, units). The first K times come before the sequence, T are the sequence, and the last L are zeros for edges
that look ahead. N is the padded width (`layout.padded`). Padding columns hold finite numbers, and every matrix has rows
of zeros for them.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.gpu.compiled import Argument
from rnnlab.engine.gpu.layout import high_part, low_part, padded
from rnnlab.engine.gpu.memory_bound import turned
from rnnlab.engine.gpu.program import GpuProgram
from rnnlab.engine.gpu.sharing import processors
from rnnlab.engine.nodes import NodeCode, Part, Product
from rnnlab.graph.elements import NodeKey


class GpuArrays:
    """Parameters, inputs and everything that the forward pass keeps, for one batch of sequences."""

    def __init__(
        self,
        program: GpuProgram,
        parameters: Mapping[str, Tensor],
        inputs: Mapping[str, Tensor],
        state: Mapping[Part, Tensor] | None,
        first_step: int,
    ) -> None:
        """Tensors come by name: inputs as [P, T, B, N] (tokens as [P, T, B]), values of a state as [P, K, B, N]."""
        self.program, self.plan, self.architecture = program, program.plan, program.architecture
        self.parameters, self.inputs, self.state, self.first_step = parameters, inputs, state, first_step
        self.P, self.T, self.B = next(iter(inputs.values())).shape[:3]
        self.device = next(iter(parameters.values())).device
        # asked here because autograd runs the backward pass in a thread of its own, where the share is not set
        self.processors = processors(self.device)
        # an input that all members share is stored once, unless a state's earlier values of it may differ between them
        self.shared = frozenset(
            name for name, value in inputs.items() if self.P > 1 and value.stride(0) == 0 and state is None
        )
        self.num_rows = -(-self.T // self.architecture.period)  # at how many times a node is computed, at most
        self.values = {part: self._new_values(part, units) for part, units in program.state.items()}
        # second copies of values, in the dtype of products
        self.factors = {part: self._new_factors(part) for part in program.state if program.has_factor(part)}
        self.gates: dict[NodeKey, Tensor] = {}  # [P, times, B, gates * N]
        self.resets: dict[NodeKey, Tensor] = {}  # what the second product multiplies, [P, times, B, N]
        self.projected: dict[EdgeSpec, Tensor] = {}  # depth inputs at their node's width, [P, times, B, N]
        self._ready: dict[tuple[str, str], Tensor] = {}  # padded and converted: matrices, biases, values to multiply
        self._allocate()

    def _allocate(self) -> None:
        """Allocate what nodes keep at each of their times: gates, resets and projected depth inputs."""
        dtype = self.program.arithmetic.dtype
        for key, code in self.program.codes.items():
            width = padded(code.units)
            shape = (self.P, self.num_rows, self.B)
            # a hoisted output's sums are the output itself, up to a bias: float32; kernels of cyclic components expect
            # all gates in the dtype of products
            is_hoisted = self.plan.components[self.plan.component_of[key]].is_hoisted
            kept = torch.float32 if code.is_output and is_hoisted else dtype
            if key[0] in self.program.unread:  # its sums turn into its values in place
                self.gates[key] = self.values[key[0], ""]
            else:
                self.gates[key] = torch.empty(*shape, code.num_gates * width, dtype=kept, device=self.device)
            if code.program.early is not None:
                self.resets[key] = torch.empty(*shape, width, dtype=dtype, device=self.device)
            for product in code.products:
                if product.has_projection:
                    self.projected[product.edge] = torch.empty(*shape, width, device=self.device)

    def _new_values(self, part: Part, units: int) -> Tensor:
        """The array of a part's values, with everything filled in that the forward pass does not compute."""
        before, after = self.plan.histories.get(part, 0), self.plan.lookaheads.get(part, 0)
        is_tokens = part[0] in self.program.tokens
        given = self.inputs.get(part[0])
        members = 1 if part[0] in self.shared else self.P
        shape = (members, before + self.T + after, self.B)
        if is_tokens:
            values = torch.full(shape, -1, dtype=torch.long, device=self.device)
        else:
            width = padded(units)
            values = torch.empty(*shape, width, dtype=self.program.storage(part), device=self.device)
            if width > units and (given is not None or before):
                values[:, : before + self.T if given is not None else before, :, units:] = 0
        if given is not None:
            values[:, before : before + self.T, :, *([] if is_tokens else [slice(units)])] = given[:members]
        if self.state is not None and before:
            values[:, :before, :, *([] if is_tokens else [slice(units)])] = self.state[part]
        elif not is_tokens:
            for name, rows in self.initial_rows(part):
                values[:, rows, :, :units] = 0 if name is None else self.parameters[name][:, None, None, :]
        if after and not is_tokens:
            values[:, before + self.T :] = 0
        if self.program.has_ones(part):
            values[..., units] = 1
        for time in self.absent_times(part, -before, self.T):  # nothing computes them, but a final state contains them
            values[:, before + time] = -1 if is_tokens else 0
        return values

    def _new_factors(self, part: Part) -> Tensor:
        """A second array of a part's values, in the dtype of products, filled in where no kernel writes."""
        values, before = self.values[part], self.plan.histories.get(part, 0)
        found = torch.empty_like(values, dtype=self.program.arithmetic.dtype)
        found[:, :before] = values[:, :before]
        found[:, before + self.T :] = 0
        for time in self.absent_times(part, -before, self.T):
            found[:, before + time] = 0
        return found

    def absent_times(self, part: Part, start: int, stop: int) -> list[int]:
        """The times at which no node of that name exists whose state has the part."""
        if self.architecture.period == 1:
            return []
        return [time for time in range(start, stop) if not self.plan.exists(*part, self.first_step + time)]

    def initial_name(self, part: Part, time: int) -> str | None:
        """The parameter that gives a value before the first step; None if it is zero or no such node exists then."""
        key = (part[0], (self.first_step + time) % self.architecture.period)
        name = self.architecture.initial_name(key, part[1])
        return name if name in self.parameters else None

    def initial_rows(self, part: Part) -> list[tuple[str | None, slice]]:
        """The parameters (None for zeros) that give values before the first step, and the rows of times they fill."""
        before, period = self.plan.histories.get(part, 0), self.architecture.period
        return [
            (self.initial_name(part, row - before), slice(row, before, period)) for row in range(min(before, period))
        ]

    def times(self, key: NodeKey) -> range:
        """The times at which a node is computed."""
        period = self.architecture.period
        return range((key[1] - self.first_step) % period, self.T, period)

    def rows(self, arrays: Mapping[Part, Tensor], part: Part, start: int, stop: int) -> Tensor:
        """A view of a part at the times from `start` to `stop`, [P, times, B, N]."""
        before = self.plan.histories.get(part, 0)
        return arrays[part][:, before + start : before + stop]

    def read(self, array: Tensor, part: Part, delay: int, key: NodeKey) -> Tensor:
        """A view of what a node reads of a part over an edge of this delay, at all its times, [P, times, B, N]."""
        found = array[:, self._rows_read(part, delay, key)]
        return found.expand(self.P, *found.shape[1:])

    def _rows_read(self, part: Part, delay: int, key: NodeKey) -> slice:
        times = self.times(key)
        first = self.plan.histories.get(part, 0) + times.start - delay
        return slice(first, first + (len(times) - 1) * times.step + 1 if times else first, times.step)

    def value(self, part: Part, delay: int, key: NodeKey) -> Tensor:
        """The values that a node reads of a part at all its times, a view [P, times, B, N]."""
        return self.read(self.values[part], part, delay, key)

    def mark_missing(self, array: Tensor, argument: Argument, key: NodeKey) -> None:
        """Fill what programs of a node are about to write, in an array of a kernel, with words that no number is."""
        if argument.kind in ("values", "factor"):
            array = array[:, self._rows_read(argument.of, 0, key)]
        array.view(torch.int16 if array.itemsize == 2 else torch.int32).fill_(-1)

    def source(self, product: Product) -> Tensor:
        """What a dense edge multiplies at all times of its target, [P, times, B, N], as it is stored."""
        if product.has_projection:
            return self.projected[product.edge][:, : len(self.times(product.edge.target))]
        return self.value(product.part, product.edge.delay, product.edge.target)

    def source_factor(self, product: Product) -> Tensor:
        """The same in the dtype of products; a state stored as float32 is converted once for all its readers."""
        part, dtype = product.part, self.program.arithmetic.dtype
        delay, target = product.edge.delay, product.edge.target
        if product.has_projection:
            return self.factor(self.source(product))
        if self.architecture.period > 1:
            return self._factor_of_some(part, self._rows_read(part, delay, target))
        if self.values[part].dtype == dtype:
            return self.source(product)
        if part in self.factors:
            return self.read(self.factors[part], part, delay, target)
        if ("factor", str(part)) not in self._ready:
            self._ready["factor", str(part)] = self.values[part].to(dtype)
        return self.read(self._ready["factor", str(part)], part, delay, target)

    def _factor_of_some(self, part: Part, rows: slice) -> Tensor:
        """Some times of a part as a contiguous array in the dtype of products, made once for all edges that read it.

        `factors` cannot serve here. Kernels may have filled it for some nodes of that name but not for others, which
        are in other components.
        """
        key = ("factor", f"{part} {rows}")
        if key not in self._ready:
            self._ready[key] = self.values[part][:, rows].to(self.program.arithmetic.dtype).contiguous()
        return self._ready[key].expand(self.P, -1, -1, -1)

    def factor(self, array: Tensor) -> Tensor:
        """An array in the dtype of products."""
        return array.to(self.program.arithmetic.dtype)

    # ---------------------------------------------------------------------------------------------------- parameters

    def matrix(self, code: NodeCode, product: Product) -> Tensor:
        """The matrix of an edge, [P, rows, gates * N]: padded, in the dtype of products.

        If the edge reads tokens, which choose rows of the matrix, it is float32 and its rows are not padded.
        """
        gates = product.num_gates
        if self.reads_tokens(product):
            return self._padded(product.name, "tokens", self.program.state[product.part], gates, code, torch.float32)
        rows = padded(code.units) if product.has_projection else self.program.widths[product.part]
        return self._padded(product.name, "matrix", rows, gates, code, self.program.arithmetic.dtype)

    def projection(self, code: NodeCode, product: Product) -> Tensor:
        """The matrix that projects a depth input to its node's width, [P, rows, N]."""
        name = product.projection
        if product.part[0] in self.program.tokens:
            return self._padded(name, "tokens", self.program.state[product.part], 1, code, torch.float32)
        return self._padded(name, "matrix", self.program.widths[product.part], 1, code, self.program.arithmetic.dtype)

    def bias(self, name: str, code: NodeCode, gates: int) -> Tensor:
        """A padded bias, [P, gates * N]."""
        if ("bias", name) not in self._ready:
            found, width = self.parameters[name], padded(code.units)
            if width > code.units:
                wide = found.new_zeros(self.P, gates, width)
                wide[..., : code.units] = found.view(self.P, gates, code.units)
                found = wide
            self._ready["bias", name] = _aligned(found.reshape(self.P, -1).contiguous())
        return self._ready["bias", name]

    def _padded(self, name: str, kind: str, rows: int, gates: int, code: NodeCode, dtype: torch.dtype) -> Tensor:
        if (kind, name) not in self._ready:
            found, width = self.parameters[name], padded(code.units)
            if tuple(found.shape[1:]) == (rows, gates * width):
                self._ready[kind, name] = _aligned(found.to(dtype).contiguous())
            else:
                wide = torch.zeros(self.P, rows, gates, width, dtype=dtype, device=self.device)
                wide[:, : found.shape[1], :, : code.units] = found.view(self.P, -1, gates, code.units)
                self._ready[kind, name] = wide.view(self.P, rows, gates * width)
        return self._ready[kind, name]

    def prepared(self, kind: str, name: str, matrix: Tensor) -> Tensor:
        """A matrix as kernels take it: `matrix` or `turned` (transposed), with `_high` or `_low` if it is split."""
        if (kind, name) not in self._ready:
            found = turned(matrix) if kind.startswith("turned") else matrix
            if kind.endswith(("high", "low")):
                found = (high_part if kind.endswith("high") else low_part)(found)
            self._ready[kind, name] = found
        return self._ready[kind, name]

    def is_relu(self, code: NodeCode) -> Tensor:
        """Which members have the nonlinearity relu, [P], for a node in which members differ."""
        return self.program.is_relu(code, self.device)

    def reads_tokens(self, product: Product) -> bool:
        """Whether an edge reads tokens: integers, which choose rows of its matrix."""
        return not product.has_projection and product.part[0] in self.program.tokens

    # ------------------------------------------------------------------------------------------------------- results

    def outputs(self) -> dict[str, Tensor]:
        """The outputs by name, [P, T, B, N], without padding."""
        return {
            name: self._own(self.rows(self.values, (name, ""), 0, self.T), (name, "")) for name in self.program.outputs
        }

    def give_away(self, name: str) -> Tensor:
        """Hand over an output that nothing reads again, [P, T, B, N]; only its shape stays behind."""
        found, part = self.outputs()[name], (name, "")
        shell = found.new_empty(1).expand(self.values[part].shape)
        self.values[part] = self.gates[name, 0] = shell
        return found

    def final_state(self, *, keep_all: bool = False) -> dict[Part, Tensor]:
        """The last K values of each part that is read from the past, [P, K, B, N].

        With `keep_all`, all T values and the K before them, [P, K + T, B, N].
        """
        kept = {part: depth for part, depth in self.plan.histories.items() if depth}
        end = 0 if keep_all else self.T
        return {
            part: self._own(self.rows(self.values, part, end - depth, self.T), part) for part, depth in kept.items()
        }

    def _own(self, rows: Tensor, part: Part) -> Tensor:
        """Rows of a part for all members, without padding columns."""
        rows = rows.expand(self.P, *rows.shape[1:])
        return rows if part[0] in self.program.tokens else rows[..., : self.program.state[part]]


def _aligned(array: Tensor) -> Tensor:
    """The array, copied if it is not aligned to the 16 bytes that kernels read at a time.

    A parameter that is a slice of a larger tensor may begin anywhere.
    """
    return array.clone() if array.data_ptr() % 16 else array
