"""Hidden matrices with Glorot's bounds and smaller ones: where a network of more recurrent depth is behind, is it us?

python results/checks/start_scale.py -o results/checks/start-scale.json

Two hidden matrices into one node add their variances. `gradients` has the norm of the first gradient, in float64 on the
reference path, for the nine networks of Zhang et al. 2016, section 4.3, and four with skips of sections 4.4 and 4.5, on
50 images of sequential MNIST; float32 ends at 3e38. `text8` has bu and td, which differ in the direction of one
connection, as loops in plain torch, trained by torch.optim.Adam with 50 texts side by side, their states carried on.
"""

import argparse
import json
import math
import time
from itertools import islice, product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from rnnlab import Model, architecture, task
from rnnlab.engine.initialisation import Initialisation

SCALES = (1.0, 0.7, 0.6, 0.5)
GRID = [f"grid-{forward}-{recurrent}:tanh" for forward, recurrent in product((2, 3, 4), (1, 2, 3))]
SKIPS = [f"{name}:tanh" for name in ("skip-5", "skip-21", "section45-3-17", "section45-4-21")]
PARAMETERS = 9190  # of the networks on MNIST
UNITS, STEPS, EVALUATE_EVERY, BATCH, RATE = 151, 400, 100, 50, 1e-3  # on text8; 100,000 parameters


def first_gradient(name: str, scale: float, seed: int) -> float:
    """The norm of a network's gradient before the first step."""
    problem = task("mnist")
    network = Model(
        architecture(name, input_size=1, output_size=10, parameters=PARAMETERS, fit="nearest", initial="zero"),
        generator=torch.Generator().manual_seed(seed),
        initialisation=Initialisation(square_scale=scale),
        path="reference",
    ).double()
    batch = problem.sample(BATCH, generator=torch.Generator().manual_seed(seed))
    outputs, _ = network(batch.inputs.double())
    problem.loss(outputs, batch).mean().backward()
    gradients = [each.grad for each in network.parameters() if each.grad is not None]
    return math.sqrt(sum(float(each.square().sum()) for each in gradients))


class TwoLayers(nn.Module):
    """A stack of two tanh layers; `td` leads from the upper one to the lower one's next step, `bu` the other way."""

    def __init__(self, kind: str, scale: float) -> None:
        super().__init__()
        self.kind = kind
        self.embedding = nn.Embedding(27, UNITS)
        self.lower, self.upward, self.upper, self.extra = (nn.Linear(UNITS, UNITS, bias=False) for _ in range(4))
        self.lower_bias, self.upper_bias = (nn.Parameter(torch.zeros(UNITS)) for _ in range(2))
        self.read_out = nn.Linear(UNITS, 27)
        nn.init.zeros_(self.read_out.bias)
        for each in (self.embedding, self.read_out, self.lower, self.upward, self.upper, self.extra):
            nn.init.xavier_uniform_(each.weight)
        for each in (self.lower, self.upward, self.upper, self.extra):
            each.weight.data *= scale

    def forward(self, tokens: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Logits, [B, T, 27], and the state behind them."""
        low, high = state
        highs = []
        for given in self.embedding(tokens).unbind(1):
            before = low
            low = torch.tanh(given + self.lower(low) + (self.extra(high) if self.kind == "td" else 0) + self.lower_bias)
            sideways = self.extra(before) if self.kind == "bu" else 0
            high = torch.tanh(self.upward(low) + self.upper(high) + sideways + self.upper_bias)
            highs.append(high)
        return self.read_out(torch.stack(highs, dim=1)), (low.detach(), high.detach())


def train(kind: str, scale: float) -> dict[str, Any]:
    """Bits a character on validation over time."""
    torch.manual_seed(1)
    problem = task("text8-zhang", num_evaluation=20_000)
    network = TwoLayers(kind, scale)
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    zeros = (torch.zeros(BATCH, UNITS), torch.zeros(BATCH, UNITS))
    state, curve, started = zeros, [], time.perf_counter()
    for step, batch in enumerate(islice(problem.batches("train", BATCH), STEPS), start=1):
        logits, state = network(batch.inputs, state)
        optimiser.zero_grad()
        cross_entropy(logits.flatten(0, 1), batch.targets.flatten()).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        if step % EVALUATE_EVERY == 0:
            curve.append(bits(network, problem, zeros))
    print(kind, scale, curve, f"{time.perf_counter() - started:.0f} s", flush=True)
    return {"network": kind, "scale": scale, "validation": curve}


@torch.no_grad()
def bits(network: TwoLayers, problem: Any, state: tuple[Tensor, Tensor]) -> float:
    """Bits a character on validation."""
    total = count = 0.0
    for batch in problem.batches("validation", BATCH):
        logits, state = network(batch.inputs, state)
        each = cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), reduction="none") * batch.weights.flatten()
        total, count = total + float(each.sum()), count + float(batch.weights.sum())
    return total / count / math.log(2)


def main() -> None:
    """Work out and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    gradients = [
        {"network": name, "scale": scale, "norms": [first_gradient(name, scale, seed) for seed in (1, 2, 3)]}
        for name, scale in product(GRID + SKIPS, SCALES)
    ]
    runs = [train(kind, scale) for kind, scale in product(("bu", "td"), SCALES)]
    found = {"torch": torch.__version__, "device": "cpu", "gradients": gradients, "steps": STEPS, "text8": runs}
    options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
