"""The GPU benchmark compares what it says it compares: peers compute the same network, and failures do not stop it."""

import json
import operator
import os
import re
import sys
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rnnlab import Model, architecture, from_torch
from rnnlab.bench.equality import by_time, results
from rnnlab.bench.loops import LOOPS
from rnnlab.engine.gpu.choice import gpu_program
from rnnlab.engine.gpu.relay import relay_shapes
from tests.engine.comparison import DifferenceError, Tolerance, Way, compare_ways

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import gpu
import gpu_checks
import gpu_cudnn
import gpu_errors
import gpu_flashrnn
import gpu_models
import gpu_populations
import gpu_process
import gpu_relay
import gpu_relu
import gpu_single
import gpu_sizes
import gpu_timing

EXACT = 1e-9
SMALL = gpu_models.Case("sh:tanh", units=6, inputs=5, batch=3, steps=7, path="reference")


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_timing, "DEVICE", "cpu")


def exact_model(name: str, *, population: int | None = None) -> Model:
    """With numbers none of which is 0, so that none can be left out unseen."""
    network = architecture(name, input_size=5, output_size=gpu_models.OUTPUTS, units=6)
    generator = torch.Generator().manual_seed(0)
    model = Model(network, generator=generator, population=population, path="reference").double()
    with torch.no_grad():
        for value in model.parameters():
            value.add_(0.3 * torch.randn(value.shape, generator=generator))
    return model


