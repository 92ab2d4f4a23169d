"""The page on comparing: its examples run, its commands mean what they say, its messages are those of the program."""

import json
import re
from pathlib import Path

import pytest

from rnnlab.cli import main
from tests.pages import blocks, run_examples

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "compare.md"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_examples_run() -> None:
    run_examples(PAGE)


def test_commands_run_with_less_to_do(capsys) -> None:
    """As they stand they take minutes."""
    (mine,) = blocks(PAGE, "json")
    json.loads(mine)
    Path("mine.json").write_text(mine)
    commands = re.findall(r"^\$ rnnlab (.*)$", "\n".join(blocks(PAGE, "console")), re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        words = command.replace("--budget 10m", "--budget 0.01s").replace("--length 25", "--length 5").split()
        words += ["--num-evaluation", "30", "--seeds", "2", "--steps", "3", "-p", "batch_size=2"]
        words += [] if "--budget" in words else ["--trials", "2"]
        assert main(words) == 0, words
        assert "report: compare-adding-" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["sh"], "a comparison needs two architectures or more"),
        (["sh", "tdd"], "no architecture is named 'tdd'; did you mean 'td'?"),
        (["sh", "sh:tanh"], "sh and sh:tanh are the same network"),
        (["sh", "td", "--parameters", "7"], "arm td: 7 parameters are too few: one unit a layer has 12 already"),
        (["sh", "td", "-o", "nowhere/r.html"], "cannot write nowhere/r.html: there is no folder nowhere"),
    ],
)
def test_messages_are_those_of_the_page(words: list[str], shown: str, capsys) -> None:
    assert f"`{shown}`" in PAGE.read_text()
    assert main(["compare", "--task", "adding", "--parameters", "100", *words]) == 2
    assert shown in capsys.readouterr().err


def test_options_of_the_page_exist(capsys) -> None:
    assert main(["compare", "--help"]) == 0
    known = capsys.readouterr().out
    for option in re.findall(r"^\| `(-[\w-]+)", PAGE.read_text(), re.MULTILINE):
        assert option in known
