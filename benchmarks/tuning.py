"""How good and how fast samplers are: `python benchmarks/tuning.py [--part quality|speed] [--seeds N] [-o FILE]`.

Quality: the lowest value after 200 evaluations in batches of 20, on three functions of 20 dimensions. All contestants
of a seed start from the same 20 random points, so that a good first guess helps nobody. Speed: a batch of 64 points in
a mixed space of 20 dimensions after 200 trials, and after 1,000. Times are of one run on a machine that may be shared:
compare those of one table. Runs after the tests of the process have passed; writes benchmarks/results/tuning-cpu.json,
in which --part renews its own part only.
"""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import torch

from rnnlab.tuning.observations import Observation
from rnnlab.tuning.samplers import sampler
from rnnlab.tuning.space import Category, Float, Integer, Point, SearchSpace

ROOT = Path(__file__).parents[1]
NUM_DIMENSIONS, NUM_EVALUATIONS, BATCH_SIZE = 20, 200, 20
CUBE = SearchSpace([Float(f"x{index}", 0.0, 1.0) for index in range(NUM_DIMENSIONS)])
OURS, OPTUNAS = ("gp", "random"), ("optuna-gp", "optuna-tpe")
GOALS = {"hartmann": -3.319, "levy": 4.59, "hartmann-half": -3.32}

_HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
_STEEPNESS = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
_PEAKS = np.array(
    [
        [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
        [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
        [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
        [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
    ]
)


def hartmann(x: np.ndarray) -> float:
    """Hartmann's function of 6 of the dimensions; the 14 others do nothing. The lowest value is -3.32237."""
    return -float(_HEIGHTS @ np.exp(-(_STEEPNESS * (x[:6] - _PEAKS) ** 2).sum(1)))


def hartmann_half(x: np.ndarray) -> float | None:
    """The same; where the six add up to more than 3, half of the cube, there is no value."""
    return None if x[:6].sum() > 3.0 else hartmann(x)


def levy(x: np.ndarray) -> float:
    """Levy's function of all dimensions on -10 to 10. The lowest value is 0."""
    w = 1.0 + (20.0 * x - 11.0) / 4.0
    middle = (w[:-1] - 1.0) ** 2 * (1.0 + 10.0 * np.sin(math.pi * w[:-1] + 1.0) ** 2)
    last = (w[-1] - 1.0) ** 2 * (1.0 + math.sin(2.0 * math.pi * w[-1]) ** 2)
    return float(math.sin(math.pi * w[0]) ** 2 + middle.sum() + last)


FUNCTIONS: dict[str, Callable[[np.ndarray], float | None]] = {
    "hartmann": hartmann,
    "levy": levy,
    "hartmann-half": hartmann_half,
}


def mixed_space() -> SearchSpace:
    """20 dimensions: logarithmic, linear, logit, whole numbers, categories, and one that is conditional."""
    categories = {
        "optimiser": ("sgd", "momentum", "rmsprop", "adam"),
        "square": ("identity", "orthogonal", "normal"),
        "bias": ("constant", "normal"),
        "nonlinearity": ("tanh", "relu"),
        "input_once": (False, True),
    }
    later = {"optimiser": ("momentum", "rmsprop", "adam")}
    return SearchSpace(
        [
            *(Category(name, choices) for name, choices in categories.items()),
            *(Float(f"log{index}", 1e-4, 1e-1, "log") for index in range(7)),
            *(Float(f"linear{index}", -2.0, 2.0) for index in range(4)),
            Float("momentum", 0.731, 0.9991, "logit", when=later),
            Integer("compute_steps", 1, 6),
            Integer("num_samples", 1, 1000, "log"),
            Integer("patience", 0, 100),
        ]
    )


def mixed_value(point: Point) -> float | None:
    """A loss that depends on some of them; large learning rates diverge."""
    rate, decay = (math.log10(float(point[name])) for name in ("log0", "log1"))
    if rate > -1.3:
        return None
    away = (rate + 2.5) ** 2 + 0.3 * (decay + 3.0) ** 2 + 0.2 * abs(float(point["linear0"]))
    steps = 0.1 * (int(point["compute_steps"]) - 4) ** 2
    return away + steps + (point["optimiser"] != "adam") + 0.5 * (point["nonlinearity"] == "relu")


def observed(point: Point, value: float | None) -> Observation:
    return Observation(point, value) if value is not None else Observation(point, None, "infeasible")


def array(point: Point) -> np.ndarray:
    return np.array([float(point[name]) for name in CUBE.names])


def optuna_study(name: str, seed: int) -> optuna.Study:
    kinds = {"optuna-gp": optuna.samplers.GPSampler, "optuna-tpe": optuna.samplers.TPESampler}
    options = {"optuna-gp": {}, "optuna-tpe": {"constant_liar": True}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return optuna.create_study(sampler=kinds[name](seed=seed, **options[name]))


def tell(study: optuna.Study, space: SearchSpace, point: Point, value: float | None) -> None:
    """A finished trial. An infeasible one has the constraint violated and the value 0, the highest of Hartmann's."""
    constraints = {"feasible": 1.0 if value is None else -1.0}
    study.add_trial(
        optuna.trial.create_trial(
            params=dict(point),
            distributions={name: each for name, each in space.distributions().items() if name in point},
            value=0.0 if value is None else value,
            constraints=constraints,
        )
    )


def search(name: str, function: str, seed: int) -> dict[str, Any]:
    """One contestant on one function: the lowest value after each batch, and the time its suggestions took."""
    generator = np.random.default_rng(seed)
    values: list[float | None] = []
    found: list[Observation] = []
    study = optuna_study(name, seed) if name in OPTUNAS else None
    ours = None if study else sampler(name)
    spent = 0.0
    while len(values) < NUM_EVALUATIONS:
        begin = time.perf_counter()
        trials: list[optuna.Trial] = []
        if not values:
            points: list[Point] = [CUBE.sample(generator) for _ in range(BATCH_SIZE)]
        elif study:
            trials = [study.ask(CUBE.distributions()) for _ in range(BATCH_SIZE)]
            points = [trial.params for trial in trials]
        else:
            assert ours is not None
            points = list(ours.suggest(CUBE, found, BATCH_SIZE, generator=generator))
        spent += time.perf_counter() - begin
        new = [FUNCTIONS[function](array(point)) for point in points]
        values += new
        found += [observed(point, value) for point, value in zip(points, new, strict=True)]
        if study and not trials:
            for point, value in zip(points, new, strict=True):
                tell(study, CUBE, point, value)
        for trial, value in zip(trials, new, strict=bool(trials)):
            trial.set_constraint("feasible", 1.0 if value is None else -1.0)
            assert study is not None
            study.tell(trial, 0.0 if value is None else value)
    best = [
        min((value for value in values[:count] if value is not None), default=math.inf)
        for count in range(BATCH_SIZE, NUM_EVALUATIONS + 1, BATCH_SIZE)
    ]
    return {"best": best[-1], "seconds": spent, "best_after_each_batch": best}


def quality(num_seeds: int, names: list[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for function, goal in GOALS.items():
        for name in names:
            runs = [search(name, function, seed) for seed in range(num_seeds)]
            median = statistics.median(run["best"] for run in runs)
            took = statistics.median(run["seconds"] for run in runs)
            rows.append({"function": function, "sampler": name, "median": median, "seconds": took, "runs": runs})
            reached = f"goal {goal:g} {'reached' if median <= goal else 'missed'}" if name == "gp" else ""
            print(f"{function:<14} {name:<11} {median:9.4f}   {took:7.1f} s   {reached}", flush=True)
    return rows


def mixed_observations(count: int) -> list[Observation]:
    space, generator = mixed_space(), np.random.default_rng(0)
    points = [space.sample(generator) for _ in range(count)]
    return [observed(point, mixed_value(point)) for point in points]


def our_batch(name: str, observations: list[Observation], count: int) -> tuple[float, list[Point]]:
    begin = time.perf_counter()
    points = sampler(name).suggest(mixed_space(), observations, count, generator=np.random.default_rng(1))
    return time.perf_counter() - begin, list(points)


def optuna_batch(name: str, observations: list[Observation], count: int) -> tuple[float, list[Point]]:
    """Optuna's samplers have no batches: they are asked one by one, and learn what is pending. To them the conditional
    dimension is one that every trial has, so that they may use it."""
    space = SearchSpace([each if not each.when else Float("momentum", 0.731, 0.9991) for each in mixed_space()])
    study = optuna_study(name, 1)
    for observation in observations:
        point = {"momentum": 0.9, **observation.point}
        tell(study, space, {key: point[key] for key in space.names}, observation.value)
    begin = time.perf_counter()
    trials = [study.ask(space.distributions()) for _ in range(count)]
    return time.perf_counter() - begin, [trial.params for trial in trials]


def speed(optuna_gp_batch: int) -> list[dict[str, Any]]:
    cases = (
        ("gp", our_batch, 200, 64),
        ("optuna-gp", optuna_batch, 200, optuna_gp_batch),
        ("optuna-tpe", optuna_batch, 200, 64),
        ("gp", our_batch, 1000, 64),
        ("optuna-tpe", optuna_batch, 1000, 64),
    )
    rows: list[dict[str, Any]] = []
    for name, batch, num_trials, count in cases:
        began = time.process_time()
        took, points = batch(name, mixed_observations(num_trials), count)
        cpu = time.process_time() - began
        distinct = len({json.dumps(point, sort_keys=True) for point in points})
        rows.append(
            {"sampler": name, "trials": num_trials, "batch": count, "seconds": took, "distinct": distinct}
            | {"seconds_per_point": took / count, "cpu_seconds": cpu}
        )
        times = f"{took:7.2f} s, {cpu:7.2f} s of CPU"
        print(f"{num_trials:>5} trials {name:<11} {count:>3} points {times}   {distinct} distinct", flush=True)
    return rows


def quality_table(table: dict[str, Any]) -> str:
    """The rows of `quality` as docs/samplers.md shows them."""
    lines = ["| function | goal | sampler | lowest value | seconds for 180 suggestions |", "|---|---|---|---|---|"]
    for row in table["quality"]:
        goal = f"{table['goals'][row['function']]:g}"
        lines.append(f"| {row['function']} | {goal} | {row['sampler']} | {row['median']:.4f} | {row['seconds']:.1f} |")
    return "\n".join(lines)


def speed_table(table: dict[str, Any]) -> str:
    """The rows of `speed` as docs/samplers.md shows them."""
    lines = ["| trials so far | sampler | batch | seconds | of CPU | seconds a point |", "|---|---|---|---|---|---|"]
    for row in table["speed"]:
        shown = f"{row['seconds']:.1f} | {row['cpu_seconds']:.1f} | {row['seconds_per_point']:.3f}"
        lines.append(f"| {row['trials']:,} | {row['sampler']} | {row['batch']} | {shown} |")
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    packages = ("rnnlab", "numpy", "scipy", "torch", "optuna")
    return {
        "processor": f"{processor()}, {os.cpu_count()} cores",
        "threads": torch.get_num_threads(),
        "load_average": os.getloadavg()[0],
        "versions": {"python": platform.python_version()} | {name: version(name) for name in packages},
    }


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("quality", "speed"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samplers", nargs="+", choices=(*OURS, *OPTUNAS), default=[*OURS, *OPTUNAS])
    parser.add_argument("--optuna-gp-batch", type=int, default=64)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "benchmarks" / "results" / "tuning-cpu.json")
    arguments = parser.parse_args()
    # on a shared machine two threads wait for each other, which would hurt Optuna's process more than ours
    torch.set_num_threads(1)
    tests = [sys.executable, "-m", "pytest", "-q", "tests/tuning/test_gaussian_process.py"]
    if subprocess.run(tests, cwd=ROOT, capture_output=True, check=False).returncode:
        sys.exit("the tests of the Gaussian process fail: nothing is timed")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    table = json.loads(arguments.output.read_text()) if arguments.part and arguments.output.exists() else {}
    table |= {"goals": GOALS}
    if arguments.part != "quality":
        table |= {"speed_on": machine(), "speed": speed(arguments.optuna_gp_batch)}
    if arguments.part != "speed":
        table |= {"quality_on": machine(), "quality": quality(arguments.seeds, arguments.samplers)}
    arguments.output.write_text(json.dumps(table, indent=2) + "\n")
    print(
        *(show(table) for show, part in ((speed_table, "speed"), (quality_table, "quality")) if part in table), sep="\n"
    )


if __name__ == "__main__":
    main()
