"""More training steps for networks of `collins-rcf`: do cells of equal size come to the same error in the end?

python results/checks/rcf_steps.py --steps 20000 60000 --device cuda --workers 4 -o results/checks/rcf-steps.json

The three best settings of every cell and size in the record are trained again for each number of steps, with their
learning rates and with a third of them, since what is best for few steps may be too fast for many; the lowest error
counts. The learning rate falls over all steps. Everything else is as it was. rcf-steps.json holds the errors, the
record's beside them, and for each number of steps the shares of their variance that power laws in parameters and in
units explain.
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rnnlab import load_record, train
from rnnlab.studies.statistics import explained_share

RECORD = Path(__file__).parents[1] / "records" / "collins-rcf.json.gz"
EVALUATIONS, SETTINGS = 10, 3
RATES = (1.0, 1 / 3)  # times the learning rates of the record


def trained(name: str, steps: int, device: str) -> dict[str, Any]:
    """The lowest error of an arm's best settings after so many steps."""
    (found,) = (each for each in load_record(RECORD).arms if each.arm.name == name)
    best = sorted((trial for trial in found.all_trials if trial.value is not None), key=lambda trial: trial.value)
    members = [
        replace(
            trial.hyperparameters,
            num_steps=steps,
            evaluate_every=steps // EVALUATIONS,
            learning_rate=rate * trial.hyperparameters.learning_rate,
        )
        for trial in best[:SETTINGS]
        for rate in RATES
    ]
    precision = "float32" if device == "cpu" else "bf16"  # as in the record, where there are such products
    started = time.perf_counter()
    run = train(
        found.arm.architecture, found.arm.task, members, seed=found.arm.seed, device=device, precision=precision
    )
    errors = [member.validation.get("weighted_mse") for member in run.members]
    return {
        "network": name,
        "parameters": best[0].num_parameters,
        "units": sum(node.units for node in found.arm.architecture.nodes if node.kind == "hidden"),
        "steps": steps,
        "weighted_mse": min(error for error in errors if error is not None),
        "of_settings": errors,
        "in_the_record": best[0].value,
        "precision": precision,
        "seconds": round(time.perf_counter() - started, 1),
    }


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


def jobs(parameters: Sequence[int], steps: Sequence[int]) -> list[tuple[str, int]]:
    """Networks of these sizes for each number of steps: few steps first, and of these the largest networks."""
    chosen = [found for found in load_record(RECORD).arms if found.labels["parameters"] in parameters]
    chosen.sort(key=lambda found: -found.labels["parameters"])
    return [(found.arm.name, number) for number in sorted(steps) for found in chosen]


def main() -> None:
    """Train several at a time; what is there is written after each, so that a run can be cut short."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=int, nargs="+", default=[3000, 10_000, 30_000, 100_000])
    parser.add_argument("--steps", type=int, nargs="+", default=[20_000, 60_000])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.workers, multiprocessing.get_context("spawn")) as pool:
        made = [pool.submit(trained, *job, options.device) for job in jobs(options.parameters, options.steps)]
        for each in as_completed(made):
            rows.append(each.result())
            print(json.dumps(rows[-1]), flush=True)
            rows.sort(key=lambda row: (row["steps"], row["network"]))
            device = options.device if options.device == "cpu" else torch.cuda.get_device_name()
            about = {"torch": torch.__version__, "device": device, "explained": explained(rows), "networks": rows}
            options.output.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