def data(num_steps: int, inputs: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return tuple(
        torch.randn(4, num_steps, width, generator=generator, dtype=torch.float64)
        for width in (inputs, gpu_models.OUTPUTS)
    )


def largest_difference(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> float:
    assert found.keys() == wanted.keys()
    return max(gpu_timing.relative_errors(found, wanted).values())


# ------------------------------------------------------------------------------------------------------------- JAX


@pytest.fixture
def jax_module():
    jax = pytest.importorskip("jax", reason="jax is not installed (pip install rnnlab[bench])")
    with jax.enable_x64(True):
        yield jax


def jax_results(jax, name: str, model: Model, x: Tensor, dy: Tensor, unroll: int) -> dict[str, Tensor]:
    from gpu_jax_networks import NETWORKS

    arrays = {key: value.detach()[0].numpy() for key, value in model.arrays.items()}
    given, gradient = (each.numpy() for each in by_time(x, dy))
    scan = partial(jax.lax.scan, unroll=unroll)
    y, backward = jax.vjp(lambda arrays: NETWORKS[name](arrays, given, scan), arrays)
    found = {
        f"gradient of {key}": torch.tensor(np.asarray(value))[None] for key, value in backward(gradient)[0].items()
    }
    return {"output": by_time(torch.tensor(np.asarray(y)))[0]} | found


JAX_NAMES = ("sh:tanh", "sh:lstm", "sh:gru", *gpu_sizes.NETWORKS_BY_HAND)


@pytest.mark.parametrize(("name", "unroll"), [*((name, 1) for name in JAX_NAMES), ("skip-21:tanh", 4)])
def test_jax_networks_equal_the_reference(jax_module, name: str, unroll: int) -> None:
    model = exact_model(name)
    x, dy = data(44)  # twice around the ring of skip-21, and some
    wanted = results(model, x, dy)
    del wanted["gradient of x"]
    assert largest_difference(jax_results(jax_module, name, model, x, dy, unroll), wanted) < EXACT


def test_jax_population_is_its_members(jax_module) -> None:
    import gpu_jax

    case = gpu_jax.Case("sh:tanh", 6, 5, 3, 4, 2, "float32")
    arrays, x, dy = gpu_jax.make_given(case)
    losses, gradients = gpu_jax.training_step(case, 1)(arrays, x, dy)
    alone = case._replace(members=None)
    for member in range(2):
        own = {name: value[member] for name, value in arrays.items()}
        loss, gradient = gpu_jax.training_step(alone, 1)(own, x, dy[member])
        np.testing.assert_allclose(losses[member], loss, rtol=1e-5)
        for name, value in gradient.items():
            np.testing.assert_allclose(gradients[name][member], value, rtol=1e-4, atol=1e-5)
    assert gpu_jax.error_of(case, (arrays, x, dy), gradients) < 1e-5
    wrong = gradients | {"h bias": gradients["h bias"] * 1.1}
    assert gpu_jax.error_of(case, (arrays, x, dy), wrong) > 0.05


def test_jax_times_what_is_compiled(jax_module, monkeypatch: pytest.MonkeyPatch) -> None:
    import gpu_jax

    monkeypatch.setattr(gpu_jax, "ROUND_SECONDS", 1e-4)
    case = gpu_jax.Case("sh:tanh", 6, 5, 3, 4, None, "float32")
    with jax_module.enable_x64(False):
        ready, prepared, never = Future[Any](), Future[Any](), Future[Any]()
        ready.set_result(gpu_jax.compiled(case, 4))
        prepared.set_result(gpu_jax.prepare(gpu_jax.exactly(case), [case]))
        row = gpu_jax.measure(case, {1: never, 4: ready}, prepared)
        assert row["unroll"] == 4
        assert row["compile_seconds"].keys() == {4}
        assert row["error"] < 1e-5
        for steps, others in (({1: never}, prepared), ({4: ready}, never)):
            assert gpu_jax.measure(case, steps, others) == {"failed": "TimeoutError: not compiled in time"}


# ----------------------------------------------------------------------------------------------------- other peers


@pytest.mark.parametrize(("name", "cell"), [("sh:tanh", "tanh"), ("sh:lstm", "lstm"), ("sh:gru-cudnn", "gru-cudnn")])
def test_one_layer_is_cudnns(name: str, cell: str) -> None:
    check_same_network(name, gpu_cudnn.Network(cell, 5, 6, 1, torch.float64))


def test_four_layers_are_cudnns() -> None:
    check_same_network("stack-4:lstm", gpu_cudnn.Network("lstm", 5, 6, 4, torch.float64))


def check_same_network(name: str, network: gpu_cudnn.Network) -> None:
    """With the numbers of torch's layer, zero initial states and its read-out, ours computes the same."""
    model, layer = exact_model(name), from_torch(network.layer)
    ours = [node.name for node in model.architecture.nodes if node.kind == "hidden"]
    with torch.no_grad():
        for key, value in model.arrays.items():
            if "initial" in key:
                value.zero_()
        for key, value in layer.arrays.items():
            if not key.startswith("y"):  # torch's layers h0, h1, ...
                model.arrays[re.sub(r"h(\d)", lambda found: ours[int(found[1])], key)].copy_(value)
        model.arrays[f"{ours[-1]}->y[0]"].copy_(network.read_out.weight.T[None])
        model.arrays["y bias"].copy_(network.read_out.bias[None])
    x, dy = data(9)
    found, wanted = results(model, x, dy), results(network, *by_time(x, dy))
    for each in ("output", "gradient of x"):
        torch.testing.assert_close(found[each], by_time(wanted[each])[0], rtol=EXACT, atol=EXACT)


def test_flashrnns_heads_are_our_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gates are i, f, z, o; ours i, f, o, g."""
    monkeypatch.setattr(gpu_flashrnn, "FLASHRNN", (4, 9, 12))
    network = gpu_flashrnn.Network(3, "vanilla", torch.float64)
    case = gpu_models.Case("heads-3:lstm", units=12, inputs=12, batch=4, steps=9, path="reference")
    model = gpu_models.make_model(case).double()

    def in_order(gates: Tensor) -> Tensor:
        i, f, z, o = gates
        return torch.cat([i, f, o, z])

    inputs = network.input.view(4, 3, 4, 12)
    with torch.no_grad():
        for head in range(3):
            name = f"h{head + 1}"
            model.arrays[f"x->{name}[0]"].copy_(in_order(inputs[:, head]).T[None])
            model.arrays[f"{name}->{name}[1]"].copy_(in_order(network.recurrent[:, head]).T[None])
            model.arrays[f"{name} bias"].copy_(in_order(network.bias[:, head])[None])
            model.arrays[f"{name}->y[0]"].copy_(network.read_out[:, 4 * head : 4 * head + 4].T[None])
        model.arrays["y bias"].copy_(network.read_out_bias[None])
    x, dy = data(9, inputs=12)
    found, wanted = results(model, x, dy), results(gpu_flashrnn.Exact(network), x, dy)
    for each in ("output", "gradient of x"):
        torch.testing.assert_close(found[each], wanted[each], rtol=EXACT, atol=EXACT)


def test_batched_products_are_a_population_of_tanh_layers() -> None:
    module = gpu_populations.BatchedProducts(2, 5, 6, torch.float64)
    model = exact_model("sh:tanh", population=2)
    matrices = {"x->h[0]": module.input, "h->h[1]": module.recurrent, "h->y[0]": module.read_out}
    with torch.no_grad():
        for name, value in model.arrays.items():
            value.copy_(matrices.get(name, torch.zeros_like(value)))
    x, _ = data(9)
    torch.testing.assert_close(module(*by_time(x))[0], by_time(model(x)[0])[0], rtol=EXACT, atol=EXACT)


def test_torch_loops_are_there_for_every_network_by_hand() -> None:
    assert set(gpu_sizes.NETWORKS_BY_HAND) == set(LOOPS)


# ------------------------------------------------------------------------------------------------------------- relu


def test_relu_is_wrong_near_jumps_only() -> None:
    """The reference in bfloat16 stands for a fast path that is right, but rounds."""
    way, tolerance = Way("reference", torch.bfloat16), Tolerance(8e-2, 4e-2, "bf16 states")
    wrong_near = 0
    for name in ("sh:tanh", "sh:gru", "stack-2:intersection"):
        near, away = gpu_relu.cases(name)
        assert gpu_relu.relu_distances(away).min() >= gpu_relu.MARGIN > gpu_relu.relu_distances(near).max()
        assert gpu_relu.difference(away, way, tolerance) is None
        wrong_near += gpu_relu.difference(near, way, tolerance) is not None
    assert wrong_near


def test_a_wrong_slope_of_relu_is_seen_away_from_jumps(monkeypatch: pytest.MonkeyPatch) -> None:
    _, away = gpu_relu.cases("sh:tanh")
    way, tolerance = Way("cpu", torch.float32), Tolerance(8e-2, 2e-2, "as in bf16")
    assert gpu_relu.difference(away, way, tolerance) is None
    monkeypatch.setattr(torch, "relu", lambda x: nn.functional.leaky_relu(x, 0.3))  # the reference is the wrong one
    with pytest.raises(DifferenceError, match=r"outputs|gradient"):
        compare_ways(away, {way: tolerance})


# --------------------------------------------------------------------------------------------------------- measuring


def test_errors_of_missing_and_infinite_results_are_infinite() -> None:
    wanted = {"output": torch.ones(3), "unread": torch.zeros(2)}
    assert gpu_timing.relative_errors({"output": torch.tensor([1.0, 1.0, 2.0])}, wanted) == {
        "output": pytest.approx(3**-0.5)
    }
    assert gpu_timing.largest_error({"output": torch.full((3,), torch.nan)}, wanted) == torch.inf
    assert gpu_timing.largest_error({}, wanted) == torch.inf
    with pytest.raises(ArithmeticError, match=r"off by 0.5, allowed is 0.06: not timed"):
        gpu_timing.check_error(0.5, "bf16")


def test_fastest_peer_is_at_least_as_exact() -> None:
    def found(setting: str, eager: float, graphed: float | None) -> gpu_cudnn.Found:
        return gpu_cudnn.Found(setting, gpu_timing.Timed(eager, graphed), 1.0, 0.0)

    each = {"bf16": found("bf16", 3.0, 2.0), "tf32": found("tf32", 9.0, None), "float32": found("float32", 8.0, 7.0)}
    chosen = [gpu_cudnn.fastest(each, precision) for precision in ("bf16", "tf32", "float32")]
    assert [peer and peer.setting for peer in chosen] == ["bf16", "float32", "float32"]
    assert gpu_cudnn.fastest({"bf16": each["bf16"]}, "float32") is None


def test_models_of_all_precisions_have_the_same_numbers() -> None:
    first, second = (gpu_models.make_model(SMALL._replace(precision=each)) for each in ("bf16", "float32"))
    assert (first.precision, second.precision) == ("bf16", "float32")
    assert all(torch.equal(value, second.arrays[name]) for name, value in first.arrays.items())
    exact = gpu_models.exact_copy(gpu_models.make_model(SMALL._replace(members=3)), 2)
    assert exact.population == 2
    assert next(exact.parameters()).dtype == torch.float64


def test_every_goal_of_populations_belongs_to_a_case() -> None:
    cases = [case for each in gpu.timed_cases(["populations"], []) for case in each]
    found = {(case.precision, case.network.removeprefix("sh:"), case.units) for case in cases}
    assert {goal[1:] for goal in gpu_sizes.POPULATION_GOALS} <= found


def test_races_hold_every_network_of_the_table() -> None:
    found = {(race.cases[0].network, race.cases[0].units, race.cases[0].batch): race for race in gpu_single.races()}
    assert len(found) == 3 * 4 + 2 + 1 + 6
    assert found["sh:lstm", 768, 16].cases[0].steps == 1024
    assert [race.cases[0].network for race in gpu_single.flashrnn_races()] == ["heads-12:lstm", "heads-1:lstm"]


def test_every_network_that_is_timed_as_a_relay_can_be_one() -> None:
    cases = [case for case in gpu_relay.cases() if case.path == "gpu-relay"]
    assert len(cases) == len(gpu_relay.NETWORKS)
    for case in cases:
        made = gpu_program(gpu_models.network_of(case), None, case.precision, "relay")
        (legs,) = made.relays
        assert not isinstance(relay_shapes(made, legs, (1, case.batch), 132, torch.device("cpu")), str), case


def test_relays_are_timed_only_where_they_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < gpu_relay.compared(SMALL)["error"] < 1e-5
    assert "CUDA devices" in gpu_relay.compared(SMALL._replace(path="gpu-relay"))["cannot"]
    monkeypatch.setitem(gpu_timing.ERRORS, "bf16", 1e-9)
    with pytest.raises(ArithmeticError, match="not timed"):
        gpu_relay.compared(SMALL)


def in_order(function: Any, tasks: Any, **_: Any) -> list[gpu_process.Outcome]:
    """Stands for processes in parallel."""
    return [gpu_process._attempt(function, task) for task in tasks]


POPULATION = gpu_models.Case("sh:lstm", units=6, inputs=5, batch=3, steps=7, members=3, path="reference")


@pytest.mark.parametrize("case", [SMALL, POPULATION])
def test_cases_of_all_precisions_are_compared(monkeypatch: pytest.MonkeyPatch, case: gpu_models.Case) -> None:
    """One that is too far off fails alone; the others have their error."""
    exact_ones: list[int | None] = []
    exact_copy = gpu_models.exact_copy

    def counted(model: Model, members: int | None) -> Model:
        exact_ones.append(members)
        return exact_copy(model, members)

    monkeypatch.setattr(gpu_errors, "exact_copy", counted)
    monkeypatch.setitem(gpu_timing.ERRORS, "tf32", 1e-9)
    first, second, third = gpu_errors.compared([case._replace(precision=each) for each in ("bf16", "tf32", "float32")])
    assert 0 < first["error"] < 1e-6
    assert first == third
    assert re.match(r"ArithmeticError: off by .*, allowed is 1e-09: not timed", second["failed"])
    assert exact_ones == [case.members and 2]


@pytest.mark.parametrize("member", [0, 1])
def test_a_wrong_member_of_a_population_is_seen(monkeypatch: pytest.MonkeyPatch, member: int) -> None:
    """Its gradients, where another's are added to them."""
    trained_once = gpu_timing.trained_once

    def wrong(module: nn.Module, x: Tensor, dy: Tensor) -> dict[str, Tensor]:
        found = trained_once(module, x, dy)
        if x.dtype == torch.float32:
            found["gradient of arrays.h bias"][member] += found["gradient of arrays.h bias"][2]
        return found

    monkeypatch.setattr(gpu_timing, "trained_once", wrong)
    (row,) = gpu_errors.compared([POPULATION])
    assert "not timed" in row["failed"]


def test_networks_that_rounding_changes_much_may_be_off_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gpu_timing.ERRORS, "bf16", 1e-9)
    case = SMALL._replace(network="td:tanh")
    (row,) = gpu_errors.compared([case])
    assert 1e-9 < row["error"] < 1e-5
    monkeypatch.setattr(gpu_errors, "_rounding_error", lambda *_: 1e-9)
    (row,) = gpu_errors.compared([case])
    assert "to round its numbers once makes 1e-09: not timed" in row["failed"]


def test_what_failed_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[gpu_models.Case] = []

    def ours(case: gpu_models.Case) -> dict[str, Any]:
        timed.append(case)
        return {"ms": 2.0}

    for module in (gpu_populations, gpu_single):
        monkeypatch.setattr(module, "ours", ours)
    monkeypatch.setattr(gpu_cudnn, "measure", lambda *_: ({}, {}))
    population = gpu_sizes.POPULATIONS[0]
    cases = gpu_populations.cases(population)
    known: dict[gpu_models.Case, Any] = {case: {"error": 0.01, "first_call_seconds": 3.0} for case in cases}
    known[cases[1]] = {"failed": "late", "first_call_seconds": 3.0}
    jax = {(case.network, case.units, case.members, case.precision): {"failed": "never"} for case in cases}
    first, wrong, last = gpu_populations.rows(population, jax, known)
    assert [row["precision"] for row in (first, wrong, last)] == ["bf16", "tf32", "float32"]
    assert (first["error"], first["ms"], first["first_call_seconds"]) == (0.01, 2.0, 3.0)
    assert wrong["failed"] == "late"
    assert "FAILED late" in gpu_populations.show(wrong)
    assert timed == [cases[0], cases[2]]

    timed.clear()
    race = gpu_single.races()[0]
    known = {case: {"failed": "off by 1"} for case in race.cases} | {race.cases[2]: {"error": 0.01}}
    *wrong, last = gpu_single.rows(race, {}, known)
    assert [row["failed"] for row in wrong] == ["off by 1"] * 2
    assert "FAILED off by 1" in gpu_single.show(wrong[0])
    assert (last["error"], last["ms"], last["failed"]) == (0.01, 2.0, "no setting could be measured")
    assert timed == [race.cases[2]]


def test_a_case_that_breaks_while_it_is_timed_keeps_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def ours(_: gpu_models.Case) -> dict[str, Any]:
        raise ValueError("broken")

    monkeypatch.setattr(gpu_single, "ours", ours)
    race = gpu_single.flashrnn_races()[0]
    (row,) = gpu_single.rows(race, {}, {race.cases[0]: {"error": 0.01}})
    assert (row["failed"], row["error"]) == ("ValueError: broken", 0.01)
    assert "FAILED ValueError: broken" in gpu_single.show(row)


def test_relays_that_fail_do_not_stop_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_relay, "in_parallel", in_order)
    odd = SMALL._replace(network="no such network")
    found = gpu_relay.all_compared([SMALL, odd])
    assert found[SMALL].keys() == {*SMALL._fields, "error"}
    assert "no such network" in found[odd]["failed"]


