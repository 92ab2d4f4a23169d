"""Weight noise on JSB Chorales in plain torch: where networks with noise hardly learn, is it us?

python results/checks/torch_music.py rnn:200 rnn:400 --seeds 1 -o rnn.json
python results/checks/torch_music.py dts:400 --seeds 1 -o dts.json

A plain network is a torch.nn.RNN, DT(S) with two layers a loop written out (Pascanu et al. 2014); both are trained by
torch.optim.SGD with momentum, gradients clipped by torch. As in ours hidden matrices begin sparse, 20 numbers into each
unit, with a largest singular value of 1 (numbers are normal here, uniform there), all others with Glorot's bounds.
Noise of a fixed deviation is added to all matrices at each step, and the gradient taken there. torch-music.json holds
the runs of both.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rnnlab import task

BATCH, STEPS, EVALUATE_EVERY, RATE, MOMENTUM, CLIP, NONZEROS = 16, 1500, 100, 0.03, 0.9, 1.0, 20


class Plain(nn.Module):
    """A tanh network of one layer."""

    def __init__(self, notes: int, units: int) -> None:
        super().__init__()
        self.hidden = nn.RNN(notes, units, batch_first=True)
        for name, numbers in self.hidden.named_parameters():
            if name == "weight_ih_l0":
                nn.init.xavier_uniform_(numbers)
            else:
                numbers.data = sparse(units) if name == "weight_hh_l0" else torch.zeros(units)

    def forward(self, inputs: Tensor) -> Tensor:
        """States, [B, T, units]."""
        return self.hidden(inputs)[0]


class DeepTransition(nn.Module):
    """DT(S): two tanh layers from state to state, both with the input, the second with the state before too."""

    def __init__(self, notes: int, units: int) -> None:
        super().__init__()
        self.units = units
        from_input = [nn.Linear(notes, units) for _ in range(2)]
        from_hidden = [nn.Linear(units, units, bias=False) for _ in range(3)]
        for each in from_input:
            nn.init.xavier_uniform_(each.weight)
            nn.init.zeros_(each.bias)
        for each in from_hidden:
            each.weight.data = sparse(units)
        self.from_input, self.from_hidden = nn.ModuleList(from_input), nn.ModuleList(from_hidden)

    def forward(self, inputs: Tensor) -> Tensor:
        """States, [B, T, units]."""
        first, second = (each(inputs) for each in self.from_input)
        state, states = inputs.new_zeros(len(inputs), self.units), []
        into, upward, shortcut = self.from_hidden
        for step in range(inputs.shape[1]):
            middle = torch.tanh(first[:, step] + into(state))
            state = torch.tanh(second[:, step] + upward(middle) + shortcut(state))
            states.append(state)
        return torch.stack(states, dim=1)


NETWORKS = {"rnn": Plain, "dts": DeepTransition}


def sparse(units: int) -> Tensor:
    """A hidden matrix as it begins."""
    matrix = torch.zeros(units, units)
    for row in matrix:
        row[torch.randperm(units)[:NONZEROS]] = torch.randn(NONZEROS)
    return matrix / torch.linalg.matrix_norm(matrix, 2)


def network_of(name: str, notes: int) -> nn.Sequential:
    """A network by kind and units, with a read-out that gives a logit for every note."""
    kind, _, units = name.partition(":")
    read_out = nn.Linear(int(units), notes)
    nn.init.xavier_uniform_(read_out.weight)
    nn.init.zeros_(read_out.bias)
    return nn.Sequential(NETWORKS[kind](notes, int(units)), read_out)


def nats(network: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
    """The nats of all steps that count, and how many they are."""
    logits = network(batch.inputs.float())
    each = nn.functional.binary_cross_entropy_with_logits(logits, batch.targets.float(), reduction="none")
    return (each.sum(-1) * batch.weights).sum(), batch.weights.sum()


def score(network: nn.Module, problem: Any, split: str) -> float:
    """Nats per step on a split, without noise."""
    with torch.no_grad():
        found = [nats(network, batch) for batch in problem.batches(split, 100)]
    return float(sum(one for one, _ in found) / sum(other for _, other in found))


def train(name: str, noise: float, seed: int) -> dict[str, Any]:
    """One run: validation over time, and test with the numbers that were best."""
    torch.manual_seed(seed)
    problem = task("jsb-chorales")
    network = network_of(name, problem.input_size)
    optimiser = torch.optim.SGD(network.parameters(), lr=RATE, momentum=MOMENTUM)
    matrices = [each for each in network.parameters() if each.dim() == 2]
    generator = torch.Generator().manual_seed(seed)
    curve, best, numbers, started = [], math.inf, {}, time.perf_counter()
    for step in range(1, STEPS + 1):
        batch = problem.sample(BATCH, generator=generator)
        clean = [each.data for each in matrices]
        for each in matrices:
            each.data = each.data + noise * torch.randn_like(each)
        optimiser.zero_grad()
        total, count = nats(network, batch)
        (total / count).backward()
        for each, before in zip(matrices, clean, strict=True):
            each.data = before
        nn.utils.clip_grad_norm_(network.parameters(), CLIP)
        optimiser.step()
        if step % EVALUATE_EVERY == 0:
            curve.append(score(network, problem, "validation"))
            if curve[-1] < best:
                best, numbers = curve[-1], {key: value.clone() for key, value in network.state_dict().items()}
    network.load_state_dict(numbers)
    test = score(network, problem, "test")
    print(name, noise, seed, f"{best:.3f} {test:.3f}, {time.perf_counter() - started:.0f} s", flush=True)
    return {"network": name, "noise": noise, "seed": seed, "validation": curve, "test": test}


def main() -> None:
    """Train and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="KIND:UNITS")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.075])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    runs = [
        train(name, noise, seed)
        for name in options.names
        for noise in options.noise
        for seed in range(1, options.seeds + 1)
    ]
    found = {"torch": torch.__version__, "device": "cpu", "steps": STEPS, "learning_rate": RATE, "runs": runs}
    options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
