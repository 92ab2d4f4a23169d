"""The backward kernel of nodes whose matrices, and the gradients of whose last states, stay on the chip.

A node computes the gradients of its gates, which go to memory and to shared memory; products with its matrices take
them from there to the gradients of the states that it read, in registers. Those of states of longer ago are multiplied
when their time comes, with gates that are read back from memory. In a cluster either the gradients of gates are sent to
all programs, or the products of each program's own.
"""

from collections.abc import Sequence

from rnnlab.engine.gpu.compiled import Argument
from rnnlab.engine.gpu.layout import padded
from rnnlab.engine.gpu.resident import Layout, Place, Reader
from rnnlab.engine.gpu.resident_backward_node import BackwardNode
from rnnlab.engine.gpu.resident_writer import SUM, ResidentWriter
from rnnlab.engine.nodes import NodeCode, Pairs, Part, Product, runs

MOST_AHEAD = 4  # tiles of all nodes, for which threads keep what the next moment reads


def write_backward(
    writer: ResidentWriter,
    wanted: frozenset[Part],
    given: frozenset[Part],
    final: frozenset[Part],
    readers: Sequence[Reader],
    takers: Sequence[Product],
) -> None:
    """Gather the kernel of a component.

    Args:
        writer: gathers the text.
        wanted: parts that gather gradients.
        given: those for which gradients lie in memory, at all times.
        final: those for which gradients of the final state do.
        readers: read-outs whose products are made here.
        takers: products of other components of a relay with what this one hands on.
    """
    BackwardKernel(writer, wanted, given, final, readers, takers).write()