def test_a_race_may_be_run_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def parts_of(*arguments: str) -> tuple[list[str], list[str]]:
        found: list[Any] = []
        monkeypatch.setattr(sys, "argv", ["gpu.py", *arguments, "--output", str(tmp_path / "table.json")])
        monkeypatch.setattr(gpu, "run_parts", lambda parts, races, _: found.extend([parts, races]))
        gpu.main()
        return found[0], [race.name for race in found[1]]

    monkeypatch.setattr(gpu.CaseProcess, "call", lambda *_: gpu_process.Outcome({}, None, {}))
    assert parts_of("single", "--only", "sh:lstm 2048") == (["single"], ["sh:lstm 2048"])
    assert len(parts_of("single")[1]) == len(gpu_single.races())
    with pytest.raises(SystemExit):
        parts_of("single", "--only", "sh:lstm 3")


def test_a_row_says_what_is_missed() -> None:
    row = gpu_single.named(SMALL) | {"peer": "cudnn", "peer_setting": "bf16", "peer_ms": 3.0, "goal": 2.0, "ms": 2.0}
    row |= {"first_call_seconds": 25.0, "gigabytes": 2.0, "peer_gigabytes": 1.0, "slots": 7, "kernels": "spread"}
    row |= {"ms_eager": 2.5, "ms_graphed": 2.0, "ms_forward": 1.0, "error": 1e-3, "note": ""}
    shown = gpu_single.show(gpu_single._with_ratios(row))
    assert "1.50 times, goal 2: MISSED; 2.00 times its memory MISSED" in shown
    assert "first call 25.0 s MISSED" in shown
    assert "FAILED out of luck" in gpu_single.show(gpu_single.named(SMALL) | {"failed": "out of luck"})


