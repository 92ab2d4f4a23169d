"""Specifications: what a file may say, and what one line says to a wrong one (issue 7, 4 and bad input)."""

import json
from copy import deepcopy
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from rnnlab import StudySpec, TuningError, load_spec
from rnnlab.studies.finding import find_spec, shipped_specs
from tests.studies.small_specs import SMALL, TOML, spec


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(TOML)
    (tmp_path / "a.json").write_text(json.dumps(SMALL))
    one, other = load_spec(tmp_path / "a.toml"), load_spec(tmp_path / "a.json")
    assert one == other
    assert one.to_json() == SMALL
    assert StudySpec.from_json(json.loads(json.dumps(one.to_json())), folder=tmp_path) == one


def test_specification_never_changes() -> None:
    values = deepcopy(SMALL)
    made = StudySpec.from_json(values)
    made.to_json()["task"]["length"] = 7
    values["task"]["length"] = 8
    assert made.products[0].tasks[0]["length"] == 6
    with pytest.raises(AttributeError):
        made.folder = Path("elsewhere")  # type: ignore[misc]


def test_specification_prints_all_it_says() -> None:
    lines = str(spec(title="two cells", paper={"source": "a page of numbers"})).splitlines()
    assert lines[0] == "study small: two cells"
    assert "  hyperparameters  num_steps=12, evaluate_every=4, batch_size=4" in lines
    assert len(lines) == len(SMALL)


SCALED = SMALL | {
    "parameters": 1000,
    "units": None,
    "scale": {
        "default": "laptop",
        "smoke": {"units": 4, "trials": 2, "hyperparameters": {"num_steps": 2}},
        "laptop": {"budget": 50},
    },
}


def scaled(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in (SCALED | changes).items() if value is not None}


def test_scale_overrides_what_it_names_and_nothing_else() -> None:
    smoke = StudySpec.from_json(scaled(), scale="smoke")
    (product,) = smoke.products
    assert (smoke.scale, smoke.study) == ("smoke", "small-smoke")
    assert (product.units, product.parameters, product.trials) == ((4,), (), 2)
    assert product.hyperparameters == {"num_steps": 2, "evaluate_every": 4, "batch_size": 4}
    laptop = StudySpec.from_json(scaled())
    assert (laptop.study, laptop.budget, laptop.products[0].trials) == ("small-laptop", 50, None)
    assert laptop.products[0].parameters == (1000,)
    assert StudySpec.from_json(laptop.to_json()) == laptop


def test_scale_that_is_not_there_is_named() -> None:
    with pytest.raises(TuningError, match="no scale 'labtop'; did you mean 'laptop'"):
        StudySpec.from_json(scaled(), scale="labtop")
    with pytest.raises(TuningError, match="no scale 'paper'; there are none"):
        StudySpec.from_json(SMALL, scale="paper")
    without = {name: table for name, table in SCALED["scale"].items() if name != "default"}
    with pytest.raises(TuningError, match="the scales smoke, laptop: say which"):
        StudySpec.from_json(scaled(scale=without))


def test_typo_in_a_scale_that_nobody_asked_for_is_seen() -> None:
    scales = SCALED["scale"] | {"paper": {"trails": 9}}
    with pytest.raises(TuningError, match=r"scale\.paper has no key 'trails'; did you mean 'trials'"):
        StudySpec.from_json(scaled(scale=scales), scale="smoke")


def test_tasks_go_through_lists_of_arguments() -> None:
    """Z45: the adding problem at several lengths."""
    tasks = [{"name": "adding", "each": {"length": [5, 9], "seed": [0, 1]}}, "copying"]
    found = spec(task=None, tasks=tasks).products[0].tasks
    assert [tuple(each.values()) for each in found] == [
        *(("adding", 5, 0), ("adding", 5, 1), ("adding", 9, 0), ("adding", 9, 1)),
        ("copying",),
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trails": 4}, "the specification has no key 'trails'; did you mean 'trials'?"),
        ({"arms": [{"architecture": ["sh"]}]}, r"arms\[0\] has no key 'architecture'; did you mean 'architectures'"),
        ({"arms": []}, "arms is a list of tables, got"),
        ({"name": None}, "lacks a name"),
        ({"name": "a/b"}, "the name of a study is a text without slashes"),
        ({"name": "small seeds"}, "may not end in ' seeds'"),
        ({"task": None}, "lacks a task"),
        ({"task": 3}, "task is a table of names and values, got 3"),
        ({"task": {"length": 5}}, "task is a name, or a table with a name and arguments"),
        ({"tasks": ["adding"]}, "has both task and tasks"),
        ({"architectures": None}, "lacks architectures, or depths of stacks"),
        ({"architectures": [3]}, "architectures is a name or a list of names"),
        ({"architectures": None, "depths": [1]}, "has depths, but no cells"),
        ({"depths": [1]}, "has both architectures and depths"),
        ({"parameters": 10}, "has both parameters and units"),
        ({"units": 0}, "units must be an integer of at least 1, got 0"),
        ({"units": {"h": "x"}}, "units.h must be an integer"),
        ({"budget": 10}, "has both trials and budget"),
        ({"trials": True}, "trials must be an integer of at least 1, got True"),
        ({"seeds": -1}, "seeds must be an integer of at least 0, got -1"),
        ({"seeds": 1001}, "seeds must be at most 1000"),
        ({"finalists": 0}, "finalists must be an integer of at least 1, got 0"),
        ({"finalists": 2, "seeds": 0}, "2 finalists are compared over seeds: give seeds, or leave finalists out"),
        ({"fit": "over"}, "fit is under or nearest, got 'over'"),
        ({"count": ["wights"]}, "count is .* got 'wights'"),
        ({"hyperparameters": 3}, "hyperparameters is a table"),
        ({"title": 3}, "title is a text"),
        ({"title": date(2026, 1, 1)}, "a value that cannot be written as JSON: .* date"),
        ({"trials": None, "budget": 9, "arms": [{"trials": 3}]}, "a budget for all arms, or trials of each"),
    ],
)
def test_wrong_key_or_value_is_one_line_that_names_it(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(TuningError, match=words) as raised:
        spec(**changes)
    assert "\n" not in str(raised.value)


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match=r"nothing.toml: cannot be read: No such file"):
        load_spec(tmp_path / "nothing.toml")
    (tmp_path / "a.toml").write_text("name = ")
    with pytest.raises(TuningError, match=r"a.toml: is not valid TOML: "):
        load_spec(tmp_path / "a.toml")
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(TuningError, match=r"a.json: the specification is a table"):
        load_spec(tmp_path / "a.json")
    (tmp_path / "b.toml").write_text(TOML.replace("trials", "trails"))
    with pytest.raises(TuningError, match=r"b.toml: the specification has no key 'trails'; did you mean 'trials'"):
        load_spec(tmp_path / "b.toml")


def test_specification_that_comes_with_rnnlab_is_found_by_name(tmp_path: Path) -> None:
    assert find_spec("example", scale="smoke").name == "example"
    names = list(shipped_specs())
    assert names.index("zhang-table2") < names.index("zhang-table2-edges")
    with pytest.raises(TuningError, match="no specification is named 'exmaple'; did you mean 'example'"):
        find_spec("exmaple")
    for name, path in shipped_specs().items():
        assert load_spec(path).name == name
