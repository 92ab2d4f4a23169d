"""The backward pass on the CPU, by hand: the steps in reverse; the gradient of a matrix is one product at the end."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.cpu_arrays import CpuArrays, Step, Views, all_times, flat, gate_columns
from rnnlab.engine.cpu_program import NodeCode, Part, Product
from rnnlab.engine.cpu_stages import in_turn, nothing, product_stage, program_stage, slope_stage
from rnnlab.engine.elementwise import Array, Program
from rnnlab.engine.threads import matrix_product
from rnnlab.graph.elements import NodeKey


class CpuBackward:
    """Takes gradients of outputs and final state back to parameters, inputs and what came before."""

    def __init__(self, arrays: CpuArrays) -> None:
        self.arrays = arrays
        self.dvalues: dict[Part, Array] = {}
        self.dgates: dict[NodeKey, Array] = {}  # [P, times, B, gates * N]: all gates at a time go into one product
        self.dprojected: dict[EdgeSpec, Array] = {}

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
        for component in reversed(self.arrays.plan.components):
            codes = self.arrays.codes(component)
            if component.is_hoisted:
                for code in codes:
                    self._backward_step(code, all_times)(0)
            else:
                steps = {code.key: self._backward_step(code, self.arrays.each) for code in codes}
                self.arrays.walk(component, steps, backward=True)
            for code in codes:
                self._send_hoisted(code)
        gradients: dict[str, Array] = {}
        for component in self.arrays.plan.components:
            for code in self.arrays.codes(component):
                self._parameter_gradients(code, gradients)
        self._initial_gradients(gradients)
        return gradients

    def input_gradients(self) -> dict[str, Array]:
        """By name, [P, T, B, N]."""
        return {
            name: self.arrays.rows(self.dvalues, (name, ""), 0, self.arrays.T)
            for name in self.arrays.inputs
            if (name, "") in self.dvalues
        }

    def state_gradients(self) -> dict[Part, Array]:
        """Gradients of what came before the sequence, [P, K, B, N]."""
        kept = {part: depth for part, depth in self.arrays.plan.histories.items() if depth and part in self.dvalues}
        return {part: self.arrays.rows(self.dvalues, part, -depth, 0) for part, depth in kept.items()}

    def _allocate_gradients(self, doutputs: Mapping[str, Array], dfinal: Mapping[Part, Array]) -> None:
        for part, values in self.arrays.values.items():
            if values.dtype == self.arrays.dtype:
                self.dvalues[part] = self.arrays.borrow(values.shape)
                self.dvalues[part].fill(0)
        for name, gradient in doutputs.items():
            self.arrays.rows(self.dvalues, (name, ""), 0, self.arrays.T)[...] = gradient
        for part, gradient in dfinal.items():
            if part in self.dvalues:  # tokens have no gradient
                self._add_final(part, gradient)
        for key, code in self.arrays.program.codes.items():
            if code.program is None:
                self.dgates[key] = self.arrays.read(self.dvalues, code.state[0], 0, key)
            else:
                shape = (self.arrays.P, *self.arrays.gates[key].shape[2:4], code.num_gates * code.units)
                self.dgates[key] = self.arrays.borrow(shape)
        for edge, values in self.arrays.projected.items():
            self.dprojected[edge] = self.arrays.borrow(values.shape)
            self.dprojected[edge].fill(0)

    def _add_final(self, part: Part, gradient: Array) -> None:
        """The gradient of the final state, which holds zeros where the part does not exist."""
        start = self.arrays.T - gradient.shape[1]
        rows = self.arrays.rows(self.dvalues, part, start, self.arrays.T)
        rows += gradient
        for time in self.arrays.absent_times(part, start, self.arrays.T):
            rows[:, time - start] = 0

    def _dsource(self, product: Product) -> Array | None:
        """Where the gradient of what a dense edge multiplies is gathered; None where nobody asks for it."""
        if product.has_projection:
            return self.dprojected[product.edge]
        return self._gradient_of(product.part, product.edge.delay, product.edge.target)

    def _gradient_of(self, part: Part, delay: int, key: NodeKey) -> Array | None:
        is_input = part[0] in self.arrays.inputs
        if part not in self.dvalues or (is_input and not self.with_inputs):
            return None
        return self.arrays.read(self.dvalues, part, delay, key)

    def _backward_step(self, code: NodeCode, views: Views) -> Step:
        """A function that takes the gradient of a node's new state, at its j-th time, back to all that it read."""
        dgates = views(self.dgates[code.key])
        multiply = self.arrays.multiply(views)
        stages = [stage for edge in code.identities for stage in self._identity_backward(edge, code, views)]
        if code.program is not None:
            stages += self._cell_backward(code, views, dgates, multiply)
        for product in code.internal:
            dsource = self._dsource(product)
            if dsource is not None:
                targets = views(dsource)
                for mine, theirs in product.runs:
                    matrix = self.arrays.transposed(product.name, mine, code)
                    stages.append(
                        product_stage(self.arrays, multiply, gate_columns(dgates, theirs, code), matrix, targets)
                    )
                if product.has_projection:
                    stages.append(self._projection_backward(product, views))
        return in_turn(stages)

    def _identity_backward(self, edge: EdgeSpec, code: NodeCode, views: Views) -> list[Step]:
        target = self._gradient_of((edge.source[0], edge.port or ""), edge.delay, code.key)
        if target is None:
            return []
        targets = views(target)
        sources = views(self.arrays.read(self.dvalues, self.arrays.first_port(code), 0, code.key))
        return [lambda j: np.add(targets[j], sources[j], targets[j])]

    def _cell_backward(
        self,
        code: NodeCode,
        views: Views,
        dgates: Sequence[Array],
        multiply: Callable[..., Any],
    ) -> list[Step]:
        assert code.program is not None
        slopes = np.empty(self._slopes_shape(code, views), self.arrays.dtype)
        groups = code.program.activations + code.program.late_activations
        stages = [slope_stage(self.arrays, group, slopes, code, views) for group in groups]
        apart = slopes if self.arrays.P == 1 and views is not all_times else slopes.swapaxes(0, 1)
        each_slope = [apart[gate] for gate in range(code.num_gates)]
        operands = [*self.arrays.operands(code, views), *([one] * len(dgates) for one in each_slope)]
        kept = [views(self.arrays.read(self.arrays.values, part, 0, code.key)) for part in code.kept]
        dstate = [views(self.arrays.read(self.dvalues, part, 0, code.key)) for part in code.state]
        inputs = [*operands, *kept, *dstate]
        stages.append(self._gradient_stage(code, views, code.program.backward, inputs, dgates, adds=False))
        if code.program.reset_backward is None:
            return stages
        dresets = [self.arrays.scratch(dgates[0], code.units)] * len(dgates)
        stages.append(lambda j: dresets[j].fill(0))
        for product in code.external + code.internal:
            for mine, theirs in product.reset_runs:
                matrix = self.arrays.transposed(product.name, mine, code)
                stages.append(product_stage(self.arrays, multiply, gate_columns(dgates, theirs, code), matrix, dresets))
        reset_backward = code.program.reset_backward
        stages.append(self._gradient_stage(code, views, reset_backward, [*operands, dresets], dgates, adds=True))
        return stages

    def _slopes_shape(self, code: NodeCode, views: Views) -> tuple[int, ...]:
        gates = self.arrays.gates[code.key]
        if views is all_times:
            return gates.shape
        return (
            (code.num_gates, self.arrays.B, code.units)
            if self.arrays.P == 1
            else (self.arrays.P, code.num_gates, self.arrays.B, code.units)
        )

    def _gradient_stage(
        self,
        code: NodeCode,
        views: Views,
        program: Program,
        inputs: Sequence[Sequence[Array]],
        dgates: Sequence[Array],
        *,
        adds: bool,
    ) -> Step:
        """Run a backward program: gradients of gates are written (or added), those of all else are added."""
        gathered = self._gathered(code, views, dgates)
        scratch = [self.arrays.scratch(dgates[0], code.units) for _ in program.outputs]
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
        run = program_stage(self.arrays, program, [*inputs, *outputs])
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

    def _gathered(self, code: NodeCode, views: Views, dgates: Sequence[Array]) -> dict[str, Sequence[Array] | None]:
        """Where the gradient of each input of a cell's formulas goes, by the name the backward programs give it."""
        assert code.program is not None
        found: dict[str, Sequence[Array] | None] = {}
        for number, gate in enumerate(code.program.gates):
            found[f"d gate {gate}"] = gate_columns(dgates, slice(number, number + 1), code)
        for number, (edge, parts) in enumerate(code.carries):
            for part in parts:
                target = self._gradient_of(part, edge.delay, code.key)
                found[f"d carried {part[1]} {number}"] = None if target is None else views(target)
        if code.depth is not None:
            target = self._dsource(self.arrays.depth_product(code))
            found["d depth"] = None if target is None else views(target)
        return found

    def _projection_backward(self, product: Product, views: Views) -> Step:
        target = self._gradient_of(product.part, product.edge.delay, product.edge.target)
        if target is None:
            return nothing
        matrix = self.arrays.matrix(f"{product.name} projection", transposed=True)
        sources = views(self.dprojected[product.edge])
        return product_stage(self.arrays, self.arrays.multiply(views), sources, matrix, views(target))

    def _send_hoisted(self, code: NodeCode) -> None:
        """The gradients of all that a node reads from other components, at all times at once."""
        for product in code.external:
            target = self._dsource(product)
            if target is None or self.arrays.is_tokens(product):
                continue
            dgates = self.dgates[code.key]
            for p in range(self.arrays.P):
                for mine, theirs in product.runs:
                    weights = self.arrays.parameters[product.name][p][
                        :, mine.start * code.units : mine.stop * code.units
                    ]
                    change = matrix_product(flat(gate_columns([dgates[p]], theirs, code)[0]), weights.T)
                    target[p] += change.reshape(target[p].shape)
            if product.has_projection:
                self._projection_backward(product, all_times)(0)

    def _parameter_gradients(self, code: NodeCode, gradients: dict[str, Array]) -> None:
        dgates = self.dgates[code.key]
        _accumulate(gradients, code.bias, dgates.sum(axis=(1, 2)))
        for product in code.external + code.internal:
            _accumulate(gradients, product.name, self._matrix_gradient(code, product))
            if product.has_projection:
                change = self.dprojected[product.edge]
                source = self.arrays.read(self.arrays.values, product.part, product.edge.delay, code.key)
                is_tokens = source.dtype != self.arrays.dtype
                num_rows = self.arrays.parameters[f"{product.name} projection"].shape[1]
                matrix = np.stack(
                    [
                        _gathered_rows(source[p].reshape(-1), flat(change[p]), num_rows)
                        if is_tokens
                        else matrix_product(flat(source[p]).T, flat(change[p]))
                        for p in range(self.arrays.P)
                    ]
                )
                _accumulate(gradients, f"{product.name} projection", matrix)
                _accumulate(gradients, f"{product.name} projection bias", change.sum(axis=(1, 2)))

    def _matrix_gradient(self, code: NodeCode, product: Product) -> Array:
        gradient = np.empty_like(self.arrays.parameters[product.name])
        source, dgates = self.arrays.source(product), self.dgates[code.key]
        for p in range(self.arrays.P):
            for mine, theirs in (*product.runs, *product.reset_runs):
                change = flat(gate_columns([dgates[p]], theirs, code)[0])
                columns = gradient[p][:, mine.start * code.units : mine.stop * code.units]
                if (mine, theirs) in product.reset_runs:
                    columns[...] = matrix_product(flat(self.arrays.resets[code.key][p]).T, change)
                elif self.arrays.is_tokens(product):
                    columns[...] = _gathered_rows(source[p].reshape(-1), change, gradient.shape[1])
                else:
                    columns[...] = matrix_product(flat(source[p]).T, change)
        return gradient

    def _initial_gradients(self, gradients: dict[str, Array]) -> None:
        """Every read from before the first step is a read of the initial state."""
        for part, before in self.arrays.plan.histories.items():
            for time in range(-before, 0) if self.arrays.state is None else ():
                name = self.arrays.initial_name(part, time)
                if name is not None:
                    row = self.dvalues[part][:, before + time]
                    _accumulate(gradients, name, row.sum(axis=1))


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
