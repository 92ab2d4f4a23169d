"""Writes the text of a general (Triton) kernel: its lines, the arrays it takes, the tiles it loads and stores.

`general_forward.py` and `general_backward.py` say what the kernels do. Kernels in CUDA C++ use `cuda_writer.py`.

Every kernel has one program (thread block) for each member and block of ROWS sequences. A tile is [ROWS, columns]:
those sequences at one time. Names in the text: `member`, `T`, `B`; `rows`, the numbers of the program's sequences, and
`live`, the mask of those that exist; `time`, the time of the moment at hand.
"""

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import torch

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.gpu.compiled import Argument, KernelText
from rnnlab.engine.gpu.formulas import EXACT_FUNCTIONS, FAST_FUNCTIONS, OTHER_FUNCTIONS
from rnnlab.engine.gpu.layout import LEAST_NOT_ROUNDED, Arithmetic, padded, tile
from rnnlab.engine.nodes import NodeCode, Part, Product
from rnnlab.engine.plan import Plan

_HEAD = f"""\
import triton
import triton.language as tl


@triton.jit
def rounded(x, otherwise):  # x in tf32, or `otherwise`: for NaN, which a carry may make zero, and for infinity
    near = ((x.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)
    return tl.where(tl.abs(x) < {LEAST_NOT_ROUNDED!r}, near, otherwise)
"""


class Place:
    """Some columns of an array [B, width] at one time: text of the pointer to its start, and which columns."""

    def __init__(self, start: str, width: int, column: int = 0, part: int | None = None) -> None:
        self.start, self.width, self.column = start, width, column
        self.part = width if part is None else part  # how many columns are meant, from `column` on

    def at(self, column: int, part: int) -> "Place":
        """The same rows, but only `part` of their columns, from `column` on."""
        return Place(self.start, self.width, self.column + column, part)


