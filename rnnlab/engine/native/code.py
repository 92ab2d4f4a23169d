"""Writing functions for LLVM: loops, variables, and vectors of numbers with a masked remainder."""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from llvmlite import ir

from rnnlab.engine.native.target import Target

POINTER = ir.PointerType()
INT = ir.IntType(64)
BIT = ir.IntType(1)
SHORT = ir.IntType(32)

Value = Any
"""A number, vector or address in the code being written."""

Call = tuple[Value, list[Value]]
"""A function and what it is given."""


@lru_cache(maxsize=1024)
def _filled(vector: ir.VectorType, value: float, sign: float = 1.0) -> Value:
    """A constant in all lanes, made once: each writes its text once, which is a third of the time that a cell takes.

    The sign tells 0.0 from -0.0, which are equal.
    """
    return ir.Constant(vector, [value] * vector.count)


class Kind:
    """Float32 or float64 on a target: scalars, vectors, and the integers of the same size."""

    def __init__(self, dtype: str, target: Target) -> None:
        self.dtype, self.target = dtype, target
        self.bytes = {"float32": 4, "float64": 8}[dtype]
        self.lanes = target.vector_bytes // self.bytes
        self.scalar = ir.FloatType() if dtype == "float32" else ir.DoubleType()
        self.vector = ir.VectorType(self.scalar, self.lanes)
        self.integers = ir.VectorType(ir.IntType(8 * self.bytes), self.lanes)
        self.mask = ir.VectorType(BIT, self.lanes)
        self.suffix = f"v{self.lanes}f{8 * self.bytes}"


