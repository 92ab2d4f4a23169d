"""docs/papers.md, the section on comparisons: what its rows name exists."""

import re
from pathlib import Path

import rnnlab
from rnnlab.report import history
from rnnlab.studies import capacity, statistics, welch_table
from rnnlab.tasks import capacity as labels

PAGE = Path(__file__).parents[2] / "docs" / "papers.md"


def test_rows_of_comparisons_name_what_exists() -> None:
    section = PAGE.read_text().split("## Comparisons\n")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if re.match(r"\| [ZCPM]\d", line)]
    assert [row[0].strip("| ") for row in rows] == ["C41", "C43", "C47", "C70", "C72", "C73", "C74", "Z53"]
    rooms = (rnnlab, history, capacity, statistics, welch_table, labels)
    for row in rows:
        (name,) = re.findall(r"`(\w+)`", row[2])
        assert any(callable(getattr(room, name, None)) for room in rooms), name
