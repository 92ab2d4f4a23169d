"""Matrix products: small, many, and with the same matrix again and again.

The matrix is packed once for a whole sequence: panels two vectors wide, each with its rows one after another, so that
a product reads it straight through. A tile of rows by one panel stays in registers until its sum is done.

The gradient of a matrix is the one product whose sum runs over all times: it packs as it goes.
"""

from typing import NamedTuple

from llvmlite import ir

from rnnlab.engine.native.code import INT, POINTER, Function, Kind, Value

VECTORS = 2  # a panel is so many vectors wide, the last one maybe one
MOST_SOURCES = 16  # products that one tile gathers
SOURCE = 5  # integers of a source: left, bytes from row to row and from column to column, packed matrix, depth
_PADDED = 256  # from so many columns on, rows are copied apart: powers of two would share few lines of the cache
_SPREAD = 16  # numbers of a line of the cache, and of the gap between copied rows
_BLOCK = 256  # rows that a gradient takes at once: what they multiplied stays near for all panels
JOB = 10  # integers of a gradient, see `_write_gradients`
ROWS, DEPTH, WIDTH = 4, 5, 6  # which of them say how many rows both matrices have, and columns the left and the right


class Products(NamedTuple):
    """The functions being written."""

    multiply: ir.Function
    spread: ir.Function
    gradients: ir.Function


