"""More training steps for networks of `collins-rcf`: do cells of equal size come to the same error in the end?

python results/checks/rcf_steps.py --parameters 3000 10000 30000 --steps 5000 25000 -o results/checks/rcf-steps.json

The best setting of every cell and size in the record is trained again for each number of steps, with its learning rate
and with a third of it, since what is best for few steps may be too fast for many; the lower error counts. The learning
rate falls over all steps. Everything else is as it was, but for the precision: float32. rcf-steps.json holds the
errors, and for each number of steps the shares of their variance that power laws in parameters and in units explain.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rnnlab import load_record, train
from rnnlab.studies.statistics import explained_share

RECORD = Path(__file__).parents[1] / "records" / "collins-rcf.json.gz"
EVALUATIONS = 5
RATES = (1.0, 1 / 3)  # times the learning rate of the record


def trained(found: Any, steps: int, device: str) -> dict[str, Any]:
    """The error of an arm's best setting after so many steps."""
    best = min((trial for trial in found.all_trials if trial.value is not None), key=lambda trial: trial.value)
    longer = replace(best.hyperparameters, num_steps=steps, evaluate_every=steps // EVALUATIONS)
    members = [replace(longer, learning_rate=rate * longer.learning_rate) for rate in RATES]
    started = time.perf_counter()
    run = train(found.arm.architecture, found.arm.task, members, seed=found.arm.seed, device=device)
    errors = [member.validation["weighted_mse"] for member in run.members]
    row = {
        "network": found.arm.name,
        "parameters": best.num_parameters,
        "units": sum(node.units for node in found.arm.architecture.nodes if node.kind == "hidden"),
        "steps": steps,
        "weighted_mse": min(errors),
        "by_rate": errors,
        "in_the_record": best.value,
    }
    print(json.dumps(row), f"{time.perf_counter() - started:.0f} s", flush=True)
    return row


def explained(rows: list[dict[str, Any]]) -> dict[str, dict[str, float | None]]:
    """By number of steps: how much of the errors' variance power laws in parameters and in units explain."""
    found: dict[str, dict[str, float | None]] = {}
    for steps in sorted({row["steps"] for row in rows}):
        these = [row for row in rows if row["steps"] == steps]
        errors = [row["weighted_mse"] for row in these]
        found[str(steps)] = {
            size: explained_share([row[size] for row in these], errors) for size in ("parameters", "units")
        }
    return found


def arms_of(parameters: Sequence[int]) -> list[Any]:
    """The record's arms of these sizes, the smallest first."""
    chosen = [found for found in load_record(RECORD).arms if found.labels["parameters"] in parameters]
    return sorted(chosen, key=lambda found: found.labels["parameters"])


def main() -> None:
    """Train one after another; what is there is written after each, so that a run can be cut short."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=int, nargs="+", default=[3000, 10_000, 30_000])
    parser.add_argument("--steps", type=int, nargs="+", default=[5000, 50_000])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for found in arms_of(options.parameters):
        for steps in options.steps:
            rows.append(trained(found, steps, options.device))
            about = {"torch": torch.__version__, "device": options.device, "precision": "float32"}
            about |= {"explained": explained(rows), "networks": rows}
            options.output.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
