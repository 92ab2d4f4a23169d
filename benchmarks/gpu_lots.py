"""Milliseconds of a step of lots of a study, alone and side by side: `python benchmarks/gpu_lots.py FILE STUDY`.

Lots as a worker trains them (`rnnlab/tuning/side_by_side.py`): populations of random settings, a recorded step each,
every lot on a stream of its own. Side by side they are of different arms. Kernels of some lots alone are listed too:
how many a step has, and which take longest. `--lots 8 --members 33` names other numbers than the specification's.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from rnnlab.engine.gpu.sharing import share_of_gpu
from rnnlab.studies.expansion import expand
from rnnlab.studies.finding import find_spec
from rnnlab.training.loop import Training, training
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.binding import bind, task_of
from rnnlab.tuning.samplers import sampler

LOTS = (1, 2, 4, 8, 16)
WARM_UPS, ROUNDS, HOST_ROUNDS = 8, 200, 5
LONGEST = 12  # kernels that are named


def lot(arm: Arm, num_members: int) -> Training:
    """The training of a population that does not end here, and is not evaluated."""
    points = sampler("random").suggest(arm.space, [], num_members, generator=arm.generator(0))
    settings = [bind(point, arm.hyperparameters, arm.architecture, arm.task) for point in points]
    members = [replace(each.hyperparameters, num_steps=10**6, evaluate_every=10**6) for each in settings]
    task = task_of(settings, arm.task)
    options: Any = {"path": arm.path, "precision": arm.precision, "report_every": 10**6, "compact": False}
    return training(arm.architecture, task, members, seed=arm.seed, device="cuda", **options)


class Lots:
    """Lots that take turns."""

    def __init__(self, arms: Sequence[Arm], num_members: int) -> None:
        self._lots = [(lot(arm, num_members), torch.cuda.Stream()) for arm in arms]
        for _ in range(WARM_UPS):
            self.round()
        torch.cuda.synchronize()

    def round(self) -> None:
        """A step of each."""
        for steps, stream in self._lots:
            with torch.cuda.stream(stream), share_of_gpu(1 / len(self._lots)):
                next(steps)

    def milliseconds(self, num_rounds: int, *, is_awaited: bool) -> float:
        """Of a round; of the host alone where the GPU is not waited for."""
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(num_rounds):
            self.round()
        if is_awaited:
            torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - start) / num_rounds

    def close(self) -> None:
        """End all."""
        for steps, _ in self._lots:
            steps.close()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def timed(arms: Sequence[Arm], num_members: int) -> dict[str, Any]:
    """Milliseconds of some lots side by side."""
    with closing(Lots(arms, num_members)) as lots:
        spent = lots.milliseconds(ROUNDS, is_awaited=True)
        host = lots.milliseconds(HOST_ROUNDS, is_awaited=False)
    names = [arm.name for arm in arms]
    return {"lots": len(arms), "ms_a_lot": spent / len(arms), "host_ms_a_lot": host / len(arms), "arms": names}


def kernels(arm: Arm, num_members: int) -> dict[str, Any]:
    """Kernels of a step of one lot, and the milliseconds of all and of the longest."""
    from torch.profiler import ProfilerActivity, profile

    with closing(Lots([arm], num_members)) as lots, profile(activities=[ProfilerActivity.CUDA]) as profiler:
        lots.round()
        torch.cuda.synchronize()
    events = [event for event in profiler.key_averages() if event.device_time_total > 0]  # not calls of the host
    found = sorted(events, key=lambda event: -event.device_time_total)
    longest = {event.key[:90]: [event.count, event.device_time_total / 1e3] for event in found[:LONGEST]}
    total = sum(event.device_time_total for event in found) / 1e3
    return {"arm": arm.name, "kernels": sum(event.count for event in found), "kernel_ms": total, "longest": longest}


def main() -> None:
    """Time, print a row at a time, write them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("studies", nargs="+", metavar="STUDY", help="specifications that have a scale gpu")
    parser.add_argument("--lots", type=int, nargs="*", default=LOTS, help="how many side by side")
    parser.add_argument("--members", type=int, help="of a lot")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for study in options.studies:
        arms = [each.arm for each in expand(find_spec(study, scale="gpu"))]
        for count in options.lots:
            chosen = arms[:: max(1, len(arms) // count)][:count]
            num_members = options.members or chosen[0].population or chosen[0].num_trials
            rows.append({"study": study, "members": num_members} | timed(chosen, num_members))
            print(json.dumps(rows[-1])[:200], flush=True)
        for arm in arms[:: max(1, len(arms) // 4)][:4]:
            num_members = options.members or arm.population or arm.num_trials
            rows.append({"study": study, "members": num_members} | kernels(arm, num_members))
            print(json.dumps(rows[-1], indent=1), flush=True)
        options.file.write_text(json.dumps({"device": torch.cuda.get_device_name(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
