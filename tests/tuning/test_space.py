"""Search spaces: what they draw, refuse, write and read (issue 7, 3; C21-C38)."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnlab import TuningError
from rnnlab.tuning.dimensions import AbstractDimension
from rnnlab.tuning.space import Category, Float, Integer, SearchSpace, load_space
from tests.tuning.contract import MIXED, generator

DIMENSIONS = [
    Float("linear", -3.0, 5.0),
    Float("log", 1e-8, 1e-3, "log"),  # C34
    Float("logit", 0.731, 0.9991, "logit"),  # C32
    Integer("integer", 1, 6),  # C37
    Integer("large", 50_000, 20_000_000, "log"),  # C28
    Category("text", ("sgd", "momentum", "rmsprop", "adam")),  # C29
    Category("flag", (False, True)),  # C36
]


@pytest.fixture(params=DIMENSIONS, ids=lambda each: each.name)
def dimension(request) -> AbstractDimension:
    return request.param


@given(position=st.floats(0, 1))
@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda each: each.name)
def test_positions_and_values_are_each_others_inverse(dimension: AbstractDimension, position: float) -> None:
    value = dimension.at(position)
    dimension.check(value)
    assert 0 <= dimension.position(value) <= 1 + 1e-12
    again = dimension.at(dimension.position(value))
    assert again == (pytest.approx(value) if isinstance(value, float) else value)
    assert type(again) is type(value)


def test_values_are_drawn_evenly_on_their_scale(dimension: AbstractDimension) -> None:
    values = [dimension.at(position) for position in np.linspace(0.0005, 0.9995, 1000)]
    transform = {"log": math.log, "logit": lambda p: math.log(p / (1 - p))}.get(getattr(dimension, "scale", ""), float)
    if isinstance(dimension, Category):
        counts = [values.count(choice) for choice in dimension.choices]
    else:
        ends = [transform(getattr(dimension, end)) for end in ("low", "high")]
        counts = list(np.histogram([transform(value) for value in values], bins=6, range=ends)[0])
    assert max(counts) <= 1.1 * min(counts)


def test_both_ends_are_reached(dimension: AbstractDimension) -> None:
    ends = dimension.choices if isinstance(dimension, Category) else (dimension.low, dimension.high)  # type: ignore[attr-defined]
    assert dimension.at(0.0) == pytest.approx(ends[0])
    assert dimension.at(1.0) == pytest.approx(ends[-1])


def test_spread_has_both_ends_and_distinct_values(dimension: AbstractDimension) -> None:
    values = dimension.spread(4)
    assert len(set(values)) == len(values) == (dimension.num_values if isinstance(dimension, Category) else 4)
    assert [values[0], values[-1]] == pytest.approx([dimension.at(0.0), dimension.at(1.0)])
    assert len(dimension.spread(1)) == (1 if not isinstance(dimension, Category) else dimension.num_values)


def test_optuna_draws_and_keeps_the_same_values(dimension: AbstractDimension) -> None:
    """In the units of the value itself, so that Optuna's plots show what was trained with."""
    pytest.importorskip("optuna")
    distribution = dimension.distribution()
    for position in (0.0, 0.3, 1.0):
        value = dimension.at(position)
        assert distribution.to_external_repr(distribution.to_internal_repr(value)) == value
        assert distribution._contains(distribution.to_internal_repr(value))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Float("a", 1, 1), "a: low must be below high, got 1 and 1"),
        (lambda: Float("a", 0, 1, "log"), "a: a log scale needs numbers above 0, got 0"),
        (lambda: Float("a", 0.5, 1, "logit"), "a: a logit scale needs numbers between 0 and 1"),
        (lambda: Float("a", 0, 1, "sqrt"), "a: scale is one of linear, log, logit, got 'sqrt'"),  # type: ignore[arg-type]
        (lambda: Float("a", 0, math.inf), "a: bounds are finite numbers, got inf"),
        (lambda: Float("a", True, 2), "a: bounds are finite numbers, got True"),
        (lambda: Integer("a", 3, 2), "a: low must be below high, got 3 and 2"),
        (lambda: Integer("a", 0, 2, "log"), "a: a log scale needs numbers above 0, got 0"),
        (lambda: Integer("a", 0.5, 2), "a: low must be an integer, got 0.5"),  # type: ignore[arg-type]
        (lambda: Integer("a", 1, 2, "logit"), "a: scale is one of linear, log, got 'logit'"),  # type: ignore[arg-type]
        (lambda: Category("a", ()), "a: choices are a list of values"),
        (lambda: Category("a", "relu"), "a: choices are a list of values, got 'relu'"),
        (lambda: Category("a", (1, True)), "a: each choice is given once, got 1, True"),
        (lambda: Category("a", (None,)), "a: a choice is a text, a number, false or true, got None"),  # type: ignore[arg-type]
        (lambda: Category("a", (math.nan, 1.0)), "a: a choice is a text"),
        (lambda: Float("", 0, 1), "the name of a dimension is a text, got ''"),
        (lambda: Float("a", 0, 1, when={"b": "adam"}), "a: when b is a list of values, got 'adam'"),
        (lambda: Float("a", 0, 1, when=["b"]), "a: when is a mapping"),  # type: ignore[arg-type]
        (lambda: SearchSpace([]), "at least one dimension"),
        (lambda: SearchSpace([Float("a", 0, 1), Float("a", 0, 2)]), "two dimensions named 'a'"),
        (lambda: SearchSpace(["a"]), "a dimension is a Float, an Integer or a Category, got 'a'"),  # type: ignore[list-item]
        (
            lambda: SearchSpace([Float("a", 0, 1, when={"b": (1,)}), Integer("b", 0, 1)]),
            "a depends on 'b', which is no earlier dimension",
        ),
        (
            lambda: SearchSpace([Category("b", ("x", "y")), Float("a", 0, 1, when={"b": ("z",)})]),
            "a depends on a value that b never has: b must be one of x, y, got 'z'",
        ),
        (
            lambda: SearchSpace([Float("b", 0, 1), Float("a", 0, 1, when={"b": (0.5,)})]),
            "a cannot depend on b: that is a continuous number",
        ),
    ],
)
def test_impossible_spaces_are_refused(build, message: str) -> None:
    with pytest.raises(TuningError, match=message):
        build()


