"""The same trial with torch.nn and torch.optim: a recurrent layer, a linear read-out and a learned initial state.

A trial starts from the numbers of one member, so that both sides can be compared step by step. torch's layers add two
biases where one would do. For a comparison the second one is kept at zero (of a GRU the part that can be told apart
learns too); a trial that is timed lets both learn, which costs torch no mask.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from rnnlab.tasks.task import AbstractTask, Batch

LAYERS: dict[str, type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]] = {"tanh": nn.RNN, "gru-cudnn": nn.GRU, "lstm": nn.LSTM}
"""The layer that computes what a cell of rnnlab does."""


def let_torch_multiply_in(precision: str, device: torch.device) -> None:
    """How cuDNN and cuBLAS multiply float32 from now on: in tf32 unless rnnlab too is as precise as float32."""
    if device.type == "cuda":
        chosen = "ieee" if precision == "float32" else "tf32"
        # what torch.backends.cudnn.rnn names depends on what was imported before; only its setter always has an effect
        torch._C._set_fp32_precision_setter("cuda", "rnn", chosen)  # type: ignore[attr-defined]
        torch.backends.cuda.matmul.fp32_precision = chosen


class Network(nn.Module):
    """One layer with a read-out, as a user of torch.nn writes it; the tasks of the races look at the last step only.

    Args:
        cell: a key of LAYERS.
        arrays: one member's numbers by the names that `architecture("sh:" + cell, ...)` gives them.
    """

    def __init__(self, cell: str, arrays: Mapping[str, Tensor]) -> None:
        super().__init__()
        inputs, units = arrays["x->h[0]"].shape[0], arrays["h->h[1]"].shape[0]
        self.layer = LAYERS[cell](inputs, units, batch_first=True)
        self.read_out = nn.Linear(units, arrays["h->y[0]"].shape[1])
        parts = [arrays[f"h initial {part}"] for part in ("h", "c") if f"h initial {part}" in arrays]
        self.initial = nn.ParameterList([nn.Parameter(part.detach().clone()) for part in parts])
        with torch.no_grad():
            for name, value in _numbers(cell, arrays).items():
                self.get_parameter(name).copy_(value)
        self.to(arrays["h->h[1]"].device)

    def forward(self, x: Tensor) -> Tensor:
        """The output at the last step, [B, 1, M] of [B, T, N]."""
        state = [part.expand(1, x.shape[0], -1).contiguous() for part in self.initial]
        y, _ = self.layer(x, tuple(state) if len(state) > 1 else state[0])
        return self.read_out(y[:, -1:])

    def freeze_second_bias(self) -> None:
        """Let only that of torch's second bias learn which the first cannot stand for."""
        bias = self.get_parameter("layer.bias_hh_l0")
        kept = torch.zeros_like(bias)
        if isinstance(self.layer, nn.GRU):
            kept[2 * self.layer.hidden_size :] = 1.0
        bias.register_hook(lambda gradient: gradient * kept)


class Trial:
    """A network in training: Adam, and gradients clipped one by one (C33), as most would write it.

    Args:
        network: what learns.
        task: gives the loss.
        learning_rate: of Adam.
        clip: the largest gradient that any number may have.
    """

    def __init__(self, network: Network, task: AbstractTask, *, learning_rate: float, clip: float) -> None:
        self.network, self.task, self.clip = network, task, clip
        # the quickest of torch's three ways to write Adam, on either device
        self.optimiser = torch.optim.Adam(network.parameters(), lr=learning_rate, fused=True)

    def step(self, batch: Batch) -> Tensor:
        """Learn from a batch; returns the loss before it."""
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.task.loss(self.network(batch.inputs), batch)
        loss.backward()
        nn.utils.clip_grad_value_(self.network.parameters(), self.clip)
        self.optimiser.step()
        return loss.detach()


def _numbers(cell: str, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The numbers of a member under torch's names, each transposed, gates in torch's order."""
    outer, inner, bias = arrays["x->h[0]"].T, arrays["h->h[1]"].T, arrays["h bias"]
    second = torch.zeros_like(inner[:, 0])
    if cell == "lstm":
        outer, inner, bias = (_lstm_order(each) for each in (outer, inner, bias))
    elif cell == "gru-cudnn":
        n, r, z = outer.chunk(3)
        outer = torch.cat([r, z, n])
        n, r, z, carried = bias.chunk(4)
        bias, second = torch.cat([r, z, n]), torch.cat([torch.zeros_like(r), torch.zeros_like(z), carried])
    return {
        "layer.weight_ih_l0": outer,
        "layer.weight_hh_l0": inner,
        "layer.bias_ih_l0": bias,
        "layer.bias_hh_l0": second,
        "read_out.weight": arrays["h->y[0]"].T,
        "read_out.bias": arrays["y bias"],
    }


def _lstm_order(rows: Tensor) -> Tensor:
    """Gates i f o g as i f g o."""
    i, f, o, g = rows.chunk(4)
    return torch.cat([i, f, g, o])
