"""Nodes that fit on one multiprocessor, or on a cluster of them: matrices and last states stay on the chip.

A component whose matrices fit runs so in populations: one program for each member and some of its sequences, or a few
programs of a cluster that share its units, which need to wait for nobody else. States of longer ago than a step come
back from memory, while the step before computes. `resident_forward` and `resident_backward` write the kernels, with
`resident_writer` and on top of `resident.cu`.
"""

from collections.abc import Collection, Sequence
from functools import cached_property
from graphlib import TopologicalSorter
from typing import NamedTuple

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.gpu.formulas import names_read
from rnnlab.engine.gpu.layout import SMALLEST, Arithmetic, padded
from rnnlab.engine.nodes import NodeCode, Part, Passed, Product, passed_by
from rnnlab.engine.plan import Component
from rnnlab.graph.elements import NodeKey

MOST_UNITS = 256
MOST_NODES = 8
NUMBERS_OF_ROWS = (64, 32, 16)  # how many sequences a program may take
CLUSTERS = (2, 4, 8)  # how many programs may share units
LOOKS = 16  # numbers that a leg of a relay keeps of others in shared memory: two for each edge that is handed on
LEAST_WARPS, MOST_WARPS = 8, 16  # of a program of few rows, whose steps are short; or each has too few registers

Reader = tuple[NodeCode, Product]
"""A read-out, whose gradient is multiplied in the backward kernel of the node and not before."""


