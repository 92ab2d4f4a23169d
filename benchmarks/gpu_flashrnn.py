"""FlashRNN's side, in processes of its own: LSTM in its own shape, 768 units in one head or twelve, bf16.

It compiles with nvcc for minutes, so a process is started early and times once it is sent a line. FlashRNN is given
the sums into the gates, [B, T, gates, heads, units]; what makes them of the inputs, a product of 768 by 3072 as in its
own benchmark, and a read-out of 16 are products of torch here and part of the step, as they are part of rnnlab's.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import gpu_timing  # noqa: E402
import torch  # noqa: E402
from gpu_models import OUTPUTS  # noqa: E402
from gpu_sizes import FLASHRNN  # noqa: E402
from torch import Tensor, nn  # noqa: E402

MOST_WRONG = 0.3  # as a norm: what is farther from float64 computes something else


class Network(nn.Module):
    """Input product, FlashRNN's recurrence with a head for each block of the recurrent matrix, read-out."""

    def __init__(self, heads: int, backend: str, dtype: torch.dtype) -> None:
        super().__init__()
        _, _, units = FLASHRNN
        self.heads, self.backend, self.width = heads, backend, units // heads
        generator = torch.Generator().manual_seed(0)

        def normal(*shape: int) -> nn.Parameter:
            return nn.Parameter(
                (torch.randn(shape, generator=generator) / shape[-1] ** 0.5).to(gpu_timing.DEVICE, dtype)
            )

        self.input, self.read_out = normal(4 * units, units), normal(OUTPUTS, units)
        self.recurrent, self.bias = normal(4, heads, self.width, self.width), normal(4, heads, self.width)
        self.read_out_bias = normal(OUTPUTS)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Outputs [B, T, M] of inputs [B, T, N]."""
        from flashrnn import flashrnn  # pyright: ignore[reportMissingImports]

        gates = nn.functional.linear(x, self.input).view(*x.shape[:2], 4, self.heads, self.width)
        name = "bfloat16" if x.dtype == torch.bfloat16 else "float32"
        states, _ = flashrnn(gates, self.recurrent, self.bias, function="lstm", backend=self.backend, dtype=name)
        h = states[0].reshape(*x.shape[:2], -1)
        return nn.functional.linear(h, self.read_out, self.read_out_bias), None


def exact_outputs(network: Network, x: Tensor) -> tuple[Tensor, None]:
    """The same by a plain loop, whose gates are in the order i, f, z, o."""
    given = nn.functional.linear(x, network.input).view(*x.shape[:2], 4, network.heads, network.width)
    h = c = x.new_zeros(x.shape[0], network.heads, network.width)
    states: list[Tensor] = []
    for step in range(x.shape[1]):
        recurrent = torch.einsum("bhp,ghdp->bghd", h, network.recurrent)
        i, f, z, o = (given[:, step] + recurrent + network.bias).unbind(1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(z)
        h = torch.sigmoid(o) * torch.tanh(c)
        states.append(h)
    return nn.functional.linear(torch.stack(states, 1).flatten(2), network.read_out, network.read_out_bias), None


class Exact(nn.Module):
    """The loop in float64 with a network's numbers."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = Network(network.heads, network.backend, torch.float64)
        self.network.load_state_dict(network.state_dict())

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Outputs [B, T, M]."""
        return exact_outputs(self.network, x)


def make_data(steps: int) -> tuple[Tensor, Tensor]:
    """Inputs and the gradient of the outputs, in bf16."""
    batch, _, units = FLASHRNN
    generator = torch.Generator(gpu_timing.DEVICE).manual_seed(1)
    x, dy = (
        torch.randn(batch, steps, width, generator=generator, device=gpu_timing.DEVICE).bfloat16()
        for width in (units, OUTPUTS)
    )
    return x, dy


def gpu_info(device_id: int) -> dict[str, int]:
    """What its fused kernels are fitted to; FlashRNN's own way to ask a GPU does not compile with CUDA 13."""
    found = torch.cuda.get_device_properties(device_id)
    return {
        "maxThreadsPerBlock": 1024,  # of every GPU
        "multiProcessorCount": found.multi_processor_count,
        "regsPerMultiprocessor": found.regs_per_multiprocessor,
        "sharedMemPerBlockOptin": found.shared_memory_per_block_optin,
    }


def compile_kernels(heads: int, backend: str) -> None:
    """Run a short sequence."""
    importlib.import_module("flashrnn.flashrnn.flashrnn").get_gpu_info = gpu_info
    # it waits up to ten seconds at random before each compilation, for the sake of clusters
    with mock.patch("random.random", return_value=0.0):
        gpu_timing.training_step(Network(heads, backend, torch.bfloat16), *make_data(32))()
    torch.cuda.synchronize()


def measure(heads: int, backend: str) -> dict[str, Any]:
    """A training step, after it was compared with float64."""
    network = Network(heads, backend, torch.bfloat16)
    x, dy = make_data(FLASHRNN[1])
    wanted = gpu_timing.trained_once(Exact(network), x.double(), dy.double())
    found = gpu_timing.trained_once(network, x, dy)
    error = gpu_timing.largest_error(found, {name.replace("network.", ""): each for name, each in wanted.items()})
    if not error < MOST_WRONG:
        raise ArithmeticError(f"off by {error:.2g}")
    del wanted, found
    step, gigabytes = gpu_timing.peak_gigabytes(
        lambda: gpu_timing.training_step(Network(heads, backend, torch.bfloat16), *make_data(FLASHRNN[1]))
    )
    timed = gpu_timing.timed(step)
    times = {"peer_ms": timed.best, "peer_ms_eager": timed.eager, "peer_ms_graphed": timed.graphed}
    return times | {"peer_setting": backend, "peer_error": error, "peer_gigabytes": gigabytes}


def attempt(heads: int, backend: str) -> dict[str, Any]:
    """What was measured, or why FlashRNN could not be."""
    try:
        compile_kernels(heads, backend)
        sys.stdin.readline()
        return measure(heads, backend)
    except Exception as error:
        return {"failed": f"not available: {backend}: {type(error).__name__}: {error}"[:300]}


def main(heads: int, backend: str) -> None:
    """Compile, wait for a line, time, print a row of JSON."""
    answers = os.fdopen(os.dup(1), "w")  # compilers write to standard output
    os.dup2(2, 1)
    print(json.dumps({"heads": heads} | attempt(heads, backend)), file=answers, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
