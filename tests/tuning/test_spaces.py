"""The papers' search spaces, dimension by dimension (issue 7, 3; C20-C38, Z49-Z52)."""

import math

import numpy as np
import pytest

from rnnlab import Architecture, Hyperparameters, TuningError, architecture, task, train
from rnnlab.architecture.cells import CELLS
from rnnlab.tuning.binding import bind, check_space
from rnnlab.tuning.dimensions import Category, Float, Integer
from rnnlab.tuning.space import SearchSpace
from rnnlab.tuning.spaces import SPACES, collins_fixed, collins_space, named_space, zhang_space

COLLINS_CELLS = ("tanh", "irnn", "ugrnn", "gru", "lstm", "intersection")  # C4
TASKS = (None, "capacity", "arithmetic", "parentheses")


def dimension(space: SearchSpace, name: str) -> Float | Integer | Category:
    (found,) = [each for each in space if each.name == name]
    assert isinstance(found, Float | Integer | Category)
    return found


def network(cell: str, units: int = 4) -> Architecture:
    name = "stack-2:intersection" if cell == "intersection" else cell
    return architecture(name, input_size=2, output_size=1, units=units)


@pytest.mark.parametrize("cell", COLLINS_CELLS)
@pytest.mark.parametrize("name", TASKS)
def test_every_variant_has_10_to_27_dimensions(cell: str, name: str | None) -> None:
    """C38; a range of steps adds one (C28)."""
    assert 10 <= len(collins_space(cell, name)) <= 26


def test_number_of_dimensions_of_each_variant() -> None:
    """What is counted in C38, by cell, without a range of steps and without a task of its own."""
    counts = {cell: len(collins_space(cell)) for cell in COLLINS_CELLS}
    assert counts == {"tanh": 15, "irnn": 10, "ugrnn": 16, "gru": 16, "lstm": 16, "intersection": 16}
    assert len(collins_space("gru", "capacity")) == 16 + 2
    assert len(collins_space("gru", "arithmetic")) == 16 + 1
    assert len(collins_space("gru", "parentheses")) == 16


# requirement, dimension, low, high, scale
RANGES = [
    ("C24", "square_scale", 0.01, 2.0, "log"),
    ("C24", "rectangular_scale", 0.001, 2.0, "log"),
    ("C24", "read_out_scale", 0.001, 2.0, "log"),
    ("C26", "bias_scale", -2.0, 2.0, "linear"),
    ("C26", "read_out_bias_scale", -2.0, 2.0, "linear"),
    ("C27", "gate_bias", 0.0, 6.0, "linear"),
    ("C30", "learning_rate", 1e-4, 1e-1, "log"),
    ("C31", "decay_factor", 1e-3, 1.0, "log"),
    ("C32", "momentum", 0.7310585786300049, 0.9990889488055994, "logit"),
    ("C33", "clip_value", 1.0, 100.0, "log"),
    ("C34", "l2", 1e-8, 1e-3, "log"),
    ("C35", "task.samples_per_parameter", 0.1, 10.0, "log"),
]


@pytest.mark.parametrize(("number", "name", "low", "high", "scale"), RANGES, ids=[row[1] for row in RANGES])
def test_ranges_are_the_papers(number: str, name: str, low: float, high: float, scale: str) -> None:
    found = dimension(collins_space("gru", "capacity"), name)
    assert isinstance(found, Float | Integer)
    assert (found.low, found.high, found.scale) == (
        pytest.approx(low, rel=1e-12),
        pytest.approx(high, rel=1e-12),
        scale,
    )


def test_choices_are_the_papers() -> None:
    gru = collins_space("gru", "capacity")
    choices = {each.name: set(each.choices) for each in gru if isinstance(each, Category)}
    assert choices == {
        "nonlinearity": {"relu", "tanh"},  # C21
        "square": {"identity", "orthogonal", "normal"},  # C22
        "bias": {"constant", "normal"},  # C25
        "read_out_bias": {"constant", "normal"},  # C25
        "optimiser": {"sgd", "momentum", "rmsprop", "adam"},  # C29
        "task.input_once": {False, True},  # C36
    }
    steps = dimension(collins_space("gru", "arithmetic"), "task.compute_steps")
    assert isinstance(steps, Integer)
    assert (steps.low, steps.high, steps.scale) == (1, 6, "linear")  # C37


