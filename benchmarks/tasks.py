"""How fast tasks make training batches: `python benchmarks/tasks.py [--device cuda] [-o FILE]`.

A batch is timed alone, as a training step would ask for it. On a GPU the host must never wait (torch is told to raise
if it does), a batch must be recordable in a CUDA graph, and what the graph replays must be what a plain call draws; the
table shows both times. The last lines compare a batch of parentheses for 132 members with the recorded training step
of 132 networks of 200,000 parameters.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from rnnlab import task  # noqa: E402
from rnnlab.tasks.registry import TASKS  # noqa: E402
from rnnlab.tasks.task import AbstractTask  # noqa: E402

MEMBERS = 132
SMALL = (("lstm", 118), ("gru", 148))  # about 200,000 parameters on parentheses
STEPS_OF_TRAINING = ROOT / "benchmarks" / "results" / "gpu-h200.json"


def cases(num_members: int) -> list[tuple[AbstractTask, int, int | None]]:
    """Tasks at the papers' sizes with their own batch sizes, for all members alike; then a batch for each member."""
    shared = [(task(name), None) for name, entry in TASKS.items() if entry.data_set is None]
    own: list[tuple[AbstractTask, int | None]] = [
        (task(name), num_members) for name in ("parentheses", "adding", "copying")
    ]
    own += [(task("capacity", num_samples=tuple(range(2000, 2000 + num_members))), None)]
    own += [(task("arithmetic", compute_steps=tuple(1 + member % 6 for member in range(num_members))), None)]
    return [(each, each.batch_size, members) for each, members in shared + own]


def seconds(step: Callable[[], Any], device: torch.device) -> float:
    """The median time of a step, of rounds that take long enough to be timed."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    for _ in range(3):
        step()
    wait()
    num_steps, rounds = 1, []
    while len(rounds) < 5:
        begin = time.perf_counter()
        for _ in range(num_steps):
            step()
        wait()
        spent = time.perf_counter() - begin
        if spent < 0.05 and not rounds:
            num_steps *= 2
        else:
            rounds.append(spent / num_steps)
    return statistics.median(rounds)


def race(each: AbstractTask, batch_size: int, members: int | None, device: torch.device) -> dict[str, Any]:
    """One row: sequences a second, as plain calls and, on a GPU, as a graph that was found to replay the same."""
    generator = torch.Generator(device).manual_seed(0)

    def step() -> Any:
        return each.sample(batch_size, generator=generator, members=members)

    batch = step()
    num_members = members or each.population or 1
    row: dict[str, Any] = {
        "task": str(each) if len(str(each)) < 30 else f"{each.name} by member",
        "members": num_members,
        "batch_size": batch_size,
        "batch_bytes": batch.inputs.untyped_storage().nbytes(),
    }
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode("error")
    row["seconds"] = seconds(step, device)
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode("default")
        row["graph_seconds"] = seconds(recorded(step, generator), device)
    fastest = row.get("graph_seconds", row["seconds"])
    row["sequences_per_second"] = num_members * batch_size / fastest
    return row


def recorded(step: Callable[[], Any], generator: torch.Generator) -> Callable[[], None]:
    """The step as a CUDA graph, whose replays draw on from the generator as plain calls do."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    generator.manual_seed(7)
    plain = [step() for _ in range(2)]
    expected = [(batch.inputs.clone(), batch.targets.clone()) for batch in plain]
    generator.manual_seed(7)
    with torch.cuda.graph(graph):
        batch = step()
    generator.manual_seed(7)
    for inputs, targets in expected:
        graph.replay()
        if not (torch.equal(batch.inputs, inputs) and torch.equal(batch.targets, targets)):
            raise SystemExit("a graph replays other sequences than plain calls draw: nothing is timed")
    return graph.replay


def training_steps() -> list[dict[str, Any]]:
    """The recorded training steps of 132 networks on parentheses' sizes: about 200,000 parameters each."""
    rows = [row for row in json.loads(STEPS_OF_TRAINING.read_text())["populations"] if "ms" in row]
    wanted = [row for row in rows if row["members"] == MEMBERS and (row["network"], row["units"]) in SMALL]
    return list({(row["network"], row["precision"]): row for row in wanted}.values())  # there is a row for each peer


def show(row: dict[str, Any]) -> None:
    graph = f"{row['graph_seconds'] * 1e3:10.3f}" if "graph_seconds" in row else f"{'':10}"
    print(
        f"{row['task']:<24}{row['members']:>8}{row['batch_size']:>7}{row['batch_bytes'] / 1e6:>10.1f}"
        f"{row['seconds'] * 1e3:>10.3f}{graph}{row['sequences_per_second']:>16,.0f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--members", type=int, default=MEMBERS, help="how many have batches of their own")
    parser.add_argument("-o", "--output", type=Path, help="write the rows to this JSON file")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    machine = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or platform.machine()
    print(f"{machine}, torch {torch.__version__}")
    print(f"{'task':<24}{'members':>8}{'batch':>7}{'MB':>10}{'ms':>10}{'graph ms':>10}{'sequences a s':>16}")
    rows = []
    for each, batch_size, members in cases(arguments.members):
        rows.append(race(each, batch_size, members, device))
        show(rows[-1])
    if device.type == "cuda" and arguments.members == MEMBERS:
        (batch,) = (row for row in rows if row["task"] == "parentheses" and row["members"] == MEMBERS)
        for step in training_steps():
            share = batch["graph_seconds"] * 1e3 / step["ms"]
            print(f"parentheses for {MEMBERS} members: {share:.0%} of a {step['network']} step in {step['precision']}")
    if arguments.output:
        found = {"machine": machine, "torch": torch.__version__, "rows": rows}
        arguments.output.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
