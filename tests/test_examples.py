"""The scripts in examples/ run as they stand, and print what they promise."""

import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rnnlab import CELLS

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    cells = dict(CELLS)
    yield tmp_path
    CELLS.clear()  # an example registers a cell of its own
    CELLS.update(cells)


def printed(name: str, monkeypatch, capsys, *arguments: str) -> str:
    path = EXAMPLES / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [str(path), *arguments])
    runpy.run_path(str(path), run_name="__main__")
    return capsys.readouterr().out


def test_every_example_is_tested() -> None:
    source = Path(__file__).read_text()
    names = [path.stem for path in EXAMPLES.glob("*.py")]
    assert len(names) == 3
    assert all(f'printed("{name}", ' in source for name in names)


def test_own_architecture_is_measured_drawn_and_compared(folder: Path, monkeypatch, capsys) -> None:
    text = printed("own_architecture", monkeypatch, capsys, "--steps", "4")
    assert "recurrent skip coefficient  s   = 3/2   cycle a -[1]-> b -[2]-> a" in text
    assert (folder / "own_architecture" / "ring.svg").read_text().startswith("<svg")
    assert re.search(r"ring.*ring:gru|ring:gru.*ring", text)
    assert text.endswith(f"wrote {Path('own_architecture', 'report.html')}\n")


def test_own_training_loop_learns_and_streams(folder: Path, monkeypatch, capsys) -> None:
    text = printed("own_training_loop", monkeypatch, capsys)
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", text)]
    assert losses[-1] < 0.1 * losses[0]
    error, difference = re.findall(r"error (\S+), largest difference to one call (\S+)", text)[0]
    assert float(error) < 0.05
    assert float(difference) < 1e-5


def test_own_cell_equals_the_reference_and_learns(folder: Path, monkeypatch, capsys) -> None:
    text = printed("own_cell", monkeypatch, capsys)
    assert float(re.findall(r"reference path: (\S+)", text)[0]) < 1e-10
    scores = [float(score) for score in re.findall(r"^ +\d +(\S+) ", text, re.MULTILINE)]
    assert len(scores) == 2
    assert max(scores) < 0.167  # chance: predict 1
