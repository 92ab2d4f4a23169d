"""Training steps of populations against cuDNN, JAX and batched products, a row for each peer and precision."""

import math
from typing import Any

import gpu_cudnn
import gpu_timing
import torch
from gpu_models import OUTPUTS, Case, make_data, make_model
from gpu_process import Row, spending
from gpu_sizes import POPULATION, POPULATION_GOALS
from torch import Tensor, nn

PRECISIONS = ("bf16", "tf32", "float32")
Population = tuple[str, int, int]  # cell, units, members


def cases(population: Population) -> tuple[Case, ...]:
    """A population in every precision."""
    cell, units, members = population
    batch, steps, inputs = POPULATION
    return tuple(Case(f"sh:{cell}", units, inputs, batch, steps, precision, members) for precision in PRECISIONS)


def rows(population: Population, jax: dict[Any, Row], known: dict[Case, Row]) -> list[Row]:
    """The rows of a population: ours and a peer's milliseconds for all members, and how many times faster we are.

    Args:
        population: what is run.
        jax: what JAX has measured in its process.
        known: of each case the seconds of its first call, and its error or why it failed, and is not timed.
    """
    torch.set_num_threads(1)  # FlashRNN's compilers have most cores: a team of threads would wait for its last one
    cell, units, members = population
    batch, steps, inputs = POPULATION
    cudnn, failed = gpu_cudnn.measure(cell, inputs, units, batch, steps)
    found: list[Row] = [{"network": cell, "units": units, "peer": f"cudnn {k}", "failed": v} for k, v in failed.items()]
    for case in cases(population):
        row = {"network": cell, "units": units, "members": members, "precision": case.precision} | known[case]
        if "failed" in row:
            found.append(row)
            continue
        try:
            row |= ours(case)
        except Exception as error:
            found.append(row | {"failed": f"{type(error).__name__}: {error}"[:500]})
            continue
        for peer in _peers(case, cudnn, jax):
            found.append(_with_ratio(row | peer))
    return found


def ours(case: Case) -> Row:
    """What is measured of rnnlab."""
    step, gigabytes = gpu_timing.peak_gigabytes(lambda: gpu_timing.training_step(make_model(case), *make_data(case)))
    with spending("ours timed"):
        timed = gpu_timing.timed(step)
    assert case.members is not None
    return {
        "ms": timed.best,
        "ms_eager": timed.eager,
        "ms_graphed": timed.graphed,
        "note": timed.note,
        "ms_per_member": timed.best / case.members,
        "gigabytes": gigabytes,
    }


def _peers(case: Case, cudnn: dict[str, gpu_cudnn.Found], jax: dict[Any, Row]) -> list[Row]:
    found: list[Row] = []
    assert case.members is not None
    if fastest := gpu_cudnn.fastest(cudnn, case.precision):
        per_member = {"peer_ms": fastest.timed.best * case.members, "peer_ms_per_member": fastest.timed.best}
        found.append({"peer": "cudnn", "peer_setting": fastest.setting, "peer_error": fastest.error} | per_member)
    if theirs := jax.get((case.network, case.units, case.members, case.precision)):
        if "failed" in theirs:
            found.append({"peer": "jax", "failed": theirs["failed"]})
        else:
            setting = f"unroll {theirs['unroll']}"
            found.append({"peer": "jax", "peer_ms": theirs["ms"], "peer_setting": setting})
            found[-1]["peer_error"] = theirs["error"]
    if ("batched products", case.precision, case.network.removeprefix("sh:"), case.units) in POPULATION_GOALS:
        found.append({"peer": "batched products", **batched_products(case)})
    return found


def _with_ratio(row: Row) -> Row:
    if "failed" in row:
        return row
    goal = POPULATION_GOALS.get((row["peer"], row["precision"], row["network"], row["units"]))
    ratio = row["peer_ms"] / row["ms"]
    return row | {"times_faster": ratio, "goal": goal, "met": None if goal is None else ratio >= goal}


class BatchedProducts(nn.Module):
    """A population of tanh layers by autograd over batched products, without biases, time first."""

    def __init__(self, members: int, inputs: int, units: int, dtype: torch.dtype) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)

        def matrix(rows: int, columns: int) -> nn.Parameter:
            values = torch.randn(members, rows, columns, generator=generator) / math.sqrt(rows)
            return nn.Parameter(values.to(gpu_timing.DEVICE, dtype))

        self.input, self.recurrent = matrix(inputs, units), matrix(units, units)
        self.read_out = matrix(units, OUTPUTS)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Outputs [P, T, B, M] of inputs [T, B, N]."""
        members, _, units = self.recurrent.shape
        steps, batch, _ = x.shape
        given = torch.bmm(x.flatten(0, 1).expand(members, -1, -1), self.input).view(members, steps, batch, units)
        h, states = given.new_zeros(members, batch, units), []
        for step in range(steps):
            h = torch.tanh(torch.baddbmm(given[:, step], h, self.recurrent))
            states.append(h)
        outputs = torch.bmm(torch.stack(states, 1).flatten(1, 2), self.read_out)
        return outputs.view(members, steps, batch, OUTPUTS), None


@spending("batched products")
def batched_products(case: Case) -> Row:
    """What is measured of batched products in bf16, as a CUDA graph."""
    assert case.members is not None
    x, dy = (value.transpose(-3, -2).contiguous() for value in make_data(case))
    few = BatchedProducts(2, case.inputs, case.units, torch.bfloat16)
    exact = BatchedProducts(2, case.inputs, case.units, torch.float64)
    exact.load_state_dict(few.state_dict())
    x, dy = x.bfloat16(), dy.bfloat16()
    wanted = gpu_timing.trained_once(exact, x.double(), dy[:2].double())
    error = gpu_timing.largest_error(gpu_timing.trained_once(few, x, dy[:2]), wanted)
    module = BatchedProducts(case.members, case.inputs, case.units, torch.bfloat16)
    step = gpu_timing.graphed(gpu_timing.training_step(module, x, dy))
    return {"peer_ms": gpu_timing.milliseconds(step), "peer_setting": "bf16, CUDA graph", "peer_error": error}


def show(row: Row) -> str:
    """A row as a line."""
    start = f"{row['network']:5} {row['units']:4} {row.get('precision', ''):8}"
    if "failed" in row:
        return f"{start} {row.get('peer', '')} FAILED {row['failed']}"
    goal = f"goal {row['goal']:g}: {'met' if row['met'] else 'MISSED'}" if row["goal"] else ""
    return (
        f"{start} {row['ms_per_member']:.4f} ms each of {row['members']} ({row['ms_eager']:.2f} eager, "
        f"{row['ms_graphed'] or math.nan:.2f} graph), off {row['error']:.0e}, {row['gigabytes']:.1f} GB, "
        f"{row['peer']} ({row['peer_setting']}) {row['times_faster']:.2f} times {goal}"
    )
