"""JAX's side, in a process of its own: `python benchmarks/gpu_jax.py populations single` prints a row a case.

It compiles all cases at once, for minutes, and times them once it is sent a line. A training step is jit of
value_and_grad, for a population vmap over it. Before it is timed its gradients are compared with float64. Scans are
tried as they are and with some steps unrolled; the faster one counts.
"""

import json
import os
import statistics
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpu_jax_networks import NETWORKS

from rnnlab.architecture.catalogue import architecture

OUTPUTS = 16
PRECISIONS = {  # how numbers are held, and how float32 is multiplied; what takes longest to compile comes last
    "bf16": (jnp.bfloat16, "default"),
    "tf32": (jnp.float32, "tensorfloat32"),
    "float32": (jnp.float32, "highest"),
    "float64": (jnp.float64, "highest"),
}
UNROLLED = (1, 4)
MOST_WRONG = 0.3  # as a norm: what is farther from float64 computes something else
ROUNDS, ROUND_SECONDS = 5, 0.05
WORKERS = 8  # cases that are compiled at a time; for each JAX compiles many kernels at a time, to find the fastest
COMPILE_SECONDS, MORE_SECONDS = 150.0, 60.0  # for all cases together; at least so many after the line
PLAIN = {"xla_gpu_autotune_level": 0}  # for what is not timed


class Case(NamedTuple):
    """A network and the sizes it is run with; `members` is None for one model."""

    network: str
    units: int
    inputs: int
    batch: int
    steps: int
    members: int | None
    precision: str


def training_step(case: Case, unroll: int) -> Any:
    """Loss and gradients of a network or a population: of arrays, inputs and the gradient of the outputs."""
    scan = partial(jax.lax.scan, unroll=unroll)

    def loss(arrays: Any, x: Any, dy: Any) -> Any:
        y = NETWORKS[case.network](arrays, x, scan)
        return (y * dy).sum(dtype=jnp.promote_types(y.dtype, jnp.float32))

    step = jax.value_and_grad(loss)
    return step if case.members is None else jax.vmap(step, in_axes=(0, None, 0))


def make_given(case: Case) -> tuple[dict[str, Any], Any, Any]:
    """Random numbers for a case, drawn in float32 whatever they are held in."""
    dtype, _ = PRECISIONS[case.precision]
    network = architecture(case.network, input_size=case.inputs, output_size=OUTPUTS, units=case.units)
    keys = iter(jax.random.split(jax.random.key(0), len(network.parameters) + 2))
    front = () if case.members is None else (case.members,)

    def normal(*shape: int, scale: float = 1.0) -> Any:
        return (scale * jax.random.normal(next(keys), shape, dtype=jnp.float32)).astype(dtype)

    arrays = {
        spec.name: normal(*front, *spec.shape, scale=0.6 * spec.shape[0] ** -0.5 if len(spec.shape) == 2 else 0.1)
        for spec in network.parameters
    }
    x = normal(case.steps, case.batch, case.inputs)
    return arrays, x, normal(*front, case.steps, case.batch, OUTPUTS)


def compiled(case: Case, unroll: int) -> tuple[Any, float]:
    """The compiled step, and the seconds that it took."""
    start = time.perf_counter()
    with jax.default_matmul_precision(PRECISIONS[case.precision][1]):
        step = jax.jit(training_step(case, unroll)).lower(*_shapes(case)).compile()
    return step, time.perf_counter() - start


def _shapes(case: Case) -> Any:
    return jax.eval_shape(partial(make_given, case))


@cache
def drawn(case: Case) -> Any:
    """`make_given`, compiled: operation by operation it takes longer than what is timed."""
    return jax.jit(partial(make_given, case)).lower().compile(PLAIN)


def exactly(case: Case) -> Case:
    """A case in float64, of a population the first two members."""
    return case._replace(precision="float64", members=case.members and 2)


@cache
def exact_step(case: Case) -> Any:
    """The compiled step in float64, one for all precisions of a network."""
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        return jax.jit(training_step(case, 1)).lower(*_shapes(case)).compile(PLAIN)


@cache
def exact_given(case: Case) -> Any:
    """What turns a case's numbers into those for its step in float64, compiled."""
    first = (lambda value: value) if case.members is None else (lambda value: value[:2])

    def turn(arrays: Any, x: Any, dy: Any) -> Any:
        return jax.tree.map(lambda value: value.astype(jnp.float64), (jax.tree.map(first, arrays), x, first(dy)))

    with jax.enable_x64(True):
        return jax.jit(turn).lower(*_shapes(case)).compile(PLAIN)


