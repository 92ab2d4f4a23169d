"""What one node adds to the backward kernel of resident nodes: what a moment of it reads, computes and multiplies."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rnnlab.architecture.expressions import Expression
from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.gpu.cuda_writer import Rows
from rnnlab.engine.gpu.formulas import names_read
from rnnlab.engine.gpu.layout import padded
from rnnlab.engine.gpu.resident import Place, Reader, kept_as_passed, taken_over
from rnnlab.engine.gpu.resident_writer import SUM
from rnnlab.engine.nodes import NodeCode, Pairs, Product, passed_by, runs

if TYPE_CHECKING:
    from rnnlab.engine.gpu.resident_backward import BackwardKernel


class _Read(NamedTuple):
    """What formulas read: variables by name, and by part those of gradients in memory and of read-outs' gradients.

    And those that other components of a relay hand back, by the edge.
    """

    names: dict[str, str]
    given: dict[str, str]
    read_outs: dict[str, str]
    handed_back: dict[EdgeSpec, str]


class BackwardNode:
    """What one node adds to the kernel."""

    def __init__(self, kernel: "BackwardKernel", number: int, code: NodeCode) -> None:
        self.kernel, self.code, self.writer, self.layout = kernel, code, kernel.writer, kernel.layout
        self.number, self.passed = number, passed_by(code)
        self.late = code.late_gates
        own = [product for product in code.internal if kernel.resident.age(product.edge) <= 1]
        self.products = [product for product in own if product.pairs]
        self.handed = [product for each, product in kernel.resident.handed if each is code]
        # handed back is the product of the same gates as the last of the node's own: the two are made together
        alike = [each for each in self.handed if self.products and each.pairs == self.products[-1].pairs]
        self.together = alike[0] if alike and self.layout.sends_gates else None
        self.takers = {each.edge: each.part[1] for each in kernel.takers if each.edge.source == code.key}

    def start(self) -> None:
        """Lines before the loop: what the node's first moment here reads."""
        writer, period = self.writer, self.writer.period
        if not self.kernel.is_ahead:
            return
        self._declare(self._read)
        first = "T - 1" if writer.step == 1 else "0"
        if period > 1:
            first += f" - ((a.first_step + T - 1 - {self.code.key[1]}) % {period} + {period}) % {period}"
        with writer.block(""):
            writer.add(f"const int next = (int)({first});")
            self._in_next(self._ask, self._read_out)

    def write(self) -> None:
        """Lines for a moment of the node."""
        writer, program, is_ahead = self.writer, self.code.program, self.kernel.is_ahead
        distance = writer.step * writer.period
        near = f"time - {(1 + is_ahead) * distance}"
        writer.ask_ahead(self._read_places(near), f"{near} >= 0 && {near} < T")
        writer.add(f"const int next = time - {distance};")
        if program.late is not None:
            self._late(program.late)
        with writer.block(""):
            self._moment(program.backward)
        if self is self.kernel.nodes[-1]:  # the first node of a moment: others may now be told of the moment before
            if not self.layout.sends_gates and self.handed:
                with writer.block("if (position)"):
                    self._hear_handed_back(self.handed[-1], f"(time + {writer.step})")
            writer.meet_teller()
        self._in_next(partial(self._ask, looked="position + 1"))
        if self.products:
            self._sent([gate for gate in range(self.code.num_gates) if gate not in self.late], self._read_out)
        for product in self.products:
            age = self.kernel.resident.age(product.edge)
            with writer.block(""):
                is_last = product is self.products[-1]
                self._multiply(self.kernel.gradient(product.part, age), product.name, product.pairs, is_last=is_last)
        for product in self.handed if self.layout.sends_gates else ():
            if product is not self.together:
                with writer.block(""):
                    self._hand_back(product)
        if not (self.products and writer.is_cluster):  # where it is done while others are waited for
            self._in_next(self._read_out)
        if (self.products or self.late) and not writer.is_cluster:
            writer.add("meet_group();")

    def end(self) -> None:
        """Lines after the loop: what the last moment hands back is still on its way."""
        if self.handed and not self.layout.sends_gates:
            with self.writer.block(""):
                self._hear_handed_back(self.handed[-1], "0" if self.writer.step == 1 else "(T - 1)")

    def _sent(self, gates: Sequence[int], *meanwhile: Callable[["_Read"], None]) -> None:
        """Lines after which the gradients of gates are where products find them."""
        writer = self.writer
        if not self.layout.sends_gates:
            if writer.leg is None:  # in a relay they have just met
                writer.add("meet_group();")
            return
        if meanwhile:
            self._in_next(*meanwhile)
        writer.hear(self.layout, str(len(gates) * self.layout.gates_bytes // self.kernel.resident.most_gates))

    # ------------------------------------------------------------------------------------------- what a moment reads

    @cached_property
    def _read(self) -> "_Read":
        """All that a moment reads."""
        program = self.code.program
        return self._read_by({**(program.late or {}), **program.backward})

    def _read_by(self, outputs: Mapping[str, Expression]) -> "_Read":
        """What formulas read."""
        code, read, number = self.code, names_read(outputs), self.number
        names = [name for name in read if not name.startswith("d ")]
        parts = [part for part in code.parts if f"d state {part}" in read]
        return _Read(
            {name: f"in{number}_{place}" for place, name in enumerate(names)},
            {
                part: f"given{number}_{code.parts.index(part)}"
                for part in parts
                if (code.key[0], part) in self.kernel.given
            },
            {part: f"of_outputs{number}_{code.parts.index(part)}" for part in parts if self._readers(part)},
            {edge: f"back{number}_{place}" for place, (edge, part) in enumerate(self.takers.items()) if part in parts},
        )

    def _readers(self, part: str) -> list[tuple[Reader, Place]]:
        """Read-outs of a part of its state, and where their matrices lie."""
        of = (self.code.key, (self.code.key[0], part))
        pairs = zip(self.kernel.readers, self.layout.readers, strict=True)
        return [(reader, place) for reader, place in pairs if (reader[1].edge.source, reader[1].part) == of]

    def _declare(self, read: "_Read") -> None:
        writer = self.writer
        for name, variable in read.names.items():
            writer.add(f"Vector<{writer.place_of(self.code, name).type}> {variable}[M][2] = {{}};")
        in_memory = [*read.given.values(), *read.handed_back.values()]
        writer.add(*(f"Vector<float> {variable}[M][2] = {{}};" for variable in in_memory))
        writer.add(*(f"float {variable}[M][N][4] = {{}};" for variable in read.read_outs.values()))

    def _ask(self, read: "_Read", looked: str | None = None) -> None:
        """Lines that ask for what the forward pass left, and for gradients that lie in memory.

        Those that others hand back are waited for, if they were not there when the telling warp `looked`.
        """
        writer = self.writer
        for name, variable in read.names.items():
            writer.fetch_again(variable, writer.place_of(self.code, name))
        for part, variable in read.given.items():
            writer.fetch_again(variable, writer.value((self.code.key[0], part), 0, "dvalues"))
        for edge, variable in read.handed_back.items():
            writer.wait_for(self.layout, edge, "T - time", looked, backward=True)
            writer.fetch_again(variable, writer.per_time("handed", edge, writer.width, 4))

    def _read_out(self, read: "_Read") -> None:
        """Lines that multiply the gradients of read-outs."""
        writer = self.writer
        for part, variable in read.read_outs.items():
            with writer.vectors(), writer.unrolled("u < U"):
                writer.add(f"{variable}{SUM} = 0.0f;")
            for (reader, _), place in self._readers(part):
                rows = writer.per_time("gates", reader.key, padded(reader.units), writer.itemsize)
                writer.add(
                    f"multiply_memory({variable}, (const char *){rows.pointer} + top * {rows.row_bytes}, "
                    f"{rows.row_bytes}, num_live - top, "
                    f"address_of(shared) + {place.start} + first_column * {place.stride}, {place.stride}, "
                    f"{padded(reader.units) * writer.itemsize} / STEP);"
                )

    def _in_next(self, *writes: Callable[["_Read"], None]) -> None:
        """Lines that read ahead for the node's next moment, if there is one."""
        if self.kernel.is_ahead:
            with self.writer.block("if (next >= 0 && next < T)"):
                self.writer.add("const int time = next;")
                for write in writes:
                    write(self._read)

    def _inputs(self, outputs: Mapping[str, Expression]) -> dict[str, str]:
        """Lines for what formulas read; texts of a number by name."""
        read = self._read
        if not self.kernel.is_ahead:
            read = self._read_by(outputs)
            for write in (self._declare, self._ask, self._read_out):
                write(read)
        found = {name: f"number({variable}[m][half], u)" for name, variable in read.names.items()}
        for part in self.code.parts:
            if f"d state {part}" in names_read(outputs):
                found[f"d state {part}"] = self._arriving(part, read)
        return found

    def _arriving(self, part: str, read: "_Read") -> str:
        """Lines for the gradient of a part of the new state; text of a number."""
        writer, kernel, full = self.writer, self.kernel, (self.code.key[0], part)
        name, added = f"arriving{self.code.parts.index(part)}", list[str]()
        if full in kernel.resident.kept:
            added.append(f"{kernel.gradient(full, 0)}{SUM}")
        if part in read.given:
            added.append(f"number({read.given[part]}[m][half], u)")
        if part in read.read_outs:
            added.append(f"{read.read_outs[part]}{SUM}")
        added += [f"number({read.handed_back[edge]}[m][half], u)" for edge, of in self.takers.items() if of == part]
        writer.add(f"float {name}[M][N][4];")
        with writer.vectors(), writer.unrolled("u < U"):
            writer.add(f"{name}{SUM} = {' + '.join(added) or '0.0f'};")
        return f"{name}{SUM}"

    # ------------------------------------------------------------------------------------------ gradients of the state

    def _multiply(self, target: str, name: str, pairs: Pairs, *, is_last: bool = False, is_late: bool = False) -> None:
        """Lines that add the gradients of its gates times a matrix; in a cluster, those of all programs."""
        writer, layout = self.writer, self.layout
        matrix = layout.matrices[name]
        if layout.sends_gates:
            self._multiply_sent(target, matrix, pairs, self.together if is_last else None, is_late=is_late)
            return
        if not writer.is_cluster:
            self.kernel.multiply(f"(float (&)[1][M][N][4]){target}", pairs, layout.gates, matrix)
            return
        writer.add("float parts[PROGRAMS][M][N][4] = {};")
        self.kernel.multiply("parts", pairs, layout.gates, matrix, self._own_gates)
        self._send_parts("parts")
        if is_last:
            self._in_next(self._read_out)
            if self.handed:
                self._multiply_handed_back(self.handed[0])
        self._hear_parts(target)
        if is_last:
            self._hand_back_sums()

    # ------------------------------------------------------------- sums that the programs of a cluster send one another

    @property
    def _own_gates(self) -> str:
        """How far the gates of the present moment lie from the first place for a program's own."""
        layout = self.layout
        return f"position % {layout.num_buffers} * {layout.gates_bytes}" if layout.num_buffers > 1 else "0"

    @property
    def _parts(self) -> str:
        """Where the sums of an exchange come, from all programs: two places take turns."""
        return f"{self.layout.parts} + turn % 2 * {self.layout.parts_bytes}"

    def _send_parts(self, parts: str) -> None:
        self.writer.add(f"send_parts(address_of(shared) + {self._parts}, {parts}, {self.writer.counter(self.layout)});")

    def _hear_parts(self, target: str) -> None:
        self.writer.add(f"const int place = {self._parts};")
        self.writer.hear(self.layout, str(self.layout.parts_bytes))
        self.writer.add(f"add_parts({target}, shared + place);")

    def _multiply_handed_back(self, product: Product) -> None:
        """Lines for a program's part of what is handed back."""
        self.writer.add("float back[PROGRAMS][M][N][4] = {};")
        matrix = self.layout.matrices[product.name]
        self.kernel.multiply("back", product.pairs, self.layout.gates, matrix, self._own_gates)

    def _hand_back_sums(self) -> None:
        """Lines that send the parts of what is handed back; the last ones come while the next moment computes."""
        if self.handed:  # the first was multiplied while the node's own sums were on their way
            self._send_parts("back")
        for before, product in pairwise(self.handed):
            with self.writer.block(""):
                self._hear_handed_back(before, "time")
            with self.writer.block(""):
                self._multiply_handed_back(product)
                self._send_parts("back")

    def _hear_handed_back(self, product: Product, time: str) -> None:
        """Lines for what a moment hands back, when its parts have come."""
        self.writer.add("float back[M][N][4] = {};")
        self._hear_parts("back")
        self._store_handed(product, "back", time)

    # ---------------------------------------------------------------------------------------------- gates that are sent

    def _multiply_sent(
        self, target: str, matrix: Place, pairs: Pairs, together: Product | None = None, *, is_late: bool
    ) -> None:
        """The same where all programs have the gradients of all gates.

        Two products that are made together take little longer than one, which mostly waits for its own sums.
        """
        writer, gates = self.writer, self.layout.gates
        count, distance, sums = 1, 0, f"(float (&)[1][M][N][4]){target}"
        if together is not None:
            writer.add("float sums[2][M][N][4] = {};")
            count, distance, sums = 2, self.layout.matrices[together.name].start - matrix.start, "sums"
        for were_before in (False, True):  # late gates were sent before the others
            some = tuple(pair for pair in pairs if were_before == (pair[1] in self.late and not is_late))
            buffer = self._buffer(1 + were_before)
            for mine, theirs in runs(some, writer.width):
                first_gate, depth = theirs.start // writer.width, (theirs.stop - theirs.start) * writer.itemsize
                left = f"{gates.start + first_gate * self.gate_bytes} + {buffer} + top * {gates.stride}"
                right = f"{matrix.start + mine.start * writer.itemsize} + first_column * {matrix.stride}"
                writer.add(
                    f"multiply_all<{count}, true>({sums}, address_of(shared) + {left}, {gates.stride}, "
                    f"address_of(shared) + {right}, {matrix.stride}, {distance}, {depth});"
                )
        if together is not None:
            with writer.vectors(), writer.unrolled("u < U"):
                writer.add(f"{target}{SUM} += sums[0]{SUM};")
            self._store_handed(together, "sums[1]")

    def _hand_back(self, product: Product) -> None:
        """Lines for the gradient of what another leg of a relay handed on: each program has that of its own units."""
        self.writer.add("float back[M][N][4] = {};")
        self._multiply_sent("back", self.layout.matrices[product.name], product.pairs, is_late=False)
        self._store_handed(product, "back")

    def _store_handed(self, product: Product, sums: str, time: str = "time") -> None:
        writer = self.writer
        with writer.vectors():
            writer.add("float all[U];")
            with writer.unrolled("u < U"):
                writer.add(f"all[u] = {sums}{SUM};")
            writer.store(writer.per_time("handed", product.edge, writer.width, 4, time), "all")

    def _buffer(self, ago: int) -> str:
        """Where gates lie that were sent so many exchanges ago."""
        count = self.layout.num_buffers
        return f"(turn + {count - ago}) % {count} * {self.layout.gates_bytes}"

    @property
    def gate_bytes(self) -> int:
        """From a gate's tiles of 16 rows to those of the next."""
        return self.writer.width * self.writer.itemsize * 16

    # -------------------------------------------------------------------------------------------------- the node itself

    def _read_places(self, time: str) -> list[Rows]:
        """What a moment reads: gates, its own state, and states that it took over."""
        writer, code = self.writer, self.code
        read = names_read(code.program.backward)
        found = [] if code.gate_is_state else [writer.gates_of(code, time)]
        values = [((code.key[0], name.removeprefix("state ")), 0) for name in read if name.startswith("state ")]
        values += [((code.key[0], code.first_part), 0)] if code.gate_is_state else []
        taken = taken_over(code)
        values += [
            ((taken[name].source[0], code.edge_read(name)[1]), taken[name].delay) for name in read if name in taken
        ]
        # what was read a step ago of one's own state is the state there, and near already
        own = {part for part, delay in values if delay == 0}
        values = [(part, delay) for part, delay in values if delay != writer.step or part not in own]
        return found + [writer.value(part, delay, time=time) for part, delay in dict.fromkeys(values)]

    def _late(self, outputs: Mapping[str, Expression]) -> None:
        """The gates of the second product come first; the gradient of what it multiplied follows, and stays."""
        writer = self.writer
        writer.add("float dreset[M][N][4] = {};")
        with writer.block(""):
            inputs = self._inputs(outputs)
            self._gates(outputs, inputs, list(outputs), is_in_memory=False)
        self._sent(self.late)
        for product in self.code.internal:
            if product.reset_pairs:
                with writer.block(""):
                    self._multiply("dreset", product.name, product.reset_pairs, is_late=True)

    def _moment(self, outputs: Mapping[str, Expression]) -> None:
        inputs = self._inputs(outputs) | {"d reset": f"dreset{SUM}"}
        names = [name for name in outputs if name.startswith("d gate ")]
        self._gates(outputs, inputs, names, is_in_memory=True)

    def _gates(
        self, outputs: Mapping[str, Expression], inputs: Mapping[str, str], names: Sequence[str], *, is_in_memory: bool
    ) -> None:
        """Lines that compute gradients of gates and of all else, and put them where they belong."""
        writer, layout = self.writer, self.layout
        gates = {self.code.program.gates.index(name.removeprefix("d gate ")): name for name in names}
        # others read late gates since these were there
        multiplied = {gate: name for gate, name in gates.items() if is_in_memory != (gate in self.late)}
        places: dict[str, Rows] = {}
        if is_in_memory:
            places = {
                name: writer.place_of_gate(self.code, gate) for gate, name in gates.items()
            } | self._passed_places()
        stored = {name: f"out{place}[m][half]" for place, name in enumerate({**dict.fromkeys(names), **places})}
        writer.add(f"float {', '.join(f'out{place}[M][2][U]' for place in range(len(stored)))};")
        with writer.vectors():
            with writer.unrolled("u < U"):
                found = writer.formulas(self.code, outputs, inputs)
                for name, variable in stored.items():
                    writer.add(f"{variable}[u] = {found[name]};")
                if is_in_memory:
                    self._keep_passed(found)
            if not layout.sends_gates:
                for gate, name in multiplied.items():
                    column = f"own_unit + {gate * writer.share}"
                    start = f"{layout.gates.start} + {self._own_gates}"
                    writer.store_shared(start, layout.gates.stride, column, stored[name])
                self._store(places, stored)
        if layout.sends_gates:  # where others wait, they come first
            for gate, name in multiplied.items() if self.products or not is_in_memory else ():
                start = f"{layout.gates.start + gate * self.gate_bytes} + {self._buffer(0)}"
                writer.send(start, layout.gates.stride, writer.counter(layout), stored[name])
            with writer.vectors():
                self._store(places, stored)

    def _store(self, places: Mapping[str, Rows], stored: Mapping[str, str]) -> None:
        """Lines that store a row's results."""
        for name, rows in places.items():
            self.writer.store(rows, stored[name])

    def _passed_places(self) -> dict[str, Rows]:
        """Where gradients of what formulas take over as it is go, if not to registers."""
        writer, kernel, code = self.writer, self.kernel, self.code
        found: dict[str, Rows] = {}
        for each in self.passed:
            if each.source in kernel.wanted and not kept_as_passed(each, kernel.resident):
                found[f"d {each.name}"] = writer.per_time("passed", (code.key, each.name), writer.width, 4)
        if "d depth" in code.program.backward and code.depth_product.has_projection:
            found["d depth"] = writer.per_time("dprojected", code.depth_product.edge, writer.width, 4)
        return found

    def _keep_passed(self, found: Mapping[str, str]) -> None:
        """What has arrived is used; what the formulas pass back begins the gradients of what they took over."""
        kernel, resident = self.kernel, self.kernel.resident
        for part in self.code.parts:
            if (self.code.key[0], part) in resident.kept:
                self.writer.add(f"{kernel.gradient((self.code.key[0], part), 0)}{SUM} = 0.0f;")
        for each in self.passed:
            if kept_as_passed(each, resident):
                target = kernel.gradient(each.source, resident.age(each.edge))
                self.writer.add(f"{target}{SUM} += {found[f'd {each.name}']};")
