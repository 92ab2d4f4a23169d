"""The backward pass on the CPU, by hand: the moments in reverse; the gradient of a matrix is one product at the end."""

import weakref
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.cpu_arrays import CpuArrays
from rnnlab.engine.cpu_forward import operands
from rnnlab.engine.cpu_gradients import ParameterGradients
from rnnlab.engine.cpu_pass import Operand, Pass, runs_ahead
from rnnlab.engine.cpu_program import Array
from rnnlab.engine.nodes import NodeCode, Part, Product, runs
from rnnlab.graph.elements import NodeKey


def backward(
    arrays: CpuArrays, doutputs: Mapping[str, Array], dfinal: Mapping[Part, Array], wanted: frozenset[str]
) -> tuple[dict[str, Array], "Backward"]:
    """Gradients of the parameters by name, and the object that holds those of inputs and state.

    Args:
        arrays: as the forward pass left them.
        doutputs: gradients of the outputs by name, [P, T, B, N].
        dfinal: gradients of the final state, where there are any, [P, K, B, N].
        wanted: the inputs whose gradients are needed.
    """
    if wanted not in arrays.backward_passes:
        arrays.backward_passes[wanted] = Backward(arrays, wanted)
    way_back = arrays.backward_passes[wanted]
    return way_back.run(doutputs, dfinal), way_back


