"""The forward kernel of nodes whose matrices and last states stay on the chip."""

from collections.abc import Mapping, Sequence

from rnnlab.engine.gpu.compiled import Argument
from rnnlab.engine.gpu.cuda_writer import TYPES
from rnnlab.engine.gpu.formulas import names_read
from rnnlab.engine.gpu.resident import Layout, Place, taken_over
from rnnlab.engine.gpu.resident_writer import SUM, ResidentWriter
from rnnlab.engine.nodes import NodeCode, Pairs, Part, Product


def write_forward(writer: ResidentWriter) -> None:
    """Gather the kernel of a component."""
    _Forward(writer).write()


class _Forward:
    def __init__(self, writer: ResidentWriter) -> None:
        self.writer, self.resident, self.width = writer, writer.resident, writer.width
        self.layout = Layout(self.resident, writer.arithmetic, writer.shape, backward=False)
        self.held = {part: f"held{number}" for number, part in enumerate(self.resident.held)}
        self.nodes = [_Node(self, number, code) for number, code in enumerate(self.resident.codes)]
        self.first = "0" if writer.step == 1 else "(T - 1)"
        # biases stay in registers where a thread has few units; else they are read anew, from the first-level cache
        self.keeps_biases = writer.warps.unit_tiles == 1

    def write(self) -> None:
        """All lines."""
        writer, layout = self.writer, self.layout
        writer.start(layout, backward=False)
        for name, num_gates in self.resident.matrices.items():
            writer.keep(layout.matrices[name], Argument("turned", name), num_gates, self.width)
        self._start_states()
        for node in self.nodes:
            if self.keeps_biases:
                node.load_biases(node.biases)
            node.start_given()
        self._bring_delayed("0", "0")
        self._bring_handed("0", None)
        writer.begin(layout)
        writer.keep_in_registers([each for node in self.nodes for each in node.own_products])
        if layout.handed:
            self._take_handed("0", "1", None)
        with writer.block("for (int position = 0; position < T; ++position)"):
            writer.add(f"const int time = {'position' if writer.step == 1 else 'T - 1 - position'};")
            writer.add(f"const int now = position % 2 * {layout.buffer_bytes};")
            writer.add(f"const int before = (position + 1) % 2 * {layout.buffer_bytes};")
            if layout.delayed:
                with writer.block("if (position + 1 < T)"):
                    self._bring_delayed("(time + 1)", "before")
                writer.add("end_group();")
            for node in self.nodes:
                with writer.moment(node.code):
                    node.write()
            if layout.delayed:
                writer.add("await_groups<0>();", "meet_group();")

    def _bring_delayed(self, time: str, moved: str) -> None:
        """States of longer ago than a step are in memory, for a step at the latest."""
        writer = self.writer
        for code, product in self.resident.delayed:
            with writer.block(f"if ({writer.exists(code, time)})" if writer.period > 1 else ""):
                place = self.layout.delayed[product.edge]
                writer.bring(place, writer.value(product.part, product.edge.delay, time=time), moved)

    # ---------------------------------------------------------------------------- what other legs of a relay hand on

    def end_moment(self) -> None:
        """Lines after the last node has sent and stored its state, while others' are on their way."""
        writer = self.writer
        if self.layout.handed:
            writer.add("await_groups<0>();")
        writer.meet_teller()
        if self.layout.handed:
            with writer.block("if (time + 1 < T)"):
                self._take_handed("time + 1", "time + 2", "time")

    def _take_handed(self, time: str, after: str, looked: str | None) -> None:
        """Multiply the states of a time, which have come, and ask for those after it."""
        for node in self.nodes:
            node.multiply_handed(time)
        with self.writer.block(f"if ({after} < T)"):
            self._bring_handed(after, looked)
        self.writer.add("end_group();")

    def _bring_handed(self, time: str, looked: str | None) -> None:
        """Begin to copy the states of a time, when their programs have told of them."""
        writer = self.writer
        for _, product in self.resident.handed:
            writer.wait_for(self.layout, product.edge, f"{time} + 1", looked, backward=False)
            place, kind = self.layout.handed[product.edge], "factor" if product.part in writer.factors else "values"
            writer.bring(place, writer.value(product.part, 0, kind, f"({time})"), self.buffer_of(place, time))

    def buffer_of(self, place: Place, time: str) -> str:
        """Text of how far the states of a time lie from a place for two of them."""
        return f"({time}) % 2 * {self.writer.shape.rows * place.stride}"

    def _start_states(self) -> None:
        """What came before the first step: in registers what is taken over, in shared memory what is multiplied."""
        writer, resident = self.writer, self.resident
        for variable in self.held.values():
            writer.add(f"float {variable}[M][N][4] = {{}};")
        for part in self._read_at_first({part: self.held[part] for part in resident.held}):
            with writer.block(""):
                text = writer.fetch("start", writer.value(part, writer.step, time=self.first))
                with writer.vectors(), writer.unrolled("u < U"):
                    writer.add(f"{self.held[part]}{SUM} = {text};")
        for part in self._read_at_first(self.layout.states):
            with writer.block("for (int program = 0; program < PROGRAMS; ++program)"):  # of all units
                writer.add("const int unit = program * SHARE + own_unit;")
                text = writer.fetch("start", writer.value(part, writer.step, time=self.first))
                with writer.vectors():
                    writer.add("float all[U];")
                    with writer.unrolled("u < U"):
                        writer.add(f"all[u] = {text};")
                    place = self.layout.states[part]
                    start = str(place.start + self.layout.buffer_bytes)
                    if writer.is_cluster:
                        writer.store_in_tile(start, place.stride, "all")
                    else:
                        writer.store_shared(start, place.stride, "unit", "all")

    def _read_at_first(self, parts: Mapping[Part, object]) -> list[Part]:
        """Those of which the first step reads what came before it."""
        plan = self.writer.plan
        known = plan.histories if self.writer.step == 1 else plan.lookaheads
        return [part for part in parts if known.get(part)]


