"""How fast a training step is on the CPU: against torch.nn where it has the network, else against loops.

Two kinds of loop: one written by hand for its network, with the input product hoisted, as a careful user writes it; and
rnnlab's own reference interpreter, which runs any network and is meant to be read, not to be fast.

    python benchmarks/cpu.py

A step is forward, backward and all weight gradients, the input product included. Outputs and gradients of every case
are compared first, but for populations, which the tests compare. Writes benchmarks/results/cpu-N-threads.json; rows
that lose are in it like all others.
"""

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

THREADS = int(os.environ.get("THREADS", "1"))
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(THREADS)  # before numpy and torch are loaded

import torch  # noqa: E402
from torch import nn  # noqa: E402

from rnnlab import Model, architecture, from_torch  # noqa: E402

ROOT = Path(__file__).parents[1]
SHAPES = ((32, 100, 32, 32), (32, 100, 32, 64), (64, 175, 300, 256), (50, 180, 27, 512))
MODULES: dict[str, type[nn.RNNBase]] = {"tanh": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
LOOPED = ("td:tanh", "skip-21:tanh", "dts-2:tanh", "dots-2:tanh", "stack-8:intersection", "mongia-d:lstm")


def milliseconds(step: Callable[[], Any], repeats: int) -> float:
    """The median of `repeats` runs, after one to warm up."""
    step()
    times: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def training_step(module: nn.Module, x: torch.Tensor) -> Callable[[], torch.Tensor]:
    weights = torch.randn(module(x)[0].shape, generator=torch.Generator().manual_seed(1))

    def step() -> torch.Tensor:
        module.zero_grad(set_to_none=True)
        y, _ = module(x)
        y.backward(weights)
        return y

    return step


def check(mine: nn.Module, theirs: nn.Module, x: torch.Tensor) -> None:
    """Both compute the same, gradients of the inputs included."""
    results = []
    for module in (mine, theirs):
        given = x.clone().requires_grad_()
        y, _ = module(given)
        y.sum().backward()
        results.append((y.detach(), given.grad))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def row(case: str, peer: str, ours: float, theirs: float) -> dict[str, Any]:
    print(f"{case:<36} rnnlab {ours:9.2f} ms   {peer} {theirs:9.2f} ms   {theirs / ours:6.2f} times", flush=True)
    return {"case": case, "peer": peer, "threads": THREADS, "ours_ms": ours, "peer_ms": theirs, "ratio": theirs / ours}


def against_torch() -> list[dict[str, Any]]:
    rows = []
    for cell, kind in MODULES.items():
        for batch, steps, inputs, units in SHAPES:
            torch.manual_seed(0)  # torch's modules take no generator
            theirs = kind(inputs, units, batch_first=True)
            mine = from_torch(theirs)
            x = torch.randn(batch, steps, inputs)
            check(mine, theirs, x)
            repeats = 21 if units < 128 else 7
            pair = [milliseconds(training_step(module, x), repeats) for module in (mine, theirs)]
            rows.append(row(f"{cell} {batch, steps, inputs, units}", f"torch.nn.{kind.__name__}", *pair))
    return rows


class Loop(nn.Module):
    """td or skip-21 with tanh cells as a loop of torch operations under autograd, on the numbers of a model."""

    def __init__(self, model: Model, name: str) -> None:
        super().__init__()
        self.arrays, self.name = model.arrays, name

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, None]:
        states = self.td(x) if self.name.startswith("td") else self.skip(x)
        last = "h2" if self.name.startswith("td") else "h"
        return torch.stack(states, dim=1) @ self.arrays[f"{last}->y[0]"][0] + self.arrays["y bias"][0], None

    def td(self, x: torch.Tensor) -> list[torch.Tensor]:
        (w1, u1, v1, w2, u2), (b1, b2) = (
            self.take("x->h1[0] h1->h1[1] h2->h1[1] h1->h2[0] h2->h2[1]"),
            self.take("h1 bias,h2 bias", ","),
        )
        h1, h2 = (value.expand(len(x), -1) for value in self.take("h1 initial h,h2 initial h", ","))
        states: list[torch.Tensor] = []
        for given in (x @ w1 + b1).unbind(1):
            h1 = torch.tanh(given + h1 @ u1 + h2 @ v1)
            h2 = torch.tanh(torch.addmm(b2, h1, w2) + h2 @ u2)
            states.append(h2)
        return states

    def skip(self, x: torch.Tensor) -> list[torch.Tensor]:
        (w, u, v), (b, h) = self.take("x->h[0] h->h[1] h->h[21]"), self.take("h bias,h initial h", ",")
        states = [h.expand(len(x), -1)] * 21
        for given in (x @ w + b).unbind(1):
            states.append(torch.tanh(given + states[-1] @ u + states[-21] @ v))
        return states[21:]

    def take(self, names: str, separator: str = " ") -> list[torch.Tensor]:
        return [self.arrays[name][0] for name in names.split(separator)]


def against_a_loop_by_hand() -> list[dict[str, Any]]:
    rows = []
    batch, steps, inputs, units = 32, 100, 32, 64
    for name in ("td:tanh", "skip-21:tanh"):
        network = architecture(name, input_size=inputs, output_size=10, units=units)
        model = Model(network, generator=torch.Generator().manual_seed(0))
        loop = Loop(model, name)
        x = torch.randn(batch, steps, inputs, generator=torch.Generator().manual_seed(2))
        check(model, loop, x)
        pair = [milliseconds(training_step(module, x), 15) for module in (model, loop)]
        rows.append(row(f"{name} {batch, steps, inputs, units}", "loop by hand", *pair))
    return rows


def against_the_interpreter() -> list[dict[str, Any]]:
    """The same network on the reference path."""
    rows = []
    batch, steps, inputs, units = 32, 100, 32, 64
    for name in LOOPED:
        network = architecture(name, input_size=inputs, output_size=10, units=units)
        models = [
            Model(network, generator=torch.Generator().manual_seed(0), path=path) for path in ("cpu", "reference")
        ]
        x = torch.randn(batch, steps, inputs, generator=torch.Generator().manual_seed(2))
        check(models[0], models[1], x)
        pair = [milliseconds(training_step(model, x), 7) for model in models]
        rows.append(row(f"{name} {batch, steps, inputs, units}", "interpreter", *pair))
    return rows


def population(size: int = 16) -> list[dict[str, Any]]:
    """A population of small networks against as many steps of torch.nn one after another."""
    rows = []
    batch, steps, inputs, units = 32, 100, 32, 32
    for cell, kind in MODULES.items():
        network = architecture(cell, input_size=inputs, output_size=units, units=units)
        several = Model(network, generator=torch.Generator().manual_seed(0), population=size)
        theirs = kind(inputs, units, batch_first=True)
        x = torch.randn(batch, steps, inputs)
        ours = milliseconds(training_step(several, x), 7)
        step = training_step(theirs, x)
        alone = milliseconds(lambda step=step: [step() for _ in range(size)], 5)
        rows.append(row(f"{size} x {cell} {batch, steps, inputs, units}", f"torch.nn.{kind.__name__}", ours, alone))
    return rows


def main() -> None:
    torch.set_num_threads(THREADS)
    path = ROOT / "benchmarks" / "results" / f"cpu-{THREADS}-threads.json"
    results = {
        "machine": f"{platform.machine()}, {THREADS} of {os.cpu_count()} cores",
        "versions": {"python": platform.python_version()}
        | {package: version(package) for package in ("rnnlab", "numpy", "torch")},
        "rows": [*against_torch(), *against_a_loop_by_hand(), *against_the_interpreter(), *population()],
    }
    path.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
