"""The fast path on a CPU: a compiled plan on numpy arrays, with a backward pass written by hand.

Values of all time steps lie in one array for each part of each node's state, [P, K + T + L, B, N]: K rows of what came
before, T of the sequence, L of zeros for those who look ahead. A read with delay d is then the same array moved by d
rows. What comes from other components is one product over all steps; inside a component a step is a product, an
activation and an update, in place. Backward runs the steps in reverse; the gradient of a matrix is one product at the
end.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.cell_program import Activation
from rnnlab.engine.cpu_program import CpuProgram, NodeCode, Part, Product
from rnnlab.engine.elementwise import Array, Program, activate, run_program, slope
from rnnlab.engine.plan import Component
from rnnlab.graph.elements import NodeKey

Step = Callable[[int], object]


class CpuRun:
    """One forward pass and, where asked for, its backward pass."""

    def __init__(
        self,
        program: CpuProgram,
        parameters: Mapping[str, Array],
        inputs: Mapping[str, Array],
        state: Mapping[Part, Array] | None,
        first_step: int,
    ) -> None:
        """Arrays by name; inputs are [P, T, B, N] (tokens [P, T, B]), the values of a state [P, K, B, N]."""
        self.program, self.plan, self.architecture = program, program.plan, program.architecture
        self.parameters, self.inputs, self.state, self.first_step = parameters, inputs, state, first_step
        self.P, self.T, self.B = next(iter(inputs.values())).shape[:3]
        self.dtype = next(iter(parameters.values())).dtype
        self.values: dict[Part, Array] = {}
        self.gates: dict[NodeKey, Array] = {}  # activated, [P, times, B, gates * N]
        self.resets: dict[NodeKey, Array] = {}  # what the second product multiplies
        self.projected: dict[EdgeSpec, Array] = {}
        self.dvalues: dict[Part, Array] = {}
        self.dgates: dict[NodeKey, Array] = {}
        self.dprojected: dict[EdgeSpec, Array] = {}
        self.borrowed: list[Array] = []

    # ---------------------------------------------------------------- forward

    def forward(self) -> None:
        """Fill `values` and `gates` for all time steps."""
        self._allocate()
        for component in self.plan.components:
            codes = self._codes(component)
            for code in codes:
                self._hoist(code)
            if component.is_hoisted:
                for code in codes:
                    self._forward_step(code, _whole)(0)
            else:
                self._walk(component, {code.key: self._forward_step(code, self._each) for code in codes})

    def outputs(self) -> dict[str, Array]:
        """By name, [P, T, B, N]."""
        names = dict.fromkeys(node.name for node in self.architecture.nodes if node.kind == "output")
        return {name: self._rows(self.values, (name, ""), 0, self.T) for name in names}

    def final_state(self) -> dict[Part, Array]:
        """The last values of all that is read from the past, [P, K, B, N]."""
        kept = {part: depth for part, depth in self.plan.histories.items() if depth}
        return {part: self._rows(self.values, part, self.T - depth, self.T) for part, depth in kept.items()}

    def _codes(self, component: Component) -> list[NodeCode]:
        """The nodes of a component that compute something in this sequence; a short one may miss some phases."""
        codes = [self.program.codes[key] for key in component.nodes if key in self.program.codes]
        return [code for code in codes if self._times(code.key)]

    def _walk(self, component: Component, steps: Mapping[NodeKey, Step], *, backward: bool = False) -> None:
        """Every node of a cyclic component at all its times, in the order of the slots."""
        period = self.architecture.period
        slots = self.plan.moments(component, self.T, self.first_step)
        if len(steps) == 1 and period == 1 and len(slots) == self.T:  # one node, one step a slot
            (step,) = steps.values()
            times = [slot[0][1] for slot in slots]
            for time in reversed(times) if backward else times:
                step(time)
            return
        for slot in reversed(slots) if backward else slots:
            for key, time in slot:
                steps[key](time // period)

    def _allocate(self) -> None:
        for node in self.architecture.nodes:
            parts = self.architecture.cell(node.key).state if node.kind == "hidden" else ("",)
            for part in parts:
                if (node.name, part) not in self.values:
                    is_tokens = node.encoding == "tokens"
                    self.values[node.name, part] = self._new_values((node.name, part), node.units, is_tokens)
        for key, code in self.program.codes.items():
            shape = (self.P, len(self._times(key)), self.B)
            if code.shares_gates:
                self.gates[key] = self._rows(self.values, code.state[0], 0, self.T)
            else:
                self.gates[key] = self._borrow((*shape, code.num_gates * code.units))
            if code.program is not None and code.program.reset is not None:
                self.resets[key] = self._borrow((*shape, code.units))
            for product in code.external + code.internal:
                if product.has_projection:
                    self.projected[product.edge] = self._borrow((*shape, code.units))

    def _borrow(self, shape: tuple[int, ...]) -> Array:
        array = self.program.pool.take(shape, self.dtype)
        self.borrowed.append(array)
        return array

    def close(self) -> None:
        """Give all arrays back; nothing may be asked of this run afterwards."""
        self.program.pool.give(self.borrowed)
        self.borrowed = []

    def _new_values(self, part: Part, units: int, is_tokens: bool) -> Array:
        before, after = self.plan.histories.get(part, 0), self.plan.lookaheads.get(part, 0)
        shape = (self.P, before + self.T + after, self.B)
        values = np.full(shape, -1, np.int64) if is_tokens else self._borrow((*shape, units))
        if part[0] in self.inputs:
            values[:, before : before + self.T] = self.inputs[part[0]]
        if self.state is not None and before:
            values[:, :before] = self.state[part]
        elif not is_tokens:
            for row in range(before):
                name = self._initial_name(part, row - before)
                values[:, row] = 0 if name is None else self.parameters[name][:, None, :]
        if not is_tokens:
            values[:, before + self.T :] = 0
        self._clear_absent(part, values, before)
        return values

    def _clear_absent(self, part: Part, values: Array, before: int) -> None:
        """Zeros at times at which no node of that name exists: nothing computes them, and a state shows them."""
        period = self.architecture.period
        for time in range(self.T) if period > 1 else ():
            if (part[0], (self.first_step + time) % period) not in self.architecture.by_key:
                values[:, before + time] = 0

    def _initial_name(self, part: Part, time: int) -> str | None:
        """The parameter that stands for a value before the first step, if it is learned and the node exists then."""
        key = (part[0], (self.first_step + time) % self.architecture.period)
        name = f"{self.architecture.label(key)} initial {part[1]}".rstrip()
        return name if name in self.parameters else None

    def _times(self, key: NodeKey) -> range:
        period = self.architecture.period
        return range((key[1] - self.first_step) % period, self.T, period)

    def _rows(self, arrays: Mapping[Part, Array], part: Part, start: int, stop: int) -> Array:
        """A part at times start to stop, a view [P, times, B, N]."""
        before = self.plan.histories.get(part, 0)
        return arrays[part][:, before + start : before + stop]

    def _read(self, arrays: Mapping[Part, Array], part: Part, delay: int, key: NodeKey) -> Array:
        """What a node reads of a part at all its times, a view [P, times, B, N]."""
        times = self._times(key)
        first = self.plan.histories.get(part, 0) + times.start - delay
        return arrays[part][:, first : first + len(times) * times.step : times.step][:, : len(times)]

    def _source(self, product: Product) -> Array:
        """What a dense edge multiplies, at all times of its target."""
        if product.has_projection:
            return self.projected[product.edge]
        return self._read(self.values, product.part, product.edge.delay, product.edge.target)

    def _hoist(self, code: NodeCode) -> None:
        """Bias and all products from other components, at all times of a node at once."""
        gates = self.gates[code.key]
        for product in code.external:
            if product.has_projection:
                self._project(product)
        everything = (slice(0, gates.shape[-1]), slice(0, gates.shape[-1]))
        whole = next((each for each in code.external if each.runs == (everything,) and not self._is_tokens(each)), None)
        if whole is not None:
            for p in range(self.P):
                _dot(_flat(self._source(whole)[p]), self.parameters[whole.name][p], gates[p])
            gates += self.parameters[code.bias][:, None, None]
        else:
            gates[...] = self.parameters[code.bias][:, None, None]
        for product in code.external:
            if product is not whole:
                self._add_products(gates, product)

    def _is_tokens(self, product: Product) -> bool:
        return self.values[product.part].dtype != self.dtype

    def _project(self, product: Product) -> None:
        value = self._read(self.values, product.part, product.edge.delay, product.edge.target)
        weights = self.parameters[f"{product.name} projection"]
        bias = self.parameters[f"{product.name} projection bias"]
        for p in range(self.P):
            _dot(_flat(value[p]), weights[p], self.projected[product.edge][p])
        self.projected[product.edge] += bias[:, None, None]

    def _add_products(self, gates: Array, product: Product) -> None:
        source, weights = self._source(product), self.parameters[product.name]
        for p in range(self.P):
            for mine, theirs in product.runs:
                if self._is_tokens(product):  # tokens take rows; -1 is no token
                    rows = weights[p][:, mine][np.maximum(source[p], 0)]
                    rows[source[p] < 0] = 0
                    gates[p][..., theirs] += rows
                else:
                    gates[p][..., theirs] += (_flat(source[p]) @ weights[p][:, mine]).reshape(*gates.shape[1:3], -1)

    def _each(self, array: Array) -> list[Array]:
        """A view for each time: [B, N] for one member, else [P, B, N]."""
        return [array[0, j] if self.P == 1 else array[:, j] for j in range(array.shape[1])]

    def _matrix(self, name: str, columns: slice, *, transposed: bool = False) -> Array:
        """A matrix as the products in the loop want it: contiguous, without the population axis for one member."""
        matrix = self.parameters[name][..., columns]
        matrix = np.ascontiguousarray(matrix.swapaxes(-1, -2) if transposed else matrix)
        return matrix[0] if self.P == 1 else matrix

    def _multiply(self, views: Callable[[Array], Any]) -> Callable[..., Any]:
        """The product for arrays as `views` cuts them."""
        if views is _whole:
            return _multiply_whole
        return np.dot if self.P == 1 else np.matmul

    def _scratch(self, like: Array, num_columns: int) -> Array:
        return np.empty((*like.shape[:-1], num_columns), self.dtype)

    def _forward_step(self, code: NodeCode, views: Callable[[Array], Sequence[Array]]) -> Step:
        """A function that computes a node at its j-th time, or with `_whole` at all times."""
        gates = views(self.gates[code.key])
        multiply = self._multiply(views)
        stages: list[Step] = []
        for product in code.internal:
            if product.has_projection:
                stages.append(self._projection_stage(product, views))
            source = views(self._source(product))
            stages += [
                self._product_stage(multiply, source, self._matrix(product.name, mine), _columns(gates, theirs))
                for mine, theirs in product.runs
            ]
        if code.program is not None:
            stages += [self._activation_stage(group, gates, code) for group in code.program.activations]
            stages += self._reset_stages(code, views, gates, multiply)
            stages += [self._activation_stage(group, gates, code) for group in code.program.late_activations]
            if not code.shares_gates:
                state = [views(self._read(self.values, part, 0, code.key)) for part in code.state]
                stages.append(self._program_stage(code.program.update, [*self._operands(code, views, gates), *state]))
        elif not code.shares_gates:
            values = views(self._read(self.values, code.state[0], 0, code.key))
            stages.append(lambda j: np.copyto(values[j], gates[j]))
        stages += [self._identity_stage(edge, code, views) for edge in code.identities]
        return _in_turn(stages)

    def _operands(self, code: NodeCode, views: Callable[[Array], Any], gates: Sequence[Array]) -> list[Sequence[Array]]:
        """What a cell's formulas read: gates, carried parts, depth input."""
        operands = [_columns(gates, slice(g * code.units, (g + 1) * code.units)) for g in range(code.num_gates)]
        for edge, parts in code.carries:
            operands += [views(self._read(self.values, part, edge.delay, code.key)) for part in parts]
        if code.depth is not None:
            operands.append(views(self._source(self._depth_product(code))))
        return operands

    def _depth_product(self, code: NodeCode) -> Product:
        return next(product for product in code.external + code.internal if product.edge is code.depth)

    def _product_stage(
        self, multiply: Callable[..., Any], sources: Sequence[Array], matrix: Array, targets: Sequence[Array]
    ) -> Step:
        scratch = self._scratch(targets[0], targets[0].shape[-1])
        add = np.add

        def stage(j: int) -> None:
            multiply(sources[j], matrix, scratch)
            target = targets[j]
            add(target, scratch, target)

        return stage

    def _projection_stage(self, product: Product, views: Callable[[Array], Sequence[Array]]) -> Step:
        sources = views(self._read(self.values, product.part, product.edge.delay, product.edge.target))
        targets = views(self.projected[product.edge])
        matrix = self._matrix(f"{product.name} projection", slice(None))
        bias = self.parameters[f"{product.name} projection bias"]
        bias = bias[0] if self.P == 1 else bias[:, None]
        multiply = self._multiply(views)

        def stage(j: int) -> None:
            np.add(multiply(sources[j], matrix), bias, targets[j])

        return stage

    def _activation_stage(self, group: Activation, gates: Sequence[Array], code: NodeCode) -> Step:
        views = _columns(gates, slice(group.first * code.units, group.last * code.units))
        operation = (
            str(code.choice) if group.operation == "nonlinearity" and isinstance(code.choice, str) else group.operation
        )
        if operation == "tanh":
            tanh = np.tanh
            return lambda j: tanh(views[j], views[j])
        scratch = self._scratch(views[0], views[0].shape[-1])
        return lambda j: activate(operation, views[j], scratch, code.choice)

    def _slope_stage(self, group: Activation, gates: Sequence[Array], slopes: Sequence[Array], code: NodeCode) -> Step:
        columns = slice(group.first * code.units, group.last * code.units)
        values, outs = _columns(gates, columns), _columns(slopes, columns)
        return lambda j: slope(group.operation, values[j], outs[j], code.choice)

    def _reset_stages(
        self,
        code: NodeCode,
        views: Callable[[Array], Sequence[Array]],
        gates: Sequence[Array],
        multiply: Callable[..., Any],
    ) -> list[Step]:
        if code.program is None or code.program.reset is None:
            return []
        resets = views(self.resets[code.key])
        stages = [self._program_stage(code.program.reset, [*self._operands(code, views, gates), resets])]
        for product in code.external + code.internal:
            for mine, theirs in product.reset_runs:
                matrix = self._matrix(product.name, mine)
                stages.append(self._product_stage(multiply, resets, matrix, _columns(gates, theirs)))
        return stages

    def _program_stage(self, program: Program, arrays: Sequence[Sequence[Array]]) -> Step:
        """Run a program on the j-th array of each input and output."""
        some = arrays[len(program.inputs)][0]
        registers = program.registers([self._scratch(some, some.shape[-1]) for _ in range(program.num_scratch)])
        rows = list(zip(*arrays, strict=True))
        num_arrays, calls = len(arrays), program.calls

        def stage(j: int) -> None:
            registers[:num_arrays] = rows[j]
            run_program(calls, registers)

        return stage

    def _identity_stage(self, edge: EdgeSpec, code: NodeCode, views: Callable[[Array], Sequence[Array]]) -> Step:
        sources = views(self._read(self.values, (edge.source[0], edge.port or ""), edge.delay, code.key))
        targets = views(self._read(self.values, self._first_port(code), 0, code.key))
        return lambda j: np.add(targets[j], sources[j], targets[j])

    def _first_port(self, code: NodeCode) -> Part:
        if code.program is None:
            return code.state[0]
        return (code.key[0], self.architecture.cell(code.key).ports[0])

    # --------------------------------------------------------------- backward

    def backward(
        self, doutputs: Mapping[str, Array], dfinal: Mapping[Part, Array], *, with_inputs: bool
    ) -> dict[str, Array]:
        """Gradients of the parameters by name; `input_gradients` and `state_gradients` give the others.

        Args:
            doutputs: gradients of the outputs by name, [P, T, B, N].
            dfinal: gradients of the final state, where there are any, [P, K, B, N].
            with_inputs: whether the inputs need gradients.
        """
        self.with_inputs = with_inputs
        self._allocate_gradients(doutputs, dfinal)
        for component in reversed(self.plan.components):
            codes = self._codes(component)
            if component.is_hoisted:
                for code in codes:
                    self._backward_step(code, _whole)(0)
            else:
                steps = {code.key: self._backward_step(code, self._each) for code in codes}
                self._walk(component, steps, backward=True)
            for code in codes:
                self._send_hoisted(code)
        gradients: dict[str, Array] = {}
        for component in self.plan.components:
            for code in self._codes(component):
                self._parameter_gradients(code, gradients)
        self._initial_gradients(gradients)
        return gradients

    def input_gradients(self) -> dict[str, Array]:
        """By name, [P, T, B, N]."""
        return {
            name: self._rows(self.dvalues, (name, ""), 0, self.T) for name in self.inputs if (name, "") in self.dvalues
        }

    def state_gradients(self) -> dict[Part, Array]:
        """Gradients of what came before the sequence, [P, K, B, N]."""
        kept = {part: depth for part, depth in self.plan.histories.items() if depth and part in self.dvalues}
        return {part: self._rows(self.dvalues, part, -depth, 0) for part, depth in kept.items()}

    def _allocate_gradients(self, doutputs: Mapping[str, Array], dfinal: Mapping[Part, Array]) -> None:
        for part, values in self.values.items():
            if values.dtype == self.dtype:
                self.dvalues[part] = self._borrow(values.shape)
                self.dvalues[part].fill(0)
        for name, gradient in doutputs.items():
            self._rows(self.dvalues, (name, ""), 0, self.T)[...] = gradient
        for part, gradient in dfinal.items():
            depth = self.plan.histories[part]
            rows = self._rows(self.dvalues, part, self.T - depth, self.T)
            rows += gradient
        for key, code in self.program.codes.items():
            if code.program is None:
                self.dgates[key] = self._read(self.dvalues, code.state[0], 0, key)
            else:
                self.dgates[key] = self._borrow(self.gates[key].shape)
        for edge, values in self.projected.items():
            self.dprojected[edge] = self._borrow(values.shape)
            self.dprojected[edge].fill(0)

    def _dsource(self, product: Product) -> Array | None:
        """Where the gradient of what a dense edge multiplies is gathered; None where nobody asks for it."""
        if product.has_projection:
            return self.dprojected[product.edge]
        return self._gradient_of(product.part, product.edge.delay, product.edge.target)

    def _gradient_of(self, part: Part, delay: int, key: NodeKey) -> Array | None:
        is_input = part[0] in self.inputs
        if part not in self.dvalues or (is_input and not self.with_inputs):
            return None
        return self._read(self.dvalues, part, delay, key)

    def _backward_step(self, code: NodeCode, views: Callable[[Array], Sequence[Array]]) -> Step:
        """A function that takes the gradient of a node's new state, at its j-th time, back to all that it read."""
        dgates = views(self.dgates[code.key])
        multiply = self._multiply(views)
        stages = [stage for edge in code.identities for stage in self._identity_backward(edge, code, views)]
        if code.program is not None:
            stages += self._cell_backward(code, views, dgates, multiply)
        for product in code.internal:
            dsource = self._dsource(product)
            if dsource is not None:
                targets = views(dsource)
                for mine, theirs in product.runs:
                    matrix = self._matrix(product.name, mine, transposed=True)
                    stages.append(self._product_stage(multiply, _columns(dgates, theirs), matrix, targets))
                if product.has_projection:
                    stages.append(self._projection_backward(product, views))
        return _in_turn(stages)

    def _identity_backward(
        self, edge: EdgeSpec, code: NodeCode, views: Callable[[Array], Sequence[Array]]
    ) -> list[Step]:
        target = self._gradient_of((edge.source[0], edge.port or ""), edge.delay, code.key)
        if target is None:
            return []
        targets = views(target)
        sources = views(self._read(self.dvalues, self._first_port(code), 0, code.key))
        return [lambda j: np.add(targets[j], sources[j], targets[j])]

    def _cell_backward(
        self,
        code: NodeCode,
        views: Callable[[Array], Sequence[Array]],
        dgates: Sequence[Array],
        multiply: Callable[..., Any],
    ) -> list[Step]:
        assert code.program is not None
        gates = views(self.gates[code.key])
        operands = self._operands(code, views, gates)
        slopes = [self._scratch(dgates[0], dgates[0].shape[-1])] * len(dgates)
        groups = code.program.activations + code.program.late_activations
        stages = [self._slope_stage(group, gates, slopes, code) for group in groups]
        operands += [_columns(slopes, slice(g * code.units, (g + 1) * code.units)) for g in range(code.num_gates)]
        kept = [views(self._read(self.values, part, 0, code.key)) for part in code.kept]
        dstate = [views(self._read(self.dvalues, part, 0, code.key)) for part in code.state]
        inputs = [*operands, *kept, *dstate]
        stages.append(self._gradient_stage(code, views, code.program.backward, inputs, dgates, adds=False))
        if code.program.reset_backward is None:
            return stages
        dresets = [self._scratch(dgates[0], code.units)] * len(dgates)
        stages.append(lambda j: dresets[j].fill(0))
        for product in code.external + code.internal:
            for mine, theirs in product.reset_runs:
                matrix = self._matrix(product.name, mine, transposed=True)
                stages.append(self._product_stage(multiply, _columns(dgates, theirs), matrix, dresets))
        reset_backward = code.program.reset_backward
        stages.append(self._gradient_stage(code, views, reset_backward, [*operands, dresets], dgates, adds=True))
        return stages

    def _gradient_stage(
        self,
        code: NodeCode,
        views: Callable[[Array], Sequence[Array]],
        program: Program,
        inputs: Sequence[Sequence[Array]],
        dgates: Sequence[Array],
        *,
        adds: bool,
    ) -> Step:
        """Run a backward program: gradients of gates are written (or added), those of all else are added."""
        gathered = self._gathered(code, views, dgates)
        scratch = [self._scratch(dgates[0], code.units) for _ in program.outputs]
        outputs: list[Sequence[Array]] = []
        additions: list[tuple[Array, Sequence[Array]]] = []
        for name, buffer in zip(program.outputs, scratch, strict=True):
            target = gathered[name]
            if target is not None and name.startswith("d gate") and not adds:
                outputs.append(target)
            else:
                outputs.append([buffer] * len(dgates))
                if target is not None:
                    additions.append((buffer, target))
        run = self._program_stage(program, [*inputs, *outputs])
        unused = (
            []
            if adds
            else [
                view
                for name, view in gathered.items()
                if name.startswith("d gate") and view is not None and name not in program.outputs
            ]
        )

        def stage(j: int) -> None:
            run(j)
            for buffer, targets in additions:
                np.add(targets[j], buffer, targets[j])
            for targets in unused:
                targets[j].fill(0)

        return stage

    def _gathered(
        self, code: NodeCode, views: Callable[[Array], Sequence[Array]], dgates: Sequence[Array]
    ) -> dict[str, Sequence[Array] | None]:
        """Where the gradient of each input of a cell's formulas goes, by the name the backward programs give it."""
        assert code.program is not None
        found: dict[str, Sequence[Array] | None] = {}
        for number, gate in enumerate(code.program.gates):
            found[f"d gate {gate}"] = _columns(dgates, slice(number * code.units, (number + 1) * code.units))
        for number, (edge, parts) in enumerate(code.carries):
            for part in parts:
                target = self._gradient_of(part, edge.delay, code.key)
                found[f"d carried {part[1]} {number}"] = None if target is None else views(target)
        if code.depth is not None:
            target = self._dsource(self._depth_product(code))
            found["d depth"] = None if target is None else views(target)
        return found

    def _projection_backward(self, product: Product, views: Callable[[Array], Sequence[Array]]) -> Step:
        target = self._gradient_of(product.part, product.edge.delay, product.edge.target)
        if target is None:
            return _nothing
        matrix = self._matrix(f"{product.name} projection", slice(None), transposed=True)
        sources = views(self.dprojected[product.edge])
        return self._product_stage(self._multiply(views), sources, matrix, views(target))

    def _send_hoisted(self, code: NodeCode) -> None:
        """The gradients of all that a node reads from other components, at all times at once."""
        for product in code.external:
            target = self._dsource(product)
            if target is None or self._is_tokens(product):
                continue
            weights, dgates = self.parameters[product.name], self.dgates[code.key]
            for p in range(self.P):
                for mine, theirs in product.runs:
                    change = _flat(dgates[p][..., theirs]) @ weights[p][:, mine].T
                    target[p] += change.reshape(target[p].shape)
            if product.has_projection:
                self._projection_backward(product, _whole)(0)

    def _parameter_gradients(self, code: NodeCode, gradients: dict[str, Array]) -> None:
        dgates = self.dgates[code.key]
        _accumulate(gradients, code.bias, dgates.sum(axis=(1, 2)))
        for product in code.external + code.internal:
            _accumulate(gradients, product.name, self._matrix_gradient(code, product))
            if product.has_projection:
                change = self.dprojected[product.edge]
                source = self._read(self.values, product.part, product.edge.delay, code.key)
                matrix = np.stack([_flat(source[p]).T @ _flat(change[p]) for p in range(self.P)])
                _accumulate(gradients, f"{product.name} projection", matrix)
                _accumulate(gradients, f"{product.name} projection bias", change.sum(axis=(1, 2)))

    def _matrix_gradient(self, code: NodeCode, product: Product) -> Array:
        gradient = np.empty_like(self.parameters[product.name])
        source, dgates = self._source(product), self.dgates[code.key]
        for p in range(self.P):
            for mine, theirs in product.runs:
                change = _flat(dgates[p][..., theirs])
                if self._is_tokens(product):
                    gradient[p][:, mine] = _gathered_rows(source[p].reshape(-1), change, gradient.shape[1])
                else:
                    gradient[p][:, mine] = _flat(source[p]).T @ change
            for mine, theirs in product.reset_runs:
                gradient[p][:, mine] = _flat(self.resets[code.key][p]).T @ _flat(dgates[p][..., theirs])
        return gradient

    def _initial_gradients(self, gradients: dict[str, Array]) -> None:
        """Every read from before the first step is a read of the initial state."""
        for part, before in self.plan.histories.items():
            for time in range(-before, 0) if self.state is None else ():
                name = self._initial_name(part, time)
                if name is not None:
                    row = self.dvalues[part][:, before + time]
                    _accumulate(gradients, name, row.sum(axis=1))


