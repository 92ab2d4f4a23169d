"""Networks that torch.nn lacks, as loops of torch operations under autograd: what a careful user writes by hand.

Each loop takes a model's numbers and computes the same. The input product is hoisted out of the loop, and so is what
follows it: read-outs, deep outputs, the upward half of a +RNN. Time is the first axis: a step's slice is contiguous.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy

import torch
from torch import Tensor, nn

from rnnlab.bench.equality import by_time, check_equal, results, training_step
from rnnlab.bench.timing import Side, local
from rnnlab.engine.model import Model

Arrays = Mapping[str, Tensor]
EXACT = 1e-9  # of the largest value, where both sides compute in float64


class Loop(nn.Module):
    """A network of `LOOPS` with numbers of its own, which start as a model's.

    Args:
        name: the network, as `td:tanh`.
        arrays: the model's numbers, each with a population axis of one member.
    """

    def __init__(self, name: str, arrays: Arrays) -> None:
        super().__init__()
        self.run = LOOPS[name]
        self.arrays = nn.ParameterDict({key: nn.Parameter(value.detach()[0].clone()) for key, value in arrays.items()})

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Outputs [T, B, M] of inputs [T, B, N], and None where a module hands back its state."""
        return self.run(dict(self.arrays.items()), x), None


def loop_side(case: str, model: Model, name: str, x: Tensor, dy: Tensor) -> Side:
    """The steps of a loop, after the model was found equal to it; x is [B, T, N], dy [B, T, M]."""
    loop = Loop(name, dict(model.arrays.items()))
    exact = exact_results(loop, x, dy)
    # gradients in float64: of millions of arguments some lie so near 0 that in float32 a ReLU is on the other side
    check_equal(case, results(deepcopy(model).double(), x.double(), dy.double()), exact, EXACT)
    check_equal(f"{case} in float32", {"output": model(x)[0].detach()}, {"output": exact["output"]})
    return local(training_step(loop, *by_time(x, dy)))


def exact_results(loop: Loop, x: Tensor, dy: Tensor) -> dict[str, Tensor]:
    """What a loop computes in float64."""
    return loop_results(deepcopy(loop).double(), x.double(), dy.double())


def loop_results(loop: Loop, x: Tensor, dy: Tensor) -> dict[str, Tensor]:
    """What a loop computes, under the names and in the shapes of its model's; x is [B, T, N]."""
    found = results(loop, *by_time(x, dy))
    y, gradient = by_time(found.pop("output"), found.pop("gradient of x"))
    return {"output": y, "gradient of x": gradient} | {name: value[None] for name, value in found.items()}


def td(arrays: Arrays, x: Tensor) -> Tensor:
    """Two layers, the upper one read by the lower at the next step."""
    u1, v1, w2, u2 = (arrays[name] for name in ("h1->h1[1]", "h2->h1[1]", "h1->h2[0]", "h2->h2[1]"))
    h1, h2 = (_initial(arrays, f"{name} initial h", x) for name in ("h1", "h2"))
    b2 = arrays["h2 bias"]
    states: list[Tensor] = []
    for given in (x @ arrays["x->h1[0]"] + arrays["h1 bias"]).unbind():
        h1 = torch.tanh(torch.addmm(torch.addmm(given, h1, u1), h2, v1))
        h2 = torch.tanh(torch.addmm(torch.addmm(b2, h1, w2), h2, u2))
        states.append(h2)
    return torch.stack(states) @ arrays["h2->y[0]"] + arrays["y bias"]


def skip_21(arrays: Arrays, x: Tensor) -> Tensor:
    """One layer that reads itself one step and 21 steps ago."""
    u, v = arrays["h->h[1]"], arrays["h->h[21]"]
    states = [_initial(arrays, "h initial h", x)] * 21
    for given in (x @ arrays["x->h[0]"] + arrays["h bias"]).unbind():
        states.append(torch.tanh(torch.addmm(torch.addmm(given, states[-1], u), states[-21], v)))
    return torch.stack(states[21:]) @ arrays["h->y[0]"] + arrays["y bias"]