class Writer:
    """Gathers the lines of one kernel and the arrays that they use."""

    def __init__(
        self,
        plan: Plan,
        widths: dict[Part, int],
        shared: frozenset[str],
        arithmetic: Arithmetic,
        *,
        is_fast: bool,
        shared_bytes: int,
    ) -> None:
        """Begin a kernel.

        Args:
            plan: the plan that it runs a part of.
            widths: the padded widths of parts.
            shared: the inputs that all members share.
            arithmetic: how it multiplies.
            is_fast: whether nonlinearities may be approximate, with errors no larger than those of rounding to bf16.
            shared_bytes: the shared memory that a program may have, in bytes.
        """
        self.shared_bytes = shared_bytes
        self.plan, self.widths, self.shared, self.arithmetic = plan, widths, shared, arithmetic
        self.is_fast = is_fast
        self.arguments: dict[Argument, str] = {}
        self.starts: list[str] = []  # lines that move the pointer of each array to the member at hand
        self.lines: list[str] = []
        self.indent = 1
        self.masks: dict[str, str] = {}  # text of masks, for ranges of columns whose last tile reaches too far
        self.stage_bytes = 1  # shared memory for one step of the product loop that needs most

    def add(self, *lines: str) -> None:
        """Add lines at the present indentation."""
        self.lines += [f"{'    ' * self.indent}{line}" for line in lines]

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """Inside, lines belong to a head that ends in a colon, such as a loop."""
        self.add(head)
        self.indent += 1
        yield
        self.indent -= 1

    @contextmanager
    def columns(self, width: int, size: int, name: str = "columns", first: str = "first_column") -> Generator[None]:
        """Inside, lines belong to a loop over tiles of `size` columns; `name` holds the numbers of a tile's columns."""
        self.masks.pop(name, None)
        if width % size:
            self.masks[name] = f"({name} < {width})"
        # a loop even for a single tile, so that variables inside may have another shape in other loops
        with self.block(f"for {first} in range(0, {width}, {size}):"):
            self.add(f"{name} = {first} + tl.arange(0, {size})")
            yield

    def tile_of(self, width: int, num_sums: int = 1, num_others: int = 0) -> int:
        """How many columns to take at a time, if a thread block holds that many tiles of sums and of other numbers."""
        # a float32 tile [64, 256] takes a quarter of all registers; the others live for a shorter time and often have
        # 16 bits, so they count half
        most = (200 if self.arithmetic.is_split else 420) / (num_sums + num_others / 2)
        return tile(width, max(16, min(256, 1 << int(math.log2(most)))))

    # ------------------------------------------------------------------------------------------------------- arrays

    def array(self, kind: str, of: object, by_member: str) -> str:
        """The variable that points to the member's part of an array; `by_member` is text of the numbers in a part."""
        argument = Argument(kind, of)
        if argument not in self.arguments:
            name = f"{kind}{len(self.arguments)}"
            self.arguments[argument] = name
            self.starts.append(f"{name} += member * ({by_member})")
        return self.arguments[argument]

    def value(self, part: Part, delay: int, kind: str = "values") -> Place:
        """A part of some node's state, `delay` steps ago."""
        width = self.widths[part]
        before, after = self.plan.histories.get(part, 0), self.plan.lookaheads.get(part, 0)
        is_shared = kind == "values" and part[0] in self.shared
        name = self.array(kind, part, "0" if is_shared else f"(T + {before + after}).to(tl.int64) * B * {width}")
        return Place(f"{name} + (time + {before - delay}).to(tl.int64) * B * {width}", width)

    def per_time(self, kind: str, of: object, width: int) -> Place:
        """An array [P, times, B, width] that a node keeps at each of its own times, at the present one."""
        period = self.plan.architecture.period
        name = self.array(kind, of, f"((T + {period - 1}) // {period}).to(tl.int64) * B * {width}")
        return Place(f"{name} + (time // {period}).to(tl.int64) * B * {width}", width)

    def per_row(self, kind: str, of: object, width: int) -> Place:
        """An array [P, B, width] that a node keeps for the present time only."""
        return Place(self.array(kind, of, f"B.to(tl.int64) * {width}"), width)

    def gates(self, code: NodeCode) -> Place:
        """All gates of a node, at the present time."""
        return self.per_time("gates", code.key, code.num_gates * padded(code.units))

    def source(self, code: NodeCode, product: Product) -> Place:
        """What a dense edge multiplies, at the present time of its target."""
        if product.has_projection:
            return self.per_time("projected", product.edge, padded(code.units))
        return self.value(product.part, product.edge.delay)

    def edge_source(self, edge: EdgeSpec, part: str, kind: str = "values") -> Place:
        """The part of the state that an edge brings from its source."""
        return self.value((edge.source[0], part), edge.delay, kind)

    def multiply(
        self, sums: Sequence[tuple[str, int]], place: Place, name: str, shape: tuple[int, int], size: int, turned: bool
    ) -> None:
        """Add products of a place with parts of a matrix to sums, [ROWS, size] each, at the present `columns`.

        Args:
            sums: the variables of the sums, each with the column of the matrix at which its part begins.
            place: the left factor; its columns are the summed axis.
            name: the matrix's.
            shape: the matrix's rows and columns in memory.
            size: how many columns the sums have.
            turned: whether to multiply by the transposed matrix, as in a backward pass.
        """
        rows, columns = shape
        deep = tile(place.part, self.arithmetic.depth)
        # for tf32, matrix units (tensor cores) need the summed axis of the right factor contiguous in memory, as in the
        # matrix itself if the product is with its transpose; other products take a transposed copy
        flips = not turned and self.arithmetic.dtype == torch.float32
        parts = ("_high", "_low") if self.arithmetic.is_split else ("",)
        kinds = [f"{'turned' if flips else 'matrix'}{part}" for part in parts]
        arrays = [self.array(kind, name, f"{rows * columns}") for kind in kinds]
        itemsize = self.arithmetic.dtype.itemsize
        self.stage_bytes = max(self.stage_bytes, deep * (64 + len(sums) * len(arrays) * size) * itemsize)
        with self.columns(place.part, deep, "depth", "first_depth"):
            self.add(f"left = {self.load_factor(place, 'depth')}")
            if self.arithmetic.is_split:
                # infinity is all in the low part: a high part of infinity would leave infinity less infinity, NaN
                self.add("left_high = rounded(left, 0.0)", "rest = left - left_high", "left_low = rounded(rest, rest)")
            for total, start in sums:
                if turned:
                    offsets = f"(depth + {start})[:, None] + (columns * {columns})[None, :]"
                elif flips:
                    offsets = f"depth[:, None] + ((columns + {start}) * {rows})[None, :]"
                else:
                    offsets = f"(depth * {columns})[:, None] + (columns + {start})[None, :]"
                self._add_products(total, [f"tl.load({array} + {offsets}{self._matrix_mask()})" for array in arrays])

    def _matrix_mask(self) -> str:
        axes = {"depth": "[:, None]", "columns": "[None, :]"}
        masks = [self.masks[name] + axis for name, axis in axes.items() if name in self.masks]
        return f", mask={' & '.join(masks)}, other=0.0" if masks else ""

    def _add_products(self, total: str, parts: Sequence[str]) -> None:
        option = f'input_precision="{self.arithmetic.input_precision}"'
        if not self.arithmetic.is_split:
            self.add(f"{total} = tl.dot(left, {parts[0]}, {total}, {option})")
            return
        # matrix units cut off the last bits of sums, where an addition rounds: long sums would drift towards zero, so
        # they only add up the products of one step
        self.add(
            f"right = {parts[0]}",
            f"part = tl.dot(left_low, right, {option})",
            f"part = tl.dot(left_high, {parts[1]}, part, {option})",
            f"{total} += tl.dot(left_high, right, part, {option})",
        )

    # -------------------------------------------------------------------------------------------------------- tiles

    def load(self, place: Place, columns: str = "columns") -> str:
        """Text of a load of a tile, as float32."""
        return f"{self._tile(place, columns)}.to(tl.float32)"

    def load_factor(self, place: Place, columns: str) -> str:
        """Text of a load of a tile, in the dtype of products."""
        return f"{self._tile(place, columns)}.to({self.arithmetic.text})"

    def _tile(self, place: Place, columns: str) -> str:
        return f"tl.load({self._pointers(place, columns)}, mask={self._mask(columns)}, other=0.0)"

    def _mask(self, columns: str) -> str:
        return f"live[:, None] & {self.masks[columns]}[None, :]" if columns in self.masks else "live[:, None]"

    def store(self, place: Place, value: str, columns: str = "columns") -> None:
        """Add a line that stores a tile."""
        self.add(f"tl.store({self._pointers(place, columns)}, {value}, mask={self._mask(columns)})")

    def _pointers(self, place: Place, columns: str) -> str:
        moved = f" + {place.column}" if place.column else ""
        return f"{place.start} + (rows * {place.width})[:, None] + ({columns}{moved})[None, :]"

    def barrier(self) -> None:
        """Add a barrier of the program's threads: what any of them stored before it, all may load after it."""
        self.add("tl.debug_barrier()")

    def load_vector(self, array: str, size: int) -> str:
        """Text of a load of a vector of columns, broadcast to a tile: the same for all sequences."""
        mask = f", mask={self.masks['columns']}, other=0.0" if "columns" in self.masks else ""
        return f"tl.broadcast_to(tl.load({array} + columns{mask})[None, :], (ROWS, {size}))"

    def text(self) -> KernelText:
        """The whole kernel; up to 4 steps of its product loops are in flight, as shared memory has room."""
        numbers = ("T", "B", "num_moments")
        arguments = ", ".join((*self.arguments.values(), *numbers, "ROWS: tl.constexpr"))
        return KernelText(
            f"{_HEAD}\n{FAST_FUNCTIONS if self.is_fast else EXACT_FUNCTIONS}\n{OTHER_FUNCTIONS}\n\n"
            f"@triton.jit(do_not_specialize={list(numbers)})\n"
            f"def kernel({arguments}):\n"
            "    member = tl.program_id(0).to(tl.int64)\n"
            "    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)\n"
            "    live = rows < B\n" + "".join(f"    {line}\n" for line in self.starts) + "\n".join(self.lines) + "\n",
            tuple(self.arguments),
            max(1, min(4, int(0.88 * self.shared_bytes) // self.stage_bytes)),
            8,  # two groups of four: matrix units work for four warps together
        )
