"""Kernels for the commonest component, one node that reads its own last state: what stays stays on the chip.

The matrices that multiply the last state are loaded once and stay in shared memory; the last state, and in the backward
pass its gradient, stay in registers. Memory sees each sum, gate and state once. Other delays are read from memory.

Tiles are powers of two: a width is taken apart into blocks, such as 160 = 64 + 64 + 32.
"""

from typing import NamedTuple

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.gpu.formulas import names_read
from rnnlab.engine.gpu.layout import Arithmetic, padded
from rnnlab.engine.gpu.writer import Writer
from rnnlab.engine.nodes import NodeCode, Product
from rnnlab.engine.plan import Component

MOST_SHARED = 0.7  # of shared memory for matrices
# columns of all gates of 64 sequences: with more, registers spill in the backward pass, and streaming is faster
MOST_SUMS = 256


class Block(NamedTuple):
    """Some columns of a layer."""

    start: int
    size: int

    @property
    def columns(self) -> str:
        """The variable that holds their numbers."""
        return f"columns_{self.start}"


def blocks(width: int, most: int) -> list[Block]:
    """A padded width as powers of two up to `most`.

    >>> [tuple(block) for block in blocks(160, 128)]
    [(0, 128), (128, 32)]
    """
    found: list[Block] = []
    start = 0
    while start < width:
        size = min(most, 1 << ((width - start).bit_length() - 1))
        found.append(Block(start, size))
        start += size
    return found


def step_of(component: Component) -> int:
    """The delay of the last state: -1 where time runs backward."""
    return -1 if component.is_backward else 1


def _most(code: NodeCode) -> int:
    """Columns of a block: few where a step has many numbers to hold for each of them."""
    return 256 if code.num_gates == 1 else 64


def near(code: NodeCode, step: int) -> tuple[Product, ...]:
    """The products of the last state."""
    return tuple(product for product in code.internal if product.edge.delay == step)


def is_resident(
    component: Component, codes: list[NodeCode], period: int, arithmetic: Arithmetic, shared_bytes: int
) -> bool:
    """Whether a component is one node whose matrices and sums fit on the chip, with so much shared memory."""
    if len(codes) != 1 or len(component.nodes) != 1 or period != 1 or arithmetic.is_split:
        return False
    (code,) = codes
    products = near(code, step_of(component))
    width = padded(code.units)
    size = sum(product.num_gates for product in products) * width * width * arithmetic.dtype.itemsize
    return (
        bool(products)
        and not any(product.has_projection for product in code.internal)
        and all(product.edge.delay == step_of(component) for product in code.products if product.reset_pairs)
        and size <= MOST_SHARED * shared_bytes
        and code.num_gates * width <= MOST_SUMS
        and len(blocks(width, _most(code))) <= 3
    )


def has_far(code: NodeCode, step: int) -> bool:
    """Whether a node reads a state of its own of another time: from memory, where other threads have put it."""
    taken_over = [edge for edge, _ in elementwise_reads(code).values() if edge.source[0] == code.key[0]]
    return any(edge.delay != step for edge in (*taken_over, *(product.edge for product in code.internal)))


class ResidentNode:
    """What forward and backward kernels of one node share."""

    def __init__(self, writer: Writer, code: NodeCode, step: int) -> None:
        self.writer, self.code, self.step = writer, code, step
        self.width = padded(code.units)
        self.blocks = blocks(self.width, _most(code))
        self.name = code.key[0]
        # with half the threads a small layer leaves room for another program on the same multiprocessor
        self.num_warps = 4 if code.num_gates * self.width <= 128 else 8
        self.near = near(code, step)
        self.far = tuple(product for product in code.internal if product.edge.delay != step)
        reads = elementwise_reads(code)
        # taken over from the last state as they are, and so kept in float32
        self.carried = {part for edge, part in reads.values() if edge.source[0] == self.name and edge.delay == step}
        self.parts = sorted({product.part[1] for product in self.near} | self.carried)  # all that stays on the chip
        self.has_far = has_far(code, step)

    def is_near(self, name: str) -> str | None:
        """The part of the last state that a name in the formulas means, if it does."""
        found = elementwise_reads(self.code).get(name.removeprefix("d "))
        if found is None or found[0].source[0] != self.name or found[0].delay != self.step:
            return None
        return found[1]

    def start(self) -> None:
        """Lines before the loop: numbers of columns."""
        for block in self.blocks:
            self.writer.add(f"{block.columns} = {block.start} + tl.arange(0, {block.size})")
        self.writer.add("is_relu = False")
        if not isinstance(self.code.choice, str):
            self.writer.add(f"is_relu = tl.load({self.writer.array('relu', self.code.key, '1')}) > 0")

    def time(self, *, backward: bool) -> str:
        """Text of the time at hand, `number` steps after the loop began."""
        return "time = number + (T - T)" if (self.step == 1) != backward else "time = T - 1 - number"

    def load_matrices(self, *, turned: bool) -> None:
        """Lines that load the tiles of all matrices of the last state, for rows by columns of blocks."""
        for number, product in enumerate(self.near):
            columns = product.num_gates * self.width
            for mine in range(product.num_gates):
                for row in self.blocks:
                    for column in self.blocks:
                        left, right = f"{row.columns}[:, None]", f"{column.columns}[None, :]"
                        if turned:
                            offsets = f"({left} + {mine * self.width}) + {right} * {columns}"
                        else:
                            offsets = f"{left} * {columns} + ({right} + {mine * self.width})"
                        array = self.writer.array("matrix", product.name, str(self.width * columns))
                        self.writer.add(
                            f"{self.matrix(number, mine, row, column)} = tl.load({array} + {offsets})",
                        )

    def matrix(self, number: int, gate: int, row: Block, column: Block) -> str:
        """The variable of a tile of a matrix."""
        return f"w{number}_{gate}_{row.start}_{column.start}"

    def dot(self, left: str, right: str, total: str) -> str:
        """Text of a product of tiles added to a sum."""
        return f'tl.dot({left}, {right}, {total}, input_precision="{self.writer.arithmetic.input_precision}")'

    def factor(self, variable: str) -> str:
        """Text of a tile as products take it."""
        return f"{variable}.to({self.writer.arithmetic.text})"

    def bias(self, name: str, block: Block) -> str:
        """Text of the bias of a gate."""
        array = self.writer.array("bias", self.code.bias, str(self.code.num_gates * self.width))
        start = self.code.program.gates.index(name.removeprefix("bias ")) * self.width
        return f"tl.load({array} + {start} + {block.columns})[None, :]"


def elementwise_reads(code: NodeCode) -> dict[str, tuple[EdgeSpec, str]]:
    """For names in a node's formulas that stand for states as they are, the edge and the part that it brings."""
    found: dict[str, tuple[EdgeSpec, str]] = {}
    for outputs in (code.program.early or {}, code.program.forward, code.program.backward):
        for name in names_read(outputs):
            kind, _, rest = name.partition(" ")
            if kind == "carried":
                part, _, number = rest.rpartition(" ")
                found[name] = (code.carries[int(number)], part)
            elif kind == "identity":
                found[name] = (code.identities[int(rest)], code.identities[int(rest)].port or "")
            elif kind == "depth" and not code.depth_product.has_projection:
                found[name] = (code.depth_product.edge, code.depth_product.part[1])
    return found