POINT = {"optimiser": "adam", "learning_rate": 0.01, "momentum": 0.9, "depth": 2, "input_once": True, "gate_bias": 1.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 1.0}, r"learning_rate must be in 0\.0001 … 0\.1, got 1\.0"),
        ({"learning_rate": "0.01"}, "learning_rate: must be a number in"),
        ({"learning_rate": math.nan}, "learning_rate: must be a number in"),
        ({"depth": 2.0}, r"depth must be an integer in 1 … 8, got 2\.0"),
        ({"depth": True}, "depth must be an integer"),
        ({"optimiser": "adamw"}, "optimiser must be one of sgd, momentum, adam, got 'adamw'"),
        ({"input_once": 1}, "input_once must be one of False, True, got 1"),
        ({"optimiser": "sgd"}, "momentum is given, but is active only when optimiser is momentum or adam"),
        ({"learning_rat": 0.1}, "no dimension 'learning_rat'; did you mean 'learning_rate'?"),
        ({"gate_bias": None}, "the point has no gate_bias"),
    ],
)
def test_check_names_the_dimension(changes: dict, message: str) -> None:
    MIXED.check(POINT)
    point = {name: value for name, value in {**POINT, **changes}.items() if value is not None}
    with pytest.raises(TuningError, match=message):
        MIXED.check(point)


def test_samples_are_points_of_the_space_in_its_order() -> None:
    random, seen = generator(), set()
    for _ in range(200):
        point = MIXED.sample(random)
        MIXED.check(point)
        assert list(point) == [name for name in MIXED.names if name in point]
        seen.add("momentum" in point)
    assert seen == {True, False}
    assert MIXED.sample(generator(5)) == MIXED.sample(generator(5))


def test_conditions_follow_from_conditions() -> None:
    space = SearchSpace(
        [
            Category("a", (False, True)),
            Integer("b", 1, 3, when={"a": (True,)}),
            Float("c", 0, 1, when={"b": (2, 3)}),
        ]
    )
    points = list(space.grid(3))
    assert len(points) == 1 + 1 + 2 * 3
    for point in points:
        space.check(point)
        assert ("c" in point) == (point.get("b", 1) in (2, 3))


def test_grid_is_all_combinations_each_once() -> None:
    space = SearchSpace([Category("a", ("x", "y")), Integer("b", 1, 100, "log"), Float("c", 0, 1)])
    points = list(space.grid({"b": 3, "c": 2}))
    assert len({tuple(point.values()) for point in points}) == len(points) == 2 * 3 * 2
    assert sorted({int(point["b"]) for point in points}) == [1, 10, 100]
    assert len(list(space.grid({"c": 1}))) == 2 * 3 * 1  # 3 where left out
    assert [point["c"] for point in space.grid(1)] == [0.5, 0.5]
    huge = SearchSpace([Float(f"x{index}", 0, 1) for index in range(40)])
    assert len(next(huge.grid(10))) == 40  # made one by one


