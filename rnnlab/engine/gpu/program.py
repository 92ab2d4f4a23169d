"""A plan as the GPU runs it: how its numbers are stored, which kernels run each component, and how they divide it.

`choice.py` decides which `GpuProgram` a model uses. `kernels.py` has its kernels written; `arrays.py` and `launch.py`
run it.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from rnnlab.architecture.specs import EdgeSpec
from rnnlab.engine.gpu.layout import ARITHMETIC, padded
from rnnlab.engine.gpu.limits import cluster_size, most_pairs, runs_cuda, shared_memory
from rnnlab.engine.gpu.relay_groups import relay_groups
from rnnlab.engine.gpu.resident import Layout, Reader, Resident, Shape, can_be_resident, shapes_of
from rnnlab.engine.gpu.sharing import Processors
from rnnlab.engine.gpu.spread import SpreadComponent, Tiling
from rnnlab.engine.nodes import NodeCode, Part, Product, node_codes, output_names, state_parts, token_inputs
from rnnlab.engine.plan import Component, Plan
from rnnlab.graph.elements import NodeKey
from rnnlab.triton_support import is_interpreted

Kept = TypeVar("Kept")

Kernels = Literal["population", "spread", "relay"]
"""The ways to run a whole network: each member has programs, or clusters of programs, of its own; the units of each
component are spread over the whole GPU (`spread.py`); or members have clusters of their own, and components run side by
side and hand states on (`relay.py`), not one after another."""

Kind = Literal["hoisted", "spread", "relay", "resident", "general"]
"""What runs a component; `GpuProgram.kind` decides."""


class GpuProgram:
    """A plan ready to run on the GPU. It holds no parameters or values, so calls with different data share it.

    Args:
        plan: what runs.
        choices: for each hidden node its nonlinearity, or if members differ, a mask of those with relu, [P, 1, 1].
        precision: how products are multiplied: `float32`, `tf32` or `bf16`.
        kernels: the way to run it.
        has_outputs: whether outputs are computed, or states only (`engine/read_out.py`).
    """

    def __init__(
        self,
        plan: Plan,
        choices: Mapping[NodeKey, Any],
        precision: str,
        kernels: Kernels,
        *,
        has_outputs: bool = True,
    ) -> None:
        self.plan, self.architecture, self.precision, self.kernels = plan, plan.architecture, precision, kernels
        self.arithmetic = ARITHMETIC[precision]
        self.outputs = output_names(self.architecture) if has_outputs else ()
        self.codes = node_codes(plan, choices, has_outputs=has_outputs)
        self._kept: dict[Any, Any] = {}  # never dropped: recorded CUDA graphs run its kernels and read its tensors

    def codes_of(self, component: Component) -> list[NodeCode]:
        """The nodes of a component that are computed."""
        return [self.codes[key] for key in component.nodes if key in self.codes]

    def keep(self, key: Any, make: Callable[[], Kept]) -> Kept:
        """The value of a key, made at the first call and kept as long as the program lives."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def is_relu(self, code: NodeCode, device: torch.device) -> Tensor:
        """Which members have the nonlinearity relu, [P], if they differ; copied once, for the host waits for copies."""
        key = ("is_relu", code.key, device)
        return self.keep(key, lambda: torch.as_tensor(code.choice).to(torch.int32).view(-1).to(device))

    def moments(self, number: int, num_steps: int, first_step: int, device: torch.device, *, backward: bool) -> Tensor:
        """A component's moments in the order in which they run, [moments, 2]: the node's number in it, and the time."""

        def make() -> Tensor:
            component = self.plan.components[number]
            place = {code.key: place for place, code in enumerate(self.codes_of(component))}
            slots = self.plan.moments(component, num_steps, first_step)
            found = [(place[node], time) for slot in slots for node, time in slot]
            return torch.tensor(found[::-1] if backward else found, dtype=torch.int32).to(device)

        return self.keep(("moments", number, num_steps, first_step % self.architecture.period, device, backward), make)

    # ----------------------------------------------------------------------------------------- how numbers are stored

    @cached_property
    def state(self) -> dict[Part, int]:
        """The width of every part that is computed or given, in units."""
        return state_parts(self.architecture, has_outputs=bool(self.outputs))

    @cached_property
    def widths(self) -> dict[Part, int]:
        """The padded width of every part, as it is in memory."""
        return {part: padded(units) for part, units in self.state.items()}

    @cached_property
    def most_row_bytes(self) -> int:
        """The most bytes that any array has for one sequence at one time."""
        gates = [code.num_gates * padded(code.units) for code in self.codes.values()]
        return 4 * max([*self.widths.values(), *gates])

    @cached_property
    def tokens(self) -> frozenset[str]:
        """The names of the inputs that are integers."""
        return token_inputs(self.architecture)

    @cached_property
    def _carried(self) -> set[Part]:
        """Parts that are used as they are, not only multiplied: by carry, identity and depth edges, or as outputs."""
        found: set[Part] = {(node.name, "") for node in self.architecture.nodes if node.kind == "output"}
        for code in self.codes.values():
            for edge in code.carries:
                found |= {(edge.source[0], part) for part in self.architecture.cell(code.key).carries}
            found |= {(edge.source[0], edge.port or "") for edge in code.identities}
            if code.depth is not None and not code.depth_product.has_projection:
                found.add(code.depth_product.part)
        return found

    @cached_property
    def unread(self) -> frozenset[str]:
        """Outputs whose values nothing reads, not even the backward pass: hoisted read-outs without outgoing edges.

        Empty if the period is greater than 1.
        """
        if self.architecture.period > 1:
            return frozenset()
        read = {edge.source for edge in self.architecture.edges}
        hoisted = {key for component in self.plan.components if component.is_hoisted for key in component.nodes}
        return frozenset(key[0] for key, code in self.codes.items() if code.is_read_out and key in hoisted - read)

    def has_ones(self, part: Part) -> bool:
        """Whether an input's first padding column holds ones, which its matrices multiply by zeros.

        The gradient of a bias is then a row of a matrix's gradient, and needs no pass of its own.
        """
        is_input = any(node.name == part[0] and node.kind == "input" for node in self.architecture.nodes)
        is_wider = self.widths[part] > self.state[part] and part[0] not in self.tokens
        return is_input and is_wider and part not in self._carried

    def storage(self, part: Part) -> torch.dtype:
        """The dtype of a part's values: that of products if they are only multiplied, else float32."""
        return torch.float32 if part in self._carried else self.arithmetic.dtype

    def _is_factor(self, part: Part) -> bool:
        """Whether a part's values are stored in the dtype of products."""
        return self.storage(part) == self.arithmetic.dtype

    def has_factor(self, part: Part) -> bool:
        """Whether kernels store a part twice: as float32 and, for those who multiply it, in the dtype of products."""
        if self._is_factor(part):
            return False
        if self.kernels == "spread":
            return any(each.part == part and each.pairs for code in self.codes.values() for each in code.internal)
        number = self.plan.component_of.get((part[0], 0))
        if self.architecture.period > 1 or number is None or not self.is_resident(number):
            return False
        reading = (each for code in self.codes.values() for each in code.products if not each.has_projection)
        return any(each.part == part and each.pairs for each in reading)

    # ------------------------------------------------------------------------------------ which kernels run a component

    def kind(self, number: int) -> Kind:
        """What runs a component, by its number: the first of these that it is.

        hoisted     without a cycle                               torch, at all times at once (`hoisted.py`)
        spread      in a network that is spread over the GPU      kernels of `spread_*`
        relay       side by side with others                      kernels of `relay_text`, from those of `resident_*`
        resident    with matrices that fit into shared memory     kernels of `resident_*`
        general     anything else                                 kernels of `general_*`
        """
        if self.plan.components[number].is_hoisted:
            return "hoisted"
        if self.kernels == "spread":
            return "spread"
        if number in self.relay_of:
            return "relay"
        return "resident" if self.is_resident(number) else "general"

    def is_resident(self, number: int) -> bool:
        """Whether a component runs with its matrices in shared memory and its last states in registers, also as a leg.

        Never one that is hoisted or spread.
        """
        return bool(self.shapes(number))

    # --------------------------------------------------------------------------------------------- resident components

    def resident(self, number: int) -> Resident:
        """A component by its number, as resident kernels see it."""
        component = self.plan.components[number]
        handed = self.handed if number in self.relay_of else None
        period = self.architecture.period
        return self.keep(("resident", number), lambda: Resident(component, self.codes_of(component), period, handed))

    def shapes(self, number: int) -> tuple[Shape, ...]:
        """The ways to divide a resident component among programs; none if it cannot be resident.

        A leg of a relay always has clusters.
        """
        component = self.plan.components[number]
        if component.is_hoisted or self.kernels == "spread" or is_interpreted() or not runs_cuda():
            return ()
        return self.keep(("shapes", number, shared_memory(), cluster_size()), lambda: self._shapes(number))

    def _shapes(self, number: int) -> tuple[Shape, ...]:
        component = self.plan.components[number]
        if not can_be_resident(component, self.codes_of(component)):
            return ()
        factors = [part for part in self.state if self._is_factor(part)]
        found = shapes_of(self.resident(number), self.arithmetic, factors, shared_memory(), cluster_size())
        return tuple(each for each in found if each.num_programs > 1 or number not in self.relay_of)

    def readers(self, number: int) -> tuple[Reader, ...]:
        """Narrow read-outs of a resident component, whose gradients its backward kernel multiplies."""
        if not self.is_resident(number):
            return ()
        return self.keep(("readers", number, shared_memory(), cluster_size()), lambda: self._readers(number))

    def _readers(self, number: int) -> tuple[Reader, ...]:
        found: list[Reader] = []
        for code in (code for each in self.plan.components if each.is_hoisted for code in self.codes_of(each)):
            for node in self.codes_of(self.plan.components[number]):
                found += [(code, product) for product in code.external if _is_narrow_reader(node, code, product)]
        resident, shapes = self.resident(number), self.shapes(number)
        while max(Layout(resident, self.arithmetic, shape, True, found).total for shape in shapes) > shared_memory():
            found.pop()  # ends at the latest without readers: the nodes alone fit
        return tuple(found)

    # ---------------------------------------------------------------------------------------------------------- relays

    @cached_property
    def relays(self) -> tuple[tuple[int, ...], ...]:
        """The groups of components that run side by side, by their numbers."""
        return relay_groups(self.plan, self.codes) if self.kernels == "relay" else ()

    @cached_property
    def relay_of(self) -> dict[int, tuple[int, ...]]:
        """For each component that is a leg of a relay, all legs of that relay."""
        return {leg: legs for legs in self.relays for leg in legs}

    @cached_property
    def handed(self) -> frozenset[EdgeSpec]:
        """The edges from one leg of a relay to another."""
        leg_of = {key: leg for leg in self.relay_of for key in self.plan.components[leg].nodes}
        found: set[EdgeSpec] = set()
        for edge in self.architecture.edges:
            giver, taker = leg_of.get(edge.source), leg_of.get(edge.target)
            if giver is not None and taker is not None and giver != taker and giver in self.relay_of[taker]:
                found.add(edge)
        return frozenset(found)

    def takers(self, number: int) -> tuple[Product, ...]:
        """The products in other legs of a relay that multiply what this leg hands on."""
        own = self.plan.components[number].nodes
        handed = (product for leg in self.relay_of.get(number, ()) for _, product in self.resident(leg).handed)
        return tuple(product for product in handed if product.edge.source in own)

    # ----------------------------------------------------------------------------------------------- spread components

    def spread(self, number: int) -> SpreadComponent:
        """A component by its number, as spread kernels see it."""
        component = self.plan.components[number]
        return SpreadComponent(component, self.codes_of(component), self.arithmetic)

    def tilings(self, number: int, sizes: tuple[int, int], processors: Processors) -> tuple[Tiling, Tiling] | str:
        """How a component is spread in the forward and in the backward pass, or why it cannot be.

        `sizes` are the numbers of members and sequences.
        """
        key = ("tilings", number, sizes, processors, shared_memory(), cluster_size())
        return self.keep(key, lambda: self._tilings(number, sizes, processors))

    def _tilings(self, number: int, sizes: tuple[int, int], processors: Processors) -> tuple[Tiling, Tiling] | str:
        spread = self.spread(number)
        if spread.obstacle is not None:
            return spread.obstacle
        limits = sizes, processors, shared_memory()
        most = most_pairs() if cluster_size() > 1 else 0
        forward = spread.tiling(*limits, backward=False)  # forward pairs were never timed
        backward = spread.tiling(*limits, backward=True, most_pairs=most)
        if forward is None or backward is None:
            return f"it does not fit into {processors.all} multiprocessors at once"
        return forward, backward


def _is_narrow_reader(node: NodeCode, reader: NodeCode, product: Product) -> bool:
    """Whether an edge leads from the node to an output of few units at the same time step.

    Hidden nodes would do as well, but were never timed.
    """
    is_plain = (product.edge.delay, product.num_gates, product.has_projection) == (0, 1, False)
    return product.edge.source == node.key and is_plain and reader.is_output and padded(reader.units) <= 64
