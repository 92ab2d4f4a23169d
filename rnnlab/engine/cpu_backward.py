"""The backward pass on the CPU, by hand: the moments in reverse; the gradient of a matrix is one product at the end."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.cpu_arrays import CpuArrays
from rnnlab.engine.cpu_forward import columns, operands
from rnnlab.engine.cpu_program import Array, NodeCode, Part, Product
from rnnlab.engine.cpu_work import Operand, Operations, runs_ahead
from rnnlab.engine.native.walk import address, default_threads, matrix_gradients
from rnnlab.graph.elements import NodeKey


class CpuBackward:
    """Takes gradients of outputs and final state back to parameters, inputs and what came before."""

    def __init__(self, arrays: CpuArrays) -> None:
        self.arrays = arrays
        self.dvalues: dict[Part, Array] = {}
        self.dgates: dict[NodeKey, Array] = {}  # [P, times, B, gates * N], in place of the gates themselves
        self.dprojected: dict[EdgeSpec, Array] = {}
        self.jobs: list[tuple[int, ...]] = []  # gradients of matrices still to be computed
        self._held: list[Array] = []  # arrays that only the jobs know

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
        found = [each for code in arrays.program.codes.values() for each in self._parameter_gradients(code)]
        matrix_gradients(self.jobs, operations.loop, arrays.dtype, default_threads())
        gradients: dict[str, Array] = {}
        for name, gradient in found:
            _accumulate(gradients, name, gradient)
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
                given = doutputs.get(part[0])
                if given is None or values.shape[1] > arrays.T:
                    self.dvalues[part].fill(0)
                if given is not None:
                    arrays.rows(self.dvalues, part, 0, arrays.T)[...] = given
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

    def _parameter_gradients(self, code: NodeCode) -> Iterator[tuple[str, Array]]:
        """Gradients of biases and matrices, to be filled when the jobs are done; a tied one comes several times."""
        arrays, dgates = self.arrays, self.dgates[code.key]
        sums: Array | None = np.empty(arrays.parameters[code.bias].shape, arrays.dtype)
        yield code.bias, sums
        for product in code.products:
            gradient = np.empty(arrays.parameters[product.name].shape, arrays.dtype)
            yield product.name, gradient
            for run in (*product.runs, *product.reset_runs):
                mine, theirs = (slice(gates.start * code.units, gates.stop * code.units) for gates in run)
                source = arrays.resets[code.key] if run in product.reset_runs else arrays.source(product)
                is_whole = theirs == slice(0, dgates.shape[3])
                self._matrix_gradient(source, dgates[..., theirs], gradient[:, :, mine], sums if is_whole else None)
                sums = None if is_whole else sums
            if product.has_projection:
                yield from self._projection_gradients(code, product)
        if sums is not None:
            sums[...] = dgates.sum(axis=(1, 2))

    def _projection_gradients(self, code: NodeCode, product: Product) -> Iterator[tuple[str, Array]]:
        arrays, name = self.arrays, f"{product.name} projection"
        gradient = np.empty(arrays.parameters[name].shape, arrays.dtype)
        bias = np.empty(arrays.parameters[f"{name} bias"].shape, arrays.dtype)
        source = arrays.read(arrays.values, product.part, product.edge.delay, code.key)
        self._matrix_gradient(source, self.dprojected[product.edge], gradient, bias)
        yield name, gradient
        yield f"{name} bias", bias

    def _matrix_gradient(self, source: Array, change: Array, gradient: Array, sums: Array | None) -> None:
        """A gradient of a matrix from all that it multiplied and the gradients of the products; sums are the bias's."""
        if change.shape[1] == 0:  # a short sequence may have no time at which the node exists
            gradient[...] = 0
            if sums is not None:
                sums[...] = 0
            return
        if source.dtype != change.dtype:
            _token_gradients(source, change, gradient)
            if sums is not None:
                sums[...] = change.sum(axis=(1, 2))
            return
        left, right = _in_line(source), _in_line(change)
        self._held += [left, right]
        for member in range(len(gradient)):
            out, total = gradient[member], 0 if sums is None else address(sums[member])
            self.jobs.append(
                (
                    *(address(left[member]), left.strides[2], address(right[member]), right.strides[2]),
                    *(left.shape[1] * left.shape[2], left.shape[3], right.shape[3]),
                    *(address(out), out.strides[0], total),
                )
            )

    def _initial_gradients(self, gradients: dict[str, Array]) -> None:
        """Every read from before the first step is a read of the initial state."""
        for part, before in self.arrays.plan.histories.items():
            for time in range(-before, 0) if self.arrays.state is None else ():
                name = self.arrays.initial_name(part, time)
                if name is not None:
                    _accumulate(gradients, name, self.dvalues[part][:, before + time].sum(axis=1))


def _in_line(array: Array) -> Array:
    """[P, times, B, N] with all rows of a member at equal distances, copied where the times are far apart."""
    is_even = array.shape[1] == 1 or array.strides[1] == array.shape[2] * array.strides[2]
    return array if is_even and array.strides[3] == array.itemsize else np.ascontiguousarray(array)


def _token_gradients(tokens: Array, change: Array, gradient: Array) -> None:
    """The sum of the changes of each token, a row for each; -1 is no token."""
    gradient[...] = 0
    for member, taken in enumerate(tokens):
        known = torch.from_numpy(taken >= 0)
        rows = torch.from_numpy(change[member])[known]
        torch.from_numpy(gradient[member]).index_add_(0, torch.from_numpy(taken)[known], rows)


def _accumulate(gradients: dict[str, Array], name: str, gradient: Array) -> None:
    """Tied parameters gather from all their uses."""
    gradients[name] = gradients[name] + gradient if name in gradients else gradient
