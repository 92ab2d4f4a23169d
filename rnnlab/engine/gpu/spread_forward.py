"""The forward kernel of a component that is spread over the GPU."""

from collections.abc import Sequence

from rnnlab.engine.gpu.compiled import Argument, KernelText
from rnnlab.engine.gpu.cuda_writer import Rows
from rnnlab.engine.gpu.formulas import CUDA, names_read, write_formulas
from rnnlab.engine.gpu.spread import Segment, Stage, first_sums, gathering_parts
from rnnlab.engine.gpu.spread_node import Source, SpreadNode, SpreadWriter
from rnnlab.engine.nodes import NodeCode, Part


def spread_forward(writer: SpreadWriter) -> KernelText:
    """The kernel: a branch for each node."""
    for code in writer.spread.codes:
        _Forward(writer, code).write()
    return writer.text()


class _Forward(SpreadNode):
    def __init__(self, writer: SpreadWriter, code: NodeCode) -> None:
        super().__init__(writer, code, backward=False)
        program = code.program
        self.outputs = [program.forward] if program.early is None else [program.early, program.forward]
        self.late = code.late_gates
        self.sums = [first_sums(code), self.late]  # the gates whose sums each stage makes

    def write(self) -> None:
        with self.branch():
            self.biases = self.load_biases({name: each for outputs in self.outputs for name, each in outputs.items()})
            self._start_previous()
            with self.moments():
                self.inputs: dict[str, str] = dict(self.biases)
                self._load_known()
                self.bring_nearer(self._told())
                for number, stage in enumerate(self.stages):
                    self.products(stage, {each: self._source(each, number) for each in stage.segments})
                    if number == 0:
                        self._load_awaited()
                    self._compute(number, stage)

    # ------------------------------------------------------------------------------------------- what formulas read

    def _taken_over(self) -> list[str]:
        """Names of states that formulas take as they are."""
        read = dict.fromkeys(name for outputs in self.outputs for name in names_read(outputs))
        return [name for name in read if name.startswith(("carried ", "identity ", "depth"))]

    def _is_previous(self, name: str) -> bool:
        is_projected = name == "depth" and self.code.depth_product.has_projection
        return not is_projected and self.is_previous(self.edge_of(name)[0])

    def _is_awaited(self, name: str) -> bool:
        """Whether another program computes it in this kernel."""
        edge, _ = self.edge_of(name)
        return self.is_internal(edge) and edge.source != self.code.key

    def _start_previous(self) -> None:
        """The states that stay in registers, before the first moment."""
        number = "0" if self.is_rising else "(count - 1)"
        self.previous: dict[str, str] = {}  # variables by part
        for name in filter(self._is_previous, self._taken_over()):
            edge, part = self.edge_of(name)
            if part in self.previous:
                continue
            variable = self.previous[part] = f"previous{len(self.previous)}"
            time = f"(start + {number} * {self.writer.period})"
            rows = self.writer.value((edge.source[0], part), edge.delay, time=time)
            self.writer.add(f"float {variable}[NUM];")
            with self.elements():
                self.writer.add(f"{variable}[e] = {self.load(rows)};")

    def _load_known(self) -> None:
        """What is there already is asked for before waiting for others."""
        for name in self._taken_over():
            if self._is_previous(name):
                self.inputs[name] = f"{self.previous[self.edge_of(name)[1]]}[e]"
            elif not self._is_awaited(name):
                self._load(name)
        external = {gate for product in self.code.external for _, gate in product.pairs}
        gates = self.gates_of(self.code)
        self.given = {
            gate: self.fetch(f"given{gate}", gates._replace(column=gate * self.width)) for gate in sorted(external)
        }

    def _load_awaited(self) -> None:
        for name in self._taken_over():
            if not self._is_previous(name) and self._is_awaited(name):
                edge, part = self.edge_of(name)
                owner = next(code for code in self.writer.spread.codes if code.key == edge.source)
                variable, argument = f"i{len(self.inputs)}", Argument("values", (edge.source[0], part))
                self.await_numbers(variable, argument, owner, self.place_of(name), f"time - {edge.delay}")
                self.inputs[name] = f"{variable}[e]"

    def _load(self, name: str) -> None:
        self.inputs[name] = self.fetch(f"i{len(self.inputs)}", self.place_of(name))

    # ------------------------------------------------------------------------------------------------------ products

    def _told(self) -> list[Rows]:
        """Where the node will tell of what products multiply."""
        parts = [(self.code.key[0], part) for part in gathering_parts(self.writer.spread.codes, self.code)]
        found = [self.writer.value(part, 0, self._kind(part), "next") for part in parts]
        if self.code.program.early is not None:
            found.append(self.writer.per_time("reset", self.code.key, self.width, self.writer.itemsize, "next"))
        return found

    def _kind(self, part: Part) -> str:
        return "values" if self.writer.storage[part] == self.writer.itemsize else "factor"

    def _source(self, segment: Segment, number: int) -> Source:
        if number == 1:  # the second product multiplies what all programs of the node have just told of
            rows = self.writer.per_time("reset", self.code.key, self.width, self.writer.itemsize)
            return self.source(Argument("reset", self.code.key), self.code, rows, "time")
        part, delay = segment.product.part, segment.product.edge.delay
        rows = self.writer.value(part, delay, self._kind(part))
        return self.source(Argument(self._kind(part), part), segment.owner, rows, f"time - {delay}")

    # ------------------------------------------------------------------------------------------------------ formulas

    def _compute(self, number: int, stage: Stage) -> None:
        """Formulas over the fresh sums; what a second stage reads of the first stays in registers."""
        outputs, gates = self.outputs[number], self.code.program.gates
        waiting = [gate for gate in self.sums[number] if number == 0 and gate in self.late]
        for gate in waiting:
            self.writer.add(f"float waiting{gate}[NUM];")
        later = self._read_later(number)
        kept = {name: f"kept{len(self.inputs) + place}" for place, name in enumerate(later)}
        for variable in kept.values():
            self.writer.add(f"float {variable}[NUM];")
        with self.elements():
            for place, gate in enumerate(self.sums[number]):
                given = f" + {self.given[gate]}" if gate in self.given else ""
                self.writer.add(f"const float sum{gate} = {self.sum_of(stage, place)}{given};")
            self.writer.add(*(f"waiting{gate}[e] = sum{gate};" for gate in waiting))
            inputs = self.inputs | {f"gate {gates[gate]}": f"sum{gate}" for gate in self.sums[number]}
            lines, found = write_formulas(outputs, inputs, self.code.nonlinearity, CUDA)
            self.writer.add(*lines)
            for name in sorted(found, key=lambda name: name.startswith("gate ")):  # what others wait for comes first
                self._store(name, found[name])
                if name in kept:
                    self.writer.add(f"{kept[name]}[e] = {found[name]};")
            if number + 1 == len(self.stages):
                for part, variable in self.previous.items():
                    self.writer.add(f"{variable}[e] = {found[f'state {part}']};")
        self.inputs |= {name: f"{variable}[e]" for name, variable in kept.items()}
        self.given |= {gate: f"waiting{gate}[e]" for gate in waiting}

    def _read_later(self, number: int) -> Sequence[str]:
        if number + 1 == len(self.outputs):
            return ()
        return [name for name in names_read(self.outputs[number + 1]) if name in self.outputs[number]]

    def _store(self, name: str, text: str) -> None:
        if name.startswith("gate "):
            if not self.code.gate_is_state:  # then the state is stored, and is enough
                self.store(self.place_of(name), text)
            return
        part = (self.code.key[0], name.removeprefix("state "))
        if name.startswith("state ") and part in self.writer.factors:
            self.tell(self.writer.value(part, 0, "factor"), text)
        self.tell(self.place_of(name), text)
