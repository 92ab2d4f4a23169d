"""From a specification to arms: products, sizes, spaces, budgets (issue 7, 3 and 4)."""

import json
from pathlib import Path
from typing import Any

import pytest

from rnnlab import TuningError, architecture, save_architecture
from rnnlab.studies.expansion import LabelledArm, expand
from rnnlab.tuning.spaces import collins_space, zhang_space
from tests.studies.small_specs import spec


def arms(**changes: Any) -> tuple[LabelledArm, ...]:
    return expand(spec(**changes))


def names(**changes: Any) -> list[str]:
    return [each.arm.name for each in arms(**changes)]


def test_every_combination_is_an_arm_with_a_name_of_what_differs() -> None:
    found = arms(architectures=["sh", "td"], cells=["tanh", "gru"], units=[3, 5])
    assert [each.arm.name for each in found] == [
        *("tanh units 3", "tanh units 5", "gru units 3", "gru units 5"),
        *("td:tanh units 3", "td:tanh units 5", "td:gru units 3", "td:gru units 5"),
    ]
    assert found[-1].labels == {
        "task": "adding",
        "task.length": 6,
        "task.num_evaluation": 20,
        "task.num_training": 100,
        "architecture": "td",
        "cell": "gru",
        "units": 5,
    }
    assert {node.cell for node in found[-1].arm.architecture.nodes if node.cell} == {"gru"}
    assert found[-1].arm.architecture.by_key["h1", 0].units == 5


def test_expansion_is_pure() -> None:
    assert arms() == arms()


def test_several_tasks_in_one_study() -> None:
    """Z71, Z72: the same networks on MNIST and permuted MNIST; Z45: adding at several lengths."""
    tasks = [{"name": "adding", "each": {"length": [5, 9]}}, "copying"]
    found = arms(task=None, tasks=tasks, architectures=["sh"])
    assert [each.arm.name for each in found] == ["adding length=5 sh", "adding length=9 sh", "copying sh"]
    assert [each.arm.task.num_steps for each in found[:2]] == [5, 9]
    assert found[2].arm.architecture.by_key["h", 0].units == 4


def test_depths_are_stacks_of_each_cell_and_a_single_layer_of_plus_rnn_does_not_exist() -> None:
    """C6, C18."""
    found = arms(architectures=None, cells=["gru", "intersection"], depths=[1, 2, 4])
    assert [each.arm.name for each in found] == [
        *("gru depth 1", "gru depth 2", "gru depth 4", "intersection depth 2", "intersection depth 4")
    ]
    hidden = [sum(node.kind == "hidden" for node in each.arm.architecture.nodes) for each in found]
    assert hidden == [1, 2, 4, 2, 4]
    assert [each.labels["depth"] for each in found] == [1, 2, 4, 2, 4]


def test_sizes_in_parameters_follow_the_rule_that_is_asked_for() -> None:
    """C8: the largest that does not exceed it; Z53: the nearest; both over orders of magnitude."""
    sizes = [100, 1000, 10_000]
    under = arms(architectures=["sh"], units=None, parameters=sizes)
    assert [each.arm.name for each in under] == ["sh parameters 100", "sh parameters 1000", "sh parameters 10000"]
    for size, each in zip(sizes, under, strict=True):
        units = each.arm.architecture.by_key["h", 0].units
        larger = architecture("sh", input_size=2, output_size=1, units=units + 1)
        assert each.arm.architecture.num_parameters() <= size < larger.num_parameters()
    (near,) = arms(architectures=["sh"], units=None, parameters=97, fit="nearest")
    assert near.arm.architecture.num_parameters() == min(
        (architecture("sh", input_size=2, output_size=1, units=n).num_parameters() for n in range(1, 20)),
        key=lambda count: abs(count - 97),
    )
    counted = arms(architectures=["sh"], units=None, parameters=1000, count=["weights"], initial="zero")
    assert (
        counted[0].arm.architecture.num_parameters(["weights"]) <= 1000 < counted[0].arm.architecture.num_parameters()
    )


def test_sizes_may_differ_by_node() -> None:
    """P: DOT(S) with 400, 400 and 600 units."""
    (only,) = arms(architectures=["td"], units={"h1": 3, "h2": 5})
    assert [only.arm.architecture.by_key[name, 0].units for name in ("h1", "h2")] == [3, 5]


