"""torch.nn.RNN or torch.nn.LSTM on the images of `zhang-table2`: where we and the paper differ, is it us?

python results/checks/torch_mnist.py lstm --rate 1e-4 --gate-bias 3 --scale 0.5 --steps 4000 --device cuda -o lstm.json
python results/checks/torch_mnist.py tanh --task permuted-mnist --scale 0.7 -o tanh.json
python results/checks/torch_mnist.py lstm --task permuted-mnist --rate 1e-2 --steps 2000 -o both.json
python results/checks/torch_mnist.py lstm --task permuted-mnist --rate 1e-2 --steps 2000 --one-bias -o one.json

made torch-lstm-mnist.json, torch-tanh-permuted-mnist.json, torch-lstm-permuted-mnist.json and
torch-lstm-one-bias-permuted-mnist.json.

Everything is torch's own, but the images and how they are drawn. torch's layers have two biases where one would do, and
Adam moves their sum twice as far; with `--one-bias`, one of them stays at zero.
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

BATCH, EVALUATE_EVERY = 50, 500


class Network(nn.Module):
    """A recurrent layer and a read-out of its last state."""

    def __init__(self, kind: str, units: int, scale: float, gate_bias: float, has_one_bias: bool) -> None:
        super().__init__()
        self.layer = {"lstm": nn.LSTM, "tanh": nn.RNN}[kind](1, units, batch_first=True)
        self.read_out = nn.Linear(units, 10)
        for name, matrix in self.layer.named_parameters():
            if name.startswith("weight"):  # Glorot's, of each gate by itself; hidden matrices scaled
                for gate in matrix.data.split(units):
                    nn.init.xavier_uniform_(gate, gain=scale if name.startswith("weight_hh") else 1.0)
            else:
                nn.init.zeros_(matrix)
        nn.init.xavier_uniform_(self.read_out.weight)
        nn.init.zeros_(self.read_out.bias)
        if kind == "lstm":  # torch's gates are i, f, g, o
            self.layer.bias_ih_l0.data[units : 2 * units] = gate_bias
        self.layer.bias_hh_l0.requires_grad_(not has_one_bias)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of ten digits, [B, 10]."""
        return self.read_out(self.layer(x)[0][:, -1])


def accuracy(network: Network, problem: Any, split: str, device: str) -> float:
    """On a split."""
    right = total = 0
    with torch.no_grad():
        for batch in problem.batches(split, 1000, device=device):
            right += int((network(batch.inputs).argmax(dim=-1) == batch.targets).sum())
            total += len(batch.targets)
    return right / total


def train(options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One run: accuracy on validation over time, and on test with the numbers that were best."""
    torch.manual_seed(seed)
    problem = task(options.task)
    network = Network(options.kind, options.units, options.scale, options.gate_bias, options.one_bias).to(
        options.device
    )
    optimiser = torch.optim.Adam(network.parameters(), lr=options.rate)
    generator = torch.Generator(options.device).manual_seed(seed)
    curve, best, numbers, started = [], -math.inf, {}, time.perf_counter()
    for step in range(1, options.steps + 1):
        batch = problem.sample(BATCH, generator=generator)
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(batch.inputs), batch.targets).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        if step % EVALUATE_EVERY == 0:
            curve.append(accuracy(network, problem, "validation", options.device))
            if curve[-1] > best:
                best, numbers = curve[-1], {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(numbers)
    seconds = time.perf_counter() - started
    test = accuracy(network, problem, "test", options.device)
    return {"seed": seed, "validation": curve, "test": test, "seconds": seconds}


def main() -> None:
    """Train and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["lstm", "tanh"])
    parser.add_argument("--task", default="mnist", choices=["mnist", "permuted-mnist"])
    parser.add_argument("--units", type=int, default=90)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--gate-bias", type=float, default=1.0)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--one-bias", action="store_true")
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    runs = [train(options, seed) for seed in range(1, options.seeds + 1)]
    device = torch.cuda.get_device_name() if options.device.startswith("cuda") else options.device
    found = {**vars(options), "output": options.output.name, "device": device, "torch": torch.__version__, "runs": runs}
    options.output.write_text(json.dumps(found, indent=1) + "\n")
    tests = ", ".join(f"{run['test']:.4f}" for run in runs)
    print(f"test accuracy {tests}; {runs[0]['seconds']:.0f} s a run")


if __name__ == "__main__":
    main()
