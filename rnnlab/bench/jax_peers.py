"""JAX as a peer: jit of lax.scan, vmap over it for a population, in a process of its own.

Of its own, because JAX's pool of threads and torch's would wait for each other's cores within one process. The process
inherits the cores that its parent may use, and JAX makes one thread for each.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from rnnlab.bench.equality import by_time, check_equal, results
from rnnlab.bench.timing import Side
from rnnlab.bench.torch_peers import Layer
from rnnlab.errors import BenchError


class JaxPeer:
    """A process that runs JAX; a context manager that ends it."""

    def __init__(self, threads: int) -> None:
        single = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"} if threads == 1 else {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rnnlab.bench.jax_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"JAX_PLATFORMS": "cpu", "NPROC": str(threads)} | single,
        )

    def __enter__(self) -> "JaxPeer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        if error is not None:
            process.terminate()
        with suppress(BrokenPipeError):
            process.stdin.close()  # the worker ends where its requests end
        process.stdout.close()
        process.wait()

    def side(self, case: str, cell: str, layers: Sequence[Layer], x: Tensor, dy: Tensor) -> Side:
        """The steps of a layer, or of a population of them, compiled and found equal to torch's.

        Args:
            case: what it is, for the error.
            cell: tanh, gru or lstm.
            layers: one layer, or the members of a population.
            x: [B, T, N] for one layer, [P, B, T, N] for a population.
            dy: the gradient of the output, of its shape.
        """
        x, dy = by_time(x, dy)
        is_population = x.dim() == 4
        numbers = [_numbers(layer) for layer in layers]
        joined = {name: torch.stack([each[name] for each in numbers]) for name in numbers[0]}
        arrays = {name: (value if is_population else value[0]).numpy() for name, value in joined.items()}
        found = self._ask((cell, arrays, x.numpy(), dy.numpy()))
        for member, layer in enumerate(layers):
            own = {name: torch.from_numpy(value[member] if is_population else value) for name, value in found.items()}
            given = (x[member], dy[member]) if is_population else (x, dy)
            check_equal(f"{case}, JAX's member {member}", own, exact_results(layer, *given))
        return self._times

    def _times(self, count: int) -> list[float]:
        """The seconds that each of so many training steps takes."""
        return self._ask(count)

    def _ask(self, request: Any) -> Any:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(request, process.stdin)
            process.stdin.flush()
            return pickle.load(process.stdout)
        except (EOFError, OSError) as error:
            raise BenchError("the process that runs JAX broke down; what it wrote stands above") from error


def exact_results(layer: Layer, x: Tensor, dy: Tensor) -> dict[str, Tensor]:
    """What a layer computes in float64, under the names and in the shapes of the worker's; x is [T, B, I]."""
    found = results(deepcopy(layer).double(), x.double(), dy.double())
    gradients = {name: found[f"gradient of {name}_l0"] for name in _KINDS}
    named = _arranged(layer, gradients, bias=gradients["bias_ih"])
    kept = {name: found[name] for name in ("output", "gradient of x")}
    return kept | {f"gradient of {name}": value for name, value in named.items()}


_KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _numbers(layer: Layer) -> dict[str, Tensor]:
    """A layer's numbers as the worker takes them."""
    values = {name: getattr(layer, f"{name}_l0").detach() for name in _KINDS}
    bias = values["bias_ih"] + values["bias_hh"]
    if isinstance(layer, torch.nn.GRU):
        kept = 2 * layer.hidden_size
        bias = torch.cat([bias[:kept], values["bias_ih"][kept:]])
    return _arranged(layer, values, bias=bias)


def _arranged(layer: Layer, values: dict[str, Tensor], *, bias: Tensor) -> dict[str, Tensor]:
    named = {"wx": values["weight_ih"].T.contiguous(), "wh": values["weight_hh"].T.contiguous(), "b": bias}
    if isinstance(layer, torch.nn.GRU):
        named["bn"] = values["bias_hh"][2 * layer.hidden_size :]
    return named