def test_tables_of_arms_stand_where_a_product_does_not_do() -> None:
    """Z59: 90 units without a skip, 64 with one."""
    tables = [
        {"architectures": ["sh"], "units": 9},
        {"architectures": ["skip-3", "skip-5"], "units": 6, "hyperparameters": {"num_steps": 5}, "trials": 2},
        {"architectures": ["sh"], "units": 9, "label": "slow", "hyperparameters": {"batch_size": 2}},
    ]
    found = arms(architectures=None, units=None, arms=tables)
    assert [each.arm.name for each in found] == ["sh units 9", "skip-3 units 6", "skip-5 units 6", "sh units 9 slow"]
    assert [each.arm.num_trials for each in found] == [4, 2, 2, 4]
    assert [each.arm.hyperparameters.num_steps for each in found] == [12, 5, 5, 12]
    assert found[3].arm.hyperparameters.batch_size == 2
    assert found[3].labels["label"] == "slow"


def test_arms_that_would_have_one_name_need_labels() -> None:
    tables = [{"hyperparameters": {"batch_size": 2}}, {"hyperparameters": {"batch_size": 3}}]
    with pytest.raises(TuningError, match=r"2 arms are named 'gru': give their \[\[arms\]\] tables a label"):
        arms(arms=tables)


def test_own_files_stand_beside_names(tmp_path: Path) -> None:
    save_architecture(architecture("gru", input_size=2, output_size=1, units=3), tmp_path / "mine.json")
    graph = {
        "nodes": [{"name": "x", "kind": "input"}, {"name": "h", "kind": "hidden"}, {"name": "y", "kind": "output"}],
        "edges": [
            {"source": "x", "target": "h", "delay": 0},
            {"source": "h", "target": "h", "delay": 2},
            {"source": "h", "target": "y", "delay": 0},
        ],
    }
    (tmp_path / "slow.json").write_text(json.dumps(graph))
    (tmp_path / "space.toml").write_text('[learning_rate]\nkind = "category"\nchoices = [0.1, 0.01]\n')
    made = spec(
        architectures=None,
        units=None,
        space="space.toml",
        arms=[{"architectures": ["mine.json"]}, {"architectures": ["slow.json:gru", "sh"], "units": 3}],
    )
    found = expand(type(made)(made.document, tmp_path))
    assert [each.arm.name for each in found] == ["mine", "slow:gru units 3", "sh units 3"]
    assert found[0].arm.architecture.by_key["h", 0].units == 3
    assert found[0].arm.space.names == ("learning_rate",)
    with pytest.raises(TuningError, match="gives its cells itself; write it without :lstm"):
        expand(type(made)({**made.document, "arms": [{"architectures": ["mine.json"], "cells": ["lstm"]}]}, tmp_path))


def test_papers_spaces_come_with_what_they_fix() -> None:
    """C21-C34 for each cell; Z49, Z51, Z52."""
    gru, sh = arms(space="collins")
    assert (gru.arm.space, sh.arm.space) == (collins_space("gru"), collins_space("tanh"))
    assert gru.arm.hyperparameters.initialisation.rectangular == "normal"
    lstm, sh = arms(space="zhang", architectures=["lstm", "sh"], sampler="grid", trials=None)
    assert lstm.arm.space == zhang_space("lstm")
    assert (lstm.arm.num_trials, sh.arm.num_trials) == (28, 4)
    assert lstm.arm.hyperparameters.batch_size == 4  # what the specification says goes before what the paper fixes


def test_space_of_a_paper_can_be_changed() -> None:
    """C28: steps in a range; C48: ReLU only."""
    space = {
        "base": "collins",
        "without": ["nonlinearity", "square"],
        "num_steps": {"kind": "integer", "low": 10, "high": 20, "scale": "log"},
    }
    relu = {"nonlinearity": "relu", "evaluate_every": 5, "batch_size": 4}
    (found,) = arms(space=space | {"without": "nonlinearity"}, architectures=["sh"], hyperparameters=relu)
    assert found.arm.space.names == (*(n for n in collins_space("tanh").names if n != "nonlinearity"), "num_steps")
    assert found.arm.hyperparameters.nonlinearity == "relu"


