"""Does it learn? Networks trained from fixed seeds: slowly (`pytest -m slow`), and as recorded for the docs."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rnnlab import task

DOCS = Path(__file__).parents[2] / "docs"
NAMES = ("adding", "copying", "recall", "memory", "parentheses")

pytestmark = pytest.mark.figures  # the experiments stand in the script that draws them


def scores_on_test(record: dict[str, Any], label: str) -> list[float]:
    """The scores on test of the members of a network."""
    found = [curve["test"][record["score"]] for curve in record["curves"] if label in curve["label"]]
    assert found
    return found


def check_adding(record: dict[str, Any]) -> None:
    """LSTM solves the adding problem at T 100 (Z45, Z69)."""
    assert record["task"]["length"] == 100
    assert max(scores_on_test(record, "LSTM")) < 0.002
    assert record["chance"] == pytest.approx(1 / 6)


def check_copying(record: dict[str, Any]) -> None:
    """A skip network beats the memoryless baseline, the same without the skip does not (Z46, Z70)."""
    assert max(scores_on_test(record, "skip")) < record["chance"] / 50
    plain = [curve for curve in record["curves"] if curve["label"] == "tanh"]
    assert min(plain[0]["scores"]) > 0.99 * record["chance"]


def check_recall(record: dict[str, Any]) -> None:
    """C solves it, A does not, in the same budget (M7, M8)."""
    assert max(scores_on_test(record, "C, ")) < 0.005
    assert min(scores_on_test(record, "A, ")) > 0.9 * record["chance"]


def check_memory(record: dict[str, Any]) -> None:
    """The error falls to near zero exactly at 64 units, and follows 1 - n / 64 below (C54, C55)."""
    problem = task("memory")
    for curve in record["curves"]:
        error, expected = curve["test"]["mse"], problem.expected_error(curve["units"])
        if curve["units"] < 64:
            assert expected * 0.95 < error < expected + 0.05
        else:
            assert error < 0.02


def check_parentheses(record: dict[str, Any]) -> None:
    """A small GRU learns to count parentheses (C62-C65)."""
    (curve,) = record["curves"]
    assert curve["test"]["cross_entropy"] < record["chance"] / 10
    assert curve["test"]["accuracy"] > 0.95


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {name: globals()[f"check_{name}"] for name in NAMES}


def experiments() -> Any:
    sys.path.insert(0, str(DOCS))
    import make_learning

    sys.path.remove(str(DOCS))
    return make_learning


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_network_learns(name: str) -> None:
    script = experiments()
    CHECKS[name](json.loads(json.dumps(script.learn(script.EXPERIMENTS[name]))))


@pytest.mark.parametrize("name", NAMES)
def test_recorded_run_learned(name: str) -> None:
    CHECKS[name](json.loads((DOCS / "learning" / f"{name}.json").read_text()))


def test_recorded_runs_are_those_of_the_experiments() -> None:
    script = experiments()
    for name, record in script.recorded().items():
        experiment = script.EXPERIMENTS[name]
        assert record["task"] == json.loads(json.dumps(task(experiment.task, **experiment.arguments).to_json()))
        members = [str(member) for member in experiment.member.with_seeds(experiment.seeds)]
        assert [(curve["architecture"], curve["units"], curve["hyperparameters"]) for curve in record["curves"]] == [
            (network, units, member) for network, units in experiment.networks.values() for member in members
        ]


def test_picture_is_drawn_from_the_records(tmp_path: Path) -> None:
    script = experiments()
    records = script.recorded()
    assert script.fingerprint(records) in script.PICTURE.read_text()
    records["adding"]["curves"][0]["scores"][0] += 1
    script.draw(records, tmp_path / "other.svg")
    assert script.fingerprint(records) in (tmp_path / "other.svg").read_text()
    assert script.fingerprint(records) not in script.PICTURE.read_text()


def test_checks_can_fail() -> None:
    record = json.loads((DOCS / "learning" / "recall.json").read_text())
    for curve in record["curves"]:
        curve["label"] = {"C": "A, x", "A": "C, x"}[curve["label"][0]]
    with pytest.raises(AssertionError):
        check_recall(record)
