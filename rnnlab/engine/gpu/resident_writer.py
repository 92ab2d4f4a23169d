"""Text of kernels of resident nodes: what those of both passes do, line by line, on top of `resident.cu`."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from rnnlab.architecture.expressions import Expression
from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.gpu.compiled import Argument, KernelText
from rnnlab.engine.gpu.cuda_writer import SIZES, TYPES, CudaWriter, Rows
from rnnlab.engine.gpu.formulas import CUDA, write_formulas
from rnnlab.engine.gpu.layout import Arithmetic
from rnnlab.engine.gpu.resident import (
    LOOKS,
    Layout,
    Place,
    Resident,
    Shape,
    registers_for_matrices,
    registers_of_a_gate,
)
from rnnlab.engine.nodes import NodeCode, Pairs, runs
from rnnlab.engine.plan import Plan

SUM = "[m][u / 2][half * 2 + u % 2]"  # where number `u` of a row is among sums


class Leg(NamedTuple):
    """What a leg of a relay knows of the others.

    Args:
        number: of its component.
        rows: how many sequences a program of each leg takes, by the number of its component.
        heard: the legs that it waits for, by the edge that brings or takes what it hands on.
    """

    number: int
    rows: Mapping[int, int]
    heard: Mapping[EdgeSpec, int]


class ResidentWriter(CudaWriter):
    """Gathers the text of one kernel of resident nodes."""

    def __init__(
        self,
        plan: Plan,
        arithmetic: Arithmetic,
        resident: Resident,
        shape: Shape,
        *,
        backward: bool,
        leg: Leg | None = None,
        **options: Any,
    ):
        """A kernel to be, of a component alone or of a leg of a relay."""
        super().__init__(plan, arithmetic, **options)
        self.resident, self.shape, self.leg = resident, shape, leg
        self.step, self.width = resident.step, resident.width
        self.share = self.width // shape.num_programs
        self.is_cluster = shape.num_programs > 1
        self.warps = resident.warps(shape, arithmetic, backward=backward)
        self._in_registers: dict[tuple[Place, int, int], str] = {}  # by matrix, first gate and how many

    def text(self) -> KernelText:
        """The whole kernel."""
        # registers for two programs on a multiprocessor, where a node is small
        num_warps = self.warps.num_warps
        is_small = num_warps <= (8 if self.resident.most_gates == 1 else 4) and len(self.resident.codes) == 1
        num_together = 2 if is_small and not self.is_cluster else 1
        bounds = f"THREADS, {num_together}"
        return self.kernel("resident.cu", self.constants, bounds, self.head, self.shape.num_programs)

    @property
    def constants(self) -> dict[str, int]:
        """What `resident.cu` needs to know."""
        warps = self.warps
        found = {"ROWS": self.shape.rows, "PROGRAMS": self.shape.num_programs, "SHARE": self.share}
        found |= {"WIDTH": self.width, "WARPS": warps.num_warps, "GROUPS": self.resident.num_groups(warps)}
        return found | {"THREADS": 32 * warps.num_warps, "M": warps.row_tiles, "N": warps.unit_tiles}

    @property
    def head(self) -> str:
        """Lines before all others: which rows and units a thread has."""
        num_row_groups = self.warps.num_row_groups
        return (
            f"  const int lane = thread % 32, top = warp % {num_row_groups} * M * 16;\n"
            f"  const int first_column = warp / {num_row_groups} * N * 8, first_unit = blockIdx.x * SHARE;\n"
            "  const int own_unit = first_column + lane % 4 * U, unit = first_unit + own_unit;\n"
            "  const int own_row = top + lane / 4;\n"
            "  const int group_row = own_group() * GROUP_ROWS;\n"  # the first of its group's, of which there are:
            "  const int group_live = max(0, min(GROUP_ROWS, num_live - group_row));\n"
            "  auto row = [&](int m, int half) { return own_row + m * 16 + half * 8; };\n"
            "  auto is_live = [&](int m, int half) { return row(m, half) < num_live; };\n"
            "  bool is_relu = false;\n"
            "  int turn = 0;\n"  # how often the programs of a cluster have heard from one another
        )

    # ------------------------------------------------------------------------------------------- before and in the loop

    def start(self, layout: Layout, *, backward: bool) -> None:
        """Lines before the loop: whose nonlinearity it is, which is one for all nodes where members differ.

        In a relay one warp tells others of moments and looks how far they are, and what is left of others does nothing.
        """
        if self.leg is not None:
            with self.block("if (warp >= WARPS)"):
                self._tell(layout, backward)
        chosen = [code for code in self.resident.codes if code.nonlinearity is None]
        if chosen:
            self.add(f"is_relu = ((const int *){self.array('relu', chosen[0].key)})[member] != 0;")

    def begin(self, layout: Layout) -> None:
        """Lines before the loop: wait for the matrices; the programs of a cluster for one another."""
        if self.leg is not None:
            self.add(f"if (thread < {LOOKS}) ((int *)(shared + {layout.looks}))[thread] = 0;")
        if self.is_cluster:
            places = range(layout.counters, layout.looks, 8)
            counters = " ".join(f"new_counter(address_of(shared) + {place});" for place in places)
            self.add(f"if (thread == 0) {{ {counters} }}")
        self.add("end_group();", "await_groups<0>();", "__syncthreads();")
        if self.is_cluster:
            self.add("meet();")

    # ------------------------------------------------------------------------------------------------------- in a relay

    def _tell(self, layout: Layout, backward: bool) -> None:
        """Lines of the warps beyond those that compute: they meet the others as often as these do one another."""
        assert self.leg is not None
        flags = f"(int *){self.array('told', self.leg.number)} + (member * num_blocks + first_row / ROWS) * PROGRAMS"
        self.add("__syncthreads();", "meet();")
        # forward they meet after each moment; backward in the middle of each, for the one before, and at the very end
        with self.block(f"for (int step = {0 if backward else 1}; step <= T; ++step)"):
            self.add("__syncthreads();")
            with self.block("if (warp == WARPS)"):
                self.add(f"if (lane == 0 && step > 0) show({flags} + blockIdx.x, step);")
                for edge in self.leg.heard:
                    with self.block(""):
                        self.add(f"const int least = least_of_warp({self._told(edge, backward)}.seen_by(lane));")
                        self.add(f"if (lane == 0) {self.looked(layout, edge, 'step')} = least;")
        self.add("return;")

    def _told(self, edge: EdgeSpec, backward: bool) -> str:
        """Text of where programs of another leg tell of the same sequences.

        Forward they are all of its programs, backward those of the same units. Theirs may be fewer sequences.
        """
        assert self.leg is not None
        leg = self.leg.heard[edge]
        rows = self.leg.rows[leg]
        count = f"(num_live + {rows - 1}) / {rows}" if rows < self.shape.rows else "1"
        block = f"member * ((num_rows + {rows - 1}) / {rows}) + first_row / {rows}"
        flags = f"(const int *){self.array('told', leg)} + ({block}) * PROGRAMS"
        return (
            f"Told{{{flags} + blockIdx.x, {count}, PROGRAMS}}"
            if backward
            else f"Told{{{flags}, {count} * PROGRAMS, 1}}"
        )

    def looked(self, layout: Layout, edge: EdgeSpec, step: str) -> str:
        """Text of how many moments others had told of when the telling warp looked after a step."""
        assert self.leg is not None
        place = list(self.leg.heard).index(edge) * 2
        return f"((volatile int *)(shared + {layout.looks}))[{place} + ({step}) % 2]"

    def wait_for(self, layout: Layout, edge: EdgeSpec, steps: str, looked: str | None, *, backward: bool) -> None:
        """Lines that wait until others have told of so many moments; what the telling warp saw may be enough."""
        is_unknown = "" if looked is None else f"if ({self.looked(layout, edge, looked)} < {steps})"
        with self.block(is_unknown):
            self.add(f"wait_for({self._told(edge, backward)}, {steps});")

    def meet_teller(self) -> None:
        """A line after all that others may read of a moment, of which they are told from here on."""
        if self.leg is not None:
            self.add("__syncthreads();")

    # ----------------------------------------------------------------------------------------------------- in a cluster

    def counter(self, layout: Layout) -> str:
        """A group's counter of the bytes that now come from the programs of a cluster: two take turns."""
        return f"address_of(shared) + {layout.counters} + own_group() * 16 + turn % 2 * 8"

    def hear(self, layout: Layout, num_bytes: str) -> None:
        """Lines that wait until a group's part of so many bytes has come from the programs of a cluster.

        All of a group's warps send in every exchange, and none before it has read what came in the last but one: so
        whoever has heard of an exchange may send to where the last but one came.
        """
        counter = self.counter(layout)
        self.add(f"expect({counter}, {num_bytes} / GROUPS);", f"await_bytes({counter}, turn / 2 % 2);", "++turn;")

    @contextmanager
    def moment(self, code: NodeCode) -> Generator[None]:
        """Lines for the times at which a node exists."""
        with self.block(f"if ({self.exists(code)})" if self.period > 1 else ""):
            yield

    def exists(self, code: NodeCode, time: str = "time") -> str:
        """Text of whether a node exists at a time, which may lie before the sequence."""
        period = self.period
        phase = f"((a.first_step + {time}) % {period} + {period}) % {period}"
        return f"{phase} == {code.key[1]}" if period > 1 else "true"

    # -------------------------------------------------------------------------------------------------- shared memory

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
        """The same for each unit of a node, of the columns of each gate those of the program's units."""
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
        to = f"address_of(shared) + {place.start} + {moved} + group_row * {place.stride}"
        source = f"(const char *){rows.pointer} + group_row * {size}"
        self.add(f"bring_rows({to}, {place.stride}, {source}, {size}, group_live);")

    def store_shared(self, start: str, stride: int, column: str, variable: str) -> None:
        """A line that puts a row's numbers where products find them; those of no sequence are multiplied too."""
        place = f"shared + {start} + row(m, half) * {stride} + ({column}) * {self.itemsize}"
        self.add(f"store_vector(({TYPES[self.itemsize]} *)({place}), {variable});")

    def store_in_tile(self, start: str, stride: int, variable: str) -> None:
        """The same where they lie as tiles."""
        place = f"shared + {start} + (top + m * 16) * {stride} + unit / 8 * TILE + (lane * 2 + half) * TILE / 64"
        self.add(f"store_vector(({TYPES[self.itemsize]} *)({place}), {variable});")

    def send(self, start: str, stride: int, counter: str, variable: str) -> None:
        """Lines that put a warp's tiles where products find them in all programs of a cluster."""
        with self.unrolled("m < M"):
            place = f"address_of(shared) + {start} + (top + m * 16) * {stride} + unit / 8 * TILE"
            self.add(f"send_tile({place}, (const float (&)[4]){variable.removesuffix('[half]')}, {counter});")

    def multiply(
        self,
        sums: str,
        pairs: Pairs,
        places: Sequence[int],
        left: str,
        left_stride: int,
        matrix: Place,
        *,
        are_tiles: bool,
    ) -> None:
        """Lines that add products of rows in shared memory with gates of a matrix to `sums[place]`."""
        for mine, theirs in runs(pairs, 1):
            count = mine.stop - mine.start
            target = f"(float (&)[{count}][M][N][4]){sums}[{places.index(theirs.start)}]"
            rows = f"address_of(shared) + {left} + top * {left_stride}, {left_stride}"
            kept = self._in_registers.get((matrix, mine.start, count))
            if kept and are_tiles:  # a tied matrix may multiply both what a leg computes and what is handed to it
                self.add(f"multiply_kept({target}, {rows}, {kept});")
                continue
            self.add(
                f"multiply_all<{count}, {str(are_tiles).lower()}>({target}, {rows}, {self._right(matrix, mine.start)}, "
                f"{matrix.stride}, SHARE * {matrix.stride}, WIDTH * {self.itemsize});"
            )

    def _right(self, matrix: Place, gate: int) -> str:
        """Text of where a warp's columns of a gate of a matrix begin in shared memory."""
        return f"address_of(shared) + {matrix.start} + ({gate} * SHARE + first_column) * {matrix.stride}"

    def keep_in_registers(self, products: Sequence[tuple[Place, Pairs]]) -> None:
        """Lines that load matrices which multiply tiles, first ones first, as far as there are registers for them.

        Else every step would read them from shared memory, at 128 bytes a cycle.
        """
        if not self.is_cluster:
            return
        left = registers_for_matrices(self.warps.num_warps + (self.leg is not None))
        for matrix, mine in dict.fromkeys((matrix, each) for matrix, pairs in products for each in _gates_of(pairs)):
            first, count = mine
            deep = self.width * self.itemsize // 64
            left -= count * registers_of_a_gate(self.width, self.arithmetic)
            if left < 0:
                return
            name = f"right{len(self._in_registers)}"
            self._in_registers[matrix, first, count] = name
            self.add(f"u32 {name}[{deep}][{count}][N][4];")
            self.add(f"keep_right({name}, {self._right(matrix, first)}, {matrix.stride}, SHARE * {matrix.stride});")

    # --------------------------------------------------------------------------------------------------------- memory

    def place_of_gate(self, code: NodeCode, gate: int, time: str = "time") -> Rows:
        """Where a gate lies by its number, whatever becomes of it."""
        return self.gates_of(code, time)._replace(column=gate * self.width)

    @contextmanager
    def vectors(self) -> Generator[None]:
        """Lines for each of a thread's rows."""
        with self.unrolled("m < M", "half < 2"):
            yield

    def _place(self, rows: Rows) -> str:
        size = SIZES[rows.type]
        own = f"{rows.start} + (own_row * {rows.row_bytes} + unit * {size}) + {rows.moment}"
        return f"({rows.type} *)({own}) + ((m * 16 + half * 8) * {rows.width} + {rows.column})"

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
                source = f"(const char *){rows.pointer} + group_row * {rows.row_bytes}"
                self.add(f"ask_ahead({source}, group_live * {rows.row_bytes});")

    def store(self, rows: Rows, variable: str) -> None:
        """A line that stores a row's numbers."""
        self.add(f"if (is_live(m, half)) store_vector({self._place(rows)}, {variable});")

    def formulas(self, code: NodeCode, outputs: Mapping[str, Expression], inputs: Mapping[str, str]) -> dict[str, str]:
        """Lines that compute formulas for number `u` of a row; the text of each output."""
        lines, found = write_formulas(outputs, inputs, code.nonlinearity, CUDA)
        self.add(*lines)
        return found


def _gates_of(pairs: Pairs) -> list[tuple[int, int]]:
    """The first gate of a matrix, and how many, of each run of gates that are multiplied together."""
    return [(mine.start, mine.stop - mine.start) for mine, _ in runs(pairs, 1)]
