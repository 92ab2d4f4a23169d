"""The backward pass on the CPU, by hand: the moments in reverse; the gradient of a matrix is one product at the end."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.cpu_arrays import CpuArrays
from rnnlab.engine.cpu_forward import columns, operands
from rnnlab.engine.cpu_program import Array, NodeCode, Part, Product
from rnnlab.engine.cpu_work import Operand, Operations, runs_ahead
from rnnlab.graph.elements import NodeKey


class CpuBackward:
    """Takes gradients of outputs and final state back to parameters, inputs and what came before."""

    def __init__(self, arrays: CpuArrays) -> None:
        self.arrays = arrays
        self.dvalues: dict[Part, Array] = {}
        self.dgates: dict[NodeKey, Array] = {}  # [P, times, B, gates * N], in place of the gates themselves
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
        arrays = self.arrays
        self._allocate(doutputs, dfinal, with_inputs)
        operations = Operations(arrays)
        is_ahead = runs_ahead(arrays)
        for code in arrays.program.codes.values():
            self._cell(operations, code)
            self._products(operations, code, code.internal if is_ahead else code.products)
            operations.end_list()
        for code in arrays.program.codes.values():
            if is_ahead:
                self._products(operations, code, code.external)
            operations.end_list()
        operations.perform(backward=True)
        gradients: dict[str, Array] = {}
        for code in arrays.program.codes.values():
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

    def _allocate(self, doutputs: Mapping[str, Array], dfinal: Mapping[Part, Array], with_inputs: bool) -> None:
        arrays, tokens = self.arrays, self.arrays.program.tokens
        for part, values in arrays.values.items():
            is_passed_on = bool(arrays.plan.histories.get(part)) and arrays.state is not None
            if part[0] not in tokens and (part[0] not in arrays.inputs or with_inputs or is_passed_on):
                self.dvalues[part] = arrays.borrow(values.shape)
                self.dvalues[part].fill(0)
        for name, gradient in doutputs.items():
            arrays.rows(self.dvalues, (name, ""), 0, arrays.T)[...] = gradient
        for part, gradient in dfinal.items():
            if part in self.dvalues:  # tokens have no gradient
                self._add_final(part, gradient)
        for key, code in arrays.program.codes.items():
            self.dgates[key] = arrays.new_state(self.dvalues, code) if code.shares_gates else arrays.gates[key]
        for edge, values in arrays.projected.items():
            self.dprojected[edge] = arrays.borrow(values.shape)
            self.dprojected[edge].fill(0)
        # gradients that nobody asked for go here, all into one row
        self.nowhere = np.zeros((arrays.P, max(arrays.program.state.values())), arrays.dtype)

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
        return self.arrays.read(self.dvalues, part, delay, key) if part in self.dvalues else None

    def _cell(self, operations: Operations, code: NodeCode) -> None:
        """From the gradient of a node's new state to those of its gates and of all that its formulas read."""
        arrays = self.arrays
        kernels = arrays.program.kernels(code, arrays.dtype.name)
        find = self._operands(code)
        if kernels.late is not None:
            # the gates of the second product come first, and beside the gates, which are still to be read
            late = self._one_time(code.num_gates * code.units)
            gates = {f"d gate {gate}": Operand(late, n * code.units) for n, gate in enumerate(code.program.gates)}
            operations.compute(kernels.late, lambda name: gates[name] if name in gates else find(name), code.units)
            dreset, adds = find("d reset"), False
            for product in code.products:
                for mine, theirs in product.reset_runs:
                    matrix = columns(arrays, product, mine, code).swapaxes(1, 2)
                    operations.multiply(Operand(late, theirs.start * code.units), matrix, dreset, adds=adds)
                    adds = True
        operations.compute(kernels.backward, find, code.units)

    def _one_time(self, width: int) -> Array:
        """Room for one time step, which all of them use in turn, as if [P, times, B, N]."""
        array = self.arrays.borrow((self.arrays.P, 1, self.arrays.B, width))
        return np.broadcast_to(array, (self.arrays.P, self.arrays.T, *array.shape[2:]))

    def _operands(self, code: NodeCode) -> Callable[[str], Operand]:
        """Where the backward pass keeps what a node's formulas name."""
        values = operands(self.arrays, code)
        dreset = Operand(self._one_time(code.units)) if code.program.early is not None else None

        def gathered(array: Array | None) -> Operand:
            return Operand(self.nowhere if array is None else array)

        def find(name: str) -> Operand:
            if not name.startswith("d "):
                return values(name)
            kind, _, rest = name.removeprefix("d ").partition(" ")
            match kind:
                case "gate":
                    return Operand(self.dgates[code.key], code.program.gates.index(rest) * code.units)
                case "carried":
                    part, _, number = rest.rpartition(" ")
                    edge = code.carries[int(number)]
                    return gathered(self._gradient_of((edge.source[0], part), edge.delay, code.key))
                case "depth":
                    return gathered(self._dsource(self.arrays.depth_product(code)))
                case "identity":
                    edge = code.identities[int(rest)]
                    return gathered(self._gradient_of((edge.source[0], edge.port or ""), edge.delay, code.key))
                case "reset":
                    assert dreset is not None
                    return dreset
                case _:
                    assert kind == "state", name
                    return Operand(self.arrays.new_state(self.dvalues, code, rest))

        return find

    def _products(self, operations: Operations, code: NodeCode, products: Sequence[Product]) -> None:
        """From the gradients of a node's gates to those of what its edges multiplied."""
        arrays = self.arrays
        for product in products:
            target = self._dsource(product)
            if target is not None:
                for mine, theirs in product.runs:
                    left = Operand(self.dgates[code.key], theirs.start * code.units)
                    matrix = columns(arrays, product, mine, code).swapaxes(1, 2)
                    operations.multiply(left, matrix, Operand(target), adds=True)
            if product.has_projection:
                target = self._gradient_of(product.part, product.edge.delay, product.edge.target)
                if target is not None:
                    matrix = arrays.parameters[f"{product.name} projection"].swapaxes(1, 2)
                    left = Operand(self.dprojected[product.edge])
                    operations.multiply(left, matrix, Operand(target), adds=True)

    def _parameter_gradients(self, code: NodeCode, gradients: dict[str, Array]) -> None:
        arrays, dgates = self.arrays, self.dgates[code.key]
        _accumulate(gradients, code.bias, _row_sums(dgates))
        for product in code.products:
            matrix = arrays.parameters[product.name]
            gradient = np.empty(matrix.shape, arrays.dtype)
            for mine, theirs in (*product.runs, *product.reset_runs):
                is_reset = (mine, theirs) in product.reset_runs
                source = arrays.resets[code.key] if is_reset else arrays.source(product)
                change = dgates[..., theirs.start * code.units : theirs.stop * code.units]
                gradient[:, :, mine.start * code.units : mine.stop * code.units] = _matrix_gradients(
                    source, change, matrix.shape[1]
                )
            _accumulate(gradients, product.name, gradient)
            if product.has_projection:
                change = self.dprojected[product.edge]
                source = arrays.read(arrays.values, product.part, product.edge.delay, code.key)
                name = f"{product.name} projection"
                _accumulate(gradients, name, _matrix_gradients(source, change, arrays.parameters[name].shape[1]))
                _accumulate(gradients, f"{name} bias", _row_sums(change))

    def _initial_gradients(self, gradients: dict[str, Array]) -> None:
        """Every read from before the first step is a read of the initial state."""
        for part, before in self.arrays.plan.histories.items():
            for time in range(-before, 0) if self.arrays.state is None else ():
                name = self.arrays.initial_name(part, time)
                if name is not None:
                    _accumulate(gradients, name, self.dvalues[part][:, before + time].sum(axis=1))


def _flat(array: Array) -> torch.Tensor:
    """[P, times, B, N] as a tensor [P, times * B, N]."""
    return torch.from_numpy(array.reshape(array.shape[0], -1, array.shape[-1]))


def _matrix_gradients(source: Array, change: Array, num_rows: int) -> Array:
    """The gradient of a matrix, [P, rows, columns], from all that it multiplied and the gradients of the products."""
    changes = _flat(change)
    if source.dtype == change.dtype:
        return torch.bmm(_flat(source).mT, changes).numpy()
    rows = changes.new_zeros(len(changes), num_rows, changes.shape[2])
    for member, tokens in enumerate(source.reshape(len(source), -1)):
        known = torch.from_numpy(tokens >= 0)
        rows[member].index_add_(0, torch.from_numpy(tokens)[known], changes[member][known])
    return rows.numpy()


def _row_sums(change: Array) -> Array:
    """The gradient of a bias, [P, N]."""
    return _flat(change).sum(dim=1).numpy()


def _accumulate(gradients: dict[str, Array], name: str, gradient: Array) -> None:
    """Tied parameters gather from all their uses."""
    gradients[name] = gradients[name] + gradient if name in gradients else gradient
