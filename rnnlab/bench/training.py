"""`rnnlab bench train`: populations in training against torch.nn and torch.optim, one trial after another."""

import sys
from collections.abc import Callable, Iterator, Sequence

from rnnlab.bench.processes import (
    Benchmark,
    Progress,
    check_threads,
    cores,
    keep_to_cores,
    machine,
    report_lines,
    reports,
    versions,
)
from rnnlab.bench.rows import Row
from rnnlab.errors import BenchError

PACKAGES = ("rnnlab", "numpy", "torch", "triton")


def bench_train(
    *,
    device: str = "cpu",
    precision: str | None = None,
    threads: Sequence[int] | None = None,
    quick: bool = False,
    tell: Callable[[Row | Progress], None] = lambda event: None,
) -> Benchmark:
    """Race populations in training against the same trials one after another.

    Args:
        device: where both sides train. On the CPU 16 networks of 64 units; on CUDA parentheses with 200,000 parameters
            and sequences of 784 steps.
        precision: how rnnlab multiplies on CUDA; `tf32` by default. torch multiplies in tf32 too, but for float32.
        threads: how many threads both sides have, one run for each; 2 where there are two cores.
        quick: small and few, to see that all works; the numbers mean little.
        tell: called with every row, and with every case as it begins.

    Raises:
        BenchError: more threads than cores, no such precision, or a run broke down.
        TrainingError: the device is not there.
    """
    from rnnlab.engine.model import PRECISIONS
    from rnnlab.training.words import usable_device

    where = usable_device(device)
    counts = tuple(threads or (min(2, len(cores())),))
    check_threads(counts)
    used = precision or ("tf32" if where.type == "cuda" else "float32")
    if used not in PRECISIONS:
        raise BenchError(f"precision is one of {', '.join(PRECISIONS)}, got {used!r}")
    if where.type != "cuda" and used != "float32":
        raise BenchError(f"the CPU multiplies in float32: precision {used} needs --device cuda")
    rows: list[Row] = []
    for number, count in enumerate(counts):
        for event in reports("rnnlab.bench.training", count, device, used, *(["quick"] if quick else [])):
            if isinstance(event, Row):
                rows.append(event)
                tell(event)
            else:
                tell(Progress(event.case, number * event.total + event.number, len(counts) * event.total))
    return Benchmark(_where(device, used), versions(PACKAGES), tuple(rows))


def run_cases(threads: int, device: str, precision: str, *, quick: bool) -> Iterator[Row | Progress]:
    """Run every case in this process, which is kept to as many cores as it has threads."""
    keep_to_cores(threads)
    import torch

    from rnnlab.bench.training_cases import cpu_cases, cuda_cases, race

    torch.set_num_threads(threads)
    where = torch.device(device)
    found = (cuda_cases if where.type == "cuda" else cpu_cases)(quick=quick)
    for number, case in enumerate(found):
        yield Progress(case.name, number, len(found))
        yield race(case, threads=threads, device=where, precision=precision, quick=quick)


def _where(device: str, precision: str) -> str:
    if not device.startswith("cuda"):
        return machine()
    import torch

    return f"{torch.cuda.get_device_name(device)}, {precision}, cuDNN {torch.backends.cudnn.version()}; {machine()}"


if __name__ == "__main__":
    try:
        report_lines(run_cases(int(sys.argv[1]), sys.argv[2], sys.argv[3], quick="quick" in sys.argv[4:]))
    except KeyboardInterrupt:
        sys.exit(130)
