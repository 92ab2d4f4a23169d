"""Text of spread kernels: what forward and backward share. A kernel is one branch for each node, and each a loop.

Names in the text beside those of `cuda_writer`: `first_unit`, the program's first; `start` and `count`, the node's
first time and how many it has; `position`, how many moments came before the one at hand. A thread computes the formulas
of NUM elements, number `e` of which is `row(e)` of the program's sequences and `unit` of its units.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import accumulate
from typing import Any, NamedTuple

from rnnlab.architecture.expressions import Expression
from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.gpu.compiled import Argument, KernelText
from rnnlab.engine.gpu.cuda_writer import SIZES, CudaWriter, Rows
from rnnlab.engine.gpu.formulas import names_read
from rnnlab.engine.gpu.layout import padded
from rnnlab.engine.gpu.spread import (
    CHUNK,
    WARPS,
    Segment,
    SharedMemory,
    SpreadComponent,
    Stage,
    Tiling,
    shared_memory_use,
    sums_width,
)
from rnnlab.engine.nodes import NodeCode
from rnnlab.engine.plan import Plan
from rnnlab.graph.elements import NodeKey

THREADS = 32 * WARPS
SECTOR = 32  # bytes that the second-level cache reads at a time


class SpreadWriter(CudaWriter):
    """Gathers the text of one kernel of a spread component; `tiling` says how that is cut up."""

    def __init__(self, plan: Plan, spread: SpreadComponent, tiling: Tiling, **options: Any) -> None:
        super().__init__(plan, spread.arithmetic, **options)
        self.spread, self.tiling = spread, tiling
        self.most_shared = 0
        # what programs of a node tell of and others wait for; a set that keeps its order
        self.awaited: dict[tuple[Argument, NodeKey], None] = {}

    def text(self) -> KernelText:
        """The whole kernel."""
        constants = {"ROWS": self.tiling.rows, "UNITS": self.tiling.units, "WARPS": WARPS, "THREADS": THREADS}
        half = "  const int half = blockIdx.x % 2;\n" if self.tiling.is_paired else ""
        head = (
            "  const int worker = blockIdx.x, unit = thread % UNITS;\n"
            "  constexpr int NUM = (ROWS * UNITS + THREADS - 1) / THREADS;\n"
            "  auto row = [&](int e) { return (thread + e * THREADS) / UNITS; };\n"
            "  auto is_live = [&](int e) { return row(e) < num_live; };\n"
        )
        num_programs = 2 if self.tiling.is_paired else 1
        text = self.kernel("spread.cu", constants, "THREADS, 1", half + head, num_programs)
        return text._replace(awaited=tuple(self.awaited))


class Source(NamedTuple):
    """What a product multiplies: the rows, and the conditions under which they exist and programs write them now."""

    rows: Rows
    exists: str
    is_awaited: str


class SpreadNode:
    """The branch of one node in one pass."""

    def __init__(self, writer: SpreadWriter, code: NodeCode, *, backward: bool) -> None:
        self.writer, self.code, self.backward = writer, code, backward
        self.is_paired = writer.tiling.is_paired
        self.num_sides = 2 if self.is_paired else 1  # for whose units it multiplies
        self.stages = writer.spread.stages(code, backward=backward, is_paired=self.is_paired)
        self.width = padded(code.units)
        units, rows = writer.tiling.units, writer.tiling.rows
        limits = writer.itemsize, writer.shared_bytes
        use = shared_memory_use(self.stages, rows, units, *limits, is_paired=self.is_paired)
        assert use is not None  # the tiling says that it fits
        self.use: SharedMemory = use
        self.warp_rows = rows // use.row_groups  # of each warp
        writer.most_shared = max(writer.most_shared, use.total)
        self.is_rising = writer.spread.component.is_backward == backward
        self.step = -1 if writer.spread.component.is_backward else 1

    # ----------------------------------------------------------------------------------------------------- moments

    def _times(self) -> str:
        """Text that gives the node's first time and how many it has."""
        phase, period = self.code.key[1], self.writer.period
        if period == 1:
            return "const int start = 0, count = T;"
        return (
            f"const int start = (int)((({phase} - a.first_step) % {period} + {period}) % {period}), "
            f"count = max(0, (T - start + {period - 1}) / {period});"
        )

    @contextmanager
    def branch(self) -> Generator[None]:
        """The lines of the node's programs."""
        writer, units = self.writer, self.writer.tiling.units
        first = writer.spread.first_worker(self.code.key, units)
        with writer.block(f"if (worker >= {first} && worker < {first + self.width // units})"):
            writer.add(f"const int first_unit = (worker - {first}) * UNITS;")
            if self.is_paired:
                writer.add("const int other_unit = first_unit + (half ? -UNITS : UNITS);")
            writer.add(self._times(), "bool is_relu = false;")
            if self.code.nonlinearity is None:
                writer.add(f"is_relu = ((const int *){writer.array('relu', self.code.key)})[member] != 0;")
            self._keep_matrices()
            self._meet_other()
            yield

    @contextmanager
    def moments(self) -> Generator[None]:
        """The lines of each of its moments."""
        with self.writer.block("for (int position = 0; position < count; ++position)"):
            number = "position" if self.is_rising else "(count - 1 - position)"
            self.writer.add(f"const int time = start + {number} * {self.writer.period};")
            yield

    def elements(self) -> AbstractContextManager[None]:
        """Lines for each of a thread's elements."""
        return self.writer.unrolled("e < NUM")

    def is_previous(self, edge: EdgeSpec) -> bool:
        """Whether an edge brings what the same program computed at the moment before."""
        is_own = edge.source == edge.target == self.code.key
        return is_own and edge.delay == self.step * self.writer.period

    def is_internal(self, edge: EdgeSpec) -> bool:
        """Whether an edge comes from a node of the component."""
        return any(code.key == edge.source for code in self.writer.spread.codes)

    # ---------------------------------------------------------------------------------------------------- products

    def _keep_matrices(self) -> None:
        """Columns of matrices that stay in shared memory."""
        self.kept: dict[Segment, tuple[int, int]] = {}
        start = 0
        for segment in (each for stage in self.stages for each in stage.segments):
            stride = segment.depth * self.writer.itemsize + 16
            self.kept[segment] = (start, stride)
            columns = self._columns(segment)
            for number, column in enumerate(columns if self.use.is_kept else ()):
                place = start + number * self.writer.tiling.units * stride
                self.writer.add(
                    f"keep_columns(address_of(shared) + {place}, {stride}, {column}, "
                    f"{segment.matrix_width * self.writer.itemsize}, UNITS, {segment.depth * self.writer.itemsize});"
                )
            start += len(columns) * self.writer.tiling.units * stride
        if self.use.is_kept:
            self.writer.add("end_group();", "await_groups<0>();", "__syncthreads();")
        self.writer.add(f"char *const buffers = shared + {self.use.kept_bytes};")
        self.writer.add(f"char *const buffer = buffers + warp * {self.use.buffer_bytes};")

    def _columns(self, segment: Segment) -> list[str]:
        """Text of the pointers to the first of each run of UNITS columns of a matrix, all as rows of memory.

        They are those of the program for each group, and then those of the other program of a pair.
        """
        height = self._matrix_height(segment)
        first = f"{segment.matrix_first}{self._moved(segment)}"
        return [
            f"{self.writer.array(*segment.matrix)} + "
            f"((member * {height} + {row} + {unit}) * {segment.matrix_width} + {first}) * {self.writer.itemsize}"
            for unit in ("first_unit", "other_unit")[: self.num_sides]
            for row in segment.matrix_rows
        ]

    def _moved(self, segment: Segment) -> str:
        """Text that is added to where numbers along the depth begin: the second of a pair has the second half."""
        return f" + half * {segment.depth}" if self.is_paired else ""

    def _meet_other(self) -> None:
        """Lines before the loop: counters of what comes from the other program of a pair, which knows of them then."""
        if self.is_paired:
            counters = " ".join(f"new_counter(address_of(shared) + {self.use.counters + place});" for place in (0, 8))
            self.writer.add(f"if (thread == 0) {{ {counters} }}", "__syncthreads();", "meet();")
            self.writer.add("int turn = 0;")  # how often it has heard from the other

    def _matrix_height(self, segment: Segment) -> int:
        if segment.matrix.kind == "turned":
            return segment.product.num_gates * self.width
        return self.width

    def products(self, stage: Stage, sources: Mapping[Segment, Source]) -> None:
        """Lines that make the products of a stage and leave the sums of each warp.

        Args:
            stage: which.
            sources: what each segment multiplies.
        """
        writer, itemsize = self.writer, self.writer.itemsize
        num_chunks, num_parts = stage.num_chunks(itemsize), stage.num_parts(itemsize, self.use.row_groups)
        if not num_parts:
            return
        writer.add("__syncthreads();")  # all have taken the sums before out of the buffers
        num_warps = WARPS // self.use.row_groups
        part, own_row = "warp", "0"
        if self.use.row_groups > 1:
            part, own_row = f"warp % {num_warps}", f"warp / {num_warps} * {self.warp_rows}"
        with writer.block(f"if ({part} < {num_parts})" if num_parts < num_warps else ""):
            writer.add(
                f"float sums[{self.warp_rows // 16}][{self.num_sides * self._columns_of_sums(stage) // 8}][4] = {{}};",
                f"const int part = {part}, own_row = {own_row};",
                f"int first = part * {num_chunks} / {num_parts};",
                f"const int last = (part + 1) * {num_chunks} / {num_parts};",
            )
            for number, segment in enumerate(stage.segments):
                rows, exists, is_awaited = sources[segment]
                start = f"{segment.first}{self._moved(segment)}"
                writer.add(f"const bool exists{number} = {exists}, is_awaited{number} = {is_awaited};")
                writer.add(f"const char *const rows{number} = (const char *)({rows.pointer} + {start});")
            is_early = writer.tiling.is_early
            if not is_early:
                self._look_first(stage, sources)
            self._copy(stage, sources)
            self._use(stage, stops=is_early)
            in_turn = (
                f"in_turn<{str(is_early).lower()}, {self.use.num_stages}>"
                f"(first, last, address_of(buffer), {self._stage_bytes()}, copy, use)"
            )
            writer.add(
                f"{in_turn};" if is_early else f"while (!{in_turn}) begin_again(sums, first);",
                f"leave<{self._width_of_sums(stage)}>(sums, (float *)buffer);",
            )
        writer.add("__syncthreads();")
        if self.is_paired:
            self._exchange(stage, num_parts)

    def _exchange(self, stage: Stage, num_parts: int) -> None:
        """Lines that send the other program of a pair the sums for its units, and wait for those of one's own."""
        columns, heard = self._columns_of_sums(stage), self._heard(stage)
        counter = f"address_of(shared) + {self.use.counters} + turn % 2 * 8"
        self.writer.add(
            f"char *const {heard} = shared + {self.use.heard} + turn % 2 * {self.use.heard_bytes};",
            f"send_sums<{num_parts}, {self._width_of_sums(stage)}, {columns}>"
            f"(buffers, {self.use.buffer_bytes}, address_of({heard}), {counter}, 1 - half);",
            f"hear_other({counter}, {self.writer.tiling.rows * columns * 4}, turn / 2 % 2);",
            "++turn;",
        )

    def _heard(self, stage: Stage) -> str:
        """The variable that says where sums of the other program of a pair come."""
        return f"heard{self.stages.index(stage)}"

    def _columns_of_sums(self, stage: Stage) -> int:
        """How many numbers a row of sums has for the program's own units."""
        return stage.num_groups * self.writer.tiling.units

    def _width_of_sums(self, stage: Stage) -> int:
        """From a row of sums that a warp leaves to the next."""
        return sums_width(self.num_sides * stage.num_groups, self.writer.tiling.units)

    def _chunks(self, stage: Stage) -> list[tuple[Segment, range]]:
        """The segments of a stage, and which of its chunks are theirs."""
        ends = [0, *accumulate(segment.num_chunks(self.writer.itemsize) for segment in stage.segments)]
        return list(zip(stage.segments, map(range, ends, ends[1:]), strict=True))

    def _stage_bytes(self) -> int:
        segments = [segment for stage in self.stages for segment in stage.segments]
        most = max(len(self._columns(each)) for each in segments)
        widest = 0 if self.use.is_kept else most * self.writer.tiling.units
        return (self.warp_rows + widest) * CHUNK

    def _cases(self, stage: Stage) -> Generator[tuple[int, Segment, int]]:
        """Branches for a chunk of each segment: its number, itself, and the first of its chunks."""
        for number, (segment, chunks) in enumerate(self._chunks(stage)):
            with self.writer.block(f"{'else ' if number else ''}if (chunk < {chunks.stop})"):
                self.writer.add(
                    f"const int at = (chunk - {chunks.start}) * CHUNK, "
                    f"bytes = min(CHUNK, {segment.depth * self.writer.itemsize} - at);"
                )
                yield number, segment, chunks.start

    def _look_first(self, stage: Stage, sources: Mapping[Segment, Source]) -> None:
        """Lines that wait for a word of each program that tells of what the warp multiplies."""
        itemsize = self.writer.itemsize
        for number, (segment, chunks) in enumerate(self._chunks(stage)):
            self.writer.add(
                f"if (exists{number} && is_awaited{number})",
                f"  await_programs(rows{number} + (num_live - 1) * {sources[segment].rows.row_bytes}, "
                f"(max(first, {chunks.start}) - {chunks.start}) * CHUNK, "
                f"min((min(last, {chunks.stop}) - {chunks.start}) * CHUNK, {segment.depth * itemsize}), "
                f"{self.writer.tiling.units * itemsize});",
            )

    def _copy(self, stage: Stage, sources: Mapping[Segment, Source]) -> None:
        """Lines that define what begins to copy a chunk, or copies again what was missing of it."""
        writer = self.writer
        for number, segment in enumerate(stage.segments):
            writer.add(f"const Copier lane{number}({sources[segment].rows.row_bytes}, own_row);")
            if not self.use.is_kept:
                writer.add(f"const Copier columns{number}({segment.matrix_width * writer.itemsize}, 0);")
        with writer.block("auto copy = [&](int chunk, u32 to, auto is_again)", "};"):
            for number, segment, _ in self._cases(stage):
                writer.add(
                    f"if (!exists{number}) return;",
                    f"copy_rows<{self.warp_rows}, is_again.value>"
                    f"(lane{number}, to, rows{number} + at, bytes, num_live - own_row);",
                )
                if self.use.is_kept:
                    continue
                writer.add("if (is_again.value) return;")  # matrices are never missing
                for place, column in enumerate(self._columns(segment)):
                    writer.add(
                        f"copy_rows<UNITS>(columns{number}, to + (ROWS + {place} * UNITS) * CHUNK, "
                        f"{column} + at, bytes, UNITS);"
                    )

    def _use(self, stage: Stage, *, stops: bool) -> None:
        """Lines that define what multiplies a chunk."""
        with self.writer.block("auto use = [&](int chunk, u32 from)", "};"):
            for number, segment, first in self._cases(stage):
                start, stride = self.kept[segment]
                right = (
                    f"Kept{{address_of(shared) + {start}, {stride}}}"
                    if self.use.is_kept
                    else "Passing{from + ROWS * CHUNK}"
                )
                groups = ", ".join(
                    str(side * stage.num_groups + group) for side in range(self.num_sides) for group in segment.groups
                )
                self.writer.add(
                    f"if (!exists{number}) return 0u;",
                    f"return multiply_chunk<{str(stops).lower()}, {groups}>"
                    f"(sums, from, {right}, chunk - {first}, bytes, is_awaited{number});",
                )
            self.writer.add("return 0u;")

    def sum_of(self, stage: Stage, group: int) -> str:
        """Text of an element of a sum that all warps have left, and that the other program of a pair has sent."""
        parts = stage.num_parts(self.writer.itemsize, self.use.row_groups)
        buffers, row = "buffers", "min(row(e), ROWS - 1)"
        if not any(group in segment.groups for segment in stage.segments):
            return "0.0f"
        width = self._width_of_sums(stage)
        column = f"{group * self.writer.tiling.units} + unit"
        if self.use.row_groups > 1:
            first_warp = f"{row} / {self.warp_rows} * {WARPS // self.use.row_groups}"
            buffers, row = f"buffers + {first_warp} * {self.use.buffer_bytes}", f"{row} % {self.warp_rows}"
        own = f"sum_of<{parts}, {width}>({buffers}, {self.use.buffer_bytes}, {row}, {column})"
        if not self.is_paired:
            return own
        return f"({own} + ((const float *){self._heard(stage)})[{row} * {self._columns_of_sums(stage)} + {column}])"

    def source(self, argument: Argument, owner: NodeCode, rows: Rows, time: str, *, exists: str = "true") -> Source:
        """Rows of an array that a node's programs write at times of the sequence."""
        self.writer.awaited[argument, owner.key] = None
        return Source(rows, exists, f"{time} >= 0 && {time} < T")

    # ---------------------------------------------------------------------------------------------------- elements

    def _element(self, rows: Rows) -> str:
        moved = f" + {rows.column}" if rows.column else ""
        return f"{rows.pointer} + row(e) * {rows.width}{moved} + first_unit + unit"

    def fetch(self, variable: str, rows: Rows, condition: str = "true") -> str:
        """Lines that ask for elements, zero where there is no such sequence; text of one of them."""
        self.writer.add(f"{rows.type} {variable}[NUM] = {{}};")
        with self.elements():
            self.writer.add(f"if ({condition} && is_live(e)) {variable}[e] = load({self._element(rows)});")
        return f"number({variable}[e])"

    def load(self, rows: Rows) -> str:
        """Text of an element, zero where there is no such sequence."""
        return f"(is_live(e) ? number(load({self._element(rows)})) : 0.0f)"

    def await_numbers(self, variable: str, argument: Argument, owner: NodeCode, rows: Rows, time: str) -> None:
        """Lines that wait for the elements that the program of the same units of another node tells of."""
        self.writer.awaited[argument, owner.key] = None
        place = f"[&](int e) {{ return {self._element(rows)}; }}"
        self.writer.add(f"float {variable}[NUM];", f"await({variable}, {time} >= 0 && {time} < T, is_live, {place});")

    def store(self, rows: Rows, value: str) -> None:
        """Write an element where there is such a sequence."""
        self.writer.add(f"if (is_live(e)) store({self._element(rows)}, {value});")

    def tell(self, rows: Rows, value: str) -> None:
        """The same for what others may wait for."""
        self.writer.add(f"tell({self._element(rows)}, {value}, is_live(e));")

    def bring_nearer(self, told: Sequence[Rows]) -> None:
        """Lines that bring places where the node will tell of numbers to the second-level cache.

        Whoever looks there too early would wait for the GPU's memory, as soon as an array is larger than that cache.

        Args:
            told: the places, at time `next`, which these lines declare: that of the moment to come.
        """
        if not told:
            return
        step = self.writer.period if self.is_rising else -self.writer.period
        self.writer.add(f"const int next = time + {step};")
        with self.writer.block("if (next >= 0 && next < T)"), self.elements():
            for rows in told:
                is_first = f"unit % {SECTOR // SIZES[rows.type]} == 0"
                self.writer.add(f"if (is_live(e) && {is_first}) bring_nearer((const char *)({self._element(rows)}));")

    def load_biases(self, outputs: Mapping[str, Expression]) -> dict[str, str]:
        """Lines before the loop: the biases of a thread's unit; the variable of each."""
        found: dict[str, str] = {}
        for name in (name for name in names_read(outputs) if name.startswith("bias ")):
            gate = self.code.program.gates.index(name.removeprefix("bias "))
            array, all_gates = self.writer.array("bias", self.code.bias), self.code.num_gates * self.width
            found[name] = f"bias{gate}"
            self.writer.add(
                f"const float bias{gate} = "
                f"((const float *){array})[member * {all_gates} + {gate * self.width} + first_unit + unit];"
            )
        return found

    def place_of(self, name: str) -> Rows:
        """Where something lies that the node's formulas name."""
        return self.writer.place_of(self.code, name)

    def gates_of(self, code: NodeCode, time: str = "time") -> Rows:
        """All gates of a node."""
        return self.writer.gates_of(code, time)

    def edge_of(self, name: str) -> tuple[EdgeSpec, str]:
        """The edge, and the part that it brings, of a state that formulas take as it is."""
        return self.code.edge_read(name)
