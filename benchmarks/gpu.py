"""All checks and benchmarks of the GPU path in one go, in under eight minutes: `python benchmarks/gpu.py`.

First the fast path is checked against the reference in float64: the catalogue with all cells, random architectures, odd
sizes, all precisions. If one check fails nothing is timed. Then training steps of populations (input product, forward,
backward, weight gradients) against cuDNN, JAX and batched products, outputs checked before each. The table goes to
benchmarks/results/gpu-h200.json, losing rows included.
"""

import argparse
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "gpu-h200.json"
sys.path.insert(0, str(ROOT))

BATCH, STEPS, INPUTS, OUTPUTS = 64, 175, 300, 16
CASES = (  # cell, units, members
    ("tanh", 256, 132),
    ("lstm", 118, 132),  # about 200,000 parameters
    ("gru", 148, 132),  # the same
    ("lstm", 256, 132),
    ("tanh", 128, 528),
)
GOALS = {  # at least so many times as fast, by peer and what is multiplied
    ("cudnn", "bf16", "tanh"): 25,
    ("cudnn", "bf16", "lstm"): 40,
    ("cudnn", "bf16", "gru"): 40,
    ("jax", "bf16"): 3,
    ("jax", "tf32"): 2,
    ("jax", "float32"): 1.5,
    ("batched products", "bf16"): 20,
}
ERRORS = {"float32": 1e-4, "tf32": 2e-2, "bf16": 6e-2}  # of outputs and gradients, as norms, after 175 steps
NUM_RANDOM = 200


# ------------------------------------------------------------------------------------------------------------- checks


def check(task: tuple[str, Any]) -> str | None:
    """One comparison with the reference; what is wrong, if anything."""
    import torch

    from tests.engine.gpu import test_population as tests

    torch.set_num_threads(1)
    kind, what = task
    try:
        if kind == "random":
            check_random(what)
        else:
            getattr(tests, kind)(*what)
    except Exception as error:
        return f"{kind} {what}: {error!r}"[:500]
    return None