@pytest.mark.parametrize(
    ("num", "message"),
    [(0, "at least 1, got 0"), (1.5, "got 1.5"), ({"b": 0}, "of b must"), ({"x": 2}, "dimension 'x'")],
)
def test_impossible_grids_are_refused(num, message: str) -> None:
    with pytest.raises(TuningError, match=message):
        SearchSpace([Float("a", 0, 1), Float("b", 0, 1)]).grid(num)


def test_spaces_add_up_and_lose_dimensions() -> None:
    more = MIXED + SearchSpace([Integer("task.compute_steps", 1, 6)])
    assert len(more) == len(MIXED) + 1
    assert more.without("task.compute_steps") == MIXED
    assert hash(more.without("task.compute_steps")) == hash(MIXED)
    with pytest.raises(TuningError, match="two dimensions named 'optimiser'"):
        MIXED + MIXED
    with pytest.raises(TuningError, match="momentum depends on 'optimiser'"):
        MIXED.without("optimiser")
    with pytest.raises(TuningError, match="no dimension 'optimizer'; did you mean 'optimiser'"):
        MIXED.without("optimizer")


def test_a_space_prints_as_a_table() -> None:
    lines = str(MIXED).splitlines()
    assert len(lines) == len(MIXED)
    assert re.split(r"  +", lines[2]) == [
        *("momentum", "float", "0.731 … 0.9991", "logit", "when optimiser is momentum or adam")
    ]
    assert len({line.index(kind) for line, kind in zip(lines, ("category", "float", "float"), strict=False)}) == 1


def test_json_gives_the_space_back(tmp_path: Path) -> None:
    assert SearchSpace.from_json(json.loads(json.dumps(MIXED.to_json()))) == MIXED
    path = tmp_path / "space.json"
    path.write_text(json.dumps(MIXED.to_json()))
    assert load_space(path) == MIXED


def test_a_space_of_ones_own_takes_a_few_lines_of_toml(tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    path.write_text(
        """
        optimiser = {kind = "category", choices = ["sgd", "adam"]}
        learning_rate = {kind = "float", low = 1e-4, high = 0.1, scale = "log"}
        "task.num_samples" = {kind = "integer", low = 100, high = 10_000, scale = "log"}

        [momentum]
        kind = "float"
        low = 0.731
        high = 0.9991
        scale = "logit"
        when.optimiser = ["adam"]
        """
    )
    space = load_space(path)
    assert space.names == ("optimiser", "learning_rate", "task.num_samples", "momentum")
    assert space.dimensions[-1] == Float("momentum", 0.731, 0.9991, "logit", when={"optimiser": ("adam",)})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "x = 1", "x: a dimension is a list of values, or a table with its kind and its values, got 1"),
        ("a.toml", "[x]\nlow = 1", "x lacks its kind: float, integer, category"),
        ("a.toml", "[task.num]\nkind = 'float'", r'a name with a dot stands in quotes: \["task\.num"\]'),
        ("a.toml", "[x]\nkind = 'flaot'", "x: kind is one of float, integer, category, got 'flaot'"),
        ("a.toml", "[x]\nkind = 'float'\nlow = 0", "x lacks high"),
        ("a.toml", "[x]\nkind = 'float'\nlow = 0\nhigh = 1\nscael = 'log'", "x has no 'scael'; did you mean 'scale'?"),
        ("a.toml", "[x", "cannot read a search space from .*a.toml"),
        ("a.json", '{"x": {}, "x": {}}', "'x' is given twice"),
        ("a.json", "[]", "a search space is a table of dimensions by name"),
        ("a.json", "{}", "at least one dimension"),
        ("a.json", "\x00", "cannot read a search space"),
    ],
)
def test_files_that_hold_no_space_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(TuningError, match=message) as caught:
        load_space(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_list_is_a_category() -> None:
    assert SearchSpace.from_json({"cell": ["gru", "lstm"]}) == SearchSpace([Category("cell", ("gru", "lstm"))])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match=r"cannot read a search space from .*none\.toml"):
        load_space(tmp_path / "none.toml")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(TuningError, match="cannot read a search space"):
        load_space(tmp_path / "binary.json")
