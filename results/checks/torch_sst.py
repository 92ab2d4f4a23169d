"""Mongia's versions A, C and D on film reviews in plain torch: where we and the paper differ, is it us?

python results/checks/torch_sst.py a:relu c:relu d:relu a:lstm c:lstm d:lstm --words glorot normal -o torch-sst.json

Loops over time written out, gradients by autograd, torch.optim.Adam; learning rates, penalties and scales of hidden
matrices are those that were best in the record. Words begin as ours do (Glorot's bounds, `glorot`) or as those of
torch.nn.Embedding do (`normal`).
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rnnlab import load_record, task

RECORD = Path(__file__).parents[1] / "records" / "mongia-sst.json.gz"
UNITS, BATCH, STEPS, EVALUATE_EVERY = 64, 50, 2000, 200


class Network(nn.Module):
    """One matrix (A, C) or two that take turns (D); C and D add, every second step, the output of two steps before."""

    def __init__(self, version: str, cell: str, words: int, labels: int, words_begin: str, scale: float) -> None:
        super().__init__()
        self.cell, self.has_skip = cell, version != "a"
        gates = 4 if cell == "lstm" else 1
        self.words = nn.Embedding(words, gates * UNITS)  # as a matrix of inputs: words are one of so many
        self.hidden = nn.ModuleList(nn.Linear(UNITS, gates * UNITS) for _ in range(2 if version == "d" else 1))
        self.read_out = nn.Linear(UNITS, labels)
        if words_begin == "glorot":
            nn.init.uniform_(self.words.weight, -math.sqrt(6 / (words + UNITS)), math.sqrt(6 / (words + UNITS)))
        for linear in (*self.hidden, self.read_out):
            nn.init.zeros_(linear.bias)
            for gate in linear.weight.data.split(UNITS):
                nn.init.xavier_uniform_(gate, gain=1.0 if linear is self.read_out else scale)

    def forward(self, tokens: Tensor, last: Tensor) -> Tensor:
        """Logits of labels after the last word, [B, labels]."""
        from_words = self.words(tokens)
        outputs: list[Tensor] = []
        h = cell_state = before = from_words.new_zeros(len(tokens), UNITS)
        for step in range(tokens.shape[1]):
            sums = from_words[:, step] + self.hidden[step % len(self.hidden)](h)
            if self.cell == "lstm":
                keep, write, candidate, show = sums.split(UNITS, dim=-1)
                cell_state = keep.sigmoid() * cell_state + write.sigmoid() * candidate.tanh()
                new = show.sigmoid() * cell_state.tanh()
            else:
                new = sums.relu()
            if self.has_skip and step % 2 == 1:
                new = new + before
            before, h = h, new
            outputs.append(h)
        return self.read_out(torch.stack(outputs, dim=1)[torch.arange(len(tokens)), last])


def logits_of(network: Network, batch: Any) -> Tensor:
    """The network's answers to a batch."""
    return network(batch.inputs, batch.weights.argmax(-1))


def accuracy(network: Network, problem: Any, split: str) -> float:
    """On a split."""
    right = total = 0
    with torch.no_grad():
        for batch in problem.batches(split, 1000):
            right += int((logits_of(network, batch).argmax(dim=-1) == batch.targets).sum())
            total += len(batch.targets)
    return right / total


def train(name: str, words_begin: str, seed: int, setting: Any) -> dict[str, Any]:
    """One run: accuracy on validation over time, and on test with the numbers that were best."""
    torch.manual_seed(seed)
    problem = task("sst")
    version, cell = name.split(":")
    scale = setting.initialisation.square_scale
    network = Network(version, cell, problem.input_size, problem.output_size, words_begin, scale)
    optimiser = torch.optim.Adam(network.parameters(), lr=setting.learning_rate, weight_decay=setting.l2)
    generator = torch.Generator().manual_seed(seed)
    curve, best, numbers, started = [], -math.inf, {}, time.perf_counter()
    for step in range(1, STEPS + 1):
        batch = problem.sample(BATCH, generator=generator)
        optimiser.zero_grad()
        nn.functional.cross_entropy(logits_of(network, batch), batch.targets).backward()
        optimiser.step()
        if step % EVALUATE_EVERY == 0:
            curve.append(accuracy(network, problem, "validation"))
            if curve[-1] > best:
                best, numbers = curve[-1], {key: value.clone() for key, value in network.state_dict().items()}
    network.load_state_dict(numbers)
    test = accuracy(network, problem, "test")
    print(name, words_begin, seed, f"{best:.4f} {test:.4f}, {time.perf_counter() - started:.0f} s", flush=True)
    return {"name": name, "words": words_begin, "seed": seed, "validation": curve, "test": test}


def main() -> None:
    """Train and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="VERSION:CELL")
    parser.add_argument("--words", nargs="+", default=["glorot"], choices=["glorot", "normal"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    settings = {each.arm.name: each.chosen.hyperparameters for each in load_record(RECORD).arms}
    runs = [
        train(name, words, seed, settings[f"mongia-{name}"])
        for words in options.words
        for seed in range(1, options.seeds + 1)
        for name in options.names
    ]
    found = {"torch": torch.__version__, "device": "cpu", "steps": STEPS, "runs": runs}
    options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
