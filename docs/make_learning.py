"""Trains the networks of the section "Does it learn?" in docs/training.md, records their curves and draws them.

python docs/make_learning.py [name ...]     train these, or all, into docs/learning/, and draw all
python docs/make_learning.py --draw         draw what is recorded
"""

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

from rnnlab import Hyperparameters, architecture, task, train

FOLDER = Path(__file__).with_name("learning")
PICTURE = FOLDER / "curves.svg"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Networks on one task, all with the same hyperparameters.

    Args:
        title: what the picture says.
        task: its name.
        arguments: the task's.
        networks: name and units of each, by label.
        member: the hyperparameters.
        seeds: how many members each network has, which differ in their seeds.
    """

    title: str
    task: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    networks: Mapping[str, tuple[str, int]]
    member: Hyperparameters
    seeds: int = 1


def _member(**values: Any) -> Hyperparameters:
    return Hyperparameters().changed(**values)


EXPERIMENTS = {
    "adding": Experiment(
        title="adding, T 100",
        task="adding",
        arguments={"length": 100, "num_evaluation": 500},
        networks={"LSTM, 32 units": ("lstm", 32)},
        member=_member(
            learning_rate=0.01, gate_bias=1.0, clip_norm=1.0, batch_size=20, num_steps=2500, evaluate_every=125
        ),
    ),
    "copying": Experiment(
        title="copying, T 100",
        task="copying",
        arguments={"delay": 100, "num_evaluation": 200},
        networks={"tanh with skip 22": ("skip-22:tanh", 64), "tanh": ("tanh", 64)},
        member=_member(
            learning_rate=0.003, square="orthogonal", clip_norm=1.0, batch_size=20, num_steps=1000, evaluate_every=50
        ),
    ),
    "recall": Experiment(
        title="first-element recall, T 100",
        task="recall",
        arguments={"num_evaluation": 500},
        networks={"C, with skip": ("mongia-c", 50), "A, without": ("mongia-a", 50)},
        member=_member(
            nonlinearity="relu",
            square_scale=0.1,
            rectangular_scale=0.3,
            batch_size=50,
            num_steps=1500,
            evaluate_every=75,
        ),
        seeds=2,
    ),
    "memory": Experiment(
        title="memory of 64 numbers",
        task="memory",
        arguments={"num_evaluation": 500},
        networks={f"tanh, {units} units": ("tanh", units) for units in (32, 48, 56, 64, 80)},
        member=_member(
            learning_rate=0.004,
            decay_factor=0.01,
            square="orthogonal",
            rectangular_scale=0.05,
            batch_size=64,
            num_steps=4000,
            evaluate_every=200,
        ),
    ),
    "parentheses": Experiment(
        title="parentheses, 2 types, T 20",
        task="parentheses",
        arguments={"length": 20, "num_types": 2, "num_noise": 2, "num_evaluation": 500},
        networks={"GRU, 32 units": ("gru", 32)},
        member=_member(
            learning_rate=0.01, gate_bias=1.0, clip_norm=1.0, batch_size=32, num_steps=1500, evaluate_every=75
        ),
    ),
}


def learn(experiment: Experiment) -> dict[str, Any]:
    """Train all networks of an experiment; their curves as JSON."""
    problem = task(experiment.task, **experiment.arguments)
    watched = problem.scores[0]
    curves: list[dict[str, Any]] = []
    for label, (name, units) in experiment.networks.items():
        network = architecture(
            name,
            input_size=problem.input_size,
            output_size=problem.output_size,
            units=units,
            encoding=problem.encoding,
        )
        for member in train(network, problem, experiment.member.with_seeds(experiment.seeds)).members:
            curves.append(
                {
                    "label": label,
                    "architecture": name,
                    "units": units,
                    "hyperparameters": str(member.hyperparameters),
                    "outcome": member.outcome,
                    "steps": member.curve.steps,
                    "scores": member.curve.scores[watched.name],
                    "test": dict(member.test),
                }
            )
    return {
        "title": experiment.title,
        "task": problem.to_json(),
        "score": watched.name,
        "unit": watched.unit,
        "chance": watched.chance,
        "curves": curves,
    }


def draw(records: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """All recorded curves in one picture, a panel for each experiment."""
    pyplot.rcParams["svg.hashsalt"] = "rnnlab"  # the same names inside, so that the same curves give the same file
    figure, panels = pyplot.subplots(2, 3, figsize=(12, 6.5), layout="constrained")
    for panel, record in zip(panels.flat, records.values(), strict=False):
        colours: dict[str, Any] = {}
        for curve in record["curves"]:
            label = None if curve["label"] in colours else curve["label"]
            colour = colours.setdefault(curve["label"], f"C{len(colours)}")
            panel.plot(curve["steps"], curve["scores"], color=colour, label=label)
        panel.axhline(record["chance"], color="black", linestyle=":", linewidth=1, label="chance")
        panel.set(yscale="log", title=record["title"], xlabel="step", ylabel=f"{record['score']} on validation")
        panel.legend(fontsize=7)
    for panel in panels.flat[len(records) :]:
        panel.set_visible(False)
    figure.savefig(
        path, metadata={"Date": None, "Description": fingerprint(records)} if path.suffix == ".svg" else None
    )
    pyplot.close(figure)


def fingerprint(records: Mapping[str, Mapping[str, Any]]) -> str:
    """What stands in the picture, so that it can be told from which records it was drawn."""
    return "drawn from records " + hashlib.sha256(json.dumps(records).encode()).hexdigest()[:16]


def recorded() -> dict[str, Any]:
    """What was recorded, by name."""
    return {name: json.loads((FOLDER / f"{name}.json").read_text()) for name in EXPERIMENTS}


def main(words: list[str]) -> None:
    """Train and record, then draw."""
    FOLDER.mkdir(exist_ok=True)
    for name in [] if words == ["--draw"] else words or EXPERIMENTS:
        record = learn(EXPERIMENTS[name])
        (FOLDER / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
        print(name, [(curve["label"], f"{curve['test'][record['score']]:.4g}") for curve in record["curves"]])
    draw(recorded(), PICTURE)


if __name__ == "__main__":
    main(sys.argv[1:])
