"""The backward kernel of a component that is spread over the GPU.

A node does not send gradients: it fetches them. Whoever read its state tells of the gradients of its own gates, and the
node multiplies them by its own rows of that edge's matrix. These gradients have an array of their own: where
other kernels leave them, in the place of the gates, nobody could tell them from gates that are still there.
After its moments a node goes on to the times before the sequence, whose gradients are those of the initial state.
"""

from collections.abc import Mapping

from rnnlab.architecture.expressions import Expression
from rnnlab.engine.gpu.compiled import Argument, KernelText
from rnnlab.engine.gpu.cuda_writer import Rows
from rnnlab.engine.gpu.formulas import CUDA, names_read, write_formulas
from rnnlab.engine.gpu.layout import padded
from rnnlab.engine.gpu.spread import Segment, gathering_parts
from rnnlab.engine.gpu.spread_node import Source, SpreadNode, SpreadWriter
from rnnlab.engine.nodes import NodeCode, Part, Passed, passed_by


def spread_backward(writer: SpreadWriter, wanted: frozenset[Part], given: frozenset[Part]) -> KernelText:
    """The kernel: a branch for each node.

    Args:
        writer: gathers the text.
        wanted: parts that gather gradients.
        given: those for which gradients lie in memory.
    """
    for code in writer.spread.codes:
        _Backward(writer, code, wanted, given).write()
    return writer.text()


