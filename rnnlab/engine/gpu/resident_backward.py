"""The backward kernel of a node whose matrices, and the gradient of whose last state, stay on the chip."""

from collections.abc import Mapping, Sequence

from rnnlab.architecture.expressions import Expression
from rnnlab.engine.gpu.compiled import Argument, KernelText
from rnnlab.engine.gpu.cuda_writer import Rows
from rnnlab.engine.gpu.formulas import names_read
from rnnlab.engine.gpu.layout import padded
from rnnlab.engine.gpu.resident import SUM, Layout, Place, Reader, ResidentWriter
from rnnlab.engine.gpu.spread import late_gates
from rnnlab.engine.gpu.spread_backward import passed_by
from rnnlab.engine.nodes import NodeCode, Pairs, Part, runs


def kept_parts(code: NodeCode) -> list[str]:
    """Parts of the last state whose gradients stay in registers: multiplied by the matrix, or passed as they are."""
    own = [each.part for each in passed_by(code) if each.edge.source == code.key]
    return list(dict.fromkeys((*(product.part[1] for product in code.internal), *own)))


def resident_backward(
    writer: ResidentWriter,
    wanted: frozenset[Part],
    given: frozenset[Part],
    final: frozenset[Part],
    readers: Sequence[Reader],
) -> KernelText:
    """The kernel of a component of one node.

    Args:
        writer: gathers the text.
        wanted: parts that gather gradients.
        given: those for which gradients lie in memory, at all times.
        final: those for which gradients of the final state do.
        readers: read-outs whose products are made here.
    """
    return _Backward(writer, wanted, given, final, readers).write()


