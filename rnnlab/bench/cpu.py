"""`rnnlab bench cpu`: training steps on the CPU against the peers, in a process for each number of threads.

A step is forward, backward and all weight gradients, the input product included, in float32.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from importlib.util import find_spec

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

PACKAGES = ("rnnlab", "numpy", "torch", "jax", "torchrecurrent")


def bench_cpu(
    *,
    threads: Sequence[int] | None = None,
    quick: bool = False,
    tell: Callable[[Row | Progress], None] = lambda event: None,
) -> Benchmark:
    """Race training steps against torch.nn, JAX, torchrecurrent and loops written by hand.

    Args:
        threads: how many threads both sides have, one run for each; 1 and, where there are two cores, 2.
        quick: small shapes and few repeats, to see that all works; the numbers mean little.
        tell: called with every row, and with every case as it begins.

    Raises:
        BenchError: more threads than cores, or a run broke down.
    """
    counts = tuple(threads or (1, 2)[: len(cores())])
    check_threads(counts)
    rows: list[Row] = []
    for number, count in enumerate(counts):
        for event in reports("rnnlab.bench.cpu", count, *(["quick"] if quick else [])):
            if isinstance(event, Row):
                rows.append(event)
                tell(event)
            else:
                tell(Progress(event.case, number * event.total + event.number, len(counts) * event.total))
    return Benchmark(machine(), versions(PACKAGES), tuple(rows))


def run_cases(threads: int, *, quick: bool) -> Iterator[Row | Progress]:
    """Run every case in this process, which is kept to as many cores as it has threads."""
    keep_to_cores(threads)
    import torch

    from rnnlab.bench.cpu_cases import FULL, SMALL, Ground, cases
    from rnnlab.bench.jax_peers import JaxPeer

    torch.set_num_threads(threads)
    sizes = SMALL if quick else FULL
    found = cases(sizes)
    with JaxPeer(threads) if find_spec("jax") else nullcontext() as jax:
        for number, case in enumerate(found):
            yield Progress(case.name, number, len(found))
            yield from case.rows(Ground(threads, jax, sizes.effort))


if __name__ == "__main__":
    try:
        report_lines(run_cases(int(sys.argv[1]), quick="quick" in sys.argv[2:]))
    except KeyboardInterrupt:
        sys.exit(130)