def dts_2(arrays: Arrays, x: Tensor) -> Tensor:
    """Deep transition with a shortcut past its inner layer."""
    return _deep_transition(arrays, x) @ arrays["h->y[0]"] + arrays["y bias"]


def dots_2(arrays: Arrays, x: Tensor) -> Tensor:
    """The same with a deep output."""
    o = torch.tanh(_deep_transition(arrays, x) @ arrays["h->o[0]"] + arrays["o bias"])
    return o @ arrays["o->y[0]"] + arrays["y bias"]


def _deep_transition(arrays: Arrays, x: Tensor) -> Tensor:
    u, v, w = (arrays[name] for name in ("h->z1[1]", "z1->h[0]", "h->h[1]"))
    inner, outer = (x @ arrays[f"x->{name}[0]"] + arrays[f"{name} bias"] for name in ("z1", "h"))
    h = _initial(arrays, "h initial h", x)
    states: list[Tensor] = []
    for given_inner, given_outer in zip(inner.unbind(), outer.unbind(), strict=True):
        z = torch.tanh(torch.addmm(given_inner, h, u))
        h = torch.tanh(torch.addmm(torch.addmm(given_outer, z, v), h, w))
        states.append(h)
    return torch.stack(states)


def stack_8_intersection(arrays: Arrays, x: Tensor) -> Tensor:
    """Eight layers of +RNN, one after another, each over all steps."""
    depth = x @ arrays["x->h1[0] projection"] + arrays["x->h1[0] projection bias"]
    for layer in range(1, 9):
        name = f"h{layer}"
        w, u = arrays[f"{f'h{layer - 1}' if layer > 1 else 'x'}->{name}[0]"], arrays[f"{name}->{name}[1]"]
        h = _initial(arrays, f"{name} initial h", x)
        gates: list[Tensor] = []
        for given in (depth @ w + arrays[f"{name} bias"]).unbind():
            _, candidate, _, keep = (gate := torch.addmm(given, h, u)).chunk(4, dim=1)
            h = torch.lerp(torch.tanh(candidate), h, torch.sigmoid(keep))
            gates.append(gate)
        candidate, _, keep, _ = torch.stack(gates).chunk(4, dim=2)
        depth = torch.lerp(torch.relu(candidate), depth, torch.sigmoid(keep))
    return depth @ arrays["h8->y[0]"] + arrays["y bias"]


def mongia_d_lstm(arrays: Arrays, x: Tensor) -> Tensor:
    """LSTM with two matrices in turn; every second step adds the state of two steps ago."""
    biases = torch.stack([arrays["h@0 bias"], arrays["h@1 bias"]]).repeat(len(x) // 2 + 1, 1)[: len(x), None]
    matrices = (arrays["W1"], arrays["W2"])
    h, c = (_initial(arrays, f"h@1 initial {part}", x) for part in "hc")
    before, units = h, h.shape[1]
    states: list[Tensor] = []
    for step, given in enumerate((x @ arrays["Wx"] + biases).unbind()):
        phase = step % 2
        gates = torch.addmm(given, h, matrices[phase])
        i, f, o = torch.sigmoid(gates[:, : 3 * units]).chunk(3, dim=1)
        c = torch.addcmul(f * c, i, torch.tanh(gates[:, 3 * units :]))
        h = o * torch.tanh(c)
        if phase:
            h = before = h + before
        states.append(h)
    return torch.stack(states) @ arrays["Wo"] + arrays["by"]


def _initial(arrays: Arrays, name: str, x: Tensor) -> Tensor:
    """The learned state before the first step, for every sequence of the batch."""
    return arrays[name].expand(x.shape[1], -1)


LOOPS: dict[str, Callable[[Arrays, Tensor], Tensor]] = {
    "td:tanh": td,
    "skip-21:tanh": skip_21,
    "dts-2:tanh": dts_2,
    "dots-2:tanh": dots_2,
    "stack-8:intersection": stack_8_intersection,
    "mongia-d:lstm": mongia_d_lstm,
}
"""Every loop by the name of its network in the catalogue."""
