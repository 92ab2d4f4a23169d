"""How far rnnlab is from float64: each path for short and long sequences, and each case that is to be timed.

Of paths outputs and all gradients together count, as norms; of a case that is to be timed the worst array.
"""

from collections.abc import Sequence

import gpu_timing
import torch
from gpu_models import Case, exact_copy, make_data, make_model
from gpu_process import Row
from gpu_sizes import NETWORKS_BY_HAND
from torch import Tensor

CELLS = ("tanh", "lstm", "gru")
PRECISIONS = ("float32", "tf32", "bf16")
STEPS = (64, 512, 4096)
UNITS, INPUTS, BATCH = 128, 32, 16
PATHS = {"gpu-population": ("sh", 2), "gpu-spread": ("sh", None), "gpu-relay": ("stack-2", None)}  # graph and members


def cases(cell: str, steps: int) -> list[Case]:
    """A network of every kind of kernels, in every precision."""
    return [
        Case(f"{graph}:{cell}", UNITS, INPUTS, BATCH, steps, precision, members, path)
        for path, (graph, members) in PATHS.items()
        for precision in PRECISIONS
    ]


def all_cases() -> list[Case]:
    """Everything that is compiled; longer sequences need nothing else."""
    return [case for cell in CELLS for case in cases(cell, STEPS[0])]


def rows(cell: str, steps: int) -> list[Row]:
    """The errors of a cell's networks for one length; in a process of its own."""
    torch.set_num_threads(1)  # other lengths have theirs at the same time
    found: list[Row] = []
    exact: dict[str, dict[str, Tensor]] = {}
    for case in cases(cell, steps):
        row: Row = {"network": case.network, "steps": steps, "kernels": case.path, "precision": case.precision}
        try:
            if case.path not in exact:
                exact[case.path] = _exact(case)
            found.append(row | _errors(case, exact[case.path]))
        except Exception as error:
            found.append(row | {"failed": f"{type(error).__name__}: {error}"[:500]})
    return found


def compared(cases: Sequence[Case]) -> list[Row]:
    """The `error` of each case, or why it `failed` and must not be timed; in a process of its own.

    Args:
        cases: of one network, one after another: they differ in precision only, and share what float64 gives.
    """
    torch.set_num_threads(1)  # other networks are compared at the same time
    gpu_timing.free_memory()
    exact = _exact(cases[0])
    found: list[Row] = []
    for case in cases:
        gpu_timing.free_memory()  # other processes have the same GPU
        try:
            found.append({"error": _checked_error(case, exact)})
        except Exception as error:
            found.append({"failed": f"{type(error).__name__}: {error}"[:500]})
    return found


def _checked_error(case: Case, wanted: dict[str, Tensor]) -> float:
    found = gpu_timing.trained_once(make_model(case), *make_data(case))
    error = gpu_timing.largest_error({name: value[: _few(case)] for name, value in found.items()}, wanted)
    if case.network in NETWORKS_BY_HAND:
        rounding = _rounding_error(case, wanted)
        if not error < max(gpu_timing.ERRORS[case.precision], 3 * rounding):
            raise ArithmeticError(f"off by {error:.2g}, to round its numbers once makes {rounding:.2g}: not timed")
    else:
        gpu_timing.check_error(error, case.precision)
    return error


def _rounding_error(case: Case, wanted: dict[str, Tensor]) -> float:
    """What changes in float64 where only its numbers and inputs are rounded to bf16: how sensitive the network is."""
    x, dy = make_data(case)
    model = exact_copy(make_model(case), _few(case))
    with torch.no_grad():
        for value in model.parameters():
            value.copy_(value.bfloat16())
    return gpu_timing.largest_error(
        gpu_timing.trained_once(model, x.bfloat16().double(), dy[: _few(case)].double()), wanted
    )


def _exact(case: Case) -> dict[str, Tensor]:
    """Outputs and gradients in float64, of a population those of its first members."""
    x, dy = make_data(case)
    return gpu_timing.trained_once(exact_copy(make_model(case), _few(case)), x.double(), dy[: _few(case)].double())


def _few(case: Case) -> int | None:
    """How many members are compared, all of which see the same inputs; None, which cuts nothing off, for one model."""
    return None if case.members is None else 2


def _errors(case: Case, wanted: dict[str, Tensor]) -> Row:
    found = gpu_timing.trained_once(make_model(case), *make_data(case))
    each = gpu_timing.relative_errors(found, wanted)
    gradients = [name for name in each if name != "output"]
    squares = [
        (float((found[name].double() - wanted[name]).norm()) ** 2, float(wanted[name].norm()) ** 2)
        for name in gradients
    ]
    together = (sum(off for off, _ in squares) / sum(size for _, size in squares)) ** 0.5
    worst = max(gradients, key=lambda name: each[name])
    return {
        "outputs": each["output"],
        "gradients": together,
        "worst_gradient": each[worst],
        "worst": worst.removeprefix("gradient of arrays."),
    }


def show(row: Row) -> str:
    """A row as a line."""
    start = f"{row['network']:12} T {row['steps']:<5} {row['kernels']:14} {row['precision']:8}"
    if "failed" in row:
        return f"{start} FAILED {row['failed']}"
    errors = f"outputs {row['outputs']:.1e}, gradients {row['gradients']:.1e}"
    return f"{start} {errors}, worst {row['worst_gradient']:.1e} {row['worst']}"