def test_momentum_is_uniform_in_its_logit_from_1_to_7() -> None:
    """C32."""
    space, generator = collins_space("tanh"), np.random.default_rng(0)
    values = [point["momentum"] for point in (space.sample(generator) for _ in range(2000)) if "momentum" in point]
    logits = np.array([math.log(value / (1 - value)) for value in values if isinstance(value, float)])
    assert 1400 < len(logits) < 1600  # three optimisers of four
    assert logits.min() >= 1 - 1e-9
    assert logits.max() <= 7 + 1e-9
    counts, _ = np.histogram(logits, bins=6, range=(1, 7))
    assert (abs(counts / len(logits) - 1 / 6) < 0.04).all()


@pytest.mark.parametrize("cell", COLLINS_CELLS)
def test_dimensions_are_there_where_they_apply(cell: str) -> None:
    space, generator = collins_space(cell), np.random.default_rng(1)
    for point in (space.sample(generator) for _ in range(200)):
        assert ("momentum" in point) == (point["optimiser"] != "sgd")
        if "square" in space.names:
            assert ("square_scale" in point) == (point["square"] != "identity")  # C24


def test_cells_differ_as_the_paper_says() -> None:
    spaces = {cell: collins_space(cell) for cell in COLLINS_CELLS}
    square = dimension(spaces["tanh"], "square")
    assert isinstance(square, Category)
    assert set(square.choices) == {"orthogonal", "normal"}  # C22: the RNN excludes the identity
    for cell, space in spaces.items():
        assert ("gate_bias" in space.names) == (cell not in ("tanh", "irnn")), cell  # C20, C27
        assert ("depth_gate_bias" in space.names) == (cell == "intersection"), cell  # C20: two scalars
        assert ("nonlinearity" in space.names) == (cell not in ("irnn", "intersection")), cell  # C13, C17
    assert not {"square", "square_scale", "bias", "bias_scale"} & set(spaces["irnn"].names)  # C13


def test_irnn_starts_as_the_identity_with_biases_0() -> None:
    """C13; C23 for all."""
    base = Hyperparameters().changed(**collins_fixed("irnn"))
    start = bind(collins_space("irnn").sample(np.random.default_rng(0)), base, network("irnn"), task("adding"))
    found = start.hyperparameters.initialisation
    assert (found.square, found.rectangular, found.bias, found.bias_scale) == ("identity", "normal", "constant", 0.0)
    assert collins_fixed("gru") == {"rectangular": "normal"}


@pytest.mark.parametrize("cell", sorted(CELLS))
def test_points_of_every_cell_can_be_trained(cell: str) -> None:
    problem, net = task("adding", length=4, num_evaluation=5), network(cell)
    found = named_space(None, net, problem)
    assert found.name == "collins"
    base = Hyperparameters(num_steps=2, evaluate_every=1, batch_size=2).changed(**found.fixed)
    check_space(found.space, base, net, problem)
    generator = np.random.default_rng(0)
    settings = [bind(found.space.sample(generator), base, net, problem) for _ in range(4)]
    run = train(net, problem, [setting.hyperparameters for setting in settings])
    assert run.is_complete


def test_network_of_several_cells_has_the_dimensions_of_all() -> None:
    both = collins_space(("tanh", "lstm"))
    assert "gate_bias" in both.names
    square = dimension(both, "square")
    assert isinstance(square, Category)
    assert "identity" not in square.choices


def test_zhangs_grids() -> None:
    """Z49 for all, Z51 for LSTMs, Z52."""
    rates = [point["learning_rate"] for point in zhang_space("tanh").grid()]
    assert rates == [1e-2, 1e-3, 1e-4, 1e-5]
    points = list(zhang_space("lstm").grid())
    assert len(points) == 28
    assert {point["gate_bias"] for point in points} == {-5, -3, -1, 0, 1, 3, 5}
    assert zhang_space("lstm-edges") == zhang_space("lstm")
    assert "gate_bias" not in zhang_space("gru").names
    named = named_space("zhang", network("lstm"), task("adding"))
    assert named.fixed == {"optimiser": "adam", "batch_size": 50}


def test_spaces_have_names() -> None:
    assert set(SPACES) == {"collins", "zhang"}
    with pytest.raises(TuningError, match="no search space is named 'colins'; did you mean 'collins'"):
        named_space("colins", network("gru"), task("adding"))
    assert str(named_space("collins", network("irnn"), task("adding"))).splitlines()[-1] == (
        "fixed: rectangular=normal square=identity bias=constant bias_scale=0.0"
    )
