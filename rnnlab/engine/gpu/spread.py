"""A network spread over the GPU: each program holds some units of one node for some sequences, for the whole sequence.

Programs wait for the numbers that others compute, not for barriers of the whole grid: a node goes on as soon as the
states that it reads are there, so layers run as a wavefront by themselves. This file says how the work is cut up and
what that costs; `spread_forward` and `spread_backward` write the kernels, on top of `spread.cu`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from rnnlab.engine.gpu.compiled import Argument
from rnnlab.engine.gpu.layout import SMALLEST, Arithmetic, padded
from rnnlab.engine.gpu.sharing import Processors
from rnnlab.engine.nodes import NodeCode, Pairs, Part, Product, runs
from rnnlab.engine.plan import Component
from rnnlab.graph.elements import NodeKey

WARPS = 8
CHUNK = 64  # bytes of a row that are copied at a time, as in spread.cu
DEEP = 32  # bytes of a row that are multiplied at a time
MOST_STAGES = 9  # copies on their way at a time
MOST_SUMS = 64  # that a thread holds for both programs of a pair; with twice as many it lacks registers

# If all programs together copy no more than this in a stage, they copy numbers before these are known to be there, and
# again until they are. More would hold up the stores that they wait for.
EARLY_BYTES = 1_000_000

# Microseconds of a moment, fitted to timings on an H200 (benchmarks/results/gpu-tilings-h200.json; tanh, LSTM and GRU,
# width 256 to 2048, all tilings).
_EARLY_STAGE, _STAGE = 0.85, 1.23  # for each stage, if copies are early, or come after a look
_PAIR = 0.1  # in each stage, for what programs of a pair send each other
_WAIT = 0.22  # in each stage, for each 32 programs that one must hear from
_READ = 0.8  # for 100 kB that a program reads
_FAR = 0.3  # for 10 MB of matrices that all programs stream beyond what the second-level cache holds
_TILES = 1.27  # for 1000 tiles of 16 x 8 numbers, 32 bytes deep
_GATES = 0.4  # for 1000 numbers of a program's gates
CACHE_BYTES = 50_000_000  # of the second-level cache
NEARLY = 1.2  # estimates that differ less count as equal: they are off by 10 in 100 on average


@dataclass(frozen=True, eq=False)  # each is itself only
class Segment:
    """A product inside a stage: numbers that some node tells of, times columns of a matrix."""

    product: Product
    owner: NodeCode  # the node that tells of what is multiplied
    matrix: Argument  # which lies so that the numbers along the depth are neighbours
    depth: int  # how many numbers of each row are multiplied
    first: int  # where they begin in their row
    matrix_first: int  # and in the matrix's
    matrix_width: int  # numbers from one of the matrix's rows to the next
    groups: tuple[int, ...]  # the sums that are fed, each as wide as a program's units
    matrix_rows: tuple[int, ...]  # for each, where its rows in the matrix begin

    def num_chunks(self, itemsize: int) -> int:
        """Copies that it takes along the depth."""
        return -(-self.depth * itemsize // CHUNK)


class Stage(NamedTuple):
    """Products that are made between two waits."""

    segments: tuple[Segment, ...]
    num_groups: int

    def num_chunks(self, itemsize: int) -> int:
        """All copies."""
        return sum(segment.num_chunks(itemsize) for segment in self.segments)

    def num_bytes(self, itemsize: int) -> int:
        """Of a row of all that is multiplied."""
        return sum(segment.depth for segment in self.segments) * itemsize

    def num_parts(self, itemsize: int, row_groups: int) -> int:
        """Warps among which the depth is divided, of each group that has rows of its own."""
        return min(WARPS // row_groups, self.num_chunks(itemsize))


def forward_stages(codes: Sequence[NodeCode], code: NodeCode, widths: dict[Part, int]) -> list[Stage]:
    """The products of a node in the forward pass: into its gates, then the second one of those that have one."""
    by_key = {each.key: each for each in codes}
    late, fresh = code.late_gates, first_sums(code)
    first = [
        _into_gates(product, by_key[product.edge.source], code, product.pairs, fresh, widths[product.part])
        for product in code.internal
        if product.pairs
    ]
    stages = [Stage(tuple(first), len(fresh))]
    if code.program.early is not None:
        second = [
            _into_gates(product, code, code, product.reset_pairs, late, padded(code.units))
            for product in code.products
            if product.reset_pairs
        ]
        stages.append(Stage(tuple(second), len(late)))
    return stages


def _into_gates(
    product: Product, owner: NodeCode, code: NodeCode, pairs: Pairs, fresh: Sequence[int], depth: int
) -> Segment:
    width = padded(code.units)
    return Segment(
        product=product,
        owner=owner,
        matrix=Argument("turned", product.name),
        depth=depth,
        first=0,
        matrix_first=0,
        matrix_width=depth,
        groups=tuple(fresh.index(theirs) for _, theirs in pairs),
        matrix_rows=tuple(mine * width for mine, _ in pairs),
    )


def backward_stages(codes: Sequence[NodeCode], code: NodeCode) -> list[Stage]:
    """The products in the backward pass: gradients of its state from those who read it, then of its second product."""
    parts = gathering_parts(codes, code)
    gathered = [
        segment
        for reader in codes
        for product in reader.internal
        if product.edge.source == code.key
        for segment in _from_gates(product, reader, product.pairs, parts.index(product.part[1]))
    ]
    stages = [Stage(tuple(gathered), len(parts))]
    if code.program.late is not None:
        second = [
            segment
            for product in code.products
            if product.reset_pairs
            for segment in _from_gates(product, code, product.reset_pairs, 0)
        ]
        stages.append(Stage(tuple(second), 1))
    return stages


def gathering_parts(codes: Sequence[NodeCode], code: NodeCode) -> list[str]:
    """The parts of a node's state that products of the component read."""
    read = {product.part[1] for each in codes for product in each.internal if product.edge.source == code.key}
    return [part for part in code.parts if part in read]


