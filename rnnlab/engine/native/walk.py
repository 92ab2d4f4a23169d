"""The loop over time as machine code: it goes through a list of moments and does each one's operations.

It knows nothing of graphs or cells. An operation is a product, a gathering of rows by token, or a compiled formula;
where its operands lie, records say. So a new architecture needs no compilation, only a new cell does.

Sequences of a batch never meet, nor do members: a thread takes some rows of one member through all moments at once.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from llvmlite import ir
from numpy.typing import NDArray

from rnnlab.engine.native.code import INT, POINTER, SHORT, Function, Kind, Value
from rnnlab.engine.native.elementwise import RECORD
from rnnlab.engine.native.openmp import openmp
from rnnlab.engine.native.products import MOST_SOURCES, SOURCE, Products, gradient_scratch_size, write_products
from rnnlab.engine.native.target import Library, Target, compiled

MULTIPLY, GATHER = 0, 1  # in place of the address of a compiled formula
OPERATION = 5  # integers of an operation: what, address of its records, width, number of products, whether it adds
PRODUCT = 2 * RECORD + 2  # integers of a product: records of left and packed matrix, depth, width of a copied row
MOMENT = 3  # integers of a moment: list of operations, time, how many times at once
MOST_ROWS = 128  # of a batch that run together: more would only leave the cache


class Runtime(NamedTuple):
    """The compiled loop for one dtype."""

    walk: Any  # walk(run, thread)
    walk_worker: int  # the same as a function of `run` alone, for a team of threads
    gradients: Any  # gradients(run, thread)
    gradients_worker: int
    pack: Any  # pack(matrix, bytes from row to row, column to column, rows, columns, packed)
    lanes: int
    library: Library  # where they live


class Work(NamedTuple):
    """What there is to do: lists of operations, and moments that name them."""

    moments: NDArray[np.int64]  # [number, MOMENT]
    operations: NDArray[np.int64]  # [number, OPERATION]
    starts: NDArray[np.int64]  # where each list begins in `operations`; one more for the end
    scratch_width: int  # the most numbers that an operation copies of a row
    times: int  # the most times at once


@cache
def runtime(dtype: str, target: Target) -> Runtime:
    """The loop, compiled once."""
    kind = Kind(dtype, target)
    module = ir.Module()
    products = write_products(module, kind)
    walk = _write_walk(module, kind, products, _write_gather(module, kind))
    gradients = _write_all_gradients(module, kind, products.gradients)
    _write_worker(module, kind, "walk_worker", walk)
    _write_worker(module, kind, "gradients_worker", gradients)
    library = compiled(str(module), target)
    number, place = ctypes.c_int64, ctypes.c_void_p
    return Runtime(
        *(library.function("walk", place, number), library.address("walk_worker")),
        *(library.function("all_gradients", place, number), library.address("gradients_worker")),
        library.function("pack", place, number, number, number, number, place),
        kind.lanes,
        library,
    )


def perform(work: Work, loop: Runtime, members: int, batch: int, dtype: Any, threads: int) -> None:
    """Do all the work, on so many threads."""
    threads = min(threads, openmp().most_threads)
    chunks = -(-batch // MOST_ROWS) if work.times == 1 else 1
    if work.times == 1 and members < threads:
        chunks = max(chunks, min(batch, -(-threads // members)))
    threads = min(threads, members * chunks)
    rows = -(-batch // chunks)
    each = rows * work.times * work.scratch_width
    scratch = np.empty((threads, each), dtype)
    run = [
        *(openmp().thread_number, threads, address(scratch), each * scratch.itemsize),
        *(address(work.moments), len(work.moments), address(work.operations), address(work.starts)),
        *(batch, members, chunks),
    ]
    _together(loop.walk, loop.walk_worker, run, threads)


def matrix_gradients(jobs: NDArray[np.int64], loop: Runtime, dtype: Any, threads: int) -> None:
    """Gradients of matrices, [number, JOB]; `products` says what a job is."""
    threads = min(threads, openmp().most_threads)
    scratch = np.empty((threads, gradient_scratch_size(loop.lanes)), dtype)
    run = [openmp().thread_number, threads, address(scratch), scratch[0].nbytes, address(jobs), len(jobs)]
    _together(loop.gradients, loop.gradients_worker, run, threads)


def _together(function: Any, worker: int, run: Sequence[int], threads: int) -> None:
    given = np.array(run, np.int64)
    if threads == 1:
        function(address(given), 0)
    else:
        openmp().parallel(worker, address(given), threads, 0)


def address(array: NDArray[Any]) -> int:
    """Where an array lies."""
    return array.__array_interface__["data"][0]


def default_threads() -> int:
    """As many as torch uses."""
    return torch.get_num_threads()


def _write_walk(module: ir.Module, kind: Kind, products: Products, gather: ir.Function) -> ir.Function:
    code = Function(module, "walk", [POINTER, INT], kind)
    run, thread = code.args
    build = code.build
    threads, scratch = _threads_and_scratch(code, run, thread)
    moments, operations, starts = (code.load_pointer(run, field) for field in (4, 6, 7))
    num_moments, batch, members, chunks = (code.load_int(run, field) for field in (5, 8, 9, 10))
    sources = code.room(8 * SOURCE * MOST_SOURCES)
    formula = ir.FunctionType(ir.VoidType(), [POINTER, INT, INT, INT, INT, INT]).as_pointer()
    with code.loop(thread, build.mul(members, chunks), threads) as item:
        member, chunk = build.sdiv(item, chunks), build.srem(item, chunks)
        first = build.sdiv(build.mul(batch, chunk), chunks)
        last = build.sdiv(build.mul(batch, build.add(chunk, INT(1))), chunks)
        with code.loop(INT(0), num_moments) as number:
            moment = code.element(moments, number, 8 * MOMENT)
            which, time, times = (code.load_int(moment, field) for field in range(MOMENT))
            rows = build.mul(build.sub(last, first), times)
            begin = code.element(starts, which, 8)
            with code.loop(code.load_int(begin, 0), code.load_int(begin, 1)) as each:
                operation = code.element(operations, each, 8 * OPERATION)
                what, width, count, adds = (code.load_int(operation, field) for field in (0, 2, 3, 4))
                records = code.load_pointer(operation, 1)
                blocks = [code.function.append_basic_block() for _ in range(4)]
                switch = build.switch(what, blocks[2])
                switch.add_case(INT(MULTIPLY), blocks[0])
                switch.add_case(INT(GATHER), blocks[1])
                build.position_at_end(blocks[0])
                out, out_row = _place(code, records, 0, member, time, first)
                used = code.variable(scratch)
                with code.loop(INT(0), count) as number_of_product:
                    product = code.at(
                        records, build.add(INT(8 * RECORD), build.mul(number_of_product, INT(8 * PRODUCT)))
                    )
                    source = code.element(sources, number_of_product, 8 * SOURCE)
                    left, left_row = _place(code, product, 0, member, time, first)
                    packed, _ = _place(code, product, 1, member, time, first)
                    depth = code.load_int(product, 2 * RECORD)
                    fields = [build.ptrtoint(left, INT), left_row, INT(kind.bytes), build.ptrtoint(packed, INT), depth]
                    for field, value in enumerate(fields):
                        code.store_int(value, source, field)
                    room = build.load(used, typ=POINTER)
                    build.call(products.spread, [source, rows, room])
                    width_of_copy = code.load_int(product, 2 * RECORD + 1)
                    build.store(code.element(room, build.mul(rows, width_of_copy)), used)
                build.call(products.multiply, [sources, count, out, out_row, rows, width, adds])
                build.branch(blocks[3])
                build.position_at_end(blocks[1])
                tokens, matrix, target = (
                    _place(code, records, operand, member, time, start)
                    for operand, start in ((0, first), (1, INT(0)), (2, first))
                )
                build.call(gather, [*tokens, *matrix, *target, rows, width, adds])
                build.branch(blocks[3])
                build.position_at_end(blocks[2])
                build.call(build.inttoptr(what, formula), [records, width, member, time, first, rows])
                build.branch(blocks[3])
                build.position_at_end(blocks[3])
    return code.finish()


def _place(code: Function, records: Value, operand: int, member: Value, time: Value, row: Value) -> tuple[Value, Value]:
    """The address of an operand at a member, time and row, and the bytes from row to row."""
    build = code.build
    start, by_member, by_time, by_row = (code.load_int(records, RECORD * operand + field) for field in range(RECORD))
    moved = build.add(build.mul(member, by_member), build.add(build.mul(time, by_time), build.mul(row, by_row)))
    return build.inttoptr(build.add(start, moved), POINTER), by_row


def _write_gather(module: ir.Module, kind: Kind) -> ir.Function:
    """The rows of a matrix that tokens name, or added; -1 is no token and takes zeros."""
    code = Function(module, "gather", [POINTER, INT, POINTER, INT, POINTER, INT, INT, INT, INT], kind, inner=True)
    tokens, token_bytes, matrix, matrix_bytes, out, out_bytes, rows, width, adds = code.args
    build = code.build
    with code.loop(INT(0), rows) as row:
        token = build.load(code.at(tokens, build.mul(row, token_bytes)), typ=INT)
        exists = build.icmp_signed(">=", token, INT(0))
        source = code.at(matrix, build.mul(build.select(exists, token, INT(0)), matrix_bytes))
        target = code.at(out, build.mul(row, out_bytes))

        def copy(column: Value, mask: Value | None) -> None:
            found = build.select(exists, code.load(code.element(source, column), mask), code.number(0.0))
            place = code.element(target, column)
            old = build.select(build.icmp_signed("!=", adds, INT(0)), code.load(place, mask), code.number(0.0))
            code.store(build.fadd(found, old), place, mask)

        code.columns(width, copy)
    return code.finish()


def _write_all_gradients(module: ir.Module, kind: Kind, gradients: ir.Function) -> ir.Function:
    code = Function(module, "all_gradients", [POINTER, INT], kind)
    run, thread = code.args
    threads, scratch = _threads_and_scratch(code, run, thread)
    code.build.call(gradients, [code.load_pointer(run, 4), code.load_int(run, 5), thread, threads, scratch])
    return code.finish()


def _threads_and_scratch(code: Function, run: Value, thread: Value) -> tuple[Value, Value]:
    """How many threads there are, and this one's own memory; all that runs on several begins with these."""
    offset = code.build.mul(code.load_int(run, 3), thread)
    return code.load_int(run, 1), code.at(code.load_pointer(run, 2), offset)


def _write_worker(module: ir.Module, kind: Kind, name: str, function: ir.Function) -> None:
    """What each thread of a team calls: the function with its own number."""
    code = Function(module, name, [POINTER], kind)
    (run,) = code.args
    thread_number = code.build.inttoptr(code.load_int(run, 0), ir.FunctionType(SHORT, []).as_pointer())
    thread = code.build.sext(code.build.call(thread_number, []), INT)
    code.build.call(function, [run, thread])
    code.finish()