class BackwardKernel:
    """Gathers the lines of the kernel, those of its nodes among them; arguments as those of `write_backward`."""

    def __init__(
        self,
        writer: ResidentWriter,
        wanted: frozenset[Part],
        given: frozenset[Part],
        final: frozenset[Part],
        readers: Sequence[Reader],
        takers: Sequence[Product],
    ) -> None:
        self.writer, self.resident, self.width = writer, writer.resident, writer.width
        self.wanted, self.given, self.final, self.readers = wanted, given, final, readers
        self.takers = takers
        self.layout = Layout(self.resident, writer.arithmetic, writer.shape, backward=True, readers=readers)
        # what a moment reads is asked for in the one before, where a thread has registers for it
        warps, codes = writer.warps, self.resident.codes
        self.is_ahead = writer.is_cluster and warps.row_tiles * warps.unit_tiles * len(codes) <= MOST_AHEAD
        self.nodes = [BackwardNode(self, number, code) for number, code in enumerate(codes)]
        self.passed_later = [each for each in self.resident.passed if self.resident.age(each.edge) > 1]
        # how many values before the sequence were read; where time runs backward, it is zeros after it
        parts = self.resident.kept if writer.step == 1 else []
        self.depths = {part: writer.plan.histories[part] for part in parts if writer.plan.histories.get(part)}

    def write(self) -> None:
        """All lines."""
        writer = self.writer
        self._keep_matrices()
        for part in self.resident.kept:
            for variable in dict.fromkeys((self.gradient(part, 0), self.gradient(part, 1))):
                writer.add(f"float {variable}[M][N][4] = {{}};")
        with writer.block(""):
            self._load_final()
        for node in self.nodes:
            node.start()
        with writer.block("for (int position = 0; position < T; ++position)"):
            writer.add(f"const int time = {'T - 1 - position' if writer.step == 1 else 'position'};")
            self._bring_delayed()
            for node in reversed(self.nodes):
                with writer.moment(node.code):
                    node.write()
            self._turn()
            self._add_delayed()
        for node in self.nodes:
            node.end()
        writer.meet_teller()
        if self.depths:
            self._before()

    def gradient(self, part: Part, age: int) -> str:
        """The registers that gather the gradient of a part at the present time, or at that before it."""
        is_apart = age == 1 and self.resident.has_two_gradients(part[0])
        return f"{'next' if is_apart else 'now'}{self.resident.kept.index(part)}"

    def _keep_matrices(self) -> None:
        writer, layout = self.writer, self.layout
        writer.start(layout, backward=True)
        for name, num_gates in self.resident.matrices.items():
            place = layout.matrices[name]
            if writer.is_cluster and not layout.sends_gates:
                writer.keep_own(place, Argument("matrix", name), num_gates)
            else:
                writer.keep(place, Argument("matrix", name), 1, num_gates * self.width)
        for (reader, product), place in zip(self.readers, layout.readers, strict=True):
            writer.keep(place, Argument("matrix", product.name), 1, padded(reader.units))
        writer.begin(layout)

    def _load_final(self) -> None:
        """Begin with the gradients of the final state."""
        writer = self.writer
        for number, part in enumerate(part for part in self.resident.kept if part in self.final):
            rows = writer.rows("dfinal", part, "float", "member", "0", self.width)
            text = writer.fetch(f"final{number}", rows)
            with writer.vectors(), writer.unrolled("u < U"):
                writer.add(f"{self.gradient(part, 0)}{SUM} = {text};")

    def _turn(self) -> None:
        """The time before becomes the present one."""
        for part in self.resident.kept:
            now, after = self.gradient(part, 0), self.gradient(part, 1)
            if now != after:
                with self.writer.vectors(), self.writer.unrolled("u < U"):
                    self.writer.add(f"{now}{SUM} = {after}{SUM};", f"{after}{SUM} = 0.0f;")

    # ------------------------------------------------------------------------------------- what was read of longer ago

    def _is_later(self, code: NodeCode, delay: int) -> str:
        """Whether there is a moment of a node that read, so long after it, a state before the present one."""
        time = f"time + {delay - 1}"
        is_there = f"{time} >= 0 && {time} < T"
        return f"{is_there} && {self.writer.exists(code, time)}" if self.writer.period > 1 else is_there

    def _bring_delayed(self) -> None:
        """Ask for gradients that a later moment left in memory, of gates and of what was passed as it is."""
        writer = self.writer
        for code, product in self.resident.delayed:
            delay = product.edge.delay
            with writer.block(f"if ({self._is_later(code, delay)})"):
                writer.bring(self.layout.delayed[product.edge], writer.gates_of(code, f"(time + {delay - 1})"))
        if self.layout.delayed:
            writer.add("end_group();")
        for number, each in enumerate(self.passed_later):
            delay = each.edge.delay
            name = (each.reader.key, each.name)
            rows = writer.per_time("passed", name, self.width, 4, f"(time + {delay - 1})")
            writer.add(f"Vector<float> late{number}[M][2] = {{}};")
            with writer.block(f"if ({self._is_later(each.reader, delay)})"):
                writer.fetch_again(f"late{number}", rows)

    def _add_delayed(self) -> None:
        """Add them to the gradients of states before the present one."""
        writer = self.writer
        if self.layout.delayed:
            writer.add("await_groups<0>();", "meet_group();")
        for code, product in self.resident.delayed:
            place, matrix = self.layout.delayed[product.edge], self.layout.matrices[product.name]
            with writer.block(f"if ({self._is_later(code, product.edge.delay)})"):
                target = f"(float (&)[1][M][N][4]){self.gradient(product.part, 0)}"
                self.multiply(target, product.pairs, place, matrix)
        for number, each in enumerate(self.passed_later):
            with writer.vectors(), writer.unrolled("u < U"):
                writer.add(f"{self.gradient(each.source, 0)}{SUM} += number(late{number}[m][half], u);")
        if self.layout.delayed:
            writer.add("meet_group();")

    def multiply(self, target: str, pairs: Pairs, gates: Place, matrix: Place, moved: str = "0") -> None:
        """Lines that add gradients of gates in shared memory times rows of a matrix, for the units of each program.

        The gradients lie `moved` bytes behind the place for gates.
        """
        writer, itemsize = self.writer, self.writer.itemsize
        for mine, theirs in runs(pairs, writer.share):
            left = f"{gates.start + theirs.start * itemsize} + {moved} + top * {gates.stride}"
            right = f"{matrix.start + mine.start * itemsize} + first_column * {matrix.stride}"
            writer.add(
                f"multiply_all<PROGRAMS, false>({target}, address_of(shared) + {left}, {gates.stride}, "
                f"address_of(shared) + {right}, {matrix.stride}, SHARE * {matrix.stride}, "
                f"{(theirs.stop - theirs.start) * itemsize});"
            )

    def _before(self) -> None:
        """Gradients of the states before the first step."""
        writer = self.writer
        self._store_before("-1")
        if not self.layout.delayed and not self.passed_later:
            return
        with writer.block(f"for (int time = -1; time > -{max(self.depths.values())}; --time)"):
            self._bring_delayed()
            with writer.vectors(), writer.unrolled("u < U"):
                writer.add(*(f"{self.gradient(part, 0)}{SUM} = 0.0f;" for part in self.resident.kept))
            self._add_delayed()
            self._store_before("time - 1")

    def _store_before(self, time: str) -> None:
        """Gradients of the states at a time before the first step."""
        writer = self.writer
        for part, depth in self.depths.items():
            rows = writer.rows("dbefore", part, "float", f"member * {depth} + {depth}", time, self.width)
            nodes = [code for code in self.resident.codes if code.key[0] == part[0]]
            exists = " || ".join(writer.exists(code, time) for code in nodes)
            with writer.block(f"if ({time} >= -{depth} && ({exists}))"), writer.vectors():
                writer.add("float all[U];")
                with writer.unrolled("u < U"):
                    writer.add(f"all[u] = {self.gradient(part, 0)}{SUM};")
                writer.store(rows, "all")
