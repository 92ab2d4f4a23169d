"""How far each path is from float64, for short and long sequences: outputs, and all gradients together, as norms."""

import gpu_timing
import torch
from gpu_models import Case, exact_copy, make_data, make_model
from gpu_process import Row
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
            errors = _errors(case, exact[case.path])
            found.append(row | errors)
        except Exception as error:
            found.append(row | {"failed": f"{type(error).__name__}: {error}"[:500]})
    return found


def _exact(case: Case) -> dict[str, Tensor]:
    x, dy = make_data(case)
    return gpu_timing.trained_once(exact_copy(make_model(case), case.members), x.double(), dy.double())


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
