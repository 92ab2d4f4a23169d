"""LSTMs on the streams of `zhang-table1`: scores of texts that begin from nothing, and that go on where training is.

python results/checks/carried_state.py --steps 6000 --device cuda -o carried-state.json

made carried-state.json. Training hands every window the state in which the window before it ended, so from the second
window of a pass over the text on a network never begins from nothing; scoring a text begins there. Each network is
scored both ways, as rnnlab trains it; as torch.nn.LSTM and torch.optim.Adam do; and with streams that begin from
nothing again now and then. The networks train side by side, each in a process of its own.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rnnlab import Initialisation, Model, architecture, task
from rnnlab.engine.state import State
from rnnlab.tasks.task import Batch

BATCH, RATE, GATE_BIAS, NUM_WINDOWS = 50, 1e-3, 1.0, 100
RUNS: list[dict[str, Any]] = [
    {"network": "sh:lstm", "by": "rnnlab", "scale": 1.0, "restart": 0.0},
    {"network": "sh:lstm", "by": "torch", "scale": 1.0, "restart": 0.0},
    {"network": "sh:lstm", "by": "rnnlab", "scale": 1.0, "restart": 0.01},
    {"network": "td:lstm", "by": "rnnlab", "scale": 0.5, "restart": 0.0},
    {"network": "td:lstm", "by": "rnnlab", "scale": 0.5, "restart": 0.01},
]


class OurNetwork(nn.Module):
    """One of rnnlab's, of 1.1 million parameters, with its state between windows as rnnlab has it."""

    def __init__(self, network: str, scale: float, precision: str) -> None:
        super().__init__()
        found = architecture(
            network, input_size=27, output_size=27, parameters=1_119_771, encoding="tokens", initial="zero"
        )
        start = Initialisation(square_scale=scale, gate_bias=GATE_BIAS)
        self.model = Model(found, seed=0, initialisation=start, precision=precision)

    def forward(self, x: Tensor, state: State | None) -> tuple[Tensor, State]:
        """Logits [B, T, 27] of the next characters."""
        outputs, state = self.model(x, state)
        return outputs, state.detach()

    @staticmethod
    def restarted(state: State, goes_on: Tensor) -> State:
        """The state of the streams that go on; the others begin from nothing, which is zero."""
        mask = goes_on[:, None, None]
        return State(state.step, {part: value * mask for part, value in state.values.items()})


class TorchNetwork(nn.Module):
    """torch's own layer and read-out, initialised as ours."""

    def __init__(self, units: int, scale: float) -> None:
        super().__init__()
        self.layer = nn.LSTM(27, units, batch_first=True)
        self.read_out = nn.Linear(units, 27)
        for name, matrix in self.layer.named_parameters():
            if name.startswith("weight"):  # Glorot's, of each gate by itself; hidden matrices scaled
                for gate in matrix.data.split(units):
                    nn.init.xavier_uniform_(gate, gain=scale if name.startswith("weight_hh") else 1.0)
            else:
                nn.init.zeros_(matrix)
        nn.init.xavier_uniform_(self.read_out.weight)
        nn.init.zeros_(self.read_out.bias)
        self.layer.bias_ih_l0.data[units : 2 * units] = GATE_BIAS  # torch's gates are i, f, g, o

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Logits [B, T, 27] of the next characters."""
        outputs, (h, c) = self.layer(nn.functional.one_hot(x, 27).float(), state)
        return self.read_out(outputs), (h.detach(), c.detach())


def bits(outputs: Tensor, batch: Batch) -> Tensor:
    """The mean of a window, in bits per character."""
    return nn.functional.cross_entropy(outputs.flatten(0, 1), batch.targets.flatten()) / math.log(2.0)


def scored(network: nn.Module, problem: Any, state: Any, device: str) -> list[float]:
    """Bits per character of the first windows of the validation text, one after another from a state."""
    found = []
    with torch.no_grad():
        for number, batch in enumerate(problem.batches("validation", BATCH, device=device)):
            if number == NUM_WINDOWS:
                break
            outputs, state = network(batch.inputs, state)
            found.append(bits(outputs, batch))
    return torch.stack(found).tolist()


def train(run: dict[str, Any], options: argparse.Namespace, write: Callable[[dict[str, Any]], None]) -> None:
    """One network; what is known of it is written at every mark."""
    torch.manual_seed(0)
    problem = task("text8-zhang")
    if run["by"] == "torch":
        network: nn.Module = TorchNetwork(512, run["scale"]).to(options.device)
    else:
        network = OurNetwork(run["network"], run["scale"], options.precision).to(options.device)
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    state, marks, begun = None, [], time.perf_counter()
    for step, batch in enumerate(problem.batches("train", BATCH, device=options.device), 1):
        if run["restart"] and state is not None:
            state = network.restarted(state, (torch.rand(BATCH, device=options.device) >= run["restart"]).float())
        outputs, state = network(batch.inputs, state)
        loss = bits(outputs, batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % options.every == 0:
            fresh, carried = (scored(network, problem, each, options.device) for each in (None, state))
            mark = {"step": step, "training": loss.item()}
            mark |= {"from_nothing": sum(fresh) / NUM_WINDOWS, "carried_on": sum(carried) / NUM_WINDOWS}
            marks.append(mark)
            by_window = {"from_nothing": fresh, "carried_on": carried}
            seconds = time.perf_counter() - begun
            write({**run, "seconds": seconds, "marks": marks, "bits_by_window": by_window})
            print(run, mark, f"{seconds:.0f} s", flush=True)
        if step == options.steps:
            return


def work(number: int, options: argparse.Namespace) -> None:
    """One of the runs, in a process of its own."""
    place = options.output.with_suffix(f".{number}.part")
    train(RUNS[number], options, lambda found: place.write_text(json.dumps(found)))


def main() -> None:
    """All runs side by side, as far as they come, in one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--every", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3600.0, help="after which no run goes on")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    processes = [
        torch.multiprocessing.get_context("spawn").Process(target=work, args=(number, options), daemon=True)
        for number in range(len(RUNS))
    ]
    ends = time.monotonic() + options.seconds
    for each in processes:
        each.start()
    for each in processes:
        each.join(max(0.0, ends - time.monotonic()))
        each.kill()
    parts = [options.output.with_suffix(f".{number}.part") for number in range(len(RUNS))]
    runs = [json.loads(each.read_text()) for each in parts if each.exists()]
    device = torch.cuda.get_device_name() if options.device.startswith("cuda") else options.device
    found = {"batch_size": BATCH, "learning_rate": RATE, "gate_bias": GATE_BIAS, "windows": NUM_WINDOWS}
    found |= {"precision": options.precision, "device": device, "torch": torch.__version__, "runs": runs}
    options.output.write_text(json.dumps(found, indent=1) + "\n")
    for each in parts:
        each.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
