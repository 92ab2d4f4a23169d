"""A pass over all moments, forward or backward, ready for the compiled loop: operations of each node, and their order.

It is written once for its arrays. From run to run only the addresses of the parameters may change.
"""

import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rnnlab.engine.cpu_arrays import CpuArrays
from rnnlab.engine.cpu_program import Array
from rnnlab.engine.native.elementwise import RECORD, Kernel
from rnnlab.engine.native.products import MOST_SOURCES, packed_size, scratch_width
from rnnlab.engine.native.runtime import Work, address, default_threads, perform
from rnnlab.engine.native.walk import GATHER, MULTIPLY, OPERATION
from rnnlab.engine.nodes import NodeCode

FEW_ROWS = 16  # a batch smaller than this has its products from other components made for all times at once


class Operand(NamedTuple):
    """Where an operand is: [P, times, B, N], from a column on; or [P, N], the same for all times and rows."""

    array: Array
    column: int = 0
    parameter: str | None = None  # whose memory it is, if a parameter's

    def record(self) -> tuple[int, ...]:
        """The address, and the bytes from member to member, time to time and row to row."""
        strides = self.array.strides[:-1]
        start = address(self.array) + self.column * self.array.itemsize
        return (start, *strides) if len(strides) == RECORD - 1 else (start, strides[0], 0, 0)


class _Packing(NamedTuple):
    """Matrices to be packed before the pass begins, one for each member."""

    parameter: str
    offset: int  # bytes from the start of the parameter
    strides: tuple[int, ...]  # bytes from member to member, row to row and column to column
    packed: tuple[int, int]  # the address of the packed matrices, and bytes from one to the next
    shape: tuple[int, ...]


Factors = tuple[Operand, str, Array]
"""What is multiplied: the left side, and a matrix, a view [P, depth, width] of the parameter of that name."""


