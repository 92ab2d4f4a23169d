"""The reference against the equations of the papers, written out step by step, and against torch's own layers."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from rnnlab import Architecture, EdgeSpec, NodeSpec, architecture
from rnnlab.engine.model import Model
from tests.engine.comparison import parameter

Values = dict[str, Tensor]
Step = Callable[["Weights", Tensor, Values, Callable[[Tensor], Tensor]], Values]

SIZES = {"input_size": 3, "output_size": 2, "units": 4}
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}


def make(network: Architecture, seed: int = 0, **options) -> Model:
    """A model on the reference path in float64, biases and initial states included random."""
    generator = torch.Generator().manual_seed(seed)
    model = Model(network, generator=generator, path="reference", **options).double()
    with torch.no_grad():
        for value in model.parameters():
            value.copy_(0.5 * torch.randn(value.shape, generator=generator, dtype=torch.float64))
    return model


def sequence(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Weights:
    """The parameters of a model by the names of its architecture, cut into gates."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.specs = {spec.name: spec for spec in model.architecture.parameters}

    def __call__(self, name: str, gate: str | None = None) -> Tensor:
        """An array without its population axis, or the columns of one of its gates."""
        array, blocks = parameter(self.model, name)[0], self.specs[name].blocks
        if gate is None:
            return array
        return array.chunk(len(blocks), dim=-1)[blocks.index(gate)]


def preactivation(w: Weights, gate: str, x: Tensor, h: Tensor) -> Tensor:
    """W^x x + W^h h + b of a one-layer network, for one gate."""
    return x @ w("x->h[0]", gate) + h @ w("h->h[1]", gate) + w("h bias", gate)


def rnn(w: Weights, x: Tensor, old: Values, s: Callable[[Tensor], Tensor]) -> Values:
    """C12: h = s(W^h h + W^x x + b)."""
    return {"h": s(preactivation(w, "c", x, old["h"]))}


def ugrnn(w: Weights, x: Tensor, old: Values, s: Callable[[Tensor], Tensor]) -> Values:
    """C14: c = s(..); g = σ(..); h = g·h + (1 - g)·c."""
    c = s(preactivation(w, "c", x, old["h"]))
    g = preactivation(w, "g", x, old["h"]).sigmoid()
    return {"h": g * old["h"] + (1 - g) * c}


def gru(w: Weights, x: Tensor, old: Values, s: Callable[[Tensor], Tensor]) -> Values:
    """C15: c = s(W^ch (r·h) + W^cx x + b^c); h = u·h + (1 - u)·c."""
    r = preactivation(w, "r", x, old["h"]).sigmoid()
    u = preactivation(w, "u", x, old["h"]).sigmoid()
    c = s((r * old["h"]) @ w("h->h[1]", "c") + x @ w("x->h[0]", "c") + w("h bias", "c"))
    return {"h": u * old["h"] + (1 - u) * c}


def gru_cudnn(w: Weights, x: Tensor, old: Values, s: Callable[[Tensor], Tensor]) -> Values:
    """cuDNN's form: c = s(W^cx x + b^c + r·(W^nh h + b^n))."""
    r = preactivation(w, "r", x, old["h"]).sigmoid()
    u = preactivation(w, "u", x, old["h"]).sigmoid()
    recurrent = old["h"] @ w("h->h[1]", "n") + w("h bias", "n")
    c = s(x @ w("x->h[0]", "c") + w("h bias", "c") + r * recurrent)
    return {"h": u * old["h"] + (1 - u) * c}


def lstm(w: Weights, x: Tensor, old: Values, s: Callable[[Tensor], Tensor]) -> Values:
    """C16: c = f·c + i·c^in; h = o·tanh(c), with tanh on the output whatever s is."""
    i, f, o = (preactivation(w, gate, x, old["h"]).sigmoid() for gate in "ifo")
    c = f * old["c"] + i * s(preactivation(w, "g", x, old["h"]))
    return {"h": o * torch.tanh(c), "c": c}


