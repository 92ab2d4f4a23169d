"""Text of a kernel in the making: lines, arrays it is given, tiles it loads and stores.

Every kernel has one program for each member and tile of its batch. A tile is [ROWS, columns]: some sequences of one
member at one time. Names in the text: `member`, `T`, `B`; `rows`, the sequences of the tile, and `live`, which of them
there are; `time`, the moment at hand.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.gpu.compiled import Argument, KernelText
from rnnlab.engine.gpu.formulas import EXACT_FUNCTIONS, FAST_FUNCTIONS, OTHER_FUNCTIONS
from rnnlab.engine.gpu.layout import Arithmetic, padded
from rnnlab.engine.gpu.nodes import NodeCode, Part, Product
from rnnlab.engine.plan import Plan

_HEAD = """\
import triton
import triton.language as tl
"""


class Place:
    """A row of columns for each sequence at a time: text of the pointer to its start, and the length of a row."""

    def __init__(self, start: str, width: int, column: int = 0) -> None:
        self.start, self.width, self.column = start, width, column

    def at(self, column: int) -> "Place":
        """The same from a column on."""
        return Place(self.start, self.width, self.column + column)


class Writer:
    """Gathers the lines of one kernel."""

    def __init__(
        self, plan: Plan, widths: dict[Part, int], shared: frozenset[str], arithmetic: Arithmetic, *, is_fast: bool
    ) -> None:
        """Widths of parts as they lie in memory; `shared` are inputs that are one for all members."""
        self.plan, self.widths, self.shared, self.arithmetic = plan, widths, shared, arithmetic
        self.is_fast = is_fast
        self.arguments: dict[Argument, str] = {}
        self.starts: list[str] = []  # lines that move each array to the member at hand
        self.lines: list[str] = []
        self.indent = 1

    def add(self, *lines: str) -> None:
        """Lines at the present indentation."""
        self.lines += [f"{'    ' * self.indent}{line}" for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines under a head that ends in a colon."""
        self.add(head)
        self.indent += 1
        yield
        self.indent -= 1

    @contextmanager
    def columns(self, width: int, size: int, name: str = "columns", first: str = "first_column") -> Iterator[None]:
        """Lines for tile after tile of columns."""
        if width == size:
            self.add(f"{name} = tl.arange(0, {size})")
            yield
            return
        with self.block(f"for {first} in range(0, {width}, {size}):"):
            self.add(f"{name} = {first} + tl.arange(0, {size})")
            yield

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

    def matrix(self, name: str, rows: int, columns: int) -> str:
        """A matrix of the member at hand, made ready for products."""
        return self.array("matrix", name, f"{rows * columns}")

    # -------------------------------------------------------------------------------------------------------- tiles

    def load(self, place: Place, columns: str = "columns") -> str:
        """Text of a tile, in float32."""
        return f"{self._tile(place, columns)}.to(tl.float32)"

    def load_factor(self, place: Place, columns: str) -> str:
        """Text of a tile that is to be multiplied."""
        return f"{self._tile(place, columns)}.to({self.arithmetic.text})"

    def _tile(self, place: Place, columns: str) -> str:
        return f"tl.load({self._pointers(place, columns)}, mask=live[:, None], other=0.0)"

    def store(self, place: Place, value: str, columns: str = "columns") -> None:
        """Write a tile."""
        self.add(f"tl.store({self._pointers(place, columns)}, {value}, mask=live[:, None])")

    def _pointers(self, place: Place, columns: str) -> str:
        moved = f" + {place.column}" if place.column else ""
        return f"{place.start} + (rows * {place.width})[:, None] + ({columns}{moved})[None, :]"

    def barrier(self) -> None:
        """What was stored before may be loaded after."""
        self.add("tl.debug_barrier()")

    def dot(self, left: str, right: str, total: str) -> str:
        """Text of a product added to a sum."""
        return f'tl.dot({left}, {right}, {total}, input_precision="{self.arithmetic.input_precision}")'

    def text(self, constants: str = "") -> KernelText:
        """The whole kernel."""
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
        )
