"""The page on data of one's own: its file works as written, its blocks show what is printed, and the contract holds."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnlab import CheckpointError, Hyperparameters, TaskError, architecture, task, train
from rnnlab.cli import main
from rnnlab.tasks.registry import digest_json
from tests.pages import blocks, run_examples
from tests.tasks import contract

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "own-data.md"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (source,) = blocks(PAGE, "python")
    Path("sensors.py").write_text(source)
    write_table(seed=0)


def write_table(seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(300, 3))
    np.savetxt("sensors.csv", values, delimiter=",", header="a,b,c", comments="")


def test_command_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks(PAGE, "console")
    ((command, shown),) = re.findall(r"^\$ rnnlab (.*)\n((?:(?!\$).*\n)*)", block, re.MULTILINE)
    assert main(command.split()) == 0
    assert capsys.readouterr().out.startswith(shown)


def test_examples_run() -> None:
    run_examples(PAGE)


def test_task_keeps_the_contract() -> None:
    sensors = task("sensors.py", length=4)
    contract.check_samples(sensors)
    contract.check_splits(sensors, 3)
    contract.check_never_waits(sensors)
    contract.check_tally_is_exact(sensors, "test", (3, 11))
    batch = sensors.sample(4, generator=contract.generator())
    contract.check_scores(sensors, batch, None)
    contract.check_scores(sensors, batch, 3)
    contract.check_members_are_apart(sensors, batch, 3)


def test_task_with_edited_data_is_another_one() -> None:
    def trained(**options: Any) -> None:
        short = Hyperparameters(num_steps=2, evaluate_every=1)
        train(
            architecture("sh", input_size=3, output_size=1, units=2),
            task("sensors.py"),
            short,
            checkpoint="saved",
            **options,
        )

    before = digest_json(task("sensors.py"))
    trained()
    write_table(seed=0)
    assert digest_json(task("sensors.py")) == before
    trained(resume=True)
    write_table(seed=1)
    assert digest_json(task("sensors.py")) != before
    with pytest.raises(CheckpointError, match=r"another run: task\.file_digest is"):
        trained(resume=True)


def test_data_that_is_too_short_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "sensors.py", "--length", "45"]) == 2
    assert capsys.readouterr().err == "rnnlab: sensors.csv: 300 rows are too few for windows of 45\n"


def test_data_that_is_missing_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("sensors.csv").unlink()
    with pytest.raises(TaskError, match=r"cannot read sensors\.csv: No such file"):
        digest_json(task("sensors.py"))
    assert main(["show", "sensors.py"]) == 2
    assert capsys.readouterr().err == "rnnlab: sensors.csv not found.\n"
