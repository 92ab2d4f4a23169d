"""The papers' experiments at their smallest scale, on small data sets that stand for the real ones."""

from pathlib import Path

import pytest

from rnnlab import StudyRecord, run_study
from rnnlab.studies.specification import load_spec
from rnnlab.tasks.data_catalogue import DATA_SETS
from tests.tasks import small_data

FOLDER = Path(__file__).parents[2] / "rnnlab/studies/papers"
NAMES = tuple(path.stem for path in sorted(FOLDER.glob("*.toml")))

STANDING = {
    "mnist": small_data.mnist_files,
    "penn-treebank": small_data.ptb_files,
    "text8-first74": small_data.text8_files,
    "jsb-chorales": small_data.music_npz,
    "sentiment-treebank": small_data.sentiment_files,
}
"""What stands for the data sets that the smallest scales read."""


def put_small_data(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let small data sets of the same names stand for the real ones."""
    patch.setenv("RNNLAB_DATA", str(folder))
    patch.setenv("XDG_CONFIG_HOME", str(folder / "configuration"))
    for name, make in STANDING.items():
        patch.setitem(DATA_SETS, name, small_data.save_data_set(folder, name, make()))


def smoke(name: str, folder: Path) -> StudyRecord:
    """One of them, run."""
    return run_study(load_spec(FOLDER / f"{name}.toml", scale="smoke"), store=folder / f"{name}.db")
