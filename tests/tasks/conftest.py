"""A user whose data folder holds small data sets of every form."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rnnlab.tasks.data_catalogue import DATA_SETS, DataSet, register_data_set
from tests.tasks.small_data import FILES, save_data_set


@pytest.fixture
def small_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, DataSet]]:
    """Small data sets by name, registered as a user's own; RNNLAB_DATA names their folder."""
    monkeypatch.setenv("RNNLAB_DATA", str(tmp_path / "small"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    made = {name: save_data_set(tmp_path / "small", name, make()) for name, make in FILES.items()}
    for data_set in made.values():
        register_data_set(data_set)
    yield made
    for name in made:
        del DATA_SETS[name]
