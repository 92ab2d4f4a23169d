"""The pages on tuning and studies: their commands print what they show, but for the last digits, and examples run."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rnnlab.cli import main
from tests.pages import blocks, run_examples
from tests.training.test_howto import scores, words

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
PAGES = [HOWTO / name for name in ("tune.md", "own-space.md", "study.md")]
CLUSTER = HOWTO / "cluster.md"


def files(page: Path, language: str) -> dict[str, str]:
    """What the page names as files, by name."""
    pattern = rf"`([\w.]+)`:\n\n```{language}\n(.*?)^```$"
    return dict(re.findall(pattern, page.read_text(), flags=re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_runs_from_its_beginning_to_its_end(
    page: Path, capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in files(page, "toml").items():
        Path(name).write_text(text)
    commands = [
        found for block in blocks(page, "console") for found in re.findall(r"^\$ rnnlab (.*)\n((?:.*\n)*)", block)
    ]
    assert len(commands) == 1
    for command, shown in commands:
        assert main(command.split()) == 0
        printed = capsys.readouterr().out
        assert words(printed) == words(shown)
        assert scores(printed) == pytest.approx(scores(shown), rel=0.1)
        assert scores(shown)
    run_examples(page)


def test_script_for_slurm_is_a_script(tmp_path: Path) -> None:
    ((name, text),) = files(CLUSTER, "bash").items()
    (tmp_path / name).write_text(text)
    subprocess.run(["bash", "-n", name], cwd=tmp_path, check=True)
    assert text.splitlines()[0] == "#!/bin/bash"


def test_commands_for_clusters_have_options_that_exist(capsys: Any) -> None:
    main(["study", "run", "--help"])
    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    text = CLUSTER.read_text().replace("\\\n", "")
    commands = re.findall(r"^ *(?:srun )?rnnlab study run .*$", text, flags=re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        options = set(re.findall(r"--[a-z-]+", command))
        assert options
        assert options <= known
    mentioned = set(re.findall(r"`(--(?!signal)[a-z-]+)", text))
    assert {"--ray", "--grace", "--cpus-per-worker", "--workers"} <= mentioned <= known
