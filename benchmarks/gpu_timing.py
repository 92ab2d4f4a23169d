"""Times, memory and errors of training steps on the GPU: what all parts of the benchmark measure, in one way."""

import gc
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

DEVICE = "cuda"
ERRORS = {"float32": 1e-4, "tf32": 2e-2, "bf16": 6e-2}  # of outputs and gradients, as norms, some hundred steps
ROUNDS, ROUND_MS = 5, 30.0  # long enough that the first launch is not what is timed
Step = Callable[[], Any]


@dataclass(frozen=True)
class Timed:
    """Milliseconds of a step, launched one by one and replayed as a CUDA graph; None and why where it cannot be one."""

    eager: float
    graphed: float | None
    note: str = ""

    @property
    def best(self) -> float:
        """The faster of the two."""
        return self.eager if self.graphed is None else min(self.eager, self.graphed)


def timed(step: Step) -> Timed:
    """Both ways to run a step, timed."""
    eager = milliseconds(step)
    try:
        return Timed(eager, milliseconds(graphed(step)))
    except Exception as error:
        return Timed(eager, None, f"no CUDA graph: {error!r}"[:200])


def milliseconds(step: Step) -> float:
    """The median of some rounds, each of as many steps as fill it."""
    _elapsed(step, 2)
    num_steps = max(1, min(200, round(ROUND_MS / _elapsed(step, 2))))
    return statistics.median(_elapsed(step, num_steps) for _ in range(ROUNDS))


def _elapsed(step: Step, num_steps: int) -> float:
    """Milliseconds of each of so many steps in a row."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(num_steps):
        step()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / num_steps


def graphed(step: Step) -> Step:
    """A step as a CUDA graph, after it has run on another stream, as torch wants it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def training_step(module: nn.Module, x: Tensor, dy: Tensor) -> Step:
    """Input product, forward, backward and all weight gradients; modules give their output and their state."""

    def step() -> None:
        module.zero_grad(set_to_none=True)
        module(x)[0].backward(dy)

    return step


def forward_step(module: nn.Module, x: Tensor) -> Step:
    """The forward pass alone, nothing kept for a backward pass."""

    def step() -> None:
        with torch.no_grad():
            module(x)

    return step


def free_memory() -> None:
    """Give back what earlier cases held; cuBLAS's own workspace stays, and is in nobody's peak."""
    _leave_out_imports()
    gc.collect()
    torch.cuda.empty_cache()
    for dtype in (torch.bfloat16, torch.float32):
        square = torch.ones(64, 64, device=DEVICE, dtype=dtype, requires_grad=True)
        # backward passes run in a thread that has a workspace of its own
        torch.addmm(square, square, square).sum().backward()


@lru_cache(maxsize=1)
def _leave_out_imports() -> None:
    """Have the garbage collector pass over what is there already: all modules take it 0.2 s each time."""
    gc.collect()
    gc.freeze()


def peak_gigabytes(make: Callable[[], Step]) -> tuple[Step, float]:
    """A step and the most that it holds at a time, parameters and data included; it has run twice then."""
    free_memory()
    before = torch.cuda.memory_allocated()
    step = make()
    step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return step, (torch.cuda.max_memory_allocated() - before) / 1e9


def kernel_microseconds(module: nn.Module, x: Tensor, dy: Tensor) -> tuple[float, float]:
    """Microseconds of rnnlab's own kernels, which are all called `kernel`, forward and backward.

    Not in a process that times: what the profiler leaves behind slows launches and does not go with CUDA graphs.
    """
    training_step(module, x, dy)()
    module.zero_grad(set_to_none=True)
    results: list[Tensor] = []
    forward = _profiled(lambda: results.append(module(x)[0]))
    return forward, _profiled(lambda: results[0].backward(dy))


def _profiled(step: Step) -> float:
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        step()
        torch.cuda.synchronize()
    return sum(event.device_time_total for event in profiler.key_averages() if event.key == "kernel")


def trained_once(module: nn.Module, x: Tensor, dy: Tensor) -> dict[str, Tensor]:
    """The output and all gradients of one training step; what nothing depends on has none."""
    module.zero_grad(set_to_none=True)
    y = module(x)[0]
    y.backward(dy)
    found = {"output": y.detach()}
    for name, value in module.named_parameters():
        if value.grad is not None:
            found[f"gradient of {name}"] = value.grad
    module.zero_grad(set_to_none=True)
    return found


def relative_errors(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, float]:
    """How far each result is from what it should be, as norms; infinite where it is not finite or missing."""
    errors: dict[str, float] = {}
    for name, want in wanted.items():
        size = float(want.double().norm())
        if size == 0.0 and name not in found:
            continue
        difference = float((found[name].double() - want.double()).norm()) if name in found else torch.inf
        errors[name] = difference / (size or 1.0) if difference == difference else torch.inf
    return errors


def largest_error(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> float:
    """The worst of them."""
    return max(relative_errors(found, wanted).values())


def check_error(error: float, precision: str) -> None:
    """Raise where a path is too far from float64 to be timed."""
    if not error < ERRORS[precision]:
        raise ArithmeticError(f"off by {error:.2g}, allowed is {ERRORS[precision]}: not timed")
