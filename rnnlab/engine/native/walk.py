"""The loop over time as machine code: it goes through a list of moments and does each one's operations.

It knows nothing of graphs or cells. An operation is a sum of products, a gathering of rows by token, or a compiled
formula; where its operands lie, records say. So a new architecture needs no compilation, only a new cell does.
"""

from llvmlite import ir

from rnnlab.engine.native.code import INT, POINTER, SHORT, Function, Kind, Value
from rnnlab.engine.native.elementwise import RECORD
from rnnlab.engine.native.products import MOST_SOURCES, SOURCE, Products, write_products

MULTIPLY, GATHER = 0, 1  # in place of the address of a compiled formula
OPERATION = 5  # integers of an operation: what, address of its records, width, number of products, whether it adds
PRODUCT = 2 * RECORD + 2  # integers of a product: records of left and packed matrix, depth, width of a copied row
MOMENT = 3  # integers of a moment: list of operations, time, how many times at once
BLOCK = 256  # rows that a sum of products takes at once, and has room to copy

_STEP = [POINTER, INT, INT, INT, INT, INT]  # what every operation is given: records, width, member, time, row, rows


def write_loop(module: ir.Module, kind: Kind) -> None:
    """The functions `walk`, `all_gradients`, `pack`, and the first two once more for a team of threads."""
    products = write_products(module, kind)
    walk = _write_walk(module, kind, _write_sum(module, kind, products), _write_gather(module, kind))
    gradients = _write_all_gradients(module, kind, products.gradients)
    _write_worker(module, kind, "walk_worker", walk)
    _write_worker(module, kind, "gradients_worker", gradients)


def _write_walk(module: ir.Module, kind: Kind, multiply: ir.Function, gather: ir.Function) -> ir.Function:
    """walk(run, thread, threads): every moment for the members and rows of one thread."""
    code = Function(module, "walk", [POINTER, INT, INT], kind)
    run, thread, threads = code.args
    build = code.build
    scratch = _scratch(code, run, thread)
    moments, operations, starts = (code.load_pointer(run, field) for field in (4, 6, 7))
    num_moments, batch, members, chunks = (code.load_int(run, field) for field in (5, 8, 9, 10))
    formula = ir.FunctionType(ir.VoidType(), _STEP).as_pointer()
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
                given = [code.load_pointer(operation, 1), width, member, time, first, rows]
                calls = {MULTIPLY: (multiply, [*given, count, adds, scratch]), GATHER: (gather, [*given, adds])}
                code.call_one(what, calls, otherwise=(build.inttoptr(what, formula), given))
    return code.finish()


def _write_sum(module: ir.Module, kind: Kind, products: Products) -> ir.Function:
    """A sum of products: the record of what it is written to, then those of each product."""
    code = Function(module, "sum_products", [*_STEP, INT, INT, POINTER], kind, inner=True)
    records, width, member, time, first, rows, count, adds, scratch = code.args
    build = code.build
    sources = code.room(8 * SOURCE * MOST_SOURCES)
    with code.loop(INT(0), rows, BLOCK) as start:
        rest, row = build.sub(rows, start), build.add(first, start)
        num_rows = build.select(build.icmp_signed("<", rest, INT(BLOCK)), rest, INT(BLOCK))
        room = code.variable(scratch)
        with code.loop(INT(0), count) as number:
            product = code.at(records, build.add(INT(8 * RECORD), build.mul(number, INT(8 * PRODUCT))))
            left, left_row = _place(code, product, 0, member, time, row)
            packed, _ = _place(code, product, 1, member, time, row)
            depth, copied = (code.load_int(product, 2 * RECORD + field) for field in range(2))
            source = code.element(sources, number, 8 * SOURCE)
            fields = [build.ptrtoint(left, INT), left_row, INT(kind.bytes), build.ptrtoint(packed, INT), depth]
            for field, value in enumerate(fields):
                code.store_int(value, source, field)
            place = build.load(room, typ=POINTER)
            build.call(products.spread, [source, num_rows, place])
            build.store(code.element(place, build.mul(num_rows, copied)), room)
        out, out_row = _place(code, records, 0, member, time, row)
        build.call(products.multiply, [sources, count, out, out_row, num_rows, width, adds])
    return code.finish()


def _place(code: Function, records: Value, operand: int, member: Value, time: Value, row: Value) -> tuple[Value, Value]:
    """The address of an operand at a member, time and row, and the bytes from row to row."""
    build = code.build
    start, by_member, by_time, by_row = (code.load_int(records, RECORD * operand + field) for field in range(RECORD))
    moved = build.add(build.mul(member, by_member), build.add(build.mul(time, by_time), build.mul(row, by_row)))
    return build.inttoptr(build.add(start, moved), POINTER), by_row


def _write_gather(module: ir.Module, kind: Kind) -> ir.Function:
    """The rows of a matrix that tokens name, or added; -1 is no token and takes zeros."""
    code = Function(module, "gather", [*_STEP, INT], kind, inner=True)
    records, width, member, time, first, rows, adds = code.args
    build = code.build
    (tokens, token_bytes), (matrix, matrix_bytes), (out, out_bytes) = (
        _place(code, records, operand, member, time, row) for operand, row in ((0, first), (1, INT(0)), (2, first))
    )
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
    code = Function(module, "all_gradients", [POINTER, INT, INT], kind)
    run, thread, threads = code.args
    scratch = _scratch(code, run, thread)
    code.build.call(gradients, [code.load_pointer(run, 4), code.load_int(run, 5), thread, threads, scratch])
    return code.finish()


def _scratch(code: Function, run: Value, thread: Value) -> Value:
    """A thread's own memory."""
    return code.at(code.load_pointer(run, 2), code.build.mul(code.load_int(run, 3), thread))


def _write_worker(module: ir.Module, kind: Kind, name: str, function: ir.Function) -> None:
    """What each thread of a team calls: the function with its own number and theirs, which the team itself knows."""
    code = Function(module, name, [POINTER], kind)
    (run,) = code.args
    question = ir.FunctionType(SHORT, []).as_pointer()
    answers = [code.build.call(code.build.inttoptr(code.load_int(run, field), question), []) for field in range(2)]
    code.build.call(function, [run, *(code.build.sext(answer, INT) for answer in answers)])
    code.finish()
