"""Text of a Triton kernel in the making: lines, arrays it is given, tiles it loads and stores.

Every kernel has one program for each member and tile of its batch. A tile is [ROWS, columns]: some sequences of one
member at one time. Names in the text: `member`, `T`, `B`; `rows`, the sequences of the tile, and `live`, which of them
there are; `time`, the moment at hand.
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
def rounded(x, otherwise):  # to what tf32 holds, but for what is NaN, which a carry would make zero, or infinite
    near = ((x.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)
    return tl.where(tl.abs(x) < {LEAST_NOT_ROUNDED!r}, near, otherwise)
"""


class Place:
    """A row of columns for each sequence at a time: text of the pointer to its start, and the length of a row."""

    def __init__(self, start: str, width: int, column: int = 0, part: int | None = None) -> None:
        self.start, self.width, self.column = start, width, column
        self.part = width if part is None else part  # how much of the row is meant

    def at(self, column: int, part: int) -> "Place":
        """So many columns from one on."""
        return Place(self.start, self.width, self.column + column, part)


class Writer:
    """Gathers the lines of one kernel."""

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
        """A kernel to be.

        Args:
            plan: of which it is a part.
            widths: of parts as they lie in memory.
            shared: inputs that are one for all members.
            arithmetic: how it multiplies.
            is_fast: whether nonlinearities may be off by as much as rounding to bf16.
            shared_bytes: memory of a multiprocessor that a program may have.
        """
        self.shared_bytes = shared_bytes
        self.plan, self.widths, self.shared, self.arithmetic = plan, widths, shared, arithmetic
        self.is_fast = is_fast
        self.arguments: dict[Argument, str] = {}
        self.starts: list[str] = []  # lines that move each array to the member at hand
        self.lines: list[str] = []
        self.indent = 1
        self.masks: dict[str, str] = {}  # for columns that may hang over, which of them there are
        self.stage_bytes = 1  # of one step of the deepest product loop

    def add(self, *lines: str) -> None:
        """Lines at the present indentation."""
        self.lines += [f"{'    ' * self.indent}{line}" for line in lines]

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """Lines under a head that ends in a colon."""
        self.add(head)
        self.indent += 1
        yield
        self.indent -= 1

    @contextmanager
    def columns(self, width: int, size: int, name: str = "columns", first: str = "first_column") -> Generator[None]:
        """Lines for tile after tile of columns."""
        self.masks.pop(name, None)
        if width % size:
            self.masks[name] = f"({name} < {width})"
        # a loop even where there is one tile: what is named inside may then have another shape elsewhere
        with self.block(f"for {first} in range(0, {width}, {size}):"):
            self.add(f"{name} = {first} + tl.arange(0, {size})")
            yield

    def tile_of(self, width: int, num_sums: int = 1, num_others: int = 0) -> int:
        """How many columns to take at a time where so many sums of them and other tiles are at hand."""
        # [64, 256] of float32 are a quarter of all registers; others are there for a while, and often of 16 bits
        most = (200 if self.arithmetic.is_split else 420) / (num_sums + num_others / 2)
        return tile(width, max(16, min(256, 1 << int(math.log2(most)))))

    # ------------------------------------------------------------------------------------------------------- arrays

    def array(self, kind: str, of: object, by_member: str) -> str:
        """The variable of an array at the member at hand; `by_member` is how many numbers a member has."""
        argument = Argument(kind, of)
        if argument not in self.arguments:
            name = f"{kind}{len(self.arguments)}"
            self.arguments[argument] = name
            self.starts.append(f"{name} += member * ({by_member})")
        return self.arguments[argument]

    def value(self, part: Part, delay: int, kind: str = "values") -> Place:
        """A part of some node's state so many steps ago."""
        width = self.widths[part]
        before, after = self.plan.histories.get(part, 0), self.plan.lookaheads.get(part, 0)
        is_shared = kind == "values" and part[0] in self.shared
        name = self.array(kind, part, "0" if is_shared else f"(T + {before + after}).to(tl.int64) * B * {width}")
        return Place(f"{name} + (time + {before - delay}).to(tl.int64) * B * {width}", width)

    def per_time(self, kind: str, of: object, width: int) -> Place:
        """Something that a node keeps at each of its times."""
        period = self.plan.architecture.period
        name = self.array(kind, of, f"((T + {period - 1}) // {period}).to(tl.int64) * B * {width}")
        return Place(f"{name} + (time // {period}).to(tl.int64) * B * {width}", width)

    def per_row(self, kind: str, of: object, width: int) -> Place:
        """Something that a node keeps for one time only."""
        return Place(self.array(kind, of, f"B.to(tl.int64) * {width}"), width)

    def gates(self, code: NodeCode) -> Place:
        """All gates of a node."""
        return self.per_time("gates", code.key, code.num_gates * padded(code.units))

    def source(self, code: NodeCode, product: Product) -> Place:
        """What a dense edge multiplies."""
        if product.has_projection:
            return self.per_time("projected", product.edge, padded(code.units))
        return self.value(product.part, product.edge.delay)

    def edge_source(self, edge: EdgeSpec, part: str, kind: str = "values") -> Place:
        """A part of the state at an edge's source."""
        return self.value((edge.source[0], part), edge.delay, kind)

    def multiply(
        self, sums: Sequence[tuple[str, int]], place: Place, name: str, shape: tuple[int, int], size: int, turned: bool
    ) -> None:
        """Add a place times parts of a matrix to sums, [ROWS, size], at the present `columns`.

        Args:
            sums: each with the row (turned) or column of the matrix at which its part begins.
            place: what is multiplied, as wide as the part is high.
            name: the matrix.
            shape: its rows and columns in memory.
            size: of the tile of columns.
            turned: whether the place meets the matrix's columns, not its rows.
        """
        rows, columns = shape
        deep = tile(place.part, self.arithmetic.depth)
        # matrix units take float32 only with the numbers that are added up side by side
        flips = not turned and self.arithmetic.dtype == torch.float32
        parts = ("_high", "_low") if self.arithmetic.is_split else ("",)
        kinds = [f"{'turned' if flips else 'matrix'}{part}" for part in parts]
        arrays = [self.array(kind, name, f"{rows * columns}") for kind in kinds]
        itemsize = self.arithmetic.dtype.itemsize
        self.stage_bytes = max(self.stage_bytes, deep * (64 + len(sums) * len(arrays) * size) * itemsize)
        with self.columns(place.part, deep, "depth", "first_depth"):
            self.add(f"left = {self.load_factor(place, 'depth')}")
            if self.arithmetic.is_split:
                # what is infinite is all in the low part: of infinity less infinity there would be nothing left
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
        # matrix units cut sums off where an addition rounds: long sums would drift towards zero
        self.add(
            f"right = {parts[0]}",
            f"part = tl.dot(left_low, right, {option})",
            f"part = tl.dot(left_high, {parts[1]}, part, {option})",
            f"{total} += tl.dot(left_high, right, part, {option})",
        )

    # -------------------------------------------------------------------------------------------------------- tiles

    def load(self, place: Place, columns: str = "columns") -> str:
        """Text of a tile, in float32."""
        return f"{self._tile(place, columns)}.to(tl.float32)"

    def load_factor(self, place: Place, columns: str) -> str:
        """Text of a tile that is to be multiplied."""
        return f"{self._tile(place, columns)}.to({self.arithmetic.text})"

    def _tile(self, place: Place, columns: str) -> str:
        return f"tl.load({self._pointers(place, columns)}, mask={self._mask(columns)}, other=0.0)"

    def _mask(self, columns: str) -> str:
        return f"live[:, None] & {self.masks[columns]}[None, :]" if columns in self.masks else "live[:, None]"

    def store(self, place: Place, value: str, columns: str = "columns") -> None:
        """Write a tile."""
        self.add(f"tl.store({self._pointers(place, columns)}, {value}, mask={self._mask(columns)})")

    def _pointers(self, place: Place, columns: str) -> str:
        moved = f" + {place.column}" if place.column else ""
        return f"{place.start} + (rows * {place.width})[:, None] + ({columns}{moved})[None, :]"

    def barrier(self) -> None:
        """What was stored before may be loaded after."""
        self.add("tl.debug_barrier()")

    def load_vector(self, array: str, size: int) -> str:
        """Text of a tile that is the same for all sequences."""
        mask = f", mask={self.masks['columns']}, other=0.0" if "columns" in self.masks else ""
        return f"tl.broadcast_to(tl.load({array} + columns{mask})[None, :], (ROWS, {size}))"

    def text(self) -> KernelText:
        """The whole kernel; as many steps of its product loops are on their way as fit."""
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
            8,  # two groups of four, which share a product of the matrix units
        )
