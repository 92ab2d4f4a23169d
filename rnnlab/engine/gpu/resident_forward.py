"""The forward kernel of a node whose matrices and last state stay on the chip."""

from collections.abc import Sequence

from rnnlab.engine.gpu.compiled import Argument, KernelText
from rnnlab.engine.gpu.cuda_writer import TYPES
from rnnlab.engine.gpu.formulas import names_read
from rnnlab.engine.gpu.resident import SUM, Layout, ResidentWriter, taken_over
from rnnlab.engine.gpu.spread import late_gates


def resident_forward(writer: ResidentWriter) -> KernelText:
    """The kernel of a component of one node."""
    return _Forward(writer).write()


class _Forward:
    def __init__(self, writer: ResidentWriter) -> None:
        self.writer, self.code, self.width = writer, writer.code, writer.width
        program = self.code.program
        self.outputs = [program.forward] if program.early is None else [program.early, program.forward]
        self.late = late_gates(self.code)
        early = [gate for gate in range(self.code.num_gates) if gate not in self.late]
        self.fresh = [early, self.late]  # the gates that each stage computes
        self.layout = Layout(self.code, writer.arithmetic, writer.shape, backward=False)
        self.multiplied = writer.product.part[1]  # the part of the state that the product reads

    def write(self) -> KernelText:
        writer, layout = self.writer, self.layout
        writer.start()
        for product, place in zip((writer.product, *writer.delayed), layout.matrices, strict=True):
            writer.keep(place, Argument("turned", product.name), product.num_gates, self.width)
        self._start_states()
        self._start_given()
        self._bring_delayed("0", "0")
        writer.begin(layout)
        with writer.block("for (int position = 0; position < T; ++position)"):
            writer.add(f"const int time = {'position' if writer.step == 1 else 'T - 1 - position'};")
            if len(self.outputs) == 1:  # the last state and the new one take turns
                writer.add(f"const int last = {layout.left.start} + position % 2 * {layout.left_bytes};")
                writer.add(f"const int next = {layout.left.start} + (position + 1) % 2 * {layout.left_bytes};")
            else:
                writer.add(f"const int last = {layout.left.start}, next = last, reset = last + {layout.left_bytes};")
            if writer.delayed:
                with writer.block("if (position + 1 < T)"):
                    self._bring_delayed("(time + 1)", f"(position + 1) % 2 * {layout.left_bytes}")
                writer.add("end_group();")
            if self.given:
                after_next = f"time + {2 * writer.step}"
                writer.ask_ahead([writer.gates_of(self.code, after_next)], f"{after_next} >= 0 && {after_next} < T")
            self.kept: dict[str, str] = {}
            for number in range(len(self.outputs)):
                self._keep_for_later(number)
                with writer.block(""):
                    self._stage(number)
                if number + 1 == len(self.outputs):
                    self._fetch_given(f"(time + {writer.step})", "position + 1 < T")
                    if writer.delayed:
                        writer.add("await_groups<0>();")
                self._await(number)
        return writer.text()

    # ----------------------------------------------------------------------------------------------- before the loop

    def _start_given(self) -> None:
        """Sums from other components are asked for a step before they are needed."""
        external = sorted({gate for product in self.code.external for _, gate in product.pairs})
        self.given = {gate: f"given{gate}" for gate in external}
        for variable in self.given.values():
            self.writer.add(f"Vector<{TYPES[self.writer.itemsize]}> {variable}[M][2] = {{}};")
        self._fetch_given("0" if self.writer.step == 1 else "(T - 1)", "true")

    def _fetch_given(self, time: str, condition: str) -> None:
        with self.writer.block(f"if ({condition})"):
            for gate, variable in self.given.items():
                self.writer.fetch_again(variable, self.writer.place_of_gate(gate, time))

    def _bring_delayed(self, time: str, moved: str) -> None:
        """States of longer ago than a step are in memory, for a step at the latest."""
        for product, place in zip(self.writer.delayed, self.layout.delayed, strict=True):
            self.writer.bring(place, self.writer.value(product.part, product.edge.delay, time=time), moved)

    def _start_states(self) -> None:
        """What came before the first step: in registers what is taken over, in shared memory what is multiplied."""
        writer, name = self.writer, self.code.key[0]
        names = [each for each in taken_over(self.code) if writer.is_previous(each)]
        parts = list(dict.fromkeys(self.code.edge_read(each)[1] for each in names))
        self.previous = {part: f"previous{number}" for number, part in enumerate(parts)}
        for variable in self.previous.values():
            writer.add(f"float {variable}[M][N][4];")
        time = "0" if writer.step == 1 else "(T - 1)"
        for part in parts:
            text = writer.fetch(f"start_{part}", writer.value((name, part), writer.step, time=time))
            with writer.vectors(), writer.unrolled("u < U"):
                writer.add(f"{self.previous[part]}{SUM} = {text};")
        with writer.block("for (int program = 0; program < PROGRAMS; ++program)"):  # of all units
            writer.add("const int unit = program * SHARE + own_unit;")
            text = writer.fetch("start", writer.value((name, self.multiplied), writer.step, time=time))
            with writer.vectors():
                writer.add("float all[U];")
                with writer.unrolled("u < U"):
                    writer.add(f"all[u] = {text};")
                writer.store_shared(str(self.layout.left.start), self.layout.left.stride, "unit", "all")

    # ----------------------------------------------------------------------------------------------------- a step

    def _counter(self, number: int) -> tuple[str, str]:
        """For what a stage leaves to be multiplied: the counter in a cluster, and its phase."""
        if len(self.outputs) == 1:  # the buffers take turns, and with them the counters
            return self.writer.counter(self.layout, "((position + 1) % 2)"), "position / 2 % 2"
        return self.writer.counter(self.layout, "10"[number]), "position % 2"

    def _await(self, number: int) -> None:
        """Until what a stage leaves is there, of all threads, and of all programs of a cluster."""
        writer = self.writer
        if not writer.is_cluster:
            writer.add("__syncthreads();")
            return
        counter, phase = self._counter(number)
        writer.add(f"expect({counter}, ROWS * WIDTH * {writer.itemsize});", f"await_bytes({counter}, {phase});")

    def _keep_for_later(self, number: int) -> None:
        """Registers for what a second stage reads of the first."""
        later = names_read(self.outputs[1]) if number == 0 and len(self.outputs) == 2 else []
        for name in later:
            if name in self.outputs[0]:
                self.kept[name] = f"kept{len(self.kept)}"
                self.writer.add(f"float {self.kept[name]}[M][N][4];")

    def _stage(self, number: int) -> None:
        writer, code, fresh = self.writer, self.code, self.fresh[number]
        outputs = self.outputs[number]
        gates = code.program.gates
        inputs = self._inputs(number)
        self._start_sums(fresh, names_read(outputs))
        pairs, left = (writer.product.pairs, "last") if number == 0 else (writer.product.reset_pairs, "reset")
        matrix, *others = self.layout.matrices
        writer.multiply("sums", pairs, fresh, left, self.layout.left.stride, matrix)
        if number == 0:
            for product, place, matrix in zip(writer.delayed, self.layout.delayed, others, strict=True):
                now = f"{place.start} + position % 2 * {self.layout.left_bytes}"
                writer.multiply("sums", product.pairs, fresh, now, place.stride, matrix)
        # the sums hold the biases already: these would take registers while the formulas run
        inputs |= {name: "0.0f" for name in names_read(outputs) if name.startswith("bias ")}
        with writer.vectors():
            stored = {name: f"out{place}" for place, name in enumerate(outputs)}
            writer.add(f"float {', '.join(f'{variable}[U]' for variable in stored.values())};")
            with writer.unrolled("u < U"):
                writer.add(*(f"const float sum{gate} = sums[{place}]{SUM};" for place, gate in enumerate(fresh)))
                found = writer.formulas(outputs, inputs | {f"gate {gates[gate]}": f"sum{gate}" for gate in fresh})
                for name, text in found.items():
                    writer.add(f"{stored[name]}[u] = {text};")
                    if number == 0 and name in self.kept:
                        writer.add(f"{self.kept[name]}{SUM} = {text};")
                for part, variable in self.previous.items() if number + 1 == len(self.outputs) else ():
                    writer.add(f"{variable}{SUM} = {found[f'state {part}']};")
            for name, variable in stored.items():
                self._store(name, variable, number)

    def _inputs(self, number: int) -> dict[str, str]:
        """What formulas read beside the fresh gates: from registers, or asked for here, before the products."""
        writer = self.writer
        inputs: dict[str, str] = {}
        for name in names_read(self.outputs[number]):
            if writer.is_previous(name):
                inputs[name] = f"{self.previous[self.code.edge_read(name)[1]]}{SUM}"
            elif name in self.kept and number == 1:
                inputs[name] = f"{self.kept[name]}{SUM}"
            elif name.startswith(("carried ", "identity ", "depth")):
                inputs[name] = writer.fetch(f"in{len(inputs)}", writer.place_of(self.code, name))
        return inputs

    def _start_sums(self, fresh: Sequence[int], read: Sequence[str]) -> None:
        """Sums begin with the bias, and with what products from other components gave."""
        writer, all_gates = self.writer, self.code.num_gates * self.width
        writer.add(f"float sums[{len(fresh)}][M][N][4] = {{}};")
        for place, gate in enumerate(fresh):
            texts: list[str] = []
            if f"bias {self.code.program.gates[gate]}" in read:
                start = f"member * {all_gates} + {gate * self.width} + unit"
                array = writer.array("bias", self.code.bias)
                writer.add(f"const Vector<float> bias{gate} = load_vector((const float *){array} + {start});")
                texts.append(f"bias{gate}.x[u]")
            if gate in self.given:
                texts.append(f"number({self.given[gate]}[m][half], u)")
            if texts:
                with writer.vectors(), writer.unrolled("u < U"):
                    writer.add(f"sums[{place}]{SUM} = {' + '.join(texts)};")

    def _store(self, name: str, variable: str, number: int) -> None:
        writer, stride = self.writer, self.layout.left.stride
        place = {f"state {self.multiplied}": "next", "reset": "reset"}.get(name)
        if place and writer.is_cluster:
            writer.send(place, stride, self._counter(number)[0], variable)
        elif place:
            writer.store_shared(place, stride, "unit", variable)
        if not (name.startswith("gate ") and self.code.gate_is_state):  # then the state is stored, and is enough
            writer.store(writer.place_of(self.code, name), variable)
