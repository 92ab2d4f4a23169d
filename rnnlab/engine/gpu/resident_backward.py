"""The backward kernel of a node whose matrices, and the gradient of whose last state, stay on the chip."""

from collections.abc import Mapping

from rnnlab.architecture.expressions import Expression
from rnnlab.engine.gpu.compiled import KernelText
from rnnlab.engine.gpu.formulas import names_read, write_formulas
from rnnlab.engine.gpu.general_forward import nonlinearity, operand
from rnnlab.engine.gpu.layout import padded
from rnnlab.engine.gpu.resident import Block, ResidentNode, elementwise_reads
from rnnlab.engine.gpu.writer import Place, Writer
from rnnlab.engine.nodes import NodeCode, Part, Product, runs

Reader = tuple[NodeCode, Product]
"""A read-out, whose gradient is multiplied here and not before."""


def resident_backward(
    writer: Writer,
    code: NodeCode,
    step: int,
    wanted: frozenset[Part],
    given: frozenset[Part],
    readers: tuple[Reader, ...],
) -> KernelText:
    """The kernel of a component of one node; `step` is the delay of the last state.

    Args:
        writer: gathers the text.
        code: the node.
        step: the delay of the last state.
        wanted: parts that gather gradients.
        given: those for which gradients lie in memory.
        readers: read-outs whose products are made here.
    """
    return _Backward(writer, code, step, wanted, given, readers).write()