class Shape(NamedTuple):
    """How a member is cut up: how many sequences a program takes, and how many programs share the units."""

    rows: int
    num_programs: int = 1

    def num_in_all(self, members: int, batch: int) -> int:
        """How many programs run so many members and sequences."""
        return members * -(-batch // self.rows) * self.num_programs


class Warps(NamedTuple):
    """How the warps of a program share its rows and units: each has some times 16 rows, and some tiles of 8 units."""

    num_warps: int
    num_row_groups: int
    row_tiles: int
    unit_tiles: int


def warps_of(units: int, shape: Shape, *, are_tall: bool = False) -> Warps:
    """As wide as memory is read in long pieces, and at most twice 16 rows; where there are few rows, more and narrower.

    Tall warps take twice 16 rows from 32 sequences on, others from 64 on.

    >>> warps_of(118, Shape(64))
    Warps(num_warps=8, num_row_groups=2, row_tiles=2, unit_tiles=4)
    >>> warps_of(64, Shape(16))
    Warps(num_warps=8, num_row_groups=1, row_tiles=1, unit_tiles=1)
    >>> warps_of(256, Shape(16, num_programs=8))
    Warps(num_warps=4, num_row_groups=1, row_tiles=1, unit_tiles=1)
    >>> warps_of(256, Shape(32, num_programs=8), are_tall=True)
    Warps(num_warps=4, num_row_groups=1, row_tiles=2, unit_tiles=1)
    """
    rows, num_tiles = shape.rows, padded(units) // shape.num_programs // 8
    least = LEAST_WARPS if rows == SMALLEST else 1
    wide = [number for number in (2, 4) if num_tiles % number == 0 and num_tiles // number >= least]
    unit_tiles = max(wide, default=1) if shape.num_programs == 1 else 1
    row_tiles = 2 if rows > (16 if are_tall else 32) else 1
    num_row_groups = rows // 16 // row_tiles
    return Warps(num_tiles // unit_tiles * num_row_groups, num_row_groups, row_tiles, unit_tiles)


REGISTERS = 512  # of a quarter of a multiprocessor, for each lane of the warps that run there
MOST_REGISTERS = 255  # that a thread can have
WORKING_REGISTERS = 116  # what the forward kernels of cells with four gates take for all but matrices


def registers_for_matrices(num_warps: int) -> int:
    """How many numbers of matrices, 32 bits each, a thread can keep for the whole sequence beside all else it computes.

    >>> registers_for_matrices(5), registers_for_matrices(9)
    (139, 52)
    """
    most = REGISTERS // -(-num_warps // 4) // 8 * 8
    return max(0, min(most, MOST_REGISTERS) - WORKING_REGISTERS)


def registers_of_a_gate(width: int, arithmetic: Arithmetic) -> int:
    """How many numbers of a matrix a thread keeps for each of its gates, where a warp has 8 units.

    A number that is split counts twice, for the compiler splits it only once, and keeps both halves.
    """
    return width * arithmetic.dtype.itemsize // 16 * (2 if arithmetic.is_split else 1)


class Resident:
    """The nodes of a component in the order in which they run at a time, and who reads what of them.

    The age of what an edge brings is how many steps ago it was computed: 0 for a node that ran before at the same time.

    Args:
        component: the component.
        codes: its nodes.
        period: of the graph.
        handed: of a leg of a relay, the edges that bring states from another leg.
    """

    def __init__(
        self,
        component: Component,
        codes: Sequence[NodeCode],
        period: int,
        handed: Collection[EdgeSpec] | None = None,
    ) -> None:
        self.step, self.period = -1 if component.is_backward else 1, period
        self.is_leg = handed is not None
        self.keys = frozenset(code.key for code in codes)
        by_key = {code.key: code for code in codes}
        order = TopologicalSorter({code.key: self._before(code) for code in codes}).static_order()
        self.codes = tuple(by_key[key] for key in order)
        self.width = padded(codes[0].units)
        self.products = [(code, product) for code in self.codes for product in code.internal]
        self.handed = [(code, each) for code in self.codes for each in code.external if each.edge in (handed or ())]
        self.passed = [each for code in self.codes for each in passed_by(code) if self.is_internal(each.edge)]

    def warps(self, shape: Shape, arithmetic: Arithmetic, *, backward: bool) -> Warps:
        """How the warps of a program share its rows and units.

        They are tall in relays: all legs run with as many threads as the one that needs most, and then legs of 16 and
        of 32 sequences need equally many. And they are tall where there would be too many otherwise, or so many that
        their threads have no registers for the matrices of the forward pass.
        """
        few, many = (warps_of(self.width, shape, are_tall=are_tall) for are_tall in (True, False))
        needed = self.registers(arithmetic)
        could_keep = not backward and shape.num_programs > 1 and needed <= registers_for_matrices(few.num_warps)
        lack_registers = could_keep and needed > registers_for_matrices(many.num_warps)
        return few if self.is_leg or many.num_warps > MOST_WARPS or lack_registers else many

    def num_groups(self, warps: Warps) -> int:
        """How many groups of warps have rows of their own, and need not wait for one another; legs of relays do."""
        return 1 if self.is_leg else warps.num_row_groups

    def registers(self, arithmetic: Arithmetic) -> int:
        """How many a thread needs to keep its warp's part of all matrices, which is 8 units wide."""
        num_gates = sum(product.num_gates for _, product in self.products)
        return num_gates * registers_of_a_gate(self.width, arithmetic)

    @property
    def most_gates(self) -> int:
        """Of a node."""
        return max(code.num_gates for code in self.codes)

    @property
    def num_numbers(self) -> int:
        """Of all matrices, as often as they are multiplied."""
        return sum(product.num_gates for _, product in self.products) * self.width**2

    @property
    def num_handed(self) -> int:
        """Of the matrices that multiply what other legs of a relay hand on."""
        return sum(product.num_gates for _, product in self.handed) * self.width**2

    @property
    def matrices(self) -> dict[str, int]:
        """How many gates each of them has columns for, by name."""
        return {product.name: product.num_gates for _, product in [*self.products, *self.handed]}

    def _before(self, code: NodeCode) -> list[NodeKey]:
        """Who runs before a node at the same time."""
        edges = [product.edge for product in code.internal] + list(taken_over(code).values())
        return [edge.source for edge in edges if self.is_internal(edge) and edge.delay == 0]

    def is_internal(self, edge: EdgeSpec) -> bool:
        """Whether an edge comes from a node of the component."""
        return edge.source in self.keys

    def age(self, edge: EdgeSpec) -> int:
        """How many steps ago what an edge brings was computed."""
        return edge.delay * self.step

    @cached_property
    def internal_edges(self) -> list[tuple[NodeCode, EdgeSpec]]:
        """Everything that nodes read of one another, multiplied or as it is."""
        found = [(code, product.edge) for code, product in self.products]
        taken = [(code, edge) for code in self.codes for edge in taken_over(code).values()]
        return found + [(code, edge) for code, edge in taken if self.is_internal(edge)]

    def is_in_time(self, code: NodeCode, edge: EdgeSpec) -> bool:
        """Whether a node reads what it does before another of the same name takes its place."""
        if self.age(edge) != 1:
            return self.age(edge) == 0
        position = {each.key: number for number, each in enumerate(self.codes)}
        own = position[code.key]
        name, phase = edge.source[0], code.key[1]
        return all(own <= position[each.key] for each in self.codes if each.key == (name, phase))

    @cached_property
    def multiplied(self) -> list[Part]:
        """What products read that is on the chip."""
        return list(dict.fromkeys(product.part for _, product in self.products if self.age(product.edge) <= 1))

    @property
    def every_node_is_sent(self) -> bool:
        """Whether every node is multiplied with something here, so that programs of a cluster send its state.

        Else one of them could be a step ahead, and send to where another still reads.
        """
        return {code.key[0] for code in self.codes} == {name for name, _ in self.multiplied}

    @cached_property
    def delayed(self) -> list[tuple[NodeCode, Product]]:
        """Products of what was computed longer ago: in memory, where programs of a cluster do not see one another's."""
        return [(code, product) for code, product in self.products if self.age(product.edge) > 1]

    @cached_property
    def held(self) -> list[Part]:
        """What nodes take over as it is from registers."""
        found: list[Part] = []
        for code in self.codes:
            for name, edge in taken_over(code).items():
                if self.is_internal(edge) and self.is_in_time(code, edge):
                    found.append((edge.source[0], code.edge_read(name)[1]))
        return list(dict.fromkeys(found))

    @cached_property
    def kept(self) -> list[Part]:
        """Parts whose gradients stay in registers until they are needed: those that the component reads."""
        parts = [product.part for _, product in self.products] + [each.source for each in self.passed]
        return list(dict.fromkeys(parts))

    def has_two_gradients(self, name: str) -> bool:
        """Whether a gradient of the step before arrives while that of the present one is still needed."""
        return any(
            edge.source[0] == name and self.age(edge) == 1 and not self.is_in_time(code, edge)
            for code, edge in self.internal_edges
        )


def can_be_resident(component: Component, codes: Sequence[NodeCode]) -> bool:
    """Whether a component has few enough nodes, all of which compute something."""
    return 0 < len(codes) == len(component.nodes) <= MOST_NODES


def shapes_of(
    resident: Resident, arithmetic: Arithmetic, factors: Collection[Part], most: int, most_programs: int
) -> tuple[Shape, ...]:
    """How a component may be cut up, alone and most sequences first; not at all where it cannot be resident.

    Args:
        resident: the nodes.
        arithmetic: how they multiply.
        factors: parts that lie in memory as products take them.
        most: bytes that a program may have of a multiprocessor's own memory.
        most_programs: that may form a cluster.
    """
    if not _is_possible(resident, factors):
        return ()
    can_share = (
        not resident.delayed and resident.every_node_is_sent and not any(map(_has_only_late_gates, resident.codes))
    )
    numbers = [1, *(number for number in CLUSTERS if number <= most_programs and can_share)]
    # each has whole tiles of units, and as many as are multiplied at a time
    numbers = [number for number in numbers if number == 1 or resident.width % (number * SMALLEST) == 0]
    found = [Shape(rows, number) for number in numbers for rows in NUMBERS_OF_ROWS]
    return tuple(shape for shape in found if _fits(resident, arithmetic, shape, most))


def _is_possible(resident: Resident, factors: Collection[Part]) -> bool:
    ages = {resident.age(edge) for _, edge in resident.internal_edges}
    return (
        {padded(code.units) for code in resident.codes} == {resident.width}
        and resident.width <= MOST_UNITS
        and not any("" in code.parts for code in resident.codes)  # an output
        and min(ages, default=0) >= 0
        and (resident.step == 1 or (resident.period == 1 and max(ages, default=0) <= 1))
        and not any(product.has_projection for _, product in resident.products)
        and not any(product.reset_pairs for code in resident.codes for product in code.external)
        and all(product.part in factors and not product.reset_pairs for _, product in resident.delayed)
    )


def _has_only_late_gates(code: NodeCode) -> bool:
    """Whether in the backward pass an exchange would be of nothing, after which no program would wait for another."""
    return len(code.late_gates) == code.num_gates


def _fits(resident: Resident, arithmetic: Arithmetic, shape: Shape, most: int) -> bool:
    passes = (False, True)
    num_bytes = max(Layout(resident, arithmetic, shape, backward).total for backward in passes)
    num_warps = max(resident.warps(shape, arithmetic, backward=backward).num_warps for backward in passes)
    return num_bytes <= most and num_warps <= MOST_WARPS


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

    So eight rows' pieces of 16 bytes touch every bank once. Float32 numbers that are multiplied with tiles are read in
    pairs, four rows' pieces of 32 bytes at a time.

    Args:
        resident: the nodes.
        arithmetic: how they multiply.
        shape: how they are cut up.
        backward: in which pass.
        readers: read-outs whose products are made in the backward kernel.
    """

    def __init__(
        self,
        resident: Resident,
        arithmetic: Arithmetic,
        shape: Shape,
        backward: bool,
        readers: Sequence[Reader] = (),
    ) -> None:
        self._itemsize, self.total = arithmetic.dtype.itemsize, 0
        rows, width, share = shape.rows, resident.width, resident.width // shape.num_programs
        is_shared = shape.num_programs > 1
        self.sends_gates = is_shared and backward and sends_gates(resident, self._itemsize)
        self._gap = 32 if is_shared and self._itemsize == 4 and (self.sends_gates or not backward) else 16
        gates = resident.matrices
        if not backward:  # what is handed on does not come as tiles
            own = {product.name for _, product in resident.products}
            gaps = {name: self._gap if name in own else 16 for name in gates}
            self.matrices = {name: self._place(gates[name] * share, width, gaps[name]) for name in gates}
        elif self.sends_gates:
            self.matrices = {name: self._place(share, count * width) for name, count in gates.items()}
        else:
            self.matrices = {name: self._place(width, count * share) for name, count in gates.items()}
        most_gates = resident.most_gates
        if self.sends_gates:  # others may be an exchange ahead, and late gates are still read after the next one
            self.num_buffers = 3 if any(code.program.late for code in resident.codes) else 2
            self.gates = self._place_of_tiles(self.num_buffers * rows, most_gates * width)
            self.gates_bytes = rows * self.gates.stride
            self.delayed = {}
        elif backward:
            # where gradients are handed back, gates are still multiplied when those of the next moment come
            self.num_buffers = 2 if resident.handed else 1
            self.gates = self._place(self.num_buffers * rows, most_gates * share)
            self.gates_bytes = rows * self.gates.stride
            self.delayed = {
                product.edge: self._place(rows, code.num_gates * share) for code, product in resident.delayed
            }
        else:  # of the present step and of the last, in turn
            place = self._place_of_tiles if is_shared else self._place
            self.states = {part: place(2 * rows, width) for part in resident.multiplied}
            self.delayed = {product.edge: place(2 * rows, width) for _, product in resident.delayed}
            self.handed = {product.edge: self._place(2 * rows, width, gap=16) for _, product in resident.handed}
            has_resets = any(code.program.early is not None for code in resident.codes)
            self.resets = place(rows if has_resets else 0, width)  # what a second product multiplies
            self.buffer_bytes = rows * self.resets.stride
        self.readers = [self._place(share, padded(reader.units)) for reader, _ in readers]
        # in a cluster, two times the sums of all its programs, and two counters of bytes for each group of warps
        self.parts_bytes = rows * width * 4 if is_shared and backward and not self.sends_gates else 0
        self.parts = self.total
        self.counters = self.parts + 2 * self.parts_bytes
        num_groups = resident.num_groups(resident.warps(shape, arithmetic, backward=backward))
        self.looks = self.counters + (16 * num_groups if is_shared else 0)
        self.total = self.looks + (4 * LOOKS if resident.is_leg else 0)

    def _place(self, count: int, width: int, gap: int | None = None) -> Place:
        """Room for so many rows of numbers."""
        place = Place(self.total, width * self._itemsize + (self._gap if gap is None else gap))
        self.total += count * place.stride
        return place

    def _place_of_tiles(self, count: int, width: int) -> Place:
        """The same as tiles, in which rows have no place of their own."""
        place = Place(self.total, width * self._itemsize)
        self.total += count * place.stride
        return place


def sends_gates(resident: Resident, itemsize: int) -> bool:
    """Whether in the backward pass the programs of a cluster send one another gradients of gates, or else sums of what
    these give when multiplied with their units: whichever is less.

    A leg of a relay sends sums only if it has one exchange of its own in a moment.
    """
    if resident.is_leg and (len(resident.codes) > 1 or any(code.program.late is not None for code in resident.codes)):
        return True
    num_gates = sum(code.num_gates for code in resident.codes)
    num_sums = sum(bool(pairs) for _, product in resident.products for pairs in (product.pairs, product.reset_pairs))
    return num_gates * itemsize <= num_sums * 4


def kept_as_passed(each: Passed, resident: Resident) -> bool:
    """Whether what a formula passes back goes to registers, and not through memory."""
    return resident.is_internal(each.edge) and resident.age(each.edge) <= 1