def test_capacity_and_arithmetic_have_dimensions_of_the_task() -> None:
    """C35, C36, C37."""
    capacity, arithmetic = arms(task=None, tasks=["capacity", "arithmetic"], architectures=["gru"], space="collins")
    assert {"task.samples_per_parameter", "task.input_once"} < set(capacity.arm.space.names)
    assert "task.compute_steps" in arithmetic.arm.space.names


def test_written_arguments_of_a_task_leave_a_papers_space() -> None:
    tasks = [{"name": "capacity", "num_samples": 10}, {"name": "arithmetic", "each": {"compute_steps": [1, 2]}}]
    for space in ("collins", {"base": "collins", "without": "l2"}):
        capacity, *arithmetic = arms(task=None, tasks=tasks, architectures=["gru"], space=space)
        assert [name for name in capacity.arm.space.names if name.startswith("task.")] == ["task.input_once"]
        assert [arm.arm.task.compute_steps for arm in arithmetic] == [1, 2]
        assert not any(name.startswith("task.") for arm in arithmetic for name in arm.arm.space.names)


def test_budget_is_shared_out_evenly() -> None:
    """Equal tuning: what cannot be shared out is not used."""
    assert [each.arm.num_trials for each in arms(trials=None, budget=9)] == [4, 4]
    with pytest.raises(TuningError, match="a budget of 1 trials cannot try each of 2 arms once: give at least 2"):
        arms(trials=None, budget=1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trials": None}, "arm gru: give trials, how many each arm has, or a budget"),
        ({"architectures": ["lstn"]}, "arm lstn: no architecture is named 'lstn'; did you mean 'lstm'"),
        ({"architectures": ["sh"], "cells": ["gur"]}, "no cell is named 'gur'"),
        ({"cells": ["lstm"]}, "architecture 'gru' gives its cell itself"),
        ({"architectures": ["td:gru"], "cells": ["lstm"]}, "architecture 'td:gru' gives its cell itself"),
        ({"task": "addign"}, "no task is named 'addign'; did you mean 'adding'"),
        ({"task": {"name": "adding", "lenght": 5}}, "adding has no argument 'lenght'; did you mean 'length'"),
        ({"hyperparameters": {"num_step": 5}}, "no hyperparameter is named 'num_step'; did you mean 'num_steps'"),
        ({"hyperparameters": {"learning_rate": 0.1}}, "learning_rate is both given and tuned"),
        ({"hyperparameters": {"seed": 5}}, "arm gru: seed is not a hyperparameter of a study: use --seed"),
        (
            {"space": {"task.length": {"kind": "integer", "low": 5, "high": 9}}},
            "argument task.length is both given and tuned",
        ),
        ({"sampler": "gpp"}, "no sampler is named 'gpp'; did you mean 'gp'"),
        ({"sampler_options": {"a": 1}}, "sampler random has no option 'a'"),
        ({"space": "colins"}, "no search space is named 'colins'; did you mean 'collins'"),
        ({"space": {"without": ["l2"]}}, "space.without needs space.base"),
        ({"space": {"base": "collins", "without": "momentun"}}, "a dimension 'momentun'; did you mean 'momentum'"),
        ({"space": {"learning_rat": {"kind": "float", "low": 0, "high": 1}}}, "learning_rat"),
        ({"space": {"l2": {"kind": "float", "low": 0, "hihg": 1}}}, "l2 has no 'hihg'; did you mean 'high'"),
        ({"units": None}, "give units or parameters"),
        ({"units": None, "parameters": 5}, "5 parameters are too few"),
        ({"precision": "float16"}, "precision"),
    ],
)
def test_wrong_arm_is_one_line_that_names_it(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(TuningError, match=words) as raised:
        arms(**changes)
    assert "\n" not in str(raised.value)


def test_population_is_that_of_every_arm() -> None:
    """How many settings are suggested at a time belongs to the protocol (C3)."""
    assert [row.arm.population for row in expand(spec(population=2))] == [2, 2]
    assert [row.arm.population for row in expand(spec())] == [None, None]
    with pytest.raises(TuningError, match="population must be an integer of at least 1, got 0"):
        spec(population=0)