def _whole(array: Array) -> list[Array]:
    """All times as one."""
    return [array]


def _multiply_whole(source: Array, matrix: Array, out: Array) -> None:
    np.matmul(source, matrix[None, None] if matrix.ndim == 2 else matrix[:, None], out=out)


def _columns(arrays: Sequence[Array], columns: slice) -> Sequence[Array]:
    if arrays[0].shape[-1] == columns.stop and columns.start == 0:
        return arrays
    return [array[..., columns] for array in arrays]


def _flat(array: Array) -> Array:
    """[times, B, N] as [times * B, N]."""
    return array.reshape(-1, array.shape[-1])


def _dot(source: Array, matrix: Array, out: Array) -> None:
    """A product into [times, B, N], without a copy where that is contiguous."""
    if out.flags.c_contiguous:
        np.dot(source, matrix, out=out.reshape(-1, out.shape[-1]))
    else:
        out[...] = (source @ matrix).reshape(out.shape)


def _gathered_rows(tokens: Array, changes: Array, num_rows: int) -> Array:
    """The sum of the changes of each token, a row for each."""
    import torch

    known = tokens >= 0
    rows = torch.zeros(num_rows, changes.shape[1], dtype=torch.from_numpy(changes[:0]).dtype)
    rows.index_add_(0, torch.from_numpy(tokens[known]), torch.from_numpy(np.ascontiguousarray(changes[known])))
    return rows.numpy()


def _accumulate(gradients: dict[str, Array], name: str, gradient: Array) -> None:
    """Tied parameters gather from all their uses."""
    gradients[name] = gradients[name] + gradient if name in gradients else gradient


def _in_turn(stages: Sequence[Step]) -> Step:
    """One step of several stages, without a loop where there are few: this is the innermost Python of all."""
    if len(stages) == 1:
        return stages[0]
    if len(stages) == 2:
        first, second = stages

        def two(j: int) -> None:
            first(j)
            second(j)

        return two

    def step(j: int) -> None:
        for stage in stages:
            stage(j)

    return step


def _nothing(j: int) -> None:
    """Where nothing asks for a gradient."""
