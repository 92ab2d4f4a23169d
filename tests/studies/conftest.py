"""A small study that many tests look at, and none changes."""

from pathlib import Path

import pytest

from rnnlab import StudyRecord
from tests.studies.small_specs import ran


@pytest.fixture(scope="session")
def done_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studies")


@pytest.fixture(scope="session")
def done(done_folder: Path) -> StudyRecord:
    return ran(done_folder)
