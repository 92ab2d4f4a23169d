"""The backward pass on the GPU: components in reverse, each followed by the gradients of its parameters.

`autograd.py` calls it with the arrays that the forward pass (`launch.py`) left. The kernel of a component computes the
gradients of its gates and states; gradients of matrices are large products over all times, made by torch afterwards.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from rnnlab.architecture.expressions import Expression, evaluate
from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.gpu.arrays import GpuArrays
from rnnlab.engine.gpu.compiled import Argument
from rnnlab.engine.gpu.formulas import names_read
from rnnlab.engine.gpu.hoisted import functions, operands
from rnnlab.engine.gpu.kernels import Gradients
from rnnlab.engine.gpu.launch import forward_arguments, launch_general, launch_relay, launch_resident, launch_spread
from rnnlab.engine.gpu.layout import padded
from rnnlab.engine.gpu.memory_bound import put_padded
from rnnlab.engine.gpu.products import add_product, flat, multiplying, product, product_into, summed
from rnnlab.engine.nodes import NodeCode, Pairs, Part, Product, passed_by, runs
from rnnlab.graph.elements import NodeKey

# Up to this size of a vocabulary, the gradient of a matrix whose rows tokens choose is a product with one-hot vectors,
# which are no larger than what they are multiplied by. For larger vocabularies tokens are sorted, which launches twenty
# kernels, however few tokens there are.
FEW_TOKENS = 128


class GpuBackward:
    """Takes gradients of the outputs and the final state back to parameters, inputs and the state before the sequence.

    Args:
        arrays: what the forward pass left. Gradients of gates take the place of the gates.
        with_inputs: whether the inputs need gradients.
    """

    def __init__(self, arrays: GpuArrays, *, with_inputs: bool) -> None:
        self.arrays, self.program, self.plan = arrays, arrays.program, arrays.plan
        self.dvalues: dict[Part, Tensor] = {}  # [P, K + T + L, B, N] in float32, made when the first gradient arrives
        self.final: dict[Part, Tensor] = {}  # of the final state, [P, 1, B, N], for kernels that take them separately
        self.before: dict[Part, Tensor] = {}  # of values before the sequence, if a kernel leaves them, [P, K, B, N]
        self.passed: dict[tuple[NodeKey, str], Tensor] = {}  # what formulas pass back unmultiplied, through memory
        self.dgates: dict[NodeKey, Tensor] = {}  # gradients of gates that a kernel does not leave in their place
        self.dprojected: dict[EdgeSpec, Tensor] = {}
        self.handed: dict[EdgeSpec, Tensor] = {}  # what the legs of a relay hand back to one another
        self.arrived: dict[str, Tensor] = {}  # gradients of outputs that nothing reads, as they came
        # edges over which the kernels of cyclic components take gradients back themselves
        self.fused = {
            product.edge for number in range(len(self.plan.components)) for _, product in self.program.readers(number)
        } | self.program.handed
        self.wanted = frozenset(part for part in arrays.values if self._is_wanted(part, with_inputs))

    def _is_wanted(self, part: Part, with_inputs: bool) -> bool:
        arrays = self.arrays
        is_passed_on = bool(self.plan.histories.get(part)) and arrays.state is not None
        return part[0] not in self.program.tokens and (part[0] not in arrays.inputs or with_inputs or is_passed_on)

    def backward(self, doutputs: Mapping[str, Tensor], dfinal: Mapping[Part, Tensor]) -> dict[str, Tensor]:
        """Run the backward pass; returns the gradients of the parameters by name.

        `input_gradients` and `state_gradients` give the others afterwards.

        Args:
            doutputs: gradients of the outputs by name, [P, T, B, N].
            dfinal: gradients of the parts of the final state that have any, [P, K, B, N].
        """
        arrays = self.arrays
        for name, gradient in doutputs.items():
            if name in self.program.unread:  # they are those of its only gate, which nothing adds to
                self.arrived[name] = gradient
            else:
                put_padded(self._begun((name, "")), gradient)
        for part, gradient in dfinal.items():
            if part in self.wanted:
                self._add_final(part, gradient)
        for edge, values in arrays.projected.items():
            self.dprojected[edge] = torch.zeros_like(values)
        gradients: dict[str, Tensor] = {}
        with multiplying(self.program.precision):
            for number in reversed(range(len(self.plan.components))):
                self._component(number, gradients)
            self._initial_gradients(gradients)
        return gradients

    def _component(self, number: int, gradients: dict[str, Tensor]) -> None:
        codes = self.program.codes_of(self.plan.components[number])
        match self.program.kind(number):
            case "hoisted":
                if codes:
                    self._hoisted(codes[0])
            case "spread":
                self._spread(number, codes)
            case "relay":
                legs = self.program.relay_of[number]
                if number == legs[-1]:  # one launch for all legs
                    launch_relay(self.arrays, legs, self._arguments(), tuple(map(self._arrived, legs)))
                self._passed_out(codes)
            case "resident":
                self._cuda(launch_resident, number, codes)
            case "general":
                for part in ((code.key[0], part) for code in codes for part in code.parts):
                    self._gradient(part)
                launch_general(self.arrays, number, self._arguments(), self.wanted)
        for code in codes:
            dgates = self.arrays.gates[code.key][:, : len(self.arrays.times(code.key))]
            self._external(code, dgates)
            self._parameters(code, dgates, gradients)

    def _spread(self, number: int, codes: list[NodeCode]) -> None:
        self._cuda(launch_spread, number, codes)
        self.arrays.gates |= self.dgates  # the gates themselves are not needed any longer
        self.dgates.clear()

    def _cuda(self, launch_kernel: Callable[..., None], number: int, codes: list[NodeCode]) -> None:
        """Run a component that has a kernel of its own in CUDA C++."""
        self.passed.clear()
        launch_kernel(self.arrays, number, self._arguments(), self._arrived(number))
        self._passed_out(codes)

    def _arrived(self, number: int) -> Gradients:
        """The wanted parts; the component's parts with gradients at all times so far; those with a final gradient."""
        codes = self.program.codes_of(self.plan.components[number])
        parts = frozenset((code.key[0], part) for code in codes for part in code.parts)
        return self.wanted, parts & frozenset(self.dvalues), parts & frozenset(self.final)

    def _passed_out(self, codes: Sequence[NodeCode]) -> None:
        """Add what formulas of a component pass back, unmultiplied, to other components."""
        for each in (each for code in codes for each in passed_by(code)):
            if self.plan.is_internal(each.edge) or each.source not in self.wanted:
                continue
            change = self.passed[each.reader.key, each.name][:, : len(self.arrays.times(each.reader.key))]
            if self._is_first(each.source, each.edge):
                self._begun(each.source).copy_(change)
            else:
                self._gradient_at(each.source, each.edge.delay, each.reader.key).add_(change)

    def input_gradients(self) -> dict[str, Tensor]:
        """The gradients of the inputs by name, [P, T, B, N]."""
        found = {name: (name, "") for name in self.arrays.inputs if (name, "") in self.wanted}
        return {name: self._own(part, 0, self.arrays.T) for name, part in found.items()}

    def state_gradients(self) -> dict[Part, Tensor]:
        """The gradients of the state before the sequence, [P, K, B, N]."""
        kept = {part: depth for part, depth in self.plan.histories.items() if depth and part in self.wanted}
        return {part: self._own(part, -depth, 0) for part, depth in kept.items()}

    def _own(self, part: Part, start: int, stop: int) -> Tensor:
        if part in self.before:  # a kernel has left these in an array of their own
            rows = self._before(part, start, stop)
            if part in self.dvalues:
                rows = rows + self.arrays.rows(self.dvalues, part, start, stop)
        else:
            rows = self.arrays.rows({part: self._gradient(part)}, part, start, stop)
        return rows[..., : self.program.state[part]]

    def _before(self, part: Part, start: int, stop: int) -> Tensor:
        """Gradients of times before the sequence that a kernel has left; zeros for times that it has not."""
        rows = self.before[part]
        first = -rows.shape[1]
        if (start, stop) == (first, 0):
            return rows
        found = torch.zeros(self.arrays.P, stop - start, *rows.shape[2:], device=self.arrays.device)
        from_, to = max(start, first), min(stop, 0)
        if from_ < to:
            found[:, from_ - start : to - start] = rows[:, from_ - first : to - first]
        return found

    # --------------------------------------------------------------------------------------------- gradients of states

    def _shape(self, part: Part) -> tuple[int, ...]:
        return (self.arrays.P, *self.arrays.values[part].shape[1:])

    def _gradient(self, part: Part) -> Tensor:
        """The gradients of a part at all times; a new array begins as zeros."""
        if part not in self.dvalues:
            self.dvalues[part] = torch.zeros(self._shape(part), device=self.arrays.device)
        return self.dvalues[part]

    def _is_first(self, part: Part, edge: EdgeSpec) -> bool:
        """Whether what comes back over an edge is the first gradient of a part and covers all times of the sequence."""
        return part not in self.dvalues and edge.delay == 0 and self.program.architecture.period == 1

    def _begun(self, part: Part) -> Tensor:
        """A new array of a part's gradients: its rows within the sequence, which the caller must write in full.

        Rows before and after are zeros already. The array is large, and this way no number of it is written twice.
        """
        found = torch.empty(self._shape(part), device=self.arrays.device)
        before = self.plan.histories.get(part, 0)
        found[:, :before], found[:, before + self.arrays.T :] = 0, 0
        self.dvalues[part] = found
        return self.arrays.rows(self.dvalues, part, 0, self.arrays.T)

    def _add_final(self, part: Part, gradient: Tensor) -> None:
        """Add the gradient of the final state; at times at which the part does not exist, it is dropped."""
        if gradient.shape[1] == 1 and self._begins_with(part):  # more times if all states were returned
            self.final[part] = gradient.new_zeros(self.arrays.P, 1, self.arrays.B, self.program.widths[part])
            self.final[part][..., : gradient.shape[3]] = gradient
            return
        start = self.arrays.T - gradient.shape[1]
        rows = self.arrays.rows({part: self._gradient(part)}, part, start, self.arrays.T)
        rows[..., : gradient.shape[3]] += gradient
        for time in self.arrays.absent_times(part, start, self.arrays.T):
            rows[:, time - start] = 0

    def _begins_with(self, part: Part) -> bool:
        """Whether a kernel takes the gradient of a part's last value alone, without an array for all times."""
        number = self.plan.component_of.get((part[0], 0))
        if number is None or self.plan.histories[part] != 1 or not self.program.is_resident(number):
            return False
        is_forward = not self.plan.components[number].is_backward
        return is_forward and self.program.architecture.period == 1 and part in self.program.resident(number).kept

    def _gradient_at(self, part: Part, delay: int, key: NodeKey) -> Tensor:
        return self.arrays.read(self._gradient(part), part, delay, key)

    def _arguments(self) -> Callable[[Argument], Tensor]:
        """A function from an argument of a backward kernel to its tensor."""
        arrays, codes = self.arrays, self.program.codes
        values = forward_arguments(arrays)

        def find(argument: Argument) -> Tensor:
            kind, of = argument
            match kind:
                case "dvalues":
                    return self._gradient(of)
                case "dgates":
                    if of not in self.dgates:  # where the state is all that is needed, the gates' own array is free
                        gates = arrays.gates[of]
                        self.dgates[of] = gates if codes[of].gate_is_state else torch.empty_like(gates)
                    return self.dgates[of]
                case "dprojected":
                    return self.dprojected[of]
                case "dbefore":
                    if of not in self.before:  # nodes of one name may be in several components
                        shape = (arrays.P, self.plan.histories[of], arrays.B, self.program.widths[of])
                        self.before[of] = torch.zeros(shape, device=arrays.device)  # kernels do not write all times
                    return self.before[of]
                case "dfinal":
                    return self.final[of]
                case "passed":
                    shape = (arrays.P, arrays.num_rows, arrays.B, padded(codes[of[0]].units))
                    return self.passed.setdefault(of, torch.empty(shape, device=arrays.device))
                case "handed":
                    shape = (arrays.P, arrays.num_rows, arrays.B, padded(codes[of.source].units))
                    if of not in self.handed:  # both legs take it
                        self.handed[of] = torch.empty(shape, device=arrays.device)
                    return self.handed[of]
                case "late" | "dreset":
                    width = padded(codes[of].units) * (codes[of].num_gates if kind == "late" else 1)
                    return torch.empty(arrays.P, arrays.B, width, device=arrays.device)
                case _:
                    return values(argument)

        return find

    # ------------------------------------------------------------------------------------ nodes outside of all cycles

    def _hoisted(self, code: NodeCode) -> None:
        """Compute the gradients of a node outside of all cycles, at all its times."""
        arrays, program, width = self.arrays, code.program, padded(code.units)
        times = len(arrays.times(code.key))
        if code.key[0] in self.program.unread:
            arrays.gates[code.key] = self._gates_of_output(code)
            return
        changes: dict[str, Tensor] = {
            f"d state {part}": self._gradient_at((code.key[0], part), 0, code.key) for part in code.parts
        }
        if program.late is not None:
            late = self._evaluate(code, program.late, changes)
            dreset = torch.zeros(arrays.P, times, arrays.B, width, device=arrays.device)
            for each in code.products:
                for mine, theirs in each.reset_pairs:
                    left = arrays.factor(late[f"d gate {program.gates[theirs]}"].expand(dreset.shape))
                    matrix = arrays.matrix(code, each)[..., mine * width : (mine + 1) * width]
                    dreset += product(flat(left), matrix.mT).view(dreset.shape)
            changes["d reset"] = dreset
        found = self._evaluate(code, program.backward, changes)
        for number, gate in enumerate(program.gates):
            arrays.gates[code.key][:, :times, :, number * width : (number + 1) * width] = found[f"d gate {gate}"]
        arrays.gates[code.key] = arrays.factor(arrays.gates[code.key])  # float32 until here, where it is an output
        for name, change in found.items():
            if not name.startswith(("d gate ", "d reset")) and (target := self._gathered(code, name)) is not None:
                target += change

    def _gates_of_output(self, code: NodeCode) -> Tensor:
        """The gradients of the gates of an output that nothing reads, which are those of its values, padded."""
        arrays, width = self.arrays, padded(code.units)
        shape, dtype = (arrays.P, arrays.T, arrays.B, width), self.program.arithmetic.dtype
        gradient = self.arrived.pop(code.key[0], None)
        if gradient is None:
            return torch.zeros(shape, dtype=dtype, device=arrays.device)
        if gradient.shape == shape and gradient.dtype == dtype and gradient.is_contiguous():
            return gradient  # it is only read
        found = torch.empty(shape, dtype=dtype, device=arrays.device)
        put_padded(found, gradient)
        return found

    def _evaluate(
        self, code: NodeCode, outputs: Mapping[str, Expression], changes: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        find = operands(self.arrays, code, is_done=True)
        inputs = {name: changes[name] if name in changes else find(name).float() for name in names_read(outputs)}
        found = evaluate(outputs, inputs, functions(self.arrays, code))
        return {name: torch.as_tensor(value, device=self.arrays.device) for name, value in found.items()}

    def _gathered(self, code: NodeCode, name: str) -> Tensor | None:
        """The view to which a gradient is added; None if it is not wanted."""
        if name == "d depth" and code.depth_product.has_projection:
            return self._dprojected_at(code.depth_product)
        edge, part = code.edge_read(name.removeprefix("d "))
        full = (edge.source[0], part)
        return self._gradient_at(full, edge.delay, code.key) if full in self.wanted else None

    def _dprojected_at(self, each: Product) -> Tensor:
        return self.dprojected[each.edge][:, : len(self.arrays.times(each.edge.target))]

    # -------------------------------------------------------------------------------------- products over all times

    def _external(self, code: NodeCode, dgates: Tensor) -> None:
        """Add to the gradients of what a node's edges from other components multiplied, from those of its gates."""
        arrays, width = self.arrays, padded(code.units)
        for each in code.external:
            if each.edge in self.fused:
                continue
            if not arrays.reads_tokens(each) and (each.has_projection or each.part in self.wanted):
                matrix = arrays.matrix(code, each)
                for mine, theirs in runs(each.pairs, width):
                    left, right = dgates[..., theirs], matrix[..., mine].mT
                    if each.has_projection:
                        add_product(flat(self._dprojected_at(each)), flat(left), right)
                    else:
                        self._add_product(each, left, right)
            if each.has_projection and each.part in self.wanted:
                left = arrays.factor(self._dprojected_at(each))
                self._add_product(each, left, arrays.projection(code, each).mT)

    def _add_product(self, each: Product, left: Tensor, right: Tensor) -> None:
        part, edge = each.part, each.edge
        if self._is_first(part, edge):
            product_into(flat(self._begun(part)), flat(left), right)
            return
        target = self._gradient_at(part, edge.delay, edge.target)
        if self.program.architecture.period == 1:
            add_product(flat(target), flat(left), right)
        else:  # the times are not neighbours in memory
            target += product(flat(left), right).view(target.shape)

    def _parameters(self, code: NodeCode, dgates: Tensor, gradients: dict[str, Tensor]) -> None:
        """Add to the gradients of a node's bias and matrices; tied ones sum over all their uses."""
        arrays, width, units = self.arrays, padded(code.units), code.units
        sums: Tensor | None = None  # of the gates' gradients, over times and sequences
        for each in code.products:
            gates, matrix = each.num_gates, arrays.matrix(code, each)
            source = arrays.source(each) if arrays.reads_tokens(each) else arrays.source_factor(each)
            if each.pairs == _every(code):
                found = self._matrix_gradient(source, dgates, matrix.shape[1])
            else:
                found = torch.empty_like(matrix, dtype=torch.float32)
                for mine, theirs in runs(each.pairs, width):
                    found[..., mine] = self._matrix_gradient(source, dgates[..., theirs], matrix.shape[1])
            if not each.has_projection and each.pairs == _every(code) and self.program.has_ones(each.part):
                sums = found[:, self.program.state[each.part]]
            for mine, theirs in runs(each.reset_pairs, width):
                reset = arrays.resets[code.key][:, : dgates.shape[1]]
                found[..., mine] = self._matrix_gradient(reset, dgates[..., theirs], matrix.shape[1])
            wide = found.view(arrays.P, found.shape[1], gates, width)
            rows = arrays.parameters[each.name].shape[1]
            _accumulate(gradients, each.name, wide[:, :rows, :, :units].reshape(arrays.P, rows, -1))
            if each.has_projection:
                self._projection(code, each, gradients)
        if sums is None:
            sums = summed(dgates)
        sums = sums.view(arrays.P, code.num_gates, width)
        _accumulate(gradients, code.bias, sums[..., :units].reshape(arrays.P, -1))

    def _projection(self, code: NodeCode, each: Product, gradients: dict[str, Tensor]) -> None:
        arrays, name, units = self.arrays, each.projection, code.units
        change = self._dprojected_at(each)
        source = arrays.value(each.part, each.edge.delay, code.key)
        found = self._matrix_gradient(source, change, arrays.projection(code, each).shape[1])
        _accumulate(gradients, name, found[:, : arrays.parameters[name].shape[1], :units])
        _accumulate(gradients, each.projection_bias, summed(change)[:, :units])

    def _matrix_gradient(self, source: Tensor, change: Tensor, rows: int) -> Tensor:
        """The gradient of a matrix, from what it multiplied (or the tokens) and the gradients of the products."""
        if _is_sorted(source, rows):
            return _token_gradients(source, change, rows)
        right = self.arrays.factor(change)
        left = _one_hot(source, rows, right.dtype) if source.dtype == torch.long else self.arrays.factor(source)
        return product(flat(left).mT, flat(right))

    def _initial_gradients(self, gradients: dict[str, Tensor]) -> None:
        """Add the gradients of values before the first step to those of the initial state."""
        for part, before in self.plan.histories.items():
            if not before or self.arrays.state is not None or not (part in self.dvalues or part in self.before):
                continue
            gathered = self._own(part, -before, 0)
            for name, rows in self.arrays.initial_rows(part):
                if name is not None:
                    _accumulate(gradients, name, summed(gathered[:, rows]))


def _every(code: NodeCode) -> Pairs:
    """All gates of a node, each fed by its own gate of a matrix."""
    return tuple((gate, gate) for gate in range(code.num_gates))


def _is_sorted(source: Tensor, rows: int) -> bool:
    """Whether the source of a product is tokens from a vocabulary so large that they are sorted."""
    return source.dtype == torch.long and rows > FEW_TOKENS


def _one_hot(tokens: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    """Tokens [P, times, B] as one-hot vectors, [P, times, B, rows]; -1, which is no token, becomes zeros."""
    own = tokens[:1] if tokens.stride(0) == 0 else tokens  # what all members share is made once
    found = torch.empty(*own.shape, rows, dtype=dtype, device=own.device)
    torch.eq(own[..., None], torch.arange(rows, device=own.device), out=found)
    return found.expand(*tokens.shape, rows)


def _token_gradients(tokens: Tensor, change: Tensor, rows: int) -> Tensor:
    """The sum over all places of each token of the gradients there, [P, rows, N]; -1 is no token.

    This is the sum that `nn.Embedding` computes: in the same order every time, unlike `index_add_` on a GPU.
    """
    members = tokens.shape[0]
    firsts = rows * torch.arange(members, device=tokens.device)[:, None, None]
    nowhere = members * rows
    places = torch.where(tokens >= 0, firsts + tokens, nowhere).flatten()
    changes = change.float().flatten(0, 2)
    found = torch.ops.aten.embedding_dense_backward(changes, places, nowhere + 1, nowhere, False)
    return found[:nowhere].view(members, rows, -1)


def _accumulate(gradients: dict[str, Tensor], name: str, gradient: Tensor) -> None:
    gradients[name] = gradients[name] + gradient if name in gradients else gradient.contiguous()