def _from_gates(product: Product, reader: NodeCode, pairs: Pairs, group: int) -> list[Segment]:
    width = padded(reader.units)
    return [
        Segment(
            product=product,
            owner=reader,
            matrix=Argument("matrix", product.name),
            depth=theirs.stop - theirs.start,
            first=theirs.start,
            matrix_first=mine.start,
            matrix_width=product.num_gates * width,
            groups=(group,),
            matrix_rows=(0,),
        )
        for mine, theirs in runs(pairs, width)
    ]


def first_sums(code: NodeCode) -> list[int]:
    """The gates that the first products feed, or that nothing needs to wait for."""
    late = code.late_gates
    fed = {gate for product in code.internal for _, gate in product.pairs}
    return [gate for gate in range(code.num_gates) if gate not in late or gate in fed]


def halved(stages: Sequence[Stage]) -> list[Stage]:
    """What each program of a pair multiplies: half of the depth of every product."""
    return [
        Stage(tuple(replace(each, depth=each.depth // 2) for each in stage.segments), stage.num_groups)
        for stage in stages
    ]


def can_be_halved(stages: Sequence[Stage], itemsize: int) -> bool:
    """Whether both halves are as deep as the matrix units take, and every warp has a part of them."""
    segments = [segment for stage in stages for segment in stage.segments]
    is_even = all(segment.depth * itemsize % (2 * DEEP) == 0 for segment in segments)
    return is_even and all(stage.num_parts(itemsize, 1) == WARPS for stage in halved(stages) if stage.segments)


class SharedMemory(NamedTuple):
    """How a program's shared memory is used in one pass of one node."""

    is_kept: bool  # whether its columns of all matrices stay there for the whole sequence
    row_groups: int  # of warps, which share the rows; those of a group share the depth
    kept_bytes: int
    num_stages: int  # copies on their way at a time
    buffer_bytes: int  # of each warp
    is_paired: bool = False
    heard_bytes: int = 0  # sums that come from the other program of a pair, those of a stage

    @property
    def heard(self) -> int:
        """Where these lie, those of two stages in turn."""
        return self.kept_bytes + WARPS * self.buffer_bytes

    @property
    def counters(self) -> int:
        """Where two counters of their bytes lie."""
        return self.heard + 2 * self.heard_bytes

    @property
    def total(self) -> int:
        """Bytes of a program."""
        return self.counters + (16 if self.is_paired else 0)


def sums_width(num_groups: int, units: int) -> int:
    """Numbers in a row of sums: so that rows begin in different banks."""
    return -(-num_groups * units // 32) * 32 + 8


def shared_memory_use(
    stages: Sequence[Stage], rows: int, units: int, itemsize: int, available: int, *, is_paired: bool = False
) -> SharedMemory | None:
    """The best use of shared memory, or None where nothing fits.

    Sums take half of the room if half of the warps have half of the rows each, for the depth has half as many parts.
    But then every column is read twice: that is done only where it makes room for matrices that would be streamed.

    Args:
        stages: what the program multiplies, for a pair half of the depth.
        rows: of sequences.
        units: its own; a pair multiplies those of both.
        itemsize: bytes of a number that is multiplied.
        available: bytes.
        is_paired: whether the program is one of a pair.
    """
    segments = [segment for stage in stages for segment in stage.segments]
    columns = 2 * units if is_paired else units
    kept = sum(len(each.groups) * columns * (each.depth * itemsize + 16) for each in segments)
    sums_row = max(sums_width(stage.num_groups, columns) * 4 for stage in stages)
    heard = rows * units * 4 * max(stage.num_groups for stage in stages) if is_paired else 0
    widest = max((len(each.groups) * columns for each in segments), default=0)
    for is_kept, row_groups, fewest in ((True, 1, 2), (True, 2, 2), (False, 1, 3)):
        if rows // row_groups < SMALLEST or (is_paired and row_groups > 1):
            continue
        own_rows = rows // row_groups
        num_rows = own_rows if is_kept else own_rows + widest
        deepest = max(
            -(-stage.num_chunks(itemsize) // max(1, stage.num_parts(itemsize, row_groups))) for stage in stages
        )
        for num_stages in range(min(MOST_STAGES, max(fewest, deepest + 1)), fewest - 1, -1):
            buffer_bytes = max(num_stages * num_rows * CHUNK, own_rows * sums_row)
            used = (is_kept, row_groups, kept if is_kept else 0, num_stages, buffer_bytes)
            found = SharedMemory(*used, is_paired, heard)
            if found.total <= available and (not is_kept or num_stages >= min(4, deepest + 1)):
                return found
    return None


class Tiling(NamedTuple):
    """How a component is cut up: programs of so many sequences and units.

    The programs of the same sequences of a member are a team: they wait for one another, and for nobody else. Two
    neighbours may be a pair (a cluster): each multiplies half of the depth, for the units of both, and sends the other
    its sums. So it reads half of the sequences' rows, and as much of matrices as alone.
    """

    rows: int
    units: int
    num_teams: int  # at a time
    num_turns: int
    num_programs: int
    microseconds: float  # of a moment of all members, by the cost model
    is_kept: bool  # whether matrices stay in shared memory
    is_early: bool  # whether numbers are copied before they are known to be there, and again until they are
    is_paired: bool = False


class SpreadComponent:
    """A cyclic component of a plan, ready to be cut up."""

    def __init__(self, component: Component, codes: Sequence[NodeCode], arithmetic: Arithmetic) -> None:
        self.component, self.codes, self.arithmetic = component, tuple(codes), arithmetic
        self.itemsize = arithmetic.dtype.itemsize

    @cached_property
    def widths(self) -> dict[Part, int]:
        """The padded widths of the parts of its nodes."""
        return {(code.key[0], part): padded(code.units) for code in self.codes for part in code.parts}

    def forward(self, code: NodeCode) -> list[Stage]:
        """A node's stages forward."""
        return forward_stages(self.codes, code, self.widths)

    def backward(self, code: NodeCode) -> list[Stage]:
        """A node's stages backward."""
        return backward_stages(self.codes, code)

    def first_worker(self, key: NodeKey, units: int) -> int:
        """The number of the first program of a node among those of the same sequences."""
        before = self.codes[: [code.key for code in self.codes].index(key)]
        return sum(padded(code.units) // units for code in before)

    def num_workers(self, units: int) -> int:
        """Programs for the same sequences."""
        return sum(padded(code.units) // units for code in self.codes)

    @property
    def obstacle(self) -> str | None:
        """Why it cannot be spread at all, if so."""
        if any(product.has_projection for code in self.codes for product in code.internal):
            return "a depth input inside of a cycle is projected"
        return None

    def stages(self, code: NodeCode, *, backward: bool, is_paired: bool) -> list[Stage]:
        """A node's stages in a pass, as each of its programs has them."""
        found = self.backward(code) if backward else self.forward(code)
        return halved(found) if is_paired else found

    def tiling(
        self,
        sizes: tuple[int, int],
        processors: Processors,
        shared_bytes: int,
        *,
        backward: bool,
        most_pairs: int = 0,
    ) -> Tiling | None:
        """The cheapest way to cut a pass up so that all programs of a team run at once; None where there is none.

        Teams that do not fit at once take turns; of one network only where that is clearly cheaper than all at once,
        for turns were not timed. Of a population the one with the fewest programs, of all turns together, is taken
        among those that are nearly as cheap: other populations run beside it (`tuning/side_by_side.py`).

        Args:
            sizes: members and sequences.
            processors: the multiprocessors.
            shared_bytes: memory of each that a program may have.
            backward: which pass.
            most_pairs: how many pairs of programs run at once, if they may be pairs.
        """
        limits = sizes, processors, shared_bytes
        found = [
            tiling
            for is_paired in ((False, True) if most_pairs else (False,))
            for rows in (16, 32, 64)
            for units in (8, 16, 32, 64)
            if rows == 16 or rows < 2 * sizes[1]
            if (tiling := self._tiling(rows, units, *limits, backward, is_paired=is_paired))
            and (not is_paired or tiling.num_programs <= 2 * most_pairs)
        ]
        if not found:
            return None
        most = NEARLY * min(tiling.microseconds for tiling in found)
        near = [tiling for tiling in found if tiling.microseconds <= most]
        if sizes[0] == 1:
            return min(near, key=lambda tiling: (tiling.num_turns > 1, tiling.microseconds))
        return min(near, key=lambda tiling: (tiling.num_turns * tiling.num_programs, tiling.microseconds))

    def _tiling(
        self,
        rows: int,
        units: int,
        sizes: tuple[int, int],
        processors: Processors,
        shared_bytes: int,
        backward: bool,
        *,
        is_paired: bool = False,
    ) -> Tiling | None:
        if any(padded(code.units) % (2 * units if is_paired else units) for code in self.codes):
            return None
        if is_paired and not self._can_pair(rows, units, backward=backward):
            return None
        of_a_team, in_all = self.num_workers(units), sizes[0] * -(-sizes[1] // rows)
        if of_a_team > processors.all:
            return None
        num_turns = -(-in_all // (processors.all // of_a_team))
        num_teams = -(-in_all // num_turns)
        num_programs = num_teams * of_a_team
        slowest, is_kept = 0.0, True
        of_codes = [self.stages(code, backward=backward, is_paired=is_paired) for code in self.codes]
        most_bytes = max(stage.num_bytes(self.itemsize) for stages in of_codes for stage in stages) * rows
        is_early = most_bytes * num_programs <= EARLY_BYTES
        for code, stages in zip(self.codes, of_codes, strict=True):
            use = shared_memory_use(stages, rows, units, self.itemsize, shared_bytes, is_paired=is_paired)
            if use is None:
                return None
            is_kept &= use.is_kept
            spent = self._microseconds(code, stages, use, (rows, units, num_programs), is_early=is_early)
            slowest = max(slowest, spent)
        microseconds = slowest * num_turns * max(1.0, num_programs / processors.own)
        return Tiling(rows, units, num_teams, num_turns, num_programs, microseconds, is_kept, is_early, is_paired)

    def _can_pair(self, rows: int, units: int, *, backward: bool) -> bool:
        """Whether a thread has registers for the sums of both programs, and both have depth enough to multiply."""
        for code in self.codes:
            stages = self.stages(code, backward=backward, is_paired=False)
            most = max(stage.num_groups for stage in stages) * rows * 2 * units // 32
            if most > MOST_SUMS or not can_be_halved(stages, self.itemsize):
                return False
        return True

    def _microseconds(
        self, code: NodeCode, stages: Sequence[Stage], use: SharedMemory, cut: tuple[int, int, int], *, is_early: bool
    ) -> float:
        """What a moment of a node costs, by the model above; `cut` are rows, units, and programs in all."""
        rows, units, num_programs = cut
        read = streamed = tiles = 0.0
        for segment in (each for stage in stages for each in stage.segments):
            columns = len(segment.groups) * units * (2 if use.is_paired else 1)
            size = segment.depth * self.itemsize
            read += (rows + (0 if use.is_kept else columns)) * size
            streamed += 0 if use.is_kept else columns * size * num_programs
            tiles += rows / 16 * columns / 8 * size / 32 * (3 if self.arithmetic.is_split else 1)
        once = (_EARLY_STAGE if is_early else _STAGE) + (_PAIR if use.is_paired else 0.0)
        waiting = len(stages) * (once + _WAIT * self.num_workers(units) / 32)
        formulas = _GATES * code.num_gates * rows * units / 1e3
        far = _FAR * max(0.0, streamed - CACHE_BYTES) / 1e7
        return waiting + _READ * read / 1e5 + far + _TILES * tiles / 1e3 + formulas
