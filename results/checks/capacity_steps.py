"""More training steps for networks of `collins-capacity`: does time keep them from the bits that the paper reports?

python results/checks/capacity_steps.py "tanh depth 1 parameters 2000" --per-parameter 3.5 4 4.5 5 -o tanh.json
python results/checks/capacity_steps.py "irnn depth 1 parameters 2000" --per-parameter 2.5 3 3.5 -o irnn.json

The setting that stored most in the record is trained again for each number of steps, on sets of several sizes, as one
population; its learning rate falls over all of the steps. Everything else is as it was. capacity-steps.json
holds the runs of both.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rnnlab import load_record, task, train

RECORD = Path(__file__).parents[1] / "records" / "collins-capacity.json.gz"
EVALUATIONS = 10


def best_of(name: str) -> Any:
    """An arm, and its trial that stored most."""
    (found,) = (each for each in load_record(RECORD).arms if each.arm.name == name)
    return found.arm, max(found.all_trials, key=lambda trial: trial.value or 0.0)


def trained(name: str, steps: int, per_parameter: list[float], device: str) -> dict[str, Any]:
    """Bits a parameter of every size of set."""
    arm, best = best_of(name)
    sizes = tuple(round(each * best.num_parameters) for each in per_parameter)
    problem = task("capacity", length=arm.task.length, num_samples=sizes, input_once=best.arguments["input_once"])
    member = replace(best.hyperparameters, num_steps=steps, evaluate_every=steps // EVALUATIONS)
    started = time.perf_counter()
    run = train(arm.architecture, problem, [member] * len(sizes), seed=arm.seed, device=device)
    bits = [each.validation["mutual_information"] / best.num_parameters for each in run.members]
    of_sets = dict(zip(map(str, per_parameter), bits, strict=True))
    row = {"steps": steps, "bits_a_parameter": max(bits), "of_sets": of_sets}
    print(json.dumps(row), f"{time.perf_counter() - started:.0f} s", flush=True)
    return row


def main() -> None:
    """Train, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="ARM")
    parser.add_argument("--steps", type=int, nargs="+", default=[30_000, 300_000])
    parser.add_argument("--per-parameter", type=float, nargs="+", default=[3.0, 3.5, 4.0, 4.5, 5.0, 6.0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    found = {
        name: [trained(name, steps, options.per_parameter, options.device) for steps in options.steps]
        for name in options.names
    }
    about = {"torch": torch.__version__, "device": options.device, "precision": "float32", "networks": found}
    options.output.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
