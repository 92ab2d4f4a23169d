"""More training steps for the networks of a record: do they come to what the paper reports, or to another order?

python results/checks/more_steps.py collins-rcf --steps 20000 60000 -o results/checks/rcf-steps.json
python results/checks/more_steps.py collins-arithmetic --only "depth 1" --steps 50000 -o arithmetic-steps.json
python results/checks/more_steps.py collins-arithmetic --only "depth 8" --steps 25000 -o arithmetic-steps.json

The three best settings of every network in the record are trained again for each number of steps, with their learning
rates and with a third of them, since what is best for few steps may be too fast for many; the best counts. The learning
rate falls over all steps. Everything else is as it was. The file holds the scores, the record's beside them; what it
held of other networks and numbers of steps stays. (Here both ran on a GPU: --device cuda --workers 4 to 6.)
"""

import argparse
import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rnnlab import load_record, train
from rnnlab.tuning.binding import Setting, split, task_of

RECORDS = Path(__file__).parents[1] / "records"
EVALUATIONS, SETTINGS = 10, 3
RATES = (1.0, 1 / 3)  # times the learning rates of the record


def trained(record: str, name: str, steps: int, device: str) -> dict[str, Any]:
    """The best of a network's best settings after so many steps."""
    (found,) = (each for each in load_record(RECORDS / f"{record}.json.gz").arms if each.arm.name == name)
    arm, score = found.arm, found.arm.score
    sign = -1 if arm.is_maximised else 1
    best = sorted(
        (trial for trial in found.all_trials if trial.value is not None), key=lambda trial: sign * trial.value
    )
    precision = "float32" if device == "cpu" else best[0].run["precision"]
    settings = [
        Setting(longer(trial.hyperparameters, rate, steps), trial.arguments)
        for trial in best[:SETTINGS]
        for rate in RATES
    ]
    started = time.perf_counter()
    scores: list[dict[str, float]] = [{}] * len(settings)
    for places in split(settings, arm.task):
        chosen = [settings[place] for place in places]
        members = [each.hyperparameters for each in chosen]
        options: dict[str, Any] = {"seed": arm.seed, "device": device, "precision": precision}
        run = train(arm.architecture, task_of(chosen, arm.task), members, **options)
        for place, member in zip(places, run.members, strict=True):
            scores[place] = dict(member.validation)  # empty, if it diverged before the first evaluation
    return {
        "network": name,
        "parameters": best[0].num_parameters,
        "units": sum(node.units for node in arm.architecture.nodes if node.kind == "hidden"),
        "steps": steps,
        "best": min((each for each in scores if each), key=lambda each: sign * each[score.name]),
        "of_settings": [each.get(score.name) for each in scores],
        "in_the_record": best[0].value,
        "precision": precision,
        "seconds": round(time.perf_counter() - started, 1),
    }


def longer(member: Any, rate: float, steps: int) -> Any:
    """A setting for so many steps, with another learning rate."""
    changed = {"num_steps": steps, "evaluate_every": steps // EVALUATIONS}
    return replace(member, learning_rate=rate * member.learning_rate, **changed)


def main() -> None:
    """Train several at a time; what is there is written after each, so that a run can be cut short."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record")
    parser.add_argument("--only", default="", help="networks with this in their names")
    parser.add_argument("--steps", type=int, nargs="+", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    rows = json.loads(options.output.read_text())["networks"] if options.output.exists() else []
    arms = [found.arm for found in load_record(RECORDS / f"{options.record}.json.gz").arms]
    names = [arm.name for arm in arms if options.only in arm.name]
    device = options.device if options.device == "cpu" else torch.cuda.get_device_name()
    with ProcessPoolExecutor(options.workers, multiprocessing.get_context("spawn")) as pool:
        jobs = [(options.record, name, steps, options.device) for steps in sorted(options.steps) for name in names]
        for each in as_completed([pool.submit(trained, *job) for job in jobs]):
            row = each.result()
            print(json.dumps(row), flush=True)
            rows = [old for old in rows if (old["steps"], old["network"]) != (row["steps"], row["network"])] + [row]
            rows.sort(key=lambda row: (row["steps"], row["network"]))
            about = {"torch": torch.__version__, "device": device, "networks": rows}
            options.output.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
