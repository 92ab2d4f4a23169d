"""Training steps of one model against cuDNN, loops by hand as CUDA graphs, JAX and FlashRNN."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import gpu_cudnn
import gpu_sizes
import gpu_timing
import torch
from gpu_models import Case, kernels_of, make_data, make_model, num_slots
from gpu_process import Row, spending

from rnnlab.bench.loops import Loop

PRECISIONS = ("bf16", "tf32", "float32")


class Race(NamedTuple):
    """A network in some precisions, and who else runs it: `cudnn`, `by hand` or `flashrnn`."""

    cases: tuple[Case, ...]
    peers: str
    goal: float | None  # against cuDNN or FlashRNN; `gpu_sizes.BY_HAND_GOALS` has the others

    @property
    def name(self) -> str:
        """Network and width."""
        return f"{self.cases[0].network} {self.cases[0].units}"


def races() -> list[Race]:
    """All of them but those against FlashRNN."""
    batch, steps, inputs = gpu_sizes.SINGLE
    found: list[Race] = []
    for cell, goals in gpu_sizes.LAYER_GOALS.items():
        found += [Race(_cases(f"sh:{cell}", units, inputs, batch, steps), "cudnn", goals[units]) for units in goals]
    for units, goal in gpu_sizes.STACK_GOALS.items():
        found.append(Race(_cases("stack-4:lstm", units, inputs, batch, steps), "cudnn", goal))
    most, long, wide, units = gpu_sizes.BEST_OF_CUDNN
    found.append(Race((Case("sh:lstm", units, wide, most, long),), "cudnn", 1.0))
    for name in gpu_sizes.NETWORKS_BY_HAND:
        found.append(Race((Case(name, gpu_sizes.NETWORK_UNITS, inputs, batch, steps),), "by hand", None))
    return found


def flashrnn_races() -> list[Race]:
    """Its own shape, with as many heads as it can have and with one."""
    few, long, units = gpu_sizes.FLASHRNN
    names = [f"heads-{heads}:lstm" for heads in gpu_sizes.FLASHRNN_BACKENDS]
    goal = gpu_sizes.FLASHRNN_GOAL
    return [Race((Case(name, units, units, few, long),), "flashrnn", goal) for name in names]


def _cases(network: str, units: int, inputs: int, batch: int, steps: int) -> tuple[Case, ...]:
    return tuple(Case(network, units, inputs, batch, steps, precision) for precision in PRECISIONS)


@spending("profiler")
def profiled(cases: Sequence[Case]) -> dict[Case, Row]:
    """Microseconds of a slot in every precision, in a process of its own."""
    found: dict[Case, Row] = {}
    for case in cases:
        model, (x, dy) = make_model(case), make_data(case)
        slots = num_slots(model, case)
        forward, backward = gpu_timing.kernel_microseconds(model, x, dy)
        found[case] = {"us_a_slot_forward": forward / slots, "us_a_slot_backward": backward / slots}
    return found


def rows(race: Race, others: dict[str, Row], known: dict[Case, Row]) -> list[Row]:
    """The rows of a race.

    Args:
        race: what is run.
        others: what JAX and FlashRNN have measured in their processes, by network.
        known: what was found out about our side before: seconds of the first call, microseconds of a slot, the error;
            or why a case failed, and is not timed.
    """
    torch.set_num_threads(1)  # FlashRNN's compilers have most cores: a team of threads would wait for its last one
    found: list[Row] = []
    cudnn: dict[str, gpu_cudnn.Found] = {}
    if race.peers == "cudnn":
        cudnn, failed = _cudnn(race.cases[0])
        found += [named(race.cases[0]) | {"peer": f"cudnn {k}", "failed": why} for k, why in failed.items()]
    for case in race.cases:
        row = named(case) | known[case]
        if "failed" in row:
            found.append(row)
            continue
        try:
            row |= ours(case)
        except Exception as error:
            found.append(row | {"failed": f"{type(error).__name__}: {error}"[:500]})
            continue
        peers = _cudnn_peer(case, cudnn, race) if race.peers == "cudnn" else _other_peers(case, others, race)
        found += [_with_ratios(row | peer) for peer in peers]
    return found


def as_peer(row: Row) -> Row:
    """A row of JAX's process as one of a race."""
    if "failed" in row:
        return {"failed": row["failed"]}
    return {"peer_ms": row["ms"], "peer_setting": f"bf16, unroll {row['unroll']}", "peer_error": row["error"]}


def num_heads(network: str) -> int:
    """Of `heads-12:lstm`."""
    return int(network.removeprefix("heads-").partition(":")[0])


def named(case: Case) -> Row:
    return {name: value for name, value in case._asdict().items() if name not in ("members", "path")}


def ours(case: Case) -> Row:
    """What is measured of rnnlab."""
    step, gigabytes = gpu_timing.peak_gigabytes(lambda: gpu_timing.training_step(make_model(case), *make_data(case)))
    return {"gigabytes": gigabytes} | _times(case, step)


@spending("ours timed")
def _times(case: Case, step: gpu_timing.Step) -> Row:
    timed = gpu_timing.timed(step)
    model, (x, _) = make_model(case), make_data(case)
    forward = gpu_timing.timed(gpu_timing.forward_step(model, x))
    return {
        "ms": timed.best,
        "ms_eager": timed.eager,
        "ms_graphed": timed.graphed,
        "note": timed.note,
        "ms_forward": forward.best,
        "slots": num_slots(model, case),
        "kernels": kernels_of(model, case),
    }


