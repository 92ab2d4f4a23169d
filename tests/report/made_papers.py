"""Records of the papers' experiments whose results are functions of arm and number."""

from collections.abc import Callable
from typing import Any

from rnnlab.studies.paper import Paper, read_paper
from rnnlab.studies.records import StudyRecord
from rnnlab.studies.specification import StudySpec, load_spec
from tests.report.made_records import record
from tests.report.small_papers import FOLDER

Result = Callable[[str, int], float | None]


def spec(name: str, scale: str, **changes: Any) -> StudySpec:
    return StudySpec.from_json(load_spec(FOLDER / f"{name}.toml", scale=scale).to_json() | changes)


def made(name: str, scale: str, tuned: Result, rerun: Result | None = None, **changes: Any) -> StudyRecord:
    """A record with values that are functions of arm and number."""
    again = rerun or tuned
    return record(
        spec(name, scale, **changes),
        lambda arm, number, _: tuned(arm, number),
        lambda arm, number, _: again(arm, number),
    )


def table(found: StudyRecord) -> Paper:
    paper = read_paper(found.spec)
    assert paper is not None
    return paper


def most_irnns_diverge(arm: str, number: int) -> float | None:
    return None if "irnn" in arm and number else 1.0


MNIST = [{"task": "mnist", "architectures": ["sh:tanh", "skip-5:tanh", "skip-21:tanh"], "units": 8}]


def accuracy(arm: str, number: int) -> float:
    return 0.5 + 0.01 * number if "sh:" in arm else 0.75