@cache
def distance(case: Case) -> Any:
    """How far gradients are from those in float64, as a norm, the worst array; compiled."""

    def off(found: Any, wanted: Any) -> Any:
        def of_array(name: str) -> Any:
            size = jnp.linalg.norm(wanted[name].ravel())
            difference = found[name][: len(wanted[name])].astype(jnp.float64) - wanted[name]
            return jnp.linalg.norm(difference.ravel()) / jnp.where(size == 0, 1.0, size)

        return jnp.stack([of_array(name) for name in wanted]).max()

    with jax.enable_x64(True):
        return jax.jit(off).lower(_shapes(case)[0], _shapes(exactly(case))[0]).compile(PLAIN)


def prepare(exact: Case, wanted: list[Case]) -> None:
    """Compile all that is not timed, for every precision of a network."""
    exact_step(exact)
    for case in wanted:
        if exactly(case) == exact:
            for make in (drawn, exact_given, distance):
                make(case)


def error_of(case: Case, given: Any, gradients: Any) -> float:
    """How far gradients are from float64, as a norm, the worst array."""
    with jax.enable_x64(True):
        wanted = exact_step(exactly(case))(*exact_given(case)(*given))[1]
        return float(distance(case)(gradients, wanted))


def milliseconds(step: Any, given: Any) -> float:
    """The median of some rounds, each of as many steps as fill it."""
    once = _elapsed(step, given, 2)
    num_steps = max(1, min(200, round(ROUND_SECONDS / once)))
    return 1e3 * statistics.median(_elapsed(step, given, num_steps) for _ in range(ROUNDS))


def _elapsed(step: Any, given: Any, num_steps: int) -> float:
    start = time.perf_counter()
    found = None
    for _ in range(num_steps):
        found = step(*given)
    jax.block_until_ready(found)
    return (time.perf_counter() - start) / num_steps


def measure(case: Case, steps: dict[int, Future[Any]], prepared: Future[None]) -> dict[str, Any]:
    """The row of a case; `steps` holds for each way to unroll what its compilation gives, if it has ended."""
    try:
        ready = {unroll: each.result() for unroll, each in steps.items() if each.done() and not each.cancelled()}
        if not ready or not prepared.done():
            raise TimeoutError("not compiled in time")
        prepared.result()
        given = drawn(case)()
        _, gradients = jax.block_until_ready(next(iter(ready.values()))[0](*given))
        error = error_of(case, given, gradients)
        del gradients
        if not error < MOST_WRONG:
            raise ArithmeticError(f"off by {error:.2g}")
        times = {unroll: milliseconds(step, given) for unroll, (step, _) in ready.items()}
        unroll = min(times, key=lambda each: times[each])
        seconds = {unroll: spent for unroll, (_, spent) in ready.items()}
        return {"ms": times[unroll], "unroll": unroll, "compile_seconds": seconds, "error": error}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"[:300]}


def cases(part: str) -> list[Case]:
    """What the parts of the benchmark ask for."""
    if part == "populations":
        from gpu_sizes import POPULATION, POPULATION_GOALS, POPULATIONS

        batch, steps, inputs = POPULATION
        return [
            Case(f"sh:{cell}", units, inputs, batch, steps, members, precision)
            for cell, units, members in POPULATIONS
            for precision in ("bf16", "tf32", "float32")
            if ("jax", precision, cell, units) in POPULATION_GOALS
        ]
    from gpu_sizes import NETWORK_UNITS, NETWORKS_BY_HAND, SINGLE

    batch, steps, inputs = SINGLE
    return [Case(name, NETWORK_UNITS, inputs, batch, steps, None, "bf16") for name in NETWORKS_BY_HAND]


def main(parts: list[str]) -> None:
    """Compile all cases, several at a time, wait for a line, then time one after another those that are ready."""
    start = time.monotonic()
    pool = ThreadPoolExecutor(WORKERS)
    order = list(PRECISIONS)
    wanted = sorted((case for part in parts for case in cases(part)), key=lambda case: -order.index(case.precision))
    first, *others = UNROLLED
    by_unroll = {first: [pool.submit(compiled, case, first) for case in wanted]}
    prepared = {exact: pool.submit(prepare, exact, wanted) for exact in dict.fromkeys(map(exactly, wanted))}
    by_unroll |= {unroll: [pool.submit(compiled, case, unroll) for case in wanted] for unroll in others}
    sys.stdin.readline()
    told = time.monotonic()
    every = [*prepared.values(), *(each for begun in by_unroll.values() for each in begun)]
    wait(every, timeout=max(start + COMPILE_SECONDS - told, MORE_SECONDS))
    pool.shutdown(wait=False, cancel_futures=True)
    ready = time.monotonic()
    for place, case in enumerate(wanted):
        steps = {unroll: begun[place] for unroll, begun in by_unroll.items()}
        print(json.dumps(case._asdict() | measure(case, steps, prepared[exactly(case)])), flush=True)
    spent = {"compiled before": told - start, "compiled after": ready - told, "timed": time.monotonic() - ready}
    print(json.dumps({"seconds": spent, "core_seconds": time.process_time()}), flush=True)
    os._exit(0)  # nothing ends a compilation that is still under way


if __name__ == "__main__":
    main(sys.argv[1:])
