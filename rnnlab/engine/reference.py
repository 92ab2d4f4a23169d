"""The reference: an interpreter of the unfolded graph, node by node and step by step, in any dtype and on any device.

It is the definition of what a network computes. The fast paths are proved equal to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rnnlab.architecture.architecture import Architecture
from rnnlab.architecture.expressions import Expression, evaluate
from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.plan import Plan
from rnnlab.engine.state import State
from rnnlab.graph.elements import NodeKey

Functions = Mapping[str, Callable[[Tensor], Tensor]]


def run_reference(
    plan: Plan,
    parameters: Mapping[str, Tensor],
    inputs: Mapping[str, Tensor],
    state: State | None,
    use_relu: Mapping[NodeKey, Tensor],
    *,
    keep_all: bool = False,
) -> tuple[dict[str, Tensor], State]:
    """Outputs and final state of a population.

    Args:
        plan: the architecture, and an order in which every value is computed before it is read.
        parameters: by name, each with the population axis first.
        inputs: by name, [P, B, T, N], or integers [P, B, T] for tokens.
        state: what an earlier part of the sequence left, if it is continued.
        use_relu: for each hidden node a boolean [P, 1, 1]: whose nonlinearity is relu, not tanh.
        keep_all: whether the state holds the values of all steps, not of the last ones only.

    Returns:
        Outputs by name, [P, B, T, N], and the state to continue with.
    """
    run = _Run(plan.architecture, parameters, inputs, state, use_relu)
    for component in plan.components:
        if component.is_hoisted:
            ((name, phase),) = component.nodes
            first = (phase - run.first_step) % plan.architecture.period
            moments = [((name, phase), time) for time in range(first, run.num_steps, plan.architecture.period)]
        else:
            slots = plan.moments(component, run.num_steps, run.first_step)
            moments = [moment for slot in slots for moment in slot]
        for key, time in moments:
            run.compute(key, time)
    names = dict.fromkeys(node.name for node in plan.architecture.nodes if node.kind == "output")
    outputs = {name: torch.stack([run.values[name, "", t] for t in range(run.num_steps)], dim=2) for name in names}
    return outputs, run.final_state(plan, keep_all=keep_all)


def initial_state(plan: Plan, parameters: Mapping[str, Tensor], size: tuple[int, int]) -> State:
    """What a population of `size[0]` members finds before the first step of `size[1]` sequences."""
    no_steps = {"": torch.empty(*size, 0)}
    return _Run(plan.architecture, parameters, no_steps, None, {}).final_state(plan, keep_all=False)


@dataclass
class _Run:
    architecture: Architecture
    parameters: Mapping[str, Tensor]
    inputs: Mapping[str, Tensor]
    state: State | None
    use_relu: Mapping[NodeKey, Tensor]
    values: dict[tuple[str, str, int], Tensor] = field(default_factory=dict)  # by name, part of state, time: [P, B, N]

    def __post_init__(self) -> None:
        some = next(iter(self.inputs.values()))
        self.size = some.shape[:2]  # P, B
        self.num_steps = int(some.shape[2])  # a number, not a symbol, in an export: the loop over time is unrolled
        self.first_step = self.state.step or 0 if self.state is not None else 0
        self.like = next(iter(self.parameters.values()))

    def compute(self, key: NodeKey, time: int) -> None:
        """One node at one time step."""
        node = self.architecture.by_key[key]
        if node.kind == "input":
            self.values[key[0], "", time] = self.inputs[key[0]][:, :, time]
        elif node.kind == "output":
            self.values[key[0], "", time] = self._preactivations(key, time)[""] + self._added(key, time)
        else:
            new_state = self._updated(key, time)
            first_port = self.architecture.cell(key).ports[0]
            for part, value in new_state.items():
                self.values[key[0], part, time] = value + self._added(key, time) if part == first_port else value

    def _updated(self, key: NodeKey, time: int) -> dict[str, Tensor]:
        cell = self.architecture.cell(key)
        carries = self.architecture.carries(key)
        formulas = cell.formulas(max(1, len(carries)))
        named = {f"gate {gate}": value for gate, value in self._preactivations(key, time).items()}
        for number, edge in enumerate(carries):
            for part in cell.carries:
                named[f"carried {part} {number}"] = self.read(edge.source[0], part, time - edge.delay)
        depth = self.architecture.depth_edge(key)
        if depth is not None:
            named["depth"] = self._source(depth, time)
        if formulas.reset is not None:
            (edge,) = carries
            reset = self._evaluate({"reset": formulas.reset}, named, key)["reset"]
            for gate, product in self._products(edge, reset).items():
                if gate in cell.reset_gates:
                    named[f"gate {gate}"] = named[f"gate {gate}"] + product
        return self._evaluate(formulas.new_state, named, key)

    def _evaluate(
        self, formulas: Mapping[str, Expression], named: Mapping[str, Tensor], key: NodeKey
    ) -> dict[str, Tensor]:
        """The values of formulas, [P, B, N]; those that read nothing are one number everywhere."""
        found = evaluate(formulas, named, self._functions(key))
        size = (*self.size, self.architecture.by_key[key].units)
        return {name: self._tensor(value).expand(size) for name, value in found.items()}

    def _tensor(self, value: Tensor | float) -> Tensor:
        return value if isinstance(value, Tensor) else self.like.new_tensor(value)

    def _preactivations(self, key: NodeKey, time: int) -> dict[str, Tensor]:
        """The sum of all products into each gate, and its bias; a second product is still to come for reset gates."""
        node, gates = self.architecture.by_key[key], self.architecture.gates(key)
        bias = self.parameters[self.architecture.bias_name(key)]
        sums = dict(zip(gates, bias[:, None, :].split(node.units, dim=-1), strict=True))
        sums = {gate: value.expand(*self.size, -1) for gate, value in sums.items()}
        reset_gates = self.architecture.cell(key).reset_gates if node.kind == "hidden" else ()
        for edge in self.architecture.incoming(key):
            if self.architecture.has_matrix(edge):
                for gate, product in self._products(edge, self._source(edge, time)).items():
                    if not (edge.carry and gate in reset_gates):
                        sums[gate] = sums[gate] + product
        return sums

    def _products(self, edge: EdgeSpec, value: Tensor) -> dict[str, Tensor]:
        """A value times the matrix of an edge, gate by gate."""
        product = _product(value, self.parameters[self.architecture.matrix_name(edge)])
        units = self.architecture.by_key[edge.target].units
        return dict(zip(self.architecture.edge_gates(edge), product.split(units, dim=-1), strict=True))

    def _source(self, edge: EdgeSpec, time: int) -> Tensor:
        """What an edge brings to its target at a time, projected to its width if need be."""
        value = self.read(edge.source[0], edge.port or "", time - edge.delay)
        if not self.architecture.has_projection(edge):
            return value
        matrix = self.parameters[self.architecture.projection_name(edge)]
        bias = self.parameters[self.architecture.projection_bias_name(edge)]
        return _product(value, matrix) + bias[:, None, :]

    def _added(self, key: NodeKey, time: int) -> Tensor | float:
        """What identity edges add after the nonlinearity."""
        edges = [edge for edge in self.architecture.incoming(key) if edge.transform == "identity"]
        return sum((self._source(edge, time) for edge in edges), start=0.0)

    def read(self, name: str, part: str, time: int) -> Tensor:
        """A value at a time; before the sequence what came before it or the initial state, after it zeros."""
        if 0 <= time < self.num_steps:
            return self.values[name, part, time]
        node = self.architecture.by_key[name, (self.first_step + time) % self.architecture.period]
        if time < 0 and self.state is not None:
            return self.state.at(name, part, time)
        initial = self.architecture.initial_name(node.key, part)
        if time < 0 and initial in self.parameters:
            return self.parameters[initial][:, None, :].expand(*self.size, -1)
        return self._nothing(name)

    def _nothing(self, name: str) -> Tensor:
        """What is read where there is no value: zeros, or no token."""
        node = next(node for node in self.architecture.nodes if node.name == name)
        if node.encoding == "tokens":
            return torch.full(self.size, -1, dtype=torch.long, device=self.like.device)
        return self.like.new_zeros(*self.size, node.units)

    def final_state(self, plan: Plan, *, keep_all: bool) -> State:
        """The last values of everything that is read from the past, or all values and those before them."""
        kept: dict[tuple[str, str], Tensor] = {}
        for (name, part), depth in plan.histories.items():
            if depth:
                values = [
                    self.read(name, part, time)
                    if plan.exists(name, part, self.first_step + time)
                    else self._nothing(name)
                    for time in range((0 if keep_all else self.num_steps) - depth, self.num_steps)
                ]
                kept[name, part] = torch.stack(values, dim=2)
        return State(self.first_step + self.num_steps, kept)

    def _functions(self, key: NodeKey) -> Functions:
        use_relu = self.use_relu[key]
        functions: Functions = {
            "sigmoid": torch.sigmoid,
            "tanh": torch.tanh,
            "relu": torch.relu,
            "nonlinearity": lambda x: torch.where(use_relu, torch.relu(x), torch.tanh(x)),
        }
        return {name: lambda x, of=function: of(self._tensor(x)) for name, function in functions.items()}


def _product(value: Tensor, matrix: Tensor) -> Tensor:
    """A vector times a matrix, or for tokens rows of the matrix; -1 is no token."""
    if value.dtype.is_floating_point:
        return value @ matrix
    members = torch.arange(matrix.shape[0], device=matrix.device)[:, None]
    return matrix[members, value.clamp(min=0)] * (value >= 0)[..., None]