class Pass:
    """Operations, list after list, and what must be done before they run."""

    def __init__(self, arrays: CpuArrays) -> None:
        self.arrays: CpuArrays = weakref.proxy(arrays)  # they hold the pass
        self.loop = arrays.program.runtime(arrays.shape.dtype)
        self.scratch_width = 0
        self._records: list[int] = []
        self._operations: list[tuple[int, int, int, int, bool]] = []
        self._sizes: list[int] = []  # multiplications of each operation for a row
        self._starts: list[int] = [0]
        self._packings: list[_Packing] = []
        self._elsewhere: list[tuple[int, str, int]] = []  # place among the records, parameter, bytes from its start
        self._held: list[Array] = []  # arrays that only the records know
        self._kernels: list[Kernel] = []  # formulas of which only addresses are written down

    def end_list(self) -> None:
        """End the present list of operations and begin the next."""
        self._starts.append(len(self._operations))

    def multiply(self, factors: Sequence[Factors], out: Operand, width: int, *, adds: bool) -> None:
        """Append: out = the sum of all products, or added to it; the sum of no products is 0."""
        if len(factors) > MOST_SOURCES:
            self.multiply(factors[:MOST_SOURCES], out, width, adds=adds)
            self.multiply(factors[MOST_SOURCES:], out, width, adds=True)
            return
        start, records = len(self._records), [*self._record(out, len(self._records))]
        copied = 0
        for left, name, matrix in factors:
            members, depth, _ = matrix.shape
            packed = self.arrays.new((members, packed_size(depth, width, self.loop.lanes)))
            offset, place = address(matrix) - self.arrays.starts[name], (address(packed), packed.strides[0])
            self._packings.append(_Packing(name, offset, matrix.strides, place, matrix.shape))
            for operand in (left, Operand(packed)):
                records += self._record(operand, start + len(records))
            records += (depth, scratch_width(depth))
            copied += scratch_width(depth)
        self._operations.append((MULTIPLY, start, width, len(factors), adds))
        self._sizes.append(width * sum(matrix.shape[1] for _, _, matrix in factors))
        self._records += records
        self.scratch_width = max(self.scratch_width, copied)

    def gather(self, tokens: Array, name: str, matrix: Array, out: Operand, *, adds: bool) -> None:
        """Append: out = rows of the matrix, a view of a parameter, or added to it."""
        by_row = Operand(matrix[:, None], parameter=name)  # from row to row as from one of a batch to the next
        self._add(GATHER, (Operand(tokens[..., None]), by_row, out), matrix.shape[2], adds)

    def compute(self, kernel: Kernel | None, operand: Callable[[str], Operand], width: int) -> None:
        """Append a compiled formula, if there is one."""
        if kernel is not None:
            self._kernels.append(kernel)
            self._add(kernel.address, tuple(operand(name) for name in kernel.operands), width, adds=False)

    def finish(self, *, backward: bool) -> None:
        """Write all lists down in the form in which the compiled loop reads them."""
        self.records = np.array(self._records, np.int64)
        operations = np.array(self._operations, np.int64).reshape(-1, OPERATION)
        operations[:, 1] = address(self.records) + 8 * operations[:, 1]
        is_ahead = runs_ahead(self.arrays)
        moments = _moments(self.arrays, is_ahead)
        self.work = Work(
            np.ascontiguousarray(moments[::-1]) if backward else moments,
            operations,
            np.array(self._starts, np.int64),
            self.scratch_width,
            self.arrays.T if is_ahead else 1,
            self._multiplications(moments),
        )

    def _multiplications(self, moments: Array) -> int:
        """The number of multiplications in all moments, for one row."""
        lists = [sum(self._sizes[start:stop]) for start, stop in pairwise(self._starts)]
        return int(np.array(lists, np.int64)[moments[:, 0]] @ moments[:, 2]) if len(moments) else 0

    def perform(self) -> None:
        """Run the pass, with the parameters that the arrays hold now."""
        starts = self.arrays.starts
        for place, name, offset in self._elsewhere:
            self.records[place] = starts[name] + offset
        pack = self.loop.pack
        for name, offset, strides, packed, shape in self._packings:
            pack(starts[name] + offset, *strides, *packed, *shape)
        perform(self.work, self.loop, self.arrays.P, self.arrays.B, self.arrays.dtype, default_threads())

    @property
    def num_bytes(self) -> int:
        """The bytes held besides the arrays: packed matrices, and moments."""
        packed = sum(place[1] * shape[0] for *_, place, shape in self._packings)
        return packed + self.work.moments.nbytes + self.records.nbytes

    def _add(self, what: int, operands: tuple[Operand, ...], width: int, adds: bool) -> None:
        self._operations.append((what, len(self._records), width, 0, adds))
        self._sizes.append(0)
        for operand in operands:
            self._records += self._record(operand, len(self._records))

    def _record(self, operand: Operand, place: int) -> tuple[int, ...]:
        """Where an operand lies, for its place among the records."""
        record = operand.record()
        if operand.parameter is not None:
            self._elsewhere.append((place, operand.parameter, record[0] - self.arrays.starts[operand.parameter]))
        else:
            self._held.append(operand.array)
        return record


def runs_ahead(arrays: CpuArrays) -> bool:
    """Whether products from other components are computed for all times at once."""
    return arrays.B < FEW_ROWS and arrays.architecture.period == 1


def _is_whole(arrays: CpuArrays, code: NodeCode) -> bool:
    """Whether a hoisted node runs at all times at once; with a second product it has room for one time only."""
    return runs_ahead(arrays) and code.program.early is None


def _moments(arrays: CpuArrays, is_ahead: bool) -> Array:
    """Every node at all its times, as numbers: list of operations, how many-th time, how many times at once.

    The list of a node is its place in the program; what it does ahead of time is a list of its own, as many places on.
    """
    program, period = arrays.program, arrays.architecture.period
    number = {node: place for place, node in enumerate(program.codes)}
    found: list[tuple[int, int, int]] = []
    for component in program.plan.components:
        nodes = [node for node in component.nodes if node in number and arrays.times(node)]
        if is_ahead:
            found += [(number[node] + len(number), 0, arrays.T) for node in nodes]
        if not component.is_hoisted:
            slots = program.plan.moments(component, arrays.T, arrays.shape.phase)
            found += [(number[node], time // period, 1) for slot in slots for node, time in slot if node in number]
        elif nodes and _is_whole(arrays, program.codes[nodes[0]]):
            found.append((number[nodes[0]], 0, arrays.T))
        elif nodes:
            found += [(number[nodes[0]], j, 1) for j in range(len(arrays.times(nodes[0])))]
    return np.array(found, np.int64).reshape(-1, 3)