# ------------------------------------------------------------------------------------------------------------ checks


def test_every_test_is_in_one_share() -> None:
    shares = [list(range(1000)) for _ in range(gpu_checks.TEST_TASKS)]
    for number, share in enumerate(shares):
        gpu_checks.Recorder(number).pytest_collection_modifyitems(share)
    assert sorted(test for share in shares for test in share) == list(range(1000))
    assert max(map(len, shares)) - min(map(len, shares)) == 1
    kinds = [{test % 12 for test in share} for share in shares]  # as parameters follow one another
    assert min(map(len, kinds)) > 6


def test_random_networks_are_cut_up_by_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task has a network of its own; every precision, and both parities, are there for every place of a seed."""
    assert gpu_checks.NUM_RANDOM == 5 * gpu_checks.SEEDS  # with fewer of each seed, more of all would be the smallest
    found: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr("tests.engine.gpu.checks.compare", lambda network, **how: found.append((str(network), how)))
    monkeypatch.setattr(gpu_checks, "SEEDS", 6)
    monkeypatch.setattr(gpu_checks, "NUM_RANDOM", 24)
    told = [gpu_checks.check_random(number) for number in range(24)]
    assert [each["comparisons"] for each in told] == [1] * 24
    assert len(found) == 24
    for place in range(4):
        hows = [how for _, how in found[6 * place : 6 * place + 6]]
        assert [how["precisions"] for how in hows] == [["bf16"], ["float32"], ["tf32"]] * 2
        assert [how["steps_before"] > 0 for how in hows] == [False, True] * 3
    for start in range(6):
        assert len({network for network, _ in found[start::6]}) == 4


def test_a_wrong_random_network_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(*_: Any, **__: Any) -> None:
        raise DifferenceError("off")

    monkeypatch.setattr("tests.engine.gpu.checks.compare", compare)
    wrong = ["random network 43: DifferenceError: off"]
    assert gpu_checks.check_random(43) == {"comparisons": 1, "wrong": wrong}


def test_checks_end_with_what_takes_least(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks: list[tuple[str, Any]] = []

    def all_right(_: Any, given: Any, **__: Any) -> list[gpu_process.Outcome]:
        tasks.extend(given)
        return [gpu_process.Outcome({"comparisons": 1, "wrong": [], "wrong_near_a_jump": 0}, None, {})] * len(given)

    monkeypatch.setattr(gpu_checks, "in_parallel", all_right)
    found = gpu_checks.checks(1.0)
    assert (found["random_networks"], found["comparisons"]) == (200, len(tasks))
    assert len(set(tasks)) == len(tasks)
    assert [kind for kind, _ in tasks] == sorted((kind for kind, _ in tasks), key=["relu", "tests", "random"].index)
    assert [number for _, number in tasks[-200:]] == list(range(199, -1, -1))


# --------------------------------------------------------------------------------------------------------- processes


def test_cases_that_fail_die_or_hang_do_not_stop_those_after() -> None:
    process = gpu_process.CaseProcess(lambda result: result == "spoilt")
    try:
        assert process.call(60, operator.add, 1, 2) == (3, None, {})
        assert process.call(60, operator.truediv, 1, 0).failure == "ZeroDivisionError: division by zero"
        assert process.call(60, os._exit, 3).failure == "its process died, exit code 3"
        assert process.call(0.5, time.sleep, 60).failure == "no answer after 0 s"
        first = process.call(60, os.getpid).result
        assert process.call(60, os.getpid).result == first
        assert process.call(60, str, "spoilt").result == "spoilt"
        assert process.call(60, os.getpid).result != first
        assert process.call(0, os.getpid).failure == gpu_process.LATE
    finally:
        process.end()


def test_tasks_in_parallel_keep_their_order() -> None:
    tasks = [(1, 1), (1, 0), (6, 2)]
    limits = {"seconds": 60.0, "task_seconds": 60.0, "is_spoilt": bool}
    found = gpu_process.in_parallel(operator.truediv, tasks, **limits)
    assert [each.result for each in found] == [1.0, None, 3.0]
    assert found[1].failure == "ZeroDivisionError: division by zero"


def test_tasks_tell_what_their_parts_took() -> None:
    @gpu_process.spending("waiting")
    def wait(times: int) -> int:
        time.sleep(0.02)
        if times > 1:
            raise ValueError(times)
        return times

    first, second = in_order(lambda: wait(1) + wait(1), [()])[0], in_order(wait, [(2,)])[0]
    assert first.result == 2
    assert 0.04 <= first.seconds["waiting"] < 0.5
    assert second.failure == "ValueError: 2"
    assert 0.02 <= second.seconds["waiting"] < first.seconds["waiting"]


def test_scripts_wait_for_a_line_and_come_after_others(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("import json, os\nprint(json.dumps({'line': input(), 'nice': os.nice(0)}))")
    script = gpu_process.Script(str(path))
    try:
        assert script.rows(60) == [{"line": "go", "nice": min(19, os.nice(0) + gpu_process.NICE)}]
    finally:
        script.end()


# ---------------------------------------------------------------------------------------------------- the whole script


def test_what_cannot_be_compiled_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(number: int) -> int:
        if number % 2:
            raise ValueError(f"{number} is odd")
        return number // 2

    monkeypatch.setattr(gpu_process, "in_parallel", in_order)
    assert gpu_process.results_of(half, [2, 6]) == [1, 3]
    with pytest.raises(SystemExit, match=r"2 of 4 failed, the first, 3: ValueError: 3 is odd"):
        gpu_process.results_of(half, [2, 3, 4, 5])


def test_a_table_tells_what_its_parts_consist_of(tmp_path: Path) -> None:
    class Process:
        def call(self, *_: Any) -> gpu_process.Outcome:
            return gpu_process.Outcome(3, None, {"cudnn": -7.0})

    table = gpu.Table(tmp_path / "table.json")
    assert table.call("single", Process(), print).result == 3  # type: ignore[arg-type]
    table.time("single", lambda: table.spend("single", {"cudnn": 2.0}))
    written = json.loads((tmp_path / "table.json").read_text())
    assert written["seconds"]["single: cudnn"] == -5.0
    assert 7.0 <= written["seconds"]["single: other"] < 8.0
    assert {"single", "all"} < written["seconds"].keys()
    assert written["core_seconds"].keys() == {"single"}


def test_errors_are_told_in_the_order_of_cells_and_lengths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[int] = []

    def rows(cell: str, steps: int) -> list[dict[str, Any]]:
        asked.append(steps)
        named = {"network": cell, "steps": steps, "kernels": "", "precision": ""}
        return [named | {"failed": "not run"}]

    monkeypatch.setattr(gpu, "in_parallel", in_order)
    monkeypatch.setattr(gpu_errors, "rows", rows)
    table = gpu.Table(tmp_path / "table.json")
    assert gpu.compare(["errors"], [], table) == {}
    assert asked == sorted(asked, reverse=True)
    wanted = [(cell, steps) for cell in gpu_errors.CELLS for steps in gpu_errors.STEPS]
    assert [(row["network"], row["steps"]) for row in table.content["errors"]] == wanted


def test_every_case_is_compared_beside_errors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Populations and long sequences first; a comparison that breaks down is one of all its cases."""
    asked: list[tuple[gpu_models.Case, ...] | int] = []

    def compared(cases: tuple[gpu_models.Case, ...]) -> list[dict[str, Any]]:
        asked.append(cases)
        if cases[0].network == "sh:tanh":
            raise ValueError("no")
        return [{"error": number} for number, _ in enumerate(cases)]

    monkeypatch.setattr(gpu, "in_parallel", in_order)
    monkeypatch.setattr(gpu_errors, "compared", compared)
    monkeypatch.setattr(gpu_errors, "rows", lambda _, steps: asked.append(steps) or [])
    monkeypatch.setattr(gpu_errors, "show", str)
    races = [race for race in gpu_single.races() if race.cases[0].units == 512]
    found = gpu.compare(list(gpu.PARTS), races, gpu.Table(tmp_path / "table.json"))
    assert [found[case] for case in races[0].cases] == [{"failed": "ValueError: no"}] * 3
    assert [found[case]["error"] for case in races[1].cases] == [0, 1, 2]
    groups = [each for each in asked if isinstance(each, tuple)]
    assert {case for cases in groups for case in cases} == found.keys()
    assert set(groups) == {
        *(gpu_populations.cases(each) for each in gpu_sizes.POPULATIONS),
        *(race.cases for race in [*races, *gpu_single.flashrnn_races()]),
    }
    names = [each if isinstance(each, int) else each[0].network for each in asked]
    assert {cases[0].members for cases in asked[:5] if isinstance(cases, tuple)} == {132, 528}
    assert names[5:10] == [4096, 4096, 4096, "heads-12:lstm", "heads-1:lstm"]
    assert names[-3:] == [64, 64, 64]
    asked.clear()
    assert gpu.compare(["single"], races[:1], gpu.Table(tmp_path / "table.json")).keys() == set(races[0].cases)
    assert asked == [races[0].cases]


