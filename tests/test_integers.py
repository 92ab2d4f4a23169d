"""Integers: numpy's count as Python's wherever one is given, and become Python's; False and True never do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from rnnlab import Hyperparameters, Model, architecture, compare, train
from rnnlab.architecture.specs import NodeSpec
from rnnlab.engine.costs import costs
from rnnlab.engine.plan import plan
from rnnlab.errors import RnnlabError, TaskError
from rnnlab.graph.cyclic import CyclicGraph
from rnnlab.integers import as_integer, keep_integers
from rnnlab.studies.curves import thinned
from rnnlab.studies.keys import whole
from rnnlab.tasks.adding import Adding
from rnnlab.tasks.arithmetic import Arithmetic
from rnnlab.tasks.capacity import Capacity
from rnnlab.training.pace import saves
from rnnlab.tuning.arms import Arm
from rnnlab.tuning.dimensions import Float, Integer
from rnnlab.tuning.gp_sampler import GaussianProcessSampler
from rnnlab.tuning.optuna_sampler import OptunaSampler
from rnnlab.tuning.plain_samplers import RandomSampler
from rnnlab.tuning.populations import population_size
from rnnlab.tuning.space import SearchSpace
from rnnlab.tuning.tpe import TpeSampler
from rnnlab.tuning.work import Work

PHASES = [("h", "hidden", 0), ("h", "hidden", 1)]
BETWEEN = [(("h", 0), ("h", 1), 1), (("h", 1), ("h", 0), 1)]
NETWORK = architecture("tanh", input_size=2, output_size=1, units=3)
ADDING = Adding(length=5, num_evaluation=10)
SPACE = SearchSpace([Float("learning_rate", 1e-3, 1e-1, "log")])
SHORT = Hyperparameters(num_steps=2, evaluate_every=1, batch_size=2)


def arm(**values: Any) -> Arm:
    named: dict[str, Any] = {"name": "a", "architecture": NETWORK, "task": ADDING, "space": SPACE, "num_trials": 4}
    return Arm(**(named | values))


class Entry(NamedTuple):
    """Where an integer is given: what takes it, and what it has become, if that can be seen."""

    take: Callable[[Any], Any]
    kept: Callable[[Any], Any] = lambda _: 2


def num_startup(found: Arm) -> int:
    return found.to_json()["sampler_options"]["num_startup"]


def sample(batch_size: Any, **more: Any) -> Any:
    return ADDING.sample(batch_size, generator=torch.Generator(), **more)


ENTRIES = {
    "a period": Entry(lambda n: CyclicGraph(PHASES, BETWEEN, n), lambda graph: graph.period),
    "units": Entry(lambda n: NodeSpec(name="x", kind="input", units=n), lambda node: node.units),
    "a population": Entry(lambda n: Model(NETWORK, seed=0, population=n), lambda model: model.population),
    "a seed of a model": Entry(lambda n: Model(NETWORK, seed=n)),
    "a member": Entry(lambda n: Model(NETWORK, seed=0, population=3).member(n)),
    "costs: batch": Entry(lambda n: costs(plan(NETWORK), batch=n), lambda found: found.to_json()["batch"]),
    "costs: steps": Entry(lambda n: costs(plan(NETWORK), steps=n), lambda found: found.to_json()["steps"]),
    "costs: population": Entry(lambda n: costs(plan(NETWORK), population=n), lambda found: found.population),
    "an argument of a task": Entry(lambda n: Adding(length=n), lambda task: task.to_json()["length"]),
    "an optional argument of a task": Entry(lambda n: Adding(num_training=n), lambda task: task.num_training),
    "one for each member": Entry(lambda n: Capacity(num_samples=(n, 3)), lambda task: task.num_samples[0]),
    "one for all members": Entry(lambda n: Arithmetic(compute_steps=n), lambda task: task.compute_steps),
    "a batch": Entry(sample, lambda batch: batch.inputs.shape[0]),
    "members of a batch": Entry(lambda n: sample(1, members=n), lambda batch: batch.inputs.shape[0]),
    "batches": Entry(lambda n: next(ADDING.batches("test", n)), lambda batch: batch.inputs.shape[0]),
    "a hyperparameter": Entry(lambda n: Hyperparameters(num_steps=n), lambda found: found.to_json()["num_steps"]),
    "an optional hyperparameter": Entry(lambda n: Hyperparameters(truncation=n), lambda found: found.truncation),
    "report_every": Entry(lambda n: train(NETWORK, ADDING, SHORT, report_every=n)),
    "save_every": Entry(saves),
    "a bound": Entry(lambda n: Integer("depth", n, 8), lambda dimension: dimension.low),
    "values of a grid": Entry(lambda n: list(SPACE.grid(n)), len),
    "points to suggest": Entry(
        lambda n: RandomSampler().suggest(SPACE, [], n, generator=np.random.default_rng(0)), len
    ),
    "an option of gp": Entry(lambda n: GaussianProcessSampler(num_startup=n), lambda gp: gp.num_startup),
    "an option of tpe": Entry(lambda n: TpeSampler(num_startup=n), lambda tpe: tpe.num_startup),
    "a batch of Optuna's": Entry(lambda n: OptunaSampler(batch_size=n)),
    "trials of an arm": Entry(lambda n: arm(num_trials=n), lambda found: found.to_json()["num_trials"]),
    "a seed of an arm": Entry(lambda n: arm(seed=n), lambda found: found.seed),
    "a population of an arm": Entry(lambda n: arm(population=n), lambda found: found.population),
    "an option of an arm's sampler": Entry(lambda n: arm(sampler_options={"num_startup": n}), num_startup),
    "a worker: report_every": Entry(lambda n: Work(report_every=n), lambda how: how.report_every),
    "a worker: save_every": Entry(lambda n: Work(save_every=n), lambda how: how.save_every),
    "a worker: population": Entry(lambda n: population_size(arm(), "cpu", n), int),
    "a key of a specification": Entry(lambda n: whole("trials", n, 1), int),
    "points of a curve": Entry(lambda n: thinned({}, n)),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_integers_of_numpy_become_plain_ones(name: str) -> None:
    entry = ENTRIES[name]
    kept = entry.kept(entry.take(np.int64(2)))
    assert (type(kept), kept) == (int, 2)


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize("given", [True, np.True_, 2.0, "2"])
def test_what_is_no_integer_is_refused_with_its_name(name: str, given: object) -> None:
    with pytest.raises(RnnlabError, match="must be an integer"):
        ENTRIES[name].take(given)


@pytest.mark.parametrize("name", ["parameters", "trials", "seeds", "steps", "seed"])
def test_comparisons_take_integers_of_numpy(name: str, tmp_path: Path) -> None:
    usual: dict[str, Any] = {"parameters": 60, "trials": 2, "seeds": 2, "steps": 2, "seed": 2}
    task = {"name": "adding", "length": 5, "num_evaluation": 10}
    with pytest.raises(RnnlabError, match=f"{name}.* must be an integer .*, got True"):
        compare(["sh", "td"], task, **(usual | {name: True}))
    given = usual | {name: np.int64(usual[name])}
    report = compare(["sh", "td"], task, store=tmp_path / "rnnlab.db", **given)
    assert json.dumps(report.record.spec.document)


def test_integers_have_a_lowest_value_and_a_size() -> None:
    assert as_integer(-(2**62), "delay", TaskError) == -(2**62)
    assert as_integer(2**63, "seed", TaskError, bits=64) == 2**63
    for value, least, message in (
        (0, 1, "length must be an integer of at least 1, got 0"),
        (None, None, "length must be an integer, got None"),
        (2**63, 1, "length must be below 2\\*\\*63 in size, got 9223372036854775808"),
        (-(2**63), None, "length must be below 2\\*\\*63 in size"),
    ):
        with pytest.raises(TaskError, match=f"^{message}"):
            as_integer(value, "length", TaskError, least)


def test_fields_are_kept_only_if_all_are_integers() -> None:
    task = Adding(length=5)
    with pytest.raises(TaskError, match="length must be an integer of at least 6, got 5"):
        keep_integers(task, TaskError, length=6)
    assert task.length == 5