def _cudnn(case: Case) -> tuple[dict[str, gpu_cudnn.Found], dict[str, str]]:
    shape, _, cell = case.network.partition(":")
    num_layers = int(shape.removeprefix("stack-")) if shape.startswith("stack-") else 1
    return gpu_cudnn.measure(cell, case.inputs, case.units, case.batch, case.steps, num_layers)


def _cudnn_peer(case: Case, cudnn: dict[str, gpu_cudnn.Found], race: Race) -> list[Row]:
    fastest = gpu_cudnn.fastest(cudnn, case.precision)
    if fastest is None:
        return [{"peer": "cudnn", "failed": "no setting could be measured"}]
    same = cudnn.get(case.precision)  # memory is compared in the same dtype
    return [
        {
            "peer": "cudnn",
            "peer_setting": fastest.setting,
            "peer_ms": fastest.timed.best,
            "peer_ms_eager": fastest.timed.eager,
            "peer_ms_graphed": fastest.timed.graphed,
            "peer_error": fastest.error,
            "peer_gigabytes": same.gigabytes if same else None,
            "goal": race.goal,
        }
    ]


def _other_peers(case: Case, others: dict[str, Row], race: Race) -> list[Row]:
    """Peers that are measured elsewhere, and the loop by hand."""
    if race.peers == "flashrnn":
        return [{"peer": "flashrnn", "goal": race.goal} | others.get(case.network, {"failed": "was not measured"})]
    try:
        loop = _loop(case)
    except Exception as error:
        loop = {"failed": f"{type(error).__name__}: {error}"[:300]}
    peers = {"loop as a CUDA graph": loop, "jax": others.get(case.network, {"failed": "was not measured"})}
    return [{"peer": name, "goal": gpu_sizes.BY_HAND_GOALS[name]} | peer for name, peer in peers.items()]


@spending("loops by hand")
def _loop(case: Case) -> Row:
    """The loop of torch operations in bf16, forward and backward in one CUDA graph."""
    x, dy = (value.transpose(0, 1).contiguous().bfloat16() for value in make_data(case))
    exact = Loop(case.network, dict(make_model(case).arrays.items())).double()
    wanted = gpu_timing.trained_once(exact, x.double(), dy.double())
    error = gpu_timing.largest_error(gpu_timing.trained_once(_loop_in_bf16(case), x, dy), wanted)
    del exact, wanted, x, dy

    def make() -> gpu_timing.Step:
        x, dy = (value.transpose(0, 1).contiguous().bfloat16() for value in make_data(case))
        return gpu_timing.training_step(_loop_in_bf16(case), x, dy)

    step, gigabytes = gpu_timing.peak_gigabytes(make)
    milliseconds = gpu_timing.milliseconds(gpu_timing.graphed(step))
    return {"peer_ms": milliseconds, "peer_setting": "bf16", "peer_error": error, "peer_gigabytes": gigabytes}


def _loop_in_bf16(case: Case) -> Loop:
    return Loop(case.network, dict(make_model(case).arrays.items())).bfloat16()


def _with_ratios(row: Row) -> Row:
    if row.get("first_call_seconds") is not None:
        row["first_call_met"] = row["first_call_seconds"] < gpu_sizes.FIRST_CALL_GOAL
    if "failed" in row:
        return row
    ratio = row["peer_ms"] / row["ms"]
    row |= {"times_faster": ratio, "met": ratio >= row["goal"]}
    if row.get("peer_gigabytes"):
        row["memory_ratio"] = row["gigabytes"] / row["peer_gigabytes"]
        row["memory_met"] = row["memory_ratio"] <= gpu_sizes.MEMORY_GOAL if row["peer"] == "cudnn" else None
    return row


def show(row: Row) -> str:
    """A row as two or three lines: the race, what was measured of us, which kernels ran."""
    sizes = f"{row['network']} {row['units']}, B {row.get('batch')} T {row.get('steps')} I {row.get('inputs')}"
    start = f"{sizes:44} {row['precision']:8} {row.get('peer', '')}"
    if "failed" in row:
        race = f"FAILED {row['failed']}"
    else:
        goal = f"goal {row['goal']:g}: {'met' if row['met'] else 'MISSED'}"
        race = f"({row['peer_setting']}) {row['times_faster']:.2f} times, {goal}"
    if "memory_ratio" in row:
        race += f"; {row['memory_ratio']:.2f} times its memory{_missed(row, 'memory_met')}"
    return f"{start} {race}{_ours_shown(row)}"


def _ours_shown(row: Row) -> str:
    if "ms" not in row:
        return ""
    numbers: dict[str, Any] = defaultdict(lambda: math.nan, {k: v for k, v in row.items() if v is not None})
    return (
        f"\n    {numbers['ms_eager']:.3f} ms eager, {numbers['ms_graphed']:.3f} graph, {numbers['ms_forward']:.3f} "
        f"forward; {numbers['us_a_slot_forward']:.2f} + {numbers['us_a_slot_backward']:.2f} us a slot of "
        f"{row['slots']}; {row['gigabytes']:.3f} GB; first call {numbers['first_call_seconds']:.1f} s"
        f"{_missed(row, 'first_call_met')}; off {row['error']:.1e} {row['note']}\n    {row['kernels']}"
    )


def _missed(row: Row, what: str) -> str:
    return " MISSED" if row.get(what) is False else ""
