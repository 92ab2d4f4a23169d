"""What the compiled loop is to do in one pass: the operations of each node, and the moments in order."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rnnlab.engine.cpu_arrays import CpuArrays
from rnnlab.engine.cpu_program import Array, NodeCode
from rnnlab.engine.native.elementwise import Kernel
from rnnlab.engine.native.products import packed_size
from rnnlab.engine.native.walk import GATHER, MULTIPLY, OPERATION, Work, address, default_threads, perform

FEW_ROWS = 16  # a batch smaller than this has its products from other components made for all times at once


class Operand(NamedTuple):
    """Where something lies: [P, times, B, N], from a column on; or [P, N], the same for all times and rows."""

    array: Array
    column: int = 0

    def record(self) -> tuple[int, int, int, int]:
        """Address, and bytes from member to member, time to time and row to row."""
        strides = self.array.strides[:-1]
        start = address(self.array) + self.column * self.array.itemsize
        return (start, strides[0], *(strides[1:] if len(strides) == 3 else (0, 0)))  # type: ignore[return-value]


class Operations:
    """Operations being gathered, list after list."""

    def __init__(self, arrays: CpuArrays) -> None:
        self.arrays = arrays
        self.loop = arrays.program.runtime(arrays.dtype.name)
        self.records: list[int] = []
        self.operations: list[tuple[int, int, int, int, bool]] = []
        self.starts: list[int] = [0]
        self.deepest = 0
        self._held: list[Array] = []  # arrays that only the records know

    def end_list(self) -> None:
        """What follows belongs to the next list."""
        self.starts.append(len(self.operations))

    def multiply(self, left: Operand, matrix: Array, out: Operand, *, adds: bool) -> None:
        """out = left @ matrix, or added to it; the matrix is [P, depth, width], transposed or not."""
        depth, width = matrix.shape[1:]
        self._add(MULTIPLY, (left, Operand(self._packed(matrix)), out), width, depth, adds)
        self.deepest = max(self.deepest, depth)

    def clear(self, out: Operand, width: int) -> None:
        """out = 0: a product of no depth."""
        self._add(MULTIPLY, (out, out, out), width, 0, adds=False)

    def gather(self, tokens: Array, matrix: Array, out: Operand, *, adds: bool) -> None:
        """out = rows of the matrix, or added to it."""
        by_row = Operand(matrix[:, None])  # [P, 1, rows, width]: from row to row as from one of a batch to the next
        self._add(GATHER, (Operand(tokens[..., None]), by_row, out), matrix.shape[2], 0, adds)

    def compute(self, kernel: Kernel | None, operand: Callable[[str], Operand], width: int) -> None:
        """A compiled formula, where there is one."""
        if kernel is not None:
            self._add(kernel.address, tuple(operand(name) for name in kernel.operands), width, 0, adds=False)

    def perform(self, *, backward: bool) -> None:
        """Do it all."""
        records = np.array(self.records, np.int64)
        operations = np.array(self.operations, np.int64).reshape(-1, OPERATION)
        operations[:, 1] = address(records) + 8 * operations[:, 1]
        is_ahead = runs_ahead(self.arrays)
        moments = _moments(self.arrays, is_ahead)
        work = Work(
            np.ascontiguousarray(moments[::-1]) if backward else moments,
            operations,
            np.array(self.starts, np.int64),
            self.deepest,
            self.arrays.T if is_ahead else 1,
        )
        perform(work, self.loop, self.arrays.P, self.arrays.B, self.arrays.dtype, default_threads())

    def _add(self, what: int, operands: tuple[Operand, ...], width: int, depth: int, adds: bool) -> None:
        self.operations.append((what, len(self.records), width, depth, adds))
        for operand in operands:
            self.records += operand.record()
            self._held.append(operand.array)

    def _packed(self, matrix: Array) -> Array:
        members, rows, columns = matrix.shape
        packed = self.arrays.borrow((members, packed_size(rows, columns, self.loop.lanes)))
        for source, target in zip(matrix, packed, strict=True):
            self.loop.pack(address(source), *source.strides, rows, columns, address(target))
        return packed


def runs_ahead(arrays: CpuArrays) -> bool:
    """Whether products from other components are made for all times at once."""
    return arrays.B < FEW_ROWS and arrays.architecture.period == 1


def is_whole(arrays: CpuArrays, code: NodeCode) -> bool:
    """Whether a hoisted node runs at all times at once; with a second product it needs room for one time only."""
    return runs_ahead(arrays) and code.program.early is None


def _moments(arrays: CpuArrays, is_ahead: bool) -> Array:
    """Every node at all its times, as numbers: list of operations, how many-th time, how many times at once.

    The list of a node is its place in the program; what it does ahead of time is a list of its own, as many places on.
    """
    program, period = arrays.program, arrays.architecture.period
    key = (arrays.T, arrays.first_step % period, is_ahead)
    if key not in program.moments:
        number = {node: place for place, node in enumerate(program.codes)}
        found: list[tuple[int, int, int]] = []
        for component in program.plan.components:
            nodes = [node for node in component.nodes if node in number and arrays.times(node)]
            if is_ahead:
                found += [(number[node] + len(number), 0, arrays.T) for node in nodes]
            if not component.is_hoisted:
                slots = program.plan.moments(component, arrays.T, arrays.first_step)
                found += [(number[node], time // period, 1) for slot in slots for node, time in slot if node in number]
            elif nodes and is_ahead and is_whole(arrays, program.codes[nodes[0]]):
                found.append((number[nodes[0]], 0, arrays.T))
            elif nodes:
                found += [(number[nodes[0]], j, 1) for j in range(len(arrays.times(nodes[0])))]
        if len(program.moments) > 100:  # sequences of ever new lengths
            program.moments.clear()
        program.moments[key] = np.array(found, np.int64).reshape(-1, 3)
    return program.moments[key]