def test_what_failed_is_not_profiled(tmp_path: Path) -> None:
    asked: list[Any] = []

    class Process:
        def call(self, _: float, function: Any, *arguments: Any) -> gpu_process.Outcome:
            asked.append((function, *arguments))
            slots = {race.cases[0]: {"us_a_slot_forward": 2.0}}
            return gpu_process.Outcome(slots if function is gpu_single.profiled else [], "not run", {})

    race = gpu_single.races()[0]
    known: dict[gpu_models.Case, Any] = {case: {"error": 0.01, "first_call_seconds": 3.0} for case in race.cases}
    known[race.cases[1]] = {"failed": "off", "first_call_seconds": 3.0}
    runners = gpu.Runners(Process(), Process())  # type: ignore[arg-type]
    gpu.run_races("single", [race], {}, gpu.Table(tmp_path / "table.json"), runners, known)
    profiled, timed = asked
    assert profiled == (gpu_single.profiled, [race.cases[0], race.cases[2]])
    assert timed == (
        gpu_single.rows,
        race,
        {},
        known | {race.cases[0]: known[race.cases[0]] | {"us_a_slot_forward": 2.0}},
    )


def test_nothing_is_timed_while_others_compile_or_check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """JAX compiles beside comparisons, which are no times, and is told to time when they have ended."""
    events: list[str] = []

    class Script:
        def __init__(self, *arguments: str) -> None:
            self._name = " ".join(arguments)
            events.append(f"start {self._name}")

        def rows(self, _: float) -> list[dict[str, Any]]:
            events.append(f"time {self._name}")
            one = {"network": "td:tanh", "units": 256, "members": None, "precision": "bf16"}
            return [one | {"ms": 4.0, "unroll": 4, "error": 0.01}, {"seconds": {"timed": 2.0}}]

        def end(self) -> None:
            events.append(f"end {self._name}")

    def note(what: str) -> Any:
        return lambda *_: events.append(what) or {}

    def first_calls(*_: Any) -> dict[gpu_models.Case, float]:
        events.append("first_calls")
        return {SMALL: 2.5}

    def compare(*_: Any) -> dict[gpu_models.Case, dict[str, Any]]:
        events.append("compare")
        return {SMALL: {"error": 0.01}, POPULATION: {"failed": "off"}}

    def races(part: str, _: Any, others: dict[str, Any], *rest: Any) -> None:
        known = rest[-1]
        assert known[SMALL] == {"first_call_seconds": 2.5, "error": 0.01}
        assert known[POPULATION] == {"first_call_seconds": None, "failed": "off"}
        events.append(part)
        if part == "single":
            assert others == {"td:tanh": {"peer_ms": 4.0, "peer_setting": "bf16, unroll 4", "peer_error": 0.01}}

    monkeypatch.setattr(gpu, "Script", Script)
    monkeypatch.setattr(gpu.CaseProcess, "start", note("timers start"))
    for name in ("run_checks", "run_populations"):
        monkeypatch.setattr(gpu, name, note(name))
    monkeypatch.setattr(gpu, "first_calls", first_calls)
    monkeypatch.setattr(gpu, "compare", compare)
    monkeypatch.setattr(gpu, "run_races", races)
    monkeypatch.setattr(gpu_sizes, "FLASHRNN_BACKENDS", {1: ("cuda",)})
    table = gpu.Table(tmp_path / "table.json")
    monkeypatch.setattr(gpu, "fastest_flashrnn", lambda scripts, _: [script.rows(1.0) for script in scripts])
    gpu.run_parts(list(gpu.PARTS), gpu_single.races(), table)
    jax, flashrnn = "gpu_jax.py populations single", "gpu_flashrnn.py 1 cuda"
    assert events == [
        *("run_checks", "first_calls", f"start {jax}", "compare"),
        *("timers start", "timers start", f"time {jax}"),
        *(f"start {flashrnn}", "run_populations", "single", f"time {flashrnn}", "flashrnn"),
        *(f"end {jax}", f"end {flashrnn}"),
    ]
    assert table.content["seconds"]["jax: timed"] == 2.0
