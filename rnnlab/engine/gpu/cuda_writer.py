"""Text of kernels in CUDA C++: lines, arrays they are given, and where things lie in those.

Names in the text: `member`, `T`, `B` and `num_rows`, which is the same in fewer bits; `first_row` and `num_live`, the
program's sequences; `team`, the number of those among the sequences of all members; `time`, the moment at hand.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import resources
from typing import NamedTuple

from rnnlab.engine.gpu.compiled import Argument, KernelText
from rnnlab.engine.gpu.layout import Arithmetic, padded
from rnnlab.engine.nodes import NodeCode, Part
from rnnlab.engine.plan import Plan

TYPES = {2: "Half", 4: "float"}
INSTRUCTIONS = "instructions.cu"  # the file that begins every kernel
SIZES = {name: size for size, name in TYPES.items()}


class Rows(NamedTuple):
    """Where a row of numbers for each sequence lies.

    Args:
        start: text of the address of the first row at time 0, which no loop over time need compute again.
        moment: text of how many bytes lead from there to the time at hand.
        type: of the numbers.
        width: how many a row has.
        column: where in the row the node's own begin.
    """

    start: str
    moment: str
    type: str
    width: int
    column: int = 0

    @property
    def row_bytes(self) -> int:
        """From a row to the next."""
        return self.width * SIZES[self.type]

    @property
    def pointer(self) -> str:
        """Text of the pointer to the first row."""
        return f"(({self.type} *)({self.start} + {self.moment}))"


class CudaWriter:
    """Gathers the text of one kernel."""

    def __init__(
        self,
        plan: Plan,
        arithmetic: Arithmetic,
        *,
        storage: Mapping[Part, int],
        widths: Mapping[Part, int],
        factors: frozenset[Part],
        shared: frozenset[str],
        shared_bytes: int,
    ) -> None:
        """A kernel to be.

        Args:
            plan: of which it is a part.
            arithmetic: how it multiplies.
            storage: how many bytes a number of each part has in memory.
            widths: of parts as they lie in memory.
            factors: parts that are left a second time, as products take them.
            shared: inputs that are one for all members.
            shared_bytes: memory of a multiprocessor that a program may have.
        """
        self.plan, self.arithmetic, self.shared = plan, arithmetic, shared
        self.storage, self.widths, self.factors, self.shared_bytes = storage, widths, factors, shared_bytes
        self.period = plan.architecture.period
        self.itemsize = arithmetic.dtype.itemsize
        self.arguments: dict[Argument, str] = {}
        self.lines: list[str] = []
        self.indent = 1

    def add(self, *lines: str) -> None:
        """Lines at the present indentation."""
        self.lines += [f"{'  ' * self.indent}{line}" for line in lines]

    @contextmanager
    def block(self, head: str, end: str = "}") -> Generator[None]:
        """Lines in braces after a head."""
        self.add(f"{head} {{".lstrip())
        self.indent += 1
        yield
        self.indent -= 1
        self.add(end)

    @contextmanager
    def unrolled(self, *heads: str) -> Generator[None]:
        """Loops in one another, such as `e < NUM`, all of them unrolled."""
        for head in heads:
            variable, _, end = head.partition(" < ")
            self.add("#pragma unroll", f"for (int {variable} = 0; {variable} < {end}; ++{variable}) {{")
            self.indent += 1
        yield
        for _ in heads:
            self.indent -= 1
            self.add("}")

    def array(self, kind: str, of: object) -> str:
        """The name of an array among the kernel's arguments."""
        return self.arguments.setdefault(Argument(kind, of), f"a.{kind}{len(self.arguments)}")

    def value(self, part: Part, delay: int, kind: str = "values", time: str = "time") -> Rows:
        """A part of some node's state so many steps ago, from the program's first sequence on."""
        before, after = self.plan.histories.get(part, 0), self.plan.lookaheads.get(part, 0)
        size = self.storage[part] if kind == "values" else self.itemsize if kind == "factor" else 4
        member = "0" if kind == "values" and part[0] in self.shared else f"member * (T + {before + after})"
        return self.rows(kind, part, TYPES[size], f"{member} + {before - delay}", time, self.widths[part])

    def per_time(self, kind: str, of: object, width: int, itemsize: int, time: str = "time") -> Rows:
        """The same for something that a node keeps at each of its times."""
        first, moment = f"member * ((T + {self.period - 1}) / {self.period})", f"({time}) / {self.period}"
        return self.rows(kind, of, TYPES[itemsize], first, moment if self.period > 1 else time, width)

    def rows(self, kind: str, of: object, of_type: str, first: str, time: str, width: int) -> Rows:
        """Of arrays [B, width] that lie one after another, one so many after the first."""
        row_bytes = width * SIZES[of_type]
        start = f"{self.array(kind, of)} + (({first}) * B + first_row) * {row_bytes}"
        return Rows(start, f"(i64)({time}) * (num_rows * {row_bytes})", of_type, width)

    def gates_of(self, code: NodeCode, time: str = "time") -> Rows:
        """All gates of a node."""
        width = code.num_gates * padded(code.units)
        return self.per_time("gates", code.key, width, self.itemsize, time)

    def place_of(self, code: NodeCode, name: str) -> Rows:
        """Where something lies that a node's formulas name without `d ` in front."""
        width = padded(code.units)
        kind, _, rest = name.partition(" ")
        match kind:
            case "gate" if code.gate_is_state:
                return self.value((code.key[0], code.first_part), 0)
            case "gate":
                return self.gates_of(code)._replace(column=code.program.gates.index(rest) * width)
            case "reset":
                return self.per_time("reset", code.key, width, self.itemsize)
            case "state":
                return self.value((code.key[0], rest), 0)
            case "depth" if code.depth_product.has_projection:
                return self.per_time("projected", code.depth_product.edge, width, 4)
            case _:
                edge, part = code.edge_read(name)
                return self.value((edge.source[0], part), edge.delay)

    def kernel(
        self, library: str, constants: Mapping[str, int], bounds: str, head: str, num_programs: int = 1
    ) -> KernelText:
        """The whole kernel.

        Args:
            library: the file that it builds on, beside what all kernels share.
            constants: that both need.
            bounds: of threads and programs.
            head: lines before the gathered ones.
            num_programs: of a cluster.
        """
        return KernelText(
            f"{library_text(INSTRUCTIONS)}\n{self.library(library, constants)}\n"
            f"struct Arguments {{\n{self.fields()}}};\n\n"
            f"{signature(bounds, num_programs)} kernel(const Arguments a) {{\n{self.body(head)}}}\n",
            tuple(self.arguments),
            1,
            constants["WARPS"],
        )

    def library(self, library: str, constants: Mapping[str, int]) -> str:
        """What stands between instructions and a kernel: constants, and the files that need them."""
        bits = 16 if self.itemsize == 2 else 32 if self.arithmetic.is_split else 19
        numbers = ", ".join(f"{name} = {value}" for name, value in {"PRECISION": bits, **constants}.items())
        return f"constexpr int {numbers};\n\n{library_text('matrix_units.cu')}\n{library_text(library)}"

    def fields(self) -> str:
        """The members of the struct that it is given."""
        arrays = "".join(f"  char *{name.removeprefix('a.')};\n" for name in self.arguments.values())
        return f"{arrays}  i64 num_steps, num_rows, first_step, first_team;\n"

    def body(self, head: str) -> str:
        """The gathered lines, after a head and the names that all lines know."""
        return (
            "  const i64 B = a.num_rows;\n"
            "  const int T = (int)a.num_steps, num_rows = (int)B, thread = threadIdx.x, warp = thread / 32;\n"
            "  const int team = (int)a.first_team + blockIdx.z * gridDim.y + blockIdx.y;\n"
            "  const int num_blocks = (num_rows + ROWS - 1) / ROWS, first_row = team % num_blocks * ROWS;\n"
            "  const int num_live = min(ROWS, num_rows - first_row);\n"
            "  const i64 member = team / num_blocks;\n"
            f"{head}" + "".join(f"{line}\n" for line in self.lines)
        )


def signature(bounds: str, num_programs: int = 1) -> str:
    """A kernel's declaration up to its name; `bounds` are of threads and programs."""
    cluster = f"__cluster_dims__({num_programs}, 1, 1) " if num_programs > 1 else ""
    return f'extern "C" __global__ void __launch_bounds__({bounds}) {cluster}'.rstrip()


def library_text(name: str) -> str:
    """A file that kernels build on."""
    return resources.files("rnnlab.engine.gpu").joinpath(name).read_text()