def lstm_edges(w: Weights, x: Tensor, old: Values, s: Callable[[Tensor], Tensor]) -> Values:
    """With one edge that carries state there is one forget gate: the LSTM."""
    i, f, o = (preactivation(w, gate, x, old["h"]).sigmoid() for gate in ("i", "f0", "o"))
    c = f * old["c"] + i * s(preactivation(w, "g", x, old["h"]))
    return {"h": o * torch.tanh(c), "c": c}


def mgu(w: Weights, x: Tensor, old: Values, s: Callable[[Tensor], Tensor]) -> Values:
    """Zhou et al.: f = σ(..); c = s(W^h (f·h) + ..); h = (1 - f)·h + f·c."""
    f = preactivation(w, "f", x, old["h"]).sigmoid()
    c = s((f * old["h"]) @ w("h->h[1]", "c") + x @ w("x->h[0]", "c") + w("h bias", "c"))
    return {"h": (1 - f) * old["h"] + f * c}


EQUATIONS: dict[str, Step] = {
    "tanh": rnn,
    "relu": rnn,
    "irnn": rnn,
    "ugrnn": ugrnn,
    "gru": gru,
    "gru-cudnn": gru_cudnn,
    "lstm": lstm,
    "lstm-edges": lstm_edges,
    "mgu": mgu,
}


@pytest.mark.parametrize("nonlinearity", [None, "tanh", "relu"])
@pytest.mark.parametrize("cell", EQUATIONS)
def test_cell_follows_its_equations(cell: str, nonlinearity: str | None) -> None:
    model = make(architecture("sh", cell, **SIZES), nonlinearity=nonlinearity)
    s = FUNCTIONS[nonlinearity or ("relu" if cell in ("relu", "irnn") else "tanh")]
    w, x = Weights(model), sequence(2, 6, 3)
    y, state = model(x)
    values = {part: w(f"h initial {part}").expand(2, 4) for part in ("h", "c") if f"h initial {part}" in w.specs}
    for t in range(6):
        values = EQUATIONS[cell](w, x[:, t], values, s)
        torch.testing.assert_close(y[:, t], values["h"] @ w("h->y[0]") + w("y bias"))
    for (_, part), value in state.values.items():
        torch.testing.assert_close(value[0, :, 0], values[part])


def test_intersection_stack_follows_its_equations() -> None:
    """C17 for two layers, the first with a projection of its input (C19)."""
    model = make(architecture("stack-2:intersection", **SIZES))
    w, x = Weights(model), sequence(2, 5, 3)
    y, _ = model(x)
    h = {layer: w(f"{layer} initial h").expand(2, 4) for layer in ("h1", "h2")}
    for t in range(5):
        below = x[:, t] @ w("x->h1[0] projection") + w("x->h1[0] projection bias")
        for layer, edge in (("h1", "x->h1[0]"), ("h2", "h1->h2[0]")):
            y_in, h_in, g_y, g_h = (
                below @ w(edge, gate) + h[layer] @ w(f"{layer}->{layer}[1]", gate) + w(f"{layer} bias", gate)
                for gate in ("y", "h", "gy", "gh")
            )
            above = g_y.sigmoid() * below + (1 - g_y.sigmoid()) * torch.relu(y_in)
            h[layer] = g_h.sigmoid() * h[layer] + (1 - g_h.sigmoid()) * torch.tanh(h_in)
            below = above
        torch.testing.assert_close(y[:, t], below @ w("h2->y[0]") + w("y bias"))


