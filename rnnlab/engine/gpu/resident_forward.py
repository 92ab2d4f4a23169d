"""The forward kernel of a node whose matrices and last state stay on the chip."""

from collections.abc import Mapping, Sequence

from rnnlab.architecture.expressions import Expression
from rnnlab.engine.gpu.compiled import KernelText
from rnnlab.engine.gpu.formulas import names_read, write_formulas
from rnnlab.engine.gpu.general_forward import nonlinearity, operand
from rnnlab.engine.gpu.resident import Block, ResidentNode
from rnnlab.engine.gpu.writer import Writer
from rnnlab.engine.nodes import NodeCode


def resident_forward(writer: Writer, code: NodeCode, step: int) -> KernelText:
    """The kernel of a component of one node; `step` is the delay of the last state."""
    return _Forward(writer, code, step).write()


class _Forward(ResidentNode):
    def write(self) -> KernelText:
        writer = self.writer
        self.start()
        self.load_matrices(turned=False)
        writer.add("number = 0", self.time(backward=False))
        for part in self.parts:
            for block in self.blocks:
                place = writer.value((self.name, part), self.step)
                load = writer.load if part in self.carried else writer.load_factor
                writer.add(f"{self._state(part, block)} = {load(place, block.columns)}")
        with writer.block("for number in range(num_moments):"):
            writer.add(self.time(backward=False))
            self._step()
            if self.has_far:
                writer.barrier()
        return writer.text(num_stages=1, num_warps=self.num_warps)

    def _state(self, part: str, block: Block) -> str:
        return f"state_{self.code.parts.index(part)}_{block.start}"

    def _step(self) -> None:
        program = self.code.program
        late = sorted({theirs for product in self.near for _, theirs in product.reset_pairs})
        gates = range(self.code.num_gates)
        self.known: dict[tuple[str, Block], str] = {}  # what has been computed, by its name in the formulas
        if program.early is not None:
            fresh = [gate for gate in gates if gate not in late]
            for block in self.blocks:
                self._sums(fresh, block)
                self._formulas(program.early, fresh, block, "a")
            gates = late
        new: dict[tuple[str, Block], str] = {}
        for block in self.blocks:
            self._sums(gates, block)
            if program.early is not None:
                self._second_products(block)
            found = self._formulas(program.forward, gates, block, "e")
            new |= {(part, block): found[f"state {part}"] for part in self.parts}
        for (part, block), variable in new.items():
            kept = variable if part in self.carried else self.factor(variable)
            self.writer.add(f"{self._state(part, block)} = {kept}")

    def _sums(self, gates: Sequence[int], block: Block) -> None:
        """Sums of the first products into gates.

        What other components add is asked for before the products, so that it is there after them.
        """
        fed = {theirs for product in self.code.external for _, theirs in product.pairs}.intersection(gates)
        for gate in fed:
            place = self.writer.gates(self.code).at(gate * self.width, self.width)
            self.writer.add(f"given_{gate} = {self.writer.load(place, block.columns)}")
        for gate in gates:
            self.writer.add(f"sum_{gate}_{block.start} = tl.zeros((ROWS, {block.size}), tl.float32)")
        for number, product in enumerate(self.near):
            for mine, theirs in product.pairs:
                if theirs in gates:
                    for row in self.blocks:
                        left = self.factor(self._state(product.part[1], row))
                        self._add_product(f"sum_{theirs}_{block.start}", left, (number, mine), row, block)
        self._far_products(gates, block)
        for gate in fed:
            self.writer.add(f"sum_{gate}_{block.start} += given_{gate}")

    def _second_products(self, block: Block) -> None:
        """Products into gates that wait for the reset gate."""
        for number, product in enumerate(self.near):
            for mine, theirs in product.reset_pairs:
                for row in self.blocks:
                    left = self.factor(self.known["reset", row])
                    self._add_product(f"sum_{theirs}_{block.start}", left, (number, mine), row, block)

    def _add_product(self, total: str, left: str, matrix: tuple[int, int], row: Block, column: Block) -> None:
        self.writer.add(f"{total} = {self.dot(left, self.matrix(*matrix, row, column), total)}")

    def _far_products(self, gates: Sequence[int], block: Block) -> None:
        for product in self.far:
            sums = [(f"sum_{theirs}_{block.start}", mine * self.width) for mine, theirs in product.pairs]
            sums = [each for each, (_, theirs) in zip(sums, product.pairs, strict=True) if theirs in gates]
            if sums:
                self.writer.add(f"columns = {block.columns}")
                place = self.writer.value(product.part, product.edge.delay)
                shape = (place.width, product.num_gates * self.width)
                self.writer.multiply(sums, place, product.name, shape, block.size, turned=False)

    def _formulas(
        self, outputs: Mapping[str, Expression], fresh: Sequence[int], block: Block, prefix: str
    ) -> dict[str, str]:
        """Formulas over a block, their results stored and remembered."""
        writer, code = self.writer, self.code
        names = code.program.gates
        inputs = {f"gate {names[gate]}": f"sum_{gate}_{block.start}" for gate in fresh}
        for number, name in enumerate(names_read(outputs)):
            if name in inputs:
                continue
            near = self.is_near(name)
            if (name, block) in self.known:
                inputs[name] = self.known[name, block]
            elif near is not None:
                inputs[name] = self._state(near, block)
            else:
                text = self.bias(name, block) if name.startswith("bias ") else self._load(name, block)
                inputs[name] = f"{prefix}i{number}_{block.start}"
                writer.add(f"{inputs[name]} = {text}")
        lines, found = write_formulas(outputs, inputs, nonlinearity(code), f"{prefix}_{block.start}_")
        writer.add(*lines)
        for name, variable in found.items():
            self.known[name, block] = variable
            if not (name.startswith("gate ") and code.gate_is_state):
                writer.store(operand(writer, code, name), variable, block.columns)
        return found

    def _load(self, name: str, block: Block) -> str:
        return self.writer.load(operand(self.writer, self.code, name), block.columns)
