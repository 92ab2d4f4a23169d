"""docs/papers.md: every element that tasks are about has a row, and what the rows name exists."""

import ast
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import pytest

from rnnlab import TASKS, task

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs" / "papers.md").read_text().split("## Tasks\n")[1].split("\n## ")[0]
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in SECTION.splitlines() if line[:2] == "| "]
ELEMENTS = [
    *(f"Z{number}" for number in range(43, 49)),
    *(f"C{number}" for number in range(39, 70)),
    *("P12", "M7", "M10"),
]


def elements(cell: str) -> list[str]:
    """`C39, C40` and `C62–C64`, one by one."""
    found: list[str] = []
    for part in cell.split(", "):
        first, _, last = part.partition("–")
        start, stop = (int(name[1:]) for name in (first, last or first))
        found += [f"{first[0]}{number}" for number in range(start, stop + 1)]
    return found


def test_every_element_of_the_tasks_has_one_row() -> None:
    found = [element for row in ROWS[1:] for element in elements(row[0])]
    assert found == ELEMENTS


def known_names() -> set[str]:
    """Tasks, their arguments, scores and methods, and all tests."""
    built = [task(name) for name in TASKS]
    arguments = {field.name for each in built for field in fields(cast(Any, each))}
    scores = {score.name.removesuffix("_first74") for each in built for score in each.scores}
    methods = {name for each in built for name in dir(each) if not name.startswith("_")}
    trees = [ast.parse(path.read_text()) for path in (ROOT / "tests" / "tasks").glob("test_*.py")]
    tests = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return set(TASKS) | arguments | scores | methods | tests


def test_rows_name_what_exists() -> None:
    named = {name for row in ROWS[1:] for name in re.findall(r"`([^`+]+)`", row[2])}
    assert len(named) > 20
    assert named <= known_names()


@pytest.mark.parametrize("name", TASKS)
def test_every_task_cites_rows_that_name_it(name: str) -> None:
    cited = re.findall(r"[ZCPM]\d+", TASKS[name].citation)
    assert cited
    for element in cited:
        (row,) = (row for row in ROWS[1:] if element in elements(row[0]))
        assert f"`{name}`" in " ".join(row), element