def test_lstm_with_a_forget_gate_per_edge_sums_all_carried_states() -> None:
    """Z41: td with lstm-edges; h1 forgets its own state and that of h2, h2 forgets its own and that of h1."""
    model = make(architecture("td:lstm-edges", **SIZES))
    w, x = Weights(model), sequence(2, 5, 3)
    y, _ = model(x)
    h = {layer: w(f"{layer} initial h").expand(2, 4) for layer in ("h1", "h2")}
    c = {layer: w(f"{layer} initial c").expand(2, 4) for layer in ("h1", "h2")}
    network = model.architecture
    for t in range(5):
        new: dict[str, tuple[Tensor, Tensor]] = {}
        for layer, others in (("h1", [("h1", 1), ("h2", 1)]), ("h2", [("h1", 0), ("h2", 1)])):
            seen = {(name, delay): new[name] if delay == 0 else (h[name], c[name]) for name, delay in others}
            entering = [(edge.source[0], edge.delay) for edge in network.carries((layer, 0))]
            assert sorted(entering) == sorted(others)

            def sums(gate: str, layer: str = layer, seen: dict = seen, x: Tensor = x[:, t]) -> Tensor:
                total = w(f"{layer} bias", gate) + (x @ w("x->h1[0]", gate) if layer == "h1" else 0)
                return total + sum(v @ w(f"{name}->{layer}[{delay}]", gate) for (name, delay), (v, _) in seen.items())

            memory = sums("i").sigmoid() * torch.tanh(sums("g"))
            for number, key in enumerate(entering):
                memory = memory + sums(f"f{number}").sigmoid() * seen[key][1]
            new[layer] = (sums("o").sigmoid() * torch.tanh(memory), memory)
        h, c = ({layer: new[layer][part] for layer in new} for part in (0, 1))
        torch.testing.assert_close(y[:, t], h["h2"] @ w("h2->y[0]") + w("y bias"))


def test_top_down_follows_its_equations() -> None:
    model = make(architecture("td:tanh", **SIZES))
    w, x = Weights(model), sequence(2, 5, 3)
    y, _ = model(x)
    h1, h2 = w("h1 initial h"), w("h2 initial h")
    for t in range(5):
        h1 = torch.tanh(x[:, t] @ w("x->h1[0]") + h1 @ w("h1->h1[1]") + h2 @ w("h2->h1[1]") + w("h1 bias"))
        h2 = torch.tanh(h1 @ w("h1->h2[0]") + h2 @ w("h2->h2[1]") + w("h2 bias"))
        torch.testing.assert_close(y[:, t], h2 @ w("h2->y[0]") + w("y bias"))


def test_skip_reads_the_state_of_three_steps_ago() -> None:
    model = make(architecture("skip-3:tanh", **SIZES))
    w, x = Weights(model), sequence(2, 8, 3)
    y, _ = model(x)
    h = [w("h initial h").expand(2, 4)] * 3  # one vector serves every read before the first step
    for t in range(8):
        h.append(torch.tanh(x[:, t] @ w("x->h[0]") + h[-1] @ w("h->h[1]") + h[-3] @ w("h->h[3]") + w("h bias")))
        torch.testing.assert_close(y[:, t], h[-1] @ w("h->y[0]") + w("y bias"))


def test_gru_reset_spares_other_recurrent_edges() -> None:
    """The reset gate multiplies the carried state only; the skip enters the candidate as it is."""
    model = make(architecture("skip-3:gru", **SIZES))
    w, x = Weights(model), sequence(2, 6, 3)
    y, _ = model(x)
    h = [w("h initial h").expand(2, 4)] * 3
    for t in range(6):
        r, u = ((preactivation(w, gate, x[:, t], h[-1]) + h[-3] @ w("h->h[3]", gate)).sigmoid() for gate in ("r", "u"))
        entering = x[:, t] @ w("x->h[0]", "c") + h[-3] @ w("h->h[3]", "c") + w("h bias", "c")
        h.append(u * h[-1] + (1 - u) * torch.tanh(entering + (r * h[-1]) @ w("h->h[1]", "c")))
        torch.testing.assert_close(y[:, t], h[-1] @ w("h->y[0]") + w("y bias"))


def test_deep_transition_with_shortcuts_follows_its_equations() -> None:
    """P8: old state and input enter both layers of the transition."""
    model = make(architecture("dts-2:tanh", **SIZES))
    w, x = Weights(model), sequence(2, 5, 3)
    y, _ = model(x)
    h = w("h initial h").expand(2, 4)
    for t in range(5):
        z = torch.tanh(x[:, t] @ w("x->z1[0]") + h @ w("h->z1[1]") + w("z1 bias"))
        h = torch.tanh(x[:, t] @ w("x->h[0]") + h @ w("h->h[1]") + z @ w("z1->h[0]") + w("h bias"))
        torch.testing.assert_close(y[:, t], h @ w("h->y[0]") + w("y bias"))