class _Backward(SpreadNode):
    def __init__(self, writer: SpreadWriter, code: NodeCode, wanted: frozenset[Part], given: frozenset[Part]) -> None:
        super().__init__(writer, code, backward=True)
        self.wanted, self.given = wanted, given
        self.passed = passed_by(code)
        arriving = [each for reader in writer.spread.codes for each in passed_by(reader)]
        self.arriving = [each for each in arriving if each.edge.source == code.key]
        depths = {part: writer.plan.histories.get((code.key[0], part), 0) for part in code.parts}
        self.depths = {part: depth for part, depth in depths.items() if depth}

    def write(self) -> None:
        writer = self.writer
        with self.branch():
            # how many of its times lie before the sequence and are read
            deepest = max(self.depths.values(), default=0)
            writer.add(f"const int num_before = ({deepest} + start) / {writer.period};")
            self.previous = {
                each.name: f"previous{number}[e]"
                for number, each in enumerate(each for each in self.passed if self.is_previous(each.edge))
            }
            for number in range(len(self.previous)):
                writer.add(f"float previous{number}[NUM] = {{}};")
            with writer.block("for (int position = 0; position < count + num_before; ++position)"):
                self._time()
                self._gather()
                with writer.block("if (is_before)"):
                    self._store_before()
                    writer.add("continue;")
                self._moment()

    def _time(self) -> None:
        number = "position" if self.is_rising else "(count - 1 - position)"
        before = "(-1 - (position - count))"
        self.writer.add(
            "const bool is_before = position >= count;",
            f"const int time = start + (is_before ? {before} : {number}) * {self.writer.period};",
        )

    # ----------------------------------------------------------------------------------------- gradients of the state

    def _change(self, part: str) -> str:
        return f"change{self.code.parts.index(part)}"

    def _gather(self) -> None:
        """The gradient of each part of the state, from memory, from the moment before, and from those who read it."""
        writer = self.writer
        self._load_values()
        gates = range(self.code.num_gates) if self.code.internal else ()
        self.bring_nearer([self._dgates_of(self.code, "next")._replace(column=gate * self.width) for gate in gates])
        for part in self.code.parts:
            if (self.code.key[0], part) in self.given:
                self.fetch(self._change(part), writer.value((self.code.key[0], part), 0, "dvalues"), "!is_before")
            else:
                writer.add(f"float {self._change(part)}[NUM] = {{}};")
        self.products(self.stages[0], {each: self._source(each) for each in self.stages[0].segments})
        parts = gathering_parts(self.writer.spread.codes, self.code)
        with self.elements():
            for place, part in enumerate(parts):
                writer.add(f"{self._change(part)}[e] += {self.sum_of(self.stages[0], place)};")
        for each in self.arriving:
            self._add_passed(each)

    def _source(self, segment: Segment) -> Source:
        return self._gates_told(segment.owner, f"(time + {segment.product.edge.delay})")

    def _gates_told(self, owner: NodeCode, time: str) -> Source:
        rows = self._dgates_of(owner, time)
        return self.source(Argument("dgates", owner.key), owner, rows, time, exists=f"{time} >= 0 && {time} < T")

    def _dgates_of(self, code: NodeCode, time: str = "time") -> Rows:
        width = code.num_gates * padded(code.units)
        return self.writer.per_time("dgates", code.key, width, self.writer.itemsize, time)

    def _add_passed(self, each: Passed) -> None:
        writer, change = self.writer, self._change(each.part)
        if each.reader.key == self.code.key and self.is_previous(each.edge):
            # where time runs backward, the last moment's would be the gradient of something after the sequence
            condition = "" if self.step == 1 else "if (!is_before) "
            with self.elements():
                writer.add(f"{condition}{change}[e] += {self.previous[each.name]};")
            return
        time = f"(time + {each.edge.delay})"
        with writer.block(f"if ({time} >= 0 && {time} < T)"):
            of = (each.reader.key, each.name)
            rows = writer.per_time("passed", of, self.width, 4, time)
            self.await_numbers("passed", Argument("passed", of), each.reader, rows, time)
            with self.elements():
                writer.add(f"{change}[e] += passed[e];")

    def _store_before(self) -> None:
        writer = self.writer
        with self.elements():
            for part, depth in self.depths.items():
                first = f"member * {depth} + {depth}"
                rows = writer.rows("dbefore", (self.code.key[0], part), "float", first, "time", self.width)
                with writer.block(f"if (time >= -{depth})"):
                    self.store(rows, f"{self._change(part)}[e]")
            for variable in self.previous.values():
                writer.add(f"{variable} = 0.0f;")

    # ------------------------------------------------------------------------------------------------- the node itself

    def _load_values(self) -> None:
        """All that the forward pass left, asked for before waiting for others."""
        program = self.code.program
        read = names_read(program.late or {}) + names_read(program.backward)
        self.inputs: dict[str, str] = {}
        for number, name in enumerate(name for name in dict.fromkeys(read) if not name.startswith("d ")):
            self.inputs[name] = self.fetch(f"i{number}", self.place_of(name), "!is_before")
        self.inputs |= {f"d state {part}": f"{self._change(part)}[e]" for part in self.code.parts}

    def _moment(self) -> None:
        writer, program = self.writer, self.code.program
        if program.late is not None:
            with self.elements():
                self._store_gates(self._formulas(program.late))
            told = self._gates_told(self.code, "time")
            self.products(self.stages[1], dict.fromkeys(self.stages[1].segments, told))
            writer.add("float change_reset[NUM];")
            with self.elements():
                writer.add(f"change_reset[e] = {self.sum_of(self.stages[1], 0)};")
            self.inputs["d reset"] = "change_reset[e]"
        with self.elements():
            found = self._formulas(program.backward)
            late = {f"d gate {program.gates[gate]}" for gate in self.code.late_gates}
            self._store_gates({name: text for name, text in found.items() if name not in late})
            self._pass_on(found)

    def _formulas(self, outputs: Mapping[str, Expression]) -> dict[str, str]:
        lines, found = write_formulas(outputs, self.inputs, self.code.nonlinearity, CUDA)
        self.writer.add(*lines)
        return found

    def _store_gates(self, found: Mapping[str, str]) -> None:
        for name, text in found.items():
            if name.startswith("d gate "):
                column = self.code.program.gates.index(name.removeprefix("d gate ")) * self.width
                self.tell(self._dgates_of(self.code)._replace(column=column), text)

    def _pass_on(self, found: Mapping[str, str]) -> None:
        writer = self.writer
        for each in self.passed:
            text = found[f"d {each.name}"]
            if each.name in self.previous:
                writer.add(f"{self.previous[each.name]} = {text};")
            elif each.source in self.wanted:
                self.tell(writer.per_time("passed", (self.code.key, each.name), self.width, 4), text)
        if self.code.depth is not None and self.code.depth_product.has_projection and "d depth" in found:
            rows = writer.per_time("dprojected", self.code.depth_product.edge, self.width, 4)
            self.store(rows, found["d depth"])
