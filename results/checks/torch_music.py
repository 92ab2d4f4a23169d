"""Weight noise on JSB Chorales in plain torch: where networks with noise hardly learn, is it us?

python results/checks/torch_music.py --units 200 400 --noise 0 0.02 0.075 -o torch-music.json

torch.nn.RNN and torch.optim.SGD with momentum, gradients clipped by torch; matrices begin as ours do, sparse with a
largest singular value of 1. Noise of a fixed deviation is added to all matrices at each step, and the gradient taken
there, as in Pascanu et al. 2014.
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


class Network(nn.Module):
    """A tanh network that reads notes and answers with a logit for every note."""

    def __init__(self, notes: int, units: int) -> None:
        super().__init__()
        self.hidden = nn.RNN(notes, units, batch_first=True)
        self.read_out = nn.Linear(units, notes)
        for each in (self.hidden.weight_ih_l0, self.read_out.weight):
            nn.init.xavier_uniform_(each)
        for each in (self.hidden.bias_ih_l0, self.hidden.bias_hh_l0, self.read_out.bias):
            nn.init.zeros_(each)
        matrix = torch.zeros(units, units)
        for row in matrix:
            row[torch.randperm(units)[:NONZEROS]] = torch.randn(NONZEROS)
        self.hidden.weight_hh_l0.data = matrix / torch.linalg.matrix_norm(matrix, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [B, T, notes]."""
        return self.read_out(self.hidden(inputs)[0])


def nats(network: Network, batch: Any) -> tuple[Tensor, Tensor]:
    """The nats of all steps that count, and how many they are."""
    logits = network(batch.inputs.float())
    each = nn.functional.binary_cross_entropy_with_logits(logits, batch.targets.float(), reduction="none")
    return (each.sum(-1) * batch.weights).sum(), batch.weights.sum()


def score(network: Network, problem: Any, split: str) -> float:
    """Nats per step on a split, without noise."""
    with torch.no_grad():
        found = [nats(network, batch) for batch in problem.batches(split, 100)]
    return float(sum(one for one, _ in found) / sum(other for _, other in found))


def train(units: int, noise: float, seed: int) -> dict[str, Any]:
    """One run: validation over time, and test with the numbers that were best."""
    torch.manual_seed(seed)
    problem = task("jsb-chorales")
    network = Network(problem.input_size, units)
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
    print(units, noise, seed, f"{best:.3f} {test:.3f}, {time.perf_counter() - started:.0f} s", flush=True)
    return {"units": units, "noise": noise, "seed": seed, "validation": curve, "test": test}


def main() -> None:
    """Train and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, nargs="+", default=[200])
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.075])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    runs = [
        train(units, noise, seed)
        for units in options.units
        for noise in options.noise
        for seed in range(1, options.seeds + 1)
    ]
    found = {"torch": torch.__version__, "device": "cpu", "steps": STEPS, "learning_rate": RATE, "runs": runs}
    options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