class _Backward:
    def __init__(
        self,
        writer: ResidentWriter,
        wanted: frozenset[Part],
        given: frozenset[Part],
        final: frozenset[Part],
        readers: Sequence[Reader],
    ) -> None:
        self.writer, self.code, self.width = writer, writer.code, writer.width
        self.wanted, self.given, self.final, self.readers = wanted, given, final, readers
        self.layout = Layout(self.code, writer.arithmetic, writer.shape, backward=True, readers=readers)
        self.passed = passed_by(self.code)
        self.kept = kept_parts(self.code)
        own = [each for each in self.passed if each.edge.source == self.code.key]
        self.late = [each for each in own if each.edge.delay != writer.step]  # passed to states of longer ago
        # how many values before the sequence were read; where time runs backward, it is zeros after it
        name, parts = self.code.key[0], self.kept if writer.step == 1 else []
        self.depths = {part: writer.plan.histories[name, part] for part in parts}

    def write(self) -> KernelText:
        writer, program = self.writer, self.code.program
        self._keep_matrices()
        for part in self.kept:
            writer.add(f"float {self._change(part)}[M][N][4] = {{}};")
        with writer.block(""):
            self._load_final()
        with writer.block("for (int position = 0; position < T; ++position)"):
            writer.add(f"const int time = {'T - 1 - position' if writer.step == 1 else 'position'};")
            next_time = f"time - {writer.step}"
            writer.ask_ahead(self._read_places(next_time), f"{next_time} >= 0 && {next_time} < T")
            self._bring_delayed()
            if program.late is not None:
                self._late(program.late)
            with writer.block(""):
                self._moment(program.backward)
            self._await_delayed()
            writer.add("__syncthreads();")
            with writer.block(""):
                self._fetch_back()
            self._add_delayed()
            if not writer.is_cluster:  # which has waited
                writer.add("__syncthreads();")
        if self.depths:
            self._before()
        return writer.text()

    # ------------------------------------------------------------------------------------- what was read of longer ago

    def _is_later(self, delay: int) -> str:
        """Whether there is a moment that read, so long after it, the state before the present one."""
        return f"time + {delay - 1} >= 0 && time + {delay - 1} < T"

    def _bring_delayed(self) -> None:
        """Ask for gradients that a later moment left in memory, of gates and of what was passed as it is."""
        writer = self.writer
        for product, place in zip(writer.delayed, self.layout.delayed, strict=True):
            delay = product.edge.delay
            with writer.block(f"if ({self._is_later(delay)})"):
                writer.bring(place, writer.gates_of(self.code, f"(time + {delay - 1})"))
        if writer.delayed:
            writer.add("end_group();")
        for number, each in enumerate(self.late):
            rows = writer.per_time(
                "passed", (self.code.key, each.name), self.width, 4, f"(time + {each.edge.delay - 1})"
            )
            writer.add(f"Vector<float> late{number}[M][2] = {{}};")
            with writer.block(f"if ({self._is_later(each.edge.delay)})"):
                writer.fetch_again(f"late{number}", rows)

    def _await_delayed(self) -> None:
        if self.writer.delayed:
            self.writer.add("await_groups<0>();")

    def _add_delayed(self) -> None:
        """Add them to the gradients of the state before the present one."""
        writer = self.writer
        for product, place, matrix in zip(writer.delayed, self.layout.delayed, self.layout.matrices[1:], strict=True):
            with writer.block(f"if ({self._is_later(product.edge.delay)})"):
                self._multiply(self._sums(product.part[1]), product.pairs, place, matrix)
        for number, each in enumerate(self.late):
            with writer.vectors(), writer.unrolled("u < U"):
                writer.add(f"{self._last(each.part)} += number(late{number}[m][half], u);")

    def _sums(self, part: str) -> str:
        return f"(float (&)[1][M][N][4]){self._change(part)}"

    def _before(self) -> None:
        """Gradients of the states before the first step."""
        writer = self.writer
        self._store_before("-1")
        if not writer.delayed and not self.late:
            return
        with writer.block(f"for (int time = -1; time > -{max(self.depths.values())}; --time)"):
            self._bring_delayed()
            with writer.vectors(), writer.unrolled("u < U"):
                writer.add(*(f"{self._last(part)} = 0.0f;" for part in self.kept))
            self._await_delayed()
            writer.add("__syncthreads();")
            self._add_delayed()
            writer.add("__syncthreads();")
            self._store_before("time - 1")

    def _load_final(self) -> None:
        """Begin with the gradients of the final state."""
        writer, name = self.writer, self.code.key[0]
        for number, part in enumerate(part for part in self.kept if (name, part) in self.final):
            rows = writer.rows("dfinal", (name, part), "float", "member", self.width)
            text = writer.fetch(f"final{number}", rows)
            with writer.vectors(), writer.unrolled("u < U"):
                writer.add(f"{self._last(part)} = {text};")

    def _change(self, part: str) -> str:
        return f"change{self.code.parts.index(part)}"

    def _keep_matrices(self) -> None:
        writer, layout = self.writer, self.layout
        writer.start()
        for product, place in zip((writer.product, *writer.delayed), layout.matrices, strict=True):
            if writer.is_cluster:
                writer.keep_own(place, Argument("matrix", product.name), product.num_gates)
            else:
                writer.keep(place, Argument("matrix", product.name), 1, product.num_gates * self.width)
        for (reader, product), place in zip(self.readers, layout.readers, strict=True):
            writer.keep(place, Argument("matrix", product.name), 1, padded(reader.units))
        writer.begin(layout)

    # ------------------------------------------------------------------------------------------ gradients of the state

    def _arriving(self, part: str) -> str:
        """Lines for the gradient of a part of the new state; text of a number."""
        writer, name = self.writer, f"arriving{self.code.parts.index(part)}"
        writer.add(f"float {name}[M][N][4] = {{}};")
        given = None
        if (self.code.key[0], part) in self.given:
            rows = writer.value((self.code.key[0], part), 0, "dvalues")
            given = writer.fetch(f"given{self.code.parts.index(part)}", rows)
        readers = zip(self.readers, self.layout.readers, strict=True)
        for (reader, product), (start, stride) in readers:
            if product.part[1] == part:
                rows = writer.per_time("gates", reader.key, padded(reader.units), 4)
                writer.add(
                    f"multiply_memory({name}, {rows.pointer} + top * {rows.width}, {rows.width}, num_live - top, "
                    f"address_of(shared) + {start} + first_column * {stride}, {stride}, "
                    f"{padded(reader.units) * writer.itemsize} / STEP);"
                )
        added = [text for text in (self._last(part), given) if text]
        if added:
            with writer.vectors(), writer.unrolled("u < U"):
                writer.add(f"{name}{SUM} += {' + '.join(added)};")
        return f"{name}{SUM}"

    def _last(self, part: str) -> str | None:
        return f"{self._change(part)}{SUM}" if part in self.kept else None

    def _fetch_back(self) -> None:
        """From the gradients of the gates to that of what the matrix multiplied."""
        product = self.writer.product
        is_alone = self.code.program.late is None
        number, phase = ("(position % 2)", "position / 2 % 2") if is_alone else ("0", "position % 2")
        self._multiply_last(self._change(product.part[1]), product.pairs, number, phase)

    def _multiply_last(self, target: str, pairs: Pairs, number: str, phase: str) -> None:
        """Lines that add gradients of gates times the matrix of the last state; in a cluster, those of all programs.

        Args:
            target: where sums are added.
            pairs: gates of the matrix, and of the node.
            number: which of two places takes the sums of other programs.
            phase: of its counter.
        """
        writer, layout = self.writer, self.layout
        if not writer.is_cluster:
            self._multiply(f"(float (&)[1][M][N][4]){target}", pairs, layout.left, layout.matrices[0])
            return
        writer.add("float parts[PROGRAMS][M][N][4] = {};")
        self._multiply("parts", pairs, layout.left, layout.matrices[0])
        counter = writer.counter(layout, number)
        place = f"{layout.parts} + {number} * {layout.parts_bytes}"
        writer.add(
            f"send_parts(address_of(shared) + {place}, parts, {counter});",
            f"expect({counter}, {layout.parts_bytes});",
            f"await_bytes({counter}, {phase});",
            f"add_parts({target}, shared + {place});",
        )

    def _multiply(self, target: str, pairs: Pairs, gates: Place, matrix: Place) -> None:
        """Lines that add gradients of gates in shared memory times rows of a matrix, for the units of each program."""
        writer, itemsize = self.writer, self.writer.itemsize
        for mine, theirs in runs(pairs, writer.share):
            left = f"{gates.start + theirs.start * itemsize} + top * {gates.stride}"
            right = f"{matrix.start + mine.start * itemsize} + first_column * {matrix.stride}"
            writer.add(
                f"multiply_all<PROGRAMS>({target}, address_of(shared) + {left}, {gates.stride}, "
                f"address_of(shared) + {right}, {matrix.stride}, SHARE * {matrix.stride}, "
                f"{(theirs.stop - theirs.start) * itemsize});"
            )

    # -------------------------------------------------------------------------------------------------- the node itself

    def _inputs(self, outputs: Mapping[str, Expression]) -> dict[str, str]:
        """Lines that ask for what the forward pass left; texts of a number by name."""
        writer, found = self.writer, {}
        for name in names_read(outputs):
            if not name.startswith("d "):
                found[name] = writer.fetch(f"in{len(found)}", writer.place_of(self.code, name))
        for part in self.code.parts:
            if f"d state {part}" in names_read(outputs):
                found[f"d state {part}"] = self._arriving(part)
        return found

    def _read_places(self, time: str) -> list[Rows]:
        """What a step reads: gates, and its own state; what lies one step before it is read as the state there."""
        writer, code = self.writer, self.code
        read = names_read(code.program.backward)
        parts = dict.fromkeys(code.edge_read(name)[1] for name in read if writer.is_previous(name))
        parts |= dict.fromkeys(name.removeprefix("state ") for name in read if name.startswith("state "))
        parts |= {code.first_part: None} if code.gate_is_state else {}
        values = [writer.value((code.key[0], part), writer.step, time=time) for part in parts]
        values += [writer.value(each.source, each.edge.delay, time=time) for each in self.late if each.name in read]
        return values if code.gate_is_state else [writer.gates_of(code, time), *values]

    def _late(self, outputs: Mapping[str, Expression]) -> None:
        """The gates of the second product come first; the gradient of what it multiplied follows, and stays."""
        writer = self.writer
        with writer.block(""):
            inputs = self._inputs(outputs)
            with writer.vectors():
                self._gates(outputs, inputs, list(outputs), is_in_memory=False)
        writer.add("float dreset[M][N][4] = {};", "__syncthreads();")
        with writer.block(""):
            self._multiply_last("dreset", writer.product.reset_pairs, "1", "position % 2")

    def _moment(self, outputs: Mapping[str, Expression]) -> None:
        inputs = self._inputs(outputs) | {"d reset": f"dreset{SUM}"}
        names = [name for name in outputs if name.startswith("d gate ")]
        with self.writer.vectors():
            self._gates(outputs, inputs, names, is_in_memory=True)

    def _gates(
        self, outputs: Mapping[str, Expression], inputs: Mapping[str, str], names: Sequence[str], *, is_in_memory: bool
    ) -> None:
        """Lines that compute gradients of gates and of all else for a row, and put them where they belong."""
        writer, gates = self.writer, self.code.program.gates
        passed = [each for each in self.passed if is_in_memory and each.source in self.wanted]
        stored = {name: f"out{place}" for place, name in enumerate(names)}
        stored |= {f"d {each.name}": f"passed{place}" for place, each in enumerate(passed)}
        if is_in_memory and "d depth" in outputs and self.code.depth_product.has_projection:
            stored["d depth"] = "projected"
        writer.add(f"float {', '.join(f'{variable}[U]' for variable in stored.values())};")
        with writer.unrolled("u < U"):
            found = writer.formulas(outputs, inputs)
            for name, variable in stored.items():
                writer.add(f"{variable}[u] = {found[name]};")
            if is_in_memory:
                self._keep_passed(found)
        for name in names:
            gate = gates.index(name.removeprefix("d gate "))
            if is_in_memory != (gate in late_gates(self.code)):  # others read late gates since these were there
                left = self.layout.left
                writer.store_shared(str(left.start), left.stride, f"own_unit + {gate * writer.share}", stored[name])
            if is_in_memory:
                writer.store(writer.place_of_gate(gate), stored[name])
        for each in passed:
            if each.edge.source != self.code.key or each in self.late:
                rows = writer.per_time("passed", (self.code.key, each.name), self.width, 4)
                writer.store(rows, stored[f"d {each.name}"])
        if "projected" in stored.values():
            writer.store(writer.per_time("dprojected", self.code.depth_product.edge, self.width, 4), "projected")

    def _keep_passed(self, found: Mapping[str, str]) -> None:
        """The gradients of the last state that the formulas pass back; the product is added to them later."""
        for part in self.kept:
            texts = [
                found[f"d {each.name}"]
                for each in self.passed
                if each.edge.source == self.code.key and each.part == part and each not in self.late
            ]
            self.writer.add(f"{self._last(part)} = {' + '.join(texts) or '0.0f'};")

    def _store_before(self, time: str) -> None:
        """Gradients of the state at a time before the first step."""
        writer, name = self.writer, self.code.key[0]
        for part, depth in self.depths.items():
            rows = writer.rows("dbefore", (name, part), "float", f"(member * {depth} + {depth} + {time})", self.width)
            with writer.block(f"if ({time} >= -{depth})"), writer.vectors():
                writer.add("float all[U];")
                with writer.unrolled("u < U"):
                    writer.add(f"all[u] = {self._last(part)};")
                writer.store(rows, "all")