class Function:
    """A function being written."""

    def __init__(self, module: ir.Module, name: str, arguments: Sequence[Any], kind: Kind, *, inner: bool = False):
        self.module, self.kind = module, kind
        self.function = ir.Function(module, ir.FunctionType(ir.VoidType(), arguments), name)
        if inner:
            self.function.linkage = "internal"
        self.build = ir.IRBuilder(self.function.append_basic_block())
        self.args: Sequence[Value] = self.function.args

    @contextmanager
    def loop(self, start: Value, stop: Value, step: int | Value = 1) -> Generator[Value]:
        """Code for every index from `start` while it is below `stop`."""
        build = self.build
        step = INT(step) if isinstance(step, int) else step
        index = self.variable(start)
        head, body, end = (self.function.append_basic_block() for _ in range(3))
        build.branch(head)
        build.position_at_end(head)
        value = build.load(index, typ=INT)
        build.cbranch(build.icmp_signed("<", value, stop), body, end)
        build.position_at_end(body)
        yield value
        build.store(build.add(value, step), index)
        build.branch(head)
        build.position_at_end(end)

    def call_one(self, which: Value, calls: Mapping[int, Call], otherwise: Call | None = None) -> None:
        """The call of the number that `which` is."""
        build = self.build
        done = self.function.append_basic_block()
        other = self.function.append_basic_block() if otherwise else done
        switch = build.switch(which, other)
        for number, (function, arguments) in calls.items():
            block = self.function.append_basic_block()
            switch.add_case(INT(number), block)
            build.position_at_end(block)
            build.call(function, arguments)
            build.branch(done)
        if otherwise:
            build.position_at_end(other)
            build.call(*otherwise)
            build.branch(done)
        build.position_at_end(done)

    def variable(self, value: Value) -> Value:
        """Room for a value that changes; LLVM makes registers of such."""
        with self.build.goto_entry_block():
            room = self.build.alloca(value.type)
        self.build.store(value, room)
        return room

    def at(self, base: Value, offset: Value) -> Value:
        """An address some bytes on."""
        return self.build.gep(base, [offset], source_etype=ir.IntType(8))

    def element(self, base: Value, number: Value, size: int | None = None) -> Value:
        """The address of the `number`-th element, of this kind or of `size` bytes each."""
        return self.at(base, self.build.mul(number, INT(size or self.kind.bytes)))

    def load_int(self, base: Value, number: int) -> Value:
        """An integer of a record."""
        return self.build.load(self.at(base, INT(8 * number)), typ=INT)

    def store_int(self, value: Value, base: Value, number: int) -> None:
        """Write an integer of a record."""
        self.build.store(value, self.at(base, INT(8 * number)))

    def room(self, size: int) -> Value:
        """So many bytes of the function's own."""
        with self.build.goto_entry_block():
            return self.build.alloca(INT, size // 8)

    def load_pointer(self, base: Value, number: int) -> Value:
        """An address of a record."""
        return self.build.inttoptr(self.load_int(base, number), POINTER)

    def load_scalar(self, address: Value) -> Value:
        """One number."""
        return self.build.load(address, typ=self.kind.scalar)

    def load(self, address: Value, mask: Value | None = None) -> Value:
        """A vector; lanes outside the mask are not read and hold 0."""
        if mask is None:
            return self.build.load(address, typ=self.kind.vector, align=self.kind.bytes)
        arguments = [POINTER, SHORT, self.kind.mask, self.kind.vector]
        load = self.intrinsic(f"llvm.masked.load.{self.kind.suffix}.p0", self.kind.vector, arguments)
        return self.build.call(load, [address, SHORT(self.kind.bytes), mask, self.number(0.0)])

    def store(self, value: Value, address: Value, mask: Value | None = None) -> None:
        """Write a vector, or the lanes of it inside the mask."""
        if mask is None:
            self.build.store(value, address, align=self.kind.bytes)
            return
        arguments = [self.kind.vector, POINTER, SHORT, self.kind.mask]
        store = self.intrinsic(f"llvm.masked.store.{self.kind.suffix}.p0", ir.VoidType(), arguments)
        self.build.call(store, [value, address, SHORT(self.kind.bytes), mask])

    def number(self, value: float) -> Value:
        """A vector of one constant."""
        return _filled(self.kind.vector, value, math.copysign(1.0, value))

    def integer(self, value: int) -> Value:
        """A vector of one integer constant."""
        return _filled(self.kind.integers, value, math.copysign(1.0, value))

    def splat(self, scalar: Value) -> Value:
        """A vector of one number."""
        undefined = ir.Constant(ir.VectorType(scalar.type, self.kind.lanes), ir.Undefined)
        first = self.build.insert_element(undefined, scalar, SHORT(0))
        zeros = _filled(ir.VectorType(SHORT, self.kind.lanes), 0)
        return self.build.shuffle_vector(first, undefined, zeros)

    def first_lanes(self, count: Value) -> Value:
        """A mask of the first `count` lanes; all where it is more than there are."""
        numbers = ir.Constant(ir.VectorType(INT, self.kind.lanes), list(range(self.kind.lanes)))
        return self.build.icmp_signed("<", numbers, self.splat(count))

    def intrinsic(self, name: str, result: Any, arguments: Sequence[Any]) -> Any:
        """A function that LLVM knows by name."""
        known = self.module.globals.get(name)
        return known or ir.Function(self.module, ir.FunctionType(result, arguments), name)

    def fused(self, x: Value, y: Value, z: Value) -> Value:
        """x * y + z, rounded once where the machine can."""
        vector = self.kind.vector
        return self.build.call(self.intrinsic(f"llvm.fmuladd.{self.kind.suffix}", vector, [vector] * 3), [x, y, z])

    def columns(self, width: Value, body: Callable[[Value, Value | None], None]) -> None:
        """The code of `body(first column, mask)` for vectors of columns, the last of them masked."""
        build, lanes = self.build, self.kind.lanes
        whole = build.and_(width, INT(-lanes))
        with self.loop(INT(0), whole, lanes) as column:
            body(column, None)
        rest = build.sub(width, whole)
        with build.if_then(build.icmp_signed(">", rest, INT(0))):
            body(whole, self.first_lanes(rest))

    def finish(self) -> Any:
        """The end of the function."""
        self.build.ret_void()
        return self.function