def check_random(number: int) -> None:
    """Some of the random networks, forward and backward; every second one continues a sequence."""
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st

    from tests.engine.gpu.checks import compare
    from tests.engine.strategies import architectures

    quiet: Any = {"database": None, "deadline": None, "suppress_health_check": list(HealthCheck)}

    @seed(number)
    @settings(max_examples=NUM_RANDOM // 20, phases=[Phase.generate], **quiet)
    @given(architectures(smooth=True, can_stream=number % 2 == 1), st.integers(1, 7), st.sampled_from([None, 1, 3]))
    def agrees(network: Any, num_steps: int, population: int | None) -> None:
        before = number % 2 * (1 + num_steps % 3)
        compare(network, device="cuda", num_steps=num_steps, population=population, steps_before=before)

    agrees()


def checks() -> dict[str, Any]:
    """All comparisons, as many at a time as there are cores: most of the time goes into compiling."""
    from rnnlab import CELLS
    from tests.engine.gpu import test_population as tests
    from tests.engine.gpu.checks import TOLERANCES

    tasks: list[tuple[str, Any]] = [("random", number) for number in range(20)]
    tasks += [("test_catalogue_agrees", each) for each in enumerate(tests.NETWORKS)]
    tasks += [("test_odd_widths_and_batches_agree", (cell, units)) for cell in CELLS for units in (1, 16, 17, 70)]
    tasks += [("test_precisions_agree", (name, each)) for each in TOLERANCES for name in tests.SMOOTH]
    tasks += [("test_continued_sequences_agree", (name, 7, 5)) for name in tests.CONTINUED]
    tasks += [("test_a_shared_input_is_held_once_and_agrees", ())]
    start = time.time()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        wrong = [message for message in pool.map(check, tasks) if message]
    for message in wrong[:10]:
        print("WRONG", message, flush=True)
    found = {"comparisons": len(tasks), "random_networks": NUM_RANDOM, "wrong": len(wrong)}
    print(f"checks: {found}, {time.time() - start:.0f} s", flush=True)
    if wrong:
        raise SystemExit("nothing is timed while results are wrong")
    return found


# -------------------------------------------------------------------------------------------------------------- timing


def milliseconds(step: Callable[[], None]) -> float:
    """A step's time: the median of five rounds, each long enough that launching is not what is timed."""
    import torch

    for _ in range(3):
        step()
    rounds: list[float] = []
    num_steps = 1
    while len(rounds) < 5:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(num_steps):
            step()
        end.record()
        torch.cuda.synchronize()
        spent = begin.elapsed_time(end)
        if spent < 60 and not rounds and num_steps < 64:
            num_steps *= 2
        else:
            rounds.append(spent / num_steps)
    return statistics.median(rounds)


def measured(make: Callable[[], Callable[[], None]]) -> tuple[float, float]:
    """Milliseconds of a step, and gigabytes that it needs at most."""
    import torch

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step = make()
    found = milliseconds(step)
    return found, (torch.cuda.max_memory_allocated() - before) / 1e9


def population(cell: str, units: int, members: int, precision: str) -> Callable[[], None]:
    """A training step of rnnlab: all members read the same sequences."""
    import torch

    from rnnlab import architecture
    from rnnlab.engine.model import Model

    network = architecture(f"sh:{cell}", input_size=INPUTS, output_size=OUTPUTS, units=units)
    model = Model(network, generator=torch.Generator().manual_seed(0), population=members, precision=precision).cuda()
    x = torch.randn(BATCH, STEPS, INPUTS, device="cuda")
    dy = torch.randn(members, BATCH, STEPS, OUTPUTS, device="cuda")

    def step() -> None:
        for each in model.parameters():
            each.grad = None
        y, _ = model(x)
        y.backward(dy)

    return step


def error_of(cell: str, units: int, members: int, precision: str) -> float:
    """The largest relative error, as a norm, of outputs and gradients of two members against float64."""
    wanted = trained_once(cell, units, members, "reference", "float32")
    found = trained_once(cell, units, members, "gpu", precision)
    return max(float((got - want).norm() / want.norm()) for want, got in zip(wanted, found, strict=True))


@cache
def trained_once(cell: str, units: int, members: int, path: str, precision: str) -> list[Any]:
    """Outputs and gradients of the first two members of a population; the reference runs these two in float64."""
    import torch

    from rnnlab import architecture
    from rnnlab.engine.model import Model

    network = architecture(f"sh:{cell}", input_size=INPUTS, output_size=OUTPUTS, units=units)
    model = Model(network, generator=torch.Generator().manual_seed(0), population=members, precision=precision)
    if path == "reference":
        whole, members = model, 2
        model = Model(network, generator=torch.Generator(), population=2, path=path).double()
        for name, value in whole.arrays.items():
            model.arrays[name].data.copy_(value.data[:2])
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(BATCH, STEPS, INPUTS, generator=generator)
    dy = torch.zeros(members, BATCH, STEPS, OUTPUTS)
    dy[:2] = torch.randn(2, BATCH, STEPS, OUTPUTS, generator=generator)
    model = model.cuda()
    y, _ = model(x.cuda())
    y.backward(dy.to(y))
    gradients = [each.grad[:2].double() for each in model.parameters() if each.grad is not None]
    return [y.detach()[:2].double(), *gradients]


def cudnn(cell: str, units: int) -> dict[str, float]:
    """A training step of torch.nn's layer, milliseconds by what is multiplied; its output is the state itself."""
    import torch
    from torch import nn

    found: dict[str, float] = {}
    for precision, dtype in (("bf16", torch.bfloat16), ("tf32", torch.float32), ("float32", torch.float32)):
        torch.backends.cudnn.rnn.fp32_precision = "tf32" if precision == "tf32" else "ieee"
        layer = {"tanh": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[cell](INPUTS, units).to("cuda", dtype)
        layer.flatten_parameters()
        x = torch.randn(STEPS, BATCH, INPUTS, device="cuda", dtype=dtype)
        dy = torch.randn(STEPS, BATCH, units, device="cuda", dtype=dtype)

        def step(layer: Any = layer, x: Any = x, dy: Any = dy) -> None:
            layer.zero_grad(set_to_none=True)
            y, _ = layer(x)
            y.backward(dy)

        found[precision] = milliseconds(step)
    return found


def batched_products(units: int, members: int) -> float:
    """A training step of a population of tanh layers by autograd over batched products, as a CUDA graph, bf16."""
    import torch

    options: Any = {"device": "cuda", "dtype": torch.bfloat16}
    x = torch.randn(STEPS * BATCH, INPUTS, **options).expand(members, -1, -1)
    wx = (torch.randn(members, INPUTS, units, **options) / math.sqrt(INPUTS)).requires_grad_()
    wh = (torch.randn(members, units, units, **options) / math.sqrt(units)).requires_grad_()
    wo = (torch.randn(members, units, OUTPUTS, **options) / math.sqrt(units)).requires_grad_()

    def step() -> None:
        wx.grad = wh.grad = wo.grad = None
        given = torch.bmm(x, wx).view(members, STEPS, BATCH, units)
        h, states = torch.zeros(members, BATCH, units, **options), []
        for time_step in range(STEPS):
            h = torch.tanh(torch.baddbmm(given[:, time_step], h, wh))
            states.append(h)
        torch.bmm(torch.stack(states, 1).flatten(1, 2), wo).float().sum().backward()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return milliseconds(graph.replay)


def jax_worker() -> None:
    """Training steps of populations by jax.vmap over lax.scan, input product hoisted; a JSON line a case."""
    import jax
    import jax.numpy as jnp

    def cell_step(cell: str, units: int) -> Callable[[Any, Any, Any], Any]:
        def tanh(weights: Any, h: Any, given: Any) -> Any:
            return jnp.tanh(given + h @ weights["wh"])

        def lstm(weights: Any, state: Any, given: Any) -> Any:
            h, c = state
            i, f, o, g = jnp.split(given + h @ weights["wh"], 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return jax.nn.sigmoid(o) * jnp.tanh(c), c

        def gru(weights: Any, h: Any, given: Any) -> Any:
            gates = jax.nn.sigmoid(given[:, : 2 * units] + h @ weights["wh"][:, : 2 * units])
            r, u = jnp.split(gates, 2, axis=-1)
            candidate = jnp.tanh(given[:, 2 * units :] + (r * h) @ weights["wh"][:, 2 * units :])
            return u * h + (1 - u) * candidate

        return {"tanh": tanh, "lstm": lstm, "gru": gru}[cell]

    for cell, units, members in CASES:
        gates = {"tanh": 1, "lstm": 4, "gru": 3}[cell]
        update = cell_step(cell, units)
        for precision in ("bf16", "tf32", "float32"):
            dtype = jnp.bfloat16 if precision == "bf16" else jnp.float32
            key = jax.random.key(0)

            def normal(*shape: int, scale: float = 1.0, key: Any = key, dtype: Any = dtype) -> Any:
                return (jax.random.normal(key, shape) * scale).astype(dtype)

            weights = {
                "wx": normal(members, INPUTS, gates * units, scale=INPUTS**-0.5),
                "wh": normal(members, units, gates * units, scale=units**-0.5),
                "b": normal(members, gates * units),
                "wo": normal(members, units, OUTPUTS, scale=units**-0.5),
            }
            x, dy = normal(STEPS, BATCH, INPUTS), normal(STEPS, BATCH, OUTPUTS)

            def loss(weights: Any, x: Any, dy: Any, units: int = units, cell: str = cell, update: Any = update) -> Any:
                given = x @ weights["wx"] + weights["b"]
                start = jnp.zeros((BATCH, units), given.dtype)

                def step(state: Any, given: Any) -> Any:
                    new = update(weights, state, given)
                    return new, new[0] if cell == "lstm" else new

                _, states = jax.lax.scan(step, (start, start) if cell == "lstm" else start, given)
                return ((states @ weights["wo"]) * dy).sum(dtype=jnp.float32)

            name = {"bf16": "default", "tf32": "tensorfloat32", "float32": "highest"}[precision]
            with jax.default_matmul_precision(name):
                gradients = jax.jit(jax.vmap(jax.grad(loss), in_axes=(0, None, None)))
                jax.block_until_ready(gradients(weights, x, dy))
                rounds = []
                for _ in range(5):
                    begin = time.perf_counter()
                    for _ in range(4):
                        out = gradients(weights, x, dy)
                    jax.block_until_ready(out)
                    rounds.append((time.perf_counter() - begin) / 4 * 1e3)
            row = {"cell": cell, "units": units, "members": members, "precision": precision}
            print(json.dumps(row | {"ms": statistics.median(rounds)}), flush=True)


def jax_times() -> dict[tuple[str, int, int, str], float]:
    """What the worker measured, in a process of its own: two frameworks do not share a GPU's memory well."""
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, __file__, "--jax-worker"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode:
        print("JAX:", done.stderr[-500:], flush=True)
    return {(row["cell"], row["units"], row["members"], row["precision"]): row["ms"] for row in rows}


# --------------------------------------------------------------------------------------------------------------- table


def benchmarks() -> Iterator[dict[str, Any]]:
    """All rows: ours and a peer's milliseconds for the whole population, and how many times faster we are."""
    jax_found = jax_times()
    for cell, units, members in CASES:
        peers = cudnn(cell, units)
        for precision in ("bf16", "tf32", "float32"):
            error = error_of(cell, units, members, precision)
            if not error < ERRORS[precision]:
                raise SystemExit(f"{cell} {units} {precision}: off by {error:.2g}, allowed is {ERRORS[precision]}")
            ours, gigabytes = measured(lambda: population(cell, units, members, precision))  # noqa: B023
            case = {"cell": cell, "units": units, "members": members, "precision": precision}
            case |= {"ms": ours, "ms_per_member": ours / members, "error": error, "gigabytes": gigabytes}
            against = {"cudnn": min(peers.values() if precision == "bf16" else [peers[precision]]) * members}
            if (cell, units, members, precision) in jax_found:
                against["jax"] = jax_found[cell, units, members, precision]
            if (cell, units, precision) == ("tanh", 128, "bf16"):
                against["batched products"] = batched_products(units, members)
            for peer, theirs in against.items():
                goal = GOALS.get((peer, precision)) or GOALS.get((peer, precision, cell))
                yield case | {"peer": peer, "peer_ms": theirs, "times_faster": theirs / ours, "goal": goal}


def show(row: dict[str, Any]) -> None:
    goal = f"goal {row['goal']:g}: {'met' if row['times_faster'] >= row['goal'] else 'MISSED'}" if row["goal"] else ""
    print(
        f"{row['cell']:5} {row['units']:4} x{row['members']:<4} {row['precision']:8} {row['ms_per_member']:.4f} ms each"
        f"  {row['peer']:16} {row['times_faster']:6.2f} times, off {row['error']:.0e} {row['gigabytes']:.1f} GB {goal}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax-worker", action="store_true", help="time JAX only, for this script itself")
    parser.add_argument("--without-checks", action="store_true", help="time without checking the catalogue first")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.jax_worker:
        jax_worker()
        return
    import torch
    import triton

    if not torch.cuda.is_available():
        raise SystemExit("no GPU")
    start = time.time()
    checked = None if options.without_checks else checks()
    versions = {"torch": torch.__version__, "triton": triton.__version__, "cudnn": torch.backends.cudnn.version()}
    rows: list[dict[str, Any]] = []
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for row in benchmarks():
        show(row)
        rows.append(row)
        table = {
            "device": torch.cuda.get_device_name(),
            "versions": versions | {"jax": metadata.version("jax")},
            "sizes": {"batch": BATCH, "steps": STEPS, "inputs": INPUTS, "outputs": OUTPUTS},
            "checks": checked,
            "seconds": time.time() - start,
            "rows": rows,
        }
        options.output.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
