"""Networks run by cuDNN on request, in place of rnnlab's own kernels: stacks of layers such as torch has.

cuDNN is faster than rnnlab's own kernels where matrices do not fit into the GPU's shared memory. But states go into it
and come out of it in bf16, where rnnlab's are float32, so a state that grows by little in each step may not grow at
all. Therefore `choice.py` never chooses cuDNN by itself.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rnnlab.architecture.architecture import Architecture
from rnnlab.architecture.specs import NodeSpec
from rnnlab.engine.gpu.products import product
from rnnlab.engine.nodes import choices
from rnnlab.engine.plan import Plan, plan
from rnnlab.engine.read_out import ReadOut, read_outs
from rnnlab.engine.reference import initial_state
from rnnlab.engine.state import State

# by cell and nonlinearity: torch's name of the layer, and cuDNN's number of its mode
_LAYERS = {
    ("relu", "relu"): ("rnn_relu", 0),
    ("irnn", "relu"): ("rnn_relu", 0),
    ("tanh", "relu"): ("rnn_relu", 0),
    ("relu", "tanh"): ("rnn_tanh", 1),
    ("tanh", "tanh"): ("rnn_tanh", 1),
    ("lstm", "tanh"): ("lstm", 2),
    ("gru-cudnn", "tanh"): ("gru", 3),
}
_DTYPE = torch.bfloat16

# The cost of a time step of a layer, forward and backward together, in microseconds: _STEP, and _MILLION for every
# million numbers of its recurrent matrix. From timings on an H200 with _SEQUENCES sequences, in float16 or bf16,
# whichever was faster (benchmarks/results/gpu-h200.json). With more sequences, the second part grows in proportion.
_STEP, _MILLION, _SEQUENCES = 12.0, 1.25, 64


class CudnnLayer(NamedTuple):
    """A hidden node as a layer of cuDNN, with the names of its parameters."""

    name: str
    below: str  # the node that it reads
    kind: str  # torch's name of the layer
    mode: int  # cuDNN's number of it
    units: int
    outer: str  # the matrix from the node below
    inner: str  # the recurrent matrix
    bias: str


class CudnnNetwork(NamedTuple):
    """Layers from the lowest to the highest, and the outputs that read them."""

    plan: Plan
    layers: tuple[CudnnLayer, ...]
    read_outs: tuple[ReadOut, ...]

    def microseconds(self, num_sequences: int) -> float:
        """Estimated microseconds of a time step of all layers, both passes."""
        num_gates = {"lstm": 4, "gru": 3}
        sizes = [num_gates.get(layer.kind, 1) * layer.units**2 for layer in self.layers]
        share = max(1.0, num_sequences / _SEQUENCES)
        return sum(_STEP + _MILLION * size / 1e6 * share for size in sizes)


@lru_cache(maxsize=128)
def cudnn_network(architecture: Architecture, nonlinearity: tuple[str, ...] | None) -> CudnnNetwork | str:
    """An architecture as layers of cuDNN, or why cuDNN cannot run it."""
    own = plan(architecture)
    found = read_outs(own)
    if found is None or sum(node.kind == "input" for node in architecture.nodes) != 1:
        return "cuDNN has layers on one input, and outputs that read the present"
    chosen = choices(architecture, nonlinearity)
    layers: list[CudnnLayer] = []
    for key in (key for component in own.components for key in component.nodes):
        node = architecture.by_key[key]
        if node.kind != "hidden":
            continue
        layer = _layer(architecture, node, chosen[key])
        if layer is None:
            return f"cuDNN has no layer like {node.name}"
        layers.append(layer)
    return CudnnNetwork(own, tuple(layers), found)


def _layer(architecture: Architecture, node: NodeSpec, nonlinearity: Any) -> CudnnLayer | None:
    """A node as a layer: it reads one node at the same step and itself one step before. None for any other node."""
    kind = _LAYERS.get((node.cell or "", nonlinearity if isinstance(nonlinearity, str) else ""))
    edges = sorted(architecture.incoming(node.key), key=lambda edge: edge.delay)
    if kind is None or [(edge.delay, edge.source == node.key) for edge in edges] != [(0, False), (1, True)]:
        return None
    outer, inner = edges
    are_plain = all(edge.transform == "dense" and edge.port in (None, "h") for edge in edges)
    has_memory = architecture.cell(node.key).needs_carry
    reads_tokens = architecture.by_key[outer.source].encoding == "tokens"
    if not are_plain or outer.carry or inner.carry != has_memory or reads_tokens:
        return None
    first, second = map(architecture.matrix_name, edges)
    return CudnnLayer(node.name, outer.source[0], *kind, node.units, first, second, architecture.bias_name(node.key))


def run_cudnn(
    network: CudnnNetwork,
    parameters: Mapping[str, Tensor],
    inputs: Mapping[str, Tensor],
    state: State | None,
    *,
    has_outputs: bool = True,
) -> tuple[dict[str, Tensor], State]:
    """Outputs by name, [1, B, T, N], and the final state; arguments as for `run_reference`, with one member."""
    (name, x), *_ = inputs.items()
    start = initial_state(network.plan, parameters, (1, x.shape[1])) if state is None else state
    values = {name: x[0].transpose(0, 1).to(_DTYPE)}  # [T, B, N]
    final: dict[tuple[str, str], Tensor] = {}
    for layer in network.layers:
        weights = [each.to(_DTYPE) for each in _weights(layer, parameters)]
        parts = [part for part in ("h", "c") if (layer.name, part) in start.values]
        before = [start.values[layer.name, part][0].transpose(0, 1).to(_DTYPE).contiguous() for part in parts]
        values[layer.name], *after = _run_layer(layer, values[layer.below], before, weights)
        final |= {
            (layer.name, part): value.transpose(0, 1)[None].float() for part, value in zip(parts, after, strict=True)
        }
    outputs = {each.name: _read_out(each, parameters, values) for each in network.read_outs} if has_outputs else {}
    return outputs, State(0, final)


def _weights(layer: CudnnLayer, parameters: Mapping[str, Tensor]) -> list[Tensor]:
    """A layer's outer and inner matrix and their biases, with gates in the order of torch and cuDNN.

    `engine/conversion.py` does the reverse, from a torch module.
    """
    outer, inner, bias = parameters[layer.outer][0].T, parameters[layer.inner][0].T, parameters[layer.bias][0]
    if layer.kind == "lstm":
        outer, inner, bias = (torch.cat([i, f, g, o]) for i, f, o, g in (x.chunk(4) for x in (outer, inner, bias)))
    if layer.kind != "gru":
        return [outer, inner, bias, torch.zeros_like(bias)]
    n, r, z = outer.chunk(3)
    of_outer, *gates, of_inner = bias.chunk(4)
    none = torch.zeros_like(of_inner)
    return [torch.cat([r, z, n]), inner, torch.cat([*gates, of_outer]), torch.cat([none, none, of_inner])]


def _run_layer(layer: CudnnLayer, x: Tensor, before: list[Tensor], weights: list[Tensor]) -> list[Tensor]:
    """The states of all steps, [T, B, N], and the parts of the final state, [1, B, N] each."""
    if not x.is_cuda:  # in tests, torch's own layers on the CPU
        hidden: Any = before if layer.kind == "lstm" else before[0]
        run: Any = getattr(torch._VF, layer.kind)  # pyright: ignore[reportPrivateUsage]
        return list(run(x, hidden, weights, True, 1, 0.0, torch.is_grad_enabled(), False, False))
    cell = before[1] if layer.kind == "lstm" else None
    found = torch._cudnn_rnn(  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
        *(x.contiguous(), weights, 4, _side_by_side(layer, x.shape[-1], weights), before[0], cell),
        *(layer.mode, layer.units, 0, 1, False, 0.0, torch.is_grad_enabled(), False, [], None),
    )
    return [found[0], *found[1 : 1 + len(before)]]


@torch.no_grad()
def _side_by_side(layer: CudnnLayer, num_inputs: int, weights: list[Tensor]) -> Tensor:
    """The weights in one block of memory, in cuDNN's order; otherwise torch would make it in each call, and warn."""
    copies = [each.detach().clone(memory_format=torch.contiguous_format) for each in weights]  # they move there
    return torch._cudnn_rnn_flatten_weight(  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
        copies, 4, num_inputs, layer.mode, layer.units, 0, 1, False, False
    )


def _read_out(read_out: ReadOut, parameters: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> Tensor:
    total: Any = parameters[read_out.bias][:, None]
    for (name, _), matrix in read_out.terms:
        x: Any = values[name].flatten(0, 1)[None]
        total = total + (x if matrix is None else _Product.apply(x, parameters[matrix].to(_DTYPE)))
    steps, batch = next(iter(values.values())).shape[:2]
    return total.expand(1, steps * batch, -1).view(1, steps, batch, -1).transpose(1, 2)


class _Product(torch.autograd.Function):
    """A product with float32 sums, in the forward and the backward pass."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        return product(left, right)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        left, right = ctx.saved_tensors
        rounded = gradient.to(left.dtype)
        return product(rounded, right.transpose(1, 2)).to(left.dtype), product(left.transpose(1, 2), rounded)
