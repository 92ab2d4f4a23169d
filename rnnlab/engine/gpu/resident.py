"""A node that fits on one multiprocessor: its matrices stay in shared memory, its last state in registers.

The commonest component, one node that reads its own last state, runs so in populations: one program for each member and
some of its sequences, which needs to wait for nobody. It may read states of longer ago as well: these come back from
memory, while the step before computes. `resident_forward` and `resident_backward` write the kernels, on top of
`resident.cu`.
"""

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from rnnlab.architecture.expressions import Expression
from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.gpu.compiled import Argument, KernelText
from rnnlab.engine.gpu.cuda_writer import TYPES, CudaWriter, Rows
from rnnlab.engine.gpu.formulas import CUDA, names_read, write_formulas
from rnnlab.engine.gpu.general_forward import nonlinearity
from rnnlab.engine.gpu.layout import SMALLEST, Arithmetic, padded
from rnnlab.engine.gpu.spread import late_gates
from rnnlab.engine.nodes import NodeCode, Pairs, Part, Product, runs
from rnnlab.engine.plan import Component, Plan

MOST_UNITS = 256
NUMBERS_OF_ROWS = (64, 32, 16)  # how many sequences a program may take
CLUSTERS = (2, 4, 8)  # how many programs may share a node
MOST_WARPS = 16  # or each would have too few registers
SUM = "[m][u / 2][half * 2 + u % 2]"  # where number `u` of a row is among sums

Reader = tuple[NodeCode, Product]
"""A read-out, whose gradient is multiplied in the node's backward kernel and not before."""


def step_of(component: Component) -> int:
    """The delay of the last state: -1 where time runs backward."""
    return -1 if component.is_backward else 1


class Warps(NamedTuple):
    """How the warps of a program share its rows and units: each has some times 16 rows, and some tiles of 8 units."""

    num_warps: int
    num_row_groups: int
    row_tiles: int
    unit_tiles: int


class Shape(NamedTuple):
    """How a member's node is cut up: how many sequences a program takes, and how many programs share its units."""

    rows: int
    num_programs: int = 1


