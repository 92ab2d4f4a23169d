"""All comparisons of the GPU path with the reference in float64, as many at a time as there are cores.

The tests of tests/engine/gpu (catalogue and cells, odd sizes, precisions, continued sequences, broken kernels that must
fail), those of training and losses on a GPU, 200 random networks, and relu away from its jump. Most of the time goes
into compiling.
"""

import io
from contextlib import redirect_stdout
from itertools import count
from typing import Any

import gpu_relu
from gpu_process import LATE, ROOT, in_parallel

NUM_RANDOM, SEEDS = 200, 40
TEST_TASKS = 97  # a prime: no task gets the tests of one precision or one kind of kernels only
OTHER_TESTS = ("training/test_gpu.py", "training/test_fused.py", "tasks/test_fused_cross_entropy.py")


def check(kind: str, what: Any) -> dict[str, Any]:
    """One task: how many comparisons it made, and what is wrong."""
    import torch

    torch.set_num_threads(1)
    return {"tests": check_tests, "random": check_random, "relu": gpu_relu.check}[kind](what)


class Recorder:
    """A plugin of pytest that runs every so many tests only, and keeps what comes of them."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.passed = 0
        self.skipped: list[str] = []
        self.wrong: list[str] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep this task's share."""
        items[:] = items[self._number :: TEST_TASKS]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Count."""
        if report.skipped:
            self.skipped.append(f"{report.nodeid.rpartition('/')[2]}: {report.longrepr[2]}")
        self.passed += report.passed and report.when == "call"
        if report.failed:
            self.wrong.append(f"{report.nodeid.rpartition('/')[2]}: {report.longreprtext[-300:]}")


def check_tests(number: int) -> dict[str, Any]:
    """A share of the tests of the GPU path; those of random networks and of texts for other GPUs are left out."""
    import pytest

    recorder = Recorder(number)
    folder = ROOT / "tests" / "engine" / "gpu"
    paths = [str(folder), *(str(ROOT / "tests" / each) for each in OTHER_TESTS)]
    options = ["-q", "-p", "no:cacheprovider", "-W", "default", "-k", "not random"]
    options.append(f"--ignore={folder / 'test_cuda_texts.py'}")
    with redirect_stdout(io.StringIO()):
        code = pytest.main([*options, *paths], plugins=[recorder])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        recorder.wrong.append(f"pytest ended with {code!r}")
    return {"comparisons": recorder.passed, "skipped": recorder.skipped, "wrong": recorder.wrong}


def check_random(number: int) -> dict[str, Any]:
    """One of the random networks, forward and backward; seeds continue sequences or not, in all precisions in turn."""
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st

    from tests.engine.gpu.checks import TOLERANCES, compare
    from tests.engine.strategies import architectures

    place, start = divmod(number, SEEDS)
    precision = sorted(TOLERANCES)[start % len(TOLERANCES)]
    turn = count()
    quiet: Any = {"database": None, "deadline": None, "suppress_health_check": list(HealthCheck)}
    found: dict[str, Any] = {"comparisons": 0, "wrong": []}

    # a seed's networks are drawn together, whichever is asked for: the first that it draws is the smallest there is
    @seed(start)
    @settings(max_examples=NUM_RANDOM // SEEDS, phases=[Phase.generate], **quiet)
    @given(architectures(smooth=True, can_stream=start % 2 == 1), st.integers(1, 7), st.sampled_from([None, 1, 3]))
    def agrees(network: Any, num_steps: int, population: int | None) -> None:
        if next(turn) != place:
            return
        before = start % 2 * (1 + num_steps % 3)
        try:
            numbers: Any = {"num_steps": num_steps, "population": population, "steps_before": before}
            compare(network, device="cuda", precisions=[precision], **numbers)
        except Exception as error:
            found["wrong"].append(f"random network {number}: {type(error).__name__}: {error}"[:500])
        found["comparisons"] += 1

    agrees()
    return found


def _is_wrong(found: dict[str, Any]) -> bool:
    return bool(found["wrong"])


def checks(seconds: float) -> dict[str, Any]:
    """As many as end in so many seconds; the result says how many there were, which were late, and what is wrong."""
    relu = [("relu", name) for name in gpu_relu.NETWORKS]
    tasks: list[tuple[str, Any]] = [("tests", number) for number in range(TEST_TASKS)]
    # one network each, the smallest last: they fill what is left of the cores' time
    tasks += [("random", number) for number in reversed(range(NUM_RANDOM))]
    limits: Any = {"seconds": seconds, "task_seconds": seconds / 2, "is_spoilt": _is_wrong}
    outcomes = dict(zip(relu + tasks, in_parallel(check, relu + tasks, **limits), strict=True))
    results = {task: outcome.result for task, outcome in outcomes.items() if outcome.failure is None}
    failures = [f"{kind} {what}: {each.failure}" for (kind, what), each in outcomes.items() if each.failure]
    return {
        "comparisons": sum(each["comparisons"] for each in results.values()),
        "random_networks": sum(each["comparisons"] for (kind, _), each in results.items() if kind == "random"),
        "skipped": [message for each in results.values() for message in each.get("skipped", [])],
        "relu": gpu_relu.summary([results[task] for task in relu if task in results]),
        "not_finished": [failure for failure in failures if LATE in failure],
        "wrong": [message for each in results.values() for message in each["wrong"]]
        + [failure for failure in failures if LATE not in failure],
    }


def show(found: dict[str, Any]) -> str:
    """The result in some lines."""
    counts = {name: len(value) if isinstance(value, list) else value for name, value in found.items() if name != "relu"}
    lines = [f"WRONG {message}" for message in found["wrong"][:20]]
    lines += [f"skipped {message}" for message in found["skipped"][:5]]
    return "\n".join([*lines, f"relu: {found['relu']}", f"checks: {counts}"])