def packed_size(rows: int, columns: int, lanes: int) -> int:
    """How many numbers a packed matrix takes."""
    return rows * -(-columns // lanes) * lanes


def scratch_width(depth: int) -> int:
    """How many numbers the copy of a row of the left matrix takes, with the gap to the next."""
    return (-(-depth // _SPREAD) | 1) * _SPREAD


def gradient_scratch_size(depth: int, lanes: int) -> int:
    """How many numbers a gradient packs and copies at once, for a left matrix of that many columns."""
    return _BLOCK * (VECTORS * lanes + scratch_width(depth))


def write_products(module: ir.Module, kind: Kind) -> Products:
    """The functions `multiply`, `spread`, `pack` and `gradients`."""
    tiles = {
        (rows, vectors): _write_tile(module, kind, rows, vectors)
        for vectors in range(1, VECTORS + 1)
        for rows in range(1, kind.target.tile_rows + 1)
    }
    _write_pack(module, kind)
    tile = _write_choice(module, kind, tiles)
    spread = _write_spread(module, kind)
    return Products(_write_multiply(module, kind, tile), spread, _write_gradients(module, kind, tile, spread))


def _write_tile(module: ir.Module, kind: Kind, rows: int, vectors: int) -> ir.Function:
    """out[rows, width] = the sum over all sources of left @ packed, in one panel; or added to it."""
    code = Function(
        module, f"tile_{rows}_{vectors}", [POINTER, INT, INT, INT, POINTER, INT, INT, INT], kind, inner=True
    )
    sources, num_sources, first_row, column, out, out_bytes, width, adds = code.args
    build = code.build
    sums = [[code.variable(code.number(0.0)) for _ in range(vectors)] for _ in range(rows)]
    with code.loop(INT(0), num_sources) as number:
        source = code.element(sources, number, 8 * SOURCE)
        row_bytes, step, depth = (code.load_int(source, field) for field in (1, 2, 4))
        left = code.at(code.load_pointer(source, 0), build.mul(first_row, row_bytes))
        panel = code.element(code.load_pointer(source, 3), build.mul(column, depth))
        starts = [code.at(left, build.mul(row_bytes, INT(row))) for row in range(rows)]
        with code.loop(INT(0), depth) as k:
            line = code.element(panel, build.mul(k, INT(vectors * kind.lanes)))
            right = [code.load(code.element(line, INT(v * kind.lanes))) for v in range(vectors)]
            for row in range(rows):
                factor = code.splat(code.load_scalar(code.at(starts[row], build.mul(k, step))))
                for v in range(vectors):
                    total = build.load(sums[row][v], typ=kind.vector)
                    build.store(code.fused(factor, right[v], total), sums[row][v])
    masks = [code.first_lanes(build.sub(width, INT(v * kind.lanes))) for v in range(vectors)]
    places = [
        [code.element(code.at(out, build.mul(out_bytes, INT(row))), INT(v * kind.lanes)) for v in range(vectors)]
        for row in range(rows)
    ]
    cells = [(row, v) for row in range(rows) for v in range(vectors)]
    with build.if_then(build.icmp_signed("!=", adds, INT(0))):
        # all of them before the first store: a masked load that spans what was just stored would wait for it
        for row, v in cells:
            total = build.fadd(build.load(sums[row][v], typ=kind.vector), code.load(places[row][v], masks[v]))
            build.store(total, sums[row][v])
    for row, v in cells:
        code.store(build.load(sums[row][v], typ=kind.vector), places[row][v], masks[v])
    return code.finish()


def _write_choice(module: ir.Module, kind: Kind, tiles: dict[tuple[int, int], ir.Function]) -> ir.Function:
    """One panel with as many rows as there are, shared out evenly over tiles."""
    code = Function(module, "tile_rows", [POINTER, INT, INT, POINTER, INT, INT, INT, INT], kind, inner=True)
    sources, num_sources, column, out, out_bytes, rows, width, adds = code.args
    build, most = code.build, kind.target.tile_rows
    num_tiles = build.sdiv(build.add(rows, INT(most - 1)), INT(most))
    is_narrow = build.icmp_signed("<=", width, INT(kind.lanes))
    with code.loop(INT(0), num_tiles) as tile:
        first = build.sdiv(build.mul(tile, rows), num_tiles)
        last = build.sdiv(build.mul(build.add(tile, INT(1)), rows), num_tiles)
        place = code.at(out, build.mul(first, out_bytes))
        choice = build.add(build.sub(last, first), build.select(is_narrow, INT(0), INT(most)))
        given = [sources, num_sources, first, column, place, out_bytes, width, adds]
        code.call_one(choice, {each + most * (vectors - 1): (tiles[each, vectors], given) for each, vectors in tiles})
    return code.finish()


def _write_multiply(module: ir.Module, kind: Kind, tile: ir.Function) -> ir.Function:
    """out[rows, columns] = the sum over all sources of left @ packed, or added to it."""
    code = Function(module, "multiply", [POINTER, INT, POINTER, INT, INT, INT, INT], kind)
    sources, num_sources, out, out_bytes, rows, columns, adds = code.args
    with code.loop(INT(0), columns, VECTORS * kind.lanes) as column:
        width = code.build.sub(columns, column)
        place = code.element(out, column)
        code.build.call(tile, [sources, num_sources, column, place, out_bytes, rows, width, adds])
    return code.finish()


def _write_spread(module: ir.Module, kind: Kind) -> ir.Function:
    """Copy the rows of a source into scratch, apart, and let it point there; if they are long."""
    code = Function(module, "spread", [POINTER, INT, POINTER], kind, inner=True)
    source, rows, scratch = code.args
    build = code.build
    left, row_bytes, depth = code.load_pointer(source, 0), code.load_int(source, 1), code.load_int(source, 4)
    with build.if_then(build.icmp_signed(">=", depth, INT(_PADDED))):
        lines = build.or_(build.sdiv(build.add(depth, INT(_SPREAD - 1)), INT(_SPREAD)), INT(1))
        step = build.mul(lines, INT(_SPREAD * kind.bytes))
        with code.loop(INT(0), rows) as row:
            given = code.at(left, build.mul(row, row_bytes))
            target = code.at(scratch, build.mul(row, step))

            def copy(column: Value, mask: Value | None) -> None:
                code.store(code.load(code.element(given, column), mask), code.element(target, column), mask)

            code.columns(depth, copy)
        code.store_int(build.ptrtoint(scratch, INT), source, 0)
        code.store_int(step, source, 1)
    return code.finish()


def _write_gradients(module: ir.Module, kind: Kind, tile: ir.Function, spread: ir.Function) -> ir.Function:
    """gradients(jobs, number of jobs, thread, threads, scratch): out = left transposed @ right, for many at once.

    A job is: left, bytes from row to row, right, bytes from row to row, rows, columns of left, columns of right, out,
    bytes from row to row, and the address of the sums of the rows of right, or 0. Threads share the columns of right.
    """
    code = Function(module, "gradients", [POINTER, INT, INT, INT, POINTER], kind)
    jobs, num_jobs, thread, threads, scratch = code.args
    build, wide = code.build, VECTORS * kind.lanes
    source = code.room(8 * SOURCE)
    copies = code.element(scratch, INT(_BLOCK * wide))
    with code.loop(INT(0), num_jobs) as number:
        job = code.element(jobs, number, 8 * JOB)
        left, right, out = (code.load_pointer(job, field) for field in (0, 2, 7))
        left_bytes, right_bytes, rows, depth, columns, out_bytes = (
            code.load_int(job, field) for field in (1, 3, 4, 5, 6, 8)
        )
        sums = code.load_int(job, 9)
        with code.loop(INT(0), rows, _BLOCK) as start:
            rest = build.sub(rows, start)
            count = build.select(build.icmp_signed("<", rest, INT(_BLOCK)), rest, INT(_BLOCK))
            is_first = build.icmp_signed("==", start, INT(0))
            given = code.at(left, build.mul(start, left_bytes))
            for field, value in ((0, build.ptrtoint(given, INT)), (1, left_bytes), (4, depth)):
                code.store_int(value, source, field)
            build.call(spread, [source, count, copies])
            # and now the left matrix transposed: from row to row as from column to column before
            code.store_int(code.load_int(source, 1), source, 2)
            for field, value in ((1, INT(kind.bytes)), (3, build.ptrtoint(scratch, INT)), (4, count)):
                code.store_int(value, source, field)
            with code.loop(build.mul(thread, INT(wide)), columns, build.mul(threads, INT(wide))) as column:
                width = build.sub(columns, column)
                masks = [code.first_lanes(build.sub(width, INT(v * kind.lanes))) for v in range(VECTORS)]
                panel = code.element(code.at(right, build.mul(start, right_bytes)), column)
                totals = _write_block(code, panel, right_bytes, count, width, masks, scratch)
                place, adds = code.element(out, column), build.select(is_first, INT(0), INT(1))
                build.call(tile, [source, INT(1), INT(0), place, out_bytes, depth, width, adds])
                with build.if_then(build.icmp_signed("!=", sums, INT(0))):
                    for v, mask in enumerate(masks):
                        place = code.element(build.inttoptr(sums, POINTER), build.add(column, INT(v * kind.lanes)))
                        before = build.select(is_first, code.number(0.0), code.load(place, mask))
                        code.store(build.fadd(before, build.load(totals[v], typ=kind.vector)), place, mask)
    return code.finish()


def _write_block(
    code: Function, panel: Value, row_bytes: Value, count: Value, width: Value, masks: list[Value], packed: Value
) -> list[Value]:
    """Pack some rows of a panel; gives back where their sums are."""
    build, lanes = code.build, code.kind.lanes
    is_narrow = build.icmp_signed("<=", width, INT(lanes))
    packed_bytes = build.mul(build.select(is_narrow, INT(1), INT(VECTORS)), INT(code.kind.target.vector_bytes))
    totals = [code.variable(code.number(0.0)) for _ in range(VECTORS)]
    with code.loop(INT(0), count) as row:
        line = code.at(panel, build.mul(row, row_bytes))
        target = code.at(packed, build.mul(row, packed_bytes))
        for v in reversed(range(VECTORS)):  # a second vector that is not there is written over by the first
            found = code.load(code.element(line, INT(v * lanes)), masks[v])
            code.store(found, code.element(target, INT(v * lanes)))
            build.store(build.fadd(build.load(totals[v], typ=code.kind.vector), found), totals[v])
    return totals


def _write_pack(module: ir.Module, kind: Kind) -> None:
    """Pack matrices, one for each member.

    pack(matrices, bytes from member to member, from row to row, from column to column, packed, bytes from member to
    member, members, rows, columns).
    """
    code = Function(module, "pack", [POINTER, INT, INT, INT, POINTER, INT, INT, INT, INT], kind)
    matrices, member_bytes, row_bytes, column_bytes, room, room_bytes, members, rows, columns = code.args
    build, lanes = code.build, kind.lanes
    zero = ir.Constant(kind.scalar, 0.0)
    with code.loop(INT(0), members) as member, code.loop(INT(0), columns, VECTORS * lanes) as column:
        matrix = code.at(matrices, build.mul(member, member_bytes))
        packed = code.at(room, build.mul(member, room_bytes))
        left = build.sub(columns, column)
        vectors = build.select(build.icmp_signed("<=", left, INT(lanes)), INT(1), INT(VECTORS))
        width = build.mul(vectors, INT(lanes))
        filled = build.select(build.icmp_signed("<", left, width), left, width)
        panel = code.element(packed, build.mul(column, rows))
        with code.loop(INT(0), rows) as row:
            source = code.at(matrix, build.add(build.mul(row, row_bytes), build.mul(column, column_bytes)))
            target = code.element(panel, build.mul(row, width))
            with build.if_else(build.icmp_signed("==", column_bytes, INT(kind.bytes))) as (then, otherwise):
                with then:

                    def copy(start: Value, mask: Value | None) -> None:
                        code.store(code.load(code.element(source, start), mask), code.element(target, start), mask)

                    code.columns(filled, copy)
                with otherwise, code.loop(INT(0), filled) as each:
                    number = code.load_scalar(code.at(source, build.mul(each, column_bytes)))
                    build.store(number, code.element(target, each))
            with code.loop(filled, width) as each:
                build.store(zero, code.element(target, each))
    code.finish()