def warps_of(units: int, shape: Shape) -> Warps:
    """As wide as memory is read in long pieces, and at most twice 16 rows; in a cluster, as many as there can be.

    >>> warps_of(118, Shape(64))
    Warps(num_warps=8, num_row_groups=2, row_tiles=2, unit_tiles=4)
    >>> warps_of(256, Shape(16, num_programs=8))
    Warps(num_warps=4, num_row_groups=1, row_tiles=1, unit_tiles=1)
    """
    rows, num_tiles = shape.rows, padded(units) // shape.num_programs // 8
    unit_tiles = max(number for number in (1, 2, 4) if num_tiles % number == 0) if shape.num_programs == 1 else 1
    row_tiles = 2 if rows > 32 else 1
    num_row_groups = rows // 16 // row_tiles
    return Warps(num_tiles // unit_tiles * num_row_groups, num_row_groups, row_tiles, unit_tiles)


def shapes_of(
    component: Component,
    codes: Sequence[NodeCode],
    period: int,
    arithmetic: Arithmetic,
    factors: Collection[Part],
    most: int,
    most_programs: int,
) -> tuple[Shape, ...]:
    """How a component may be cut up, most sequences first; not at all where it is not one node that can be resident.

    That node reads its own last state, and of its own states of longer ago those that lie in memory as products take
    them.

    Args:
        component: the component.
        codes: its nodes.
        period: of the graph.
        arithmetic: how it multiplies.
        factors: parts that lie in memory as products take them.
        most: bytes that a program may have of a multiprocessor's own memory.
        most_programs: that may form a cluster.
    """
    if len(codes) != 1 or len(component.nodes) != 1 or period != 1:
        return ()
    (code,) = codes
    step = step_of(component)
    last = [product for product in code.internal if product.edge.delay == step]
    delayed = [product for product in code.internal if product.edge.delay != step]
    delays = {edge.delay for edge in taken_over(code).values() if edge.source == code.key}
    delays |= {product.edge.delay for product in code.internal}
    is_possible = (
        len(last) == 1
        and all(delay == step or (step == 1 and delay > 1) for delay in delays)
        and all(product.part in factors and not product.reset_pairs for product in delayed)
        and not any(product.reset_pairs for product in code.external)
        and not {gate for product in code.internal for _, gate in product.pairs} & set(late_gates(code))
        and padded(code.units) <= MOST_UNITS
    )
    if not is_possible:
        return ()
    # programs of a cluster do not see what the others wrote to memory
    numbers = [1, *(number for number in CLUSTERS if number <= most_programs and not delayed)]
    found = [Shape(rows, number) for number in numbers for rows in NUMBERS_OF_ROWS if _can_share(code, number)]
    return tuple(shape for shape in found if _fits(code, arithmetic, shape, most))


def _can_share(code: NodeCode, num_programs: int) -> bool:
    """Whether each has whole tiles of units, and as many as are multiplied at a time."""
    return num_programs == 1 or padded(code.units) % (num_programs * SMALLEST) == 0


def _fits(code: NodeCode, arithmetic: Arithmetic, shape: Shape, most: int) -> bool:
    num_bytes = max(Layout(code, arithmetic, shape, backward).total for backward in (False, True))
    return num_bytes <= most and warps_of(code.units, shape).num_warps <= MOST_WARPS


def in_order(code: NodeCode) -> list[Product]:
    """The products of a node's own states, that of the last state first."""
    return sorted(code.internal, key=lambda product: abs(product.edge.delay))


def taken_over(code: NodeCode) -> dict[str, EdgeSpec]:
    """For names in a node's formulas that stand for states as they are, the edge that brings it."""
    found: dict[str, EdgeSpec] = {}
    for outputs in (code.program.early or {}, code.program.forward, code.program.backward):
        for name in names_read(outputs):
            is_projected = name == "depth" and code.depth_product.has_projection
            if name.startswith(("carried ", "identity ", "depth")) and not is_projected:
                found[name] = code.edge_read(name)[0]
    return found


class Place(NamedTuple):
    """Where rows of numbers lie in shared memory: the byte where the first begins, and how many lead to the next."""

    start: int
    stride: int


class Layout:
    """Where things lie in a program's shared memory, in bytes; rows are 16 bytes longer than they must be.

    So eight rows' pieces of 16 bytes touch every bank once.

    Args:
        code: the node.
        arithmetic: how it multiplies.
        shape: how it is cut up.
        backward: in which pass.
        readers: read-outs whose products are made in the node's backward kernel.
    """

    def __init__(
        self, code: NodeCode, arithmetic: Arithmetic, shape: Shape, backward: bool, readers: Sequence[Reader] = ()
    ) -> None:
        self._itemsize, self.total = arithmetic.dtype.itemsize, 0
        products, width, rows = in_order(code), padded(code.units), shape.rows
        share = width // shape.num_programs
        columns = [product.num_gates * share for product in products]
        if backward:
            self.matrices = [self._place(width, deep) for deep in columns]
        else:
            self.matrices = [self._place(count, width) for count in columns]
        # what is multiplied: gradients of gates; or the last state and the new one, or the state and what a second
        # product multiplies
        left = code.num_gates * share if backward else width
        self.left = self._place(rows if backward else 2 * rows, left)
        self.left_bytes = rows * self.left.stride
        # the same of longer ago; forward, of the step at hand and of the next
        self.delayed = [self._place(rows if backward else 2 * rows, left) for _ in products[1:]]
        self.readers = [self._place(share, padded(reader.units)) for reader, _ in readers]
        # in a cluster, two times the sums of all its programs, and two counters of bytes
        is_shared = shape.num_programs > 1
        self.parts_bytes = rows * width * 4 if is_shared and backward else 0
        self.parts = self.total
        self.counters = self.parts + 2 * self.parts_bytes
        self.total = self.counters + (16 if is_shared else 0)

    def _place(self, count: int, width: int) -> Place:
        """Room for so many rows of numbers."""
        place = Place(self.total, width * self._itemsize + 16)
        self.total += count * place.stride
        return place


class ResidentWriter(CudaWriter):
    """Gathers the text of one kernel of a resident node."""

    def __init__(self, plan: Plan, arithmetic: Arithmetic, code: NodeCode, step: int, shape: Shape, **options: Any):
        super().__init__(plan, arithmetic, **options)
        self.code, self.step, self.shape = code, step, shape
        self.width = padded(code.units)
        self.share = self.width // shape.num_programs
        self.is_cluster = shape.num_programs > 1
        self.product, *self.delayed = in_order(code)

    def text(self) -> KernelText:
        """The whole kernel."""
        warps = warps_of(self.code.units, self.shape)
        constants = {"ROWS": self.shape.rows, "PROGRAMS": self.shape.num_programs, "SHARE": self.share}
        constants |= {"WIDTH": self.width, "WARPS": warps.num_warps}
        constants |= {"THREADS": 32 * warps.num_warps, "M": warps.row_tiles, "N": warps.unit_tiles}
        head = (
            f"  const int lane = thread % 32, top = warp % {warps.num_row_groups} * M * 16;\n"
            f"  const int first_column = warp / {warps.num_row_groups} * N * 8, first_unit = blockIdx.x * SHARE;\n"
            "  const int own_unit = first_column + lane % 4 * U, unit = first_unit + own_unit;\n"
            "  auto row = [&](int m, int half) { return top + m * 16 + half * 8 + lane / 4; };\n"
            "  auto is_live = [&](int m, int half) { return row(m, half) < num_live; };\n"
            "  bool is_relu = false;\n"
        )
        # registers for two programs on a multiprocessor, where a node is small
        is_small = warps.num_warps <= (8 if self.code.num_gates == 1 else 4)
        num_together = 2 if is_small and not self.is_cluster else 1
        return self.kernel("resident.cu", constants, f"THREADS, {num_together}", head, self.shape.num_programs)

    def place_of_gate(self, gate: int, time: str = "time") -> Rows:
        """Where a gate lies by its number, whatever becomes of it."""
        return self.gates_of(self.code, time)._replace(column=gate * self.width)

    def start(self) -> None:
        """Lines before the loop: whose nonlinearity it is."""
        if not isinstance(self.code.choice, str):
            self.add(f"is_relu = ((const int *){self.array('relu', self.code.key)})[member] != 0;")

    def begin(self, layout: Layout) -> None:
        """Lines before the loop: wait for the matrices; the programs of a cluster for one another."""
        if self.is_cluster:
            counters = " ".join(f"new_counter({self.counter(layout, str(number))});" for number in range(2))
            self.add(f"if (thread == 0) {{ {counters} }}")
        self.add("end_group();", "await_groups<0>();", "__syncthreads();")
        if self.is_cluster:
            self.add("meet();")

    def counter(self, layout: Layout, number: str) -> str:
        """One of the two counters of bytes that come from the programs of a cluster."""
        return f"address_of(shared) + {layout.counters} + {number} * 8"

    def keep(self, place: Place, argument: Argument, num_gates: int, deep: int) -> None:
        """Lines that copy a matrix of a member to shared memory: for each gate the rows of its units."""
        size = deep * self.itemsize
        matrix = f"{self.array(*argument)} + (member * {num_gates * self.width} + first_unit) * {size}"
        pieces = range(num_gates) if self.is_cluster else range(1)
        count = self.share * num_gates // len(pieces)
        for gate in pieces:
            to = f"address_of(shared) + {place.start + gate * self.share * place.stride}"
            self.add(f"keep_units({to}, {place.stride}, {matrix} + {gate * self.width * size}, {count}, {size});")

    def keep_own(self, place: Place, argument: Argument, num_gates: int) -> None:
        """The same for each unit of the node, of the columns of each gate those of the program's units."""
        stride = num_gates * self.width * self.itemsize
        matrix = f"{self.array(*argument)} + member * {self.width * stride} + first_unit * {self.itemsize}"
        size = self.share * self.itemsize
        for gate in range(num_gates):
            to = f"address_of(shared) + {place.start + gate * size}"
            moved = gate * self.width * self.itemsize
            self.add(f"keep_columns({to}, {place.stride}, {matrix} + {moved}, {stride}, {self.width}, {size});")

    def bring(self, place: Place, rows: Rows, moved: str = "0") -> None:
        """A line that begins to copy rows of sequences from memory to where products find them."""
        assert rows.type == TYPES[self.itemsize]
        size = rows.width * self.itemsize
        to = f"address_of(shared) + {place.start} + {moved}"
        self.add(f"keep_columns({to}, {place.stride}, (const char *){rows.pointer}, {size}, num_live, {size});")

    @contextmanager
    def vectors(self) -> Generator[None]:
        """Lines for each of a thread's rows."""
        with self.unrolled("m < M", "half < 2"):
            yield

    def _place(self, rows: Rows) -> str:
        moved = f" + {rows.column}" if rows.column else ""
        return f"{rows.pointer} + row(m, half) * {rows.width}{moved} + unit"

    def fetch(self, variable: str, rows: Rows) -> str:
        """Lines that ask for a thread's numbers; text of number `u` of one of its rows."""
        self.add(f"Vector<{rows.type}> {variable}[M][2] = {{}};")
        return self.fetch_again(variable, rows)

    def fetch_again(self, variable: str, rows: Rows) -> str:
        """The same, into a variable that is there already."""
        with self.vectors():
            self.add(f"if (is_live(m, half)) {variable}[m][half] = load_vector({self._place(rows)});")
        return f"number({variable}[m][half], u)"

    def ask_ahead(self, places: Sequence[Rows], is_there: str) -> None:
        """Lines that bring what the next step reads into the second-level cache, while this one computes."""
        with self.block(f"if ({is_there})"):
            for rows in places:
                size = {"Half": 2, "float": 4}[rows.type] * rows.width
                self.add(f"ask_ahead((const char *){rows.pointer}, num_live * {size});")

    def store(self, rows: Rows, variable: str) -> None:
        """A line that stores a row's numbers."""
        self.add(f"if (is_live(m, half)) store_vector({self._place(rows)}, {variable});")

    def store_shared(self, start: str, stride: int, column: str, variable: str) -> None:
        """A line that puts them where products find them; rows of sequences that are not there are multiplied too."""
        place = f"shared + {start} + row(m, half) * {stride} + ({column}) * {self.itemsize}"
        self.add(f"store_vector(({TYPES[self.itemsize]} *)({place}), {variable});")

    def send(self, start: str, stride: int, counter: str, variable: str) -> None:
        """The same in all programs of a cluster."""
        place = f"address_of(shared) + {start} + row(m, half) * {stride} + unit * {self.itemsize}"
        self.add(f"send_vector<{TYPES[self.itemsize]}>({place}, {variable}, {counter});")

    def multiply(
        self, sums: str, pairs: Pairs, places: Sequence[int], left: str, left_stride: int, matrix: Place
    ) -> None:
        """Lines that add products of rows in shared memory with gates of a matrix to `sums[place]`."""
        for mine, theirs in runs(pairs, 1):
            count = mine.stop - mine.start
            right = f"address_of(shared) + {matrix.start} + ({mine.start} * SHARE + first_column) * {matrix.stride}"
            self.add(
                f"multiply_all<{count}>((float (&)[{count}][M][N][4]){sums}[{places.index(theirs.start)}], "
                f"address_of(shared) + {left} + top * {left_stride}, {left_stride}, {right}, "
                f"{matrix.stride}, SHARE * {matrix.stride}, WIDTH * {self.itemsize});"
            )

    def formulas(self, outputs: Mapping[str, Expression], inputs: Mapping[str, str]) -> dict[str, str]:
        """Lines that compute formulas for number `u` of a row; the text of each output."""
        lines, found = write_formulas(outputs, inputs, nonlinearity(self.code), "e", CUDA)
        self.add(*lines)
        return found

    def is_previous(self, name: str) -> bool:
        """Whether a name in the formulas stands for a part of the node's own last state."""
        edge = taken_over(self.code).get(name)
        return edge is not None and (edge.source, edge.delay) == (self.code.key, self.step)