@pytest.mark.parametrize(("version", "num_steps"), list(product("cd", (1, 2, 7))))
def test_mongia_adds_the_skip_after_the_nonlinearity(version: str, num_steps: int) -> None:
    """M3, M4: ReLU(W1 h + Wx x), then ReLU(W h + Wx x) + h(t-2), with W = W1 in version C and W2 in version D."""
    model = make(architecture(f"mongia-{version}:relu", **SIZES))
    w, x = Weights(model), sequence(2, num_steps, 3)
    y, _ = model(x)
    matrices = ("W1", "W1") if version == "c" else ("W1", "W2")
    biases = ("bh", "bh") if version == "c" else ("h@0 bias", "h@1 bias")
    old = w("h@1 initial h").expand(2, 4)  # the state at time -1, phase 1
    skipped = old
    for t in range(num_steps):
        phase = t % 2
        h = torch.relu(old @ w(matrices[phase]) + x[:, t] @ w("Wx") + w(biases[phase]))
        if phase == 1:
            h = h + skipped
            skipped = h
        old = h
        torch.testing.assert_close(y[:, t], h @ w("Wo") + w("by"))


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_rnn_equals_torch(nonlinearity: str) -> None:
    layer = nn.RNN(3, 4, batch_first=True, nonlinearity=nonlinearity).double()
    check_against_layer(make(architecture(f"sh:{nonlinearity}", **SIZES)), layer, ["c"], ["c"])


def test_lstm_equals_torch() -> None:
    layer = nn.LSTM(3, 4, batch_first=True).double()
    check_against_layer(make(architecture("sh:lstm", **SIZES)), layer, ["i", "f", "g", "o"], ["i", "f", "g", "o"])


def test_gru_cudnn_equals_torch() -> None:
    layer = nn.GRU(3, 4, batch_first=True).double()
    check_against_layer(make(architecture("sh:gru-cudnn", **SIZES)), layer, ["r", "u", "c"], ["r", "u", "n"])