class _Backward(ResidentNode):
    def __init__(
        self,
        writer: Writer,
        code: NodeCode,
        step: int,
        wanted: frozenset[Part],
        given: frozenset[Part],
        readers: tuple[Reader, ...],
    ) -> None:
        super().__init__(writer, code, step)
        self.wanted, self.given, self.readers = wanted, given, readers

    def write(self) -> KernelText:
        writer = self.writer
        self.start()
        self.load_matrices(turned=True)
        self._load_readers()
        for part in self.parts:
            for block in self.blocks:
                writer.add(f"{self._change(part, block)} = tl.zeros((ROWS, {block.size}), tl.float32)")
        with writer.block("for number in range(num_moments):"):
            writer.add(self.time(backward=True))
            self._step()
        for part in self.parts:
            for block in self.blocks:
                place = writer.per_row("dbefore", (self.name, part), self.width)
                writer.store(place, self._change(part, block), block.columns)
        return writer.text(num_stages=1, num_warps=self.num_warps)

    def _change(self, part: str, block: Block) -> str:
        """The variable of the gradient of the last state."""
        return f"change_{self.code.parts.index(part)}_{block.start}"

    def _total(self, part: str, block: Block) -> str:
        return f"total_{self.code.parts.index(part)}_{block.start}"

    def _load_readers(self) -> None:
        for number, (reader, product) in enumerate(self.readers):
            depth, columns = padded(reader.units), product.num_gates * padded(reader.units)
            array = self.writer.array("matrix", product.name, str(self.width * columns))
            self.writer.add(f"depth_{number} = tl.arange(0, {depth})")
            for block in self.blocks:
                offsets = f"depth_{number}[:, None] + {block.columns}[None, :] * {columns}"
                self.writer.add(f"r{number}_{block.start} = tl.load({array} + {offsets})")

    def _step(self) -> None:
        writer, code, program = self.writer, self.code, self.code.program
        self.inputs: dict[tuple[str, Block], str] = {}
        if program.late is not None:
            self._late(program.late)
        for part in self.parts:
            for block in self.blocks:
                writer.add(f"{self._total(part, block)} = tl.zeros((ROWS, {block.size}), tl.float32)")
        for block in self.blocks:
            found = self._formulas(program.backward, block, "e")
            for gate, name in enumerate(program.gates):
                variable = self._as_tile(found[f"d gate {name}"], block)
                writer.store(writer.gates(code).at(gate * self.width, self.width), variable, block.columns)
                self._multiply(gate, self.factor(variable), block)
            self._pass_on(found, block)
        for part in self.parts:
            for block in self.blocks:
                writer.add(f"{self._change(part, block)} = {self._total(part, block)}")
        if self.has_far:
            writer.barrier()
            self._far_products()

    def _multiply(self, gate: int, factor: str, row: Block) -> None:
        """From the gradient of a block of a gate to that of the last state."""
        for number, product in enumerate(self.near):
            for mine, theirs in product.pairs:
                for block in self.blocks if theirs == gate else ():
                    total, matrix = self._total(product.part[1], block), self.matrix(number, mine, row, block)
                    self.writer.add(f"{total} = {self.dot(factor, matrix, total)}")

    def _arriving(self, part: str, block: Block) -> None:
        """The gradient of a part of the new state: from the next step, from memory, from read-outs."""
        writer, name = self.writer, f"arriving_{self.code.parts.index(part)}_{block.start}"
        writer.add(
            f"{name} = {self._change(part, block)}"
            if part in self.parts
            else f"{name} = tl.zeros((ROWS, {block.size}), tl.float32)"
        )
        if (self.name, part) in self.given:
            place = writer.value((self.name, part), 0, "dvalues")
            writer.add(f"{name} += {writer.load(place, block.columns)}")
        for number, (reader, product) in enumerate(self.readers):
            if product.part[1] == part:
                place = writer.per_time("gates", reader.key, padded(reader.units))
                left = writer.load_factor(place, f"depth_{number}")
                writer.add(f"{name} = {self.dot(left, f'r{number}_{block.start}', name)}")
        self.inputs[f"d state {part}", block] = name

    def _late(self, outputs: Mapping[str, Expression]) -> None:
        """The gates of the second product come first; the gradient of what it multiplied follows."""
        writer, gates = self.writer, self.code.program.gates
        found = {block: self._formulas(outputs, block, "l") for block in self.blocks}
        for block in self.blocks:
            total = f"dreset_{block.start}"
            writer.add(f"{total} = tl.zeros((ROWS, {block.size}), tl.float32)")
            for number, product in enumerate(self.near):
                for mine, theirs in product.reset_pairs:
                    for row in self.blocks:
                        left = self.factor(found[row][f"d gate {gates[theirs]}"])
                        writer.add(f"{total} = {self.dot(left, self.matrix(number, mine, row, block), total)}")
            self.inputs["d reset", block] = total

    def _formulas(self, outputs: Mapping[str, Expression], block: Block, prefix: str) -> dict[str, str]:
        writer, code = self.writer, self.code
        if (f"d state {code.parts[0]}", block) not in self.inputs:
            for part in code.parts:
                self._arriving(part, block)
        for name in names_read(outputs):
            if (name, block) not in self.inputs:
                variable = f"i{len(self.inputs)}_{block.start}"
                if name.startswith("bias "):
                    writer.add(f"{variable} = {self.bias(name, block)}")
                else:
                    writer.add(f"{variable} = {writer.load(operand(writer, code, name), block.columns)}")
                self.inputs[name, block] = variable
        inputs = {name: variable for (name, where), variable in self.inputs.items() if where == block}
        lines, found = write_formulas(outputs, inputs, nonlinearity(code), f"{prefix}_{block.start}_")
        writer.add(*lines)
        return found

    def _pass_on(self, found: Mapping[str, str], block: Block) -> None:
        """Gradients of what the formulas took over from states: the last one's stay here, others go to memory."""
        writer, code = self.writer, self.code
        sums: dict[str, tuple[Place, list[str]]] = {}  # what goes to one place is added up before it is added there
        for name, variable in found.items():
            if name.startswith("d gate ") or name == "d reset":
                continue
            near = self.is_near(name)
            if near is not None:
                writer.add(f"{self._total(near, block)} += {variable}")
                continue
            read = elementwise_reads(code).get(name.removeprefix("d "))
            if read is None:  # a depth input that is projected
                place = writer.per_time("dprojected", code.depth_product.edge, self.width)
            elif (read[0].source[0], read[1]) in self.wanted:
                place = writer.edge_source(*read, "dvalues")
            else:
                continue
            sums.setdefault(place.start, (place, []))[1].append(variable)
        for place, variables in sums.values():
            text = f"{writer.load(place, block.columns)} + {' + '.join(variables)}"
            writer.store(place, text, block.columns)

    def _far_products(self) -> None:
        """Gradients of states of other times, added up in memory."""
        writer = self.writer
        for product in self.far:
            target = writer.value(product.part, product.edge.delay, "dvalues")
            shape = (target.width, product.num_gates * self.width)
            for block in self.blocks:
                writer.add(f"columns = {block.columns}", f"total = {writer.load(target, block.columns)}")
                for mine, theirs in runs(product.pairs, self.width):
                    place = writer.gates(self.code).at(theirs.start, theirs.stop - theirs.start)
                    writer.multiply([("total", mine.start)], place, product.name, shape, block.size, turned=True)
                writer.store(target, "total", block.columns)
            writer.barrier()

    def _as_tile(self, variable: str, block: Block) -> str:
        return variable if variable.isidentifier() else f"tl.full((ROWS, {block.size}), {variable}, tl.float32)"
