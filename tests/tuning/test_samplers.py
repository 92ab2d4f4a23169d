"""Samplers by name, what all have in common, and what each is for (issue 7, 2; C1, C71, Z49, Z51)."""

import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from rnnlab import TuningError
from rnnlab.tuning.distinct import key
from rnnlab.tuning.gp_sampler import GaussianProcessSampler
from rnnlab.tuning.observations import Observation
from rnnlab.tuning.samplers import SAMPLERS, AbstractSampler, sampler
from rnnlab.tuning.space import Category, Float, Integer, Point, SearchSpace
from tests.tuning import contract
from tests.tuning.contract import MIXED, generator

ROOT = Path(__file__).parents[2]
NAMES = tuple(SAMPLERS)


@pytest.fixture(params=NAMES)
def name(request) -> str:
    if request.param == "tpe":
        pytest.importorskip("optuna")
    return request.param


def named(name: str) -> AbstractSampler:
    return sampler(name, num_per_dimension=6) if name == "grid" else sampler(name)


def test_batches_are_of_distinct_points_of_the_space(name: str) -> None:
    contract.check_batches(named(name))


def test_nothing_is_remembered_from_batch_to_batch(name: str) -> None:
    contract.check_nothing_is_remembered(named(name))


def test_small_spaces_are_gone_through_before_any_point_comes_again(name: str) -> None:
    contract.check_small_space(named(name), is_endless=name != "grid")


def test_the_last_point_of_a_small_space_is_found(name: str) -> None:
    contract.check_last_points(named(name))


def test_suggestions_go_on_when_everything_diverged(name: str) -> None:
    contract.check_nothing_feasible(named(name))


def test_bad_requests_are_refused(name: str) -> None:
    contract.check_bad_input(named(name))


@pytest.mark.parametrize(
    ("wanted", "options", "message"),
    [
        ("gpp", {}, "no sampler is named 'gpp'; did you mean 'gp'"),
        ("bayes", {}, "no sampler is named 'bayes'; there are gp, random, grid, tpe"),
        ("random", {"seed": 1}, "sampler random has no option 'seed'; there are none"),
        ("grid", {"num": 1}, "sampler grid has no option 'num'; there are num_per_dimension"),
        ("gp", {"num_startup": 1}, "num_startup must be an integer of at least 2, got 1"),
        ("gp", {"num_candidates": 2.5}, "num_candidates must be an integer of at least 10"),
        ("tpe", {"num_startup": -1}, "num_startup must be an integer of at least 1, got -1"),
    ],
)
def test_wrong_names_and_options_are_refused(wanted: str, options: dict, message: str) -> None:
    with pytest.raises(TuningError, match=message):
        sampler(wanted, **options)


def test_a_sampler_of_ones_own_takes_a_few_lines(monkeypatch) -> None:
    @dataclass(frozen=True)
    class Corner(AbstractSampler):
        side: float = 0.0

        def suggest(
            self, space: SearchSpace, observations: Sequence[Observation], count: int, *, generator: np.random.Generator
        ) -> tuple[Point, ...]:
            return (space.point_at([self.side] * len(space)),)

    monkeypatch.setitem(SAMPLERS, "corner", Corner)
    assert sampler("corner", side=1.0).suggest(MIXED, [], 1, generator=generator())[0]["depth"] == 8


def test_grid_goes_through_zhangs_values_in_order() -> None:
    """Z49: learning rates 1e-2 to 1e-5; Z51: forget-gate biases."""
    rates = Float("learning_rate", 1e-5, 1e-2, "log")
    space = SearchSpace([rates, Category("gate_bias", (-5.0, -3.0, -1.0, 0.0, 1.0, 3.0, 5.0))])
    points = sampler("grid", num_per_dimension=4).suggest(space, [], 100, generator=generator())
    assert len(points) == 28
    assert sorted({float(point["learning_rate"]) for point in points}) == pytest.approx([1e-5, 1e-4, 1e-3, 1e-2])


def test_random_draws_follow_the_scales() -> None:
    points = sampler("random").suggest(MIXED, [], 2000, generator=generator())
    rates = np.log10([float(point["learning_rate"]) for point in points])
    assert np.mean(rates < -2.5) == pytest.approx(0.5, abs=0.04)
    logits = [np.log(p / (1 - p)) for point in points if (p := float(point.get("momentum", 0)))]
    assert np.median(logits) == pytest.approx(4.0, abs=0.25)  # C32: logits from 1 to 7
    assert np.mean([point["optimiser"] == "sgd" for point in points]) == pytest.approx(1 / 3, abs=0.04)


def draws(space: SearchSpace, count: int, num_batches: int) -> list[Point]:
    """The points of batches that know nothing of each other."""
    batches = (sampler("random").suggest(space, [], count, generator=generator(seed)) for seed in range(num_batches))
    return [point for points in batches for point in points]