class Backward:
    """Takes gradients of outputs and final state back to parameters, inputs and what came before; written once."""

    def __init__(self, arrays: CpuArrays, wanted: frozenset[str]) -> None:
        self.arrays: CpuArrays = weakref.proxy(arrays)  # they hold this
        self.dvalues: dict[Part, Array] = {}
        self.dgates: dict[NodeKey, Array] = {}  # [P, times, B, gates * N], in place of the gates themselves
        self.dprojected: dict[EdgeSpec, Array] = {
            edge: arrays.new(each.shape) for edge, each in arrays.projected.items()
        }
        inputs = {node.name for node in arrays.architecture.nodes if node.kind == "input"} - wanted
        for part, values in arrays.values.items():
            if part[0] not in inputs | arrays.program.tokens:
                # values of an output that only the caller reads are no longer needed: gradients take their place
                self.dvalues[part] = values if part[0] in arrays.program.unread else arrays.new(values.shape)
        for key, code in arrays.program.codes.items():
            self.dgates[key] = arrays.new_state(self.dvalues, code) if code.gate_is_state else arrays.gates[key]
        # gradients that are not needed are written here, all into one row
        self.nowhere = np.zeros((arrays.P, max(arrays.program.state.values())), arrays.dtype)
        self.operations = Pass(arrays)
        self._write(self.operations)
        self.parameters = ParameterGradients(arrays, self.dgates, self.dprojected)

    def run(self, doutputs: Mapping[str, Array], dfinal: Mapping[Part, Array]) -> dict[str, Array]:
        """Gradients of the parameters by name."""
        arrays = self.arrays
        for part, values in self.dvalues.items():
            given = doutputs.get(part[0])
            if given is None or values.shape[1] > given.shape[1]:
                values.fill(0)
            if given is not None:
                arrays.rows(self.dvalues, part, arrays.first_output, arrays.T)[...] = given
        for part, gradient in dfinal.items():
            if part in self.dvalues:
                self._add_final(part, gradient)
        for values in self.dprojected.values():
            values.fill(0)
        self.operations.perform()
        gradients = self.parameters.compute(self.operations.loop)
        self._add_initial(gradients)
        return gradients

    def input_gradients(self) -> dict[str, Array]:
        """Gradients of the inputs in `wanted` by name, [P, T, B, N]."""
        names = [node.name for node in self.arrays.architecture.nodes if node.kind == "input"]
        found = [name for name in dict.fromkeys(names) if (name, "") in self.dvalues]
        return {name: self.arrays.rows(self.dvalues, (name, ""), 0, self.arrays.T) for name in found}

    def state_gradients(self) -> dict[Part, Array]:
        """Gradients of what came before the sequence, [P, K, B, N]."""
        kept = {part: depth for part, depth in self.arrays.plan.histories.items() if depth and part in self.dvalues}
        return {part: self.arrays.rows(self.dvalues, part, -depth, 0) for part, depth in kept.items()}

    def _write(self, operations: Pass) -> None:
        arrays = self.arrays
        is_ahead = runs_ahead(arrays)
        for code in arrays.program.codes.values():
            self._cell(operations, code)
            self._products(operations, code, code.internal if is_ahead else code.products)
            operations.end_list()
        for code in arrays.program.codes.values():
            if is_ahead:
                self._products(operations, code, code.external)
            operations.end_list()
        operations.finish(backward=True)

    def _add_final(self, part: Part, gradient: Array) -> None:
        """The gradient of the final state, which holds zeros where the part does not exist."""
        start = self.arrays.T - gradient.shape[1]
        rows = self.arrays.rows(self.dvalues, part, start, self.arrays.T)
        rows += gradient
        for time in self.arrays.absent_times(part, start, self.arrays.T):
            rows[:, time - start] = 0

    def _dsource(self, product: Product) -> Array | None:
        """Where the gradient of a dense edge's input is accumulated; None if it is not needed."""
        if product.has_projection:
            return self.dprojected[product.edge]
        return self._gradient_of(product.part, product.edge.delay, product.edge.target)

    def _gradient_of(self, part: Part, delay: int, key: NodeKey) -> Array | None:
        return self.arrays.read(self.dvalues, part, delay, key) if part in self.dvalues else None

    def _cell(self, operations: Pass, code: NodeCode) -> None:
        """From the gradient of a node's new state to those of its gates and of all that its formulas read."""
        arrays = self.arrays
        kernels = arrays.program.kernels(code, arrays.shape.dtype)
        find = self._operands(code)
        if kernels.late is not None:
            # the gates of the second product come first, and beside the gates, which are still to be read
            late = self._one_time(code.num_gates * code.units)
            gates = {f"d gate {gate}": Operand(late, n * code.units) for n, gate in enumerate(code.program.gates)}
            operations.compute(kernels.late, lambda name: gates[name] if name in gates else find(name), code.units)
            dreset, adds = find("d reset"), False
            for product in code.products:
                for mine, theirs in runs(product.reset_pairs, code.units):
                    matrix = arrays.parameters[product.name][:, :, mine].swapaxes(1, 2)
                    left = Operand(late, theirs.start)
                    operations.multiply([(left, product.name, matrix)], dreset, code.units, adds=adds)
                    adds = True
        operations.compute(kernels.backward, find, code.units)

    def _one_time(self, width: int) -> Array:
        """An array for one time step that all steps use in turn, as if it were [P, times, B, N]."""
        array = self.arrays.new((self.arrays.P, 1, self.arrays.B, width))
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
            of = name.removeprefix("d ")
            kind, _, rest = of.partition(" ")
            match kind:
                case "gate":
                    return Operand(self.dgates[code.key], code.program.gates.index(rest) * code.units)
                case "carried" | "identity":
                    edge, part = code.edge_read(of)
                    return gathered(self._gradient_of((edge.source[0], part), edge.delay, code.key))
                case "depth":
                    return gathered(self._dsource(code.depth_product))
                case "reset":
                    assert dreset is not None
                    return dreset
                case _:
                    assert kind == "state", name
                    return Operand(self.arrays.new_state(self.dvalues, code, rest))

        return find

    def _products(self, operations: Pass, code: NodeCode, products: Sequence[Product]) -> None:
        """From the gradients of a node's gates to those of what its edges multiplied."""
        arrays = self.arrays
        for product in products:
            target = self._dsource(product)
            if target is not None:
                for mine, theirs in runs(product.pairs, code.units):
                    left = Operand(self.dgates[code.key], theirs.start)
                    matrix = arrays.parameters[product.name][:, :, mine].swapaxes(1, 2)
                    operations.multiply([(left, product.name, matrix)], Operand(target), matrix.shape[2], adds=True)
            if product.has_projection:
                target = self._gradient_of(product.part, product.edge.delay, product.edge.target)
                if target is not None:
                    name = product.projection
                    matrix, left = arrays.parameters[name].swapaxes(1, 2), Operand(self.dprojected[product.edge])
                    operations.multiply([(left, name, matrix)], Operand(target), matrix.shape[2], adds=True)

    def _add_initial(self, gradients: dict[str, Array]) -> None:
        """Every read from before the first step is a read of the initial state."""
        for part in self.arrays.plan.histories if not self.arrays.has_state else ():
            for rows, name in self.arrays.initial(part):
                if name is not None:
                    with np.errstate(over="ignore", invalid="ignore"):  # training detects gradients that diverge
                        change = self.dvalues[part][:, rows].sum(axis=(1, 2))
                    gradients[name] = gradients[name] + change if name in gradients else change
