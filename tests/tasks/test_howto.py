"""The page on own tasks: its file works as written, its blocks print what they show, and the contract holds."""

import re
from pathlib import Path

import pytest

from rnnlab import task
from rnnlab.cli import main
from tests.pages import blocks, run_examples
from tests.tasks import contract

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "own-task.md"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (source,) = blocks(PAGE, "python")
    Path("parity.py").write_text(source)


def test_commands_print_what_they_show(capsys) -> None:
    for block in blocks(PAGE, "console"):
        for command, shown in re.findall(r"^\$ rnnlab (.*)\n((?:(?!\$).*\n)*)", block, re.MULTILINE):
            assert main(command.split()) == 0
            assert capsys.readouterr().out == shown


def test_examples_run() -> None:
    run_examples(PAGE)


def test_own_task_keeps_the_contract() -> None:
    parity = task("parity.py", length=5, num_evaluation=30)
    contract.check_samples(parity)
    contract.check_splits(parity, 7)
    contract.check_never_waits(parity)
    contract.check_tally_is_exact(parity, "test", (7, 30))
    batch = parity.sample(4, generator=contract.generator())
    contract.check_scores(parity, batch, None)
    contract.check_scores(parity, batch, 3)
    contract.check_members_are_apart(parity, batch, 3)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--length=0", "length must be an integer of at least 1, got 0"),
        ("--length=x", "length must be of type int, got 'x'"),
        ("--length=2.5", "length must be of type int, got 2.5"),
        ("--length=true", "length must be of type int, got True"),
        ("--length=1,2", "length must be of type int, got (1, 2)"),
    ],
)
def test_wrong_arguments_are_one_line(word: str, message: str, capsys) -> None:
    assert main(["show", "parity.py", word]) == 2
    assert capsys.readouterr().err == f"rnnlab: {message}\n"


def test_named_files_exist() -> None:
    root = PAGE.parents[2]
    for path in re.findall(r"`((?:rnnlab|tests)/[\w/.]+)`", PAGE.read_text()):
        assert (root / path).exists(), path