def test_random_draws_follow_the_scales_where_a_space_has_few_points() -> None:
    space = SearchSpace([Integer("num_steps", 10, 4000, "log")])
    found = np.log10([float(point["num_steps"]) for point in draws(space, 20, 50)])
    low, high = np.log10([9.5, 4000.5])
    assert np.mean(found < (low + high) / 2) == pytest.approx(0.5, abs=0.05)  # 5 of 100 numbers lie below


def test_random_draws_leave_a_choice_as_likely_whatever_depends_on_it() -> None:
    space = SearchSpace(
        [Category("optimiser", ("sgd", "adam")), Integer("depth", 1, 50, when={"optimiser": ("adam",)})]
    )
    found = draws(space, 1, 400)
    assert np.mean([point["optimiser"] == "sgd" for point in found]) == pytest.approx(0.5, abs=0.08)  # 1 of 51 points


def test_the_middle_of_the_space_comes_first() -> None:
    (point, *_) = sampler("gp").suggest(MIXED, [], 5, generator=generator())
    assert point["learning_rate"] == pytest.approx(10**-2.5)
    assert point["gate_bias"] == 3.0


def search(name: str, num_batches: int, seed: int = 0) -> list[Observation]:
    found: list[Observation] = []
    random = generator(seed)
    for _ in range(num_batches):
        points = sampler(name).suggest(MIXED, found, 8, generator=random)
        found += [Observation(point, contract.loss(point)) for point in points]
    return found


def best(found: Sequence[Observation]) -> float:
    return min(each.value for each in found if each.value is not None)


def test_gaussian_process_finds_the_best_setting() -> None:
    """40 trials come within 0.001 of the least loss, in each of three runs; random search is far from that."""
    assert max(best(search("gp", 5, seed)) for seed in range(3)) < 1e-3
    assert np.median([best(search("random", 5, seed)) for seed in range(3)]) > 1e-2


def test_tpe_learns_too() -> None:
    pytest.importorskip("optuna")
    found = search("tpe", 8)
    assert np.median([each.value for each in found[40:]]) < np.median([each.value for each in found[:8]]) / 3


def test_gaussian_process_learns_what_is_infeasible() -> None:
    """Half of the space diverges (C72), and the loss does not tell which: what is suggested is nearly all feasible."""
    space = SearchSpace([Float(f"x{index}", 0, 1) for index in range(4)])
    random = generator()

    def observation(point: Point) -> Observation:
        x = [float(value) for value in point.values()]
        return Observation(point, None, "infeasible") if x[0] + x[1] > 1 else Observation(point, (x[2] - 0.3) ** 2)

    found = [observation(space.sample(random)) for _ in range(30)]
    assert 10 < sum(each.state == "infeasible" for each in found) < 20
    new = [observation(point) for point in sampler("gp").suggest(space, found, 20, generator=random)]
    assert sum(each.state == "infeasible" for each in new) <= 4
    assert best(new) < 1e-4


def test_pending_points_are_believed_not_repeated() -> None:
    """Two workers with one seed: the second keeps away from what the first is trying."""
    space = SearchSpace([Float("x", 0, 1), Float("y", 0, 1)])
    random = generator()
    found = [Observation(space.sample(random), float(random.standard_normal())) for _ in range(12)]
    (first,) = sampler("gp").suggest(space, found, 1, generator=generator(1))
    (second,) = sampler("gp").suggest(space, [*found, Observation(first, None, "pending")], 1, generator=generator(1))
    assert max(abs(float(first[name]) - float(second[name])) for name in "xy") > 0.05


def test_points_of_a_batch_keep_apart() -> None:
    space = SearchSpace([Float("x", 0, 1), Float("y", 0, 1)])
    random = generator()
    found = [Observation(space.sample(random), float(random.standard_normal())) for _ in range(12)]
    points = [np.array(list(point.values())) for point in sampler("gp").suggest(space, found, 8, generator=random)]
    assert min(np.abs(one - two).max() for index, one in enumerate(points) for two in points[:index]) > 1e-3


def test_few_candidates_are_enough_because_they_are_polished() -> None:
    space = SearchSpace([Float(f"x{index}", 0, 1) for index in range(12)])
    random = generator()

    def loss(point: Point) -> float:
        return sum((float(value) - 0.4) ** 2 for value in point.values())

    found = [Observation(point, loss(point)) for point in (space.sample(random) for _ in range(60))]
    (point,) = sampler("gp", num_candidates=10).suggest(space, found, 1, generator=random)
    assert loss(point) < best(found) / 2


def test_tpe_announces_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        sampler("tpe").suggest(MIXED, [], 1, generator=generator())
    assert not caplog.records


