"""The page on training: commands print what it shows, but for the last digits, which differ between processors."""

import re
from pathlib import Path

import pytest

from rnnlab.cli import main
from tests.pages import blocks, run_examples

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "train.md"


SCORE = r"\b\d\.\d{3,}(?:e-\d+)?\b"


def scores(text: str) -> list[float]:
    return [float(found) for found in re.findall(SCORE, text)]


def words(text: str) -> list[str]:
    """Everything but the scores."""
    return re.sub(SCORE, "SCORE", text).split()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_commands_print_what_they_show(capsys) -> None:
    commands = [
        found for block in blocks(PAGE, "console") for found in re.findall(r"^\$ rnnlab (.*)\n((?:(?!\$).*\n)*)", block)
    ]
    assert len(commands) == 2
    for command, shown in commands:
        assert main(command.split()) == 0
        printed = capsys.readouterr().out
        assert words(printed) == words(shown)
        assert scores(printed) == pytest.approx(scores(shown), rel=0.1)
        assert scores(shown)


def test_examples_run() -> None:
    run_examples(PAGE)
