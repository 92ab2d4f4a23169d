"""The general backward kernel, for any cyclic component: the moments of `general_forward.py` in reverse order.

Gradients of gates overwrite the gates. Gradients of states are added up in arrays with the layout of the states.
Gradients of matrices are left to `backward.py`, which computes them over all times at once, as large products.
"""

from collections.abc import Mapping, Sequence

from rnnlab.architecture.expressions import Expression
from rnnlab.engine.gpu.compiled import KernelText
from rnnlab.engine.gpu.formulas import names_read, write_formulas
from rnnlab.engine.gpu.general_forward import load_inputs, moments
from rnnlab.engine.gpu.layout import padded
from rnnlab.engine.gpu.writer import Place, Writer
from rnnlab.engine.nodes import NodeCode, Pairs, Part, Product, runs


def general_backward(writer: Writer, codes: Sequence[NodeCode], wanted: frozenset[Part]) -> KernelText:
    """The backward kernel of the nodes of a component; only the `wanted` parts gather gradients."""
    for code in moments(writer, codes, backward=True):
        _Node(writer, code, wanted).write()
    return writer.text()


class _Node:
    def __init__(self, writer: Writer, code: NodeCode, wanted: frozenset[Part]) -> None:
        self.writer, self.code, self.wanted = writer, code, wanted
        self.width = padded(code.units)

    def write(self) -> None:
        writer, code = self.writer, self.code
        if code.program.late is not None:
            self._late(code.program.late)
        self._formulas(code.program.backward)
        writer.barrier()
        for product in code.internal:
            if product.pairs:
                target = self._dsource(product)
                left = self._columns(writer.gates(code), product.pairs)
                self._multiply(target, left, product.name, product.num_gates * self.width, is_added=True)
                writer.barrier()
            if product.has_projection:
                target = writer.value(product.part, product.edge.delay, "dvalues")
                left = [(writer.per_time("dprojected", product.edge, self.width), 0)]
                self._multiply(target, left, product.projection, self.width, is_added=True)
                writer.barrier()

    def _late(self, outputs: Mapping[str, Expression]) -> None:
        """Write the first stage of cells with a second product: the gradients of its gates, then that of `reset`.

        They go to arrays of their own, because the gates are still to be read.
        """
        writer, code = self.writer, self.code
        late = writer.per_row("late", code.key, code.num_gates * self.width)
        size = self._tile_of(outputs)
        with writer.columns(self.width, size):
            inputs: dict[str, str] = {}
            self._load(outputs, inputs, size)
            lines, found = write_formulas(outputs, inputs, code.nonlinearity)
            writer.add(*lines)
            for name, variable in found.items():
                gate = code.program.gates.index(name.removeprefix("d gate "))
                writer.store(late.at(gate * self.width, self.width), self._as_tile(variable, size))
        writer.barrier()
        target, is_added = writer.per_row("dreset", code.key, self.width), False
        for product in code.products:
            if product.reset_pairs:
                left = self._columns(late, product.reset_pairs)
                self._multiply(target, left, product.name, product.num_gates * self.width, is_added=is_added)
                is_added = True
                writer.barrier()

    def _formulas(self, outputs: Mapping[str, Expression]) -> None:
        """Write lines from the gradient of the new state to those of the gates and of all that the formulas read."""
        writer, code = self.writer, self.code
        size = self._tile_of(outputs)
        with writer.columns(self.width, size):
            inputs: dict[str, str] = {}
            self._load(outputs, inputs, size)
            lines, found = write_formulas(outputs, inputs, code.nonlinearity)
            writer.add(*lines)
            sums: dict[str, tuple[Place, list[str]]] = {}  # gradients for the same place are added up first
            for name, variable in found.items():
                if name.startswith("d gate "):
                    gate = code.program.gates.index(name.removeprefix("d gate "))
                    writer.store(writer.gates(code).at(gate * self.width, self.width), self._as_tile(variable, size))
                elif name != "d reset" and (place := self._gathered(name)) is not None:
                    sums.setdefault(place.start, (place, []))[1].append(variable)
            for place, variables in sums.values():
                writer.store(place, f"{writer.load(place)} + {' + '.join(variables)}")

    def _tile_of(self, outputs: Mapping[str, Expression]) -> int:
        return self.writer.tile_of(self.width, 0, len(names_read(outputs)) + len(outputs))

    def _load(self, outputs: Mapping[str, Expression], inputs: dict[str, str], size: int) -> None:
        writer, code = self.writer, self.code
        for part in code.parts:
            inputs[f"d state {part}"] = f"change_{code.parts.index(part)}"
            place = writer.value((code.key[0], part), 0, "dvalues")
            writer.add(f"change_{code.parts.index(part)} = {writer.load(place)}")
        if code.program.early is not None:
            inputs["d reset"] = "change_reset"
            if outputs is code.program.backward:
                writer.add(f"change_reset = {writer.load(writer.per_row('dreset', code.key, self.width))}")
        load_inputs(writer, code, outputs, inputs, size)

    def _gathered(self, name: str) -> Place | None:
        """The place where a gradient is added up; None if it is not wanted."""
        writer, code = self.writer, self.code
        if name == "d depth" and code.depth_product.has_projection:
            return writer.per_time("dprojected", code.depth_product.edge, self.width)
        edge, part = code.edge_read(name.removeprefix("d "))
        if (edge.source[0], part) not in self.wanted:
            return None
        return writer.edge_source(edge, part, "dvalues")

    def _dsource(self, product: Product) -> Place:
        if product.has_projection:
            return self.writer.per_time("dprojected", product.edge, self.width)
        return self.writer.value(product.part, product.edge.delay, "dvalues")

    def _columns(self, gates: Place, pairs: Pairs) -> list[tuple[Place, int]]:
        """Runs of neighbouring gates, each with the column of the matrix at which its columns begin."""
        found = runs(pairs, self.width)
        return [(gates.at(theirs.start, theirs.stop - theirs.start), mine.start) for mine, theirs in found]

    def _multiply(
        self, target: Place, left: Sequence[tuple[Place, int]], name: str, columns: int, *, is_added: bool
    ) -> None:
        """Write lines that set or add to a target: products of places with columns of a matrix, transposed."""
        writer = self.writer
        size = writer.tile_of(target.width)
        with writer.columns(target.width, size):
            start = writer.load(target) if is_added else f"tl.zeros((ROWS, {size}), tl.float32)"
            writer.add(f"total = {start}")
            for place, column in left:
                writer.multiply([("total", column)], place, name, (target.width, columns), size, turned=True)
            writer.store(target, "total")

    def _as_tile(self, variable: str, size: int) -> str:
        """Text of a tile: a variable as it is, or a constant as a tile full of it."""
        return variable if variable.isidentifier() else f"tl.full((ROWS, {size}), {variable}, tl.float32)"