class _Node:
    """What one node adds to the kernel."""

    def __init__(self, kernel: _Forward, number: int, code: NodeCode) -> None:
        self.kernel, self.number, self.code = kernel, number, code
        self.writer, self.layout = kernel.writer, kernel.layout
        program = code.program
        self.outputs = [program.forward] if program.early is None else [program.early, program.forward]
        late = code.late_gates
        early = [gate for gate in range(code.num_gates) if gate not in late]
        self.fresh = [early, late]  # the gates that each stage computes
        self.handed = [product for each, product in kernel.resident.handed if each is code]
        self.handed_gates = sorted({gate for product in self.handed for _, gate in product.pairs})
        given = {gate for product in code.external if product not in self.handed for _, gate in product.pairs}
        self.given = {gate: f"given{number}_{gate}" for gate in sorted(given)}
        self.kept: dict[str, str] = {}  # what a second stage reads of the first
        read = {name for outputs in self.outputs for name in names_read(outputs)}
        self.biases = [gate for gate, name in enumerate(program.gates) if f"bias {name}" in read]

    # ----------------------------------------------------------------------------------------------- before the loop

    @property
    def own_products(self) -> list[tuple[Place, Pairs]]:
        """The matrices that multiply states of the component, and their gates, stage by stage."""
        found: list[tuple[Place, Pairs]] = []
        for stage, fresh in enumerate(self.fresh[: len(self.outputs)]):
            for product in self.code.internal:
                matrix = self.layout.matrices[product.name]
                found.append((matrix, tuple(pair for pair in product.pairs if pair[1] in fresh)))
                found += [(matrix, product.reset_pairs)] if stage else []
        return found

    def start_given(self) -> None:
        """Sums from other components are asked for a moment before they are needed."""
        for variable in self.given.values():
            self.writer.add(f"Vector<{TYPES[self.writer.itemsize]}> {variable}[M][2] = {{}};")
        period, phase = self.writer.period, self.code.key[1]
        if self.given and period > 1:
            start = f"first{self.number}"
            self.writer.add(f"const int {start} = (int)((({phase} - a.first_step) % {period} + {period}) % {period});")
            self._fetch_given(start, f"{start} < T")
        else:
            self._fetch_given(self.kernel.first, "true")

    def _fetch_given(self, time: str, condition: str) -> None:
        if self.given:
            with self.writer.block(f"if ({condition})"):
                for gate, variable in self.given.items():
                    self.writer.fetch_again(variable, self.writer.place_of_gate(self.code, gate, time))

    def multiply_handed(self, time: str) -> None:
        """Lines that multiply what other legs handed on for a time, into registers that hold the biases until then."""
        if not self.handed:
            return
        writer, sums = self.writer, f"handed{self.number}"
        if time == "0":
            writer.add(f"float {sums}[{len(self.handed_gates)}][M][N][4];")
        with writer.block(""):
            if not self.kernel.keeps_biases:
                self.load_biases([gate for gate in self.handed_gates if gate in self.biases])
            with writer.vectors(), writer.unrolled("u < U"):
                for place, gate in enumerate(self.handed_gates):
                    writer.add(f"{sums}[{place}]{SUM} = {self._bias(gate) or '0.0f'};")
        for product in self.handed:
            place, matrix = self.layout.handed[product.edge], self.layout.matrices[product.name]
            left = f"{place.start} + {self.kernel.buffer_of(place, time)}"
            writer.multiply(sums, product.pairs, self.handed_gates, left, place.stride, matrix, are_tiles=False)

    def _bias(self, gate: int) -> str | None:
        """Text of number `u` of a gate's bias, if it has one."""
        return f"bias{self.number}_{gate}.x[u]" if gate in self.biases else None

    # ------------------------------------------------------------------------------------------------------ a moment

    def write(self) -> None:
        """Lines for a moment of the node."""
        writer = self.writer
        ahead = writer.period * writer.step
        if self.given:
            after_next = f"time + {2 * ahead}"
            writer.ask_ahead([writer.gates_of(self.code, after_next)], f"{after_next} >= 0 && {after_next} < T")
        for stage, outputs in enumerate(self.outputs):
            self._keep_for_later(stage)
            with writer.block(""):
                self._stage(stage)
            if stage + 1 == len(self.outputs):
                self._fetch_given(f"(time + {ahead})", f"time + {ahead} >= 0 && time + {ahead} < T")
                if self is self.kernel.nodes[-1]:
                    self.kernel.end_moment()
            num_left = len([name for name in outputs if self._left_of(name)])
            if not writer.is_cluster:
                writer.add("meet_group();")
            elif num_left:
                writer.hear(self.layout, f"ROWS * WIDTH * {writer.itemsize * num_left}")

    def _keep_for_later(self, stage: int) -> None:
        """Registers for what a second stage reads of the first."""
        for name in names_read(self.outputs[1]) if stage == 0 and len(self.outputs) == 2 else ():
            if name in self.outputs[0]:
                self.kept[name] = f"kept{self.number}_{len(self.kept)}"
                self.writer.add(f"float {self.kept[name]}[M][N][4];")

    def _stage(self, stage: int) -> None:
        writer, code, fresh, outputs = self.writer, self.code, self.fresh[stage], self.outputs[stage]
        inputs = self._inputs(stage)
        self._start_sums(fresh)
        for product in code.internal:
            self._multiply(product, stage)
        # the sums hold the biases already: these would take registers while the formulas run
        inputs |= {name: "0.0f" for name in names_read(outputs) if name.startswith("bias ")}
        gates = {f"gate {code.program.gates[gate]}": f"sum{gate}" for gate in fresh}
        stored = {name: f"out{place}[m][half]" for place, name in enumerate(outputs)}
        writer.add(f"float {', '.join(f'out{place}[M][2][U]' for place in range(len(outputs)))};")
        with writer.vectors():
            with writer.unrolled("u < U"):
                writer.add(*(f"const float sum{gate} = sums[{place}]{SUM};" for place, gate in enumerate(fresh)))
                found = writer.formulas(code, outputs, inputs | gates)
                self._keep(found, stored, stage)
            if not writer.is_cluster:  # where others wait, they come first
                self._store(stored)
        if writer.is_cluster:
            for name, variable in stored.items():
                if left := self._left_of(name):
                    writer.send(*left, writer.counter(self.layout), variable)
            with writer.vectors():
                self._store(stored)

    def _keep(self, found: Mapping[str, str], stored: Mapping[str, str], stage: int) -> None:
        """Lines that put results where they are stored from, and into registers for those who take them from there."""
        writer = self.writer
        for name, text in found.items():
            writer.add(f"{stored[name]}[u] = {text};")
            if stage == 0 and name in self.kept:
                writer.add(f"{self.kept[name]}{SUM} = {text};")
        for (name, part), variable in self.kernel.held.items():
            if name == self.code.key[0] and f"state {part}" in found:
                writer.add(f"{variable}{SUM} = {found[f'state {part}']};")

    def _multiply(self, product: Product, stage: int) -> None:
        """Lines for what a product adds to the gates of a stage."""
        writer, layout, fresh = self.writer, self.layout, self.fresh[stage]
        matrix = layout.matrices[product.name]
        age = self.kernel.resident.age(product.edge)
        place = layout.delayed[product.edge] if age > 1 else layout.states[product.part]
        buffer = "before" if age == 1 else "now"
        pairs = tuple(pair for pair in product.pairs if pair[1] in fresh)
        left, are_tiles = f"{place.start} + {buffer}", writer.is_cluster
        writer.multiply("sums", pairs, fresh, left, place.stride, matrix, are_tiles=are_tiles)
        if stage == 1:
            resets, late = layout.resets, product.reset_pairs
            writer.multiply("sums", late, fresh, str(resets.start), resets.stride, matrix, are_tiles=are_tiles)

    def _inputs(self, stage: int) -> dict[str, str]:
        """What formulas read beside the fresh gates: from registers, or asked for here, before the products."""
        writer, resident = self.writer, self.kernel.resident
        taken, inputs = taken_over(self.code), dict[str, str]()
        for name in names_read(self.outputs[stage]):
            edge = taken.get(name)
            if name in self.kept and stage == 1:
                inputs[name] = f"{self.kept[name]}{SUM}"
            elif edge is not None and resident.is_internal(edge) and resident.is_in_time(self.code, edge):
                inputs[name] = f"{self.kernel.held[edge.source[0], self.code.edge_read(name)[1]]}{SUM}"
            elif name.startswith(("carried ", "identity ", "depth")):
                inputs[name] = writer.fetch(f"in{len(inputs)}", writer.place_of(self.code, name))
        return inputs

    def load_biases(self, gates: Sequence[int]) -> None:
        """Lines that load the biases of gates."""
        writer, width = self.writer, self.writer.width
        for gate in gates:
            start = f"member * {self.code.num_gates * width} + {gate * width} + unit"
            array = writer.array("bias", self.code.bias)
            variable = f"bias{self.number}_{gate}"
            writer.add(f"const Vector<float> {variable} = load_vector((const float *){array} + {start});")

    def _start_sums(self, fresh: Sequence[int]) -> None:
        """Sums begin with the bias, and with what products from other components gave."""
        writer = self.writer
        writer.add(f"float sums[{len(fresh)}][M][N][4] = {{}};")
        if not self.kernel.keeps_biases:
            self.load_biases([gate for gate in fresh if gate in self.biases and gate not in self.handed_gates])
        for place, gate in enumerate(fresh):
            texts: list[str] = []
            if gate in self.handed_gates:  # with the bias
                texts.append(f"handed{self.number}[{self.handed_gates.index(gate)}]{SUM}")
            elif bias := self._bias(gate):
                texts.append(bias)
            if gate in self.given:
                texts.append(f"number({self.given[gate]}[m][half], u)")
            if texts:
                with writer.vectors(), writer.unrolled("u < U"):
                    writer.add(f"sums[{place}]{SUM} = {' + '.join(texts)};")

    def _left_of(self, name: str) -> tuple[str, int] | None:
        """Where a result lies that products multiply, and how far its rows are apart."""
        if name == "reset":
            return str(self.layout.resets.start), self.layout.resets.stride
        place = self.layout.states.get((self.code.key[0], name.removeprefix("state ")))
        return (f"{place.start} + now", place.stride) if place and name.startswith("state ") else None

    def _store(self, stored: Mapping[str, str]) -> None:
        """Lines that store a row's results."""
        writer = self.writer
        for name, variable in stored.items():
            left = self._left_of(name)
            if left and not writer.is_cluster:
                writer.store_shared(*left, "unit", variable)
            if not (name.startswith("gate ") and self.code.gate_is_state):  # then the state is stored, and is enough
                writer.store(writer.place_of(self.code, name), variable)
            part = (self.code.key[0], name.removeprefix("state "))
            if name.startswith("state ") and part in writer.factors:
                writer.store(writer.value(part, 0, "factor"), variable)
