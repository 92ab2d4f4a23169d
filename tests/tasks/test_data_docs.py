"""The table of docs/data.md says what the code and the golden counts say."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rnnlab.tasks.data_catalogue import DATA_SETS
from rnnlab.tasks.data_tasks import AbstractDataTask
from tests.pages import run_examples
from tests.tasks.test_real_data import GOLDEN, KINDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "data.md").read_text()
HOWTO = ROOT / "docs" / "howto" / "data.md"


def counts(task: AbstractDataTask) -> tuple[list[int], str]:
    texts = {row["task"]: row["symbols"] for row in GOLDEN["texts"] if not row["arguments"]}
    music = {row["task"]: row["sequences"] for row in GOLDEN["music"]}
    if task.name in texts:
        return texts[task.name], "symbols"
    if task.name in music:
        return music[task.name], "sequences"
    return (GOLDEN["sst"]["sentences"], "sentences") if task.name == "sst" else (GOLDEN["mnist"]["images"], "images")


@pytest.mark.parametrize("name", KINDS)
def test_table_has_the_sizes_of_every_task(name: str) -> None:
    task = KINDS[name]()
    numbers, what = counts(task)
    score = task.scores[0]
    cells = (
        f"`{name}`",
        f"{' / '.join(f'{number:,}' for number in numbers)} {what}",
        *(str(size) for size in (task.input_size, task.output_size, task.num_steps)),
        task.feed,
        f"{score.name}, {score.better}",
        f"{score.chance:.4g}",
    )
    assert f"| {' | '.join(cells)} |" in PAGE


def test_page_gives_the_golden_counts() -> None:
    (between,) = [row["symbols"] for row in GOLDEN["texts"] if row["arguments"]]
    assert " / ".join(f"{number:,}" for number in between) in PAGE
    assert f"all {GOLDEN['sst']['phrases'][0]:,} nodes" in PAGE
    assert f"{GOLDEN['sst']['training_vocabulary']:,}, and one for all others" in PAGE
    assert f"RandomState({GOLDEN['permutation']['seed']}).permutation(784)" in PAGE


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Iterator[None]:
    """An empty one; what the page sets and registers is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RNNLAB_DATA", str(tmp_path))
    data_sets = dict(DATA_SETS)
    yield
    DATA_SETS.clear()
    DATA_SETS.update(data_sets)


def test_howto_runs(folder: None) -> None:
    run_examples(HOWTO)
