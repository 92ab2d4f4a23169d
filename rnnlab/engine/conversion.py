"""Models from torch's own recurrent modules, with equal outputs."""

import torch
from torch import Tensor, nn

from rnnlab.architecture.architecture import Architecture
from rnnlab.architecture.specs import EdgeSpec, NodeSpec
from rnnlab.engine.model import Model
from rnnlab.errors import ModelError

_CELLS: dict[type[nn.RNNBase], str] = {nn.LSTM: "lstm", nn.GRU: "gru-cudnn"}


def from_torch(module: nn.RNN | nn.GRU | nn.LSTM) -> Model:
    """A model with the weights of a torch module: stacked, in one direction or both, with zero initial state.

    Its output is that of the module: the states of the top layer, both directions side by side. Parameters that are
    frozen in the module are frozen in the model; an array combined from several parameters trains if any of them does.

    >>> lstm = nn.LSTM(3, 5, num_layers=2, batch_first=True)
    >>> x = torch.randn(2, 7, 3)
    >>> torch.allclose(from_torch(lstm)(x)[0], lstm(x)[0], atol=1e-6)
    True
    """
    if type(module) not in (nn.RNN, nn.GRU, nn.LSTM):
        raise ModelError(f"from_torch takes nn.RNN, nn.GRU or nn.LSTM, got {type(module).__name__}")
    if isinstance(module, nn.LSTM) and module.proj_size:
        raise ModelError("an nn.LSTM with proj_size has no counterpart among the cells")
    model = Model(_architecture(module), generator=torch.Generator().manual_seed(0))
    model = model.to(next(module.parameters()))
    with torch.enable_grad():  # so that an array knows whether any of what it is made of trains
        arrays = _arrays(module)
    with torch.no_grad():
        for name, value in arrays.items():
            model.arrays[name].copy_(value).requires_grad_(value.requires_grad)
        for name in _directions(module):
            model.arrays[f"y{name} bias"].zero_().requires_grad_(False)
    return model


def _directions(module: nn.RNNBase) -> tuple[str, ...]:
    """What is put behind the names of each direction's nodes."""
    return ("", "_reverse") if module.bidirectional else ("",)


def _architecture(module: nn.RNNBase) -> Architecture:
    cell = str(module.nonlinearity) if isinstance(module, nn.RNN) else _CELLS[type(module)]
    units = module.hidden_size
    nodes = [NodeSpec(name="x", kind="input", units=module.input_size)]
    edges: list[EdgeSpec] = []
    below = ["x"]
    for layer in range(module.num_layers):
        current = [f"h{layer}{direction}" for direction in _directions(module)]
        for name, delay in zip(current, (1, -1), strict=False):
            nodes.append(NodeSpec(name=name, kind="hidden", units=units, cell=cell, initial="zero"))
            edges += [EdgeSpec(source=(lower, 0), target=(name, 0), delay=0, carry=False) for lower in below]
            carries = isinstance(module, nn.GRU | nn.LSTM)
            edges.append(EdgeSpec(source=(name, 0), target=(name, 0), delay=delay, carry=carries))
        below = current
    for name, direction in zip(below, _directions(module), strict=True):
        nodes.append(NodeSpec(name=f"y{direction}", kind="output", units=units))
        edges.append(EdgeSpec(source=(name, 0), target=(f"y{direction}", 0), delay=0, transform="identity"))
    return Architecture(nodes, edges)


def _arrays(module: nn.RNNBase) -> dict[str, Tensor]:
    """The module's weights under the names of the architecture's arrays, with the population axis."""
    arrays: dict[str, Tensor] = {}
    below, widths = ["x"], [module.input_size]
    for layer in range(module.num_layers):
        current = [f"h{layer}{direction}" for direction in _directions(module)]
        for name, direction, delay in zip(current, _directions(module), (1, -1), strict=False):
            inner, outer = (getattr(module, f"weight_{kind}_l{layer}{direction}") for kind in ("hh", "ih"))
            for lower, matrix in zip(below, outer.split(widths, dim=1), strict=True):
                arrays[f"{lower}->{name}[0]"] = _in_order(module, matrix, is_carry=False).T[None]
            arrays[f"{name}->{name}[{delay}]"] = _in_order(module, inner, is_carry=True).T[None]
            arrays[f"{name} bias"] = _bias(module, f"l{layer}{direction}")[None]
        below, widths = current, [module.hidden_size] * len(current)
    return arrays


def _in_order(module: nn.RNNBase, rows: Tensor, *, is_carry: bool) -> Tensor:
    """Torch's gates in the order of the cells: i f g o becomes i f o g; r z n becomes c r u, or r u n where carried."""
    if isinstance(module, nn.LSTM):
        i, f, g, o = rows.chunk(4)
        return torch.cat([i, f, o, g])
    if isinstance(module, nn.GRU) and not is_carry:
        r, z, n = rows.chunk(3)
        return torch.cat([n, r, z])
    return rows


def _bias(module: nn.RNNBase, suffix: str) -> Tensor:
    """Torch adds two biases; only a GRU's candidate tells them apart."""
    num_gates = {"RNN": 1, "LSTM": 4, "GRU": 3}[type(module).__name__]
    if not module.bias:
        num_gates += isinstance(module, nn.GRU)
        return torch.zeros(num_gates * module.hidden_size, requires_grad=True)
    outer, inner = getattr(module, f"bias_ih_{suffix}"), getattr(module, f"bias_hh_{suffix}")
    if not isinstance(module, nn.GRU):
        return _in_order(module, outer + inner, is_carry=True)
    kept = 2 * module.hidden_size
    return torch.cat([outer[kept:], outer[:kept] + inner[:kept], inner[kept:]])