def test_tpe_keeps_away_from_what_was_infeasible() -> None:
    pytest.importorskip("optuna")
    space = SearchSpace([Float("x", 0, 1)])
    random = generator()
    points = [space.sample(random) for _ in range(40)]
    found = [
        Observation(point, None, "infeasible")
        if float(point["x"]) > 0.5
        else Observation(point, 1.0 + float(point["x"]))
        for point in points
    ]
    new = sampler("tpe").suggest(space, found, 20, generator=random)
    assert np.mean([float(point["x"]) > 0.5 for point in new]) < 0.3


def test_a_large_discrete_space_is_drawn_from_until_it_is_empty() -> None:
    space = SearchSpace([Integer("a", 0, 89), Integer("b", 0, 89)])  # too many to be listed
    points = list(space.grid(90))
    seen = [points[index] for index in generator().permutation(len(points))[:8000]]
    found = [Observation(point, 0.0) for point in seen]
    new = sampler("random").suggest(space, found, 100, generator=generator())
    assert {key(point) for point in [*seen, *new]} == {key(point) for point in points}
    assert len(sampler("random").suggest(space, found, 110, generator=generator())) == 110


def test_sixty_four_suggestions_are_distinct_after_many_trials() -> None:
    random = generator()
    found = contract.observe([MIXED.sample(random) for _ in range(150)])
    points = GaussianProcessSampler(num_candidates=200, num_polished=2).suggest(MIXED, found, 64, generator=random)
    assert len({key(point) for point in points}) == 64


def test_extreme_values_do_not_stop_the_process() -> None:
    random = generator()
    points = [MIXED.sample(random) for _ in range(20)]
    for values in (np.full(20, 3.0), 10.0 ** np.linspace(-300, 300, 20), 1e308 * np.linspace(-1, 1, 20)):
        found = [Observation(point, float(value)) for point, value in zip(points, values, strict=True)]
        assert len(sampler("gp").suggest(MIXED, found, 3, generator=random)) == 3


def test_suggesting_leaves_threads_and_random_numbers_as_they_were() -> None:
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    random = generator()
    sampler("gp").suggest(MIXED, contract.observe([MIXED.sample(random) for _ in range(20)]), 2, generator=random)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], before)


def test_samplers_load_without_optuna_or_torch_until_they_need_them() -> None:
    code = (
        "import sys; sys.modules['optuna'] = None\n"
        "from rnnlab.tuning.samplers import sampler\n"
        "sampler('random'), sampler('grid')\n"
        "assert 'torch' not in sys.modules\n"
        "sampler('gp')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_large_space_of_whole_numbers_is_handled() -> None:
    space = SearchSpace([Integer("a", 1, 10**7, "log"), Integer("b", 0, 10**6), Category("c", tuple("abc"))])
    random = generator()
    points = [space.sample(random) for _ in range(20)]
    found = [Observation(point, abs(np.log10(int(point["a"])) - 3)) for point in points]
    suggested = sampler("gp").suggest(space, found, 8, generator=random)
    assert len({key(point) for point in suggested}) == 8
    assert min(abs(np.log10(int(point["a"])) - 3) for point in suggested) < 0.1


def test_the_page_shows_what_was_measured(monkeypatch) -> None:
    pytest.importorskip("optuna")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    benchmark = importlib.import_module("tuning")
    table = json.loads((ROOT / "benchmarks" / "results" / "tuning-cpu.json").read_text())
    page = (ROOT / "docs" / "samplers.md").read_text()
    assert benchmark.quality_table(table) in page
    assert benchmark.speed_table(table) in page
    for row in table["quality"]:
        if row["sampler"] == "gp":
            assert row["median"] <= table["goals"][row["function"]]
    (many,) = [row for row in table["speed"] if row["sampler"] == "gp" and row["trials"] == 1000]
    assert (many["batch"], many["distinct"]) == (64, 64)
    assert many["cpu_seconds"] < 10  # on one core; the clock also counts what other programs took


@pytest.mark.parametrize(
    ("function", "place", "lowest"),
    [
        ("hartmann", [0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573] + [0.5] * 14, -3.32237),
        ("levy", [0.55] * 20, 0.0),
    ],
)
def test_benchmark_functions_have_their_known_minima(monkeypatch, function: str, place: list, lowest: float) -> None:
    pytest.importorskip("optuna")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    benchmark = importlib.import_module("tuning")
    assert benchmark.FUNCTIONS[function](np.array(place)) == pytest.approx(lowest, abs=1e-5)
    assert benchmark.hartmann_half(np.full(20, 0.51)) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({}, None, "complete"), "a complete observation has a finite value, got None"),
        (({}, float("nan"), "complete"), "a complete observation has a finite value, got nan"),
        (({}, 1.0, "pending"), "an observation that is pending has no value, got 1.0"),
        (({}, None, "running"), "one of complete, infeasible, pending, got 'running'"),
    ],
)
def test_impossible_observations_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(TuningError, match=message):
        Observation(*arguments)