def check_against_layer(model: Model, layer: nn.RNNBase, from_x: list[str], from_h: list[str]) -> None:
    """Equal outputs and gradients with torch's weights; `from_x` names the gates of W_ih in order, `from_h` of W_hh.

    Where both biases of torch reach one gate, their sum is the gate's bias.
    """
    w, x = Weights(model), sequence(2, 6, 3)
    with torch.no_grad():
        w("h bias").zero_()
        for edge, source, gates in (("x->h[0]", "ih", from_x), ("h->h[1]", "hh", from_h)):
            for number, gate in enumerate(gates):
                rows = slice(4 * number, 4 * number + 4)
                w(edge, gate).copy_(getattr(layer, f"weight_{source}_l0")[rows].T)
                w("h bias", gate).add_(getattr(layer, f"bias_{source}_l0")[rows])
    parts = [
        w(f"h initial {part}").detach().expand(1, 2, 4).contiguous() for part in ("h", "c")[: 1 + len(from_x) // 4]
    ]
    theirs, _ = layer(x, parts[0] if len(parts) == 1 else tuple(parts))
    expected = theirs @ w("h->y[0]").detach() + w("y bias").detach()
    ours, _ = model(x)
    torch.testing.assert_close(ours, expected)
    ours.pow(2).sum().backward()
    expected.pow(2).sum().backward()
    for edge, source, gates in (("x->h[0]", "ih", from_x), ("h->h[1]", "hh", from_h)):
        gradients = parameter(model, edge).grad[0].chunk(len(gates), dim=-1)
        for number, gate in enumerate(gates):
            found = gradients[w.specs[edge].blocks.index(gate)]
            torch.testing.assert_close(found, getattr(layer, f"weight_{source}_l0").grad[4 * number : 4 * number + 4].T)


def bidirectional(cell: str = "tanh", units: int = 4) -> Architecture:
    """A layer that runs forward and one that runs backward in time, both read by the output."""
    carry = None if cell in ("tanh", "relu") else True
    return Architecture(
        [
            NodeSpec(name="x", kind="input", units=3),
            *(NodeSpec(name=name, kind="hidden", units=units, cell=cell, initial="zero") for name in ("f", "b")),
            NodeSpec(name="y", kind="output", units=2 * units),
        ],
        [
            EdgeSpec(source=("x", 0), target=("f", 0), delay=0),
            EdgeSpec(source=("x", 0), target=("b", 0), delay=0),
            EdgeSpec(source=("f", 0), target=("f", 0), delay=1, carry=carry),
            EdgeSpec(source=("b", 0), target=("b", 0), delay=-1, carry=carry),
            EdgeSpec(source=("f", 0), target=("y", 0), delay=0),
            EdgeSpec(source=("b", 0), target=("y", 0), delay=0),
        ],
    )


@pytest.mark.parametrize("path", ["reference", "cpu"])
@pytest.mark.parametrize("cell", ["tanh", "lstm"])
def test_bidirectional_network_equals_torch(cell: str, path: str) -> None:
    layer = (nn.RNN if cell == "tanh" else nn.LSTM)(3, 4, batch_first=True, bidirectional=True).double()
    model = make(bidirectional(cell))
    model.path = path
    w, x = Weights(model), sequence(2, 6, 3)
    gates = ("c",) if cell == "tanh" else ("i", "f", "g", "o")
    with torch.no_grad():
        for name, delay, suffix, place in (("f", 1, "", 0), ("b", -1, "_reverse", 4)):
            for number, gate in enumerate(gates):
                rows = slice(4 * number, 4 * number + 4)
                w(f"x->{name}[0]", gate).copy_(getattr(layer, f"weight_ih_l0{suffix}")[rows].T)
                w(f"{name}->{name}[{delay}]", gate).copy_(getattr(layer, f"weight_hh_l0{suffix}")[rows].T)
                both = getattr(layer, f"bias_ih_l0{suffix}") + getattr(layer, f"bias_hh_l0{suffix}")
                w(f"{name} bias", gate).copy_(both[rows])
            w(f"{name}->y[0]").zero_()[:, place : place + 4].copy_(torch.eye(4))
        w("y bias").zero_()
    y, _ = model(x)
    torch.testing.assert_close(y, layer(x)[0])


def worked_example_1() -> Architecture:
    """DESIGN's first: two phases, two matrices, a skip, LSTM cells."""
    phases = (0, 1)
    return Architecture(
        [
            *(NodeSpec(name="x", kind="input", units=3, phase=i) for i in phases),
            *(NodeSpec(name="h", kind="hidden", units=4, phase=i, cell="lstm") for i in phases),
            *(NodeSpec(name="y", kind="output", units=2, phase=i, bias="by") for i in phases),
        ],
        [
            *(EdgeSpec(source=("x", i), target=("h", i), delay=0, weights="Wx") for i in phases),
            EdgeSpec(source=("h", 1), target=("h", 0), delay=1, carry=True, weights="W1"),
            EdgeSpec(source=("h", 0), target=("h", 1), delay=1, carry=True, weights="W2"),
            EdgeSpec(source=("h", 1), target=("h", 1), delay=2, transform="identity"),
            *(EdgeSpec(source=("h", i), target=("y", i), delay=0, weights="Wo") for i in phases),
        ],
        2,
    )


def worked_example_2() -> Architecture:
    """DESIGN's second: a +RNN stack with a projection."""
    return Architecture(
        [
            NodeSpec(name="x", kind="input", units=5),
            NodeSpec(name="a", kind="hidden", units=4, cell="intersection"),
            NodeSpec(name="b", kind="hidden", units=4, cell="intersection"),
            NodeSpec(name="y", kind="output", units=2),
        ],
        [
            EdgeSpec(source=("x", 0), target=("a", 0), delay=0, role="depth"),
            EdgeSpec(source=("a", 0), target=("a", 0), delay=1, carry=True),
            EdgeSpec(source=("a", 0), target=("b", 0), delay=0, role="depth", port="y"),
            EdgeSpec(source=("b", 0), target=("b", 0), delay=1, carry=True),
            EdgeSpec(source=("b", 0), target=("y", 0), delay=0, port="y"),
        ],
    )


@pytest.mark.parametrize(
    ("network", "width", "count"), [(worked_example_1(), 3, 234), (worked_example_2(), 5, 330)], ids=["1", "2"]
)
@pytest.mark.parametrize("path", ["reference", "cpu"])
def test_worked_examples_run_with_their_parameters(network: Architecture, width: int, count: int, path: str) -> None:
    model = Model(network, generator=torch.Generator().manual_seed(0), path=path)
    assert sum(value.numel() for value in model.parameters()) == count == network.num_parameters()
    y, _ = model(torch.ones(2, 5, width))
    assert y.shape == (2, 5, 2)
    y.sum().backward()
    # at time -1 the phase is 1: the initial state of h@0 counts, and is read by nothing in a sequence from step 0
    unread = [name for name, value in model.named_parameters() if value.grad is None]
    assert all(name.startswith("arrays.h@0 initial") for name in unread)


def test_worked_example_1_follows_its_equations() -> None:
    """M6's D with LSTM cells: the state of two steps ago is added to h after the cell, and only to h."""
    model = make(worked_example_1())
    w, x = Weights(model), sequence(2, 5, 3)
    y, _ = model(x)
    h, c = w("h@1 initial h").expand(2, 4), w("h@1 initial c").expand(2, 4)
    skipped = h
    for t in range(5):
        recurrent, bias = (("W1", "h@0 bias"), ("W2", "h@1 bias"))[t % 2]
        i, f, g, o = (x[:, t] @ w("Wx", gate) + h @ w(recurrent, gate) + w(bias, gate) for gate in "ifgo")
        c = f.sigmoid() * c + i.sigmoid() * torch.tanh(g)
        h = o.sigmoid() * torch.tanh(c)
        if t % 2:
            h = h + skipped
            skipped = h
        torch.testing.assert_close(y[:, t], h @ w("Wo") + w("by"))


def test_edge_with_negative_delay_reads_ahead_and_zeros_after_the_end() -> None:
    network = Architecture(
        [
            NodeSpec(name="x", kind="input", units=1),
            NodeSpec(name="h", kind="hidden", units=1, cell="tanh", initial="zero"),
            NodeSpec(name="y", kind="output", units=1),
        ],
        [
            EdgeSpec(source=("x", 0), target=("h", 0), delay=0),
            EdgeSpec(source=("h", 0), target=("h", 0), delay=1),
            EdgeSpec(source=("x", 0), target=("y", 0), delay=-2),
        ],
    )
    model = make(network)
    w, x = Weights(model), sequence(1, 5, 1)
    y, _ = model(x)
    ahead = torch.cat([x[:, 2:], torch.zeros(1, 2, 1, dtype=x.dtype)], dim=1)
    torch.testing.assert_close(y, ahead @ w("x->y[-2]") + w("y bias"))


def test_initial_state_of_one_network_serves_every_sequence() -> None:
    """Its gradient is the sum over the batch."""
    model = make(architecture("sh:tanh", **SIZES))
    x = sequence(3, 4, 3)
    model(x)[0].sum().backward()
    together = parameter(model, "h initial h").grad
    alone = torch.zeros_like(together)
    for each in x:
        model.zero_grad()
        model(each[None])[0].sum().backward()
        alone += parameter(model, "h initial h").grad
    torch.testing.assert_close(together, alone)


@pytest.mark.parametrize(
    "name",
    [
        "sh:tanh",
        "sh:lstm",
        "st:gru",
        "skip-2:ugrnn",
        "td:lstm-edges",
        "sh:gru-cudnn",
        "sh:mgu",
        "stack-2:intersection",
        "mongia-d:tanh",
        "clockwork:tanh",
    ],
)
def test_reference_passes_gradcheck(name: str) -> None:
    check_gradients(make(architecture(name, input_size=2, output_size=1, units=2)), sequence(1, 3, 2))


def test_reference_passes_gradcheck_for_a_population_and_both_directions() -> None:
    check_gradients(make(bidirectional(units=2)), sequence(1, 3, 3))
    model = make(architecture("sh:lstm", input_size=2, output_size=1, units=2), population=2)
    check_gradients(model, sequence(2, 1, 3, 2))


def check_gradients(model: Model, x: Tensor) -> None:
    names = [name for name, _ in model.named_parameters()]

    def outputs_and_state(x: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        y, state = functional_call(model, dict(zip(names, values, strict=True)), (x,))
        return (y, *state.values.values())

    values = [value.detach().clone().requires_grad_() for value in model.parameters()]
    assert torch.autograd.gradcheck(outputs_and_state, (x.requires_grad_(), *values))
